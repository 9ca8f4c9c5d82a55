"""Types of public parameters, for type checkers and editors; the package needs none at run time.

A type must accept all arguments that the code accepts, because false errors in an editor are worse
than missing errors. So users' values have the type ``Any``. Containers are defined by their
methods, because pandas, polars and pyarrow are optional. If a parameter accepts several types, the
attribute that stores it has the type ``Any``, because a user who passed a list may use its length.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from typing import Protocol, SupportsFloat, TypeAlias

    import numpy as np
    from matplotlib.axes import Axes as Axes
    from numpy.typing import ArrayLike
    from pandas import DataFrame as DataFrame
    from pandas import Series as Series
    from polars import DataFrame as PolarsDataFrame

    class SupportsArray(Protocol):
        """An ndarray, or a column or table of pandas, polars or Arrow."""

        def __array__(self) -> np.ndarray[Any, Any]: ...

    class SupportsToNumpy(Protocol):
        """A column of pandas that hides `__array__`, such as the result of ``Series.unique``."""

        def to_numpy(self) -> Any: ...

    class SupportsArrowStream(Protocol):
        """A table of Arrow columns that may be read only once, such as a DuckDB relation."""

        def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...

    class SupportsCategories(Protocol):
        """A dtype that lists its categories: pandas' CategoricalDtype, polars' Enum."""

        @property
        def categories(self) -> Any: ...

    class SparseMatrix(Protocol):
        """A sparse array or matrix of SciPy."""

        def tocsr(self) -> Any: ...

    class Distribution(Protocol):
        """A frozen distribution of `scipy.stats`."""

        def cdf(self, x: Any, /) -> Any: ...
        def support(self) -> Any: ...

    class SupportsRead(Protocol):
        """A binary file to read."""

        def read(self) -> Any: ...

    class SupportsWrite(Protocol):
        """A binary file to write."""

        def write(self, data: Any, /) -> Any: ...

    class Table(Protocol):
        """A table whose columns are read by name: an ErrorStudy, a data frame, a dict of arrays."""

        def __getitem__(self, name: str, /) -> Any: ...

    #: One item per row. The items may be of any type: None, dates and tuples are categories, too.
    Column: TypeAlias = Sequence[Any] | SupportsArray | SupportsToNumpy
    #: Rows of an estimate.
    Rows: TypeAlias = (
        int | np.integer[Any] | slice | Sequence[int] | SupportsArray | SupportsToNumpy
    )
    #: Users' values (or reports) in one or several columns; sets of items also in a sparse matrix.
    Values: TypeAlias = Column | SupportsArrowStream | SparseMatrix
    #: One number per category, in their order or by category.
    Frequencies: TypeAlias = ArrayLike | Mapping[Any, SupportsFloat]
    Matrix: TypeAlias = SparseMatrix | ArrayLike
    Metric: TypeAlias = str | Callable[[np.ndarray, np.ndarray], Any]
    #: A file of reports: to read (also its content), and to write.
    ReportSource: TypeAlias = str | Path | bytes | bytearray | memoryview | SupportsRead
    ReportSink: TypeAlias = str | Path | SupportsWrite
    FilePath: TypeAlias = str | os.PathLike[str]
else:
    # The names exist, so that `typing.get_type_hints` can read the signatures.
    Axes = DataFrame = PolarsDataFrame = Series = Any
    SupportsArray = SupportsToNumpy = SupportsArrowStream = SupportsCategories = SparseMatrix = Any
    Distribution = Table = SupportsRead = SupportsWrite = ReportSource = ReportSink = Any
    Column = Rows = Values = Frequencies = Matrix = Any
    Metric = FilePath = Any
