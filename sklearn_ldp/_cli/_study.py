"""One oracle on a known population: errors of all post-processors, and what the searches pick."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._estimate import FrequencyEstimate
from ..metrics import query_errors
from ..model_selection import candidate_name, default_candidates
from ..oracles import BaseOracle
from ._methods import all_searches


@dataclass(frozen=True)
class Study:
    """What there is to tell of one oracle.

    Parameters
    ----------
    oracle : str
        Its name.
    estimate : FrequencyEstimate of shape (1, d)
        The raw estimate of the one real collection.
    mse : dict of dict of float
        By query set and post-processor: the mean squared error over simulated collections.
    picks : dict of dict of str
        By query set and search: the post-processor that it picks from `estimate`.
    """

    oracle: str
    estimate: FrequencyEstimate
    mse: dict[str, dict[str, float]]
    picks: dict[str, dict[str, str]]

    def best(self, queries: str) -> str:
        """Return the post-processor of least error: only who knows the truth can know it."""
        return min(self.mse[queries], key=self.mse[queries].__getitem__)

    def rmse(self, queries: str, name: str) -> float:
        """Root mean squared error of a post-processor, in percentage points."""
        return 100 * self.mse[queries][name] ** 0.5

    def regret(self, queries: str, search: str) -> float:
        """How far the search's pick is above the best in hindsight, as a share of its RMSE."""
        pick = self.rmse(queries, self.picks[queries][search])
        best = self.rmse(queries, self.best(queries))
        # Without noise, at a huge epsilon, all that is left are rounding errors.
        return (pick - best) / (best or 1e-9) if pick - best > 1e-9 else 0.0


def study_oracle(
    oracle: BaseOracle,
    categories: np.ndarray,
    counts: np.ndarray,
    query_sets: Mapping[str, Any],
    *,
    n_repeats: int,
    seed: int,
    announce: Callable[[str], None],
) -> Study:
    """Collect once by the users' protocol, judge on simulated collections, let searches pick.

    Parameters
    ----------
    oracle : oracle
        With its epsilon, its domain, and no seed.
    categories, counts : ndarray of shape (d,)
        The population.
    query_sets : mapping of str to query set
        What the estimate is asked.
    n_repeats : int
        Number of simulated collections, for the judgement and inside SyntheticSearch.
    seed : int
        Of everything; the parts draw independent coins.
    announce : callable
        Told what begins now, N_STEPS times.

    Returns
    -------
    Study
        Of this oracle.
    """
    name = type(oracle).__name__
    collection_seed, judge_seed, search_seed = _independent_seeds(seed, name)
    announce(f"{name}: collecting")
    oracle.set_params(random_state=collection_seed)
    estimate = oracle.fit_transform(categories, sample_weight=counts)
    announce(f"{name}: judging on simulations")
    oracle.set_params(random_state=judge_seed)
    simulated = oracle.simulate(counts, n_repeats)
    mse = mean_squared_errors(simulated, counts / counts.sum(), query_sets)
    announce(f"{name}: searching")
    picks = {
        query_name: pick_postprocessors(estimate, queries, n_repeats, search_seed)
        for query_name, queries in query_sets.items()
    }
    return Study(name, estimate, mse, picks)


#: How often `study_oracle` calls `announce`.
N_STEPS = 3


def mean_squared_errors(
    estimates: FrequencyEstimate, frequencies: np.ndarray, query_sets: Mapping[str, Any]
) -> dict[str, dict[str, float]]:
    """Error of each post-processor on each query set, averaged over the rows of `estimates`."""
    processed = {
        candidate_name(candidate): candidate.fit_transform(estimates)
        for candidate in default_candidates()
    }
    return {
        name: {
            post: float(np.mean(query_errors(frequencies, estimate, queries=queries)))
            for post, estimate in processed.items()
        }
        for name, queries in query_sets.items()
    }


def pick_postprocessors(
    estimate: FrequencyEstimate, queries: Any, n_repeats: int, seed: int
) -> dict[str, str]:
    """Return the name of what each search picks for these queries, from the estimate alone."""
    picks = {}
    for search_class in all_searches().values():
        search = search_class(queries=queries, random_state=seed)
        if "n_repeats" in search.get_params():
            search.set_params(n_repeats=n_repeats)
        picks[search_class.__name__] = candidate_name(search.fit(estimate).best_estimator_)
    return picks


def _independent_seeds(seed: int, name: str) -> Iterable[int]:
    # Hindsight must not see the very noise that SyntheticSearch simulates.
    sequence = np.random.SeedSequence([seed, *name.encode()])
    return [int(word) for word in sequence.generate_state(3)]
