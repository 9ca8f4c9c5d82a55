"""
Ordered categories: smooth them
===============================

Ages, hours and amounts have neighbours, and neighbours have similar frequencies. ``Smooth`` makes
use of that; the other methods ignore the order.
"""

import matplotlib.pyplot as plt

from sklearn_ldp import OLH, NormSub, Smooth
from sklearn_ldp.datasets import make_beta
from sklearn_ldp.metrics import frequency_mse

n_samples, n_categories = 100_000, 200
counts = make_beta(n_samples, n_categories, a=8, b=3, return_counts=True, random_state=0)
truth = counts / n_samples
raw = OLH(epsilon=1.0, categories=n_categories, random_state=0).simulate(counts)

# %%
# The bandwidth is chosen by an unbiased estimate of the error, which needs the noise level but not
# the truth. If neighbours have nothing in common, the result is that of Norm-Sub.
smooth = Smooth().fit(raw)
print(f"bandwidth {smooth.bandwidth_[0]:g} categories")

# %%
figure, ax = plt.subplots(figsize=(8, 4.5), layout="constrained")
ax.plot(raw.values[0], ".", color="0.7", label="raw estimate")
ax.plot(truth, color="black", linewidth=1, label="truth")
for method, colour in [(NormSub(), "#0072b2"), (Smooth(), "#d55e00")]:
    estimate = method.fit_transform(raw)
    error = frequency_mse(truth, estimate)
    label = f"{type(method).__name__}, mean squared error {error:.1e}"
    ax.plot(estimate.values[0], color=colour, linewidth=1.5, label=label)
ax.set_xlabel("category")
ax.set_ylabel("frequency")
_ = ax.legend(loc="upper left")

# %%
# The order is the order in which the categories are declared. So declare them in their natural
# order: ``categories=range(100)``, not strings that were sorted as text.
