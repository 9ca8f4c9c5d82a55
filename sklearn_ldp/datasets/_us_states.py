"""Resident populations of the US states at the 2020 census."""

import csv
from importlib.resources import files
from typing import Any, Literal, overload

import numpy as np
from sklearn.utils import Bunch

from .._utils.random import RandomState
from ._generators import sample_counts

_DESCR = """\
Resident population of the 50 US states and the District of Columbia, 1 April 2020

51 categories, 331,449,281 people, groups: 9 divisions and 4 regions of the Census Bureau.

Source: U.S. Census Bureau, 2020 Census Apportionment Results, Table 2: Resident Population for the
50 States, the District of Columbia, and Puerto Rico (26 April 2021); the same counts are in the
2020 Census Redistricting Data (Public Law 94-171). Puerto Rico, which the national total does not
include, is left out. A work of the U.S. Government, in the public domain.
"""


@overload
def load_us_states(
    *,
    n_samples: int | None = None,
    return_X_y: Literal[False] = False,
    as_frame: bool = False,
    random_state: RandomState = None,
) -> Bunch: ...
@overload
def load_us_states(
    *,
    n_samples: int | None = None,
    return_X_y: bool,
    as_frame: bool = False,
    random_state: RandomState = None,
) -> Any: ...
def load_us_states(
    *,
    n_samples: int | None = None,
    return_X_y: bool = False,
    as_frame: bool = False,
    random_state: RandomState = None,
) -> Any:
    """Load the resident populations of the US states at the 2020 census.

    A real categorical attribute with a public truth: the state each of 331,449,281 people lives
    in, with groups to query. The data are part of the package; nothing is downloaded.

    ================  ===========================================
    Categories        51: the 50 states and District of Columbia
    People            331,449,281
    Groups            division (9), region (4)
    ================  ===========================================

    Parameters
    ----------
    n_samples : int, default=None
        Number of residents to draw without replacement (see :func:`sample_counts`). None returns
        the whole population.

    return_X_y : bool, default=False
        Return ``(categories, counts)`` instead of a Bunch, as an oracle takes them:
        ``X, counts = load_us_states(return_X_y=True)``, then
        ``oracle.fit(X, sample_weight=counts)``.

    as_frame : bool, default=False
        Add the table as a pandas DataFrame, in ``frame``; together with `return_X_y`, return two
        pandas Series. Needs pandas.

    random_state : int, RandomState, Generator or None, default=None
        Seed of the sample if `n_samples` is given.

    Returns
    -------
    data : Bunch
        With ``return_X_y=False``, a dictionary-like object with

        categories : ndarray of shape (51,), of str
            Names of the states, in alphabetical order.
        counts : ndarray of shape (51,), dtype int64
            Number of residents (or of residents drawn) in each state.
        frequencies : ndarray of shape (51,), dtype float64
            ``counts / n_samples``.
        n_samples : int
            Number of people in total.
        groups : Bunch
            ``division`` and ``region``: ndarrays of shape (51,) of str with the group of each
            category, in the order of `categories`.
        abbreviations : ndarray of shape (51,), of str
            Two-letter postal abbreviations.
        frame : DataFrame of shape (51, 5) or None
            Columns state, abbreviation, count, division and region; None unless `as_frame`.
        DESCR : str
            Description of the data and their source.
    (X, counts) : tuple of ndarray or Series of shape (51,)
        With ``return_X_y=True``: the categories, and the number of users of each.

    Raises
    ------
    ValueError
        If `n_samples` is not an integer from 1 to 331,449,281.
    ImportError
        If `as_frame` is True and pandas is not installed.

    See Also
    --------
    sample_counts : Draw people from any histogram.

    References
    ----------
    U.S. Census Bureau, "2020 Census Apportionment Results", Table 2, 26 April 2021.
    https://www.census.gov/data/tables/2020/dec/2020-apportionment-data.html

    Examples
    --------
    >>> from sklearn_ldp.datasets import load_us_states
    >>> states = load_us_states()
    >>> int(states.counts.sum()), str(states.categories[states.counts.argmax()])
    (331449281, 'California')
    >>> int(states.counts[states.groups.region == "West"].sum())
    78588572
    >>> X, counts = load_us_states(n_samples=1_000_000, return_X_y=True, random_state=0)
    >>> X.shape, int(counts.sum())
    ((51,), 1000000)
    """
    if as_frame:
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError(
                "load_us_states: as_frame=True needs pandas, which is not installed. Install it "
                'with pip install "sklearn_ldp[data]", or leave as_frame=False.'
            ) from error
    source = files(__package__).joinpath("data", "us_states_2020.csv")
    header, *rows = csv.reader(source.read_text(encoding="utf-8").splitlines())
    table = dict(zip(header, map(np.array, zip(*rows, strict=True)), strict=True))
    counts = table["population"].astype(np.int64)
    if n_samples is not None:
        counts = sample_counts(counts, n_samples, random_state=random_state)
    groups = Bunch(division=table["division"], region=table["region"])
    frame = None
    if as_frame:
        frame = pd.DataFrame(
            {
                "state": table["state"],
                "abbreviation": table["abbreviation"],
                "count": counts,
                **groups,
            }
        )
    if return_X_y:
        return (table["state"], counts) if frame is None else (frame["state"], frame["count"])
    total = int(counts.sum())
    return Bunch(
        categories=table["state"],
        counts=counts,
        frequencies=counts / total,
        n_samples=total,
        groups=groups,
        abbreviations=table["abbreviation"],
        frame=frame,
        DESCR=_DESCR,
    )
