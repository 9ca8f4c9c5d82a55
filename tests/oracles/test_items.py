"""Several items a user: laws enumerated over all sets, containers, and what takes the estimate."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from scipy import sparse, stats
from sklearn.base import clone

from benchmarks.accuracy.items import law_of, sets
from benchmarks.security._chains import ratio
from sklearn_ldp import (
    Base,
    BaseCut,
    BasePos,
    ColumnOracle,
    EmpiricalBayes,
    FrequencyEstimate,
    HeldOutSearch,
    ItemOracle,
    KeyValueOracle,
    NormSub,
    PostPos,
    SubsetSelection,
    SyntheticSearch,
    Trend,
    load_estimate,
)
from sklearn_ldp._core.common import privacy
from sklearn_ldp._core.mechanisms.chain import Chain
from sklearn_ldp._core.mechanisms.coins import (
    PROBABILITY_UNIT,
    SeededCoins,
    exp_lower_bound,
    group_threshold,
)
from sklearn_ldp.collection import (
    Aggregator,
    RepeatedClient,
    client_module,
    read_reports,
    write_reports,
)
from sklearn_ldp.inference import combine
from sklearn_ldp.oracles import estimate_by_group
from sklearn_ldp.oracles._items import SetHash
from sklearn_ldp.planning import Plan
from sklearn_ldp.postprocessing import NPMLE
from sklearn_ldp.queries import groups, random_sets, top_k
from sklearn_ldp.robustness import poisoning_gain, support_size_test
from sklearn_ldp.utils import _checks
from sklearn_ldp.utils._checks import check_exact_epsilon_of, collector_checks

METHODS = pytest.mark.parametrize("method", ["subset", "hash"])
NAMES = list("abcdefgh")
USERS = [["a", "b"], ["a"], [], ["a", "b", "c"], ["h", "a"]] * 400
SHARES = np.array([0.8, 0.4, 0.2, 0, 0, 0, 0, 0.2])


def oracle(method="subset", **parameters):
    given = {"categories": NAMES, "max_items": 3, "method": method, "random_state": 0}
    return ItemOracle(2.0).set_params(**{**given, **parameters})


def subset_channel(d, m, epsilon, n_picks=1):
    channel = ItemOracle(epsilon, max_items=m, method="subset").channel(d)
    channel.n_picks = n_picks  # 1 draws nothing, where no user has more items than m
    return channel


# -- laws -------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("d", "m", "epsilon", "size"),
    [(4, 2, 1.0, 1), pytest.param(6, 2, 0.2, 2, marks=pytest.mark.slow)],
)
def test_the_law_of_subsets_over_all_sets_and_reports(d, m, epsilon, size):
    """Epsilon, p, q and the joint support are exact, whatever the sets are."""
    channel = subset_channel(d, m, epsilon)
    assert channel.size == size
    laws = {codes: law_of(channel, codes) for codes in sets(d, m)}
    assert ratio(list(laws.values())) <= exp_lower_bound(epsilon)
    assert ratio(list(laws.values())) >= exp_lower_bound(epsilon) * (1 - Fraction(1, 10**12))
    either = channel.p * Fraction(size - 1, d + m - 1)
    neither = (size * (size - 1) - either * m * (m - 1 + 2 * d)) / (d * (d - 1))
    for codes, law in laws.items():
        for v in range(d):
            share = sum(chance for report, chance in law.items() if v in report)
            assert share == (channel.p if v + 1 in codes else channel.q)
        for v, w in combinations(range(d), 2):
            both = sum(chance for y, chance in law.items() if v in y and w in y)
            expected = either if {v + 1, w + 1} & {*codes} else neither
            assert abs(both - expected) < Fraction(1, 2**55)
    # Negative control: a threshold that is larger by a part in 10**9.
    channel.bounds = [end + end // 10**9 for end in channel.bounds[:-1]] + [PROBABILITY_UNIT]
    with pytest.raises(AssertionError, match="epsilon is exceeded"):
        check_exact_epsilon_of(channel, map(np.array, sets(d, m)), epsilon)


def test_one_item_is_subset_selection_with_a_dummy():
    ours, theirs = subset_channel(4, 1, 1.0), SubsetSelection(1.0).channel(5)
    for code in range(5):  # 0 is no item, which the other channel numbers last
        law = _checks.exact_report_distribution(theirs, (code - 1) % 5)
        assert law_of(ours, (code,)) == law


def test_more_items_than_are_reported_are_a_uniform_choice():
    """Of three items with two in a report, each is one of them with the probability 2/3."""
    channel = subset_channel(4, 2, 1.0, n_picks=6)
    law = law_of(channel, (4, 2, 1))
    support = [sum(c for y, c in law.items() if v in y) for v in range(4)]
    expected = (2 * channel.p + channel.q) / 3
    assert support == [expected, expected, channel.q, expected]


@pytest.mark.slow
def test_the_law_of_hashing_over_all_sets_and_reports():
    channel = ItemOracle(1.0, max_items=2, method="hash").channel(4).for_enumeration()
    channel.client.n_seeds, channel.client.n_picks = 4, 1
    laws = {codes: law_of(channel, codes) for codes in sets(4, 2)}
    check_exact_epsilon_of(channel, map(np.array, laws), 1.0)
    for codes, law in laws.items():
        reports = np.array(list(law))
        for v in (code - 1 for code in codes if code):
            supported = channel.supports(reports, np.array([v]))[:, 0]
            assert sum(np.array(list(law.values()))[supported]) == channel.p
    entropies = (stats.entropy([float(p) for p in law.values()], base=2) for law in laws.values())
    assert min(entropies) == pytest.approx(channel.report_entropy(), rel=1e-9)
    channel.client.threshold += PROBABILITY_UNIT // 10**9  # negative control
    with pytest.raises(AssertionError, match="epsilon is exceeded"):
        check_exact_epsilon_of(channel, map(np.array, laws), 1.0)


def test_the_hash_of_items_is_not_linear():
    """Else an item on the line of two of the user's own is supported less often than 1 / g.

    Over seeds: error rate 1e-9 of a normal test.
    """
    client = ItemOracle(1.0, max_items=2, method="hash").channel(4).client
    g, digests = client.hash_range, np.array([11, 12, 13], dtype=np.uint64)
    u, v, w = client.hash(np.arange(20_000)[:, None], digests).T
    for one, other in ((u, v), (v, w), ((w + u) % g, (2 * v) % g)):
        assert stats.binomtest(int(np.sum(one == other)), 20_000, 1 / g).pvalue > 1e-9


@METHODS
def test_estimates_are_unbiased_with_the_stated_variance(method, seed):
    """Chi-square of all categories at 1e-6. Negative control: an item is moved by 14 errors."""
    fitted = oracle(method, random_state=seed, max_items=4).fit(USERS)
    std = np.sqrt(fitted.noise_.variance(SHARES))
    z = (fitted.frequencies_ - SHARES) / std
    law = stats.chi2(len(z))
    assert law.isf(1 - 5e-7) / 4 < z @ z < 1.5 * law.isf(5e-7)  # items of one user are correlated
    z[0] += 14
    assert z @ z > 1.5 * law.isf(5e-7)


# -- containers and what is refused ---------------------------------------------------------------
def containers():
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    matrix = np.array([[name in user for name in NAMES] for user in USERS])
    arrow = pa.array(USERS)
    yield from (matrix, sparse.csr_array(matrix), sparse.coo_matrix(matrix.astype(int)))
    yield from (arrow, pa.chunked_array([arrow[:7], arrow[7:]]), pa.table({"x": arrow}))
    yield from (pd.Series(USERS), pd.DataFrame({"x": USERS}), pd.Series(arrow, dtype="object"))
    yield pd.Series(arrow.to_pandas(), dtype=pd.ArrowDtype(arrow.type))
    yield from (pl.Series(USERS), pl.DataFrame({"x": USERS}))
    yield from (list(map(set, USERS)), list(map(np.array, USERS)), [u[::-1] for u in USERS])


def test_every_container_of_sets_gives_the_same():
    expected = oracle().fit(USERS).support_counts_
    for X in containers():
        np.testing.assert_array_equal(oracle().fit(X).support_counts_, expected, str(type(X)))
    np.testing.assert_allclose(oracle().true_frequencies(USERS), SHARES)
    with pytest.warns(UserWarning, match="max_items=2"):
        assert oracle(max_items=2).fit(USERS).n_clipped_ == 400
    with pytest.raises(ValueError, match="Declare the categories in categories="):
        oracle(categories="auto").fit(USERS)


SECRET = "not for logs"


@pytest.mark.parametrize(
    ("X", "fault"),
    [
        (SECRET, "a list of items for each user.*got a str"),
        ([["a"], SECRET], "got a str at position 1 \\(not shown"),
        ([["a"], None], "got a missing value at position 1"),
        ([["a"], float("nan")], "got a missing value at position 1"),
        ([["a"], {"a": 1}], "got a dict at position 1"),
        ([["a", None]], "in the list of row 0,.* no category for"),
        ([["a"], ["b", SECRET]], "in the list of row 1, got an unknown category at position 1"),
        ([["a", ["b"]]], "got an unknown category"),
        (np.array(["a", "b"]), "for each user.*got a ndarray|got a str at position 0"),
        (np.eye(8), "for each user, got"),
        (np.eye(3, dtype=bool), "one column for each of its 8 categories, got 3"),
        (2 * sparse.eye_array(8, format="csr"), "sparse matrix of zeros and ones"),
        ([], "at least 1 sample"),
        (iter([["a"]]), "only once"),
        ([list(range(10**4))], "unknown category"),
        ([["a"] * 10**6] + [[]] * 300, "pass the users in several calls of partial_fit"),
    ],
)
def test_what_is_no_set_is_refused_and_changes_nothing(X, fault):
    for client in (oracle(random_state=None), oracle("hash", random_state=None)):
        with pytest.raises(ValueError, match=fault) as caught:
            client.privatize(X)
        assert SECRET not in str(caught.value)
    fitted = oracle().fit(USERS[:50])
    before = fitted.support_counts_
    with pytest.raises(ValueError, match=r".+"):
        fitted.partial_fit(X)
    np.testing.assert_array_equal(fitted.support_counts_, before)


def test_an_item_that_stands_twice_counts_once_and_is_told(monkeypatch):
    monkeypatch.setattr("sklearn_ldp._core.common.privacy._given", set())
    client = oracle()
    with pytest.warns(UserWarning, match="contains an item twice"):
        counts = client.fit([["a", "a", "b"]] * 50).support_counts_
    np.testing.assert_array_equal(counts, oracle().fit([["a", "b"]] * 50).support_counts_)


# -- the life of a collection ---------------------------------------------------------------------
VALUES = np.empty(200, dtype=object)
VALUES[:] = [NAMES[: i % 4] for i in range(200)]
CASE = _checks._Case(NAMES, NAMES[::-1], VALUES, VALUES[:5], [["a"], [["a"], None], []])
NUMBERS = np.empty(200, dtype=object)
NUMBERS[:] = [dict.fromkeys(names, 0.5) for names in VALUES]
PAIRS = CASE._replace(values=NUMBERS, distinct=NUMBERS[:5], malformed=[["a"], [{"a": 2}], []])


@pytest.mark.parametrize("check", collector_checks(), ids=lambda check: check.__name__)
@pytest.mark.parametrize("collector", ["subset", "hash", "key values"])
def test_checks_of_collectors(collector, check, monkeypatch):
    has_numbers = collector == "key values"
    monkeypatch.setattr(_checks, "_case", lambda _: PAIRS if has_numbers else CASE)
    monkeypatch.setattr(_checks, "_declares", lambda _: "categories")
    check(KeyValueOracle(max_items=2) if has_numbers else ItemOracle(max_items=2, method=collector))


@METHODS
def test_files_checkpoints_and_groups(method, tmp_path):
    reports, server = oracle(method).privatize(USERS), oracle(method, random_state=None)
    other = clone(server).set_params(max_items=4)
    for name in ("a.parquet", "a.arrows", "a.jsonl"):
        write_reports(tmp_path / name, reports, server, batch_id="monday")
        again = read_reports(tmp_path / name, server)
        assert sorted(again.tolist()) == sorted(reports.tolist())
        with pytest.raises(ValueError, match="max_items 3 instead of 4"):
            read_reports(tmp_path / name, other)
    total = Aggregator(server).add(reports, "monday")
    total.save(tmp_path / "state.npz")
    loaded = Aggregator.load(tmp_path / "state.npz", server)
    plain = clone(server).aggregate(reports)
    np.testing.assert_array_equal(loaded.oracle_.support_counts_, plain.support_counts_)
    estimate = estimate_by_group(oracle(method), USERS, np.arange(len(USERS)) % 2)
    assert estimate.shares_overlap
    estimate.save(tmp_path / "estimate.npz")
    assert load_estimate(tmp_path / "estimate.npz").shares_overlap


def test_open_clients_and_a_server_with_a_list(tmp_path):
    client = ItemOracle(2.0, categories="open", max_items=3)
    reports = client.privatize(USERS)
    server = oracle("hash", random_state=None).aggregate(reports)
    errors = np.sqrt(server.noise_.variance(SHARES))
    assert np.all(np.abs(server.frequencies_ - SHARES) < 7 * errors)  # error rate 2e-11
    with pytest.raises(ValueError, match="needs a list of the categories"):
        ItemOracle(categories="open", method="subset").privatize(USERS)
    with pytest.raises(ValueError, match="another collection"):
        oracle("hash", max_items=2, random_state=None).aggregate(reports)


@METHODS
def test_a_memo_is_of_the_set(method, tmp_path):
    given = {"question": "apps", "epsilon_forever": 4.0, "max_epsilon": 8.0}
    server = oracle(method, random_state=None)
    client = RepeatedClient(server, tmp_path / "memo", **given)
    for i, names in enumerate((["a", "b"], ["b", "a"], NAMES, NAMES[::-1])):
        assert client.report(names, collection_round=f"{i}").shape[0] == 1
    assert client.spent == 8.0
    with pytest.raises(ValueError, match="new to this RepeatedClient"):
        client.report([], collection_round="9")
    twin = RepeatedClient(server, tmp_path / "memo", **given)
    reports = [twin.report([], collection_round="0"), client.report(["c"], collection_round="0")]
    np.testing.assert_array_equal(*reports)
    with pytest.raises(ValueError, match="another question"):
        RepeatedClient(server, tmp_path / "memo", **given | {"question": "x"})


class Tried:
    """One try of a report of a chain, which ends with whether it is kept."""

    def __init__(self, chain, *thresholds):
        self.chain, self.thresholds = chain, thresholds

    def privatize(self, codes, coins):
        report, is_kept = self.chain.tries(codes, 1, coins, None, *self.thresholds)
        return np.append(np.ravel(report), is_kept)

    def law(self, codes):
        whole = _checks.exact_report_distribution(self, np.array(codes))
        kept = {y[:-1]: chance for y, chance in whole.items() if y[-1]}
        return {y: chance / sum(kept.values()) for y, chance in kept.items()}


def few_hashes():
    """A hash of two items to five values with two seeds, and three sets of its users."""
    client = SetHash(5, 2, group_threshold(1.0, 2, 3))
    client.n_seeds, client.n_picks = 2, 1
    return client, list(map(tuple, np.array([[0, 0], [9, 0], [9, 8]], dtype=np.uint64)))


@pytest.mark.parametrize(
    ("channel", "users"), [(subset_channel(3, 2, 1.0), [*sets(3, 2)]), few_hashes()]
)
def test_a_report_of_a_memo_has_the_law_of_the_oracle(channel, users):
    epsilon, forever = 1.0, 2.0
    chain = Chain(channel, epsilon, forever)
    a = Fraction(chain.share, PROBABILITY_UNIT)
    uniform = Tried(chain, chain.keep_for, PROBABILITY_UNIT).law(users[0])
    permanent = [Tried(chain, PROBABILITY_UNIT, chain.keep_against).law(s) for s in users]
    single = [{y: a * p[y] + (1 - a) * uniform[y] for y in p} for p in permanent]
    assert ratio(permanent) <= exp_lower_bound(forever)
    assert ratio(single) <= exp_lower_bound(epsilon)
    for codes, law in zip(users, single, strict=True):
        assert all(abs(law[y] / p - 1) < 1e-11 for y, p in law_of(channel, codes).items())
    halved = [{y: p[y] / 2 + uniform[y] / 2 for y in p} for p in permanent]
    assert ratio(halved) > exp_lower_bound(0.5)  # negative control: another share


# -- the estimate -----------------------------------------------------------------------------
def test_what_adds_up_overlapping_shares_is_refused():
    fitted = oracle()
    estimate = fitted.fit_transform(USERS)
    assert estimate.shares_overlap
    assert not FrequencyEstimate([[0.5, 0.5]], ["a", "b"]).shares_overlap
    for queries in (groups([0, 0, 1, 1, 2, 2, 2, 2]), random_sets(0.5), np.ones((1, 8))):
        with pytest.raises(ValueError, match="overlap|count a user several times"):
            estimate.answer(queries)
        with pytest.raises(ValueError, match="overlap|count a user several times"):
            estimate.confidence_interval(0.9, queries)
        with pytest.raises(ValueError, match="two of these items"):
            Plan(fitted, queries=queries).rmse(100)
        with pytest.raises(ValueError, match="overlap|count a user several times"):
            HeldOutSearch(queries=queries).fit(estimate)
    for post in (NormSub(), EmpiricalBayes(), NPMLE(), Trend(), SyntheticSearch()):
        with pytest.raises(
            ValueError, match="sum to 1, but the frequencies of this estimate overlap"
        ):
            post.fit(estimate)
    with pytest.raises(TypeError, match="do not show which items each user has"):
        fitted.simulate(np.full(8, 10))
    with pytest.raises(TypeError, match="Collect sets of items separately"):
        ColumnOracle(domains={"a": 2}, oracle=ItemOracle()).protocol()
    with pytest.raises(TypeError, match="number of the user's items"):
        support_size_test(oracle().privatize(USERS[:9]), oracle())


def test_what_asks_for_single_shares_works():
    estimate = oracle(max_items=4).fit_transform(USERS)
    for post in (Base(), BasePos(), PostPos(), BaseCut(), NPMLE(simplex=False)):
        assert post.fit(estimate).estimate_.shares_overlap
    bayes = EmpiricalBayes(simplex=False).fit(estimate)
    assert bayes.frequencies_.sum() == pytest.approx(estimate.values.sum(), rel=0.2)
    for search in (HeldOutSearch(), HeldOutSearch(method="bootstrap")):
        assert len(search.fit(estimate).results_["candidate"]) == 5
    assert HeldOutSearch(queries=top_k(2)).fit(estimate).best_estimator_.queries is not None
    assert estimate.top(1)[0][0] == "a"
    assert {"a", "b"} <= {*estimate.detected()[0].tolist()}
    assert estimate.answer(["a"])["a"] == pytest.approx(estimate["a"])
    assert estimate.confidence_interval(0.95, simultaneous=True).low.shape == (1, 8)
    assert Plan(oracle()).rmse(1000) > 0
    assert poisoning_gain(oracle(), 0.01, 3) > 0.03
    assert poisoning_gain(oracle(), 0.01, 5, attack="input") == pytest.approx(0.03)


def test_noise_is_taken_at_the_shares_themselves():
    """And not at a distribution near them, whose variances are too small."""
    users = [NAMES[:3]] * 900 + [[]] * 100
    one, other = (oracle(random_state=seed).fit_transform(users) for seed in (1, 2))
    std = np.sqrt(one.noise.variance([0.9] * 3 + [0] * 5)[0])
    low, high = (one - other).confidence_interval(0.95)
    assert (high - low)[0, 0] / 2 / 1.96 == pytest.approx(2**0.5 * std, rel=0.05)
    both = combine([one, other])
    assert both.shares_overlap
    low, high = both.confidence_interval(0.95)
    # The shares at which it is taken are estimated, which moves it by 3 % (one standard deviation).
    assert (high - low)[0, 0] / 2 / 1.96 == pytest.approx(std / 2**0.5, rel=0.2)


def test_a_plan_weighs_noise_against_bias():
    planner = oracle()
    table = planner.plan([0.2, 0.2, 0.2, 0.2, 0.2], 10**6, frequency=0.5)
    assert table["max_items"].tolist() == [1, 2, 3, 4]
    np.testing.assert_allclose(table["bias"], 0.5 * (np.array([0.8, 1.4, 1.8, 2]) / 2 - 1))
    assert np.all(np.diff(table["std"]) > 0)
    assert table["rmse"].argmin() == 3
    few = planner.plan([0.2, 0.2, 0.2, 0.2, 0.2], 100, frequency=0.1)
    assert few["rmse"].argmin() == 0
    for sizes, share in (([1.0], 0.1), ([0, -1], 0.1), ([np.nan, 1], 0.1), ([1, 1], 2.0)):
        with pytest.raises(ValueError, match="users who have 0, 1, 2"):
            planner.plan(sizes, 100, frequency=share)
    pairs = KeyValueOracle(2.0, categories=NAMES).plan([1, 1, 1], 100)
    assert np.all(pairs["std"] > planner.plan([1, 1, 1], 100)["std"])


def test_clients_outside_python():
    client = oracle(random_state=None)
    assert '"kind": "items"' in client_module(client)
    assert "export function repeated" in client_module(client, epsilon_forever=4.0)
    with pytest.raises(ValueError, match="no client outside Python for KeyValueOracle"):
        client_module(KeyValueOracle(categories=NAMES))


# -- users with more items than max_items -----------------------------------------------------
PAIRS_OF_ITEMS = [["a", "b"], ["a", "c"], ["b", "a"], ["a"]] * 500


@pytest.mark.parametrize("method", ["subset", "hash", "key values"])
def test_fit_warns_if_the_bias_exceeds_the_noise(method):
    """The true bias of "a" is 3/4 * 1/2; clients never warn."""

    def collect(max_items, n_users=2000, call="fit"):
        users = PAIRS_OF_ITEMS[:n_users]
        if method == "key values":
            users = [dict.fromkeys(items, 0.5) for items in users]
            collector = KeyValueOracle(2.0, categories=NAMES, max_items=max_items, random_state=0)
        else:
            collector = oracle(method, max_items=max_items)
        return getattr(collector, call)(users)

    match = r"underestimates .*standard error \(up to 0\.4\).*max_items=1 items.*plan\(\.\.\) helps"
    for call in ("fit", "partial_fit"):
        privacy._given.clear()
        with pytest.warns(UserWarning, match=match):
            collect(1, call=call)
    collect(1)  # once
    privacy._given.clear()
    collect(2)  # no user has more items
    collect(1, n_users=8)  # the noise exceeds the bias


@METHODS
@pytest.mark.filterwarnings("ignore:privatize draws predictable", "ignore:.*predictable reports")
def test_clients_never_warn_about_the_number_of_items(method):
    reports = oracle(method, max_items=1).privatize(PAIRS_OF_ITEMS)
    oracle(method, max_items=1).aggregate(reports)
    oracle(method, max_items=1, random_state=None).privatize(PAIRS_OF_ITEMS[:1])


def test_the_largest_bias_is_the_expected_loss_of_an_item(seed):
    """It is measured against the items that 4,000 clients choose; error rate 1e-6."""
    users = [["a", "b", "c", "c"], ["a", "d"], ["e"], []] * 1000
    domain = ItemOracle(1.0, categories=NAMES, max_items=1).protocol().domain
    assert domain.largest_bias(domain._columns_of(users, "")) == pytest.approx(7 / 24)
    channel = ItemOracle(1.0, categories=NAMES, max_items=1).channel()
    with pytest.warns(UserWarning, match="twice"):
        codes = domain.encode(users, "ItemOracle")
    slots = channel.slots(codes, SeededCoins(np.random.default_rng(seed)))
    lost = 0.5 - np.mean(slots == 1)
    deviation = np.sqrt((1 / 3 * 2 / 3 + 1 / 4) / 4 / 4000)
    assert abs(lost - 7 / 24) < 5 * deviation
    assert abs(lost - 1 / 4) > 5 * deviation  # negative control: the loss without the set of three


@pytest.mark.parametrize(
    ("sizes", "frequency"),
    [
        ("abc", None),
        ([[1, 2]], None),
        ([1, 2], "5 %"),
        ([1, 2], np.nan),
        ([1, 2], 5),
        ([], None),
        ([np.inf, 1], None),
    ],
)
def test_plans_of_items_check_their_arguments(sizes, frequency):
    with pytest.raises(ValueError, match="ItemOracle.plan got sizes="):
        ItemOracle(1.0, categories=10).plan(sizes, 100, frequency=frequency)
