"""
=========================================
12. Contingency tables and synthetic rows
=========================================

4,526 people applied to the six largest departments of the graduate school at Berkeley in 1973. How
do admission, gender and department depend on each other? Each applicant sends one report, under
local differential privacy. We estimate the tables of all pairs of columns, compute answers from the
tables, and draw synthetic applicants.
"""

# %%
# Before any data
# ---------------
# Each applicant could report on one table of two columns, or report the combination of all three
# columns. The expected errors of both methods need no data.

import matplotlib.pyplot as plt
import pandas as pd

from sklearn_ldp import Consistent, LatentClasses, MarginalOracle
from sklearn_ldp.datasets import load_ucb_admissions
from sklearn_ldp.inspection import ContingencyDisplay
from sklearn_ldp.surveys import compare_methods

ucb = load_ucb_admissions(as_frame=True)
for epsilon in (1.0, 3.0, 5.0):
    ways = compare_methods(epsilon, ucb.domains, order=2)
    both = zip(ways["method"], ways["squared_error"], strict=True)
    print(
        f"epsilon {epsilon:g}:", ", ".join(f"{way} {error:.3g}" for way, error in both)
    )

# %%
# These numbers are n times the expected sum of squared errors of a table. By default, the oracle
# uses the best method.
#
# The tables
# ----------
# Raw tables are estimates from different people, so they contradict each other.
# ``Consistent(non_negative=False)`` is the best linear combination of all reports: it is unbiased,
# all its tables agree, and its answers have intervals.

applicants = ucb.frame
raw = MarginalOracle(epsilon=3.0, domains=ucb.domains, random_state=0).fit_transform(
    applicants
)
linear = Consistent(non_negative=False).fit_transform(raw)
for name, tables in {"raw": raw, "consistent": linear}.items():
    women = [
        tables.crosstab("gender", other).loc["Female"].sum()
        for other in ("admission", "department")
    ]
    print(f"{name}: proportion of women in two tables: {women[0]:.3f}, {women[1]:.3f}")

# %%
# Answers
# -------

question = {"admission": "Admitted", "gender": "Female"}
low, high = linear.confidence_interval(0.95, question)
admitted = linear.answer(question).item()
print(f"admitted women: {admitted:.3f}, {low.item():.3f} to {high.item():.3f}")
for other in ("admission", "department"):
    p_value = linear.independence("gender", other).p_value[0]
    print(f"are gender and {other} independent? p = {p_value:.2g}")

# %%
# The joint model
# ---------------
# :class:`~sklearn_ldp.LatentClasses` fits a mixture of a few classes of applicants to the tables.
# Tables of the mixture have no negative cells, and they agree.

model = LatentClasses().fit_transform(raw)
figure, axes = plt.subplots(2, 1, figsize=(8, 6), layout="constrained")
pictures = {"best linear tables": linear, "joint model": model}
for ax, (name, tables) in zip(axes, pictures.items(), strict=True):
    same_colors = {"vmin": -0.07, "vmax": 0.07}
    ContingencyDisplay.from_estimate(
        tables, "gender", "department", ax=ax, **same_colors
    )
    ax.set_title(name)

# %%
# The numbers are frequencies, and the colors show differences from independence. In hatched cells
# the difference may be 0, by a simultaneous test; the dashed lines mark its limit. Women applied
# to departments C and E much more often than men. These are the numbers, and the truth:

truth = pd.crosstab(applicants.gender, applicants.department, normalize=True)
print(model.crosstab("gender", "department").loc[truth.index].round(2))
print(truth.round(2))

# %%
# Synthetic rows
# --------------
# The model draws any number of applicants without privacy cost. The rows contain no more
# information than the tables, and they work with any tool that needs rows.

synthetic = model.sample(10_000, random_state=0)
print(synthetic.head(3))
print(pd.crosstab(synthetic.gender, synthetic.admission, normalize="index").round(2))
