"""
17. Ages: from a plan to a median with its interval
===================================================

This example estimates the distribution of ages without collecting any true age. It plans the
collection, collects one private report from each user, and computes ranges, quantiles and the mean.

The rows are Adult, a sample of the US census of 1994 (B. Becker and R. Kohavi, UCI, CC BY 4.0), if
the files exist. Otherwise they are synthetic.
"""

import numpy as np

from shared_incomes import load_incomes
from sklearn_ldp import Domain, LocalMean, MonotoneCDF, RangeOracle, SmoothMLE
from sklearn_ldp.inference import quantiles
from sklearn_ldp.inspection import DistributionDisplay
from sklearn_ldp.planning import Plan
from sklearn_ldp.queries import between, prefixes

users, _, _, _, name = load_incomes()
ages = users["age"].to_numpy()
print(f"{name}: {len(ages):,} users")

# %%
# Bounds and bins are public. Declare them, and do not learn them from the users. Ages are whole
# numbers, which ``integers=True`` declares.
bins = Domain.bins(100, bounds=(0, 100), integers=True)
oracle = RangeOracle(epsilon=1.0, categories=bins, random_state=0)

# %%
# Before the collection, the plan shows the error of the distribution function, and the number of
# users for intervals of one percentage point to either side.
plan = Plan(oracle, queries=prefixes())
print(f"expected error with {len(ages):,} users: {plan.rmse(n_users=len(ages)):.3f}")
print(f"users for a half width of 0.01: {plan.users_for(half_width=0.01):,}")

# %%
# Each user sends one report, and the reports make an estimate. ``SmoothMLE`` averages smooth curves
# by their marginal likelihood; ``MonotoneCDF`` assumes only that frequencies are not negative.
raw = oracle.fit_transform(ages)
curve, monotone = SmoothMLE().fit(raw), MonotoneCDF().fit(raw)
print(f"probability of a smooth curve: {curve.curve_weight_:.2f}")

# %%
# The bands are simultaneous intervals of the raw estimate. Each bin is a whole year. With 64 bins
# of 1.6 years, the true frequencies would jump between bins of one and of two whole years.
truth = np.bincount(bins.encode(ages), minlength=100) / len(ages)
display = DistributionDisplay.from_estimator(curve, truth=truth)
_ = display.ax_[1].set(xlabel="age in years", ylabel="proportion of users up to here")

# %%
# Queries are ranges in years. The intervals belong to the raw estimate.
pairs = [(20, 40), (65, 100)]
queries = between(pairs)
print(curve.estimate_.answer(queries).round(3))
print(raw.confidence_interval(0.95, queries=queries))
print(
    "true frequencies:",
    [round(float(np.mean((ages >= a) & (ages < b))), 3) for a, b in pairs],
)

# %%
# These are errors of the distribution function, for the raw estimate and after each method.
for estimate in (raw, monotone.estimate_, curve.estimate_):
    errors = estimate.answer(prefixes())[0] - np.cumsum(truth)
    made_by = " + ".join(estimate.postprocessors) or "raw estimate"
    print(f"{made_by:12} {np.sqrt(np.mean(errors**2)):.4f}")

# %%
# Quantiles have intervals as well.
for probability in (0.1, 0.5, 0.9):
    value, low, high = (end.item() for end in quantiles(curve.estimate_, [probability]))
    print(f"{probability:.0%} are younger than {value:g} (95 %: {low:g} to {high:g})")

# %%
# If you need only the mean, reports of the numbers without bins are more accurate.
mean = LocalMean(epsilon=1.0, bounds=(0, 100), random_state=1).fit(ages)
low, high = mean.confidence_interval(0.95)
print(
    f"mean {mean.mean_:.2f} (95 %: {low:.2f} to {high:.2f}); true mean {ages.mean():.2f}"
)
