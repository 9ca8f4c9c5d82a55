"""
========================================================
19. Survey weights for volunteers who differ from others
========================================================

How many people work at home? People who work at home answer more often than others. A census gives
the proportions of ages and sexes in the population, so you can weight the answers.

The people are *synthetic*. They answer with probabilities between 4 and 60 %.
"""

# %%
# Who answers
# -----------
# 200,000 people are invited. The young, and women, answer most often, and work at home most often.

import matplotlib.pyplot as plt
import numpy as np

from sklearn_ldp import OLH
from sklearn_ldp.inference import combine, poststratify, rake
from sklearn_ldp.oracles import estimate_by_group

places = ["at home", "both", "elsewhere"]
ages = {"18-29": 0.2, "30-44": 0.3, "45-64": 0.3, "65+": 0.2}
sexes = {"F": 0.5, "M": 0.5}
cells = [(age, sex) for age in ages for sex in sexes]
shares = np.outer(list(ages.values()), list(sexes.values())).ravel()
rates = np.outer([0.4, 0.2, 0.1, 0.04], [1.5, 0.5]).ravel()  # response rate of a cell
at_home = np.array([0.6, 0.4, 0.5, 0.3, 0.35, 0.15, 0.2, 0.05])
answers = np.stack([at_home, (1 - at_home) / 3, 2 * (1 - at_home) / 3], axis=1)
truth = shares @ answers

rng = np.random.default_rng(0)
reported = rng.binomial(rng.multinomial(200_000, shares), rates)
counts = np.array(
    [rng.multinomial(n, f) for n, f in zip(reported, answers, strict=True)]
)
for (age, sex), n, share in zip(cells, reported, shares, strict=True):
    answering = n / reported.sum()
    print(
        f"{age} {sex}: {n:6,} answers, {answering:4.0%} of all; {share:4.0%} of people"
    )

# %%
# Three estimates
# ---------------
# The reports show age and sex. `poststratify` weights each age by its proportion of the population.
# `rake` uses the proportions of ages and of sexes, and does not need the proportions of their
# combinations.

values = np.tile(places, len(cells))
sizes = counts.ravel()
age, sex = (np.repeat(column, len(places)) for column in zip(*cells, strict=True))
oracle = OLH(epsilon=1.0, categories=places, random_state=0)
by_age = estimate_by_group(oracle, values, by=age, sample_weight=sizes)
by_cell = estimate_by_group(
    oracle, values, by=np.column_stack([age, sex]), sample_weight=sizes
)
estimates = {
    "unweighted": combine([by_age[i] for i in range(len(ages))], weights="users"),
    "weighted by age": poststratify(by_age, ages),
    "raked by age and sex": rake(by_cell, {"age": ages, "sex": sexes}),
}
for name, estimate in estimates.items():
    error = np.abs(estimate.values[0] - truth).max()
    print(
        f"{name:20} largest error {error:.3f}, design effect {estimate.design_effect:.2f}"
    )

# %%
# The intervals of the unweighted estimate are the shortest, but far from the truth. Weights make
# intervals longer, because a few old respondents represent many people.

figure, axes = plt.subplots(figsize=(7, 3.5))
for i, (name, estimate) in enumerate(estimates.items()):
    low, high = estimate.confidence_interval(0.95, of="population", simultaneous=True)
    middle, x = estimate.values[0], np.arange(3) + 0.2 * (i - 1)
    ends = np.maximum([middle - low[0], high[0] - middle], 0)
    axes.errorbar(x, middle, yerr=ends, linestyle="none", capsize=4, label=name)
axes.hlines(
    truth, np.arange(3) - 0.35, np.arange(3) + 0.35, color="black", label="truth"
)
axes.set_xticks(np.arange(3), places)
axes.set_ylabel("proportion of the population,\nsimultaneous 95 % intervals")
axes.yaxis.set_major_formatter(lambda x, _: f"{100 * x:g} %")
axes.legend(frameon=False, loc="upper center")
figure.tight_layout()

# %%
# Weights correct for differences *between* cells. They do not help if respondents differ from
# nonrespondents within a cell, for example if people answer because they are at home.
