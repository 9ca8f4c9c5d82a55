"""
====================================
13. From a collection to a ROC curve
====================================

Who earns more than 50,000 dollars a year? Each person sends one randomized report about their
features and their income. We learn a classifier from the reports of two servers. We compare it with
a classifier for which only incomes are private, and with a classifier without privacy.
"""

# %%
# The people
# ----------
# The module :download:`shared_incomes.py </examples/shared_incomes.py>` in the same folder reads
# the census incomes "Adult" if their files exist. Otherwise it makes synthetic people with the same
# columns.

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import RocCurveDisplay
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from shared_incomes import CLASSES, NUMBERS, WORDS, load_incomes
from sklearn_ldp import Domain
from sklearn_ldp.learning import LabelDPClassifier, LDPNaiveBayes

X_train, y_train, X_test, y_test, source = load_incomes()
epsilon = 1.0
print(f"{source}: {len(X_train):,} people to learn from, {len(X_test):,} to test with")

# %%
# Before any data
# ---------------
# The domains are public, and all clients use them. Numbers have bins and words have coarse groups,
# all chosen from general knowledge. Few categories per feature lose little information and keep the
# noise low.

LEADING = ["Exec-managerial", "Prof-specialty"]
OFFICE = ["Adm-clerical", "Protective-serv", "Sales", "Tech-support"]
JOBS = {**dict.fromkeys(LEADING, "leading"), **dict.fromkeys(OFFICE, "office")}


def grouped(people):
    """Return the features that a client reports about, from a record."""
    return pd.DataFrame(
        {
            "age": people["age"],
            "education": people["education_num"],
            "hours": people["hours_per_week"],
            "gain": people["capital_gain"],
            "married": people["marital_status"].str.startswith("Married"),
            "job": people["occupation"].map(JOBS).fillna("other"),
            "sex": people["sex"],
        }
    )


domains = {
    "age": Domain.bins([25, 35, 50]),
    "education": Domain.bins([9, 10, 13]),  # years at school
    "hours": Domain.bins([35, 41, 50]),
    "gain": Domain.bins([5000]),
    "married": [False, True],
    "job": ["leading", "office", "other"],
    "sex": ["Female", "Male"],
}
model = LDPNaiveBayes(epsilon, domains=domains, classes=CLASSES, random_state=0)

# %%
# The collection
# --------------
# Each client draws one of the features and reports it together with the income. The seed is for
# this page only: real clients have no seed, and draw their random bits from the operating system. A
# report contains the number of the feature and the numbers of one or more combinations of a value
# and an income. The true combination is among them more often than any other combination.

survey = model.oracle()
reports = survey.privatize(grouped(X_train).assign(**{"class": y_train}))
print("the report of one person:", reports[0])

# %%
# Half of the reports reach one server, and the other half a second server. Each server counts, and
# the second server sends its counts to the first. No server has seen a record. The classifier
# learns from the tables of each feature and the income, which are estimates from the counts.

half = len(reports) // 2
server, other_server = clone(survey), clone(survey)
server.aggregate(reports[:half])
other_server.aggregate(reports[half:])
all_private = model.fit_tables(server.merge(other_server).estimate_)
prior, frequency = all_private.class_prior_[1], (y_train == CLASSES[1]).mean()
print(f"{all_private.n_samples_seen_:,} reports; prior of {CLASSES[1]}: ", end="")
print(f"{prior:.3f} (the true frequency: {frequency:.3f})")

# %%
# These numbers show the relation of marriage and jobs to income: the logarithm of
# P(class | value) / P(class), shrunk according to the noise.

for feature in ("married", "job"):
    lifts = all_private.feature_log_lift_[feature]
    print(pd.DataFrame(lifts, index=domains[feature], columns=CLASSES).round(2))

# %%
# The other two classifiers
# -------------------------
# If the features are public and only incomes are private, each person spends the whole epsilon on
# one label. The last classifier uses the true values of all people.

encode = make_column_transformer(
    (StandardScaler(), NUMBERS), (OneHotEncoder(handle_unknown="ignore"), WORDS)
)
not_private = make_pipeline(encode, LogisticRegression(max_iter=1000)).fit(
    X_train, y_train
)
label_private = LabelDPClassifier(
    clone(not_private), epsilon=epsilon, classes=CLASSES, random_state=0
).fit(X_train, y_train)

# %%
# ROC curves
# ----------
# All three follow the conventions of scikit-learn, so its displays and scores work with them.

contest = {
    "nothing is private": (not_private, X_test),
    "labels are private": (label_private, X_test),
    "everything is private": (all_private, grouped(X_test)),
}
figure, ax = plt.subplots(figsize=(6, 6), layout="constrained")
lines = {"marker": "none", "linewidth": 1.5}
dashes = dict(zip(contest, ["-", "--", "-."], strict=True))
for name, (classifier, X) in contest.items():
    curve = RocCurveDisplay.from_estimator(
        classifier,
        X,
        y_test,
        name=name,
        ax=ax,
        plot_chance_level=name == "everything is private",
        chance_level_kw={
            "label": "majority class (AUC = 0.50)",
            "linestyle": ":",
            **lines,
        },
    )
    curve.line_.set(**lines, linestyle=dashes[name])
    if name == "nothing is private":
        curve.line_.set(linewidth=5, alpha=0.4)  # another curve is nearly the same
ax.legend(loc="lower right")
ax.set(
    title=f"Epsilon {epsilon:g}: incomes of {len(X_test):,} new people",
    xlabel=f"False positive rate (of {CLASSES[0]})",
    ylabel=f"True positive rate (of {CLASSES[1]})",
)

# %%
# Private labels hardly reduce the area under the curve here. Private features reduce it more,
# because each person reports only one of them. Accuracies differ less: most people earn at most
# 50,000, so the majority class alone is usually correct.

print(f"{'the majority':22} accuracy {y_test.value_counts(normalize=True).max():.3f}")
for name, (classifier, X) in contest.items():
    print(f"{name:22} accuracy {classifier.score(X, y_test):.3f}")

# %%
# Predictions use true features. If the features are private, send the model to the people. You may
# publish the model because it was made from reports, and each person predicts on their own device.

plt.show()
