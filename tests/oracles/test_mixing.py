"""The keyed hash family of OLH, for categories that are on no list."""

import numpy as np
import pytest
from scipy import stats

from sklearn_ldp import OLH
from sklearn_ldp._core.domains.canonical import word_digest
from sklearn_ldp.oracles._local_hashing import MixingHash


def mixing(**parameters):
    return OLH(**{"epsilon": 1.0, "hash_family": "mixing", **parameters})


def test_clients_need_no_list(seed):
    """Open reports, aggregated over candidates: within 6 standard errors (error rate 1e-8)."""
    words = np.random.default_rng(seed).choice(
        ["sun", "moon", "star", "comet"], size=40_000, p=[0.5, 0.3, 0.15, 0.05]
    )
    client = mixing(categories="open", random_state=seed)
    candidates = ["moon", "nebula", "sun"]
    server = mixing(categories=candidates).aggregate(client.privatize(words))
    truth = np.array([np.mean(words == word) for word in candidates])
    z = (server.frequencies_ - truth) / np.sqrt(server.noise_.variance(truth))
    assert np.abs(z).max() < 6
    # Negative control: a server that hashes other words.
    stranger = mixing(categories=["MOON", "nebula", "SUN"]).aggregate(client.privatize(words))
    z = (stranger.frequencies_ - truth) / np.sqrt(server.noise_.variance(truth))
    assert np.abs(z).max() > 6


def test_an_open_domain_cannot_be_estimated():
    with pytest.raises(ValueError, match="pass the list of categories to count as categories="):
        mixing(categories="open").aggregate([[0, 0]])
    with pytest.raises(ValueError, match="pass the list of categories to count as categories="):
        mixing(categories="open").fit(["a", "b"])
    with pytest.raises(ValueError, match="the domain is open .*Declare the list"):
        mixing(categories="open").true_frequencies(["a"])
    with pytest.raises(ValueError, match=r"hash_family=.mixing."):
        OLH(categories="open").privatize(["a"])


def test_hash_values_are_uniform_and_pairwise_independent(seed):
    """Chi-square over pairs of hash values of related categories at 1e-7; 45 pairs.

    Negative control: a hash of the seed alone must fail.
    """
    g, n = 5, 50_000
    words = [*range(5), "a", "b", "aa", ("a", "a"), 1.5]
    digests = np.array([word_digest(word) for word in words], dtype=np.uint64)
    mechanism = MixingHash(g, 2**63)
    seeds = np.random.default_rng(seed).integers(2**63, size=n)
    values = mechanism.hash(seeds[:, None], digests).astype(int)

    def p_value(one, other):
        return stats.chisquare(np.bincount(one * g + other, minlength=g * g)).pvalue

    pairs = [(i, j) for i in range(len(words)) for j in range(i)]
    assert min(p_value(values[:, i], values[:, j]) for i, j in pairs) > 1e-7
    same = mechanism.hash(seeds, np.zeros(n, dtype=np.uint64)).astype(int)
    assert p_value(same, same) < 1e-7


def test_digests_are_canonical():
    same = {word_digest(one) for one in (1, 1.0, True, np.int64(1))}
    assert len(same) == 1
    different = [1, "1", b"1", (1,), ("1",), 1.5, ((1,),), "", 0, (1, 2), (12,)]
    assert len({word_digest(value) for value in different}) == len(different)
    assert word_digest("sun") == 2504403492569046177  # on every machine, in every version
    with pytest.raises(TypeError, match="bytes, numbers, dates, members of enum"):
        word_digest({1})
