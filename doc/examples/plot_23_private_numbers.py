"""
23. A regression on private numbers
===================================

Users hide a number, such as their expenses, and the features are public. Each client randomizes the
number once, between public bounds. :class:`~sklearn_ldp.learning.LabelDPRegressor` learns from the
reports.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_friedman1
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import RidgeCV

from sklearn_ldp.learning import LabelDPRegressor

X, y = make_friedman1(15_000, noise=1.0, random_state=0)
bounds = (0, 30)
y = np.clip(y, *bounds)
train, test = slice(0, 12_000), slice(12_000, None)


def error(model):
    return np.sqrt(np.mean((model.predict(X[test]) - y[test]) ** 2))


# %%
# We compare three models: Ridge, and boosted trees with large leaves, on the reports of the
# mechanism; and Ridge on labels with Laplace noise of the same epsilon. Errors of Ridge are means
# of five collections.
epsilons = [0.5, 1.0, 2.0, 4.0]
names = ["Ridge", "Ridge, Laplace noise", "boosted trees, leaves of 500"]
trees = HistGradientBoostingRegressor(
    min_samples_leaf=500, max_iter=25, learning_rate=0.3
)
errors = np.zeros((len(epsilons), 3))
for i, epsilon in enumerate(epsilons):
    for seed in range(5):
        parameters = {"epsilon": epsilon, "bounds": bounds, "random_state": seed}
        noise = np.random.default_rng(seed).laplace(scale=30 / epsilon, size=len(y))
        models = [
            LabelDPRegressor(**parameters).fit(X[train], y[train]),
            RidgeCV(np.logspace(-3, 8, 12)).fit(X[train], (y + noise)[train]),
        ]
        errors[i, :2] += np.array([error(model) for model in models]) / 5
    errors[i, 2] = error(LabelDPRegressor(trees, **parameters).fit(X[train], y[train]))

# %%
# The horizontal lines are a baseline (the mean label) and Ridge on true labels. With a small
# epsilon the simple model is better; trees need less noise.
figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
ax.plot(epsilons, errors, label=names)
ax.axhline(y[test].std(), color="0.5", linestyle=":", label="mean label")
clean = error(RidgeCV().fit(X[train], y[train]))
ax.axhline(clean, color="black", linewidth=1, label="Ridge, true labels")
ax.set(xscale="log", xlabel="epsilon", ylabel="root mean squared error", ylim=(0, 6.5))
ax.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
ax.minorticks_off()
_ = ax.legend(ncols=2, loc="lower left")

# %%
# Held-out reports estimate the score of the model, without any true label.
server = LabelDPRegressor(epsilon=2.0, bounds=bounds, input="reports")
reports = LabelDPRegressor(epsilon=2.0, bounds=bounds, random_state=2).privatize(y)
server.fit(X[train], reports[train])
r2, standard_error = server.corrected_score(X[test], reports[test], return_error=True)
true = server.set_params(input="values").score(X[test], y[test])
print(f"R2 from reports {r2:.2f} +- {standard_error:.2f}, from true labels {true:.2f}")
