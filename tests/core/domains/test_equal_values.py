"""Which values equal which categories: every type of a category with every type of a column.

What a type means is told once; two of them are equal if and only if they mean the same.
"""

import datetime as dt
import enum
from functools import partial
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from sklearn_ldp import GRR
from sklearn_ldp._core.domains import Domain

pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")

DAYS = [dt.date(2024, 1, 1), dt.date(2024, 3, 31)]
NAIVE = [dt.datetime(day.year, day.month, day.day) for day in DAYS]
AWARE = [instant.replace(tzinfo=dt.UTC) for instant in NAIVE]
SPANS = [dt.timedelta(1), dt.timedelta(seconds=90)]
SECONDS = [1704067200, 1711843200]


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


Again = enum.Enum("Colour", "RED BLUE")  # as a notebook's cell that has run twice makes it


class Level(enum.IntEnum):
    LOW = 0
    HIGH = 1


def _arrow(values, kind=None):
    return pa.chunked_array([pa.array(values, kind)])


def _types():
    """Yield what two values mean, the name of their type, and a column of them."""
    for meaning, values in {
        "day": DAYS,
        "instant": NAIVE,
        "instant of a zone": AWARE,
        "span": SPANS,
        "time of day": [dt.time(1), dt.time(23, 59)],
        "enum": [Colour.RED, Colour.BLUE],
        "bytes": [b"a", b"b\0"],
        "text": ["a", "b\0"],
        "one and nought": [False, True],
        "seconds": SECONDS,
        "fractions": [0.1, -0.5],
    }.items():
        yield meaning, f"list of {meaning}", values
        yield meaning, f"objects of {meaning}", np.array([*values, None], dtype=object)[:2]
        if meaning != "enum":
            yield meaning, f"Arrow {meaning}", _arrow(values)
            yield meaning, f"polars {meaning}", pl.Series(values)
        yield meaning, f"pandas {meaning}", pd.Series(values)
        levels = pd.CategoricalDtype(values)
        yield meaning, f"Categorical {meaning}", pd.Series(values, dtype=levels)
    for unit in ("s", "ms", "us", "ns"):
        yield "instant", f"M8[{unit}]", np.array(NAIVE, dtype=f"M8[{unit}]")
        yield "span", f"m8[{unit}]", np.array(SPANS, dtype="m8[s]").astype(f"m8[{unit}]")
        yield "instant", f"pandas [{unit}]", pd.Series(NAIVE).astype(f"datetime64[{unit}]")
        yield "span", f"pandas m8[{unit}]", pd.Series(SPANS).astype(f"timedelta64[{unit}]")
        yield "instant", f"Arrow [{unit}]", _arrow(NAIVE, pa.timestamp(unit))
        yield "span", f"Arrow m8[{unit}]", _arrow(SPANS, pa.duration(unit))
        yield "instant of a zone", f"Arrow UTC [{unit}]", _arrow(AWARE, pa.timestamp(unit, "UTC"))
        if unit != "s":
            yield "instant", f"polars [{unit}]", pl.Series(NAIVE).cast(pl.Datetime(unit))
            yield "span", f"polars m8[{unit}]", pl.Series(SPANS).cast(pl.Duration(unit))
            zoned = pl.Series(NAIVE).cast(pl.Datetime(unit)).dt.replace_time_zone("UTC")
            yield "instant of a zone", f"polars UTC [{unit}]", zoned
    berlin = [instant.astimezone(ZoneInfo("Europe/Berlin")) for instant in AWARE]
    yield "instant of a zone", "list of Berlin", berlin
    yield "instant of a zone", "pandas Berlin", pd.Series(AWARE).dt.tz_convert("Europe/Berlin")
    yield "instant of a zone", "Arrow Berlin", _arrow(AWARE, pa.timestamp("us", "Europe/Berlin"))
    yield "instant", "Timestamps", [pd.Timestamp(instant) for instant in NAIVE]
    yield "span", "Timedeltas", [pd.Timedelta(span) for span in SPANS]
    yield "day", "M8[D]", np.array(DAYS, dtype="M8[D]")
    yield "enum", "enum made again", list(Again)
    yield "one and nought", "int8", np.array([0, 1], dtype=np.int8)
    yield "one and nought", "uint64", np.array([0, 1], dtype=np.uint64)
    yield "one and nought", "float32", np.array([0, 1], dtype=np.float32)
    yield "one and nought", "-0.0", np.array([-0.0, 1.0])
    yield "one and nought", "IntEnum", list(Level)
    yield "seconds", "float64", np.array(SECONDS, dtype=float)
    yield "nanoseconds", "int64", np.array(SECONDS) * 10**9
    yield "odd nanoseconds", "M8[ns] odd", np.array(SECONDS, dtype="M8[s]").astype("M8[ns]") + 1
    yield "odd nanoseconds", "Timestamps odd", [pd.Timestamp(s * 10**9 + 1) for s in SECONDS]
    yield "single precision", "float32 fractions", np.array([0.1, -0.3], dtype=np.float32)


def _thrice(column):
    """A column of more rows than categories, which a table of these encodes."""
    if isinstance(column, list):
        return column * 3
    if isinstance(column, np.ndarray):
        return np.concatenate([column] * 3)
    if isinstance(column, pa.ChunkedArray):
        return pa.chunked_array(column.chunks * 3)
    return (pl if isinstance(column, pl.Series) else pd).concat([column] * 3)


TYPES = list(_types())
SAME = {"day": "instant"}  # as a day is its first instant, in a column of either type


@pytest.mark.parametrize("is_whole", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_values_equal_the_categories_that_mean_the_same(is_whole):
    """The quick test has a single type of those categories that mean something else."""
    wrong, domains = [], [(SAME.get(means, means), name, Domain(x)) for means, name, x in TYPES]
    firsts = {means: name for means, name, _ in reversed(domains)}
    for meaning, name, column in TYPES:
        longer, meant = _thrice(column), SAME.get(meaning, meaning)
        for other, of, domain in domains:
            if not is_whole and other != meant and of != firsts[other]:
                continue
            for n_times, rows in ((1, column), (3, longer)):
                try:
                    found = domain.encode(rows, "GRR").tolist()
                except ValueError as error:
                    found = None if "unknown category" in str(error) else error
                if found != ([0, 1] * n_times if meant == other else None):
                    wrong.append(f"{name}, {n_times} times, among {of}: {found}")
    assert not wrong
    assert len(TYPES) > 80


def test_equal_categories_have_one_digest():
    """Clients and servers agree, whatever library each of them takes; but days are days."""
    digests = {}
    for meaning, _, column in TYPES:
        digests.setdefault(meaning, set()).add(Domain(column).digest)
    assert {len(found) for found in digests.values()} == {1}
    assert len(set.union(*digests.values())) == len(digests)


@pytest.mark.parametrize("year", [1, 9999, 12000])
def test_instants_beyond_the_calendar_are_no_integers(year):
    ends = np.array([f"{year:04}-01-01", f"{year:04}-01-02"], dtype="M8[s]")
    assert Domain(ends).encode(ends, "GRR").tolist() == [0, 1]
    with pytest.raises(ValueError, match="unknown category"):
        Domain([int(ends[0].astype(int)), 5]).encode(ends[:1], "GRR")


def test_missing_instants_are_missing():
    column = pd.Series([pd.NaT, *NAIVE]).astype("datetime64[ns]")
    assert Domain([*NAIVE, None]).encode(column, "GRR").tolist() == [2, 0, 1]
    with pytest.raises(ValueError, match="missing value"):
        Domain(NAIVE).encode(column, "GRR")


def test_an_error_names_the_types_of_floats():
    fit = partial(GRR(1.0, categories=[0.1, 0.2]).fit, np.array([0.1, 0.2], dtype=np.float32))
    with pytest.raises(ValueError, match=r"X is float32, the categories are float64; give both"):
        fit()
    with pytest.raises(ValueError, match=r"category 0.3; its") as caught:
        GRR(1.0, categories=[0.1, 0.2]).fit([0.3])
    assert "float" not in str(caught.value)
