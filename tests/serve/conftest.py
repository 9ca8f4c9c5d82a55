"""A test that fails leaves no server behind, which would let later tests fail."""

import pytest
from serving import STARTED, end


@pytest.fixture(autouse=True)
def _no_server_outlives_its_test():
    n_before = len(STARTED)
    yield
    for process in STARTED[n_before:]:
        if process.poll() is None:
            end(process)
