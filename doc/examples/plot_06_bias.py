"""
The bias of post-processors for frequent and rare categories
============================================================

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
raw = OLH(epsilon=1.0, categories=n_categories, random_state=0).simulate(counts, n_repeats=1000)

# %%
# The plot shows the bias of each method, from the most frequent category on the left to the rarest
# on the right. For an unbiased method, 95 % of the points lie in the gray band.
methods = [Base(), BasePos(), BaseCut(), NormMul(), NormSub(), PowerNS()]
figure, axes = plt.subplots(2, 3, figsize=(9, 5), sharex=True, sharey=True, layout="constrained")
for ax, method in zip(axes.flat, methods, strict=True):
    processed = method.fit_transform(raw)
    result = bias_variance(truth, processed)
    rank = np.arange(1, n_categories + 1)
    noise = 1.96 * raw.noise.std / np.sqrt(len(raw))
    ax.axhspan(-noise, noise, color="0.9", zorder=0)
    ax.plot(rank, result.bias, ".", markersize=4)
    ax.set_title(f"{type(method).__name__}, sum {result.bias.sum():+.3f}", fontsize="medium")
    ax.set_yscale("symlog", linthresh=1e-3)
    ax.set_xscale("log")
figure.supxlabel("rank of the category")
_ = figure.supylabel("bias of the estimated frequency")

# %%
# Base is the raw estimate, without bias. BasePos raises every rare category a little. These small
# biases add up: the estimates of BasePos sum to a fifth more than 1. BaseCut sets categories of
# medium frequency to zero. NormMul reduces the frequent categories the most. NormSub subtracts the
# same amount from all categories that stay above zero, and PowerNS hardly changes the most frequent
# categories.
