"""Shared fixtures: the seed of statistical tests, and hypothesis made deterministic."""

import os
from pathlib import Path

import matplotlib
import pytest
from hypothesis import settings

matplotlib.use("Agg")
settings.register_profile("deterministic", derandomize=True, deadline=None, database=None)
settings.load_profile("deterministic")

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
