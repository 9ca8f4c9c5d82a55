"""The public domains of several columns that are asked about one by one."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np

from ..support.typing import Values
from ._domain import Domain, UnlistedDomain
from ._lists import UnknownValueError
from .values import as_columns, column_names, declared_levels, read_once, table_columns


class RecordDomain(UnlistedDomain, tag="record-domain"):
    """The domains of several columns, by name.

    The code of a user is a row with one code per column. Unlike the product of the columns'
    domains, it lists no combination of categories.

    Parameters
    ----------
    domains : mapping of str to Domain
        The domain of each column, in their order.

    Attributes
    ----------
    columns : dict of str to Domain
        The domain of each column.
    size : int
        Number of categories in all columns together.
    """

    columns: dict[Any, Domain]
    _why = "Several columns have no common list of categories: ask each of them."

    def __init__(self, domains: Mapping[Any, Domain]) -> None:
        self.columns = dict(domains)
        self.size: int = sum(self.sizes)

    @classmethod
    def declared(cls, domains: Any, name: str) -> RecordDomain:
        """Return the domains that a `domains` parameter stands for.

        Parameters
        ----------
        domains : mapping of str to anything that Domain takes
            The categories of each column; a pandas Series by column name will do.
        name : str
            The class to name in errors.

        Returns
        -------
        RecordDomain
            The domains.

        Raises
        ------
        ValueError
            If it is no such mapping, or one of the domains is not valid.
        """
        if isinstance(domains, RecordDomain):
            return domains
        if isinstance(domains, str):
            raise ValueError(
                f"{name} does not know its columns yet: declare the categories of each in "
                "domains=, since clients and servers must share them before any report is made "
                '(domains="auto" learns them from the raw values in fit, which is for simulations).'
            )
        if not hasattr(domains, "items") or not len(domains):
            raise ValueError(
                f"{name} needs domains= to be a mapping from the names of its columns to their "
                f"categories, such as {{'sex': ['F', 'M'], 'age': 10}}, got {domains!r}."
            )
        of_columns = {}
        for column, categories in domains.items():
            where = _where(name, column)
            with _saying_domains():
                of_columns[column] = Domain.of(categories, where)
            if of_columns[column].is_open:
                raise ValueError(f"{where} needs a list of categories, got {categories!r}.")
        return cls(of_columns)

    @classmethod
    def of_values(
        cls, domains: Any, X: Values, name: str, learned: Callable[[Any, str], Domain] | None = None
    ) -> tuple[RecordDomain, str]:
        """Return the domains of a table's columns, of which some or all are learned.

        Parameters
        ----------
        domains : "auto", or as for `declared`
            The declared domains. A column with "auto" is learned, as is a column of a data frame
            that a mapping leaves out: its domain has the levels that it declares, or its values.
        X : data frame, or array-like of shape (n_samples, n_columns)
            The table; without names, its columns are numbered.
        name : str
            The class to name in errors.
        learned : callable, default=None
            Makes the domain of a column, from its values and what errors call it; None is
            `Domain.learned`.

        Returns
        -------
        (RecordDomain, str)
            The domains, declared ones first, and what a warning calls the domains that are learned
            from values, because their columns declare no levels; "" if there are none.

        Raises
        ------
        ValueError
            If a column has fewer than two different values and declares no levels.
        """
        given = dict(domains.items()) if hasattr(domains, "items") else {}
        autos = [key for key, one in given.items() if _is_auto(one)]
        if not (given or _is_auto(domains)):
            return cls.declared(domains, name), ""
        X = read_once(X)
        names = column_names(X)
        new = [key for key in names or () if key not in given]
        if given and not (autos or new):
            return cls.declared(domains, name), ""
        columns: list = table_columns(X) or array_columns(X, name)
        names = names or list(given or range(len(columns)))
        found = dict(zip(names, columns, strict=False))
        lacking = [key for key in autos if key not in found]
        if lacking:
            _refuse_lacking(lacking, names, name)
        known = {key: one for key, one in given.items() if key not in autos}
        whole: dict[Any, Any] = dict.fromkeys([*given, *names])
        whole |= cls.declared(known, name).columns if known else {}
        others = [key for key in whole if key not in known]
        with _saying_domains():
            for key in others:
                whole[key] = (learned or Domain.learned)(found[key], _where(name, key))
        by_value = [key for key in others if declared_levels(found[key]) is None]
        return cls(whole), f"the domain of columns {_listed(by_value)}" if by_value else ""

    # -- what is in it ------------------------------------------------------------------------
    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of categories of each column."""
        return tuple(domain.size for domain in self.columns.values())

    @property
    def names(self) -> np.ndarray:
        """The columns and their categories as strings, of shape (size,)."""
        names = (f"{key}_{name}" for key, domain in self.columns.items() for name in domain.names)
        return np.array(list(names), dtype=object)

    def joint(self, columns: Sequence[int]) -> Domain:
        """Return the domain of the joint categories of some columns.

        Parameters
        ----------
        columns : sequence of int
            Positions of the columns.

        Returns
        -------
        Domain
            That of the column itself if there is only one; otherwise its categories are tuples in C
            order.
        """
        domains = list(self.columns.values())
        if len(columns) == 1:
            return domains[columns[0]]
        factors = [factor for j in columns for factor in domains[j]._factors]
        return Domain._of_factors(factors, "RecordDomain")

    @property
    def digest(self) -> str:
        """SHA-256 of the names of the columns and their categories, the same on every machine."""
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
    def columns_of(self, X: Values, name: str) -> list[np.ndarray]:
        X = read_once(X)
        names = column_names(X)
        if names is None:
            columns = array_columns(X, name)
            if len(columns) != len(self.columns):
                raise ValueError(
                    f"X has {len(columns)} features, but {name} is expecting {len(self.columns)} "
                    f"features as input: the columns {_listed(self.columns)}, in this order. Pass "
                    "these alone, or leave the others to a ColumnTransformer."
                )
            return columns
        missing = [key for key in self.columns if key not in names]
        extra = [key for key in names if key not in self.columns]
        twice = [key for key in self.columns if names.count(key) > 1]
        if missing:
            _refuse_lacking(missing, names, name)
        if extra or twice:
            remedy = (
                f"pass the columns of the domains alone, as in X[{list(self.columns)!r}], or leave "
                "the others to a ColumnTransformer."
            )
            texts = [f"the column {one!r} twice" for one in twice[:1] * 2]
            if extra:
                texts = [f"the column {extra[0]!r}, which has no domain", "a column of no domain"]
            raise UnknownValueError(*(f"{name} got {text}: {remedy}" for text in texts))
        columns = as_columns(X, name)
        return [columns[names.index(key)] for key in self.columns]

    def encode_columns(self, columns: list[np.ndarray], name: str) -> np.ndarray:
        rows = zip(self.columns, self.columns.values(), columns, strict=True)
        with _saying_domains():
            codes = [one.encode_columns([column], _where(name, key)) for key, one, column in rows]
        return np.column_stack(codes)

    def n_clipped(self, columns: list[np.ndarray]) -> int | None:
        pairs = zip(self.columns.values(), columns, strict=True)
        clipped = [domain.n_clipped([column]) for domain, column in pairs]
        return None if set(clipped) == {None} else sum(n or 0 for n in clipped)

    def warn_of_whole_numbers(self, columns: list[np.ndarray], name: str) -> None:
        for domain, column in zip(self.columns.values(), columns, strict=True):
            domain.warn_of_whole_numbers([column], name)


def array_columns(X: Any, name: str) -> list[np.ndarray]:
    """Return the columns of an array, which must have two dimensions.

    Shapes: X (n_samples, n_columns) -> (n_samples,).
    """
    columns = as_columns(X, name)
    is_list: Any = isinstance(X, (list, tuple))
    if not (np.ndim(X[0]) if is_list else np.asarray(X).ndim == 2):
        raise ValueError(
            f"{name} expects a data frame, or an array of shape (n_samples, n_columns), got a "
            f"single column of {len(columns[0])} values. Reshape your data to one row per user."
        )
    return columns


def _is_auto(domain: Any) -> bool:
    return isinstance(domain, str) and domain == "auto"


def _refuse_lacking(missing: list, names: list, name: str) -> NoReturn:
    what = f"{name} misses the column {missing[0]!r} of its domains in X"
    # A table that was read without a header has the first user's values in its place.
    raise UnknownValueError(f"{what}, which has the columns {_listed(names)}.", f"{what}.")


@contextmanager
def _saying_domains() -> Iterator[None]:
    """Name the parameter of a column's error as it is called where there are several columns."""
    try:
        yield
    except ValueError as error:
        texts = (str(text).replace("categories=", "domains=") for text in error.args)
        raise type(error)(*texts) from None


def _where(name: str, column: Any) -> str:
    return f"{name}, in the column {column!r},"


def _listed(names: Any) -> str:
    listed = [repr(name) for name in names]
    return ", ".join(listed if len(listed) <= 10 else [*listed[:9], "..."])
