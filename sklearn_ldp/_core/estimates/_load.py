"""`load_estimate`, which reads the files that the method `save` of estimates writes."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any

from ..common.kept import kept
from ..report_page import Kept


def load_estimate(path: str | PathLike[str], *, classes: Sequence[type] = ()) -> Any:
    """Read an estimate from a file that its method `save` has written.

    The file contains only data: numbers, text and names of classes of this package. Reading a file
    imports no module that the file names, and calls no code of other packages except the `classes`.
    A hash in the file detects damage and careless edits, and a file with inconsistent content
    raises an error. But the file does not prove who wrote it, because any person can write
    consistent numbers with the correct hash.

    Parameters
    ----------
    path : path-like
        The file.
    classes : sequence of type, default=()
        The classes of other packages whose objects may be in the file, such as another package's
        oracle and its mechanism.

    Returns
    -------
    FrequencyEstimate, EstimateSet, TableSet, EstimateDifference or MeanEstimate
        The estimate, with its categories, its noise and its oracle.

    Raises
    ------
    ValueError
        If the file is damaged or edited, has the format of another release, contains a class that
        is not among `classes`, or does not contain an estimate with consistent parts.
    OSError
        If the file cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn_ldp import GRR, load_estimate
    >>> oracle = GRR(2.0, categories=["no", "yes"], random_state=0)
    >>> estimate = oracle.fit_transform(["no"] * 700 + ["yes"] * 300)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     estimate.save(f"{folder}/estimate.npz")
    ...     again = load_estimate(f"{folder}/estimate.npz")
    >>> again
    FrequencyEstimate of 2 categories, by GRR(epsilon=2), 1,000 users, noise level 0.013
      no   0.6917
      yes  0.3083
    """
    estimate = kept(path, classes)
    if not isinstance(estimate, Kept):
        raise ValueError(
            f"load_estimate needs a file with an estimate, but {path} contains a "
            f"{type(estimate).__name__}. Pass a file that the method save of an estimate has "
            "written."
        )
    return estimate
