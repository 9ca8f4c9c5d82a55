"""
2. Plan a collection
====================

How many users does a collection need, and how small a frequency can it detect? The variances of
oracles have exact formulas, so a plan answers both questions before any data is collected.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from sklearn_ldp import GRR, OLH, OUE, ProjectiveGeometryResponse, SubsetSelection
from sklearn_ldp.oracles import best_oracle, compare_oracles
from sklearn_ldp.planning import Plan

# %%
# The domain has 1,000 categories, and epsilon is 1. The table compares the costs of the oracles.
n_categories, epsilon = 1000, 1.0
pd.DataFrame(compare_oracles(epsilon, n_categories)).round(3)

# %%
# This is the best oracle with reports of at most 64 bits:
oracle = best_oracle(epsilon, n_categories, max_report_bits=64)
oracle

# %%
# These are the numbers of users for an average half width of half a percentage point:
oracles = [oracle, OLH(epsilon), OUE(epsilon), SubsetSelection(epsilon), GRR(epsilon)]
for candidate in oracles:
    users = Plan(candidate, n_categories).users_for(half_width=0.005)
    print(f"{type(candidate).__name__:28} {users:12,}")

# %%
# How frequent must a category be to be distinguished from an empty category? The threshold allows
# 0.05 expected false discoveries among the thousand categories.
n_users = np.geomspace(1e4, 1e8, 9)
figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
for candidate in [ProjectiveGeometryResponse(epsilon), GRR(epsilon)]:
    threshold = Plan(candidate, n_categories).detection_threshold(n_users)
    ax.loglog(n_users, threshold, label=type(candidate).__name__)
ax.set(xlabel="users", ylabel="detection threshold of a frequency")
ax.yaxis.set_major_formatter(lambda x, _: f"{100 * x:g} %")
ax.grid(True, color="0.9")
_ = ax.legend()

# %%
# ``plot`` draws the other curves of a plan, which differ from the threshold by constant factors:
display = Plan(oracle, n_categories).plot(n_users)
display.ax_.yaxis.set_major_formatter(lambda x, _: f"{100 * x:g} %")
_ = display.ax_.set(xlabel="users", ylabel="error of a frequency")

# %%
# With a million users this year and a million next year, which growth of a category can you detect
# with a power of 80 %?
for change in (0.002, 0.005, 0.01):
    power = Plan(oracle, n_categories).power(n_users=1_000_000, change=change)
    print(f"a rise by {change:.1%} is detected with probability {power:.2f}")
