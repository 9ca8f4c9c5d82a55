"""
========================================
11. Several columns, one report per user
========================================

4,526 people applied to the six largest departments of the graduate school at Berkeley in 1973. The
columns are admission, gender and department. Each applicant answers one of the three questions,
under local differential privacy, and we estimate the frequencies for all applicants.
"""

# %%
# Before any data
# ---------------
# Each applicant draws one question with public probabilities, and spends the whole epsilon on it.
# Questions with many answers have more users, because their estimates are noisier.

import matplotlib.pyplot as plt

from sklearn_ldp import ColumnOracle, EmpiricalBayes
from sklearn_ldp.datasets import load_ucb_admissions
from sklearn_ldp.inspection import FrequencyDisplay
from sklearn_ldp.oracles import best_oracle
from sklearn_ldp.planning import Plan

ucb = load_ucb_admissions()
survey = ColumnOracle(epsilon=2.0, domains=ucb.domains, random_state=0)
plan = Plan(survey)
needed = plan.users_for(half_width=0.01)
for name, width in plan.half_width(n_users=ucb.n_samples).items():
    print(f"{name:12} expected: +- {width:.3f}; +- 0.010 needs {needed[name]:,} people")

# %%
# The survey
# ----------
# The table has one row per combination, with its number of applicants. A data frame with one row
# per applicant works as well (``load_ucb_admissions(as_frame=True).frame``).

estimates = survey.fit_transform(ucb.data, sample_weight=ucb.counts)
print(estimates)

# %%
# The intervals account for the noise of the reports and for the random assignment of questions.
# They refer to *all* applicants, and they are simultaneous within each column.

truth = survey.true_frequencies(ucb.data, sample_weight=ucb.counts)
better = EmpiricalBayes().fit_transform(estimates)
figure, axes = plt.subplots(1, 3, figsize=(11, 4), sharey=True, layout="constrained")
for ax, (name, part) in zip(axes, estimates.items(), strict=True):
    FrequencyDisplay.from_estimate(part, truth=truth[name], name="raw", ax=ax)
    FrequencyDisplay.from_estimate(better[name], ax=ax)
    ax.set(
        title=f"{name}: {part.noise.n_samples:,} were asked", xlabel=None, ylabel=None
    )
    ax.tick_params(axis="x", rotation=0)
    if ax is not axes[-1]:
        ax.get_legend().remove()
_ = axes[0].set_ylabel("frequency, with simultaneous 95 % intervals")

# %%
# All questions to each applicant
# -------------------------------
# If each applicant answered all questions, epsilon would be divided among three answers. These are
# the standard errors of a frequency of each column, with a split budget and with one question:

for name, sampled in plan.rmse(n_users=ucb.n_samples).items():
    split = Plan(best_oracle(2.0 / 3, ucb.domains[name])).rmse(n_users=ucb.n_samples)
    print(f"{name:12} split {split:.4f}   one question {sampled:.4f}")

plt.show()
