"""
===============================================
14. Calibration before and after the correction
===============================================

Who earns more than 50,000 dollars a year? People keep their incomes private: each person randomizes
their label and sends it to a server, which has their features. A classifier that is trained on the
reports ranks people well, but its probabilities are useless. Because the distribution of the noise
is public, a correction can repair the probabilities.
"""

# %%
# The people
# ----------
# The module :download:`shared_incomes.py </examples/shared_incomes.py>` in the same folder reads
# the census incomes "Adult" if their files exist. Otherwise it makes synthetic people with the same
# columns.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.base import clone
from sklearn.calibration import CalibrationDisplay
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from shared_incomes import CLASSES, NUMBERS, WORDS, load_incomes
from sklearn_ldp.learning import LabelDPClassifier

X_train, y_train, X_test, y_test, source = load_incomes()
print(f"{source}: {len(X_train):,} people to learn from, {len(X_test):,} to test with")

# %%
# The reports
# -----------
# Each client randomizes their label once. The seed is for this page only: real clients have no
# seed, and draw their random bits from the operating system.

private = {"epsilon": 1.0, "classes": CLASSES}
reports = LabelDPClassifier(**private, random_state=0).privatize(y_train)
print(f"above 50,000: {(y_train == CLASSES[1]).mean():.3f} of the labels, ", end="")
print(f"{(reports == CLASSES[1]).mean():.3f} of the reports")

# %%
# Logistic regression
# -------------------
# The first model is trained on the reports as if they were labels. The second model maximizes the
# likelihood of the same reports. Held-out reports determine the weight of each penalty, and the
# weight of a baseline, the frequency of each class. With so many people nearly all weight is on the
# specified C.

encode = make_column_transformer(
    (StandardScaler(), NUMBERS), (OneHotEncoder(handle_unknown="ignore"), WORDS)
)
logistic = make_pipeline(encode, LogisticRegression(max_iter=1000)).fit(
    X_train, reports
)
corrected_logistic = LabelDPClassifier(logistic, **private, input="reports")
corrected_logistic.fit(X_train, reports)
print("the correction:", corrected_logistic.correction_)
print({name: round(weight, 3) for name, weight in corrected_logistic.weights_.items()})

# %%
# Boosted trees
# -------------
# For other classifiers, the correction changes the probabilities and averages them with the class
# frequencies, with weights from held-out reports. The inner classifier predicts *reports*, and
# shows the probabilities before the correction.

words = make_column_transformer(
    ("passthrough", NUMBERS),
    (OneHotEncoder(handle_unknown="ignore", sparse_output=False), WORDS),
)
trees = make_pipeline(
    words,
    HistGradientBoostingClassifier(
        learning_rate=0.05, max_leaf_nodes=8, random_state=0
    ),
)
corrected_trees = LabelDPClassifier(trees, **private, input="reports").fit(
    X_train, reports
)
print("the correction:", corrected_trees.correction_)

# %%
# Calibration
# -----------
# Among the people with a predicted probability of 0.2, 20 % should earn more than 50,000. A report
# is this class with a probability between 1 - p and p. Therefore predictions of reports lie between
# the two gray lines, apart from errors. The correction spreads the probabilities out again.

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
        ylabel=f"True frequency of {CLASSES[1]}" if ax is axes[0] else None,
    )
    for limit, label in ((1 - p, "limits of reports"), (p, None)):
        ax.axvline(limit, color="gray", linewidth=0.8, zorder=0, label=label)
    ax.legend(loc="lower right")
figure.suptitle(f"{len(X_test):,} new people; labels at epsilon {private['epsilon']:g}")

# %%
# The log loss on true labels penalizes wrong probabilities. The last row is a logistic regression
# on true labels, which no server has here.


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
# Accuracy hardly changes, because the correction is monotone and keeps the side of one half. You
# need the correction for thresholds other than one half, expected costs or expected numbers.

expected = {"labels": (y_test == CLASSES[1]).mean()}
for name, classifier in contest["boosted trees"].items():
    expected[f"trees, {name}"] = classifier.predict_proba(X_test)[:, 1].mean()
summary = ", ".join(f"{name} {frequency:.3f}" for name, frequency in expected.items())
print(f"frequency of {CLASSES[1]}: {summary}")

plt.show()
