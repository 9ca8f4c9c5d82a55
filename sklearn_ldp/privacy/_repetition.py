"""The risk of a user who reports repeatedly: an attacker combines all reports of the user."""

from __future__ import annotations

import math
from itertools import combinations_with_replacement
from numbers import Integral
from typing import Any

import numpy as np
from scipy.special import gammaln, logsumexp

from .._core.common.random import RandomState, as_generator
from .._core.common.typing import Frequencies
from .._core.domains import closed_domain
from .._core.domains.values import in_order
from .._core.mechanisms.chain import Chain
from .._core.mechanisms.coins import PROBABILITY_UNIT, SeededCoins
from ..oracles import BaseOracle

_MOST_LISTED = 1 << 22  # maximum size of the list of all sets of reports
_MOST_DRAWN = 1 << 26
_LEAST_USERS = 1000
_MOST_USERS = 20_000
_MOST_TOGETHER = 1 << 20  # maximum of users times categories that are processed in one step


def repeated_collection_risk(
    oracle: BaseOracle,
    n_rounds: int,
    epsilon_forever: float | None = None,
    frequencies: Frequencies | None = None,
    *,
    random_state: RandomState = None,
) -> np.ndarray:
    """Return how often an attacker guesses a user's value from all reports of the user.

    The attacker knows the frequencies of the values, and can link all reports of a user. The user's
    value stays the same in all rounds, and the attacker guesses the value with the largest
    posterior probability [1]_. The result is the probability that the guess is correct. It is exact
    if all possible sets of reports can be listed, which needs few rounds and GRR, Hadamard
    response, projective geometry response, or OLH with few categories. Otherwise it is a mean over
    1,000 to 20,000 simulated users, with a standard error of at most 0.016 (0.0035 with 20,000
    users).

    Parameters
    ----------
    oracle : oracle
        The oracle that randomizes each single report, with declared categories.
    n_rounds : int
        Number of collection rounds.
    epsilon_forever : float, default=None
        The `epsilon_forever` of the user's :class:`~sklearn_ldp.collection.RepeatedClient`, which
        has ``fixed_part=False``. If None, the user sends an independent report in each round.
    frequencies : array-like of shape (d,), or mapping by category, default=None
        The frequencies of the values. If None, all values are equally frequent.
    random_state : int, RandomState, Generator or None, default=None
        Seed for the simulated users. If None, the seed is random.

    Returns
    -------
    ndarray of shape (n_rounds,)
        The probability of a correct guess after 1, 2, .., `n_rounds` reports.

    Raises
    ------
    TypeError
        If the oracle is not supported, because the likelihood of a report takes more than two
        values. For example, oracles for sets of items are not supported.
    ValueError
        If the oracle's categories are not declared, `n_rounds` is not an integer >= 1,
        `epsilon_forever` is smaller than the oracle's epsilon, or `frequencies` are not valid.

    References
    ----------
    .. [1] H. H. Arcolezi, S. Gambs, "Revisiting locally differentially private protocols",
       https://arxiv.org/abs/2503.01482 (for a single report).

    Examples
    --------
    >>> from sklearn_ldp import GRR
    >>> from sklearn_ldp.privacy import repeated_collection_risk
    >>> repeated_collection_risk(GRR(1.0, categories=5), 6).round(2)
    array([0.4 , 0.4 , 0.47, 0.52, 0.56, 0.59])
    >>> repeated_collection_risk(GRR(1.0, categories=5), 6, epsilon_forever=2.0).round(2)
    array([0.4 , 0.4 , 0.47, 0.51, 0.53, 0.55])
    """
    if not isinstance(n_rounds, Integral) or n_rounds < 1:
        raise ValueError(
            f"Argument n_rounds must be an integer of at least 1, got {n_rounds!r}. Pass the "
            "number of collection rounds, such as 12."
        )
    protocol = oracle.protocol()
    epsilon = oracle.epsilon
    channel: Any = protocol.mechanism
    memo = Chain(channel, epsilon, epsilon if epsilon_forever is None else epsilon_forever)
    if hasattr(channel, "sided"):
        raise TypeError(
            "repeated_collection_risk does not support oracles for sets of items, such as "
            "ItemOracle. Use an oracle for one category per user, such as GRR or OLH."
        )
    chain = None if epsilon_forever is None else memo
    prior = _prior(frequencies, closed_domain(protocol.domain).categories)
    if chain is not None and chain.share in (
        0,
        PROBABILITY_UNIT,
    ):  # later reports reveal nothing new
        once = repeated_collection_risk(oracle, 1, None, frequencies, random_state=random_state)
        return np.repeat(once, n_rounds)
    law = channel.law_of_reports
    if law is not None:
        n_kinds = len(law.spread(prior))
        n_sets = math.comb(n_kinds + n_rounds - 1, n_rounds)
        if n_sets * (n_kinds + len(prior)) <= _MOST_LISTED:
            return _listed_risk(law, n_rounds, prior, chain)
    return _drawn_risk(channel, epsilon, n_rounds, prior, chain, as_generator(random_state))


def _prior(frequencies: Frequencies | None, categories: np.ndarray) -> np.ndarray:
    d = len(categories)
    if frequencies is None:
        return np.full(d, 1 / d)
    prior = np.asarray(in_order(frequencies, categories, "Argument frequencies"), dtype=float)
    if prior.shape != (d,) or not (prior >= 0).all() or not 0 < prior.sum() < math.inf:
        raise ValueError(
            f"Argument frequencies must be {d} numbers of at least 0 and not all 0, got "
            f"{prior!r}. Pass one frequency for each category."
        )
    return prior / prior.sum()


# -- all sets of reports ------------------------------------------------------------------------
def _listed_risk(law, n_rounds, prior, chain):
    supported = np.column_stack([law.spread(only_one) for only_one in np.eye(len(prior))]) > 0.5
    against = np.broadcast_to(law.unsupported, len(supported))
    base = against / against.sum()
    once = np.where(supported, np.broadcast_to(law.supported, len(base))[:, None], against[:, None])
    if chain is not None:
        share = chain.share / PROBABILITY_UNIT
        permanent = once * np.where(supported, 1, chain.keep_against / PROBABILITY_UNIT)
        permanent /= permanent.sum(axis=0)
        fresh = (1 - share) * base
    risk = np.empty(n_rounds)
    for n in range(1, n_rounds + 1):
        sets = np.array(list(combinations_with_replacement(range(len(base)), n)))
        counts = np.zeros((len(sets), len(base)))
        np.add.at(counts, (np.arange(len(sets))[:, None], sets), 1)
        ways = np.exp(gammaln(n + 1) - gammaln(counts + 1).sum(axis=1))
        if chain is None:
            likelihoods = np.exp(counts @ np.log(once))
        else:
            # Let y be the permanent report. With probability a, a report repeats y. Otherwise it
            # is drawn from `base`, which does not depend on y.
            ways *= np.exp(counts @ np.log(fresh))
            likelihoods = ((fresh + share) / fresh) ** counts @ permanent
        risk[n - 1] = ways @ (likelihoods * prior).max(axis=1)
    return risk


# -- simulated users ----------------------------------------------------------------------------
def _drawn_risk(channel, epsilon, n_rounds, prior, chain, rng):
    d = len(prior)
    coins = SeededCoins(rng)
    risk = np.zeros(n_rounds)
    n_users = min(max(_MOST_DRAWN // (d * n_rounds), _LEAST_USERS), _MOST_USERS)
    codes = np.sort(rng.choice(d, n_users, p=prior))
    with np.errstate(divide="ignore"):
        log_prior = np.log(prior)
    size = max(_MOST_TOGETHER // d, 1)
    for some in np.split(codes, range(size, n_users, size)):
        for n, logs in enumerate(_likelihoods(channel, epsilon, n_rounds, some, chain, coins)):
            posterior = log_prior + logs
            risk[n] += np.exp(posterior.max(axis=1) - logsumexp(posterior, axis=1)).sum()
    return risk / n_users


def _likelihoods(channel, epsilon, n_rounds, codes, chain, coins):
    """Yield the log-likelihoods of all values after each round, of shape (n_users, d)."""
    # The likelihood of a value is divided by the probability of the reports if none of them is
    # permanent. The ratio is 1 plus a sum over the distinct reports y. A summand is f(y), the
    # probability that y is the permanent report of the value, times R(y)**m - 1. Here m counts
    # how often y was sent, and R = 1 + a / ((1 - a) c(y)). One additional report therefore adds
    # f(y) R**m (R - 1), which is f(y) / c(y) times R**m a / (1 - a).
    every = np.arange(channel.n_categories)
    logs = np.zeros((len(codes), len(every)))
    if chain is None:
        for _ in range(n_rounds):
            logs += epsilon * channel.supports(channel.privatize(codes, coins), every)
            yield logs
        return
    a = chain.share / PROBABILITY_UNIT
    p = float(channel.own_support)
    against = chain.keep_against / PROBABILITY_UNIT
    s = p / (p + math.exp(epsilon) * (1 - p))
    forever = p / (p + (1 - p) * against)
    odds = math.log(a / (1 - a))
    kept = (math.log(forever / s), math.log((1 - forever) / (1 - s)))
    runs = np.split(codes, np.flatnonzero(np.diff(codes)) + 1)  # the codes are sorted
    permanent = np.concatenate([chain.permanent(run[:1], coins, n=len(run)) for run in runs])
    earlier: list[np.ndarray] = []
    for _ in range(n_rounds):
        reports = chain.uniform(codes[:1], coins, n=len(codes))
        is_permanent = chain.are_permanent(len(codes), coins)
        reports[is_permanent] = permanent[is_permanent]
        base = channel.log_base(reports)
        if base is None:  # all reports are equally likely: derived from their entropy given a value
            inside = p * math.log(p / s) + (1 - p) * math.log((1 - p) / (1 - s))
            base = -inside - channel.report_entropy() * math.log(2)
        times = sum(
            (np.all(np.atleast_2d((reports == previous).T), axis=0) for previous in earlier), 0
        )
        added = odds + times * np.logaddexp(0, odds - base)
        supported = channel.supports(reports, every)
        added = np.reshape(added, (-1, 1)) + np.where(supported, *kept)
        logs = np.logaddexp(logs, added)
        earlier.append(reports)
        yield logs
