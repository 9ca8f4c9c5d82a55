"""
===========================================
Calibration before and after the correction
===========================================

Who earns more than 50,000 dollars a year? People keep their incomes secret: each one randomises
their label, and sends it to a server that knows their features. A classifier that takes the reports
for labels ranks people well, but its probabilities are useless. The noise is known, so they can be
corrected.
"""

# %%
# The people
# ----------
# A module beside this example, :download:`shared_incomes.py </examples/shared_incomes.py>`, reads
# the census incomes "Adult" if their files are there. Otherwise it makes up people with the same
# columns.

import matplotlib.pyplot as plt
import numpy as np
from shared_incomes import CLASSES, NUMBERS, WORDS, load_incomes
from sklearn.base import clone
from sklearn.calibration import CalibrationDisplay
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from sklearn_ldp.learning import LabelDPClassifier

X_train, y_train, X_test, y_test, source = load_incomes()
print(f"{source}: {len(X_train):,} people to learn from, {len(X_test):,} to test with")

# %%
# The reports
# -----------
# Each client randomises their label once. The seed is for this page: clients leave it out, and draw
# their coins from the operating system.

private = {"epsilon": 1.0, "classes": CLASSES}
reports = LabelDPClassifier(**private, random_state=0).privatize(y_train)
print(f"above 50,000: {(y_train == CLASSES[1]).mean():.3f} of the labels, ", end="")
print(f"{(reports == CLASSES[1]).mean():.3f} of the reports")

# %%
# Logistic regression
# -------------------
# The first one is trained on the reports as if they were labels. The second one has the same
# reports, and maximises their likelihood. Held-out reports decide how much weight each penalty has,
# and the constant, which is the share of each class. With so many people nearly all weight is
# on the given C.

encode = make_column_transformer(
    (StandardScaler(), NUMBERS), (OneHotEncoder(handle_unknown="ignore"), WORDS)
)
logistic = make_pipeline(encode, LogisticRegression(max_iter=1000)).fit(X_train, reports)
corrected_logistic = LabelDPClassifier(logistic, **private, input="reports")
corrected_logistic.fit(X_train, reports)
print("the correction:", corrected_logistic.correction_)
print({name: round(weight, 3) for name, weight in corrected_logistic.weights_.items()})

# %%
# Boosted trees
# -------------
# For classifiers other than logistic regression, the probabilities are corrected, and averaged with
# the constant as held-out reports say. The classifier inside predicts *reports*, and shows what is
# changed.

words = make_column_transformer(
    ("passthrough", NUMBERS), (OneHotEncoder(handle_unknown="ignore", sparse_output=False), WORDS)
)
trees = make_pipeline(
    words, HistGradientBoostingClassifier(learning_rate=0.05, max_leaf_nodes=8, random_state=0)
)
corrected_trees = LabelDPClassifier(trees, **private, input="reports").fit(X_train, reports)
print("the correction:", corrected_trees.correction_)

# %%
# Calibration
# -----------
# Among the people with a predicted probability of 0.2, a share of 0.2 should earn more than 50,000.
# Reports are the same class with probability p at most, and 1 - p at least. So their probabilities
# lie between the two grey lines, apart from errors. The correction spreads them out again.

contest = {
    "logistic regression": {"before": logistic, "after": corrected_logistic},
    "boosted trees": {"before": corrected_trees.estimator_, "after": corrected_trees},
}
p = 1 / (1 + np.exp(-private["epsilon"]))  # probability that a report is the true label
figure, axes = plt.subplots(1, 2, figsize=(10, 5), layout="constrained", sharey=True)
for ax, (title, pair) in zip(axes, contest.items(), strict=True):
    for (name, classifier), marker in zip(pair.items(), "so", strict=True):
        CalibrationDisplay.from_estimator(
            classifier,
            X_test,
            y_test,
            n_bins=10,
            strategy="quantile",
            name=name,
            marker=marker,
            ax=ax,
        )
    ax.set(
        title=title,
        xlabel=f"Mean predicted probability of {CLASSES[1]}",
        ylabel=f"True share of {CLASSES[1]}" if ax is axes[0] else None,
    )
    for limit in (1 - p, p):
        ax.axvline(limit, color="grey", linewidth=0.8, zorder=0)
figure.suptitle(f"{len(X_test):,} people who are new; labels at epsilon {private['epsilon']:g}")

# %%
# The log losses on true labels, in which a probability that is far off costs much. The last row is
# a logistic regression that was trained on true labels, which no server has here.


def show(title, classifier):
    """Print the scores of a classifier on true labels."""
    loss = log_loss(y_test, classifier.predict_proba(X_test))
    accuracy = accuracy_score(y_test, classifier.predict(X_test))
    print(f"{title:28} log loss {loss:.3f}   accuracy {accuracy:.3f}")


for title, pair in contest.items():
    for name, classifier in pair.items():
        show(f"{title}, {name}", classifier)
show("logistic regression, true", clone(logistic).fit(X_train, y_train))

# %%
# Accuracy hardly moves, because the correction of probabilities increases: what was more probable
# than one half stays so. Whoever needs a threshold other than one half, an expected cost or an
# expected number needs the correction.

expected = {"labels": (y_test == CLASSES[1]).mean()}
for name, classifier in contest["boosted trees"].items():
    expected[f"trees, {name}"] = classifier.predict_proba(X_test)[:, 1].mean()
print(f"share of {CLASSES[1]}:", ", ".join(f"{name} {one:.3f}" for name, one in expected.items()))

plt.show()
