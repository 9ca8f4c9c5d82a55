"""
Say what will be asked, or let the data choose
==============================================

The best post-processor depends on the questions and on the data. One call knows the question; the
searches also look at the data. All of them use what the collector already has, so none of them
costs privacy.

A keyboard wants to know how often each letter is followed by another one. Users report two letters
that they have typed. The text is public here: it is the documentation of Python.
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
# The question: how often does each letter come first? That is 26 groups of 26 pairs. Pairs with "e"
# are frequent, pairs with "q" are not: groups differ, so it pays to say what will be asked.
firsts = groups([pair[0] for pair in pairs])
told = EmpiricalBayes(queries=firsts).fit(raw)

# %%
# The papers' way: make a synthetic data set from the estimate, simulate the collection on it many
# times, and take the method with the least error there. Here there are two such data sets, as each
# one leans towards the method that makes it.
search = SyntheticSearch(queries=firsts, random_state=0).fit(raw)
print(search.best_estimator_)
_ = SearchDisplay.from_estimator(search)

# %%
# With candidates of your own, and no EmpiricalBayes among them, no one of them is to be kept unless
# another is surely better, and which has the least error is partly luck. A weighted mean of them
# depends less on it; the weights stand behind the names.
mine = [Base(), BasePos(), BaseCut(), NormSub(), PowerNS()]
picked = SyntheticSearch(mine, queries=top_k(10), random_state=0).fit(raw)
stack = SyntheticStack(mine, queries=top_k(10), random_state=0).fit(raw)
_ = SearchDisplay.from_estimator(stack)
for one in (picked, stack):
    mse = frequency_mse(truth, one.estimate_, queries=top_k(10))
    print(f"{type(one).__name__:16} ten most frequent, mean squared error {mse:.1e}")

# %%
# Another way assumes nothing: make an estimate from some of the reports, and compare it with the
# raw estimate from the others. With only 26 queries, the noise of the held-out reports hides most
# differences, as the error bars show. So the one that was told the question is left for another
# method only with evidence.
held_out = HeldOutSearch(queries=firsts).fit(raw)
print(held_out.best_estimator_)
_ = SearchDisplay.from_estimator(held_out)

# %%
# If only the estimate is left, and no reports: noise is added to one copy of it and taken from
# another, so that the two are independent.
bootstrap = HeldOutSearch(queries=firsts, method="bootstrap").fit(raw)
print(bootstrap.best_estimator_)

# %%
# In a simulation the truth is known, so we can see how good the choices were.
answers = firsts.matrix(len(truth)) @ truth
for name, estimate in {
    "raw": raw,
    "not told": EmpiricalBayes().fit_transform(raw),
    "told": told.estimate_,
    "SyntheticSearch": search.estimate_,
    "HeldOutSearch": held_out.estimate_,
    "noisy copies": bootstrap.estimate_,
}.items():
    error = np.abs(estimate.answer(firsts)[0] - answers).max()
    mse = frequency_mse(truth, estimate, queries=firsts)
    print(f"{name:16} mean squared error {mse:.1e}, largest error {error:.2%}")

# %%
# Where groups do not differ there is nothing to gain. A state of the US is no more like the others
# of its division than like any: to be told costs at most 1 % there, averaged over collections.
states = load_us_states(n_samples=1_000_000, random_state=0)
divisions = groups(states.groups["division"])
many = OLH(epsilon=1.0, categories=states.categories, random_state=0).simulate(states.counts, 60)
for post in (EmpiricalBayes(), EmpiricalBayes(queries=divisions)):
    error = query_errors(states.frequencies, post.fit_transform(many), queries=divisions).mean()
    print(f"{'not told' if post.queries is None else 'told':10} mean squared error {error:.3e}")

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
