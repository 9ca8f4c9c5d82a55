"""
Ages: from a plan to a median with its interval
===============================================

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
# Bounds and bins are public. Declare them, and do not learn them from the users.
bins = Domain.bins(64, bounds=(0, 100))
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
# The bands are simultaneous intervals of the raw estimate. The true frequencies jump, because a bin
# of 1.6 years contains one or two whole years. Reports about ranges cannot show these jumps.
truth = np.bincount(bins.encode(ages), minlength=64) / len(ages)
_ = DistributionDisplay.from_estimator(curve, truth=truth)

# %%
# Queries are ranges in years. The intervals belong to the raw estimate.
pairs = [(20, 40), (65, 100)]
queries = between(pairs)
print(curve.estimate_.answer(queries).round(3))
print(raw.confidence_interval(0.95, queries=queries))
print("true frequencies:", [round(float(np.mean((ages >= a) & (ages < b))), 3) for a, b in pairs])

# %%
# These are errors of the distribution function, for the raw estimate and after each method.
for estimate in (raw, monotone.estimate_, curve.estimate_):
    errors = estimate.answer(prefixes())[0] - np.cumsum(truth)
    made_by = " + ".join(estimate.postprocessors) or "raw estimate"
    print(f"{made_by:12} {np.sqrt(np.mean(errors**2)):.4f}")

# %%
# Quantiles have intervals as well. They are valid for any position of users within bins, such as
# whole years.
for probability in (0.1, 0.5, 0.9):
    value, low, high = (end.item() for end in quantiles(curve.estimate_, [probability]))
    print(f"{probability:.0%} are younger than {value:.1f} (95 %: {low:.1f} to {high:.1f})")

# %%
# If you need only the mean, reports of the numbers without bins are more accurate.
mean = LocalMean(epsilon=1.0, bounds=(0, 100), random_state=1).fit(ages)
low, high = mean.confidence_interval(0.95)
print(f"mean {mean.mean_:.2f} (95 %: {low:.2f} to {high:.2f}); true mean {ages.mean():.2f}")
