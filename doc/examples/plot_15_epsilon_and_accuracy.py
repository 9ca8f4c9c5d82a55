"""
============================
15. Epsilon against accuracy
============================

How small may epsilon be if the labels of users are private? A simulation with true labels answers
this question. A server has reports only and scores its classifiers on reports. Such scores are
unbiased but noisy: at a small epsilon they cannot distinguish a good classifier from a useless one.
"""

# %%
# The people
# ----------
# The module :download:`shared_incomes.py </examples/shared_incomes.py>` in the same folder reads
# the census incomes "Adult" if their files exist. Otherwise it makes synthetic people with the same
# columns. Features are public here, so you may encode them once. The private label is 1 for more
# than 50,000 dollars.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, ShuffleSplit
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from shared_incomes import CLASSES, NUMBERS, WORDS, load_incomes
from sklearn_ldp.learning import LabelDPClassifier, make_label_dp_scorer

people, incomes, new_people, new_incomes, source = load_incomes()
encode = make_column_transformer(
    (StandardScaler(), NUMBERS),
    (OneHotEncoder(handle_unknown="ignore"), WORDS),
    sparse_threshold=0,
)
X, X_new = encode.fit_transform(people), encode.transform(new_people)
y, y_new = ((part == CLASSES[1]).to_numpy(dtype=int) for part in (incomes, new_incomes))
majority = max(y.mean(), 1 - y.mean())
print(
    f"{source}: {len(X):,} people to learn from; {majority:.3f} are in the majority class"
)

# %%
# A simulation
# ------------
# The search learns from half of the people and scores on the other half, both on true labels and on
# reports of these labels, like a server. Each of the eight seeds is a separate collection.

model = LabelDPClassifier(
    LogisticRegression(max_iter=1000), classes=[0, 1], correction="likelihood"
)
epsilons = [0.1, 0.2, 0.4, 0.8, 1.6, 3.2]
half = ShuffleSplit(1, test_size=0.5, random_state=0)
simulation = GridSearchCV(
    model,
    {"epsilon": epsilons, "random_state": range(8)},
    scoring={"true": "accuracy", "private": make_label_dp_scorer("accuracy")},
    cv=half,
    refit=False,
).fit(X, y)
results = pd.DataFrame(
    {
        "epsilon": simulation.cv_results_["param_epsilon"].astype(float),
        "true": simulation.cv_results_["mean_test_true"],
        "private": simulation.cv_results_["mean_test_private"],
    }
)
of_epsilon = results.groupby("epsilon")
accuracy = of_epsilon["true"].mean()

# %%
# The noise of a private score
# ----------------------------
# A report is the true label with probability p, and the other one with probability q. On n users
# the noise of the reports adds a standard error of :math:`\sqrt{q (1 - q) / n} \,/\, (p - q)` to
# the accuracy. It is known before any data.


def standard_error(epsilon, n):
    """Standard error that the noise of n reports of two classes adds to an accuracy."""
    p = 1 / (1 + np.exp(-epsilon))
    q = 1 - p
    return np.sqrt(q * (1 - q) / n) / (p - q)


n = len(X) // 2
noise = pd.Series({epsilon: standard_error(epsilon, n) for epsilon in epsilons})
table = pd.DataFrame(
    {
        "on true labels": accuracy,
        "on reports, lowest": of_epsilon["private"].min(),
        "highest": of_epsilon["private"].max(),
        "standard error": noise,
        "gain / error": (accuracy - majority) / noise,
    }
)
print(table.round(3).to_string())

# %%
# The last column is the gain of the classifier over the majority class, in standard errors of its
# private score. If it is below two, the score is no evidence that the classifier is useful.

figure, ax = plt.subplots(figsize=(8, 5), layout="constrained")
band = [accuracy - 2 * noise, accuracy + 2 * noise]
ax.fill_between(
    epsilons, *band, alpha=0.2, label="two standard errors of a private score"
)
ax.plot(
    "epsilon",
    "private",
    "x",
    color="C1",
    data=results,
    label="on reports, each collection",
)
ax.plot(accuracy, "o-", color="C0", label="on true labels, mean of eight collections")
ax.axhline(majority, color="black", linestyle="--", label="majority class")
ax.set(
    xscale="log", xlabel="epsilon", ylabel="accuracy", title=f"Scores on {n:,} people"
)
ax.yaxis.set_major_formatter(lambda x, _: f"{100 * x:g} %")
ax.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
ax.minorticks_off()
_ = ax.legend(loc="lower right")

# %%
# A classifier may be better than the majority class although its score on reports cannot show the
# difference.

is_better = accuracy > majority
is_shown = table["gain / error"] > 2
print(
    f"better than the majority, on average: at epsilon {accuracy.index[is_better].min():g}"
)
print(f"shown by its score on reports: at epsilon {accuracy.index[is_shown].min():g}")

# %%
# A search without one true label
# -------------------------------
# After the reports are made once, searches spend no epsilon. This search chooses the strength of
# the penalty by log losses on held-out reports, for each of two corrections. The default
# correction, "auto", averages such penalties and needs no search.

client = LabelDPClassifier(epsilon=1.0, classes=[0, 1], random_state=0)
reports = client.privatize(y)
server = LabelDPClassifier(
    LogisticRegression(max_iter=1000), epsilon=1.0, classes=[0, 1], input="reports"
)
grid = {
    "correction": ["probabilities", "likelihood"],
    "estimator__C": np.logspace(-4, 1, 6),
}
scorer = make_label_dp_scorer("neg_log_loss")
search = GridSearchCV(server, grid, scoring=scorer, cv=3).fit(X, reports)
chosen = search.best_params_
print(f"chosen: correction {chosen['correction']!r}, C = {chosen['estimator__C']:g}")

# %%
# The right plot, for this page only, shows the losses on true labels of new people. The error bars
# are standard errors of the means of three folds. All candidates are scored on the same reports, so
# the noise shifts whole curves more than it changes their shape.

losses = pd.DataFrame(search.cv_results_["params"])
losses["on reports"] = -search.cv_results_["mean_test_score"]
losses["error"] = search.cv_results_["std_test_score"] / np.sqrt(3 - 1)
losses["on true labels"] = [
    log_loss(
        y_new, clone(server).set_params(**params).fit(X, reports).predict_proba(X_new)
    )
    for params in search.cv_results_["params"]
]
figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained", sharey=True)
for correction, part in losses.groupby("correction"):
    c = part["estimator__C"]
    axes[0].errorbar(c, part["on reports"], part["error"], capsize=3, label=correction)
    axes[1].plot(c, part["on true labels"], label=correction)
axes[0].set(title="Visible to the server", ylabel="log loss on held-out reports")
axes[1].set(title="Not visible to the server", ylabel="log loss on true labels")
for ax in axes:
    ax.set(xscale="log", xlabel="C")
    ax.axvline(chosen["estimator__C"], color="gray", linestyle=":", label="chosen C")
    ax.legend(title="correction")

# %%
# These are the loss of the chosen candidate on true labels, and the minimum of all candidates.

true_losses = losses["on true labels"]
print(f"chosen {true_losses[search.best_index_]:.4f}, minimum {true_losses.min():.4f}")
default = clone(server).fit(X, reports)
print(f"without a search: {log_loss(y_new, default.predict_proba(X_new)):.4f}")

plt.show()
