"""Shared fixtures: the seed of statistical tests, and hypothesis made deterministic."""

import os
from pathlib import Path

import matplotlib
import pytest
from hypothesis import settings

matplotlib.use("Agg")

# The quick ring tries the same few examples every time; the slow one (`make test-slow`, which asks
# for --hypothesis-profile thorough) tries many new ones.
settings.register_profile("quick", max_examples=50, derandomize=True, deadline=None, database=None)
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


@pytest.fixture
def shared_data():
    """Path of a real histogram; the test is skipped where the file is not laid beside us."""

    def find(name):
        path = SHARED_DATA / name
        if not path.exists():
            pytest.skip(f"needs the histogram {name}, which is not part of the project")
        return path

    return find


@pytest.fixture(scope="module")
def client():
    """A Dask client of two processes on this machine, which may be killed."""
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client
