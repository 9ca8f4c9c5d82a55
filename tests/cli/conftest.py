"""A fixture of the tests of the command line."""

import pytest


@pytest.fixture
def few_simulated(monkeypatch):
    """As few simulated collections as a plan of a large domain has."""
    monkeypatch.setattr("sklearn_ldp._cli._plan._MOST", 3)
