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
# A domain of 1,000 categories, and epsilon 1. What do the oracles cost?
n_categories, epsilon = 1000, 1.0
pd.DataFrame(compare_oracles(epsilon, n_categories)).round(3)

# %%
# The best oracle whose reports take at most 64 bits:
oracle = best_oracle(epsilon, n_categories, max_report_bits=64)
oracle

# %%
# The number of users for which the confidence interval of a category is half a percent wide to
# either side, on average:
oracles = [oracle, OLH(epsilon), OUE(epsilon), SubsetSelection(epsilon), GRR(epsilon)]
for one in oracles:
    users = Plan(one, n_categories).users_for(half_width=0.005)
    print(f"{type(one).__name__:28} {users:12,}")

# %%
# How frequent must a category be, so that it is not taken for one that nobody has? Among the
# thousand categories at most 0.05 false discoveries are expected.
n_users = np.geomspace(1e4, 1e8, 9)
figure, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
for one in [ProjectiveGeometryResponse(epsilon), GRR(epsilon)]:
    plan, name = Plan(one, n_categories), type(one).__name__
    axes[0].loglog(n_users, plan.detection_threshold(n_users), "o-", label=name)
    axes[1].loglog(n_users, plan.rmse(n_users), "o-", label=name)
axes[0].set_ylabel("smallest frequency that shows")
axes[1].set_ylabel("root mean squared error")
for ax in axes:
    ax.set_xlabel("users")
    ax.grid(True, color="0.9")
_ = axes[0].legend()

# %%
# A plan draws itself, too:
_ = Plan(oracle, n_categories).plot(n_users)

# %%
# A million users this year and a million next year: which growth of a category will be seen, four
# times out of five?
for change in (0.002, 0.005, 0.01):
    power = Plan(oracle, n_categories).power(n_users=1_000_000, change=change)
    print(f"a rise by {change:.1%} is seen with probability {power:.2f}")
