"""Reading what the method `save` of estimates has written."""

from __future__ import annotations

from os import PathLike
from typing import Any

from ..report_page import Kept
from ..support.kept import kept


def load_estimate(path: str | PathLike[str]) -> Any:
    """Return the estimate that a file holds, which the method `save` of an estimate has written.

    The file is read without pickle: it holds numbers, text and the names of classes of this
    package, and no code of its own. Classes of other packages, such as an oracle of a third party,
    must have been imported before.

    Parameters
    ----------
    path : path-like
        The file.

    Returns
    -------
    FrequencyEstimate, EstimateSet, TableSet, EstimateDifference or MeanEstimate
        The estimate, with what it was saved with.

    Raises
    ------
    ValueError
        If the file is damaged, of another release's format, or holds no estimate.
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
    found = kept(path)
    if not isinstance(found, Kept):
        raise ValueError(f"{path} holds a {type(found).__name__}, and no estimate.")
    return found
