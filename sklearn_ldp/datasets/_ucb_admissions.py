"""Applicants to the graduate school at Berkeley in 1973: a table of three columns."""

import csv
from importlib.resources import files
from typing import Any, Literal, overload

import numpy as np
from sklearn.utils import Bunch

_DESCR = """\
Applicants to the six largest departments of the graduate school at Berkeley, autumn 1973

4,526 applicants by admission (Admitted, Rejected), gender (Male, Female) and department (A .. F).

Of the men 44.5 % were admitted, of the women 30.4 %. But women applied to departments that admit
few, and within the departments the difference is small or has the other sign: Simpson's paradox.

Source: P. J. Bickel, E. A. Hammel, J. W. O'Connell, "Sex bias in graduate admissions: data from
Berkeley", Science 187 (1975), 398-404, doi:10.1126/science.187.4175.398. The counts by department
are those of the data set UCBAdmissions of R.
"""


@overload
def load_ucb_admissions(*, return_X_y: Literal[False] = False, as_frame: bool = False) -> Bunch: ...
@overload
def load_ucb_admissions(*, return_X_y: bool, as_frame: bool = False) -> Any: ...
def load_ucb_admissions(*, return_X_y: bool = False, as_frame: bool = False) -> Any:
    """Load a table of three columns: applicants to the graduate school at Berkeley in 1973.

    A small real survey, in which the columns depend on each other. The data are part of the
    package; nothing is downloaded.

    ================  ==================================================
    Applicants        4,526
    Columns           admission (2), gender (2), department (6)
    Combinations      24, all of which occur
    ================  ==================================================

    Parameters
    ----------
    return_X_y : bool, default=False
        Return ``(data, counts)`` instead of a Bunch, as an oracle takes them:
        ``X, counts = load_ucb_admissions(return_X_y=True)``, then
        ``survey.fit(X, sample_weight=counts)``.

    as_frame : bool, default=False
        Add the applicants as a pandas DataFrame, in ``frame``; together with `return_X_y`, return
        a DataFrame and a Series. Its columns are categorical, so their domains are declared. Needs
        pandas.

    Returns
    -------
    data : Bunch
        With ``return_X_y=False``, a dictionary-like object with

        data : ndarray of shape (24, 3), of str
            The combinations of admission, gender and department.
        counts : ndarray of shape (24,), dtype int64
            Number of applicants of each combination.
        feature_names : list of str
            Names of the columns.
        domains : dict of str to list of str
            The categories of each column, as :class:`~sklearn_ldp.ColumnOracle` takes them.
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
    if as_frame:
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError(
                "load_ucb_admissions: as_frame=True needs pandas, which is not installed. Install "
                'it with pip install "sklearn_ldp[data]", or leave as_frame=False.'
            ) from error
    source = files(__package__).joinpath("data", "ucb_admissions_1973.csv")
    header, *rows = csv.reader(source.read_text(encoding="utf-8").splitlines())
    names = header[:-1]
    data = np.array([row[:-1] for row in rows])
    counts = np.array([row[-1] for row in rows]).astype(np.int64)
    domains = {
        name: list(dict.fromkeys(column.tolist()))
        for name, column in zip(names, data.T, strict=True)
    }
    combinations = frame = None
    if as_frame:
        levels = {name: pd.CategoricalDtype(domain) for name, domain in domains.items()}
        combinations = pd.DataFrame(data, columns=names).astype(levels)
        places = np.repeat(np.arange(len(counts)), counts)
        frame = combinations.iloc[places].reset_index(drop=True)
    if return_X_y:
        return (
            (data, counts)
            if combinations is None
            else (combinations, pd.Series(counts, name="count"))
        )
    return Bunch(
        data=data,
        counts=counts,
        feature_names=names,
        domains=domains,
        n_samples=int(counts.sum()),
        frame=frame,
        DESCR=_DESCR,
    )
