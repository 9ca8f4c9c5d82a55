"""
21. Sets of items
=================

Each user has several items, such as apps, symptoms or languages. A report of
:class:`~sklearn_ldp.ItemOracle` covers the whole set. The usual method (padding and sampling) fills
each set up with dummy items and reports one item at random, which multiplies the variance several
times.
"""

import matplotlib.pyplot as plt
import numpy as np

from sklearn_ldp import OLH, EmpiricalBayes, ItemOracle, KeyValueOracle

D, N_USERS, MAX_ITEMS = 60, 50_000, 5
rng = np.random.default_rng(0)
popularity = -np.log(np.arange(1, D + 1))
order = np.argsort(-(rng.gumbel(size=(N_USERS, D)) + popularity), axis=1)
sizes = rng.integers(0, MAX_ITEMS + 1, N_USERS)  # 0 to 5 items each
users = np.zeros((N_USERS, D), dtype=bool)
np.put_along_axis(
    users, order[:, :MAX_ITEMS], np.arange(MAX_ITEMS) < sizes[:, None], axis=1
)
truth = users.mean(axis=0)

# %%
# A boolean matrix with one column for each category is one of the possible inputs.
oracle = ItemOracle(1.0, categories=D, max_items=MAX_ITEMS, random_state=0)
estimate = oracle.fit_transform(users)
better = EmpiricalBayes(simplex=False).fit_transform(estimate)

# %%
# This is padding and sampling: categories from 60 on are dummies.
filled = np.where(
    np.arange(MAX_ITEMS) < sizes[:, None], order[:, :MAX_ITEMS], D + np.arange(5)
)
sampled = filled[np.arange(N_USERS), rng.integers(MAX_ITEMS, size=N_USERS)]
single = OLH(1.0, categories=D + MAX_ITEMS, random_state=0).fit(sampled).frequencies_
padded = MAX_ITEMS * single[:D]

figure, axes = plt.subplots(figsize=(6.5, 3.8), layout="constrained")
place = np.arange(20)
axes.hlines(truth[:20], place - 0.4, place + 0.4, color="black", label="truth")
for values, label in (
    (padded, "padding and sampling"),
    (estimate.values[0], "ItemOracle"),
    (better.values[0], "ItemOracle and EmpiricalBayes"),
):
    error = np.sqrt(np.mean((values - truth) ** 2))
    axes.plot(
        place,
        values[:20],
        linestyle="none",
        label=f"{label}, RMSE {100 * error:.1f} points",
    )
axes.set(xlabel="item", ylabel="proportion of users", xticks=place[::5])
axes.yaxis.set_major_formatter(lambda x, _: f"{100 * x:g} %")
_ = axes.legend()

# %%
# Which `max_items` is best? Users with more items report a random choice, so their items are
# counted too rarely. The distribution of set sizes must be public, for example from another survey.
public_sizes = np.exp(-np.arange(16) / 3)
table = ItemOracle(1.0, categories=D).plan(public_sizes, N_USERS, frequency=0.2)
figure, axes = plt.subplots(figsize=(6.5, 3.4), layout="constrained")
names = {
    "std": "standard error",
    "bias": "absolute bias",
    "rmse": "root mean squared error",
}
for name, label in names.items():
    axes.plot(table["max_items"], 100 * np.abs(table[name]), label=label)
axes.set(xlabel="max_items", ylabel="error of a frequency of 20 %,\npercentage points")
_ = axes.legend()

# %%
# If each item has a number, :class:`~sklearn_ldp.KeyValueOracle` also estimates its mean.
ratings = [dict.fromkeys(np.flatnonzero(row).tolist(), 4.0) for row in users[:20_000]]
values = KeyValueOracle(
    2.0, categories=D, bounds=(1, 5), max_items=MAX_ITEMS, random_state=0
)
values.fit(ratings)
print(values.means_[:3].round(1), np.array(values.means_interval())[:, :3].round(1))
