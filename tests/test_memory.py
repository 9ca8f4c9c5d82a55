"""Memory stays bounded, whatever the number of users: at d = 1,024, under 300 MB.

The measure is the largest resident set of a process (VmHWM) above what the process held when its
work began, including imports and input. Each oracle has a separate process, so that other tests do
not count.
"""

import json
import subprocess
import sys

import pytest
from estimators import SUPPORTING

from sklearn_ldp import (
    OLH,
    OUE,
    HadamardResponse,
    MatrixOracle,
    ProjectiveGeometryResponse,
    SubsetSelection,
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="reads the peak from /proc"),
]

# Channels are made for queries over at most 512 categories.
ORACLES = [*SUPPORTING, MatrixOracle(2.0, strategy="square-wave")]
LIMIT = 300  # MB
SCRIPT = """
import json, sys
import numpy as np
from sklearn_ldp import *

def memory(kind):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(kind)) / 1024

oracle, n, d, work = eval(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
oracle.set_params(categories=d)
counts = np.full(d, n // d)
counts[0] += n - counts.sum()
needs_values = work in ("values", "privatize")
values = np.repeat(np.arange(d, dtype=np.int16), counts) if needs_values else None
before = memory("VmRSS")
if work == "histogram":
    oracle.fit(np.arange(d), sample_weight=counts)
elif work == "values":
    oracle.fit(values)
elif work == "reports":
    for _ in range(n // 10_000):
        oracle.aggregate(oracle.privatize(np.arange(10_000) % d))
elif work == "all reports at once":
    oracle.aggregate(oracle.privatize(np.arange(n) % d))
elif work == "privatize":
    reports = oracle.privatize(values)
elif work == "simulate":
    assert oracle.simulate(counts, 10).shape == (10, d)
seen = n if work in ("simulate", "privatize") else oracle.n_samples_seen_
print(json.dumps([memory("VmHWM") - before, seen]))
"""


def peak_of(oracle, n, work, d=1024):
    """Return the MB that some work on n users takes at its peak."""
    command = [sys.executable, "-c", SCRIPT, repr(oracle), str(n), str(d), work]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1500, check=False)
    assert done.returncode == 0, done.stderr
    megabytes, seen = json.loads(done.stdout)
    assert seen == n
    return megabytes


# A report of each of ten million users is made where it is no list of 1,024 bits.
SHORT = [o for o in ORACLES if o.__class__.__name__ not in ("OUE", "SUE", "SubsetSelection")]
# The tables of g**k counts are largest at these budgets.
BUDGETS = [
    cls(epsilon) for cls in (OLH, ProjectiveGeometryResponse) for epsilon in (3.0, 4.0, 5.0, 6.0)
]


@pytest.mark.parametrize(
    ("oracle", "n", "work", "d"),
    [
        *((oracle, 10_000_000, "histogram", 1024) for oracle in ORACLES),
        # The 20 MB of int16 are not counted, but their codes, 80 MB, are.
        *((oracle, 10_000_000, "values", 1024) for oracle in SHORT),
        *((oracle, 10_000_000, "simulate", 1024) for oracle in ORACLES),  # ten collections
        *((oracle, 100_000, "histogram", 1024) for oracle in [*BUDGETS, HadamardResponse(5.0)]),
        # A table of all vectors may not fit where the points of PG(t-1, g) do.
        *((oracle, 10_000, "histogram", 22_000) for oracle in BUDGETS),
    ],
    ids=lambda value: value if isinstance(value, str) else repr(value),
)
def test_memory_is_bounded(oracle, n, work, d):
    assert peak_of(oracle, n, work, d) < LIMIT


@pytest.mark.parametrize("oracle", ORACLES, ids=repr)
def test_batches_of_reports(oracle):
    """A million reports, made and added up in batches of 10,000, need no more than two batches."""
    few, many = (peak_of(oracle, n, "reports") for n in (20_000, 1_000_000))
    assert many < LIMIT
    assert many < few + 20


def test_the_meter_sees_what_is_not_bounded():
    """Negative control: all reports of four million users at once, 512 MB."""
    assert peak_of(OUE(), 4_000_000, "all reports at once") > LIMIT


def test_bits_of_a_large_domain():
    """Users times categories are 0.5 and 2 GB of bytes, of which only a few are held at a time."""
    few, many = (peak_of(OUE(), n, "histogram", d=100_000) for n in (5_000, 20_000))
    assert many < few + 20
    assert many < LIMIT


def test_sets_are_drawn_piece_by_piece():
    """The reports take 54 MB; the bits that they are read off would take 1 GB."""
    assert peak_of(SubsetSelection(5.0), 50_000, "privatize", d=20_000) < 54 + 50
