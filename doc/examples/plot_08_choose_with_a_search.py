"""
Say what will be asked, or let the data choose
==============================================

The best post-processor depends on the questions and on the data. One call knows the question; the
searches also look at the data. All of them use what the collector already has, so none of them
costs privacy.
"""

import numpy as np

from sklearn_ldp import OLH, Base, BootstrapSearch, EmpiricalBayes, HeldOutSearch, SyntheticSearch
from sklearn_ldp.datasets import load_us_states, make_zipf
from sklearn_ldp.inspection import SearchDisplay
from sklearn_ldp.metrics import frequency_mse, query_errors
from sklearn_ldp.queries import groups, top_k

states = load_us_states(n_samples=50_000, random_state=0)
truth = states.counts / states.counts.sum()
oracle = OLH(epsilon=1.0, categories=states.categories, random_state=0)
raw = oracle.fit_transform(states.categories, sample_weight=states.counts)

# %%
# The question: how many people live in each of the nine census divisions?
divisions = groups(states.groups["division"])
told = EmpiricalBayes(queries=divisions).fit(raw)

# %%
# The papers' way: make a synthetic data set from the estimate, simulate the collection on it many
# times, and take the method with the least error there.
search = SyntheticSearch(queries=divisions, random_state=0).fit(raw)
print(search.best_estimator_)
_ = SearchDisplay.from_estimator(search)

# %%
# Another way assumes nothing: make an estimate from some of the reports, and compare it with the
# raw estimate from the others. With only nine queries, the noise of the held-out reports hides the
# differences, as the error bars show. So the one that was told the question is left for another
# method only with evidence.
held_out = HeldOutSearch(queries=divisions).fit(raw)
print(held_out.best_estimator_)
_ = SearchDisplay.from_estimator(held_out)

# %%
# If only the estimate is left, and no reports: noise is added to one copy of it and taken from
# another, so that the two are independent.
bootstrap = BootstrapSearch(queries=divisions).fit(raw)
print(bootstrap.best_estimator_)

# %%
# In a simulation the truth is known, so we can see how good the choices were.
answers = divisions.matrix(len(truth)) @ truth
for name, estimate in {
    "raw": raw,
    "told": told.estimate_,
    "SyntheticSearch": search.estimate_,
    "HeldOutSearch": held_out.estimate_,
    "BootstrapSearch": bootstrap.estimate_,
}.items():
    error = np.abs(estimate.answer(divisions)[0] - answers).max()
    mse = frequency_mse(truth, estimate, queries=divisions)
    print(f"{name:16} mean squared error {mse:.1e}, largest error {error:.2%}")

# %%
# Another question: how frequent are the twenty most frequent of 1,000 words? A posterior mean is
# right on average over all words, and so too low on these. An answer to just this question is not,
# but it is no distribution: the values are expectations *if* a word is among the twenty.
counts = make_zipf(200_000, 1000, exponent=1.1, return_counts=True, random_state=0)
many = OLH(epsilon=1.0, categories=1000, random_state=0).simulate(counts, n_repeats=20)
for post in (Base(), EmpiricalBayes(), EmpiricalBayes(queries=top_k(20))):
    estimate = post.fit_transform(many)
    error = query_errors(counts / 200_000, estimate, queries=top_k(20)).mean()
    print(
        f"{post!r:36} mean squared error {error:.1e}, sum {estimate.values.sum(axis=1).mean():.2f}"
    )
