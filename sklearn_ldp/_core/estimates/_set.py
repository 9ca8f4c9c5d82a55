"""Several estimates about the same users, one for each column or table of a collection."""

from __future__ import annotations

import html
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..common.pandas import import_pandas
from ..common.text import printable
from ..common.typing import DataFrame
from ..domains.values import place_of_missing
from ..report_page import Kept
from ..statistics import (
    EstimateDifference,
    at_level,
    describe_estimate,
    level_of_each,
    quartiles,
    several,
)
from ._estimate import FrequencyEstimate


class EstimateSet(Kept, Mapping[Any, FrequencyEstimate], tag="estimate-set"):
    """A mapping from names (such as columns) to estimates, in a fixed order.

    The mapping is read-only: ``estimates["age"]`` is one estimate, called a part of the set, and
    `keys`, `values`, `items` and `len` work as for a dict. Post-processors and searches process
    each part separately and return a set. If no user was asked about a part, its estimate has no
    rows and is printed as "no users"; post-processors do not change it.

    Parameters
    ----------
    parts : mapping of names to FrequencyEstimate
        The estimates in their order. Names are strings, or tuples of strings for tables of several
        columns.

    Raises
    ------
    ValueError
        If there is no part.
    TypeError
        If a part is not a FrequencyEstimate.

    See Also
    --------
    ColumnOracle : Collects several columns, and returns such a set.

    Examples
    --------
    >>> from sklearn_ldp import EstimateSet, FrequencyEstimate
    >>> sex = FrequencyEstimate([[0.6, 0.4]], ["F", "M"])
    >>> estimates = EstimateSet({"sex": sex, "smokes": FrequencyEstimate([[0.9, 0.1]], [0, 1])})
    >>> estimates["smokes"].top(1)
    [(0, 0.9)]
    >>> estimates
    EstimateSet of 2 parts
      sex     F 0.6, M 0.4
      smokes  0 0.9, 1 0.1
    """

    def __init__(self, parts: Mapping[Any, FrequencyEstimate]) -> None:
        if not isinstance(parts, Mapping) or not parts:
            raise ValueError(
                f"EstimateSet needs a mapping with at least one entry, got {parts!r}. Pass a "
                "mapping of names to estimates, such as {'age': estimate}."
            )
        for name, part in parts.items():
            if not isinstance(part, FrequencyEstimate):
                raise TypeError(
                    f"EstimateSet needs FrequencyEstimates, got {type(part).__name__} for the name "
                    f"{name!r}. Convert an array with FrequencyEstimate(values, categories)."
                )
        self._parts = dict(parts)

    def __check_state__(self) -> None:
        EstimateSet.__init__(self, self._parts)

    # -- as a mapping -------------------------------------------------------------------------
    @property
    def names(self) -> list[Any]:
        """The names of the estimates, in their order."""
        return list(self._parts)

    @property
    def feature_names(self) -> np.ndarray:
        """An array with a name for each category of each part, such as "age_3" in part "age"."""
        names = [f"{_joined(name)}_{c}" for name, part in self.items() for c in part.categories]
        return np.array(names, dtype=object)

    def __getitem__(self, name: Hashable) -> FrequencyEstimate:
        try:
            return self._parts[name]
        except KeyError:
            names = ", ".join(map(repr, self._parts))
            raise KeyError(
                f"This EstimateSet has no part {name!r}. Choose one of {names}."
            ) from None

    def __iter__(self) -> Iterator[Any]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)

    if not TYPE_CHECKING:  # editors should report unknown attributes

        def __getattr__(self, name):
            # A user may ask a set for an attribute of its parts; the error shows the remedy.
            if name in ("crosstab", "independence"):
                raise AttributeError(
                    f"{type(self).__name__} has no attribute {name!r}, because each estimate is "
                    f"about one column. Ask for pairs of columns with MarginalOracle: its "
                    f"estimate_.{name}(a, b) is about two columns."
                )
            if name.startswith("_") or name not in dir(self[self.names[0]]):
                raise AttributeError(f"{type(self).__name__} has no attribute {name!r}.")
            raise AttributeError(
                f"A set of estimates has no attribute {name!r}, but each of its estimates has. "
                f"Select one estimate, as in estimates[{self.names[0]!r}].{name}, or loop over "
                "estimates.items()."
            )

    def __sub__(self, other: EstimateSet) -> dict[Any, EstimateDifference]:
        """Return a dict of differences: for each name, this part minus the part of `other`."""
        # Parts without users in one of the sets are omitted.
        if not isinstance(other, EstimateSet):
            return NotImplemented
        if self.names != other.names:
            raise ValueError(
                "A difference needs two sets whose parts have the same names in the same order, "
                f"got {self.names} and {other.names}. Create an EstimateSet of the common parts of "
                "each set."
            )
        asked = [name for name in self if len(self[name]) and len(other[name])]
        return {name: self[name] - other[name] for name in asked}

    # Sets are equal only if they are the same object, because estimates are not compared by value.
    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__

    def map(self, function: Callable[[FrequencyEstimate], FrequencyEstimate]) -> EstimateSet:
        """Apply a function to each estimate that has users, and return the results as a set.

        Parameters
        ----------
        function : callable
            A function from an estimate to an estimate, such as ``NormSub().fit_transform``.

        Returns
        -------
        EstimateSet
            A new set with the same names.
        """
        parts = {name: function(part) if len(part) else part for name, part in self.items()}
        return self.with_parts(parts)

    def answered(self) -> EstimateSet:
        """Return the estimates among the users who answered, without the missing answers.

        Each part that has a category for missing answers is replaced by its estimate
        :meth:`FrequencyEstimate.answered`. Other parts do not change.

        Returns
        -------
        EstimateSet
            A new set with the same names.

        Raises
        ------
        ValueError
            If no part has a category for missing answers, and as for `FrequencyEstimate.answered`.
        """
        complete = [part for part in self.values() if place_of_missing(part.categories) is None]
        if len(complete) == len(self):
            raise ValueError(
                "EstimateSet.answered needs a part with a category for missing answers, got the "
                f"parts {', '.join(map(repr, self.names))}. Declare None as a category, or pass "
                "missing=True to Domain.bins."
            )
        return self.map(lambda part: part if part in complete else part.answered())

    def with_parts(self, parts: Mapping[Any, FrequencyEstimate]) -> EstimateSet:
        """Return a set with other estimates, and otherwise with the properties of this set.

        Parameters
        ----------
        parts : mapping of names to FrequencyEstimate
            The estimates.

        Returns
        -------
        EstimateSet
            A set of the same class. Properties of the whole collection are copied from this set.
        """
        return EstimateSet(parts)

    def of_shards(self, shards: Mapping[Any, np.ndarray]) -> EstimateSet:
        """For each part, return the raw estimate from only some shards (subsets) of its reports.

        Parameters
        ----------
        shards : mapping of names to ndarray of int
            For each part, the indices of its shards to use, each of which contains reports. A part
            without an entry does not change.

        Returns
        -------
        EstimateSet
            The same set as from a collection of only the reports in these shards.

        Raises
        ------
        ValueError
            If the shards were not counted separately.
        """
        parts = {name: self[name].of_shards(indices) for name, indices in shards.items()}
        return self.with_parts({**self, **parts})

    # -- showing ------------------------------------------------------------------------------
    def to_frame(self, interval: float | None = None) -> DataFrame:
        """Return the estimates as a pandas DataFrame, with one column per part and category.

        Parameters
        ----------
        interval : float, default=None
            Level of confidence intervals. If specified, the frame contains the rows of
            ``to_frame(interval)`` of each part, with intervals that are simultaneous over the
            whole frame.

        Returns
        -------
        pandas.DataFrame
            One row per estimate. The columns have two levels, the names of the parts and the
            categories, so that ``frame["age"]`` is the frame of that part. Parts without users are
            NaN. With `interval`, the names of the parts are a level of the index.
        """
        pd = import_pandas("EstimateSet.to_frame")
        if interval is not None:
            level_of_part = self._level_of_each(interval)
            frames = {
                _joined(name): part.to_frame(level_of_part).assign(
                    interval=at_level(interval, noise=part.noise)
                )
                for name, part in self.items()
                if len(part)
            }
            return pd.concat(frames, names=["part"])
        longest = max(self.values(), key=len)
        blocks = []
        for name, part in self.items():
            if len(part) not in (0, len(longest)):
                raise ValueError(
                    f"EstimateSet.to_frame needs parts with equal numbers of rows, got {len(part)} "
                    f"in {name!r} and {len(longest)} in another part. Use to_frame of each part."
                )
            nothing = np.full((len(longest), part.shape[1]), np.nan)
            blocks.append(part.values if len(part) else nothing)
        labels = [(name, c) for name, part in self.items() for c in part.categories.tolist()]
        # The index is made from levels and codes; other constructors would split tuples of tables.
        levels = [list(dict.fromkeys(level)) for level in zip(*labels, strict=True)]
        places = [{label: i for i, label in enumerate(level)} for level in levels]
        columns = pd.MultiIndex(
            [pd.Index(level, tupleize_cols=False) for level in levels],
            [[place[label[i]] for label in labels] for i, place in enumerate(places)],
            names=["part", "category"],
        )
        return pd.DataFrame(np.hstack(blocks), index=longest.row_names, columns=columns)

    def describe(
        self, level: float = 0.95, *, question: str = "", of: str | None = None
    ) -> dict[str, Any]:
        n = sum(len(part) > 0 for part in self.values())
        parts = [
            {
                **describe_estimate(part, level, "", of, n_tables=n),
                "name": ", ".join(map(str, np.ravel(name))),
            }
            for name, part in self.items()
            if len(part)
        ]
        return several(parts, self._heading(), question)

    describe.__doc__ = Kept.describe.__doc__

    def plot(self, **kwargs: Any) -> dict[Any, Any]:
        """Plot each estimate that has users, in separate axes of one figure (needs matplotlib).

        Parameters
        ----------
        **kwargs : dict
            Parameters of :meth:`sklearn_ldp.inspection.FrequencyDisplay.from_estimate`.

        Returns
        -------
        dict of FrequencyDisplay
            The displays by name, with the axes in `ax_`; all are in one figure.
        """
        import matplotlib.pyplot as plt

        if "ax" in kwargs:
            raise TypeError(
                "EstimateSet.plot draws each part in axes of its own, so it has no ax=. Plot one "
                f"part, as in estimates[{next(iter(self))!r}].plot(ax=ax)."
            )
        nonempty = {name: part for name, part in self.items() if len(part)}
        if not nonempty:
            raise ValueError(
                "EstimateSet.plot needs a part with users, got none. Collect reports first."
            )
        n_columns = min(len(nonempty), 3)
        n_rows = -(-len(nonempty) // n_columns)
        figure = plt.figure(figsize=(5 * n_columns, 4 * n_rows), layout="constrained")
        level = kwargs.pop("level", 0.95)
        figure.suptitle(f"{100 * level:g} %: the intervals of all panels together")
        displays = {}
        level_of_part = self._level_of_each(level)
        for i, (name, part) in enumerate(nonempty.items(), 1):
            ax = figure.add_subplot(n_rows, n_columns, i)
            displays[name] = part.plot(ax=ax, level=level_of_part, **kwargs)
            ax.set_title(str(name))
        return displays

    def _level_of_each(self, level: float) -> float:
        """Return the level for the intervals of each part so that all intervals have `level`.

        level: the simultaneous level of the intervals of all parts.
        """
        return level_of_each(level, sum(len(part) > 0 for part in self.values()))

    def _heading(self) -> str:
        return f"EstimateSet of {len(self)} part{'s' * (len(self) != 1)}"

    def __repr__(self) -> str:
        shown = {printable(name): printable(_summary(part)) for name, part in self.items()}
        width = max(map(len, shown))
        lines = [f"  {name:<{width}}  {summary}" for name, summary in shown.items()]
        return "\n".join([self._heading(), *lines])

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{html.escape(str(name))}</td><td>{part.shape[1]:,}</td>"
            f"<td>{html.escape(_summary(part))}</td></tr>"
            for name, part in self.items()
        )
        head = "<tr><th>part</th><th>categories</th><th>largest frequencies, or quartiles</th></tr>"
        return f"<table><caption>{self._heading()}</caption>{head}{rows}</table>"


def _joined(name: Any) -> str:
    """Return the name of a part as a string. The elements of a tuple are joined by "_"."""
    return "_".join(map(str, name)) if isinstance(name, tuple) else str(name)


def _summary(part: FrequencyEstimate) -> str:
    """Return one line about a part: its largest frequencies, or the quartiles if it has bins."""
    if len(part) != 1:
        return f"{len(part):,} estimates" if len(part) else "no users"
    shown = [f"{' '.join(name.split())} {x.strip()}" for name, x in part._shown(3, digits=3)[2]]
    return quartiles(part) or ", ".join(shown + ["..."] * (part.shape[1] > len(shown)))
