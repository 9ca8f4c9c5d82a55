"""
22. A sensitive question with dice, and the effect of cheating
==============================================================

2,457 respondents rolled a die in secret, and 798 answered "yes". Four faces of the die asked for
the truth, one face required "yes", and one face "no". :class:`~sklearn_ldp.surveys.ResponseDesign`
makes an estimate of the answers, and :func:`~sklearn_ldp.inference.mean_by_answer` estimates the
mean of an outcome for each answer.
"""

import matplotlib.pyplot as plt
import numpy as np

from sklearn_ldp.inference import mean_by_answer
from sklearn_ldp.surveys import ResponseDesign

dice = ResponseDesign.forced(p_truth=4 / 6, p_yes=1 / 6)
answers = np.repeat([0, 1], [1659, 798])
estimate = dice.oracle().fit_transform(answers)
print(estimate.summary().round(3))

# %%
# The intervals refer to the population from which the respondents are a sample. The data do not
# show how many respondents answered "no" against the die. The table assumes several proportions.
table = dice.sensitivity(estimate)
yes = table[table.category == "yes"]

# %%
# The outcome is the hours online of people with one of two kinds of use.
rng = np.random.default_rng(0)
is_heavy = rng.random(5_000) < 0.3
hours = np.where(is_heavy, 5.0, 2.0) + rng.exponential(size=5_000)
oracle = dice.oracle(categories=["light", "heavy"], random_state=1)
reports = rng.binomial(1, np.where(is_heavy, 5 / 6, 1 / 6))  # answers by the die
means = mean_by_answer(hours, reports, oracle)
naive = [hours[reports == i].mean() for i in (0, 1)]
truth = [hours[is_heavy == i].mean() for i in (0, 1)]

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
left.fill_between(
    100 * yes.cheaters, 100 * yes.low, 100 * yes.high, alpha=0.25, linewidth=0
)
left.plot(100 * yes.cheaters, 100 * yes.estimate, "-")
left.set(
    xlabel="assumed proportion of cheaters (%)", ylabel='true "yes" (%), 95 % intervals'
)
left.set(ylim=(0, None), title="The effect of cheating")
means.plot(ax=right)
right.containers[0].set_label("mean_by_answer, 95 % intervals")
right.plot(
    naive, ["light", "heavy"], "x", color="0.4", label="split by reported answer"
)
right.plot(truth, ["light", "heavy"], "|", color="black", markersize=14, label="truth")
right.set(xlabel="mean hours online", xlim=(2.5, 6.5), title="The mean of each answer")
_ = right.legend(loc="center", fontsize="small")

# %%
# The split by reported answers is biased towards the overall mean, because the die determined a
# third of the reports.
print(means)
