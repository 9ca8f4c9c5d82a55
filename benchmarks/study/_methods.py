"""The methods under the papers' names, and which of them share a panel."""

from __future__ import annotations

from sklearn.base import clone

from sklearn_ldp import (
    OLH,
    Base,
    BaseCut,
    BasePos,
    MLEApx,
    Norm,
    NormCut,
    NormHyb,
    NormMul,
    NormSub,
    PostPos,
    Power,
    PowerNS,
)

# Ideal hashing, as in the papers: the categories of a report are independent.
PAPER_OLH = OLH(hash_family="mixing")


def paper_olh(epsilon: float, n_categories: int, random_state: int) -> OLH:
    """Return the papers' oracle for a domain."""
    return clone(PAPER_OLH).set_params(
        epsilon=epsilon, categories=n_categories, random_state=random_state
    )


_ALL = {
    "Base": Base(),
    "Base-Pos": BasePos(),
    "Post-Pos": PostPos(),
    "Norm": Norm(),
    "Norm-Mul": NormMul(),
    "Norm-Sub": NormSub(),
    "MLE-Apx": MLEApx(),
    "Base-Cut": BaseCut(),
    "Norm-Cut": NormCut(),
    "Norm-Hyb": NormHyb(),
    "Power": Power(),
    "PowerNS": PowerNS(),
}

LEFT = ["Base", "Base-Pos", "Post-Pos", "Norm", "Norm-Mul", "Norm-Sub"]
RIGHT_2020 = ["Norm-Sub", "MLE-Apx", "Base-Cut", "Norm-Cut", "Power", "PowerNS"]
RIGHT_2019 = ["Norm-Sub", "MLE-Apx", "Base-Cut", "Norm-Cut", "Norm-Hyb", "Power"]

METHODS_2020 = {name: _ALL[name] for name in dict.fromkeys(LEFT + RIGHT_2020)}
METHODS_2019 = {name: _ALL[name] for name in dict.fromkeys(LEFT + RIGHT_2019)}
