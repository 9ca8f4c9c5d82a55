"""
A sensitive question with dice, and what cheating would change
==============================================================

Of 2,457 respondents who rolled a die in secret, 798 said "yes". The die asked four of six for the
truth, made one of six say "yes", and one "no". A :class:`~sklearn_ldp.surveys.ResponseDesign` reads
the answers, :func:`~sklearn_ldp.inference.mean_by_answer` an outcome beside them.
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
# The intervals are about the population, of which the respondents are a sample. Nobody knows how
# many said "no" whatever the die told them. The table assumes shares of them.
table = dice.sensitivity(estimate)
yes = table[table.category == "yes"]

# %%
# An outcome beside the answers: hours online of people who report one of two kinds of use.
rng = np.random.default_rng(0)
is_heavy = rng.random(5_000) < 0.3
hours = np.where(is_heavy, 5.0, 2.0) + rng.exponential(size=5_000)
oracle = dice.oracle(categories=["light", "heavy"], random_state=1)
reports = rng.binomial(1, np.where(is_heavy, 5 / 6, 1 / 6))  # what the die made them say
means = mean_by_answer(hours, reports, oracle)
naive = [hours[reports == i].mean() for i in (0, 1)]
truth = [hours[is_heavy == i].mean() for i in (0, 1)]

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
left.fill_between(100 * yes.cheaters, 100 * yes.low, 100 * yes.high, alpha=0.25, linewidth=0)
left.plot(100 * yes.cheaters, 100 * yes.estimate)
left.set(xlabel="assumed to say no in any case (%)", ylabel='true "yes" (%), 95 % intervals')
left.set_ylim(bottom=0)
means.plot(ax=right)
right.plot(naive, ["light", "heavy"], "x", color="0.4", label="split by what was reported")
right.plot(truth, ["light", "heavy"], "|", color="black", markersize=14, label="truth")
right.set(xlabel="mean hours", xlim=(2.5, 6.5))
_ = right.legend(loc="center right")

# %%
# The split by what was reported is pulled towards the mean of all, as a third of the reports are
# the die's.
print(means)
