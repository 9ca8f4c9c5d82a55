"""
Plan a collection
=================

How many users does a collection need, and how small a frequency can it detect? The variance of the
oracles is known exactly, so both questions can be answered before any data is collected.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from sklearn_ldp import GRR, OLH, OUE, ProjectiveGeometryResponse, SubsetSelection
from sklearn_ldp.oracles import best_oracle, compare_oracles
from sklearn_ldp.planning import Plan

# %%
# The table compares the oracles for a domain of 1,000 categories and epsilon 1.
n_categories, epsilon = 1000, 1.0
pd.DataFrame(compare_oracles(epsilon, n_categories)).round(3)

# %%
# The best oracle with reports of at most 64 bits:
oracle = best_oracle(epsilon, n_categories, max_report_bits=64)
oracle

# %%
# The number of users for which the half width of the confidence interval of a category is half a
# percentage point, on average:
oracles = [oracle, OLH(epsilon), OUE(epsilon), SubsetSelection(epsilon), GRR(epsilon)]
for candidate in oracles:
    users = Plan(candidate, n_categories).users_for(half_width=0.005)
    print(f"{type(candidate).__name__:28} {users:12,}")

# %%
# The detection threshold is the frequency above which a category is distinguished from a category
# with frequency 0. At most 0.05 false discoveries are expected among the thousand categories.
n_users = np.geomspace(1e4, 1e8, 9)
figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
for candidate, marker in [(ProjectiveGeometryResponse(epsilon), "o"), (GRR(epsilon), "s")]:
    threshold = Plan(candidate, n_categories).detection_threshold(n_users)
    ax.loglog(n_users, 100 * threshold, marker=marker, label=type(candidate).__name__)
ax.set(xlabel="users", ylabel="detection threshold, in %")
ax.grid(True, color="0.9")
_ = ax.legend()

# %%
# A plan has a plot of its own:
_ = Plan(oracle, n_categories).plot(n_users)

# %%
# A million users report this year and a million next year. The power is the probability that the
# collection shows the growth of a category.
for change in (0.002, 0.005, 0.01):
    power = Plan(oracle, n_categories).power(n_users=1_000_000, change=change)
    print(f"power for a rise by {change:.1%}: {power:.2f}")
