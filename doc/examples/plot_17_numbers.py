"""
Ages: from a plan to a median with its interval
===============================================

How old are the users, if nobody may know the age of any of them? This example plans the collection,
collects one private report from each user, and reads ranges, quantiles and the mean.

The rows are those of Adult, a sample of the US census of 1994 (B. Becker and R. Kohavi, UCI,
CC BY 4.0), if they are at hand, and made up otherwise.
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
# Bounds and bins are public, so they are declared, and not learnt from the users.
bins = Domain.bins(64, bounds=(0, 100))
oracle = RangeOracle(epsilon=1.0, categories=bins, random_state=0)

# %%
# The plan tells the error of the distribution function before anybody is asked, and how many users
# an interval of a percentage point to either side would take.
plan = Plan(oracle, queries=prefixes())
print(f"expected error with {len(ages):,} users: {plan.rmse(n_users=len(ages)):.3f}")
print(f"users for half a width of 0.01: {plan.users_for(half_width=0.01):,}")

# %%
# Each user sends one report, and the reports make an estimate. ``SmoothMLE`` averages smooth curves
# by their evidence; ``MonotoneCDF`` assumes nothing but that shares are not negative.
raw = oracle.fit_transform(ages)
curve, monotone = SmoothMLE().fit(raw), MonotoneCDF().fit(raw)
print(f"probability of a smooth curve: {curve.curve_weight_:.2f}")

# %%
# The bands are those of the raw estimate, and hold everywhere at once. The truth jumps, since a bin
# of 1.6 years holds one or two whole years; reports about ranges cannot tell, and need not.
truth = np.bincount(bins.encode(ages), minlength=64) / len(ages)
_ = DistributionDisplay.from_estimator(curve, truth=truth)

# %%
# Ranges are asked for in years. The interval is that of the raw estimate.
pairs = [(20, 40), (65, 100)]
asked = between(pairs)
print(curve.estimate_.answer(asked).round(3))
print(raw.confidence_interval(0.95, queries=asked))
print("true shares:", [round(float(np.mean((ages >= a) & (ages < b))), 3) for a, b in pairs])

# %%
# Errors of the distribution function: the raw estimate, and after either method.
for estimate in (raw, monotone.estimate_, curve.estimate_):
    errors = estimate.answer(prefixes())[0] - np.cumsum(truth)
    made_by = " + ".join(estimate.postprocessors) or "raw estimate"
    print(f"{made_by:12} {np.sqrt(np.mean(errors**2)):.4f}")

# %%
# Quantiles have intervals, too. They hold wherever users are within bins, also at whole years.
for probability in (0.1, 0.5, 0.9):
    value, low, high = (end.item() for end in quantiles(curve.estimate_, [probability]))
    print(f"{probability:.0%} are younger than {value:.1f} (95 %: {low:.1f} to {high:.1f})")

# %%
# If only the mean is asked for, one number per user without bins is more accurate.
mean = LocalMean(epsilon=1.0, bounds=(0, 100), random_state=1).fit(ages)
low, high = mean.confidence_interval(0.95)
print(f"mean {mean.mean_:.2f} (95 %: {low:.2f} to {high:.2f}); true mean {ages.mean():.2f}")
