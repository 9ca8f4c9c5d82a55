"""Shared fixtures: the seed of statistical tests, and hypothesis made deterministic."""

import gc
import os
import sys
from contextlib import ExitStack
from pathlib import Path

# Before NumPy is imported: tests run beside each other and their matrices are small, so that more
# threads of a process only wait for each other, which takes a fifth of all time.
for _name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import matplotlib  # noqa: E402
import pytest  # noqa: E402
from fresh_process import FreshProcesses  # noqa: E402
from hypothesis import settings  # noqa: E402

matplotlib.use("Agg")

# The quick ring tries the same few examples every time; the slow one (`make test-slow`, which asks
# for --hypothesis-profile thorough) tries many new ones.
settings.register_profile("quick", max_examples=10, derandomize=True, deadline=None, database=None)
settings.register_profile("thorough", max_examples=500, deadline=None, database=None)
settings.load_profile("quick")

collect_ignore = ["typing"]  # for type checkers, with mistakes in it

SHARED_DATA = Path(__file__).parents[2] / "shared" / "data"


def pytest_generate_tests(metafunc):
    """Statistical tests run with seed 0, or with SKLEARN_LDP_SEEDS such as "7" or "0-99".

    Any seed in 0 .. 99 must pass.
    """
    if "seed" in metafunc.fixturenames:
        first, _, last = os.environ.get("SKLEARN_LDP_SEEDS", "0").partition("-")
        metafunc.parametrize("seed", range(int(first), int(last or first) + 1))


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem):
    """Give the reason of an expected failure only: a traceback takes longer than most tests."""
    try:
        return (yield)
    except Exception:
        mark = pyfuncitem.get_closest_marker("xfail")
        if mark is None or pyfuncitem.config.option.runxfail:
            raise
    raise pytest.xfail.Exception(mark.kwargs.get("reason", ""), pytrace=False)


@pytest.fixture(autouse=True)
def _no_figures_stay_open():
    yield
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        pyplot.close("all")


@pytest.fixture(autouse=True)
def _nothing_has_been_warned_of():
    """What is said once in a process is said in each test, whatever ran before it."""
    if privacy := sys.modules.get("sklearn_ldp._core.common.privacy"):
        privacy._given.clear()


@pytest.fixture
def shared_data():
    """Path of a real histogram; the test is skipped where the file is not laid beside us."""

    def find(name):
        path = SHARED_DATA / name
        if not path.exists():
            pytest.skip(f"needs the histogram {name}, which is not part of the project")
        return path

    return find


@pytest.fixture
def few_simulated(monkeypatch):
    """The command `plan` simulates as few collections as it does of a large domain."""
    monkeypatch.setattr("sklearn_ldp._cli._plan._MAX_REPEATS", 3)


@pytest.fixture(scope="session")
def fresh_processes():
    """Processes that have imported nothing but what scikit-learn imports; all tests share them."""
    processes = FreshProcesses()
    yield processes
    processes.close()


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Spare the garbage collector the ten thousand tests, which live as long as the process."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def _needs_cluster(item):
    return item is not None and "client" in getattr(item, "fixturenames", ())


def pytest_collection_modifyitems(items):
    """Tests on the cluster come first, one after the other, as it takes seconds to start one."""
    items.sort(key=_needs_cluster, reverse=True)


_CLUSTER = ExitStack()
_CLIENTS = []


@pytest.fixture
def client():
    """A Dask client of two processes on this machine, which may be killed.

    Its workers find the modules of this folder. Tests that follow one another share it.
    """
    distributed = pytest.importorskip("distributed")
    if not _CLIENTS:
        cluster = distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0"
        )
        _CLUSTER.enter_context(cluster)
        _CLIENTS.append(_CLUSTER.enter_context(distributed.Client(cluster)))
    return _CLIENTS[0]


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item, nextitem):
    """Close the cluster after its last test; even an idle one takes a tenth of a core."""
    if _needs_cluster(item) and not _needs_cluster(nextitem):
        _CLIENTS.clear()
        _CLUSTER.close()
