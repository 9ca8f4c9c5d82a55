"""Judge what looks at whole sets of estimates, such as tables that shall agree with each other."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._estimate_set import EstimateSet
from ..queries import as_query_set
from ._base import Case, Judgement
from ._guarded_search import judged_case


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
        for name, case in self.parts.items():
            queries = as_query_set(case.queries).aligned(case.estimate.categories)
            n_answers[name] = queries.matrix(case.estimate.shape[1], case.frequencies).shape[0]
        total = sum(n_answers.values())
        return {name: n / total for name, n in n_answers.items()}


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
            of_part, answer = judged_case(part, made[name])
            error += shares[name] * of_part
            answers[name].append(answer)
        errors.append(error)
    means = {name: np.mean(rows, axis=0) for name, rows in answers.items()}
    return Judgement(np.array(errors), means)
