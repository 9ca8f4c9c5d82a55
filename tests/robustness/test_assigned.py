"""Hash functions that the collector assigns: the law, the check, the attack with and without."""

import hashlib
import hmac

import numpy as np
import pytest
from estimators import slow_but
from scipy import stats
from sklearn.base import clone
from test_poisoning import HASHING, TARGETS, N, gain_of, over

from benchmarks.security._attacks import chosen_functions, chosen_values
from sklearn_ldp import BLH, GRR, OLH, OUE
from sklearn_ldp.collection import Protocol
from sklearn_ldp.robustness import assigned_parts, check_assigned, poisoning_gain
from sklearn_ldp.robustness._assigned import _uniform
from sklearn_ldp.utils._checks import check_epsilon_of_assigned_parts

# Servers tell that reports may be fake, and count them.
pytestmark = pytest.mark.filterwarnings("ignore:.* expects reports that support")

KEY = bytes(range(32))


def tokens_of(n, start=0):
    return [f"user {i}" for i in range(start, start + n)]


# -- privacy ------------------------------------------------------------------------------------
@pytest.mark.parametrize("epsilon", slow_but([0.1], [0.1, 1.0, 4.0]))
@pytest.mark.parametrize(
    "oracle",
    [OLH(hash_range=4), BLH(), OLH(hash_range=9), OLH(hash_family="mixing", hash_range=3)],
    ids=repr,
)
def test_every_assigned_part_keeps_epsilon(oracle, epsilon):
    """By enumeration, so also against a collector who assigns parts in bad faith.

    The common checks do so at the default epsilon.
    """
    check_epsilon_of_assigned_parts(clone(oracle).set_params(epsilon=epsilon))


class _Careless(OLH):
    """Negative control: one of the assigned parts switches the randomisation off."""

    def _make_mechanism(self, domain):
        channel = super()._make_mechanism(domain)
        part = type(channel).public_part.fget(channel)

        def privatize(codes, parts, coins):
            reports = part.privatize(codes, parts, coins)
            honest = channel.hash(reports[:, 0], codes.astype(np.int64))
            reports[:, 1] = np.where(reports[:, 0] == 2, honest, reports[:, 1])
            return reports

        class Tampered(type(channel)):
            public_part = part._replace(privatize=privatize)

        channel.__class__ = Tampered
        return channel


class _Unlike(type(OLH(hash_family="mixing").channel(2))):
    """Negative control: parts are not drawn as `privatize` draws them."""

    @property
    def public_part(self):
        return super().public_part._replace(of_draws=lambda draws: draws // 2)

    def for_enumeration(self):
        small = super().for_enumeration()
        return _Unlike(small.digests, small.client)


class _UnlikeOLH(OLH):
    def _make_mechanism(self, domain):
        channel = super()._make_mechanism(domain)
        return _Unlike(channel.digests, channel.client)


def test_tampered_parts_are_found():
    with pytest.raises(AssertionError, match="reveals|exceeds epsilon"):
        check_epsilon_of_assigned_parts(_Careless())
    with pytest.raises(AssertionError, match="differs from `privatize`"):
        check_epsilon_of_assigned_parts(_UnlikeOLH(hash_family="mixing"))


# -- the derivation -----------------------------------------------------------------------------
def test_the_derivation_never_changes():
    """Vectors of the documented derivation, worked out step by step with the standard library."""
    oracle = OLH(1.0, categories=50)
    parts = assigned_parts(oracle, ["alice", 7, b"\x00"], KEY, collection_round="may")
    channel = oracle.channel()
    configuration = (
        '{"collection_round":"may","mechanism":{"hash_dimension":4,"hash_family":"linear",'
        '"hash_range":4},"n_draws":256,"oracle":"OLH"}'
    )
    assert (channel.n_digits, channel.field.order) == (4, 4)
    message = b"sklearn_ldp part 1\n" + configuration.encode()
    round_key = hmac.new(KEY, message, hashlib.sha512).digest()
    for part, text in zip(parts, [b"salice", b"i7", b"b\x00"], strict=True):
        digest = hmac.new(round_key, b"\x00" + text, hashlib.sha512).digest()
        vector = int.from_bytes(digest[:8], "big") % 256
        assert part == -(-vector // 3)
    parts = assigned_parts(OLH(hash_family="mixing", categories=9), ["alice", 7], KEY)
    np.testing.assert_array_equal(parts, [4951176113284147612, 4780068896076607025])


def test_draws_are_exactly_uniform_below_any_number():
    """Words at and beyond the last multiple are rejected, with the next word or the next digest."""
    high = 3 * 2**61  # a third of all words is rejected, so that some tokens need two digests
    texts = [b"%d" % i for i in range(30_000)]
    draws = _uniform(texts, b"k" * 64, high)
    assert draws.dtype == np.int64
    assert 0 <= draws.min() <= draws.max() < high
    # Error rate 1e-6: Kolmogorov-Smirnov; without rejection, low numbers come twice.
    assert stats.kstest((draws + 0.5) / high, "uniform").pvalue > 1e-6
    words = np.random.default_rng(0).integers(2**64, size=30_000, dtype=np.uint64)
    assert stats.kstest(words % np.uint64(high) / high, "uniform").pvalue < 1e-6


@pytest.mark.parametrize("oracle", slow_but(HASHING[2:], HASHING), ids=repr)
def test_parts_follow_the_honest_law(oracle):
    """Chi-square at 1e-6 for what is counted; seeds of mixing are all different."""
    oracle = over(oracle, 40)
    parts = assigned_parts(oracle, range(30_000), KEY)
    part = oracle.channel().public_part
    if part.shares is None:
        assert len(np.unique(parts)) == len(parts)
        assert stats.kstest(parts / 2**63, "uniform").pvalue > 1e-6
        return
    counts = np.bincount(parts, minlength=part.n_values)
    assert stats.chisquare(counts, 30_000 * part.shares).pvalue > 1e-6
    # Negative control: reduced to half of the functions.
    halved = np.bincount(parts // 2 * 2, minlength=part.n_values)
    assert stats.chisquare(halved, 30_000 * part.shares).pvalue < 1e-6


def test_parts_depend_on_key_round_oracle_and_token():
    oracle, tokens = over(HASHING[-1], 40), tokens_of(5)
    parts = assigned_parts(oracle, tokens, KEY)
    np.testing.assert_array_equal(parts, assigned_parts(oracle.protocol(), tokens, KEY))
    np.testing.assert_array_equal(parts[::-1], assigned_parts(oracle, tokens[::-1], KEY))
    # Clients need no list of the categories, and the server may add some.
    np.testing.assert_array_equal(parts, assigned_parts(over(oracle, "open"), tokens, KEY))
    for other in (
        assigned_parts(oracle, tokens, KEY + b"0"),
        assigned_parts(oracle, tokens, KEY, collection_round="may"),
        assigned_parts(clone(oracle).set_params(hash_range=5), tokens, KEY),
        assigned_parts(oracle, tokens_of(5, 5), KEY),
    ):
        assert not np.any(parts == other)


# -- clients and collectors ---------------------------------------------------------------------
@pytest.mark.slow
@pytest.mark.parametrize(
    ("oracle", "seed_of_oracle"),
    slow_but(
        [(OLH(), None), *((oracle, 3) for oracle in HASHING)],
        [(oracle, seed) for seed in (None, 3) for oracle in HASHING],
    ),
    ids=repr,
)
def test_reports_carry_their_parts(oracle, seed_of_oracle, monkeypatch):
    # Chunks of as many users as share a stream of coins, so that there are two of each.
    monkeypatch.setattr("sklearn_ldp._core.mechanisms.mechanism._CHUNK_BYTES", 1)
    oracle = over(oracle, 40, seed_of_oracle)
    parts = assigned_parts(oracle, range(40_000), KEY)
    values = np.arange(40_000) % 40
    reports = oracle.privatize(values, parts=parts)
    np.testing.assert_array_equal(reports[:, 0], parts)
    assert check_assigned(reports, oracle, range(40_000), KEY).all()
    # Estimates are those of honest functions: within 6 standard errors (error rate 1e-7).
    server = clone(oracle).aggregate(reports)
    z = (server.frequencies_ - 1 / 40) / np.sqrt(server.noise_.variance(np.full(40, 1 / 40)))
    assert np.abs(z).max() < 6
    if seed_of_oracle is not None:  # a user's coins depend on the seed and her place alone
        np.testing.assert_array_equal(oracle.privatize(values[:9], parts=parts[:9]), reports[:9])


def test_what_the_collector_refuses():
    oracle, tokens = over(OLH(hash_family="mixing"), 9, 0), tokens_of(6)
    reports = oracle.privatize(range(6), parts=assigned_parts(oracle, tokens, KEY))
    assert check_assigned(reports, oracle, tokens, KEY).all()
    assert not check_assigned(reports, oracle, tokens, KEY[::-1]).any()
    assert not check_assigned(reports, oracle, tokens, KEY, collection_round="june").any()
    assert not check_assigned(reports, oracle, tokens_of(6, 6), KEY).any()
    assert not check_assigned(oracle.privatize(range(6)), oracle, tokens, KEY).any()
    twice = np.concatenate([reports, reports[:2]])
    mask = check_assigned(twice, oracle, [*tokens, *tokens[:2]], KEY)
    assert mask.tolist() == [True] * 6 + [False] * 2
    assert check_assigned(iter([reports[:4], reports[4:]]), oracle, tokens, KEY).all()
    with pytest.raises(ValueError, match="6 reports and 5 tokens"):
        check_assigned(reports, oracle, tokens[:5], KEY)
    with pytest.raises(ValueError, match="cannot have made these reports"):
        check_assigned(reports[:, :1], oracle, tokens, KEY)


def test_bad_input_is_refused_with_a_remedy():
    oracle = over(OLH(), 9)
    with pytest.raises(TypeError, match="Use OLH or BLH"):
        assigned_parts(GRR(categories=9), ["a"], KEY)
    with pytest.raises(TypeError, match="Use OLH or BLH"):
        OUE(categories=9).privatize([0], parts=[0])
    with pytest.raises(TypeError, match="needs an oracle, got"):
        assigned_parts(OLH, ["a"], KEY)
    with pytest.raises(TypeError, match="key must be bytes"):
        assigned_parts(oracle, ["a"], "0" * 32)
    with pytest.raises(ValueError, match=r"at least 16 bytes.*token_bytes"):
        assigned_parts(oracle, ["a"], b"short")
    with pytest.raises(TypeError, match="tokens must be a list"):
        assigned_parts(oracle, "alice", KEY)
    with pytest.raises(TypeError, match="must have a form"):
        assigned_parts(oracle, [object()], KEY)
    for parts in ([0, 1], [10**6], [0.5], [-1]):
        with pytest.raises(ValueError, match="expects parts= to be one integer per user"):
            oracle.privatize([0], parts=parts)
    assert isinstance(oracle.protocol("may"), Protocol)
    with pytest.raises(ValueError, match="is of the round"):
        assigned_parts(oracle.protocol("may"), ["a"], KEY, collection_round="june")


# -- the attack ---------------------------------------------------------------------------------
SHARE, D = 0.05, 40


@pytest.mark.parametrize("oracle", [OLH(), OLH(hash_family="mixing")], ids=repr)
def test_assignment_takes_the_choice_of_functions_away(oracle, seed):
    """Gains within 5 bounds of the standard deviation (error rate below 1e-6).

    Negative control: the same collection without assignment shows the whole gain.
    """
    oracle, rng = over(oracle, D), np.random.default_rng(seed)
    m = round(N * SHARE)
    tokens = tokens_of(m)
    fake = chosen_functions(oracle, TARGETS, m, rng)
    gain, truth, spread = gain_of(oracle, fake, TARGETS, seed)
    options = {"target_frequency": truth}
    assert gain == pytest.approx(poisoning_gain(oracle, SHARE, 3, **options), abs=5 * spread)
    # With assignment, hardly any of these is accepted: the attackers have lost their votes.
    kept = check_assigned(fake, oracle, tokens, KEY)
    assert kept.mean() < 0.1
    # What is left is to choose the value that suits them for the function that they got.
    fake = chosen_values(oracle, TARGETS, m, rng, parts=assigned_parts(oracle, tokens, KEY))
    assert check_assigned(fake, oracle, tokens, KEY).all()
    left, truth, _ = gain_of(oracle, fake, TARGETS, seed)
    expected = poisoning_gain(oracle, SHARE, 3, target_frequency=truth, attack="assigned")
    assert left == pytest.approx(expected, abs=5 * spread)
    assert gain - left > 5 * spread


def test_the_gain_that_is_left():
    """The mean of the fullest box, enumerated for r = 1, 2, 3 and g = 4."""
    oracle = OLH(1.0, categories=100)
    channel = oracle.channel()
    p, q = float(channel.p), float(channel.q)
    assert q == 0.25
    for r, fullest in ((1, 1), (2, 5 / 4), (3, 27 / 16)):
        expected = 0.01 * (fullest - r * q) / (p - q)
        gain = poisoning_gain(oracle, 0.01, r, attack="assigned")
        assert gain == pytest.approx(expected)
        maximal = poisoning_gain(oracle, 0.01, r)
        assert (gain == maximal) if r == 1 else (gain < maximal)
    drawn = np.random.default_rng(0).multinomial(60, np.full(4, 0.25), 40_000).max(axis=1)
    found = poisoning_gain(oracle, 1.0, 60, attack="assigned") * (p - q) + 60 * q
    # Within 6 standard errors: error rate 1e-8.
    assert found == pytest.approx(drawn.mean(), abs=6 * drawn.std() / 200)
    with pytest.raises(ValueError, match="users of GRR draw none"):
        poisoning_gain(GRR(), 0.1, 1, n_categories=9, attack="assigned")
