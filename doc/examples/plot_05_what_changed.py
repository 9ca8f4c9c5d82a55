"""
===========================================
What changed since last week, and how sure?
===========================================

Four weeks of one question, asked of different users each week. What may be said about the change,
when the estimates themselves choose what is looked at?

The shares of the first three weeks are those of the US states' populations. In the fourth week a
change is *planted*: one percentage point moves from Ohio to Texas. Everything else is the same, so
that whatever else is called a change is wrong.
"""

# %%
# Four collections
# ----------------
# Each week 400,000 users, drawn from the population, report with epsilon = 2.

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
# The bands are simultaneous for all 51 states and all four weeks. So they are also valid for the
# five states that are shown, although the estimates have chosen these states.

TrendDisplay.from_estimate(weeks)

# %%
# The last change
# ---------------
# A difference of two estimates knows the noise of both, and that other people answered each week.

change = weeks[3] - weeks[2]
print(change)
DifferenceDisplay.from_difference(change)

# %%
# In 95 % of such plots the orange marks are right for all states simultaneously. The list below
# answers another question: on average at most 5 % of the states that it names are wrong.

print(change.changed(0.95))
print(change.changed(0.95)[0])

# %%
# Did anything change at all? The week before, nothing did.

for name, difference in {"week 4 - 3": change, "week 3 - 2": weeks[2] - weeks[1]}.items():
    test = difference.test()
    print(
        f"{name}: chi-square {test.statistic[0]:.1f} on {test.degrees_of_freedom}, "
        f"p = {test.p_value[0]:.2g}"
    )

# %%
# How much did Texas rise?

low, high = change.confidence_interval(0.95)
print(f"Texas: between {low[0, texas]:.2%} and {high[0, texas]:.2%}; planted was 1.00%")
