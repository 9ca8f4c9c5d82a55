"""What `import sklearn_ldp` must not do, and threads that share caches."""

import sys
import threading

import numpy as np
import pytest
from estimators import ORACLES, POSTPROCESSORS, slow_but, ways
from joblib import Parallel, delayed
from sklearn.base import clone

from sklearn_ldp import OLH, MatrixOracle
from sklearn_ldp.datasets import make_zipf

# Runs in a new process, in an empty folder, and prints one line per effect.
PROBE = """
import os, random, sys, threading
import numpy as np, scipy, sklearn, joblib

def state():
    return {
        "threads": threading.active_count(),
        "files": sorted(os.listdir(".")),
        "NumPy's random state": np.random.get_state()[1].tolist() + [np.random.get_state()[2]],
        "Python's random state": random.getstate(),
        "environment": dict(os.environ),
        "floating-point errors": np.geterr(),
        "scikit-learn's configuration": sklearn.get_config(),
        "matplotlib": "matplotlib" in sys.modules,
        "pandas": "pandas" in sys.modules,
    }

for effect in sys.argv[1:]:
    np.random.seed(0); random.seed(0)
    before = state()
    exec(effect)
    after = state()
    print(*(name for name in before if before[name] != after[name]), sep=", ")
"""


def test_the_import_changes_nothing(fresh_processes, tmp_path):
    """The negative controls are the other effects, each of which must be found."""
    twins = {
        "t = threading.Timer(60, print); t.daemon = True; t.start()": "threads",
        "open('made', 'w').close()": "files",
        "np.random.random()": "NumPy's random state",
        "os.environ['MADE'] = '1'": "environment",
        "np.seterr(all='ignore')": "floating-point errors",
        "sklearn.set_config(transform_output='pandas')": "scikit-learn's configuration",
        "import matplotlib": "matplotlib",
    }
    done = fresh_processes.run(PROBE, "import sklearn_ldp", *twins, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    changed = done.stdout.splitlines()
    assert changed[0] == ""
    for name, found in zip(twins.values(), changed[1:], strict=True):
        assert name in found.split(", ")


# -- threads --------------------------------------------------------------------------------------
def same_in_threads(work, n_threads=4):
    """Return whether the work has the same result alone and in threads that start together."""
    expected = work()
    forget()
    barrier = threading.Barrier(n_threads)

    def start_together():
        barrier.wait()
        return work()

    results = Parallel(n_threads, backend="threading", pre_dispatch="all")(
        delayed(start_together)() for _ in range(n_threads)
    )
    return all(np.array_equal(expected, result) for result in results)


def forget():
    """Empty the caches of the post-processors, so that all threads start without them."""
    modules = [one for name, one in sys.modules.items() if "sklearn_ldp.postprocessing" in name]
    held = [one for module in modules for one in vars(module).values()]
    caches = [one for one in held if hasattr(one, "cache_clear")]
    assert len(caches) >= 3
    for cached in caches:
        cached.cache_clear()


@pytest.fixture(scope="module")
def estimate():
    counts = make_zipf(20_000, 40, return_counts=True, random_state=0)
    return OLH(categories=40, random_state=0).simulate(counts, 2)


@pytest.mark.parametrize("post", POSTPROCESSORS, ids=repr)
def test_threads_may_post_process(post, estimate):
    """Each thread has its own clone, but they share what is cached between calls."""
    assert same_in_threads(lambda: np.asarray(clone(post).fit_transform(estimate)))


# A RangeOracle is the quick one of those that compute a channel.
QUICK = [oracle for oracle in ways(ORACLES) if type(oracle) is not MatrixOracle]


@pytest.mark.parametrize("oracle", slow_but(QUICK, ORACLES), ids=repr)
def test_threads_may_share_an_oracle(oracle):
    """All threads randomise with the same oracle, and each adds up with its own."""
    users = make_zipf(2_000, 37, random_state=0)
    shared = clone(oracle).set_params(categories=37, random_state=3)

    def work():
        reports = shared.privatize(users)
        return clone(shared).aggregate(reports).support_counts_

    assert same_in_threads(work)


def test_threads_are_not_blamed_in_vain():
    """Negative control: work that depends on what other threads do is found."""
    calls = []

    def work():
        calls.append(None)
        return len(calls)

    assert not same_in_threads(work)
