"""
=============================
What changed since last week?
=============================

Different users answer the same question in each of four weeks. Which changes are significant, if
you look for them in the estimates themselves?

The frequencies of the first three weeks are the populations of the US states. The fourth week has
one *planted* change: one percentage point moves from Ohio to Texas. Nothing else changes, so every
other reported change is a false discovery.
"""

# %%
# Four collections
# ----------------
# Each week, 400,000 users report with epsilon = 2. They are a random sample of the population.

import numpy as np

from sklearn_ldp import OUE
from sklearn_ldp.datasets import load_us_states
from sklearn_ldp.inspection import DifferenceDisplay, TrendDisplay
from sklearn_ldp.oracles import estimate_by_group

states = load_us_states()
shares = np.array([states.frequencies] * 4)
texas, ohio = (states.categories.tolist().index(name) for name in ("Texas", "Ohio"))
shares[3, [texas, ohio]] += [0.01, -0.01]

rng = np.random.default_rng(0)
counts = np.array([rng.multinomial(400_000, share) for share in shares])
week, state = np.nonzero(counts)

# %%
# One call estimates all four weeks. `sample_weight` is the number of users of each row.

oracle = OUE(epsilon=2.0, categories=states.categories, random_state=0)
weeks = estimate_by_group(
    oracle, states.categories[state], week + 1, sample_weight=counts[week, state]
)
print(weeks)

# %%
# The course of five states
# -------------------------
# The bands are simultaneous for all 51 states and all four weeks. Therefore they are valid for the
# five states of the plot, although the estimates selected these.

_ = TrendDisplay.from_estimate(weeks)

# %%
# The last change
# ---------------
# A difference contains the noise of both estimates, and the sampling of other people each week.

change = weeks[3] - weeks[2]
print(change)
_ = DifferenceDisplay.from_difference(change)

# %%
# In 95 % of such plots, all orange marks are correct. The list below controls another error rate:
# on average, at most 5 % of its states are false discoveries.

print(change.changed(0.95))
print(change.changed(0.95)[0])

# %%
# A test of any change. In the week before, nothing changed.

for name, difference in {"week 4 - 3": change, "week 3 - 2": weeks[2] - weeks[1]}.items():
    test = difference.test()
    print(
        f"{name}: chi-square {test.statistic[0]:.1f} on {test.degrees_of_freedom}, "
        f"p = {test.p_value[0]:.2g}"
    )

# %%
# The change of Texas:

low, high = change.confidence_interval(0.95)
print(f"Texas: {low[0, texas]:.2%} to {high[0, texas]:.2%}; the planted change is 1.00%")
