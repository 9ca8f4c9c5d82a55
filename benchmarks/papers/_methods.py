"""The methods under the papers' names, and which of them share a panel."""

from __future__ import annotations

from typing import Any

import numpy as np
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
from sklearn_ldp.postprocessing import BasePostProcessor, power, power_law_exponent

# Ideal hashing, as in the papers: the categories of a report are independent.
PAPER_OLH = OLH(hash_family="mixing")


def paper_olh(epsilon: float, n_categories: int, random_state: int) -> OLH:
    """Return the papers' oracle for a domain."""
    return clone(PAPER_OLH).set_params(
        epsilon=epsilon, categories=n_categories, random_state=random_state
    )


class PowerWithoutHalf(BasePostProcessor):
    """Power with exp(-x²/σ²) for the normal density, as in the authors' code of 2019.

    Eq. 10 of the 2019 paper has exp(-x²/(2σ²)), and so has their code of 2020. Without the 2 the
    noise is taken for σ/√2, and large estimates are trusted more. That the figures of 2019 were
    made with this code is an inference.
    """

    def _process(self, estimate: Any) -> Any:
        n, d = int(estimate.noise.n_samples), estimate.shape[1]
        exponent = power_law_exponent(n, d)
        std = float(estimate.noise.std) / np.sqrt(2)
        return estimate.with_values(power(estimate.values, std, n, exponent), by="Power")


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

POWER_2019 = "Power, code of 2019"
BY_CODE = (
    "Power as in the authors' code of 2019, whose normal density lacks the 2 of Eq. 10. That the "
    "figures were made with it is an inference."
)

METHODS_2020 = {name: _ALL[name] for name in dict.fromkeys(LEFT + RIGHT_2020)}
METHODS_2019 = {name: _ALL[name] for name in dict.fromkeys(LEFT + RIGHT_2019)}
RIGHT_2019_BOTH = [*RIGHT_2019, POWER_2019]
# What the figures of 2019 are computed with: Power by the paper's formula, and by its code.
STUDIED_2019 = {**METHODS_2019, POWER_2019: PowerWithoutHalf()}
