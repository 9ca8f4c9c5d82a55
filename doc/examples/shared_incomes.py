"""The rows of three examples.

Three examples learn to predict an income above 50,000 dollars a year. They import this module, so
save it in the same folder. It reads Adult, rows of the US census of 1994, if its two files are in
``shared/data`` next to the repository. Otherwise it makes synthetic rows with the same columns,
which contain no information about people.
"""

from pathlib import Path

import numpy as np
import pandas as pd

FOLDER = Path(__file__).resolve().parent / "../../../shared/data"
NUMBERS = ["age", "education_num", "capital_gain", "hours_per_week"]
WORDS = ["marital_status", "occupation", "sex"]
CLASSES = ["<=50K", ">50K"]


def load_incomes():
    """Return the features and the labels of the training rows and of the test rows, and a name.

    Returns
    -------
    X_train, y_train, X_test, y_test : data frames and Series
        The features are the columns of `NUMBERS` and `WORDS`; the labels are `CLASSES`.
    name : str
        The name of the data.
    """
    files = [FOLDER / f"ADULT_{part}.csv.gz" for part in ("TRAIN", "TEST")]
    if all(file.exists() for file in files):
        parts = [pd.read_csv(file, keep_default_na=False) for file in files]
        name = "Adult census income"
    else:
        rows = synthetic_rows(48_000, np.random.default_rng(0))
        parts = [rows[:32_000], rows[32_000:]]
        name = "synthetic data like Adult"
    split = []
    for part in parts:
        words = {word: part[word].astype(str) for word in WORDS}
        split += [
            part[NUMBERS].astype(float).assign(**words),
            part["income"].astype(str),
        ]
    return (*split, name)


def synthetic_rows(n, rng):
    """Return rows like those of Adult, drawn from a few formulas."""
    age = np.clip(17 + rng.gamma(2.6, 8.5, n), 17, 90).astype(int)
    school = np.clip(np.round(rng.normal(10, 2.6, n)), 1, 16).astype(int)
    man = rng.random(n) < 0.67
    married = rng.random(n) < (0.15 + 0.5 * man) * (1 - np.exp(-(age - 16) / 9))
    was_married = rng.random(n) < np.clip((age - 22) / 50, 0, 0.7)
    office = rng.random(n) < 1 / (1 + np.exp(-(school - 11.5)))
    jobs = {
        True: ["Exec-managerial", "Prof-specialty", "Tech-support"],
        False: [
            "Craft-repair",
            "Sales",
            "Adm-clerical",
            "Other-service",
            "Machine-op-inspct",
        ],
    }
    hours = np.clip(
        np.round(rng.normal(38 + 3 * man + 3 * office, 10, n)), 1, 99
    ).astype(int)
    score = (
        -3.9
        + 2.0 * married
        + 0.3 * (school - 10)
        + 0.9 * office
        + 0.035 * (hours - 40)
        + 0.9 * np.sin(np.clip((age - 20) / 35, 0, 1) * np.pi / 2)
    )
    gains = rng.random(n) < 0.02 + 0.1 / (1 + np.exp(-score))
    income = rng.random(n) < 1 / (1 + np.exp(-(score + 3.0 * gains)))
    single = np.where(was_married, "Divorced", "Never-married")
    return pd.DataFrame(
        {
            "age": age,
            "education_num": school,
            "marital_status": np.where(married, "Married-civ-spouse", single),
            "occupation": np.where(
                office, rng.choice(jobs[True], n), rng.choice(jobs[False], n)
            ),
            "sex": np.where(man, "Male", "Female"),
            "capital_gain": np.where(gains, np.round(rng.lognormal(8.9, 0.6, n)), 0),
            "hours_per_week": hours,
            "income": np.where(income, ">50K", "<=50K"),
        }
    )
