"""
Plan a collection
=================

How many users does a collection need, and how small a frequency can it detect? The variance of the
oracles is known exactly, so both questions can be answered before any data is collected.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from sklearn_ldp import GRR, OLH, OUE, ProjectiveGeometryResponse, SubsetSelection, best_oracle
from sklearn_ldp.metrics import detection_threshold, expected_error, required_n_samples
from sklearn_ldp.oracles import compare_oracles

# %%
# A domain of 1,000 categories, and epsilon 1. What do the oracles cost?
n_categories, epsilon = 1000, 1.0
pd.DataFrame(compare_oracles(epsilon, n_categories)).round(3)

# %%
# The best oracle whose reports take at most 64 bits:
oracle = best_oracle(epsilon, n_categories, max_report_bits=64)
oracle

# %%
# The number of users for which the confidence interval of a category is half a percent wide to
# either side, on average:
oracles = [oracle, OLH(), OUE(), SubsetSelection(), GRR()]
n = required_n_samples(oracles, 0.005, n_categories, epsilon=epsilon, metric="half_width")
for one, n_samples in zip(oracles, n, strict=True):
    print(f"{type(one).__name__:28} {n_samples:12,}")

# %%
# And the frequency that a category must have to be told from one that nobody has (with at most 0.05
# false discoveries expected among the thousand categories):
sizes = np.geomspace(1e4, 1e8, 9)
figure, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
for one in [ProjectiveGeometryResponse(), GRR()]:
    name = type(one).__name__
    threshold = [detection_threshold(one, n, n_categories, epsilon=epsilon) for n in sizes]
    error = [expected_error(one, n, n_categories, epsilon=epsilon) for n in sizes]
    axes[0].loglog(sizes, threshold, "o-", label=name)
    axes[1].loglog(sizes, error, "o-", label=name)
axes[0].set_ylabel("smallest frequency that shows")
axes[1].set_ylabel("mean squared error")
for ax in axes:
    ax.set_xlabel("users")
    ax.grid(True, color="0.9")
_ = axes[0].legend()
