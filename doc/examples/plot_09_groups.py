"""
=====================================
9. Shops of a chain, region by region
=====================================

There are 600 shops in 12 regions. Which shop does a customer visit, and how many customers does
each region have? The shops of a region are similar, so information about a region improves the
estimates of its shops.

The shops are *synthetic*. Regions differ in the sizes of their shops, and in the number of shops
that are open.
"""

# %%
# One collection
# --------------
# 200,000 customers report with epsilon = 1. Most shops are smaller than the noise.

import numpy as np

from sklearn_ldp import OUE, EmpiricalBayes, NormSub
from sklearn_ldp.inspection import FrequencyDisplay
from sklearn_ldp.queries import groups

rng = np.random.default_rng(7)
region = np.repeat([f"region {i:02d}" for i in range(1, 13)], 50)
size = np.repeat(rng.lognormal(0, 1, 12), 50)
is_open = rng.random(600) < np.repeat(rng.uniform(0.2, 1, 12), 50)
shops = is_open * size * rng.lognormal(0, 0.6, 600)
counts = rng.multinomial(200_000, shops / shops.sum())

estimate = OUE(epsilon=1.0, categories=600, random_state=0).simulate(counts)
truth = counts / counts.sum()
print(
    f"noise level {float(estimate.noise.std):.4f}, median frequency {np.median(truth):.4f}"
)

# %%
# Three estimates
# ---------------
# `EmpiricalBayes` learns the distribution of frequencies over all shops. With `groups` it also
# learns the differences between regions.

posts = {
    "raw": None,
    "Norm-Sub": NormSub(),
    "one prior for all": EmpiricalBayes(),
    "priors of groups": EmpiricalBayes(groups=region),
}
print(f"{'':20}{'shops':>10}{'regions':>10}   (root mean squared errors)")
for name, post in posts.items():
    result = estimate if post is None else post.fit_transform(estimate)
    shop_error = np.sqrt(np.mean((result.values[0] - truth) ** 2))
    true_totals = groups(region).matrix(600) @ truth
    region_error = np.sqrt(
        np.mean((result.answer(groups(region))[0] - true_totals) ** 2)
    )
    print(f"{name:20}{shop_error:10.5f}{region_error:10.5f}")

# %%
# The regions
# -----------
# The raw totals are noisy. A common prior shrinks all regions towards each other, because it
# ignores that fifty small shops are small for the same reason. Priors of groups learn this from the
# regions.

regions = {"queries": groups(region), "orientation": "horizontal"}
display = FrequencyDisplay.from_estimate(estimate, truth=truth, **regions)
for name in ("one prior for all", "priors of groups"):
    FrequencyDisplay.from_estimator(posts[name], name=name, ax=display.ax_, **regions)

# %%
# Two numbers describe the result. The log evidence is the logarithm of the Bayes factor for
# differences between regions. The weight is the part of the result that uses these differences.

(totals,) = posts["priors of groups"].group_totals_
print(f"log evidence {totals.log_evidence[0]:.1f}, weight {totals.share[0]:.2f}")

# %%
# Groups without differences
# --------------------------
# Here the shops are assigned to the regions at random. The evidence is then against differences
# between regions, and the estimate hardly changes.

shuffled = EmpiricalBayes(groups=rng.permutation(region)).fit(estimate)
(totals,) = shuffled.group_totals_
print(f"log evidence {totals.log_evidence[0]:.1f}, weight {totals.share[0]:.2f}")
