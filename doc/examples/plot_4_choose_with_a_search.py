"""
Let the data choose the post-processor
======================================

The best post-processor depends on the data and on the questions. Two searches choose it from what
the collector already has, so neither of them costs privacy.
"""

import numpy as np

from sklearn_ldp import OLH, HeldOutSearch, SyntheticSearch
from sklearn_ldp.datasets import load_us_states
from sklearn_ldp.inspection import SearchDisplay
from sklearn_ldp.metrics import frequency_mse
from sklearn_ldp.queries import groups

states = load_us_states(n_samples=50_000, random_state=0)
truth = states.counts / states.counts.sum()
oracle = OLH(epsilon=1.0, categories=states.categories, random_state=0)
raw = oracle.fit_transform(states.categories, sample_weight=states.counts)

# %%
# The question: how many people live in each of the nine census divisions?
divisions = groups(states.groups["division"])

# %%
# The papers' way: make a synthetic data set from the estimate, simulate the collection on it many
# times, and take the method with the least error there.
search = SyntheticSearch(queries=divisions, random_state=0).fit(raw)
print(search.best_estimator_)
_ = SearchDisplay.from_estimator(search)

# %%
# The other way assumes nothing: make an estimate from some of the reports, and compare it with the
# raw estimate from the others. With only nine queries, the noise of the held-out reports hides the
# differences, as the error bars show. This search works best if many queries are asked.
held_out = HeldOutSearch(queries=divisions).fit(raw)
print(held_out.best_estimator_)
_ = SearchDisplay.from_estimator(held_out)

# %%
# In a simulation the truth is known, so we can see how good the choices were.
answers = divisions.matrix(len(truth)) @ truth
for name, estimate in {
    "raw": raw,
    "SyntheticSearch": search.estimate_,
    "HeldOutSearch": held_out.estimate_,
}.items():
    error = np.abs(estimate.answer(divisions)[0] - answers).max()
    mse = frequency_mse(truth, estimate, queries=divisions)
    print(f"{name:16} mean squared error {mse:.1e}, largest error {error:.2%}")
