"""The one list of oracles and the one list of post-processors that tests run over."""

from sklearn_ldp import (
    GRR,
    OLH,
    OUE,
    Base,
    BaseCut,
    BasePos,
    HeldOutSearch,
    Norm,
    NormCut,
    NormMul,
    NormSub,
    PostPos,
    SyntheticSearch,
)

ORACLES = [
    GRR(),
    OUE(),
    OLH(),
    OLH(hash_range=2),
    OLH(hash_range=5),
    OLH(epsilon=0.5, hash_range=9),
]

# Post-processors that act on each row alone; those that need a noise level are given one.
POSTPROCESSORS = [
    Base(),
    BasePos(),
    PostPos(),
    BaseCut(std=0.05),
    BaseCut(n_kept=2),
    Norm(),
    NormMul(),
    NormSub(),
    NormCut(),
]

SEARCHES = [
    SyntheticSearch([Base(), NormSub()], oracle=GRR(), n_samples=100, n_repeats=2, random_state=0),
    HeldOutSearch([Base(), NormSub()]),
]
