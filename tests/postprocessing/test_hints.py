"""EmpiricalBayes(queries=...): what will be asked decides how the estimate is made."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.stats import norm as normal

from sklearn_ldp import OUE, Base, EmpiricalBayes, FrequencyEstimate, NoiseModel
from sklearn_ldp.datasets import load_us_states, make_zipf
from sklearn_ldp.metrics import query_errors
from sklearn_ldp.postprocessing._empirical_bayes import top as most_frequent
from sklearn_ldp.queries import full_domain, groups, query_matrix, random_sets, ranges, top_k

STATES = load_us_states(n_samples=100_000, random_state=0)
LABELS = STATES.groups["division"]
RAW = OUE(1.0, categories=STATES.categories, random_state=0).fit_transform(
    STATES.categories, sample_weight=STATES.counts
)


def values(**options):
    return EmpiricalBayes(**options).fit(RAW).frequencies_


@pytest.mark.parametrize(
    "queries",
    [
        None,
        full_domain(),
        random_sets(0.1),
        query_matrix(np.linspace(0, 1, 51)[None]),  # weights are no sets
        query_matrix(np.eye(51)),  # every category on its own
        query_matrix(np.ones((1, 51))),  # all of them
        query_matrix(np.tril(np.ones((51, 51)))),  # sets that overlap in too many ways
    ],
    ids=repr,
)
def test_queries_that_treat_all_categories_alike_change_nothing(queries):
    np.testing.assert_array_equal(values(queries=queries), values())


def test_disjoint_sets_act_like_groups():
    by_groups = EmpiricalBayes(groups=LABELS).fit(RAW)
    for queries in (groups(LABELS), groups(LABELS).matrix(51), groups(LABELS).matrix(51).toarray()):
        bayes = EmpiricalBayes(queries=queries).fit(RAW)
        np.testing.assert_allclose(bayes.frequencies_, by_groups.frequencies_, rtol=1e-12)
    named = EmpiricalBayes(queries=groups(pd.Series(LABELS, STATES.categories)[::-1])).fit(RAW)
    np.testing.assert_array_equal(named.frequencies_, by_groups.frequencies_)
    assert named.group_totals_[0].names == by_groups.group_totals_[0].names


def test_ranges_say_that_the_domain_is_ordered():
    np.testing.assert_allclose(values(queries=ranges(10)), values(ordered=True), rtol=1e-12)
    own = EmpiricalBayes(queries=ranges([(0, 7), (7, 30), (30, 51)])).fit(RAW)
    assert [len(one.names) for one in own.group_totals_] == [3, 5, 10]
    many = EmpiricalBayes(queries=ranges([(i, i + 20) for i in range(30)])).fit(RAW)
    np.testing.assert_array_equal(many.frequencies_, values(ordered=True))


# -- the most frequent ------------------------------------------------------------------------
def zipf_estimate(seed, d=400, n=300_000):
    counts = make_zipf(n, d, exponent=1.1, return_counts=True, random_state=seed)
    return OUE(1.0, categories=d, random_state=seed).simulate(counts), counts / n


def test_the_values_are_expectations_above_a_threshold():
    """Against dense posteriors, on both sides of the atom at the threshold."""
    estimate, _ = zipf_estimate(0)
    bayes = EmpiricalBayes(queries=top_k(12)).fit(estimate)
    support, prior = bayes.prior_support_[0], bayes.prior_weights_[0]
    raw, std = estimate.values[0], np.sqrt(estimate.noise.variance(support))
    posterior = prior * normal.pdf(raw[:, None], support, std)
    posterior /= posterior.sum(axis=1, keepdims=True)
    above = posterior.sum(axis=0)[::-1].cumsum()[::-1]  # expected number at or above
    edge = np.flatnonzero(above >= 12)[-1]
    part = (12 - above[edge + 1]) / (above[edge] - above[edge + 1])
    assert 0 < part <= 1
    kept = np.where(np.arange(len(support)) > edge, 1.0, 0.0)
    kept[edge] = part
    assert (posterior @ kept).sum() == pytest.approx(12)
    expected = posterior @ (kept * support) / (posterior @ kept)
    np.testing.assert_allclose(bayes.frequencies_, expected, rtol=1e-6)
    order = np.argsort(raw)
    assert np.all(np.diff(bayes.frequencies_[order]) > -1e-12)  # the order of the estimates stays


def gains(seed):
    """Errors on the 20 most frequent, of the usual posterior and the raw estimate over ours."""
    rng = np.random.default_rng([seed, 20])
    logs = []
    for _ in range(12):
        estimate, truth = zipf_estimate(int(rng.integers(1 << 30)))
        ours, usual, raw = (
            query_errors(truth, post.fit_transform(estimate), queries=top_k(20))[0]
            for post in (EmpiricalBayes(queries=top_k(20)), EmpiricalBayes(), Base())
        )
        logs.append(np.log([usual / ours, raw / ours]))
    return np.exp(np.mean(logs, axis=0))


def test_the_most_frequent_are_answered_better(seed):
    """Over 24 seeds the gains are 2.55 and 1.29, with standard deviations of .19 and .09: less than
    one seed in 1,000 fails. The negative control is the next test.
    """
    assert np.all(gains(seed) > [1.8, 1.0])


def test_the_most_frequent_of_shares_that_overlap_may_exceed_one_together():
    """Of items that 60, 45 and 37 % have. Negative control: with a sum of 1 they are halved."""
    noise = NoiseModel(p=0.5, q=1 / (np.exp(2) + 1), n_samples=30_000)
    truth = np.r_[0.6, 0.45, 0.37, np.full(47, 0.03)]
    values = truth + noise.std * np.random.default_rng(0).normal(size=(1, 50))
    estimate = FrequencyEstimate(values, range(50), noise)
    asked = EmpiricalBayes(queries=top_k(3), simplex=False).fit(estimate).frequencies_
    np.testing.assert_allclose(asked[:3], truth[:3], atol=0.05)
    halved = EmpiricalBayes(queries=top_k(3)).fit(estimate).frequencies_
    assert np.all(halved[:3] < 0.75 * truth[:3])


def test_where_nobody_stands_out_the_usual_posterior_stays(monkeypatch):
    """Negative control: without the guard the values are another estimate, a far worse one."""
    estimate = OUE(1.0, categories=1000, random_state=3).simulate(np.full(1000, 100))
    guarded = EmpiricalBayes(queries=top_k(10)).fit(estimate).frequencies_
    np.testing.assert_array_equal(guarded, EmpiricalBayes().fit(estimate).frequencies_)
    monkeypatch.setattr(most_frequent, "_EVIDENCE", -1.0)
    loose = EmpiricalBayes(queries=top_k(10)).fit(estimate).frequencies_
    assert np.mean((loose - 1e-3) ** 2) > np.mean((guarded - 1e-3) ** 2)


def test_many_categories_are_taken_piece_by_piece(monkeypatch):
    """Likelihoods of all pieces are made once if they fit into memory, and else thrice."""
    estimate, _ = zipf_estimate(1)
    whole = EmpiricalBayes(queries=top_k(20)).fit(estimate).frequencies_
    made, make = [], most_frequent._likelihoods
    monkeypatch.setattr(most_frequent, "_likelihoods", lambda *row: made.append(row) or make(*row))
    monkeypatch.setattr(most_frequent, "_AT_ONCE", 5000)
    for kept, times in ((most_frequent._KEPT, 1), (0, 3)):
        monkeypatch.setattr(most_frequent, "_KEPT", kept)
        again = EmpiricalBayes(queries=top_k(20)).fit(estimate).frequencies_
        np.testing.assert_allclose(again, whole, rtol=1e-12)
        assert len(made) == times
        made.clear()


def test_one_category_and_all():
    """The most frequent of all is where its estimate is; of all categories nothing is known."""
    estimate, _ = zipf_estimate(2)
    first = EmpiricalBayes(queries=top_k(1)).fit(estimate).frequencies_
    assert first.max() == pytest.approx(estimate.values.max(), rel=0.02)
    every = EmpiricalBayes(queries=top_k(400), simplex=False).fit(estimate).frequencies_
    np.testing.assert_allclose(every, EmpiricalBayes(simplex=False).fit(estimate).frequencies_)


def test_bad_questions():
    with pytest.raises(ValueError, match=r"top_k\(52\) needs at least 52 categories"):
        values(queries=top_k(52))
    with pytest.raises(
        ValueError, match=r"cannot combine queries=top_k\(3\) with groups= .* Leave out"
    ):
        values(queries=top_k(3), groups=LABELS)
    for d in (3, 5, 51):  # also where the domain is too small for ranges
        small = OUE(1.0, categories=d, random_state=0).simulate(np.full(d, 1000))
        with pytest.raises(
            ValueError, match=r"queries=top_k\(2\) .* Leave out groups= and ordered="
        ):
            EmpiricalBayes(queries=top_k(2), ordered=True).fit(small)
    with pytest.raises(ValueError, match="the estimate has"):
        values(queries=groups(LABELS[:50]))
    with pytest.raises(ValueError, match="The 'queries' parameter"):
        values(queries="states")
    with pytest.raises(ValueError, match="needs at least 60 categories"):
        values(queries=ranges(60))


def test_a_list_says_several_things_that_will_be_asked():
    regions = STATES.groups["region"]
    g, h = groups(LABELS), groups(regions)
    for both in ([g, h], sparse.vstack([g.matrix(51), h.matrix(51)])):  # sets may overlap
        np.testing.assert_allclose(
            values(queries=both), values(groups=[LABELS, regions]), rtol=1e-12
        )
    np.testing.assert_allclose(values(queries=[g, g]), values(queries=g), rtol=1e-12)
    both = values(queries=[g, ranges(10)])
    np.testing.assert_allclose(both, values(groups=LABELS, ordered=True), rtol=1e-12)
    np.testing.assert_array_equal(values(queries=["California", "Texas"]), values())
    np.testing.assert_array_equal(values(queries=[top_k(5)]), values(queries=top_k(5)))
    with pytest.raises(ValueError, match=r"top_k\(5\) cannot be combined with other queries"):
        values(queries=[g, top_k(5)])
