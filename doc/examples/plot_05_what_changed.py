"""
===================================================
5. Changes since last week, with a stated certainty
===================================================

The same question is asked in four weeks, of different users each week. Which changes can you report
if you choose the states after seeing the estimates?

In the first three weeks the frequencies are the US states' proportions of the population. In the
fourth week one percentage point moves from Ohio to Texas. Nothing else changes, so any other
reported change is wrong.
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
frequencies = np.array([states.frequencies] * 4)
texas, ohio = (states.categories.tolist().index(name) for name in ("Texas", "Ohio"))
frequencies[3, [texas, ohio]] += [0.01, -0.01]

rng = np.random.default_rng(0)
counts = np.array([rng.multinomial(400_000, row) for row in frequencies])
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
# five states of the plot, although the estimates selected these states.

display = TrendDisplay.from_estimate(weeks)
_ = display.ax_.set(xlabel="week", ylim=(0.03, 0.13))

# %%
# The last change
# ---------------
# A difference of two estimates contains the noise of both estimates and the sampling error, because
# other people answered each week.

change = weeks[3] - weeks[2]
print(change)
_ = DifferenceDisplay.from_difference(change)

# %%
# In 95 % of such plots all orange marks are correct. The list below has another guarantee: on
# average, at most 5 % of its states are wrong.

print(change.changed(0.95))
print(change.changed(0.95)[0])

# %%
# Did any frequency change? Between the second and the third week nothing changed.

for name, difference in {
    "week 4 - 3": change,
    "week 3 - 2": weeks[2] - weeks[1],
}.items():
    test = difference.test()
    print(
        f"{name}: chi-square {test.statistic[0]:.1f} on {test.degrees_of_freedom}, "
        f"p = {test.p_value[0]:.2g}"
    )

# %%
# How much did Texas rise?

low, high = change.confidence_interval(0.95)
print(
    f"Texas: between {low[0, texas]:.2%} and {high[0, texas]:.2%}; the truth is 1.00%"
)
