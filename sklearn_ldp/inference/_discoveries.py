"""Which of many statements may be made at once, and how often some of them are wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import false_discovery_control

_STATEMENTS = {
    "fdr": "false-discovery rate",
    "fdr_any": "false-discovery rate under any dependence",
    "fwer": "probability of any false one",
}


def check_error_rate(error_rate: Any) -> None:
    """Raise ValueError unless the error rate has a name that is known."""
    if error_rate not in _STATEMENTS:
        known = ", ".join(f'"{name}"' for name in _STATEMENTS)
        raise ValueError(f"Argument error_rate must be one of {known}, got {error_rate!r}.")


def adjusted_p_values(p_values: np.ndarray, error_rate: str) -> np.ndarray:
    """Return the least alpha at which each of many hypotheses is rejected.

    Parameters
    ----------
    p_values : ndarray of shape (n_estimates, d)
        One p-value for each hypothesis; those of a row are a family.
    error_rate : {"fdr", "fdr_any", "fwer"}
        Benjamini and Hochberg, Benjamini and Yekutieli, or Holm.

    Returns
    -------
    ndarray of shape (n_estimates, d)
        The adjusted p-values.
    """
    if error_rate != "fwer":
        method = "bh" if error_rate == "fdr" else "by"
        return false_discovery_control(p_values, axis=1, method=method)
    order = np.argsort(p_values, axis=1, kind="stable")
    factors = np.arange(p_values.shape[1], 0, -1)
    steps = np.maximum.accumulate(np.take_along_axis(p_values, order, axis=1) * factors, axis=1)
    result = np.empty_like(p_values)
    np.put_along_axis(result, order, np.minimum(steps, 1), axis=1)
    return result


@dataclass(frozen=True, eq=False, repr=False)
class Discoveries:
    """Categories of which something is surely true, with the rate at which that is wrong.

    Parameters
    ----------
    categories : ndarray of shape (d,)
        All categories.
    mask : ndarray of shape (n_estimates, d)
        Which of them were discovered, for each estimate.
    p_values : ndarray of shape (n_estimates, d)
        Adjusted p-values: the least error rate at which a category is discovered.
    what : str
        What was discovered, such as "above 0".
    level : float
        One minus the error rate.
    error_rate : {"fdr", "fdr_any", "fwer"}
        The error rate that `level` is about: the false-discovery rate (with or without an
        assumption on how the errors depend on each other), or the probability of any false
        discovery.

    Examples
    --------
    >>> from sklearn_ldp import OUE
    >>> oracle = OUE(3.0, categories=["a", "b", "c", "d"], random_state=0)
    >>> found = oracle.fit_transform(["a"] * 9000 + ["b"] * 1000).detected(0.99)
    >>> found
    2 of 4 categories are above 0 (false-discovery rate at most 0.01)
    >>> found[0].tolist()
    ['a', 'b']
    """

    categories: np.ndarray
    mask: np.ndarray
    p_values: np.ndarray
    what: str
    level: float
    error_rate: str

    def __len__(self) -> int:
        return len(self.mask)

    def __getitem__(self, i: int) -> np.ndarray:
        """Return the discovered categories of the i-th estimate, in the order of the domain."""
        return self.categories[self.mask[i]]

    def __repr__(self) -> str:
        found = ", ".join(f"{count:,}" for count in self.mask.sum(axis=1))
        alpha = f"{1 - self.level:.3g}"
        return (
            f"{found} of {len(self.categories):,} categories are {self.what} "
            f"({_STATEMENTS[self.error_rate]} at most {alpha})"
        )


def discoveries(
    categories: np.ndarray, p_values: np.ndarray, what: str, level: float, error_rate: str
) -> Discoveries:
    """Return what is discovered, from p-values of shape (n_estimates, d)."""
    adjusted = adjusted_p_values(p_values, error_rate)
    mask = adjusted <= 1 - level
    return Discoveries(categories, mask, adjusted, what, level, error_rate)
