"""
=========================
20. A number of each week
=========================

Every week, 20,000 users report their browser with epsilon = 1. The estimate of a single week has an
error of more than a percentage point. `Trend` uses the neighboring weeks, too, as far as the slow
changes of the frequencies allow.

The users are *synthetic*. Each week has other users.
"""

# %%
# A year
# ------
# Frequencies change slowly. In week 30 one browser becomes the default of many devices: it jumps.

import matplotlib.pyplot as plt
import numpy as np

from sklearn_ldp import OLH, FrequencyEstimate, NormSub, Trend
from sklearn_ldp.inspection import TrendDisplay
from sklearn_ldp.oracles import estimate_by_group

browsers = ["Alder", "Birch", "Cedar", "Dogwood", "Elm", "Fir"]
rng = np.random.default_rng(4)
logs = np.log([0.35, 0.25, 0.15, 0.12, 0.08, 0.05]) + np.cumsum(
    rng.normal(0, 0.03, (52, 6)), axis=0
)
logs[30:, 2] += 0.8
truth = np.exp(logs) / np.exp(logs).sum(axis=1, keepdims=True)
counts = np.array([rng.multinomial(20_000, shares) for shares in truth])

oracle = OLH(epsilon=1.0, categories=browsers, random_state=0)
weekly = estimate_by_group(
    oracle,
    np.tile(browsers, 52),
    by=np.repeat(np.arange(52), 6),
    sample_weight=counts.ravel(),
)

# %%
# Three estimates
# ---------------
# `filtered=True` uses only the past, as a dashboard must.

trend = Trend().fit(weekly)
smoothed = trend.estimate_
filtered = Trend(filtered=True).fit_transform(weekly)
for name, estimate in {
    "raw": weekly,
    "filtered": filtered,
    "smoothed": smoothed,
}.items():
    errors = NormSub().fit_transform(estimate).values - truth
    low, high = estimate.confidence_interval(0.95, of="population")
    covered = np.mean((low <= truth) & (truth <= high))
    error = 100 * np.sqrt(np.mean(errors**2))
    print(
        f"{name:9} error {error:.2f} points, {covered:.0%} of intervals contain the truth"
    )
for week, browser in np.argwhere(trend.jumps_):
    print(f"{browsers[browser]} jumps in week {week}")

# %%
# The percentage of intervals that contain the truth differs between years. For the raw estimates it
# is about 95 % on average over many years:

covered = []
for seed in range(30):
    drawn = np.random.default_rng(seed)
    users = np.array([drawn.multinomial(20_000, frequencies) for frequencies in truth])
    year = np.concatenate(
        [oracle.set_params(random_state=drawn).simulate(n).values for n in users]
    )
    low, high = weekly.with_values(year).confidence_interval(0.95, of="population")
    covered.append(np.mean((low <= truth) & (truth <= high)))
print(f"{np.mean(covered):.1%} of the raw intervals of 30 years contain the truth")

# %%
# The bands are simultaneous for all browsers and weeks. Dashed lines are the truth.

figure, axes = plt.subplots(2, 1, figsize=(8, 7), sharex=True, sharey=True)
for ax, (name, estimate) in zip(
    axes, {"raw": weekly, "smoothed": smoothed}.items(), strict=True
):
    display = TrendDisplay.from_estimate(estimate, categories=browsers[:3], ax=ax)
    for i, browser in enumerate(browsers[:3]):
        color = display.lines_[browser].get_color()
        ax.plot(
            truth[:, i], "--", color=color, linewidth=1, label=None if i else "truth"
        )
    ax.set_title(f"{name}, simultaneous 95 % intervals")
    ax.legend(loc="center left", bbox_to_anchor=(1, 0.5))
axes[1].set_xlabel("week")
figure.tight_layout()

# %%
# Weeks that are missing
# ----------------------
# With the names of the rows as times, a gap is as long as it is, and the intervals in it grow.

kept = np.r_[0:12, 20:52]
with_gap = FrequencyEstimate(
    weekly.values[kept], weekly.categories, weekly.noise.of_rows(kept), row_names=kept
)
after = Trend(times=kept).fit_transform(with_gap)
whole = smoothed.standard_errors[kept]
for week in (5, 11, 20, 40):
    place = kept.tolist().index(week)
    ratio = np.mean(after.standard_errors[place]) / np.mean(whole[place])
    print(f"week {week}: intervals {ratio:.2f} times as long as without the gap")
