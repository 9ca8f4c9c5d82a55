"""Reading what the method `save` of estimates has written."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any

from ..report_page import Kept
from ..support.kept import kept


def load_estimate(path: str | PathLike[str], *, classes: Sequence[type] = ()) -> Any:
    """Return the estimate that a file holds, which the method `save` of an estimate has written.

    The file is data: numbers, text and tags of classes of this package. Reading it imports nothing
    that it names, and calls no code of other packages but the `classes`. A digest tells damage and
    careless edits, and what does not belong together is refused. Neither proves who wrote the file,
    because anybody can write numbers that agree, and their digest.

    Parameters
    ----------
    path : path-like
        The file.
    classes : sequence of type, default=()
        Classes of other packages that the file may hold, such as an oracle of a third party and its
        channel.

    Returns
    -------
    FrequencyEstimate, EstimateSet, TableSet, EstimateDifference or MeanEstimate
        The estimate, with what it was saved with.

    Raises
    ------
    ValueError
        If the file is damaged or edited, of another release's format, holds a class that is not
        among `classes`, or holds no estimate whose parts agree.
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
        raise ValueError(f"{path} holds a {type(estimate).__name__}, and no estimate.")
    return estimate
