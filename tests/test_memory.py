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


@pytest.mark.parametrize("oracle", ORACLES, ids=repr)
def test_ten_million_users(oracle):
    """Users given as a histogram. Reports of d bits take a minute."""
    assert peak_of(oracle, 10_000_000, "histogram") < LIMIT


QUICK = [o for o in ORACLES if o.__class__.__name__ not in ("OUE", "SUE", "SubsetSelection")]


@pytest.mark.parametrize("oracle", QUICK, ids=repr)
def test_ten_million_values(oracle):
    """One value per user: the 20 MB of int16 are not counted, but their codes, 80 MB, are."""
    assert peak_of(oracle, 10_000_000, "values") < LIMIT


@pytest.mark.parametrize("oracle", ORACLES, ids=repr)
def test_batches_of_reports(oracle):
    """A million reports, made and added up in batches of 10,000, need no more than two batches."""
    few, many = (peak_of(oracle, n, "reports") for n in (20_000, 1_000_000))
    assert many < LIMIT
    assert many < few + 20


def test_the_meter_sees_what_is_not_bounded():
    """Negative control: all reports of four million users at once, 512 MB."""
    assert peak_of(OUE(), 4_000_000, "all reports at once") > LIMIT


BUDGETS = [
    (cls, epsilon) for cls in (OLH, ProjectiveGeometryResponse) for epsilon in (3.0, 4.0, 5.0, 6.0)
]


@pytest.mark.parametrize(("cls", "epsilon"), [*BUDGETS, (HadamardResponse, 5.0)])
def test_large_budgets(cls, epsilon):
    """At these budgets the tables of g**k counts are largest."""
    assert peak_of(cls(epsilon), 100_000, "histogram") < LIMIT


@pytest.mark.parametrize("oracle", ORACLES, ids=repr)
def test_simulation(oracle):
    """Ten collections of 10 million users."""
    assert peak_of(oracle, 10_000_000, "simulate") < LIMIT


@pytest.mark.parametrize(("cls", "epsilon"), BUDGETS)
def test_large_domains_at_large_budgets(cls, epsilon):
    """22,000 categories: a table of all vectors may not fit where the points of PG(t-1, g) do."""
    assert peak_of(cls(epsilon), 10_000, "histogram", d=22_000) < LIMIT


def test_bits_of_a_large_domain():
    """Users times categories are 0.5 and 2 GB of bytes, of which only a few are held at a time."""
    few, many = (peak_of(OUE(), n, "histogram", d=100_000) for n in (5_000, 20_000))
    assert many < few + 20
    assert many < LIMIT


def test_sets_are_drawn_piece_by_piece():
    """The reports take 54 MB; the bits that they are read off would take 1 GB."""
    assert peak_of(SubsetSelection(5.0), 50_000, "privatize", d=20_000) < 54 + 50
