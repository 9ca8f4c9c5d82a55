"""Reports of estimates: what they say is true, and the page is one that any browser shows."""

import json
import re
from functools import cache
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from sklearn_ldp import (
    GRR,
    OLH,
    OUE,
    ColumnOracle,
    Domain,
    EmpiricalBayes,
    EstimateSet,
    FrequencyEstimate,
    ItemOracle,
    LocalMean,
    MarginalOracle,
    MonotoneCDF,
    NoiseModel,
    NormSub,
    RangeOracle,
    Trend,
)
from sklearn_ldp.collection import Aggregator
from sklearn_ldp.inference import mean_by_answer, poststratify
from sklearn_ldp.inspection import EstimateReport
from sklearn_ldp.oracles import estimate_by_group
from sklearn_ldp.surveys import ResponseDesign

WORDS = ["red", "green", "blue"]


def colours(seed=0, epsilon=2.0):
    oracle = OLH(epsilon, categories=WORDS, random_state=seed)
    return oracle.fit_transform(["red"] * 3000 + ["green"] * 1500 + ["blue"] * 1400)


def said(estimate):
    return " ".join(estimate.describe()["may_be_said"])


def not_said(estimate):
    return " ".join(estimate.describe()["may_not_be_said"])


def test_numbers_are_those_of_the_tables():
    estimate = EmpiricalBayes().fit_transform(colours())
    found = estimate.describe(0.9, question="Which colour?")
    frame = estimate.to_frame(interval=0.9)
    for row, (_, expected) in zip(found["rows"], frame.iterrows(), strict=True):
        assert row == {name: expected[name] for name in row}
    assert found["interval"] == "90 % simultaneous, of raw"
    assert (found["epsilon"], found["oracle"], found["n_samples"]) == (2.0, "OLH", 5900)
    assert found["configuration"]["hash_range"] == 8
    assert found["noise_level"] == pytest.approx(float(estimate.noise.std))
    assert json.loads(json.dumps(found)) == found


def test_lines_make_the_estimate_again():
    oracle = OLH(1.0, categories=WORDS, hash_range=3)
    reports = oracle.privatize(["red"] * 900 + ["blue"] * 100)
    estimate = NormSub().fit_transform(oracle.aggregate(reports).estimate_)
    names, lines = {"categories": WORDS, "reports": reports}, estimate.describe()["made_by"]
    exec(lines.replace("estimate.report", "again = estimate.report"), names)
    assert names["again"].description == estimate.describe()


def test_lines_of_items_and_of_rows_run_or_are_not_shown():
    oracle = ItemOracle(2.0, categories=WORDS, max_items=2)
    reports = oracle.privatize([WORDS[:2], WORDS[1:]] * 500)
    estimate = EmpiricalBayes(simplex=False).fit_transform(oracle.aggregate(reports).estimate_)
    lines = estimate.describe()["made_by"]
    assert lines.startswith("# reports: what users sent; categories: all possible answers")
    names = {"categories": WORDS, "reports": reports}
    exec(lines.replace("estimate.report", "again = estimate.report"), names)
    assert names["again"].description == estimate.describe()
    assert "EmpiricalBayes().fit" in EmpiricalBayes().fit_transform(colours()).describe()["made_by"]
    for estimate in (Trend().fit_transform(weekly()), Trend().fit_transform(weekly())[0]):
        assert "Trend().fit" not in estimate.report().html
    assert "NormSub().fit" in NormSub().fit_transform(weekly()).report().html  # of each row


# ---- sentences -----------------------------------------------------------------------------------
def test_what_may_be_said():
    text = said(colours())
    assert "'red' is the most frequent (95 % confidence)" in text
    assert "Ranks 2 to 3 belong to 'green', 'blue', in any order" in text
    even = OLH(1.0, categories=WORDS, random_state=0).fit_transform(WORDS * 900)
    assert not re.search("Ranks|one of", said(even))  # it would be one of all, at any rank
    assert "All 3 categories have a share above 0" in text
    assert "One" not in text
    assert "The most frequent category is one of" in said(colours(epsilon=0.05))


def test_what_nobody_may_have_is_named():
    rare = OUE(2.0, categories=[f"{i}" for i in range(9)], random_state=0)
    for n, start in (
        (1, "unknown whether any user has '8', because its interval begins at 0"),
        (3, "whether any user has '6' or '7' or '8', because their intervals begin at 0"),
        (
            4,
            "any user has some of these 4 of the 9 categories: '5', '6', '7', '8', because",
        ),
    ):
        counts = np.r_[np.full(9 - n, 30_000), np.zeros(n, int)]
        assert start in not_said(rare.simulate(counts))


def test_names_of_several_columns_are_text():
    tuples = GRR(3.0, categories=[("F", "S"), ("M", "L")], random_state=0)
    found = tuples.fit_transform([("F", "S")] * 900).describe()
    text = " ".join([found["domain"], *found["may_be_said"], *found["may_not_be_said"]])
    assert text.count("'F, S'") == 2
    assert "whether any user has 'M, L'" in text
    assert "('" not in text


def test_the_printed_report_of_many_columns_is_short():
    domains = {f"c{i}": ["no", "yes"] for i in range(30)}
    oracle = ColumnOracle(3.0, domains=domains, random_state=0)
    tables = oracle.fit_transform(np.full((6000, 30), "no", dtype=object))
    assert len(tables.describe()["parts"]) == 30
    assert len(repr(tables.report()).splitlines()) == 21


def test_too_few_users_say_nothing():
    oracle = OLH(1.0, categories=WORDS, random_state=0)
    few, many = oracle.simulate([1, 1, 1]).report(), oracle.simulate([300, 300, 300]).report()
    assert few.html.index("There are too few users") < few.html.index("<dl>")
    assert "too few users for any statement" in repr(few)
    assert "too few" not in many.html + repr(many)  # negative control


@pytest.mark.parametrize(("epsilon", "is_explained"), [(18.0, True), (20.5, False)])
def test_an_epsilon_is_explained_unless_the_page_warns_of_it(epsilon, is_explained):
    estimate = GRR(epsilon, categories=WORDS, random_state=0).fit_transform(WORDS * 300)
    assert ("no answer makes a report more" in estimate.report().html) is is_explained
    assert ("do not protect users at epsilon" not in not_said(estimate)) is is_explained


def test_what_is_rounded_to_zero_has_no_sign():
    noise = NoiseModel(0.5, 0.2, 1000)
    html = FrequencyEstimate([[1.0001, -0.0001]], ["a", "b"], noise).report().html
    assert "<td>0</td>" in html
    assert "\N{MINUS SIGN}" not in html
    html = FrequencyEstimate([[1.01, -0.01]], ["a", "b"], noise).report().html
    assert "\N{MINUS SIGN}10 *" in html  # negative control


def heads(html):
    return re.findall(r"<th>(.*?)</th>", html)


def test_the_columns_are_named_and_explained_for_readers():
    """What the picture shows comes first; the interval stands beside what it is of."""
    interval = "interval (95 %)"
    raw, smoothed = colours().report().html, Trend().fit_transform(weekly())[0].report().html
    assert heads(raw) == ["category", "estimate", interval, "count"]
    processed = EmpiricalBayes().fit_transform(colours()).report().html
    assert heads(processed) == ["category", "share", "count", "raw", interval]
    assert heads(smoothed) == ["category", "share", interval, "count", "raw"]
    for head in ("share", "count", "raw", interval):
        assert processed.count(f"<p>{head}: ") == 1
    assert ["raw value)" in page for page in (raw, smoothed, processed)] == [False, False, True]
    assert "<h2>Share of users after EmpiricalBayes, and intervals (95 %, simultaneous" in processed
    assert "and intervals" not in kinds()["unknown"].report().html


def test_epsilon_and_the_noise_level_are_explained():
    html = colours(epsilon=1.0).report().html
    assert "<dd>1.0: no answer makes a report more than 2.72 times as likely" in html
    assert re.search(r"<dd>0\.\d+: the standard error of a share of 0 %</dd>", html)
    assert "a share of 0 %" not in kinds()["mean"].report().html
    assert "<dd>20.5</dd>" in colours(epsilon=20.5).report().html  # that is no protection


def test_reports_of_sets_tell_that_large_ones_are_cut():
    sets = ItemOracle(2.0, categories=WORDS, max_items=2, random_state=0)
    raw = sets.fit_transform([WORDS[:2], WORDS[1:]] * 900)
    change = raw - sets.fit_transform([WORDS[:1]] * 900)
    for estimate in (raw, EmpiricalBayes(simplex=False).fit_transform(raw), change):
        assert (
            "If some users have more than 2 items (max_items), the shares are too small"
            in not_said(estimate)
        )
    assert "max_items" not in not_said(colours())  # negative control


def claims_a_leader(frequencies, seed):
    oracle = GRR(1.0, categories=5, random_state=seed)
    return "is the most frequent (" in said(oracle.simulate(frequencies))


@pytest.mark.slow
def test_who_leads_is_said_wrongly_no_more_often_than_stated(seed):
    """All are equally frequent, which is the worst case: 5 % of 200; fails once in 10**5 runs.

    Negative control: if one does lead, nearly all collections say so.
    """
    runs = range(1000 * seed, 1000 * seed + 200)
    n_wrong = sum(claims_a_leader([400] * 5, run) for run in runs)
    assert n_wrong <= stats.binom.isf(1e-5, len(runs), 0.05)
    assert sum(claims_a_leader([1600, 100, 100, 100, 100], run) for run in runs) > 190


def test_what_may_not_be_said():
    oracle = GRR(30.0, random_state=0)
    estimate = NormSub().fit_transform(oracle.fit_transform(WORDS * 9))
    text = not_said(estimate)
    assert "The domain was learned from the users' values" in text
    assert "the oracle has a seed" in text
    assert "do not protect users at epsilon = 30" in text
    assert "NormSub computed them from the raw estimates" in text
    assert "the shown values lie inside or near the intervals" in text
    assert not_said(OUE(2.0, categories=["a", "b"]).fit_transform(["a", "b"] * 5000)) == ""
    weak = OUE(0.1, categories=WORDS, random_state=0).fit_transform(WORDS)
    assert "whether any user has any category" in not_said(weak)
    unknown = FrequencyEstimate([[0.5, 0.5]], ["a", "b"])
    assert unknown.describe()["may_be_said"] == []
    assert (
        "There are no intervals: No confidence interval is available without a noise"
        in not_said(unknown)
    )
    assert "low" not in unknown.describe()["rows"][0]
    lost = FrequencyEstimate([[1.0, 0.0]], ["a", "b"], NoiseModel(0.5, 0.2, 9), postprocessors="x")
    assert "There are no intervals" in not_said(lost)


def test_learned_domains_of_reports_and_of_declared_levels_are_not_blamed():
    """Negative control of the sentence on learned domains."""
    levels = pd.Series(["a", "b"] * 9, dtype=pd.CategoricalDtype(["a", "b"]))
    assert "learned" not in not_said(GRR(1.0).fit_transform(levels))
    oracle = GRR(1.0, categories=["a", "b"])
    server = Aggregator(oracle).add(oracle.privatize(["a"] * 99), "one")
    assert "That" not in not_said(server.estimate_)


def junk(seed, share):
    """Honest reports, and reports whose hash functions and values are uniform."""
    oracle = OLH(1.0, categories=20, random_state=seed)
    rng = np.random.default_rng(seed)
    honest = oracle.privatize(rng.integers(0, 5, int(10_000 * (1 - share))))
    highest = [field.n_values for field in oracle.protocol().mechanism.report_fields]
    fake = np.column_stack([rng.integers(0, n, int(10_000 * share)) for n in highest])
    return oracle.aggregate(np.vstack([np.asarray(honest), fake])).estimate_


@pytest.mark.slow
def test_reports_that_are_not_honest_are_told(seed):
    """Half of the reports are uniform; of 40 honest collections one in 10,000 is taken for such."""
    told = r"Reports do not look honest: the raw shares add up to 0\.[3-7]"
    assert re.search(told, not_said(junk(seed, 0.5)))
    is_blamed = ["honest" in not_said(junk(1000 * seed + i, 0)) for i in range(40)]
    assert sum(is_blamed) <= 1
    targeted = GRR(1.0, categories=20).aggregate(np.zeros(1000, dtype=int)).estimate_
    assert "a raw share is 12" in not_said(targeted)
    values = NormSub().fit_transform(junk(seed, 0)).values.copy()
    values[0, :2] += [0.5, -0.5]
    shifted = junk(seed, 0).with_values(values, "Wrong")
    assert "2 of the 20 values lie outside of their intervals" in not_said(shifted)


# ---- kinds of estimates --------------------------------------------------------------------------
@cache
def kinds():
    bins = Domain.bins(64, bounds=(130, 210), clip=True)
    heights = np.random.default_rng(0).normal(170, 10, size=20_000)
    raw = RangeOracle(1.0, categories=bins, random_state=0).fit_transform(heights)
    users = np.column_stack([np.arange(4000) % 2, np.arange(4000) % 4])
    survey = ColumnOracle(2.0, domains={"smokes": 2, "visits": 4}, random_state=0)
    ages = OUE(1.0, categories=np.arange(100), random_state=0)
    regions = estimate_by_group(OLH(1.0, categories=WORDS, random_state=0), WORDS * 9, WORDS * 9)
    mean = LocalMean(1.0, bounds=(-9, 9), random_state=0)
    many = OLH(1.0, categories=[f"<b>{i}</b>" for i in range(2000)], random_state=0)
    return {
        "categories": NormSub().fit_transform(colours()),
        "bins": MonotoneCDF().fit_transform(raw),
        "numbers": ages.fit_transform(np.arange(100)),
        "set": survey.fit_transform(users),
        "difference": colours() - colours(1),
        "groups": regions,
        "mean": LocalMean(1.0, bounds=(0, 100), random_state=0).fit([20, 80] * 500),
        "means": estimate_by_group(mean, [1, 2] * 99, [0, 1] * 99),
        "many": many.fit_transform(["<b>1</b>"] * 99),
        "unknown": FrequencyEstimate([[0.7, 0.4, -0.1]], ["a", None, ("x", "y")]),
        "nobody": EstimateSet({"a": FrequencyEstimate(np.empty((0, 2)), ["x", "y"])}),
    }


class Parser(HTMLParser):
    """Collect tags and attributes, and whether tags are closed in their order."""

    def __init__(self):
        super().__init__()
        self.open, self.seen = [], []

    def handle_starttag(self, tag, attributes):
        self.seen.append((tag, dict(attributes)))
        if tag not in ("meta", "rect", "line"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.seen.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.mark.parametrize("kind", list(kinds()))
def test_pages_are_whole_and_load_nothing(kind, tmp_path):
    estimate = kinds()[kind]
    report = estimate.report(question="Really? <i>")
    assert isinstance(report, EstimateReport)
    report.save(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    parser = Parser()
    parser.feed(page)
    assert parser.open == []
    tags = {tag for tag, _ in parser.seen}
    assert not tags & {"script", "link", "img", "iframe", "object", "i", "b"}
    assert not {"style", "src", "href", "onclick"} & {name for _, a in parser.seen for name in a}
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")
    assert "Really? &lt;i&gt;" in page
    for svg in re.findall(r"<svg.*?</svg>", report.html, flags=re.DOTALL):
        ElementTree.fromstring(svg)
        assert "nan" not in svg
    assert report.html in report._repr_html_()
    assert repr(report).startswith("EstimateReport: Really? <i>")
    assert estimate.report().description == estimate.describe()


def test_what_ordered_domains_show():
    """Ranges of bins add up to all, and the quartiles are named; numbers keep their order."""
    found = kinds()["bins"].describe()
    assert sum(one[found["value"]] for one in found["ranges"]) == pytest.approx(1)
    assert (found["ranges"][0]["from"], found["ranges"][0]["to"]) == (130, 135)
    assert all(one["low"] <= one["high"] for one in found["ranges"])
    assert found["may_be_said"][1].startswith("The median is between 16")
    html = kinds()["numbers"].report().html
    assert html.count("<rect") == 100  # columns; of categories without an order, 30 bars
    assert kinds()["many"].report().html.count("<rect") == 30
    assert "The 30 largest of 2,000." in kinds()["many"].report().html


def test_means_and_differences():
    mean = LocalMean(2.0, bounds=(0, 100), random_state=0).fit([20, 80] * 5000)
    assert mean.report().description == mean.describe() == mean.estimate_.describe()
    (sentence,) = mean.describe(0.99999)["may_be_said"]
    low, high = map(float, re.findall(r"\d+\.\d+", sentence)[:2])
    assert low < 50 < high
    several = kinds()["means"].describe()
    # Both hold at once: each is longer than one of the level by itself.
    alone = kinds()["means"].confidence_interval(0.95)[0]
    assert all(row["low"] < x for row, x in zip(several["rows"], alone, strict=True))
    one = OUE(3.0, categories=WORDS, random_state=0).fit_transform(["red"] * 5000)
    change = one - OUE(3.0, categories=WORDS, random_state=1).fit_transform(["blue"] * 5000)
    assert "More frequent in the first estimate: 'red'" in said(change)
    assert "Less frequent in the first estimate: 'blue'" in said(change)
    assert "1 of 3 categories may not have changed" in not_said(change)
    assert [row["low"] for row in change.describe()["rows"]] == change.to_frame()["low"].tolist()
    one, other = (OUE(2.0, random_state=s).simulate([9, 5, 3], n_repeats=3) for s in (0, 1))
    assert len((one - other).describe()["parts"]) == 3


@pytest.mark.parametrize("kind", ["categories", "set", "difference", "groups", "mean"])
def test_a_wrong_level_is_refused(kind):
    with pytest.raises(ValueError, match="must satisfy 0.5 <= level < 1, got 95"):
        kinds()[kind].report(95)


def test_a_wrong_level_of_several_means_is_refused():
    """The level of each mean would be the square root of 0.3, which is valid."""
    oracle = LocalMean(2.0, bounds=(0, 1), random_state=0)
    means = estimate_by_group(oracle, [0.2, 0.4] * 50, ["a", "b"] * 50)
    with pytest.raises(ValueError, match=r"level.* got 0\.3\."):
        means.describe(0.3)


def test_money_is_drawn_on_a_logarithmic_axis():
    """Equal bins of the scale make columns of one width, with numbers as people write them."""
    bins = Domain.bins(16, bounds=(100, 1_000_000), scale="log")
    report = OUE(3.0, categories=bins, random_state=0).simulate(np.full(16, 500)).report()
    found = re.findall(r'<rect x="[^"]*" y="[^"]*" width="([\d.]+)%"', report.html)
    widths = [float(one) for one in found]
    assert len(widths) == 16
    assert max(widths) < 1.05 * min(widths)
    for ten in ("100", "1,000", "10,000", "100,000", "1,000,000"):
        assert f">{ten}</text>" in report.html
    bins = Domain.bins(32, bounds=(1, 100_000), scale="log")
    html = OUE(3.0, categories=bins, random_state=0).simulate(np.full(32, 500)).report().html
    shown = [one in html for one in (">1</text>", ">10</text>", ">100</text>")]
    assert shown == [True, False, True]
    assert "16 ranges of the 32 bins." in html


def test_shares_that_cannot_be_are_marked_and_their_intervals_end_there():
    """The description has the estimate as it is; what is drawn and printed begins at 0."""
    raw = OLH(0.5, categories=12, random_state=0).simulate(np.r_[3000, 3000, np.zeros(10, int)])
    report, n_below = raw.report(), int(np.sum(raw.values < 0))
    assert n_below > 2
    assert min(row["low"] for row in report.description["rows"]) == 0
    assert report.html.count("stroke-dasharray") == n_below
    assert "lie outside of their intervals" not in report.html  # which would blame somebody
    assert report.html.count(" *</td>") == 2 * n_below  # the share and the count
    assert report.html.count("* below 0 % because of noise") == 2  # under the picture and the table
    intervals = re.findall(r"<td>(\S+) to (\S+) %</td>", report.html)
    assert len(intervals) == 12
    assert min(float(low) for low, _ in intervals) == 0  # a minus sign is no number
    assert max(float(high) for _, high in intervals) <= 100
    picture, _, table = NormSub().fit_transform(raw).report().html.partition("<h2>Table</h2>")
    assert "possible" not in picture
    assert table.count(" *</td>") == n_below  # the raw estimates beside it
    assert repr(kinds()["nobody"].report()).startswith("EstimateReport: EstimateSet")


def test_rows_of_a_page_are_sorted_by_frequency_and_by_the_size_of_a_change():
    noise = NoiseModel(p=0.5, q=0.25, n_samples=10_000)
    estimate = FrequencyEstimate([[-0.4, 0.9, 0.3]], WORDS, noise)
    other = FrequencyEstimate([[0.6, 0.8, 0.1]], WORDS, noise)

    def shown(page):
        return list(dict.fromkeys(re.findall("red|green|blue", page.split("<table", 1)[1])))

    assert shown(estimate.report().html) == ["green", "blue", "red"]
    assert shown((estimate - other).report().html) == ["red", "blue", "green"]


def test_what_only_makers_need_is_folded():
    """Settings of the mechanism; a page without a question is not headed by a repr."""
    oracle = RangeOracle(2.0, categories=Domain.bins(8, bounds=(0, 8)), random_state=0)
    report = oracle.simulate(np.full(8, 500)).report()
    shown, _, folded = report.html.partition("<details>")
    assert "channel_sha256" not in shown
    assert "# channel_sha256 = " in folded
    assert repr(report).startswith("EstimateReport: Share of users: 8 bins from 0 to 8\n")
    assert "<h1>Share of users: smokes, visits</h1>" in kinds()["set"].report().html


# -- of whom, and whose intervals ------------------------------------------------------------------
def weekly(n_weeks=6, oracle=None):
    week = np.repeat(np.arange(n_weeks), 2001)
    oracle = oracle or OLH(2.0, categories=WORDS, random_state=0)
    return estimate_by_group(oracle, WORDS * (len(week) // 3), by=week)


def test_intervals_after_trend_are_its_own():
    trend = Trend().fit_transform(weekly())[0]
    found, raw = trend.describe(), trend.as_raw().describe()
    assert found["interval"] == "95 % simultaneous"
    widths = [row["high"] - row["low"] for row in found["rows"]]
    assert max(widths) < min(row["high"] - row["low"] for row in raw["rows"])
    text = " ".join(found["may_not_be_said"])
    assert "supported statements are about the raw values, not about the result of Trend" in text
    assert "Intervals and statements are about the raw" not in text
    assert "The intervals are simultaneous within each row, but not over all rows" in text
    after = NormSub().fit_transform(weekly())[0].describe()  # negative control
    assert after["interval"] == "95 % simultaneous, of raw"
    text = " ".join(after["may_not_be_said"])
    assert "Intervals and statements are about the raw" in text
    assert "over all rows" not in text


def test_a_weighted_estimate_tells_who_answered():
    """Whole numbers of users, no counts of nobody, and a design goes on to be of the population."""
    cells = weekly(2)
    found = poststratify(cells, {0: 0.9, 1: 0.1}).describe()
    assert found["n_samples"] == 4002
    assert found["of"] == "the users who reported, each group by its weight"
    assert "count" not in found["rows"][0]
    assert found["shown"] == "Share of the population, by weights"
    survey, parts = ColumnOracle(2.0, domains={"a": WORDS, "b": 2}, random_state=0), {}
    for n in (500, 900):  # of whom about half are asked for each column
        people = np.column_stack([WORDS * n, [0, 1, 1] * n]).astype(object)
        people[:, 1] = people[:, 1].astype(int)
        parts[f"{n}"] = survey.fit(people).estimate_["a"]
    asked = poststratify(FrequencyEstimate.from_rows(parts), {"500": 0.9, "900": 0.1})
    assert "count" not in asked.describe()["rows"][0]
    assert "a weighted mean" in asked.describe()["made_by"]
    even = poststratify(cells, {0: 0.5, 1: 0.5}).describe()  # negative control: nobody counts more
    assert "count" in even["rows"][0]
    assert "no one else" in even["of"]
    assert even["shown"] == "Share of users"
    design = ResponseDesign.crosswise(0.25).oracle()
    cells = estimate_by_group(design, [0, 0, 1] * 1000, by=[0] * 2000 + [1] * 1000)
    weighted = poststratify(cells, {0: 0.4, 1: 0.6})
    low, high = weighted.confidence_interval(0.95, of="population", simultaneous=True)
    row = weighted.describe()["rows"][0]
    assert (row["low"], row["high"]) == pytest.approx((low[0, 0], high[0, 0]))
    assert weighted.describe()["of"].startswith("the population, by weights: the users of each")
    assert "from which the users are a random sample" in cells[0].describe()["of"]
    assert "a weighted mean" in weighted.describe()["made_by"]


def test_a_part_of_a_survey_tells_whom_it_asked():
    frame = np.column_stack([WORDS * 1000, ["S", "M", "L"] * 1000])
    domains = {"colour": WORDS, "size": ["S", "M", "L"]}
    found = ColumnOracle(2.0, domains=domains, random_state=0).fit_transform(frame)
    part = found.describe()["parts"][0]
    n = found["colour"].noise.n_samples
    assert 1200 < n < 1800
    assert f"<dd>3,000; {n:,} of them were asked</dd>" in found.report().html
    assert "a survey" in part["made_by"]
    assert "GRR(" not in part["made_by"]
    assert "were asked" not in colours().report().html  # negative control
    tables = MarginalOracle(1.0, domains=domains, random_state=0).fit_transform(frame)
    assert "<td>red, S</td>" in tables.report().html
    assert tables.describe()["parts"][0]["name"] == "colour, size"
    three = MarginalOracle(2.0, domains=dict.fromkeys("abc", 2), random_state=0)
    table = three.fit_transform(np.arange(3000)[:, None] // [1, 2, 4] % 2)["a", "b"]
    assert (table.design_effect, "has a seed" in not_said(table)) == (1, True)  # of all views


@pytest.mark.parametrize(
    ("oracle", "line"),
    [
        (GRR(1.0, n_shards=1), "oracle = GRR(epsilon=1, categories=categories)"),
        (OLH(1.0, hash_family="mixing"), "OLH(epsilon=1, hash_family='mixing', categories="),
        (OLH(0.5, hash_range=2), "oracle = OLH(epsilon=0.5, hash_range=2, categories=categories)"),
        (ResponseDesign.crosswise(0.25).oracle(), "oracle = ...  # the DesignOracle"),
    ],
)
def test_the_lines_that_make_it_again_name_the_budget(oracle, line):
    oracle = oracle.set_params(categories=["no", "yes"])
    known = oracle.set_params(input="values", random_state=0).fit(["no", "yes"] * 50)
    assert line in known.estimate_.describe()["made_by"]


def test_rows_have_a_picture_of_their_course():
    """The largest categories over the rows; parts of a set are of different questions."""
    rows = weekly(4)
    found = rows.report().html
    assert (
        "Share of users, row by row, and intervals (95 %, simultaneous in each row, valid" in found
    )
    start = found.partition("<h1>0</h1>")[0]  # before the page of the first row
    assert start.count("<svg") == len(WORDS)
    assert start.count("<rect") == 4 * len(WORDS)
    assert "row by row" not in EstimateSet({"a": rows[0], "b": rows[1]}).report().html


def axis_of(html):
    """The labels below the bars and their places, in percent of the width."""
    svg = ElementTree.fromstring(re.search(r"<svg.*?</svg>", html, flags=re.DOTALL)[0])
    tag = "{http://www.w3.org/2000/svg}"
    height = float(svg.get("height"))
    texts = [text for text in svg.iter(f"{tag}text") if float(text.get("y")) > height - 20]
    return {text.text: float(text.get("x").removesuffix("%")) for text in texts}


def test_bars_have_an_axis():
    """A bar of the length of x percent ends at x on the axis, also if some numbers are negative."""
    values = [[0.5, 0.4, 0.1]]
    axis = axis_of(FrequencyEstimate(values, WORDS).report().html)
    assert axis == {"0.0 %": 0, "50.0 %": 100}
    values = [[0.6, 0.6, -0.2]]
    axis = axis_of(FrequencyEstimate(values, WORDS).report().html)
    assert axis == pytest.approx(
        {"-20.0 %".replace("-", "\N{MINUS SIGN}"): 0, "0.0 %": 25, "60.0 %": 100}
    )
    axis = axis_of(FrequencyEstimate([[0.7, 0.31, -0.01]], WORDS).report().html)
    assert list(axis) == ["0.0 %", "70.0 %"]  # the label of -1 % would cover the label of 0
    mean = LocalMean(2.0, bounds=(10, 30)).fit_transform(np.full(1000, 20.0))
    assert axis_of(mean.report().html) == {"10": 0, "30": 100}
    change = axis_of((colours(1) - colours()).report().html)
    assert all(text.endswith(" points") for text in change)


def test_a_long_table_names_the_tables_with_all_rows():
    html = FrequencyEstimate([np.full(150, 1 / 150)], range(150)).report().html
    assert (
        "50 more rows are not shown. The tables of to_frame() and of sklearn-ldp estimate" in html
    )


def test_shares_among_users_who_answered_say_so():
    categories = [*WORDS, None]
    values = ["red"] * 900 + ["blue"] * 300 + [None] * 300
    oracles = [GRR(3.0, categories=categories, random_state=seed) for seed in range(2)]
    weeks = [oracle.fit_transform(values) for oracle in oracles]
    estimate = EmpiricalBayes().fit_transform(weeks[0])
    answered = estimate.answered()
    share = f"{100 * (1 - weeks[0][None]):.1f} %"
    assert f"among the users who answered, an estimated {share} of all users." in not_said(answered)
    assert "Shares of all users" not in not_said(answered)
    page = answered.report().html
    n_answered = 1500 * (1 - weeks[0][None])
    assert f"about {n_answered:,.0f} of the users who were asked" in page
    assert "answered()  # without its category None" in page
    n_users = np.rint(1500 * (1 - weeks[0][None]))
    assert f"{n_users:,.0f} users who answered," in str(answered)  # without a decimal
    rows = FrequencyEstimate.from_rows(dict(zip("ab", weeks, strict=True)))
    among = ", of users who answered"
    for whole, part in ((estimate, answered), (rows, rows.answered())):
        assert among in _texts(part.plot().figure_)
        assert among not in _texts(whole.plot().figure_)
    ages = GRR(3.0, categories=Domain.bins(3, bounds=(0, 90), missing=True), random_state=0)
    answered = ages.fit_transform([20.5, 50.5, 50.5, 80.5, None] * 2000).answered()
    assert among in _texts(answered.plot().figure_)


def _texts(figure):
    plt = pytest.importorskip("matplotlib.pyplot")
    texts = [text.get_text() for text in figure.findobj(lambda part: hasattr(part, "get_text"))]
    plt.close(figure)
    return " ".join(texts)


# -- the people of a report -------------------------------------------------------------------
def means_by_answer():
    rng = np.random.default_rng(0)
    oracle = GRR(2.0, categories=WORDS, random_state=0)
    answers = oracle.privatize(rng.choice(WORDS, 3_000))
    return mean_by_answer(rng.normal(size=3_000), answers, oracle)


REPORTED = {
    "estimate": colours,
    "difference": lambda: colours() - colours(1),
    "set": lambda: EstimateSet({"one": colours(), "other": colours(1)}),
    "mean": lambda: LocalMean(2.0, bounds=(0, 1), random_state=0).fit(np.ones(500)).estimate_,
    "oracle of a mean": lambda: LocalMean(2.0, bounds=(0, 1), random_state=0).fit(np.ones(500)),
}


@pytest.mark.parametrize("make", REPORTED.values(), ids=REPORTED)
def test_every_report_is_about_the_requested_people(make):
    """The intervals for a population are wider, because the users are a sample of it."""
    reported = make()
    widths = []
    for of in ("users", "population"):
        description = reported.report(of=of).description
        assert description == reported.describe(of=of)
        first = description.get("parts", [description])[0]
        assert of.rstrip("s") in first["of"]
        widths.append(first["rows"][0]["high"] - first["rows"][0]["low"])
    assert widths[0] < widths[1]
    with pytest.raises(ValueError, match='must be "users" or "population", got \'people\''):
        reported.report(of="people")
    if not isinstance(reported, FrequencyEstimate):
        with pytest.raises(ValueError, match="has no intervals for all looks"):
            reported.report(at_all_times=True)


def test_means_by_answer_are_about_a_population():
    means = means_by_answer()
    assert means.describe(of="population") == means.describe()
    with pytest.raises(ValueError, match='only of="population"'):
        means.report(of="users")


# -- a printed difference ---------------------------------------------------------------------
def test_a_printed_difference_lists_the_largest_changes():
    change = colours(1) - colours()
    lines = repr(change).split("\n")
    assert lines[0].startswith("EstimateDifference of 3 categories, 5,900 against 5,900 users")
    shown = {name: float(text) for name, text in (line.split() for line in lines[1:])}
    values = dict(zip(WORDS, change.values[0].tolist(), strict=True))
    assert shown == pytest.approx(values, rel=1e-3)
    sizes = np.abs(list(shown.values()))
    assert np.all(np.diff(sizes) <= 0)
    assert change.describe()["heading"] == lines[0]


def test_a_summary_of_a_difference_begins_with_the_largest_change():
    change = colours(1) - colours()
    summary = change.summary(0.9, of="users")
    frame = change.to_frame(0.9, of="users").loc[summary.index]
    pd.testing.assert_frame_equal(summary, frame)
    assert np.all(np.diff(np.abs(summary["difference"])) <= 0)
    bins = GRR(2.0, categories=Domain.bins(3, bounds=(0, 3)), random_state=0)
    ordered = bins.simulate([900, 100, 500]) - bins.simulate([100, 300, 700])
    pd.testing.assert_frame_equal(ordered.summary(), ordered.to_frame())
    assert [line.split()[0] for line in repr(ordered).split("\n")[1:]] == ["[0,", "[1,", "[2,"]


def test_a_summary_of_several_differences_is_sorted_within_each():
    oracle = GRR(2.0, categories=WORDS, random_state=0)
    change = oracle.simulate([500, 300, 200], 2) - oracle.simulate([100, 500, 400])
    summary = change.summary()
    assert summary.index.get_level_values(0).tolist() == [0, 0, 0, 1, 1, 1]
    for i in range(2):
        assert np.all(np.diff(np.abs(summary.loc[i, "difference"])) <= 0)
    assert "\n" not in repr(change)
