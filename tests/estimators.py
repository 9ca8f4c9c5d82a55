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
    EmpiricalBayes,
    ExactMLE,
    HadamardResponse,
    HeldOutSearch,
    MLEApx,
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
    Smooth,
    SubsetSelection,
    SyntheticSearch,
)

ORACLES = [
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
    NPMLE(noise=NOISE),
    Smooth(noise=0.05),
    Smooth(bandwidth=2),
]

# What takes the categories as ordered; for all others their order does not matter.
ORDINAL = (Smooth,)

SEARCHES = [
    SyntheticSearch([Base(), NormSub()], oracle=GRR(), n_samples=100, n_repeats=2, random_state=0),
    HeldOutSearch([Base(), NormSub()]),
]


def first_of_each(estimators):
    """Parameters of a test: the first one of each class is quick, the others are slow."""
    first = {type(estimator): estimator for estimator in reversed(estimators)}.values()
    return [
        estimator if estimator in first else pytest.param(estimator, marks=pytest.mark.slow)
        for estimator in estimators
    ]
