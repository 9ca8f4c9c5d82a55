"""
26. Counts that others added up
===============================

Another party counted 20,000 people by state, added Laplace noise, and released the noisy counts.
:meth:`FrequencyEstimate.from_counts <sklearn_ldp.FrequencyEstimate.from_counts>` turns the release
into an estimate with intervals, totals and post-processors. The last figure is a dashboard that is
looked at every day.
"""

import matplotlib.pyplot as plt
import numpy as np

from sklearn_ldp import GRR, EmpiricalBayes, FrequencyEstimate
from sklearn_ldp.datasets import load_us_states
from sklearn_ldp.queries import groups

N_USERS, EPSILON = 20_000, 0.01
states = load_us_states()
rng = np.random.default_rng(0)
truth = rng.multinomial(N_USERS, states.counts / states.counts.sum())
release = truth + rng.laplace(scale=1 / EPSILON, size=len(truth))

# %%
# State the distribution of the noise. All intervals then have the tails of this distribution. The
# error of :class:`~sklearn_ldp.EmpiricalBayes` is smaller than the error of the release, because it
# learns how large typical counts are.
estimate = FrequencyEstimate.from_counts(
    dict(zip(states.categories, release, strict=True)),
    noise="laplace",
    epsilon=EPSILON,
    n_samples=N_USERS,
)
better = EmpiricalBayes().fit_transform(estimate)
interval = estimate.confidence_interval(0.95, simultaneous=True)

largest = np.argsort(-truth)
place = np.arange(len(largest))
figure, axes = plt.subplots(figsize=(9, 4.2), layout="constrained")
low = N_USERS * interval.low[0, largest]
high = N_USERS * interval.high[0, largest]
axes.vlines(
    place, low, high, color="0.85", linewidth=6, label="95 % simultaneous interval"
)
axes.hlines(truth[largest], place - 0.4, place + 0.4, color="black", label="truth")
for values, label, shift in (
    (release, "release", -0.2),
    (N_USERS * better.values[0], "EmpiricalBayes", 0.2),
):
    error = np.sqrt(np.mean((values - truth) ** 2))
    text = f"{label}, RMSE {error:.0f} people"
    axes.plot(place + shift, values[largest], linestyle="none", label=text)
axes.set(ylabel="people", xlim=(-0.8, len(largest) - 0.2))
axes.set_xticks(place, states.categories[largest], rotation=90, fontsize="x-small")
_ = axes.legend()

# %%
# A total of several counts has an interval as well. `to_counts` returns whole numbers that are not
# negative and add up to the number of people.
regions = groups(states.groups.region)
print((N_USERS * estimate.answer(regions)).round())
low, high = estimate.confidence_interval(0.95, regions)
print((N_USERS * np.vstack([low, high])).round())
print(better.to_counts()[0, largest[:5]])

# %%
# Each day 100 people answer a yes/no question through :class:`~sklearn_ldp.GRR`, and the dashboard
# shows the interval of all reports so far. In 18 of 60 seeds the ordinary 95 % interval of some day
# misses the truth, and this seed is one of them. With ``at_all_times=2_000``, the intervals of all
# days contain the truth in 95 % of the collections, and are narrowest at 2,000 reports.
DAYS, PER_DAY, SHARE = 60, 100, 0.3
oracle = GRR(1.0, categories=["no", "yes"], random_state=8)
dashboard = GRR(1.0, categories=["no", "yes"], input="reports")
days = np.arange(1, DAYS + 1)
answers = np.where(np.random.default_rng(8).random(DAYS * PER_DAY) < SHARE, "yes", "no")
reports = np.split(np.asarray(oracle.privatize(answers)), DAYS)
ends = {False: [], 2_000: []}
for batch in reports:
    dashboard.partial_fit(batch)
    for at_all_times, rows in ends.items():
        low, high = dashboard.estimate_.confidence_interval(
            0.95, of="population", at_all_times=at_all_times
        )
        rows.append([low[0, 1], high[0, 1]])

figure, axes = plt.subplots(figsize=(7, 3.8), layout="constrained")
for (at_all_times, rows), color in zip(ends.items(), ("C1", "C0"), strict=True):
    low, high = 100 * np.array(rows).T
    label = "at_all_times=2_000" if at_all_times else "ordinary interval"
    axes.fill_between(
        days, low, high, color=color, alpha=0.25, linewidth=0, label=label
    )
    axes.plot(days, np.column_stack([low, high]), color=color, marker="none")
    is_missed = (low > 100 * SHARE) | (high < 100 * SHARE)
    print(f"{label}: misses the truth on {is_missed.sum()} of {DAYS} days")
axes.axhline(100 * SHARE, color="black", linestyle="--", marker="none", label="truth")
axes.set(xlabel="day", ylabel='answer "yes" (%)', ylim=(0, 70), xlim=(1, DAYS))
_ = axes.legend()
