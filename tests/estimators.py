"""The one list of oracles and the one list of post-processors that tests run over."""

import pytest

from sklearn_ldp import (
    BLH,
    CLS,
    GRR,
    NPMLE,
    OLH,
    OUE,
    SUE,
    Base,
    BaseCut,
    BasePos,
    Calibrate,
    ColumnOracle,
    Consistent,
    EmpiricalBayes,
    ExactMLE,
    HadamardResponse,
    HeldOutSearch,
    LatentClasses,
    LocalMean,
    MarginalOracle,
    MatrixOracle,
    MLEApx,
    MonotoneCDF,
    NoiseModel,
    Norm,
    NormCut,
    NormHyb,
    NormMul,
    NormSub,
    PostPos,
    Power,
    PowerNS,
    ProjectiveGeometryResponse,
    RangeOracle,
    Smooth,
    SmoothMLE,
    SubsetSelection,
    SyntheticSearch,
    SyntheticStack,
    Trend,
)
from sklearn_ldp.queries import ranges

# Oracles whose reports support categories.
SUPPORTING = [
    GRR(),
    OUE(),
    OLH(),
    OLH(hash_range=2),
    OLH(hash_range=5),
    OLH(epsilon=0.5, hash_range=9),
    OLH(hash_family="mixing"),
    SUE(),
    BLH(),
    HadamardResponse(),
    HadamardResponse(epsilon=2.0, n_blocks=2),
    HadamardResponse(epsilon=3.0, n_blocks="auto"),
    SubsetSelection(),
    SubsetSelection(epsilon=0.3),
    ProjectiveGeometryResponse(),
    ProjectiveGeometryResponse(epsilon=2.0, field_order=4),
    ProjectiveGeometryResponse(epsilon=2.0, field_order=9),
]

ORACLES = [
    *SUPPORTING,
    MatrixOracle(),
    MatrixOracle(epsilon=2.0, strategy="square-wave"),
    MatrixOracle(queries=ranges(2)),
    RangeOracle(),
]

# The collector of a number.
MEAN = LocalMean(bounds=(-100, 100))

# Oracles of several columns; scikit-learn's checks have data with a single one.
SURVEYS = [ColumnOracle(), ColumnOracle(n_sampled="auto"), MarginalOracle(order=1)]

# Oracles of several columns: every strategy.
TABLE_ORACLES = [
    ColumnOracle(),
    MarginalOracle(expected_n_users=1000),
    ColumnOracle(epsilon=2.0, n_sampled=2),
    ColumnOracle(strategy="split-budget", weights={"age": 3.0}),
    pytest.param(ColumnOracle(9.0, n_sampled="auto", oracle=GRR()), marks=pytest.mark.slow),
]

# The noise that post-processors are given which need it.
NOISE = NoiseModel(p=0.5, q=0.25, n_samples=2000)

# Post-processors that act on each row on its own.
POSTPROCESSORS = [
    Base(),
    BasePos(),
    PostPos(),
    BaseCut(noise=0.05),
    BaseCut(n_kept=2),
    Norm(),
    NormMul(),
    NormSub(),
    NormCut(),
    NormCut(rescale=True),
    NormHyb(noise=0.05),
    NormHyb(n_kept=2),
    CLS(),
    MLEApx(noise=NOISE),
    MLEApx(noise=NoiseModel(p=0.75, q=0.5, n_samples=2000)),
    ExactMLE(epsilon=1.0),
    Calibrate(fit_method="mean-variance", noise=NOISE),
    Power(noise=NOISE),
    PowerNS(noise=NOISE, exponent=1.5),
    EmpiricalBayes(noise=0.05),
    EmpiricalBayes(noise=0.05, ordered=True),
    NPMLE(noise=NOISE),
    Smooth(noise=0.05),
    Smooth(bandwidth=2),
    MonotoneCDF(),
]

# Post-processors of rows that follow each other, which improve each by those around it.
ROW_JOINERS = [Trend(noise=0.05), Trend(filtered=True, noise=0.05)]

# Post-processors of whole tables, for which a row alone is a table that agrees with itself.
TABLE_PROCESSORS = [Consistent(), LatentClasses()]

# Post-processors of the reports' own tallies, which plain arrays do not have.
TALLY_PROCESSORS = [SmoothMLE()]


def is_ordinal(post):
    """Whether it takes the categories as ordered; for all others their order does not matter."""
    return isinstance(post, Smooth | MonotoneCDF) or getattr(post, "ordered", False)


# With a quick synthesizer: the checks fit hundreds of rows, each of which has one of its own.
_SYNTHETIC = {"oracle": GRR(), "n_samples": 100, "n_repeats": 2, "synthesizer": NormSub()}
SEARCHES = [
    SyntheticSearch([Base(), NormSub()], **_SYNTHETIC, random_state=0),
    SyntheticStack([Base(), NormSub()], **_SYNTHETIC, random_state=0),
    HeldOutSearch([Base(), NormSub()], n_splits=1, noise=NOISE),
]


# Besides the first one of each class: what takes a way of its own through the code.
OTHER_WAYS = [
    OLH(hash_range=5),  # a prime; the default is a power of two
    OLH(hash_family="mixing"),
    HadamardResponse(epsilon=2.0, n_blocks=2),
]


def slow_but(quick, values):
    """Parameters of a test: those that are among `quick` are quick, the others are slow."""
    names, slow = set(map(repr, quick)), pytest.mark.slow
    rows = [v if isinstance(v, tuple) else (v,) for v in values]
    return [
        pytest.param(*row, marks=() if repr(v) in names else slow)
        for v, row in zip(values, rows, strict=True)
    ]


def first_of_each(estimators):
    """Return the first estimator of each class."""
    return list({type(estimator): estimator for estimator in reversed(estimators)}.values())


def ways(oracles):
    """Return one oracle for each way through the code."""
    return [*first_of_each(oracles), *OTHER_WAYS]


def each_way(oracles):
    """Parameters of a costly test: one oracle for each way through the code, the others slow."""
    return slow_but(ways(oracles), oracles)
