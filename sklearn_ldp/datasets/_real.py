"""Real data sets: residents of the US states in 2020, and applicants to Berkeley in 1973."""

import csv
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from .._core.common.pandas import import_pandas
from .._core.common.random import RandomState
from ._generators import sample_counts

_US_STATES = """\
Resident population of the 50 US states and the District of Columbia, 1 April 2020

51 categories, 331,449,281 people, groups: 9 divisions and 4 regions of the Census Bureau.

Source: U.S. Census Bureau, 2020 Census Apportionment Results, Table 2: Resident Population for the
50 States, the District of Columbia, and Puerto Rico (26 April 2021); the same counts are in the
2020 Census Redistricting Data (Public Law 94-171). Puerto Rico, which the national total does not
include, is left out. A work of the U.S. Government, in the public domain.
"""


def load_us_states(
    *,
    n_samples: int | None = None,
    return_X_y: bool = False,
    as_frame: bool = False,
    random_state: RandomState = None,
) -> Any:
    """Load the resident populations of the US states at the 2020 census.

    The data contain the state of residence of 331,449,281 people, and two groupings of the states.
    The true frequencies are public, so errors of estimates can be computed. The data are part of
    the package, so nothing is downloaded.

    ================  ===========================================
    Categories        51: the 50 states and District of Columbia
    People            331,449,281
    Groups            division (9), region (4)
    ================  ===========================================

    Parameters
    ----------
    n_samples : int, default=None
        Number of residents to draw without replacement (see :func:`sample_counts`). If None, return
        the whole population.

    return_X_y : bool, default=False
        If True, return ``(categories, counts)`` instead of a Bunch. These are the arguments of an
        oracle: ``X, counts = load_us_states(return_X_y=True)``, then
        ``oracle.fit(X, sample_weight=counts)``.

    as_frame : bool, default=False
        If True, add the table as a pandas DataFrame in ``frame``. Together with `return_X_y`,
        return two pandas Series. This needs pandas.

    random_state : int, RandomState, Generator or None, default=None
        Seed of the sample. It is used only if `n_samples` is an integer.

    Returns
    -------
    data : Bunch
        With ``return_X_y=False``, a dictionary-like object with

        categories : ndarray of shape (51,), of str
            Names of the states, in alphabetical order.
        counts : ndarray of shape (51,), dtype int64
            Number of residents in each state. If `n_samples` is an integer, number of drawn
            residents.
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
        With ``return_X_y=True``: the categories, and the number of people in each.

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
    pd = import_pandas("load_us_states(as_frame=True)") if as_frame else None
    header, *rows = _rows("us_states_2020.csv")
    table = dict(zip(header, map(np.array, zip(*rows, strict=True)), strict=True))
    counts = table["population"].astype(np.int64)
    if n_samples is not None:
        counts = sample_counts(counts, n_samples, random_state=random_state)
    groups = Bunch(division=table["division"], region=table["region"])
    names = {"state": table["state"], "abbreviation": table["abbreviation"]}
    frame = pd.DataFrame({**names, "count": counts, **groups}) if pd else None
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
        DESCR=_US_STATES,
    )


_UCB_ADMISSIONS = """\
Applicants to the six largest departments of the graduate school at Berkeley, autumn 1973

4,526 applicants by admission (Admitted, Rejected), gender (Male, Female) and department (A .. F).

Of the men 44.5 % were admitted, of the women 30.4 %. But women applied to departments that admit
few, and within the departments the difference is small or has the other sign: Simpson's paradox.

Source: P. J. Bickel, E. A. Hammel, J. W. O'Connell, "Sex bias in graduate admissions: data from
Berkeley", Science 187 (1975), 398-404, doi:10.1126/science.187.4175.398. The counts by department
are those of the data set UCBAdmissions of R.
"""


def load_ucb_admissions(*, return_X_y: bool = False, as_frame: bool = False) -> Any:
    """Load a table of the applicants to the graduate school at Berkeley in 1973.

    The table has three columns, which depend on each other. It can serve as a small real survey.
    The data are part of the package, so nothing is downloaded.

    ================  ==================================================
    Applicants        4,526
    Columns           admission (2), gender (2), department (6)
    Combinations      24, all of which occur
    ================  ==================================================

    Parameters
    ----------
    return_X_y : bool, default=False
        If True, return ``(data, counts)`` instead of a Bunch. These are the arguments of a survey:
        ``X, counts = load_ucb_admissions(return_X_y=True)``, then
        ``survey.fit(X, sample_weight=counts)``.

    as_frame : bool, default=False
        If True, add the applicants as a pandas DataFrame in ``frame``. Together with `return_X_y`,
        return a DataFrame and a Series. The columns are categorical, so their domains are declared.
        This needs pandas.

    Returns
    -------
    data : Bunch
        With ``return_X_y=False``, a dictionary-like object with

        data : ndarray of shape (24, 3), of str
            The combinations of admission, gender and department.
        counts : ndarray of shape (24,), dtype int64
            Number of applicants with each combination.
        feature_names : list of str
            Names of the columns.
        domains : dict of str to list of str
            The categories of each column, for the parameter `domains` of
            :class:`~sklearn_ldp.ColumnOracle`.
        n_samples : int
            Number of applicants, 4,526.
        frame : DataFrame of shape (4526, 3) or None
            One row per applicant; None unless `as_frame`.
        DESCR : str
            Description of the data and their source.
    (X, counts) : tuple of ndarray, or DataFrame and Series
        With ``return_X_y=True``: the combinations, of shape (24, 3), and the number of applicants
        of each, of shape (24,).

    Raises
    ------
    ImportError
        If `as_frame` is True and pandas is not installed.

    See Also
    --------
    load_us_states : One column of 51 categories, and 331 million people.

    References
    ----------
    P. J. Bickel, E. A. Hammel, J. W. O'Connell, "Sex bias in graduate admissions: data from
    Berkeley", Science 187 (1975), :doi:`10.1126/science.187.4175.398`.

    Examples
    --------
    >>> from sklearn_ldp import ColumnOracle
    >>> from sklearn_ldp.datasets import load_ucb_admissions
    >>> ucb = load_ucb_admissions()
    >>> ucb.domains["department"]
    ['A', 'B', 'C', 'D', 'E', 'F']
    >>> is_admitted, is_woman = ucb.data[:, 0] == "Admitted", ucb.data[:, 1] == "Female"
    >>> int(ucb.counts[is_woman & is_admitted].sum()), int(ucb.counts[is_woman].sum())
    (557, 1835)
    >>> survey = ColumnOracle(epsilon=2.0, domains=ucb.domains, random_state=0)
    >>> survey.fit_transform(ucb.data, sample_weight=ucb.counts).names
    ['admission', 'gender', 'department']
    """
    pd = import_pandas("load_ucb_admissions(as_frame=True)") if as_frame else None
    header, *rows = _rows("ucb_admissions_1973.csv")
    names = header[:-1]
    data = np.array([row[:-1] for row in rows])
    counts = np.array([row[-1] for row in rows]).astype(np.int64)
    domains = {name: list(dict.fromkeys(data[:, j].tolist())) for j, name in enumerate(names)}
    frame = None
    if pd:
        levels = {name: pd.CategoricalDtype(domain) for name, domain in domains.items()}
        combinations = pd.DataFrame(data, columns=names).astype(levels)
        places = np.repeat(np.arange(len(counts)), counts)
        frame = combinations.iloc[places].reset_index(drop=True)
    if return_X_y:
        return (combinations, pd.Series(counts, name="count")) if pd else (data, counts)
    return Bunch(
        data=data,
        counts=counts,
        feature_names=names,
        domains=domains,
        n_samples=int(counts.sum()),
        frame=frame,
        DESCR=_UCB_ADMISSIONS,
    )


def _rows(name: str) -> Iterator[list[str]]:
    """Return an iterator over the rows of a CSV file of the package, starting with the header."""
    source = files(__package__).joinpath("data", name)
    return csv.reader(source.read_text(encoding="utf-8").splitlines())
