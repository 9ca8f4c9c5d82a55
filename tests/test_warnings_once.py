"""A warning that many tasks of a search or a study give comes once, also from workers of joblib."""

import threading
import warnings

import numpy as np
import pytest
from joblib import parallel_config

from sklearn_ldp import GRR, OLH, NormSub, Power, SyntheticSearch
from sklearn_ldp.model_selection import simulate_errors
from sklearn_ldp.postprocessing import BasePostProcessor

USERS = np.random.default_rng(0).integers(0, 50, 20)  # fewer users than categories


class Frost(UserWarning):
    """A class that pickle cannot build, because it is made of more than its text."""

    def __init__(self, degrees, unit):
        super().__init__(f"{degrees} {unit}")


class Frozen(BasePostProcessor):
    def _process(self, estimate):
        warnings.warn(Frost(-5, "C"), stacklevel=2)
        return estimate.values


class Grumbler(BasePostProcessor):
    """Warns at every estimate, of the same thing and of its first value."""

    def _process(self, estimate):
        warnings.warn("It is cold.", UserWarning, stacklevel=2)
        warnings.warn("It is cold.", RuntimeWarning, stacklevel=2)
        return estimate.values


def search(n_jobs=None):
    estimate = OLH(1.0, categories=range(50), random_state=0).fit_transform(USERS)
    return SyntheticSearch([Grumbler(), Power(), NormSub()], random_state=0, n_jobs=n_jobs).fit(
        estimate
    )


def study(n_jobs=None, post=Grumbler):
    return simulate_errors(
        GRR(),
        [post()],
        np.full(50, 1 / 50),
        n_samples=[20, 25, 30],  # nine cells make two tasks
        epsilons=[0.5, 1, 2],
        n_repeats=1000,
        n_jobs=n_jobs,
    )


def given(call, n_jobs=None):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(n_jobs)
    return sorted((one.category.__name__, str(one.message)) for one in caught)


COLD = [("RuntimeWarning", "It is cold."), ("UserWarning", "It is cold.")]


@pytest.mark.parametrize("n_jobs", [None, pytest.param(2, marks=pytest.mark.slow)])
def test_a_search_gives_each_warning_once(n_jobs):
    warned = given(search, n_jobs)
    assert [one for one in warned if "cold" in one[1]] == COLD
    assert len(warned) == len(set(warned)) == 3
    assert "Power found no power law" in warned[-1][1]


@pytest.mark.parametrize("n_jobs", [None, pytest.param(2, marks=pytest.mark.slow)])
def test_a_study_gives_each_warning_once(n_jobs):
    assert given(study, n_jobs) == COLD


def test_warnings_that_cannot_be_pickled_come_as_text():
    """An exception that a worker cannot send would end its whole pool."""
    assert given(lambda n_jobs: study(n_jobs, Frozen), 2) == [("UserWarning", "Frost: -5 C")]


def test_filters_are_obeyed_and_come_back():
    before = list(warnings.filters)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RuntimeWarning)
        with pytest.raises(RuntimeWarning, match="cold"):
            study()
        warnings.simplefilter("ignore")
        study()
        search()
    assert warnings.filters == before


def test_threads_leave_the_filters_alone():
    """Python's filters belong to all threads, so a task in a thread does not change them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before = list(warnings.filters)
        with parallel_config(backend="threading", n_jobs=2):
            study(n_jobs=2)
        thread = threading.Thread(target=search)
        thread.start()
        thread.join()
        assert warnings.filters == before
