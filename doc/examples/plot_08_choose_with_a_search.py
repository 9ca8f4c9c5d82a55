"""
8. Declare the queries, or let the data choose
==============================================

The best post-processor depends on the queries and on the data. EmpiricalBayes adapts to declared
queries, and searches also use the data. All methods use the estimate or the reports of the
collector, so they spend no epsilon.

The maker of a keyboard wants to learn how often each letter follows another letter. Users report
two letters that they typed. The text of this example is public: it is the documentation of Python.
"""

import pydoc_data.topics
import re
from collections import Counter

import numpy as np

from sklearn_ldp import (
    OLH,
    Base,
    BaseCut,
    BasePos,
    EmpiricalBayes,
    HeldOutSearch,
    NormSub,
    PowerNS,
    SyntheticSearch,
    SyntheticStack,
)
from sklearn_ldp.datasets import load_us_states, make_zipf
from sklearn_ldp.inspection import SearchDisplay
from sklearn_ldp.metrics import frequency_mse, query_errors
from sklearn_ldp.queries import groups, top_k

text = " ".join(pydoc_data.topics.topics.values()).lower()
typed = Counter(re.findall("(?=([a-z][a-z]))", text))
letters = "abcdefghijklmnopqrstuvwxyz"
pairs = [first + second for first in letters for second in letters]
truth = np.array([typed[pair] for pair in pairs]) / typed.total()
counts = np.random.default_rng(0).multinomial(1_000_000, truth)

oracle = OLH(epsilon=1.0, categories=pairs, random_state=0)
raw = oracle.fit_transform(pairs, sample_weight=counts)

# %%
# How often does each letter come first? These queries are 26 groups of 26 pairs. Pairs with "e" are
# frequent and pairs with "q" are rare. Because groups differ, declared queries reduce the error.
firsts = groups([pair[0] for pair in pairs])
adapted = EmpiricalBayes(queries=firsts).fit(raw)

# %%
# The papers make a synthetic data set from the estimate, simulate the collection on it many times,
# and choose the method with the smallest error. This search uses two such data sets, because each
# data set favors the method that made it.
search = SyntheticSearch(queries=firsts, random_state=0).fit(raw)
print(search.best_estimator_)
_ = SearchDisplay.from_estimator(search)

# %%
# If your candidates do not include EmpiricalBayes, no candidate is the reference, and the candidate
# with the smallest error is partly chosen by luck. A weighted mean of the candidates depends less
# on luck. The plot shows the weights after the names. The first three methods do not change the
# largest estimates, so their errors are equal.
mine = [Base(), BasePos(), BaseCut(), NormSub(), PowerNS()]
picked = SyntheticSearch(mine, queries=top_k(10), random_state=0).fit(raw)
stack = SyntheticStack(mine, queries=top_k(10), random_state=0).fit(raw)
_ = SearchDisplay.from_estimator(stack)
for choice in (picked, stack):
    mse = frequency_mse(truth, choice.estimate_, queries=top_k(10))
    print(f"{type(choice).__name__:16} ten most frequent, mean squared error {mse:.1e}")

# %%
# HeldOutSearch makes no assumptions. It makes an estimate from some of the reports, and compares it
# with the raw estimate from the others. With only 26 queries, the noise of the held-out reports
# hides most differences, as the error bars show. Therefore the search replaces EmpiricalBayes only
# by a significantly better method.
held_out = HeldOutSearch(queries=firsts).fit(raw)
print(held_out.best_estimator_)
_ = SearchDisplay.from_estimator(held_out)

# %%
# If you have only the estimate and no reports, the search adds noise to one copy of the estimate
# and subtracts noise from another copy, so that both are independent.
bootstrap = HeldOutSearch(queries=firsts, method="bootstrap").fit(raw)
print(bootstrap.best_estimator_)

# %%
# In a simulation the truth is available, so we can compute the true errors of the choices.
answers = firsts.matrix(len(truth)) @ truth
for name, estimate in {
    "raw": raw,
    "no queries": EmpiricalBayes().fit_transform(raw),
    "queries": adapted.estimate_,
    "SyntheticSearch": search.estimate_,
    "HeldOutSearch": held_out.estimate_,
    "noisy copies": bootstrap.estimate_,
}.items():
    error = np.abs(estimate.answer(firsts)[0] - answers).max()
    mse = frequency_mse(truth, estimate, queries=firsts)
    print(f"{name:16} mean squared error {mse:.1e}, largest error {error:.2%}")

# %%
# If groups do not differ, declared queries gain nothing. The states of a US division are not more
# similar to each other than to other states. Declared queries then cost at most 1 %, averaged over
# collections.
states = load_us_states(n_samples=1_000_000, random_state=0)
divisions = groups(states.groups["division"])
many = OLH(epsilon=1.0, categories=states.categories, random_state=0).simulate(
    states.counts, 60
)
for post in (EmpiricalBayes(), EmpiricalBayes(queries=divisions)):
    error = query_errors(
        states.frequencies, post.fit_transform(many), queries=divisions
    ).mean()
    name = "no queries" if post.queries is None else "queries"
    print(f"{name:10} mean squared error {error:.3e}")

# %%
# How frequent are the twenty most frequent of 1,000 words? A posterior mean is correct on average
# over all words, and therefore too low for the most frequent words. With ``queries=top_k(20)`` the
# values are correct for these words. They are not a distribution, because each value is an
# expectation *if* the word is among the twenty.
counts = make_zipf(200_000, 1000, exponent=1.1, return_counts=True, random_state=0)
many = OLH(epsilon=1.0, categories=1000, random_state=0).simulate(counts, n_repeats=20)
for post in (Base(), EmpiricalBayes(), EmpiricalBayes(queries=top_k(20))):
    estimate = post.fit_transform(many)
    error = query_errors(counts / 200_000, estimate, queries=top_k(20)).mean()
    print(
        f"{post!r:36} mean squared error {error:.1e}, sum {estimate.values.sum(axis=1).mean():.2f}"
    )
