"""Errors of candidate post-processors, computed without the truth.

The result of a candidate is compared with a second raw estimate instead of the true frequencies.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from .._core.common.parallel import run_in_order
from .._core.estimates import EstimateSet, FrequencyEstimate
from .._core.estimates.errors import errors_at
from .._core.noise import Noise, as_rows, variances_after_norm
from .._core.queries import QuerySet, query_matrix
from ._base import Case, Judgment
from ._drawn_noise import plausible_frequencies, variances_of_each

_PARTS = 4  # of the candidates; a task computes the variances of a part


class SetCase(NamedTuple):
    """One test of candidates that process a whole set of estimates.

    A candidate post-processes `estimates`. Each resulting estimate is then compared with a second
    raw estimate.

    Parameters
    ----------
    estimates : EstimateSet
        The set to post-process.
    parts : dict of Case
        A dict from the name of each estimate that has users to its Case, which contains the second
        estimate.
    """

    estimates: EstimateSet
    parts: dict[Any, Case]

    @property
    def size(self) -> int:
        """The number of values that each candidate must post-process in this case."""
        return sum(case.size for case in self.parts.values())

    @property
    def shares(self) -> dict[Any, float]:
        """A dict from the name of each estimate to its weight in the mean error over all answers.

        The weight of an estimate is its number of answers, divided by the number of all answers.
        """
        n_answers = {}
        for name, (part, truth, queries) in self.parts.items():
            aligned = queries.aligned(part.categories, part.domain)
            n_answers[name] = aligned.matrix(len(truth), truth).shape[0]
        total = sum(n_answers.values())
        return {name: n / total for name, n in n_answers.items()}


def queries_of(query_set: QuerySet, values: np.ndarray) -> QuerySet:
    """Return the queries of a case.

    If the queries depend on the true frequencies, such as `top_k`, return the queries that follow
    from `values` as true frequencies. Otherwise return `query_set` unchanged.
    """
    if query_set.depends_on_truth:
        return query_matrix(query_set.matrix(len(values), values))
    return query_set


def errors_and_answers(candidate: Any, cases: list[Case], n_rows: int) -> Judgment:
    """Return the Judgment of a candidate: its errors on all cases, and its mean answers.

    n_rows: number of rows of the original estimate. The answers of the cases of each row are
    averaged. If the error of the queries has a closed form, frequencies replace the answers.
    """
    # Shapes: errors (n_cases,); answers (n_rows, n_answers), because cases are ordered by row.
    judged = [_judged(case, candidate.fit_transform(case.estimate)) for case in cases]
    errors = np.array([error for error, _ in judged])
    answers = np.array([answer for _, answer in judged])
    return Judgment(errors, answers.reshape(n_rows, -1, answers.shape[1]).mean(axis=1))


def _judged(case: Case, result: FrequencyEstimate) -> tuple[float, np.ndarray]:
    """Return the error and the answers of a candidate in one case.

    Parameters
    ----------
    case : Case
        The case, which contains the frequencies with which the result is compared.
    result : FrequencyEstimate of shape (1, d)
        The result of the candidate for this case.

    Returns
    -------
    (float, ndarray)
        The error and the answers to the queries. The error includes the noise of the second
        estimate, which is the same for all candidates. If the error of the queries has a closed
        form, the frequencies are returned instead of the answers.
    """
    queries = case.queries
    truth = case.frequencies
    is_closed = queries.square_weights(len(truth)) is not None
    answers = result.values if is_closed else result.answer(queries)
    error = errors_at(truth, result, queries)[0]
    if is_closed and result.clip_answers:
        # Without clipping, the error over all sets has a closed form. Drawn sets add noise of
        # their own, so they only show how much clipping changes the error.
        unclipped = replace(result, clip_answers=False)
        drawn = query_matrix(queries.matrix(len(truth)))
        error += errors_at(truth, unclipped, queries)[0]
        error -= errors_at(truth, unclipped, drawn)[0]
    return error, answers[0]


def errors_and_answers_of_set(candidate: Any, cases: list[SetCase]) -> Judgment:
    """Return the Judgment of a candidate that processes whole sets of estimates.

    Parameters
    ----------
    candidate : post-processor
        The candidate.
    cases : list of SetCase
        The cases. Their sets contain estimates with the same names.

    Returns
    -------
    Judgment
        The error of each case, which is the mean over all answers of all estimates, and a dict from
        the name of each estimate to its answers, averaged over the cases.
    """
    errors = []
    answers: dict[Any, list[np.ndarray]] = {name: [] for name in cases[0].parts}
    for case in cases:
        processed = candidate.fit_transform(case.estimates)
        shares = case.shares
        error = 0.0
        for name, part in case.parts.items():
            part_error, answer = _judged(part, processed[name])
            error += shares[name] * part_error
            answers[name].append(answer)
        errors.append(error)
    means = {name: np.mean(rows, axis=0) for name, rows in answers.items()}
    return Judgment(np.array(errors), means)


def error_deviations(
    differences: np.ndarray,
    estimate: FrequencyEstimate,
    noise: Noise,
    queries: QuerySet,
    *,
    variance_ratio: float,
    n_jobs: int | None,
) -> np.ndarray:
    """Return the standard deviation of each candidate's error minus the error of the default.

    Parameters
    ----------
    differences : ndarray of shape (n_candidates, n_rows, n_answers)
        The answers of each candidate minus the answers of the default candidate.
    estimate : FrequencyEstimate of shape (n_rows, d)
        The raw estimate.
    noise : Noise
        The noise of the estimate.
    queries : QuerySet
        The queries.
    variance_ratio : float
        Variance of the second raw estimate, with which the results are compared, divided by the
        variance of `estimate`.
    n_jobs : int or None
        Number of joblib workers.

    Returns
    -------
    ndarray of shape (n_candidates,)
        The standard deviations.
    """
    # The squared distance to a noisy response changes with the noise in proportion to the
    # differences of the answers. So the noise of a difference of errors is a linear answer.
    d = estimate.shape[1]
    queries = queries.aligned(estimate.categories, estimate.domain)
    weights = queries.square_weights(d)
    tasks = []
    for i, values in enumerate(estimate.values):
        if weights is not None:
            rows = (weights[0] - weights[1]) * differences[:, i]
        else:
            matrix = queries.matrix(d, values)
            rows = differences[:, i] @ matrix / matrix.shape[0]
        row_noise = noise.of_rows(i)
        frequencies = plausible_frequencies(estimate, values)
        parts = np.array_split(rows, _PARTS)
        tasks += [(row_noise, as_rows(part), frequencies) for part in parts]
    # Norm does not apply to frequencies that overlap, and their covariances are unknown.
    variances_of = variances_after_norm if estimate.sums_to_one else variances_of_each
    variances = np.concatenate(run_in_order(variances_of, tasks, n_jobs))
    totals = variances.reshape(-1, len(differences)).sum(axis=0)
    return 2 * np.sqrt(totals * variance_ratio) / len(estimate)
