"""A joint model of several columns: a mixture of a few classes of users, fitted to noisy tables.

A table contains the frequencies of all combinations of some columns' categories. Within a class the
columns are independent. The tables of the model are not negative, and they agree with each other.
The model stores one number for each category and class, so the table of all columns is never
computed.
"""

from __future__ import annotations

import math
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.optimize import minimize

from .._core.common.parallel import one_thread
from .._core.common.tags import Tagged
from ._components import Subset

_MAX_STEPS = 200  # a bound on the work
_MIN_FREQUENCY = 1e-9  # frequencies are raised to this number, so that they have a logarithm

# The mixture that rows are sampled from is fitted to tables as if they had very little noise.
# Chosen by hand, not measured.
_ROW_CLASSES = 32
_ROW_USERS = 1e7
_ROW_STEPS = 500


@dataclass(frozen=True, eq=False)
class ClassMixture(Tagged, tag="class-mixture"):
    """A mixture of classes of users. Within each class the columns are independent.

    Parameters
    ----------
    shares : ndarray of shape (n_classes,)
        Proportion of the users in each class. The proportions sum to 1.
    columns : sequence of ndarray of shape (k, n_classes)
        For each column, the frequencies of its k categories in each class.
    """

    shares: np.ndarray
    columns: Sequence[np.ndarray]

    def __check_state__(self) -> None:
        n_classes = len(self.shares)
        shapes_match = all(column.shape[1:] == (n_classes,) for column in self.columns)
        if not shapes_match or not all(np.isfinite(x).all() for x in (self.shares, *self.columns)):
            raise ValueError(
                f"a mixture of {n_classes} classes needs {n_classes} finite proportions, and, for "
                f"each column, an array of finite frequencies of shape (k, {n_classes})"
            )

    def table(self, columns: Subset) -> np.ndarray:
        """Return the table of some columns: the frequency of each combination of their categories.

        Parameters
        ----------
        columns : tuple of int
            Positions of the columns.

        Returns
        -------
        ndarray of shape (n_cells,)
            The frequencies of all combinations. The category of the last column changes fastest.
        """
        letters = string.ascii_letters[: len(columns)]
        terms = ",".join(f"{letter}Z" for letter in letters)
        chosen = [self.columns[j] for j in columns]
        return np.einsum(f"Z,{terms}->{letters}", self.shares, *chosen, optimize=True).ravel()

    def shrunk(self, weight: float) -> ClassMixture:
        """Return a model of the same columns with less dependence between the columns.

        The frequencies of single columns do not change.

        Parameters
        ----------
        weight : float
            The factor of the dependence, in [0, 1]. If 0, the columns of the result are
            independent. If 1, the result is this model.

        Returns
        -------
        ClassMixture
            A mixture of this model, with the proportion `weight`, and of one additional class with
            the mean frequencies of all classes.
        """
        if weight == 1:
            return self
        means = [(column @ self.shares)[:, None] for column in self.columns]
        if weight == 0:
            return ClassMixture(np.ones(1), means)
        joined = [np.hstack(both) for both in zip(self.columns, means, strict=True)]
        return ClassMixture(np.append(weight * self.shares, 1 - weight), joined)

    def conjunction(self, allowed: dict[int, np.ndarray]) -> float:
        """Return the proportion of users who have one of the allowed categories in each column.

        Parameters
        ----------
        allowed : dict of int to ndarray of int
            The positions of the allowed categories, by the position of the column. Columns that are
            not in the dict are not restricted.

        Returns
        -------
        float
            The proportion of the users.
        """
        proportions = (self.columns[j][codes].sum(axis=0) for j, codes in allowed.items())
        return float(math.prod(proportions, start=self.shares).sum())

    def sample(self, n_rows: int, rng: np.random.Generator) -> np.ndarray:
        """Draw the records of users from the model.

        Parameters
        ----------
        n_rows : int
            Number of users.
        rng : Generator
            Source of randomness.

        Returns
        -------
        ndarray of shape (n_rows, n_columns)
            For each user and column, the position of the category among the column's categories.
        """
        sizes = rng.multinomial(n_rows, self.shares / self.shares.sum())
        rows = np.empty((n_rows, len(self.columns)), dtype=np.int64)
        for j, frequencies in enumerate(self.columns):
            counts = rng.multinomial(sizes, (frequencies / frequencies.sum(axis=0)).T)
            by_class = (np.repeat(np.arange(len(frequencies)), n_users) for n_users in counts)
            # Each column has its own order, because columns are independent within a class.
            rows[:, j] = np.concatenate([rng.permutation(codes) for codes in by_class])
        return rng.permutation(rows)


class PairTables:
    """Noisy tables of single columns and of pairs of columns, and their precisions.

    The tables of pairs are blocks of one symmetric matrix. The rows and the columns of this matrix
    are all categories of all columns of the survey.
    """

    # sizes: number of categories of each column.

    def __init__(self, sizes: Sequence[int]) -> None:
        self.starts = np.cumsum([0, *sizes])
        n_values = int(self.starts[-1])
        self.values, self.precisions = np.zeros((2, n_values, n_values))
        self.single_values, self.single_precisions = np.zeros((2, n_values))

    def _span(self, j: int) -> slice:
        return slice(self.starts[j], self.starts[j + 1])

    def add(self, columns: Subset, values: np.ndarray, variances: np.ndarray | float) -> None:
        """Store a noisy table of one or two columns.

        columns: positions of the columns. values, variances: the estimated frequencies of the cells
        and their variances, both of shape (n_cells,), in C order.
        """
        if len(columns) == 1:
            span = self._span(columns[0])
            self.single_values[span] = values
            self.single_precisions[span] = 1 / np.asarray(variances)
            return
        rows, others = (self._span(j) for j in columns)
        precisions = np.broadcast_to(1 / np.asarray(variances), values.shape)
        for matrix, cells in ((self.values, values), (self.precisions, precisions)):
            matrix[rows, others] = cells.reshape(matrix[rows, others].shape)
            matrix[others, rows] = matrix[rows, others].T


class ClassFit:
    """Several mixtures of classes of users, and a method that fits them to noisy tables.

    Within a class, the columns are independent. The frequencies of the single columns are assumed
    to be known.
    """

    # The log odds of a category in a class are its log odds in the column plus a parameter. The
    # parameters and the log odds of the classes have a normal prior. Several mixtures are fitted
    # from different starts. The result is their mean, which is a mixture as well.
    # columns (k,): frequencies of the categories of each column, > 0.
    # n_classes: number of classes of each mixture.
    # n_starts: number of mixtures.
    # prior_precision: inverse of the variance of the normal prior.
    # rng: source of the starts.

    def __init__(
        self,
        columns: Sequence[np.ndarray],
        n_classes: int,
        n_starts: int,
        prior_precision: float,
        rng: np.random.Generator,
    ) -> None:
        self.sizes = [len(column) for column in columns]
        self._starts = np.cumsum([0, *self.sizes])[:-1]
        self._column_numbers = np.repeat(np.arange(len(columns)), self.sizes)  # of each value
        self._logs = np.log(np.concatenate(columns))[:, None]
        self._n_classes = n_classes
        self._n_starts = n_starts
        self._prior_precision = prior_precision
        # The starts are random, because the gradient is 0 if all classes are the same.
        odds = 0.5 * rng.standard_normal((n_starts, len(self._column_numbers), n_classes))
        self._parameters = np.concatenate([odds, np.zeros((n_starts, 1, n_classes))], axis=1)

    def start_from(self, mixture: ClassMixture) -> None:
        """Use the classes of the given mixture as starting values of the first fitted mixture."""
        n = min(len(mixture.shares), self._n_classes)
        frequencies = np.maximum(np.concatenate(list(mixture.columns)), _MIN_FREQUENCY)
        odds = np.log(frequencies) - self._logs
        shares = np.full(self._n_classes, mixture.shares.min() / 10)
        shares[:n] = np.maximum(mixture.shares[:n], _MIN_FREQUENCY)
        self._parameters[0, :-1, :n] = odds[:, :n]
        self._parameters[0, -1] = np.log(shares) - np.log(shares).mean()

    @one_thread
    def fit(self, tables: PairTables, max_steps: int = _MAX_STEPS) -> ClassFit:
        """Fit the mixtures to noisy tables, starting from the current parameters, and return self.

        max_steps: maximum number of iterations of the optimizer.
        """
        result = minimize(
            self._loss,
            self._parameters.ravel(),
            args=(tables,),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": max_steps, "maxfun": 2 * max_steps, "maxcor": 20},
        )
        self._parameters = result.x.reshape(self._parameters.shape)
        return self

    def _mixtures(self, parameters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Convert parameters to the frequencies of the categories and the proportions of classes.

        Shapes: -> (n_starts, n_values, n_classes), (n_starts, 1, n_classes).
        n_starts: number of mixtures. n_values: number of categories of all columns.
        """
        odds = parameters[:, :-1] + self._logs
        odds -= np.maximum.reduceat(odds, self._starts, axis=1)[:, self._column_numbers]
        raised = np.exp(odds)
        raised /= np.add.reduceat(raised, self._starts, axis=1)[:, self._column_numbers]
        shares = np.exp(parameters[:, -1:] - parameters[:, -1:].max(axis=2, keepdims=True))
        return raised, shares / shares.sum(axis=2, keepdims=True)

    def _loss(self, flat: np.ndarray, tables: PairTables) -> tuple[float, np.ndarray]:
        """Return the sum of the losses of all mixtures, and its gradient.

        The loss of a mixture is the weighted sum of squared errors plus the penalty of the prior.
        flat: the parameters of all mixtures in one dimension, like the gradient.
        """
        parameters = flat.reshape(self._parameters.shape)
        frequencies, shares = self._mixtures(parameters)
        weighted = frequencies * shares
        errors = weighted @ frequencies.transpose(0, 2, 1) - tables.values
        residuals = tables.precisions * errors
        single_errors = weighted.sum(axis=2) - tables.single_values
        single_residuals = (tables.single_precisions * single_errors)[:, :, None]
        # The matrix contains each pair twice.
        loss = 0.25 * np.vdot(residuals, errors) + 0.5 * np.vdot(single_residuals, single_errors)
        loss += 0.5 * self._prior_precision * np.vdot(parameters, parameters)

        by_table = residuals @ frequencies
        by_value = weighted * (by_table + single_residuals)
        sums = np.add.reduceat(by_value, self._starts, axis=1)[:, self._column_numbers]
        gradient = self._prior_precision * parameters
        gradient[:, :-1] += by_value - frequencies * sums
        by_share = (frequencies * (0.5 * by_table + single_residuals)).sum(axis=1, keepdims=True)
        mean = (shares * by_share).sum(axis=2, keepdims=True)
        gradient[:, -1:] += shares * (by_share - mean)
        return float(loss), gradient.ravel()

    @property
    def mixture(self) -> ClassMixture:
        """The mean of the fitted mixtures: one mixture with the classes of all these mixtures."""
        frequencies, shares = self._mixtures(self._parameters)
        columns = np.split(np.concatenate(list(frequencies), axis=1), self._starts[1:])
        return ClassMixture(shares.ravel() / self._n_starts, columns)


def positive(frequencies: np.ndarray) -> np.ndarray:
    """Replace tiny, zero and negative frequencies by a tiny positive number, and normalize the sum.

    The result has finite logarithms and sums to 1. Shapes: frequencies (k,) -> (k,).
    """
    raised = np.maximum(frequencies, _MIN_FREQUENCY)
    return raised / raised.sum()


def mixture_of_tables(
    sizes: Sequence[int], tables: Mapping[Subset, np.ndarray], start: ClassMixture | None
) -> ClassMixture:
    """Return a mixture of classes whose tables of two columns approximate the given tables.

    sizes: number of categories of each column.
    tables: non-negative tables of shape (n_cells,), by the positions of their columns. They agree
    with each other. Tables of more than two columns are reduced to tables of two columns.
    start: a mixture whose classes are starting values, or None.
    """
    margins: dict[Subset, np.ndarray] = {}
    for table_columns, values in tables.items():
        cells = np.reshape(values, [sizes[j] for j in table_columns])
        places = range(len(table_columns))
        for axes in (*combinations(places, 1), *combinations(places, 2)):
            others = tuple(axis for axis in places if axis not in axes)
            margins[tuple(table_columns[axis] for axis in axes)] = cells.sum(axis=others).ravel()
    pairs = {columns: margin for columns, margin in margins.items() if len(columns) == 2}
    bases = [positive(margins.get((j,), np.ones(size) / size)) for j, size in enumerate(sizes)]
    if not pairs:
        return ClassMixture(np.ones(1), [base[:, None] for base in bases])
    fit = ClassFit(bases, _ROW_CLASSES, 1, 1.0, np.random.default_rng(0))
    if start is not None:
        fit.start_from(start)
    noisy = PairTables(sizes)
    for pair, table in pairs.items():
        noisy.add(pair, table, (np.maximum(table, 0) + 1 / len(table)) / _ROW_USERS)
    return fit.fit(noisy, _ROW_STEPS).mixture
