"""Cases to compare candidates on where nobody knows the truth: other raw estimates."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from .._core.estimates import EstimateSet, FrequencyEstimate
from .._core.noise import Noise
from .._core.queries import QuerySet, query_matrix
from ..metrics import query_errors
from ._base import Case, Judgement

_TINIEST = 1e-300  # keeps quotients finite
_MOST_STEPS = 60  # a bound on work, if `_PRECISE` does not end it before
_PRECISE = 1e-3  # of a draw's length


class SetCase(NamedTuple):
    """A set of estimates to post-process, and what each of its parts is compared with.

    Parameters
    ----------
    estimates : EstimateSet
        The set.
    parts : dict of Case
        Its parts that have users, by name.
    """

    estimates: EstimateSet
    parts: dict[Any, Case]

    @property
    def size(self) -> int:
        """Number of values to post-process."""
        return sum(case.size for case in self.parts.values())

    @property
    def shares(self) -> dict[Any, float]:
        """The share of each part in the mean error over all answers."""
        n_answers = {}
        for name, (part, truth, queries) in self.parts.items():
            asked = queries.aligned(part.categories, part.domain)
            n_answers[name] = asked.matrix(len(truth), truth).shape[0]
        total = sum(n_answers.values())
        return {name: n / total for name, n in n_answers.items()}


def queries_of(query_set: QuerySet, values: np.ndarray) -> QuerySet:
    """Return the queries of a case; those that depend on the truth look at these values."""
    if query_set.depends_on_truth:
        return query_matrix(query_set.matrix(len(values), values))
    return query_set


def errors_and_answers(candidate: Any, cases: list[Case], n_rows: int) -> Judgement:
    """The errors of a candidate on each case, and its mean answers (or values) for each row."""
    judged = [_judged(case, candidate.fit_transform(case.estimate)) for case in cases]
    answers = np.array([answer for _, answer in judged])
    of_rows = answers.reshape(n_rows, -1, answers.shape[1])  # the cases come row by row
    return Judgement(np.array([error for error, _ in judged]), of_rows.mean(axis=1))


def _judged(case: Case, result: FrequencyEstimate) -> tuple[float, np.ndarray]:
    """Return the error of one row, and its answers.

    Parameters
    ----------
    case : Case
        What the row is compared with.
    result : FrequencyEstimate of shape (1, d)
        What a candidate has made of the estimate of the case.

    Returns
    -------
    (float, ndarray)
        The error, in which the noise of the case is the same for all candidates; and the answers,
        or the values if the error has a closed form.
    """
    queries, truth = case.queries, case.frequencies
    is_closed = queries.square_weights(len(truth)) is not None
    answers = result.values if is_closed else result.answer(queries)
    error = query_errors(truth, result, queries=queries)[0]
    if is_closed and result.clip_answers:
        # Without clipping, the error over all sets is known. Drawn sets, whose noise is their own,
        # are only to tell what clipping changes.
        unclipped = replace(result, clip_answers=False)
        drawn = query_matrix(queries.matrix(len(truth)))
        error += query_errors(truth, unclipped, queries=queries)[0]
        error -= query_errors(truth, unclipped, queries=drawn)[0]
    return error, answers[0]


def errors_and_answers_of_set(candidate: Any, cases: list[SetCase]) -> Judgement:
    """Return the errors of a candidate on whole sets, and its mean answers.

    Parameters
    ----------
    candidate : post-processor
        The candidate.
    cases : list of SetCase
        All of the same parts.

    Returns
    -------
    Judgement
        One error for each case, the mean over all answers of all parts; and the answers by name.
    """
    errors = []
    answers: dict[Any, list[np.ndarray]] = {name: [] for name in cases[0].parts}
    for case in cases:
        made, shares, error = candidate.fit_transform(case.estimates), case.shares, 0.0
        for name, part in case.parts.items():
            of_part, answer = _judged(part, made[name])
            error += shares[name] * of_part
            answers[name].append(answer)
        errors.append(error)
    means = {name: np.mean(rows, axis=0) for name, rows in answers.items()}
    return Judgement(np.array(errors), means)


# -- noise that is added on purpose ---------------------------------------------------------------
def correlated(noise: Noise, frequencies: np.ndarray, independent: np.ndarray) -> np.ndarray:
    """Return normal errors with the covariances that an estimate has, made of independent ones.

    Parameters
    ----------
    noise : Noise
        The noise of a single estimate; without covariances, errors are taken as independent.
    frequencies : ndarray of shape (d,)
        True frequencies of all categories.
    independent : ndarray of shape (d,)
        Draws of the standard normal distribution.

    Returns
    -------
    ndarray of shape (d,)
        The errors.

    Notes
    -----
    They are the square root of the covariance matrix times independent normal numbers, by Lanczos'
    method, which needs nothing but products with the matrix. Scaled to a diagonal of ones, it is
    the identity plus a matrix of low rank for most oracles, which takes as many steps as the rank.
    """
    errors = noise.at(frequencies)
    deviations = np.sqrt(np.maximum(errors.variances(), 0))
    safe = np.maximum(deviations, _TINIEST)

    def correlations(vector):
        return errors.product(vector / safe) / safe

    try:
        return deviations * _square_root_product(correlations, independent)
    except ValueError:
        return deviations * independent


def _square_root_product(product: Any, vector: np.ndarray) -> np.ndarray:
    """Return the square root of a symmetric matrix times a vector, from products with the matrix.

    In the basis of the Krylov space, which is extended step by step, the matrix is tridiagonal.
    """
    length = np.linalg.norm(vector)
    basis, weights = [vector / length], np.zeros(0)
    diagonal: list[float] = []
    beside: list[float] = []
    # Ends: at the latest after `_MOST_STEPS` vectors.
    while True:
        image = product(basis[-1])
        diagonal.append(float(basis[-1] @ image))
        tridiagonal = np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1)
        values, vectors = np.linalg.eigh(tridiagonal)
        before, weights = weights, vectors @ (np.sqrt(np.maximum(values, 0)) * vectors[0])
        change = np.linalg.norm(weights - np.append(before, 0))
        # Twice, as rounding leaves something along earlier vectors.
        for _ in range(2):
            for one in basis:
                image = image - (one @ image) * one
        beside.append(float(np.linalg.norm(image)))
        if beside[-1] < _PRECISE or change < _PRECISE or len(basis) == _MOST_STEPS:
            return length * (weights @ np.array(basis))
        basis.append(image / beside[-1])
