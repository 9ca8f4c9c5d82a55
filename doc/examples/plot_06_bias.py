"""
6. The bias of post-processors for frequent and rare categories
===============================================================

A post-processor reduces the variance and adds bias. The biased categories determine the suitable
uses of the estimate. This example simulates 1,000 collections from the same 100,000 users, and
compares the mean of each method's estimates with the truth.
"""

import matplotlib.pyplot as plt
import numpy as np

from sklearn_ldp import OLH, Base, BaseCut, BasePos, NormMul, NormSub, PowerNS
from sklearn_ldp.datasets import make_zipf
from sklearn_ldp.metrics import bias_variance

n_samples, n_categories = 100_000, 128
counts = make_zipf(n_samples, n_categories, return_counts=True, random_state=0)
counts = np.sort(counts)[::-1]
truth = counts / n_samples

# %%
# ``simulate`` draws whole collections from the counts, without simulating single users.
raw = OLH(epsilon=1.0, categories=n_categories, random_state=0).simulate(
    counts, n_repeats=1000
)

# %%
# The plot shows the bias of each method, from the most frequent category on the left to the rarest
# on the right. For an unbiased method, 95 % of the points lie in the gray band. Between the two
# dotted lines the axis is linear, and outside of them logarithmic.
methods = [Base(), BasePos(), BaseCut(), NormMul(), NormSub(), PowerNS()]
figure, axes = plt.subplots(
    2, 3, figsize=(9, 6), sharex=True, sharey=True, layout="constrained"
)
for ax, method in zip(axes.flat, methods, strict=True):
    processed = method.fit_transform(raw)
    result = bias_variance(truth, processed)
    rank = np.arange(1, n_categories + 1)
    noise = 196 * raw.noise.std / np.sqrt(len(raw))  # percentage points
    ax.axhspan(-noise, noise, color="0.85", zorder=0, label="95 % of unbiased points")
    ax.axhline(0, color="black", linewidth=0.8)
    for limit in (-0.1, 0.1):
        ax.axhline(limit, color="0.6", linewidth=0.8, linestyle=":")
    ax.plot(rank, 100 * result.bias, ".", markersize=4, label="one category")
    ax.set_title(
        f"{type(method).__name__}, sum {100 * result.bias.sum():+.1f}",
        fontsize="medium",
    )
    ax.set_yscale("symlog", linthresh=0.1)
    ax.set_yticks([-10, -1, -0.1, 0, 0.1], ["-10", "-1", "-0.1", "0", "0.1"])
    ax.set_xscale("log")
    ax.set_xticks([1, 10, 100], ["1", "10", "100"])
axes[0, 0].legend(loc="lower right", fontsize="small")
figure.supxlabel("rank of the category by its true frequency")
_ = figure.supylabel("bias, percentage points")

# %%
# Base is the raw estimate, without bias. BasePos raises every rare category a little. These small
# biases add up: the estimates of BasePos sum to a fifth more than 1. BaseCut sets categories of
# medium frequency to zero. NormMul reduces the frequent categories the most. NormSub subtracts the
# same amount from all categories that stay above zero, and PowerNS hardly changes the most frequent
# categories.
