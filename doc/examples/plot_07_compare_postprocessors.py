"""
7. Compare post-processors before you collect
=============================================

How large will the error be with each oracle, epsilon and post-processor? A study simulates all
combinations for frequencies that you expect.
"""

import matplotlib.pyplot as plt

from sklearn_ldp import (
    GRR,
    OLH,
    SUE,
    Base,
    BaseCut,
    NormMul,
    NormSub,
    PowerNS,
)
from sklearn_ldp.datasets import make_zipf
from sklearn_ldp.inspection import ErrorCurveDisplay
from sklearn_ldp.model_selection import simulate_errors
from sklearn_ldp.queries import full_domain, random_sets, top_k

counts = make_zipf(200_000, 256, return_counts=True, random_state=0)

# %%
# One call is enough. Every method processes the same simulated estimates, so the comparison is
# paired.
study = simulate_errors(
    oracles=OLH(),
    postprocessors=[Base(), BaseCut(), NormMul(), NormSub(), PowerNS()],
    frequencies=counts,
    epsilons=[0.5, 1.0, 1.5, 2.0, 3.0],
    queries={
        "every category": full_domain(),
        "half of them": random_sets(0.5),
        "top 5": top_k(5),
    },
    n_repeats=20,
)
study.select(epsilon=1.0, queries="every category")

# %%
# The best method depends on the queries. Norm-Mul is by far the worst on the most frequent
# categories; Base-Cut is good for single categories and poor for sums.
figure, axes = plt.subplots(
    1, 3, figsize=(11, 4.5), sharex=True, sharey=True, layout="constrained"
)
for ax, queries in zip(axes, ["every category", "half of them", "top 5"], strict=True):
    part = study.select(queries=queries)
    ErrorCurveDisplay.from_results(part, ax=ax, legend=ax is axes[-1])
    ax.set_title(queries)

# %%
# The oracle matters as much. This study compares two oracles without post-processing:
study = simulate_errors(
    [OLH(), GRR()], [Base()], counts, epsilons=[0.5, 1, 2, 3, 4, 5, 6]
)
_ = ErrorCurveDisplay.from_results(study, by="oracle")

# %%
# The last study has all post-processors at one epsilon: one row per post-processor, one color and
# marker per oracle. With GRR every row has a much larger error. Between the other two oracles, the
# post-processor matters more than the oracle.
study = simulate_errors([GRR(), SUE(), OLH()], "all", counts, epsilons=1.0)
_ = study.plot(x="postprocessor", by="oracle")
