"""MatrixOracle: channels made for queries, given by an array, or loaded from the package."""

import itertools
import pickle
from fractions import Fraction
from importlib.resources import files

import numpy as np
import pytest
from estimators import slow_but
from sklearn.base import clone
from threadpoolctl import threadpool_info, threadpool_limits

from sklearn_ldp import GRR, ExactMLE, MatrixOracle, SubsetSelection
from sklearn_ldp._core.mechanisms.coins import exp_lower_bound
from sklearn_ldp._core.numerics import strategies
from sklearn_ldp.collection import Aggregator, read_reports, write_reports
from sklearn_ldp.oracles.channels import PROBABILITY_UNIT, Coins, MatrixChannel, integer_channel
from sklearn_ldp.queries import groups, ranges, top_k
from sklearn_ldp.utils._checks import check_exact_epsilon_of
from sklearn_ldp.utils.estimator_checks import check_oracle

BUDGETS = (0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
STORED = list(itertools.product((16, 32, 64, 128, 256), BUDGETS))


def for_prefixes(d, epsilon, **options):
    return MatrixOracle(epsilon, categories=d, queries=np.tri(d), random_state=0, **options)


def worst_ratio(integers):
    """The largest ratio within a row, as a rational number."""
    most, least = integers.max(axis=1).tolist(), integers.min(axis=1).tolist()
    return max(Fraction(y, x) for y, x in zip(most, least, strict=True))


def mean_variance(channel, matrix):
    uniform = np.full(channel.n_categories, 1 / channel.n_categories)
    return channel.covariance(uniform).variances(matrix).mean()


# -- the channels themselves ------------------------------------------------------------------
@pytest.mark.parametrize(("d", "epsilon"), slow_but([(16, 1.0), (64, 4.0), (256, 0.5)], STORED))
def test_stored_channels_keep_epsilon(d, epsilon, monkeypatch):
    """By enumeration: every column sums to 2**64, and no ratio exceeds epsilon, nor wastes it.

    They are read and not computed. The negative control is one unit more of the largest entry.
    """
    monkeypatch.setattr(strategies, "optimised_channel", None)
    integers = for_prefixes(d, epsilon).channel().integers
    assert all(sum(column) == PROBABILITY_UNIT for column in integers.T.tolist())
    bound = exp_lower_bound(epsilon)
    assert bound * (1 - Fraction(1, 10**12)) <= worst_ratio(integers) <= bound
    largest = np.argmax(integers.max(axis=1) / integers.min(axis=1))
    least, most = int(integers[largest].min()), int(integers[largest].max())
    assert Fraction(most + most // 10**12, least) > bound
    stored = files("sklearn_ldp.oracles").joinpath("data", "prefix_channels.npz")
    assert len(stored.read_bytes()) < 2e6


@pytest.mark.parametrize(
    ("d", "epsilon", "most"), [(64, 1.0, 12.2), (64, 2.0, 2.8), (64, 4.0, 0.40), (256, 1.0, 22.0)]
)
def test_variance_of_prefixes(d, epsilon, most):
    """n times the mean variance under uniform users; the negative control is a square wave."""
    assert mean_variance(for_prefixes(d, epsilon).channel(), np.tri(d)) <= most
    wave = for_prefixes(d, epsilon, strategy="square-wave").channel()
    assert mean_variance(wave, np.tri(d)) > most


def test_a_channel_between_two_stored_ones_is_no_worse_than_the_lower():
    variance = [mean_variance(for_prefixes(16, e).channel(), np.tri(16)) for e in (1.0, 1.2, 1.5)]
    assert variance[0] > variance[1] > variance[2]


@pytest.mark.parametrize(
    ("d", "epsilon"),
    [(2, 1.0), (13, 0.3), (17, 1.0), pytest.param(40, 1.0, marks=pytest.mark.slow)],
)
def test_single_categories_are_as_accurate_as_by_subset_selection(d, epsilon):
    variance = MatrixOracle(epsilon).channel(d).total_variance()
    assert variance <= 1.001 * SubsetSelection(epsilon).channel(d).total_variance()


def test_groups_are_more_accurate_than_by_subset_selection():
    """And single categories stay unbiased, if noisy."""
    labels = np.arange(16) // 4
    matrix = groups(labels).matrix(16)
    channel = MatrixOracle(1.0, queries=groups(labels)).channel(16)
    other = SubsetSelection(1.0).channel(16)
    best = SubsetSelection(1.0).channel(4).total_variance() / 4  # of the groups as categories
    assert mean_variance(channel, matrix) < 1.1 * best < 0.6 * mean_variance(other, matrix)
    np.testing.assert_allclose(channel.decoding @ channel.probabilities, np.eye(16), atol=1e-6)


def test_the_gradient_is_that_of_the_loss():
    """Against central differences; the negative control lacks the term of the row sums."""
    rng = np.random.default_rng(0)
    channel = rng.uniform(1, 2, size=(6, 4))
    gram = np.tri(4).T @ np.tri(4)
    _, gradient = strategies.channel_loss(channel, gram)
    steps = np.eye(24).reshape(24, 6, 4) * 1e-6
    loss = [
        strategies.channel_loss(channel + step, gram)[0]
        - strategies.channel_loss(channel - step, gram)[0]
        for step in steps
    ]
    expected = np.reshape(loss, (6, 4)) / 2e-6
    np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-5)
    assert np.abs(gradient - gradient.mean(axis=1, keepdims=True) - expected).max() > 1e-2


def test_columns_are_projected_onto_the_nearest_ones():
    """A point is the projection if no feasible point lies on the other side of it."""
    rng = np.random.default_rng(0)
    low = rng.dirichlet(np.ones(7))[:, None] / 2
    columns = rng.normal(size=(7, 40))
    nearest = strategies.nearest_columns(columns, low, 3 * low)
    np.testing.assert_allclose(nearest.sum(axis=0), 1)
    assert np.all((nearest >= low) & (nearest <= 3 * low))
    others = strategies.nearest_columns(rng.normal(size=(7, 40)), low, 3 * low)
    assert np.all(np.sum((columns - nearest) * (others - nearest), axis=0) < 1e-9)


@pytest.mark.parametrize("epsilon", [1e-5, 0.1, 1.0, 3.0, 10.0])
def test_width_of_the_wave_has_the_most_information(epsilon):
    """The bound on the mutual information of a number and its report, which is on [-b, 1 + b]."""
    near = np.exp(epsilon)

    def information(b):
        mass = 2 * b * near / (2 * b * near + 1)
        return np.log((2 * b + 1) / (2 * b * near + 1)) + mass * epsilon

    b = strategies.wave_width(epsilon)
    # At a maximum the slope is 0: rounding errors hide it only for the least epsilon.
    if epsilon > 1e-3:
        assert information(b) > max(information(0.99 * b), information(1.01 * b))
    assert 0 < b <= 0.5


def test_a_channel_is_made_in_one_thread(monkeypatch):
    """Threads of BLAS only wait for each other in its small products: 40 seconds for 4."""
    n_threads, descended = [], strategies.descended

    def watched(*arguments):
        n_threads.extend(one["num_threads"] for one in threadpool_info() if "blas" in str(one))
        return descended(*arguments)

    monkeypatch.setattr(strategies, "descended", watched)
    with threadpool_limits(2, user_api="blas"):
        strategies.optimised_channel(np.eye(3), 1.1, n_steps=4)
        assert set(n_threads) == {1}
        watched(
            strategies.square_wave(3, 1.1), strategies.Objective(np.eye(3)), 1.1, 4
        )  # the negative control
    assert set(n_threads) == {1, 2}


# -- integers ---------------------------------------------------------------------------------
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 20.0, 1000.0])
def test_rounding_keeps_epsilon(epsilon):
    rng = np.random.default_rng(1)
    for d in (2, 5):
        low = rng.dirichlet(np.ones(9))[:, None] * 2 / (1 + np.exp(min(epsilon, 40)))
        channel = strategies.nearest_columns(
            rng.normal(size=(9, d)), low, np.exp(min(epsilon, 40)) * low
        )
        integers = integer_channel(channel, epsilon)
        assert all(sum(column) == PROBABILITY_UNIT for column in integers.T.tolist())
        assert worst_ratio(integers) <= exp_lower_bound(epsilon)
        assert np.abs(integers / 2.0**64 - channel).max() < 1e-9


def other_than(n, epsilon):
    """Randomised response, as a channel."""
    weights = np.where(np.eye(n, dtype=bool), np.exp(epsilon), 1.0)
    return weights / weights.sum(axis=0)


@pytest.mark.parametrize("epsilon", [1e-6, 1.0, 20.0, 40.0])
def test_rounding_moves_no_probability_and_refuses_what_it_would_have_to_move(epsilon):
    channel = other_than(4, epsilon)
    for budget in (epsilon, 1.2 * epsilon):
        moved = np.abs(integer_channel(channel, budget) / 2.0**64 - channel).max()
        assert moved < (1e-10 if epsilon <= 20 else 0.01)  # a unit of 78 at epsilon 40
    with pytest.raises(ValueError, match="has an epsilon of .*, more than"):
        integer_channel(channel, epsilon / 1.2)
    with pytest.raises(ValueError, match="column 0 sums to 0.99"):
        integer_channel(0.99 * channel, epsilon)
    with pytest.raises(ValueError, match="no integers over 2\\*\\*64 near this channel"):
        integer_channel(other_than(4, 44.0), 44.0)  # which needs a finer unit


def test_an_oracle_of_another_epsilon_fails_the_check():
    class Careless(GRR):
        factor = 1.2

        def _make_mechanism(self, domain):
            law = other_than(domain.size, self.factor * self.epsilon)
            return MatrixChannel(integer_channel(law, self.epsilon))

    with pytest.raises(ValueError, match="has an epsilon of .*, more than"):
        check_oracle(Careless())
    Careless.factor = 1.0
    Careless(1.0, categories=4).protocol()


def test_every_fall_of_the_coins():
    channel = MatrixOracle(1.0, strategy="square-wave").channel(5)
    check_exact_epsilon_of(channel, range(5), 1.0)
    broken = channel.integers.copy()
    broken[[0, 1], 0] += np.array([1 << 60, -(1 << 60)], dtype=np.int64).view(np.uint64)
    with pytest.raises(AssertionError, match="epsilon is exceeded"):
        check_exact_epsilon_of(MatrixChannel(broken), range(5), 1.0)


def test_draws_at_the_ends_of_shares():
    """Words just below, at and above where a share ends."""

    class Given(Coins):
        def bytes(self, n):
            return words.view(np.uint8)

    ends = np.array([[5, 1 << 63], [6, (1 << 64) - 1]], dtype=np.uint64)
    words = np.array([4, 5, 5, 6, 1 << 63, (1 << 64) - 1, (1 << 64) - 2, 0], dtype=np.uint64)
    laws = np.array([0, 0, 1, 1, 0, 1, 1, 1])
    assert Given().choices(ends, laws).tolist() == [0, 1, 0, 1, 2, 2, 1, 0]


# -- estimates --------------------------------------------------------------------------------
def coverage(oracle, truth, matrix, shrink, n=100_000, n_runs=60):
    """Share of the 95 % intervals, over collections and queries, that hold the true answers."""
    counts = np.round(truth * n).astype(int)
    simulated, exact = oracle.simulate(counts, n_runs), matrix @ (counts / counts.sum())
    answers = simulated.answer(matrix)
    ends = simulated.confidence_interval(0.95, queries=matrix)[:2]
    low, high = (answers + shrink * (end - answers) for end in ends)
    return np.mean((low <= exact) & (exact <= high))


@pytest.mark.slow
def test_intervals_of_ranges(seed):
    """Of 200 random ranges 95 % intervals cover 93 to 97 %.

    A run's share has a standard deviation of at most .03, their mean of .004: error rate below
    1e-5. The negative control has intervals of three quarters of the length.
    """
    rng = np.random.default_rng([seed, 34])
    bounds = np.sort([rng.choice(65, 2, replace=False) for _ in range(200)], axis=1)
    matrix = ranges(bounds).matrix(64).toarray()
    truth = rng.dirichlet(np.full(64, 0.5))
    oracle = for_prefixes(64, 1.0).set_params(random_state=rng)
    assert 0.93 < coverage(oracle, truth, matrix, 1.0) < 0.97
    assert coverage(oracle, truth, matrix, 0.75) < 0.93


def test_exact_mle_takes_its_reports():
    oracle = for_prefixes(16, 2.0)
    estimate = oracle.fit_transform(np.arange(4000) % 7)
    mle = ExactMLE().fit(estimate)
    assert mle.gap_ <= 1e-9
    assert mle.frequencies_.min() >= 0
    # The sufficient condition: no category would gain likelihood.
    chances = oracle.channel().probabilities
    share = oracle.support_counts_ / 4000
    assert (chances.T @ (share / (chances @ mle.frequencies_))).max() < 1 + 1e-8


# -- the integers travel ----------------------------------------------------------------------
def test_servers_compute_nothing_again(monkeypatch, tmp_path):
    """Neither from a pickle nor from the integers, and reports of others are refused."""
    client = MatrixOracle(0.9, categories=6, queries=ranges(2))
    integers = client.channel().integers
    pickled = pickle.dumps(client.fit(np.arange(600) % 6))
    monkeypatch.setattr(strategies, "optimised_channel", None)
    assert clone(client).channel() is client.channel()  # which is kept, but no other one
    with pytest.raises(TypeError):
        clone(client).set_params(epsilon=1.2).channel()
    monkeypatch.setattr("sklearn_ldp._core.mechanisms.matrix._KEPT", {})
    server = pickle.loads(pickled).partial_fit(np.arange(600) % 6)
    assert server.n_samples_seen_ == 1200
    np.save(tmp_path / "integers.npy", integers)
    of_array = MatrixOracle(0.9, categories=6, strategy=np.load(tmp_path / "integers.npy"))
    assert of_array.protocol().difference(server.protocol()) == ""
    reports = of_array.privatize(np.arange(600) % 6)
    write_reports(tmp_path / "a.parquet", reports, of_array, batch_id="a")
    assert len(read_reports(tmp_path / "a.parquet", server.protocol())) == 600
    Aggregator(of_array).add(reports, "a").save(tmp_path / "state.npz")
    assert Aggregator.load(tmp_path / "state.npz", server.protocol()).n_samples == 600
    other = MatrixOracle(0.9, categories=6, strategy=integers[::-1])
    with pytest.raises(ValueError, match="channel_sha256.*same versions of NumPy and SciPy"):
        read_reports(tmp_path / "a.parquet", other)


@pytest.mark.parametrize("n_outputs", [2, 3, 4])
@pytest.mark.parametrize("d", [2, 3, 8])
def test_outputs_that_say_nothing_are_refused_whatever_rounding_makes_of_them(d, n_outputs):
    flat = np.full((n_outputs, d), 1 / n_outputs)
    with pytest.raises(ValueError, match="it is not informative"):
        MatrixOracle(categories=d, strategy=flat).protocol()
    # Negative control: a millionth of a difference is little, and is something.
    told = np.where(np.arange(d) == np.arange(d)[:, None], np.exp(1e-6), 1.0)
    told /= told.sum(axis=0)
    MatrixOracle(categories=d, strategy=told).protocol()


MADE_FOR = {"none": {}, "wave": {"strategy": "square-wave"}, "tri": {"queries": np.tri(6)}}


# -- what is refused --------------------------------------------------------------------------
def test_arrays_that_are_no_channel():
    good = strategies.square_wave(4, 1.0)
    thrice = integer_channel(good, 1.0)
    for array, what in [
        (good[:, :3], r"expected an array of shape \(m, 4\)"),
        (good[0], "expected an array of shape"),
        (good * 0.9, "column 0 sums to"),
        (
            strategies.square_wave(4, 1.1),
            r"has an epsilon of 1\.1, more than 1, because of .* output 3",
        ),
        (np.eye(4), "expected probabilities above 0"),
        (np.where(good == good.max(), np.nan, good), "expected probabilities above 0"),
        (np.full((4, 4), 0.25), "it is not informative"),
        (thrice - np.uint64(1), "column 0 sums to"),
        (np.array([list("abcd")] * 4), "expected numbers"),
    ]:
        with pytest.raises(ValueError, match=what) as error:
            MatrixOracle(1.0, categories=4, strategy=array).fit([0, 1])
        assert "MatrixOracle" in str(error.value)
        assert "\n" not in str(error.value)
    assert MatrixOracle(1.0, categories=4, strategy=good.tolist()).channel().n_reports == len(good)
    same = MatrixOracle(1.0, categories=4, strategy=thrice.astype(object)).channel()
    np.testing.assert_array_equal(same.integers, thrice)


def test_other_refusals():
    with pytest.raises(ValueError, match="at most 512 categories, got 1,000,000"):
        MatrixOracle(1.0, categories=10**6).protocol()
    with pytest.raises(ValueError, match="at most 2048 categories"):
        MatrixOracle(1.0, categories=10**6, strategy="square-wave").protocol()
    with pytest.raises(ValueError, match=r"\*true\* frequencies"):
        MatrixOracle(1.0, categories=6, queries=top_k(2)).protocol()
    with pytest.raises(ValueError, match="queries are for 4 categories"):
        MatrixOracle(1.0, categories=6, queries=np.eye(4)).protocol()
    for queries in (np.zeros((2, 4)), np.ones((1, 4))):
        with pytest.raises(ValueError, match="MatrixOracle has the same weight for all"):
            MatrixOracle(1.0, categories=4, queries=queries).protocol()
    for options in MADE_FOR.values():
        with pytest.raises(ValueError, match="large enough for a report to carry information"):
            MatrixOracle(1e-12, categories=6, **options).protocol()


@pytest.mark.parametrize("made_for", slow_but(["none", "wave"], MADE_FOR))
@pytest.mark.parametrize("epsilon", slow_but([30.0, 1e9], [1e-3, 30.0, 800.0, 1e9]))
def test_extreme_budgets(made_for, epsilon):
    """The estimate of a huge epsilon is exact."""
    channel = MatrixOracle(epsilon, categories=6, **MADE_FOR[made_for]).channel()
    assert worst_ratio(channel.integers) <= exp_lower_bound(epsilon)
    np.testing.assert_allclose(channel.decoding @ channel.probabilities, np.eye(6), atol=1e-4)
    if epsilon > 1:
        assert channel.total_variance() < 1e-3
