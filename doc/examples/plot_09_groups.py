"""
==================================
Shops of a chain, region by region
==================================

There are 600 shops in 12 regions. Which shop does a customer go to, and how many customers does
each region have? Shops of one region are alike here, so what is learnt of a region makes the
estimates of its shops better.

The shops are *made up*. Regions differ in how large their shops are, and in how many of them are
open at all.
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
print(f"noise level {float(estimate.noise.std):.4f}, median frequency {np.median(truth):.4f}")

# %%
# Three estimates
# ---------------
# `EmpiricalBayes` learns how frequencies are distributed over all shops. With `groups` it also
# learns how much regions differ, and in which way.

posts = {
    "raw": None,
    "Norm-Sub": NormSub(),
    "one prior for all": EmpiricalBayes(),
    "priors of groups": EmpiricalBayes(groups=region),
}
print(f"{'':20}{'shops':>10}{'regions':>10}   (root mean squared errors)")
for name, post in posts.items():
    result = estimate if post is None else post.fit_transform(estimate)
    of_shops = np.sqrt(np.mean((result.values[0] - truth) ** 2))
    matrix = groups(region).matrix(600)
    of_regions = np.sqrt(np.mean((result.answer(groups(region))[0] - matrix @ truth) ** 2))
    print(f"{name:20}{of_shops:10.5f}{of_regions:10.5f}")

# %%
# The regions
# -----------
# The raw totals are noisy. A common prior draws all regions together: it does not know that fifty
# small shops are small for the same reason. Priors of groups learn that from the regions.

regions = {"queries": groups(region), "orientation": "horizontal"}
display = FrequencyDisplay.from_estimate(estimate, truth=truth, **regions)
for name in ("one prior for all", "priors of groups"):
    FrequencyDisplay.from_estimator(posts[name], name=name, ax=display.ax_, **regions)

# %%
# Two numbers say what was learnt. The first is the logarithm of how much more likely the estimates
# are if regions differ. The second is the share of the result that follows from this.

(learnt,) = posts["priors of groups"].group_totals_
print(f"log evidence {learnt.log_evidence[0]:.1f}, share {learnt.share[0]:.2f}")

# %%
# Where there is nothing to learn
# -------------------------------
# Here the shops are dealt to the regions by lot. The evidence is then against differences between
# regions, and the estimate stays nearly what it was.

by_lot = EmpiricalBayes(groups=rng.permutation(region)).fit(estimate)
(learnt,) = by_lot.group_totals_
print(f"log evidence {learnt.log_evidence[0]:.1f}, share {learnt.share[0]:.2f}")
