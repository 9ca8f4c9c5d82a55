"""The papers' conclusions, and on which statements each of them rests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ._claims import Finding

_2020, _2019, _CALIBRATE = "2020", "2019", "Calibrate"


class Conclusion(NamedTuple):
    """What a reader takes home from a paper."""

    paper: str
    text: str
    keys: tuple[str, ...]  # of the statements that it rests on


CONCLUSIONS = [
    Conclusion(
        _2020,
        "Norm does what Base does, and MLE-Apx what Norm-Sub does",
        ("norm", "mle"),
    ),
    Conclusion(
        _2020,
        "Post-processing pays: Norm-Sub divides the error of single values by 10 or by 100",
        ("norm-sub-zipf", "norm-sub-emoji"),
    ),
    Conclusion(_2020, ".. and PowerNS saves around 90 % of the users", ("saved",)),
    Conclusion(_2020, "For single values use Base-Cut (sections I, V, VII)", ("full-basecut",)),
    Conclusion(_2020, "On single values PowerNS performs best (section V-C)", ("full-powerns",)),
    Conclusion(_2020, "For sets use PowerNS", ("sets-powerns", "two-orders")),
    Conclusion(
        _2020,
        "For fixed sets choose the method on synthetic data made with Norm-Sub",
        ("synthetic",),
    ),
    Conclusion(_2020, "For the most frequent values use Norm", ("top-norm",)),
    Conclusion(
        _2019,
        "Norm-Sub divides the error by 10, and MLE-Apx does the same",
        ("norm-sub-2019", "mle-2019"),
    ),
    Conclusion(_2019, "For sets use Norm-Hyb", ("sets-hyb", "orders-2019")),
    Conclusion(
        _2019,
        "On states and regions Norm-Sub, MLE-Apx and Norm-Hyb are consistently the best",
        ("groups-2019",),
    ),
    Conclusion(_2019, "For single values use Base-Cut", ("full-basecut-2019",)),
    Conclusion(_2019, "For the most frequent values use Norm", ("top-norm-2019",)),
    Conclusion(
        _CALIBRATE,
        "OUE-Calibrate beats OUE-Zero, and the more so the larger epsilon is",
        ("beats-zero", "gain-grows"),
    ),
    Conclusion(
        _CALIBRATE,
        ".. by 2.4 % and 65 % on Retail, by 16 % and 97 % on Kosarak",
        ("gain-retail-1", "gain-retail-5", "gain-kosarak-1", "gain-kosarak-5"),
    ),
    Conclusion(_CALIBRATE, "Both beat OUE by orders of magnitude", ("orders",)),
    Conclusion(
        _CALIBRATE,
        "OUE-Calibrate finds heavy hitters with a better F-score",
        ("f-score-5", "f-score-6", "f-score-8", "f-score-9"),
    ),
    Conclusion(
        _CALIBRATE,
        "To reset small frequencies after OUE-Calibrate has a negligible impact",
        ("negligible",),
    ),
]


def standing(verdicts: Sequence[str]) -> str:
    """Whether a conclusion stands, given the verdicts on its statements."""
    if all(verdict == "reproduced" for verdict in verdicts):
        return "stands"
    if all(verdict == "not reproduced" for verdict in verdicts):
        return "does not stand"
    return "open" if all(verdict == "undecided" for verdict in verdicts) else "stands in part"


def conclusions(findings: Sequence[Finding]) -> list[list[str]]:
    """Rows: paper, conclusion, the evidence, and whether it stands.

    Parameters
    ----------
    findings : list of Finding
        On each claim and data set.

    Returns
    -------
    list of list of str
        Only conclusions of whose statements at least one was measured.
    """
    rows = []
    for conclusion in CONCLUSIONS:
        found = [one for one in findings if one.claim.key in conclusion.keys]
        if not found:
            continue
        evidence = "; ".join(
            f"{', '.join(filter(None, [one.claim.figure, one.data]))}: {one.ours}" for one in found
        )
        verdicts = [one.verdict for one in found]
        rows.append([conclusion.paper, conclusion.text, evidence, standing(verdicts)])
    return rows
