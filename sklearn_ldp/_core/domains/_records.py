"""The public domain of a table in which each column is a question with its own domain."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np

from ..common.typing import Values
from ._domain import Domain, UnlistedDomain
from ._lists import UnknownValueError
from .values import as_columns, column_names, declared_levels, read_once, table_columns


class RecordDomain(UnlistedDomain, tag="record-domain"):
    """The domain of a table: a domain for each of its named columns.

    A user's values are encoded as a row of integers, with the position of the category in each
    column. In contrast to `Domain.product`, the combinations of categories of different columns are
    not categories.

    Parameters
    ----------
    domains : mapping of str to Domain
        Maps the name of each column to its domain, in the order of the columns.

    Attributes
    ----------
    columns : dict of str to Domain
        The domain of each column.
    size : int
        Total number of categories of all columns.
    """

    columns: dict[Any, Domain]
    _why = "Several columns have no common list of categories. Select one: domain.columns[name]."

    def __init__(self, domains: Mapping[Any, Domain]) -> None:
        self.columns = dict(domains)
        self.size: int = sum(self.sizes)

    @classmethod
    def declared(cls, domains: Any, name: str) -> RecordDomain:
        """Return the RecordDomain that an argument `domains` specifies.

        Parameters
        ----------
        domains : mapping of str to object that `Domain` accepts
            Maps the name of each column to its categories. A pandas Series whose index contains the
            column names is also accepted.
        name : str
            The class to name in error messages.

        Returns
        -------
        RecordDomain
            The domains.

        Raises
        ------
        ValueError
            If `domains` is not such a mapping, or the categories of a column are not valid.
        """
        if isinstance(domains, RecordDomain):
            return domains
        if isinstance(domains, str):
            raise ValueError(
                f"{name} has no columns yet, got domains={domains!r}. Declare the categories of "
                "each column in domains=, because clients and servers must share them before the "
                'first report. Only in simulations, fit with domains="auto" may learn them from '
                "the raw values."
            )
        if not hasattr(domains, "items") or not len(domains):
            raise ValueError(
                f"{name} needs domains= to be a mapping from column names to categories, got "
                f"domains={domains!r}. Pass for example "
                "{'sex': ['F', 'M'], 'age': 10}."
            )
        columns = {}
        for column, categories in domains.items():
            subject = _subject(name, column)
            with _errors_about_domains():
                columns[column] = Domain.of(categories, subject)
            if columns[column].is_open:
                raise ValueError(
                    f"{subject} needs a list of categories, got {categories!r}. List the "
                    "categories of this column in domains=."
                )
        return cls(columns)

    @classmethod
    def of_values(
        cls, domains: Any, X: Values, name: str, learned: Callable[[Any, str], Domain] | None = None
    ) -> tuple[RecordDomain, str]:
        """Return the domain of a table. Learn the domains of the columns with the domain "auto".

        Parameters
        ----------
        domains : "auto", or as for `declared`
            The declared domains. The domain of a column is learned if `domains` or the entry for
            the column is "auto". A learned domain consists of the levels of the column if its dtype
            is categorical, and otherwise of the values that occur in it.
        X : data frame, or array-like of shape (n_samples, n_columns)
            The table. If it has no column names, the names are 0, 1, 2, ..
        name : str
            The class to name in error messages.
        learned : callable, default=None
            A function that learns the domain of a column. Its arguments are the column and the name
            for error messages. If None, `Domain.learned` is used.

        Returns
        -------
        (RecordDomain, str)
            The domain of the table, with the declared columns first; and a text for a warning,
            which names the columns whose domains were learned from values. The text is empty if
            there is no such column.

        Raises
        ------
        ValueError
            If the domain of a column must be learned, and the column has fewer than two different
            values.
        """
        specified = dict(domains.items()) if hasattr(domains, "items") else {}
        autos = [key for key, domain in specified.items() if _is_auto(domain)]
        if not (autos or _is_auto(domains)):
            return cls.declared(domains, name), ""
        X = read_once(X)
        columns: list = table_columns(X) or array_columns(X, name)
        names = column_names(X) or list(specified or range(len(columns)))
        column_by_name = dict(zip(names, columns, strict=False))
        lacking = [key for key in autos if key not in column_by_name]
        if lacking:
            _refuse_lacking(lacking, names, name)
        declared = {key: domain for key, domain in specified.items() if key not in autos}
        result: dict[Any, Any] = dict.fromkeys(specified or names)
        result |= cls.declared(declared, name).columns if declared else {}
        others = [key for key in result if key not in declared]
        with _errors_about_domains():
            for key in others:
                result[key] = (learned or Domain.learned)(column_by_name[key], _subject(name, key))
        by_value = [key for key in others if declared_levels(column_by_name[key]) is None]
        return cls(result), f"the domain of columns {_listed(by_value)}" if by_value else ""

    # -- properties ---------------------------------------------------------------------------
    @property
    def sizes(self) -> tuple[int, ...]:
        """Return the number of categories of each column."""
        return tuple(domain.size for domain in self.columns.values())

    @property
    def names(self) -> np.ndarray:
        """Return the names of all categories of all columns, of shape (size,).

        A name has the form "column_category".
        """
        names = (f"{key}_{name}" for key, domain in self.columns.items() for name in domain.names)
        return np.array(list(names), dtype=object)

    def joint(self, columns: Sequence[int]) -> Domain:
        """Return the domain of all combinations of categories of some columns.

        Parameters
        ----------
        columns : sequence of int
            Positions of the columns.

        Returns
        -------
        Domain
            If there is one column, its domain. Otherwise a domain whose categories are tuples in C
            order, in which the last column varies fastest.
        """
        domains = list(self.columns.values())
        if len(columns) == 1:
            return domains[columns[0]]
        factors = [factor for j in columns for factor in domains[j]._factors]
        return Domain._from_factors(factors, "RecordDomain")

    @property
    def digest(self) -> str:
        """Return the SHA-256 hash of the column names and their categories, as hexadecimal digits.

        It is the same on every machine.
        """
        sha = hashlib.sha256(b"sklearn_ldp columns 1\n")
        for key, domain in self.columns.items():
            text = str(key).encode()
            sha.update(b"%d:%s%s" % (len(text), text, domain.digest.encode()))
        return sha.hexdigest()

    @property
    def _key(self) -> tuple[tuple[Any, Domain], ...]:
        return tuple(self.columns.items())

    def __repr__(self) -> str:
        return f"RecordDomain({self.columns!r})"

    # -- to codes -----------------------------------------------------------------------------
    def _columns_of(self, X: Values, name: str) -> list[np.ndarray]:
        X = read_once(X)
        names = column_names(X)
        if names is None:
            columns = array_columns(X, name)
            if len(columns) != len(self.columns):
                raise ValueError(
                    f"X has {len(columns)} features, but {name} is expecting {len(self.columns)} "
                    f"features as input: the columns {_listed(self.columns)}, in this order. Pass "
                    "only these columns, or select them with a ColumnTransformer."
                )
            return columns
        missing = [key for key in self.columns if key not in names]
        extra = [key for key in names if key not in self.columns]
        repeated = [key for key in self.columns if names.count(key) > 1]
        if missing:
            _refuse_lacking(missing, names, name)
        if extra or repeated:
            remedy = (
                f"Pass only the columns of the domains, as in X[{list(self.columns)!r}], or select "
                "them with a ColumnTransformer."
            )
            if extra:
                remedy = f"{remedy[:-1]}, or declare the other columns in domains=."
                problem = f"the column {extra[0]!r}, which has no domain"
                problem_on_client = "a column without a domain"
            else:
                problem = problem_on_client = f"the column {repeated[0]!r} twice"
            raise UnknownValueError(
                f"{name} got {problem}. {remedy}", f"{name} got {problem_on_client}. {remedy}"
            )
        columns = as_columns(X, name)
        return [columns[names.index(key)] for key in self.columns]

    def _encode_columns(self, columns: list[np.ndarray], name: str) -> np.ndarray:
        codes = []
        with _errors_about_domains():
            for (key, domain), column in zip(self.columns.items(), columns, strict=True):
                codes.append(domain._encode_columns([column], _subject(name, key)))
        return np.column_stack(codes)

    def _n_clipped(self, columns: list[np.ndarray]) -> int | None:
        pairs = zip(self.columns.values(), columns, strict=True)
        clipped = [domain._n_clipped([column]) for domain, column in pairs]
        return None if set(clipped) == {None} else sum(n or 0 for n in clipped)

    def _check_raw_values(self, columns: list[np.ndarray], name: str) -> None:
        for domain, column in zip(self.columns.values(), columns, strict=True):
            domain._check_raw_values([column], name)


def array_columns(X: Any, name: str) -> list[np.ndarray]:
    """Return the columns of an array; raise ValueError unless it has two dimensions.

    Shapes: X (n_samples, n_columns) -> (n_samples,) for each column.
    """
    columns = as_columns(X, name)
    is_list: Any = isinstance(X, (list, tuple))
    if not (np.ndim(X[0]) if is_list else np.asarray(X).ndim == 2):
        raise ValueError(
            f"{name} expects a data frame, or an array of shape (n_samples, n_columns), got a "
            f"single column of {len(columns[0])} values. Reshape your data to one row per user "
            'and one column per question, such as frame[["age", "sex"]]; for one question use an '
            "oracle such as OUE."
        )
    return columns


def _is_auto(domain: Any) -> bool:
    return isinstance(domain, str) and domain == "auto"


def _refuse_lacking(missing: list, names: list, name: str) -> NoReturn:
    problem = f"{name} has a domain for the column {missing[0]!r}, but X has no such column"
    remedy = "Pass a table with one column for each domain."
    # Errors of clients do not show the names. If a table was read without a header, these are the
    # values of the first user.
    raise UnknownValueError(f"{problem}, only {_listed(names)}. {remedy}", f"{problem}. {remedy}")


@contextmanager
def _errors_about_domains() -> Iterator[None]:
    """In error messages of the `with` block, replace `categories=` by `domains=`."""
    try:
        yield
    except ValueError as error:
        texts = (str(text).replace("categories=", "domains=") for text in error.args)
        raise type(error)(*texts) from None


def _subject(name: str, column: Any) -> str:
    return f"{name}, in the column {column!r},"


def _listed(names: Any) -> str:
    listed = [repr(name) for name in names]
    return ", ".join(listed if len(listed) <= 10 else [*listed[:9], "..."])
