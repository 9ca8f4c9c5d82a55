"""
25. Places: a map from private reports
=======================================

Where are the users? This example collects one private report about the place of each user,
estimates the frequency of each cell of a grid, and answers queries about rectangles.
"""

import matplotlib.pyplot as plt
import numpy as np

from sklearn_ldp import Domain, RangeOracle, SmoothMLE
from sklearn_ldp.inspection import MapDisplay
from sklearn_ldp.queries import between, densest

rng = np.random.default_rng(0)
towns = np.array([[9.2, 48.8], [11.6, 48.1], [10.9, 49.4]])
users = towns[rng.choice(3, size=100_000, p=[0.4, 0.4, 0.2])] + rng.normal(
    0, 0.3, (100_000, 2)
)

# %%
# Bounds and bins are public. Places outside of the bounds are counted in the outer cells.
grid = Domain.grid(
    Domain.bins(32, bounds=(8, 13), clip=True),
    Domain.bins(32, bounds=(47, 50), clip=True),
)
oracle = RangeOracle(epsilon=1.0, categories=grid, random_state=0)
raw = oracle.fit_transform(users)
model = SmoothMLE().fit(raw)

# %%
# The left map shows the raw estimate, and the right map the result of SmoothMLE. In hatched cells
# the interval of the raw estimate contains 0, so these cells may have no users.
_, axes = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
names = ("longitude", "latitude")
MapDisplay.from_estimate(raw, ax=axes[0], names=names)
_ = MapDisplay.from_estimator(model, ax=axes[1], names=names)

# %%
# In a figure of its own, the map has the distributions of both numbers beside it. A contour is the
# smallest area that contains a share of the estimate.
_ = MapDisplay.from_estimator(model, contours=[0.5, 0.9], names=names)

# %%
# The error of the map is the total variation distance from the true shares.
truth = np.bincount(grid.encode(users), minlength=grid.size) / len(users)
for name, estimate in (("raw", raw), ("SmoothMLE", model.estimate_)):
    print(f"{name}: {np.abs(estimate.values[0] - truth).sum() / 2:.2f}")

# %%
# A rectangle is a range of each number. Intervals come from the raw estimate.
east_of_ulm = between([((10, 13), (47, 50))])
print(model.estimate_.answer(east_of_ulm))
print(raw.confidence_interval(0.95, queries=east_of_ulm))

# %%
# The users who select an area are overrepresented in it. So half of the users select the area, and
# the interval comes from the other half.
half, other_half = raw.of_shards(range(5)), raw.of_shards(range(5, 10))
area = densest(SmoothMLE().fit_transform(half), 0.5)
print(other_half.confidence_interval(0.95, area))
