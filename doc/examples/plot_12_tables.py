"""
=========================
Tables and synthetic rows
=========================

4,526 people applied to the six largest departments of the graduate school at Berkeley in 1973. How
do admission, gender and department go together? Each applicant answers one question, under local
differential privacy. We estimate the tables of all pairs of columns, ask them questions, and make
synthetic applicants.
"""

# %%
# Before any data
# ---------------
# Applicants could be split among the tables of two columns, or report their combination of all
# three. The error to be expected is known before anybody is asked.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from sklearn_ldp import Consistent, LatentClasses, MarginalOracle
from sklearn_ldp.datasets import load_ucb_admissions
from sklearn_ldp.tables import compare_methods

ucb = load_ucb_admissions(as_frame=True)
for epsilon in (1.0, 3.0, 5.0):
    ways = compare_methods(epsilon, ucb.domains, order=2)
    both = zip(ways["method"], ways["squared_error"], strict=True)
    print(f"epsilon {epsilon:g}:", ", ".join(f"{way} {error:.3g}" for way, error in both))

# %%
# These are n times the expected sum of squared errors of a table. The oracle takes the best way by
# itself.
#
# The tables
# ----------
# Raw tables are estimates from different people, so they do not agree on who applied.
# ``Consistent(non_negative=False)`` is the best linear combination of all that people said: it is
# unbiased, all its tables agree, and its answers have intervals.

applicants = ucb.frame
raw = MarginalOracle(epsilon=3.0, domains=ucb.domains, random_state=0).fit_transform(applicants)
linear = Consistent(non_negative=False).fit_transform(raw)
for name, tables in {"raw": raw, "consistent": linear}.items():
    women = [
        tables.crosstab("gender", other).loc["Female"].sum()
        for other in ("admission", "department")
    ]
    print(f"{name}: the share of women is {women[0]:.3f} in one table, {women[1]:.3f} in another")

# %%
# Answers
# -------

question = {"admission": "Admitted", "gender": "Female"}
low, high = linear.confidence_interval(question, 0.95)
print(f"admitted women: {linear.answer(question):.3f}, {low.item():.3f} to {high.item():.3f}")
for other in ("admission", "department"):
    p_value = linear.independence("gender", other).p_value[0]
    print(f"are gender and {other} independent? p = {p_value:.2g}")

# %%
# The joint model
# ---------------
# :class:`~sklearn_ldp.LatentClasses` fits a mixture of a few classes of applicants to the tables.
# What follows from it has no negative cells, and agrees.

model = LatentClasses().fit_transform(raw)
truth = pd.crosstab(applicants.gender, applicants.department, normalize=True)

figure, axes = plt.subplots(1, 3, figsize=(11, 3), layout="constrained", sharey=True)
shown = {
    "truth": truth,
    "raw": raw.crosstab("gender", "department"),
    "joint model": model.crosstab("gender", "department"),
}
for ax, (title, table) in zip(axes, shown.items(), strict=True):
    table = table.loc[truth.index, truth.columns]
    image = ax.imshow(table, vmin=0, vmax=truth.to_numpy().max(), aspect="auto")
    for place, share in np.ndenumerate(table.to_numpy()):
        ax.text(*place[::-1], f"{share:.2f}", ha="center", va="center", color="white")
    ax.set(title=title, xticks=range(6), xticklabels=truth.columns)
    ax.set_yticks(range(2), truth.index)
figure.colorbar(image, ax=axes, label="share of applicants")

# %%
# Synthetic rows
# --------------
# The model makes as many applicants as one likes, free of privacy cost: no more can be learnt from
# them than from the tables. Any tool that needs rows can be used on them.

synthetic = model.sample(10_000, random_state=0)
print(synthetic.head(3))
print(pd.crosstab(synthetic.gender, synthetic.admission, normalize="index").round(2))
