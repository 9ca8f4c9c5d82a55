"""Checks of the arguments of `FrequencyEstimate.from_counts`."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..common.text import counted, few, grouped_digits
from ..domains import Domain
from ..domains.values import as_numbers, as_vector, order_of
from ..noise import NOISE_KINDS, AddedNoise, std_of_noise

_MATRIX_KIND = "normal"  # the only distribution that a covariance matrix determines
_WHOLE_KINDS = ("geometric", "discrete-normal")
# Standard deviations by which noise does not exceed 0. Chosen by hand: a single Laplace variable
# exceeds them with the probability 6e-6.
_MOST_DEVIATIONS = 8.0


def checked_counts(counts: Any, n_samples: Any, noise: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return counts as floats, and the number of users of each row.

    If `n_samples` is None, the numbers of users are the sums of the counts. Raises ValueError if
    counts or numbers of users are not valid numbers.

    Shapes: -> (n_estimates, d), and () or (n_estimates,).
    """
    plain: Any = list(counts.values()) if isinstance(counts, Mapping) else counts
    if {"count", "proportion"} & set(getattr(plain, "columns", ())):
        raise ValueError(
            "FrequencyEstimate.from_counts got a data frame with a column of counts. Pass this "
            "column as counts=, and the column of categories as categories=."
        )
    is_numeric = as_numbers(plain, kinds="iuf").size > 0
    if not is_numeric:
        _refuse_texts(plain)
    array = np.atleast_2d(np.asarray(plain if is_numeric else []))
    n = as_numbers(np.nansum(array, axis=1) if n_samples is None else n_samples, kinds="iuf")
    if not (array.size and n.size and np.all(n > 0)):
        raise ValueError(
            "FrequencyEstimate.from_counts needs one number for each category and a positive "
            f"number of users, got counts={few(plain)} and n_samples={few(n_samples)}. Pass "
            "one number for each category as counts=, and a number of users above 0 as "
            "n_samples=."
        )
    if n_samples is None and noise is None:
        raise ValueError(
            "FrequencyEstimate.from_counts needs n_samples=, the number of users. Omit "
            "n_samples only for counts with added noise of a known distribution "
            '(noise="laplace", ..).'
        )
    largest = array.max(initial=0)
    if array.dtype.kind == "u" and largest > np.iinfo(array.dtype).max // 2:
        raise ValueError(
            f"FrequencyEstimate.from_counts got the count {largest}, which looks like a "
            f"negative number in {array.dtype}. Read the counts as signed integers "
            "(counts.astype('int64'))."
        )
    return array.astype(float), n


def noise_of_counts(
    kind: Any, p: Any, q: Any, std: Any, epsilon: Any, sensitivity: Any, n_categories: int
) -> Any:
    """Check the noise arguments of `FrequencyEstimate.from_counts` and return the noise.

    kind: the argument `noise`, the name of the distribution.
    Returns: an AddedNoise; if the distribution is unknown, only the standard deviation.
    """
    n_given = sum(parameter is not None for parameter in (std, epsilon))
    if p is not None or q is not None or n_given != 1 or (kind is None and std is None):
        raise ValueError(
            f"FrequencyEstimate.from_counts got p={p!r}, q={q!r}, std={std!r:.80}, noise={kind!r} "
            f"and epsilon={epsilon!r}. Pass p= and q= for counts of reports, or std= for noisy "
            "numbers of users, if possible with their distribution noise=, or noise= and epsilon=."
        )
    if kind is not None and kind not in NOISE_KINDS:
        names = ", ".join(map(repr, NOISE_KINDS))
        raise ValueError(f"FrequencyEstimate.from_counts got noise={kind!r}. Use one of {names}.")
    if epsilon is not None:
        if kind not in ("laplace", "geometric"):
            raise ValueError(
                f'FrequencyEstimate.from_counts got noise="{kind}" with epsilon={epsilon!r}, but '
                "epsilon determines only Laplace and geometric noise. Pass the standard deviation "
                "of the noise as std= instead of epsilon=."
            )
        budgets = as_numbers(epsilon, kinds="iuf")
        scale = as_numbers(sensitivity, kinds="iuf")
        if not (budgets.size and scale.size == 1 and np.all(budgets > 0) and scale.item() > 0):
            raise ValueError(
                "FrequencyEstimate.from_counts needs epsilon > 0 and sensitivity > 0, got "
                f"epsilon={epsilon!r} and sensitivity={sensitivity!r}. Pass the values with which "
                "the noise was added."
            )
        std = std_of_noise(kind, budgets, scale.item())
    deviations = as_numbers(std, kinds="iuf")
    is_matrix = deviations.ndim == 2
    least = 1.0 if kind == "discrete-normal" else 0.0
    n_dimensions = {None: 1, _MATRIX_KIND: 3}.get(kind, 2)
    shapes = [(), (n_categories,), (n_categories, n_categories)][:n_dimensions]
    is_finite = deviations.shape in shapes and np.all(np.isfinite(deviations))
    if not is_finite or not (is_matrix or np.all(deviations >= least)):
        raise ValueError(
            f"FrequencyEstimate.from_counts needs a finite std >= {least:g}, got {std!r:.80}. Pass "
            f"one number, or with noise= a number for each of the {n_categories} counts, or with "
            f'noise="{_MATRIX_KIND}" a covariance matrix.'
        )
    if kind is None:
        return std
    if is_matrix:
        smallest = np.linalg.eigvalsh((deviations + deviations.T) / 2).min()
        if not np.allclose(deviations, deviations.T) or smallest < -1e-9 * np.abs(deviations).max():
            raise ValueError(
                "FrequencyEstimate.from_counts got a matrix std= that is not a covariance matrix. "
                "Pass a symmetric, positive semidefinite matrix."
            )
        return AddedNoise(kind, np.sqrt(np.diag(deviations)), deviations)
    return AddedNoise(kind, np.broadcast_to(deviations, (n_categories,)).copy())


def check_noisy_counts(
    values: np.ndarray, n_samples: np.ndarray, kind: Any, noise: Any, sensitivity: Any
) -> bool:
    """Raise ValueError if noisy counts contradict their noise or the number of users.

    Return whether the counts leave out users, because they add up to clearly less than `n_samples`.
    Shapes: values (n_estimates, d), n_samples () or (n_estimates,).
    noise: the result of `noise_of_counts` for the same arguments.
    """
    is_fraction = np.isfinite(values) & (values != np.rint(values))  # NaN is suppressed
    if kind in _WHOLE_KINDS and is_fraction.any():
        raise ValueError(
            f'FrequencyEstimate.from_counts got noise="{kind}" of whole numbers, but the count '
            f"{values[is_fraction][0]:g}. Pass the released whole numbers, or the distribution of "
            "noise with fractions."
        )
    # The correlation of noise of an unknown distribution is unknown.
    std = values.shape[1] * float(noise) if kind is None else np.sqrt(noise.variance_of_total)
    totals = np.nansum(values, axis=1)
    most = n_samples * max(1.0, float(sensitivity))
    is_excess = totals - most > _MOST_DEVIATIONS * std
    if is_excess.any():
        total, n = (np.broadcast_to(x, totals.shape)[is_excess][0] for x in (totals, n_samples))
        raise ValueError(
            f"FrequencyEstimate.from_counts got counts that add up to {grouped_digits(total)}, but "
            f"n_samples={grouped_digits(n)} users, which noise does not explain. Pass at least the "
            "number of users as n_samples= (for several releases, the largest of these numbers), "
            "or omit n_samples; if a user may be in several counts, pass the maximum number of "
            "counts per user as sensitivity=."
        )
    return bool(np.any(n_samples - totals > _MOST_DEVIATIONS * std))


def order_of_counts(counts: Any, labels: list | None, categories: Any) -> Any:
    """Return the positions of the counts in the order of the categories; None if it is their order.

    labels: the labels of the counts, or None. Raises ValueError if the labels are not the
    categories.
    """
    is_column = hasattr(counts, "iloc") and not hasattr(counts, "columns")
    if is_column and hasattr(categories, "iloc"):  # two columns, such as of one data frame
        labels = None if counts.index.equals(categories.index) else counts.index.tolist()
    if categories is None or labels is None:
        return None
    return order_of(labels, names_of(categories), "Argument counts of from_counts")


def names_of(categories: Any) -> np.ndarray:
    """Return the categories of a Domain or an array-like as an array of shape (d,)."""
    return categories.categories if isinstance(categories, Domain) else as_vector(categories)


def _refuse_texts(counts: Any) -> None:
    """Raise ValueError if a count is a text, as in a column of a CSV file without conversion."""
    texts = [
        count for count in np.ravel(np.asarray(counts, dtype=object)) if isinstance(count, str)
    ]
    if texts:
        raise ValueError(
            "FrequencyEstimate.from_counts needs numbers as counts, got the text "
            f"{texts[0]!r:.80}. Convert the counts first, for example with float(count) for each "
            'count, or read the file with pandas.read_csv(path, thousands=",").'
        )


def warn_of_suppressed(categories: list) -> None:
    """Warn that the counts of these categories are missing, and that the estimate omits them."""
    warnings.warn(
        f"{counted(len(categories), 'count')} suppressed (NaN), such as the count of "
        f"{categories[0]!r}. The estimate omits these categories, so totals do not include their "
        "users. To keep such a category, replace its count by 0 or by half the suppression "
        "threshold; the estimate is then biased.",
        UserWarning,
        stacklevel=3,
    )
