"""
10. Ordered categories: ages, hours, amounts
============================================

Neighboring ages, hours and amounts often have similar frequencies. ``EmpiricalBayes(ordered=True)``
and ``Smooth`` use this similarity; other methods ignore the order.

**When not to use it.** If single values are much more frequent than their neighbors, such as
rounded answers, these methods smooth the spikes away. Use the plain ``EmpiricalBayes`` for the
frequencies of such values.
"""

import matplotlib.pyplot as plt
import numpy as np

from sklearn_ldp import OLH, EmpiricalBayes, Smooth
from sklearn_ldp.datasets import make_beta
from sklearn_ldp.metrics import frequency_mse, query_errors
from sklearn_ldp.queries import ranges

n_samples, n_categories = 100_000, 200
counts = make_beta(
    n_samples, n_categories, a=8, b=3, return_counts=True, random_state=0
)
counts[:60] = 0  # no user is below the first range
counts[100::20] *= 3  # many users round their answers
truth = counts / counts.sum()
oracle = OLH(epsilon=1.0, categories=n_categories, random_state=0)
raw = oracle.simulate(counts)

# %%
# The method averages two models, a smooth curve and ranges that differ, weighted by their marginal
# likelihood. If the order contained no information, the result would equal the result of the plain
# ``EmpiricalBayes``.
ordered = EmpiricalBayes(ordered=True).fit(raw)
print(f"probability of a curve rather than ranges: {ordered.curve_weight_[0]:.0%}")

# %%
# The plot shows the gain on most categories, and the loss: the five spikes of rounded answers
# disappear with ``ordered=True``.
figure, ax = plt.subplots(figsize=(8, 4.5), layout="constrained")
ax.plot(raw.values[0], ".", color="0.75", label="raw estimate")
ax.plot(truth, "-", color="black", linewidth=1, label="truth")
methods = {
    "EmpiricalBayes()": (EmpiricalBayes(), "-"),
    "EmpiricalBayes(ordered=True)": (EmpiricalBayes(ordered=True), "--"),
}
for name, (method, line) in methods.items():
    estimate = method.fit_transform(raw)
    label = f"{name}, mean squared error {frequency_mse(truth, estimate):.1e}"
    ax.plot(estimate.values[0], line, label=label)
ax.set(
    xlabel="category", ylabel="frequency", ylim=(-0.016, 0.062)
)  # room for the legend
ax.yaxis.set_major_formatter(lambda x, _: f"{100 * x:g} %")
_ = ax.legend(loc="upper left")

# %%
# The queries are now ten ranges, in 20 collections. The plain ``EmpiricalBayes`` shrinks every
# category towards the same prior, and loses the differences between ranges. Both methods that use
# the order are far better.
many = oracle.simulate(counts, n_repeats=20)
for post in (EmpiricalBayes(), Smooth(), EmpiricalBayes(queries=ranges(10))):
    errors = query_errors(truth, post.fit_transform(many), queries=ranges(10))
    print(f"{post!r:42} {np.mean(errors):.1e}")

# %%
# These methods use the order in which you declare the categories. Declare the natural order, such
# as ``categories=range(100)``, and not strings in alphabetical order.
