"""Strings that nobody lists: coders, exact privacy, the search, and everything a collector does."""

import itertools
import json
import pickle
import string
import unicodedata
import warnings
from fractions import Fraction
from importlib.resources import files

import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone

from sklearn_ldp import (
    GRR,
    BasePos,
    Domain,
    EmpiricalBayes,
    FrequencyEstimate,
    HeldOutSearch,
    NormSub,
    StringOracle,
    SyntheticSearch,
    load_estimate,
)
from sklearn_ldp._core.common import privacy
from sklearn_ldp._core.mechanisms.coins import SeededCoins, direct_threshold
from sklearn_ldp._core.mechanisms.several import SampledQuestions
from sklearn_ldp._core.numerics.finite_field import FiniteField
from sklearn_ldp.collection import (
    Aggregator,
    RefusedBatchError,
    aggregate,
    read_reports,
    write_reports,
)
from sklearn_ldp.oracles import _strings, estimate_by_group
from sklearn_ldp.oracles._string_parts import PrefixDomain, PrefixHash, StringPlan
from sklearn_ldp.oracles._strings import evidence
from sklearn_ldp.planning import Plan
from sklearn_ldp.utils._checks import check_exact_epsilon_of

LETTERS = "abcdefghijklmnopqrstuvwxyz"
WORDS = ["firefox", "chrome", "safari", "edge", "opera", "lynx"]
COUNTS = [9000, 5000, 3000, 2000, 800, 200]
SKEWED = {letter: 1 / (i + 1) for i, letter in enumerate(LETTERS)}


def oracle(**changes):
    given = {"alphabet": LETTERS, "max_length": 8, "n_found": 4, "expected_n_users": 20_000}
    return StringOracle(**{"epsilon": 4.0, "random_state": 0, **given, **changes})


# -- coders -----------------------------------------------------------------------------------
@pytest.mark.parametrize("order", [2, 3, 8, 53])
@pytest.mark.parametrize(
    "domain",
    [Domain.strings(LETTERS, 8), Domain.strings(code=SKEWED, max_length=8, max_digits=90)],
    ids=repr,
)
def test_digits_tell_the_letters(domain, order):
    """All digits give the string back, and fewer give its beginning."""
    rng, coder = np.random.default_rng(0), domain.coder(order)
    words = [
        "".join(rng.choice(list(domain.alphabet), rng.integers(1, domain.max_length + 1)))
        for _ in range(20)
    ]
    digits = coder.digits(domain.encode(words))
    assert digits.shape == (20, coder.n_digits)
    assert 0 <= digits.min() <= digits.max() < order
    for word, row in zip(words, digits.tolist(), strict=True):
        assert domain.text(coder.read(row)) == word
        for n in range(coder.n_digits):
            assert word.startswith(domain.text(coder.read(row[:n])))


@pytest.mark.parametrize("order", [2, 3, 4, 5])
@pytest.mark.parametrize("given", [{"alphabet": "ab"}, {"code": {"a": 5, "b": 1}}], ids=repr)
def test_no_other_digits_are_read(given, order):
    """Digits are read if and only if some string begins with them: all are tried."""
    most = {"max_digits": 6} if "code" in given else {}
    domain = Domain.strings(**given, max_length=3, **most)
    coder = domain.coder(order)
    words = ["".join(w) for n in (1, 2, 3) for w in itertools.product("ab", repeat=n)]
    coded = {tuple(row) for row in coder.digits(domain.encode(words)).tolist()}
    assert len(coded) == len(words)
    for n in range(1, min(coder.n_digits, 6) + 1):
        beginnings = {row[:n] for row in coded}
        for digits in itertools.product(range(order), repeat=n):
            assert (coder.read(digits) is not None) == (digits in beginnings)


def test_a_whole_string_is_one_number_where_that_saves_digits():
    """12 letters of 16 are 49.1 bits: 18 digits of GF(7), and 10 of GF(31) instead of 12."""
    domain = Domain.strings("0123456789abcdef", 12)
    assert [domain.coder(g).n_digits for g in (7, 31, 17)] == [18, 10, 12]
    letters = np.arange(1, 13)[None]
    assert np.array_equal(domain.coder(17).digits(letters), letters)


def test_frequent_letters_are_short():
    domain = Domain.strings(code={**SKEWED, "": 2.0}, max_length=8)
    widths = [len(word) for word in domain.coder(3).words]
    assert widths[1] < widths[-1]
    assert domain.coder(3).n_digits < Domain.strings(LETTERS, 8).coder(3).n_digits
    assert sum(Fraction(1, 3**width) for width in widths) <= 1  # Kraft's inequality
    fitted = oracle(alphabet=domain).fit(WORDS, sample_weight=COUNTS)
    assert fitted.estimate_.categories[0] == "firefox"
    assert clone(fitted).fit(WORDS).merge(fitted).n_samples_seen_ == sum(COUNTS) + len(WORDS)


def test_domains_of_strings_are_equal_and_bring_strings_into_one_form():
    domain = Domain.strings("abc", 5)
    assert domain == Domain.strings("abc", 5) == pickle.loads(pickle.dumps(domain))
    assert domain.digest == Domain.strings("abc", 5).digest
    others = Domain.strings("acb", 5), Domain.strings("abc", 6), Domain.strings(code={"a": 1})
    assert len({domain.digest, *(one.digest for one in others)}) == 4
    apart = unicodedata.normalize("NFD", "éa")
    assert len(apart) == 3
    assert Domain.strings("aé", 3).encode([apart, "aaaaé"]).tolist() == [[2, 1, 0], [1, 1, 1]]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"alphabet": "aba"}, "different letters"),
        ({"alphabet": ""}, "different letters"),
        ({"alphabet": "ab\ud800"}, "different letters"),
        ({"alphabet": "ab", "code": {"a": 1}}, "got both"),
        ({"alphabet": "ab", "max_length": 0}, "max_length= to be an integer from 1"),
        ({"alphabet": "ab", "max_length": True}, "max_length= to be an integer from 1"),
        ({"alphabet": "ab", "max_digits": 3}, "without code="),
        ({"code": {"a": 1, "b": 0}}, "positive number for each letter"),
        ({"code": {"ab": 1, "c": 1}}, "one character per key"),
        ({"code": {"a": 1}, "max_digits": 0}, "max_digits= to be an integer from 1"),
        ({"alphabet": "e\N{ANGSTROM SIGN}"}, "normal form C"),
    ],
)
def test_bad_domains_are_refused(given, words):
    with pytest.raises(ValueError, match=words):
        Domain.strings(**given)


def test_the_public_code():
    """It is part of the protocol, so it never changes; and it says where it is from."""
    domain = Domain.strings()
    assert domain.digest == "8fb122c51e35902b27bfc7f65be7fe0febf0cc1d6c84ea2751187eed0802dc78"
    words = dict(zip(domain.alphabet, domain.coder(7).words[1:], strict=True))
    assert set(string.printable.strip() + " äßçñøłœşðþαжє") <= set(words)
    lengths = {letter: len(word) for letter, word in words.items()}
    assert max(lengths[one] for one in "aeinrst") < min(lengths[one] for one in "QXqxäж")
    text = files("sklearn_ldp._core.domains").joinpath("data/letters.json").read_text("utf-8")
    assert "Unicode CLDR" in json.loads(text)["source"]
    assert "UNICODE LICENSE V3" in (
        files("sklearn_ldp._core.domains").joinpath("data/LICENSE.unicode").read_text("utf-8")
    )


@pytest.mark.filterwarnings("ignore:StringOracle searched for")
def test_a_string_and_a_longer_one_that_is_cut_off_behind_it_are_one_category():
    """The last digits of the longer one are part of a letter, so both are called "ab"."""
    code = {"a": 100, "b": 100, "": 100, **dict.fromkeys("cdefghijklmnopqrstuv", 1)}
    cut = Domain.strings(code=code, max_length=3, max_digits=6)
    words = cut.coder(2).words
    assert [len(words[i]) for i in (0, 1, 2)] == [2, 2, 2]
    assert len(words[3]) > 2
    options = {"hash_range": 2, "n_found": 4, "expected_n_users": 10_000, "random_state": 0}
    oracle = StringOracle(8.0, alphabet=cut, **options)
    found = oracle.fit(["ab", "abc", "ba"], sample_weight=[3000, 2000, 1000]).estimate_
    assert sorted(found.categories) == ["ab", "ba"]
    assert found["ab"] == pytest.approx(0.5, abs=0.1)


def test_the_public_code_is_the_default():
    default, public = StringOracle(6.0), StringOracle(6.0, alphabet=Domain.strings())
    assert not default.protocol().difference(public.protocol())
    other = StringOracle(6.0, alphabet=Domain.strings().alphabet)
    with pytest.raises(ValueError, match="another collection"):
        default.aggregate(other.privatize(["hónap"]))
    assert StringOracle(missing="report").privatize(["日本", None]).shape == (2, 3)
    with pytest.raises(ValueError, match="outside of the alphabet"):
        default.privatize(["日本"])


@pytest.mark.slow
def test_the_public_code_finds_words_of_other_languages(seed):
    """Of one that it was not made of, and letters that it hardly has."""
    words = {"egyszerű": 4000, "hónap": 3000, "ősz": 2000, "Árvíz 2024": 1000}
    found = StringOracle(6.0, n_found=4, expected_n_users=10_000, random_state=seed).fit(
        list(words), sample_weight=list(words.values())
    )
    assert set(found.estimate_.categories) == set(words)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (["ab", "aXb"], r"(outside of|not in) the alphabet\b.*position 1. .*missing=.report"),
        (["ab", ""], "(is empty or|an empty string).* at position 1"),
        (["ab", "a\0"], "at position 1"),
        (["ab", None], "missing"),
        (["ab", 3], "position 1"),
        ([["ab", "b"], ["a", "b"]], "one string per user"),
    ],
)
def test_bad_strings_are_refused_and_not_shown(values, words):
    """Errors of clients are logged: they say neither the letter nor its place in the string."""
    client = oracle(random_state=None)
    with pytest.raises(ValueError, match=words) as info:
        client.privatize(values)
    assert "X" not in str(info.value).replace("Input X", "")
    with pytest.raises(ValueError, match=words):
        client.fit(values)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"alphabet": 5}, "got the alphabet"),
        ({"max_length": 0}, "StringOracle needs max_length"),
        ({"n_found": 0}, "n_found"),
        ({"expected_n_users": 0}, "expected_n_users"),
        ({"hash_range": 6}, "no finite field with 6"),
        ({"alphabet": Domain.strings(code=SKEWED, max_digits=9)}, "needs hash_range="),
        ({"epsilon": 1e-30}, "epsilon"),
    ],
)
def test_bad_parameters_are_refused(changes, words):
    with pytest.raises(ValueError, match=words):
        oracle(**changes).protocol()


# -- the mechanism ----------------------------------------------------------------------------
PLAN = StringPlan(1.0, 3, (1, 2), (0.25, 0.5, 0.25), 27.0, 2, 100)


def small_survey(epsilon):
    """All parts over GF(3), with so few functions that all their coins can be listed."""
    threshold, field = direct_threshold(epsilon, 3), FiniteField(3)
    parts = [PrefixHash(field, k, n_copies, threshold) for k, n_copies in ((1, 1), (2, 2), (1, 1))]
    return SampledQuestions.drawn(parts, [0.25, 0.5, 0.25])


def every_code():
    """The codes of all strings of up to 2 letters, of which the last one is one of 3 buckets."""
    domain = PrefixDomain(Domain.strings("abc", 2), PLAN)
    words = ["".join(w) for n in (1, 2) for w in itertools.product("abc", repeat=n)]
    codes = domain.encode(words)
    codes[:, -1] %= 3
    return [tuple(row) for row in codes.tolist()]


def test_equal_parts_have_equal_budgets():
    assert small_survey(1.0).mechanisms == small_survey(1.0).mechanisms
    assert small_survey(1.0).mechanisms[0] != small_survey(1.1).mechanisms[0]


def test_epsilon_of_whole_reports_is_exact():
    """Every report of every part, and every pair of strings: exp(epsilon), and no less."""
    assert PrefixDomain(Domain.strings("abc", 2), PLAN).digits.n_digits == 3
    check_exact_epsilon_of(small_survey(1.0), every_code(), 1.0)
    # Negative controls: a little more, and a little less.
    for spent, fault in ((1 + 1e-11, "epsilon is exceeded"), (1 - 1e-11, "budget is wasted")):
        with pytest.raises(AssertionError, match=fault):
            check_exact_epsilon_of(small_survey(spent), every_code(), 1.0)


@pytest.mark.parametrize("order", [4, 5])
def test_the_transform_counts_what_hashing_counts(order):
    part = PrefixHash(FiniteField(order), 2, 3, direct_threshold(2.0, order))
    codes = np.random.default_rng(0).integers(0, 50 * order**2, 500)
    tally = part.tally(part.privatize(codes, SeededCoins(np.random.default_rng(1))))
    assert tally.sum() == 500
    digests, extensions = np.array([3, 7, 11]), np.arange(order**2)
    for digest, support in zip(digests, part.count_extensions(tally, digests), strict=True):
        codes = digest * order**2 + extensions
        assert np.array_equal(support, part.support_of(tally[None], codes)[0])


def test_two_extensions_of_a_prefix_meet_in_exactly_one_of_g_draws():
    part = PrefixHash(FiniteField(3), 2, 2, direct_threshold(1.0, 3))
    functions = part.public_part.draw(np.arange)
    values = [part.hash(functions, np.array([5 * 9 + e])) for e in range(9)]
    for one, other in itertools.combinations(values, 2):
        assert np.mean(one == other) == pytest.approx(1 / 3, abs=1e-12)


def test_a_prefix_and_its_noise_are_told_apart_by_their_last_parts():
    """What is noise from some part on is judged there, whatever its beginning is."""
    errors, rivals = np.ones(3), np.full((3, 3), 1000.0)
    paths = np.array([[9.0, 9.0, 9.0], [90.0, 90.0, 3.0], [9.0, 9.0, 3.0]])
    real, tail, other = evidence(paths, errors, rivals)
    assert real > 0 > tail == other
    rivals[2, 2] = 0  # the string has ended before: its last digits are known
    assert evidence(paths, errors, rivals)[2] > 0


# -- the oracle -------------------------------------------------------------------------------
def test_the_most_frequent_strings_are_found():
    fitted = oracle().fit(WORDS, sample_weight=COUNTS)
    estimate = fitted.estimate_
    assert set(WORDS[:4]) == set(estimate.categories)
    assert fitted.n_samples_seen_ == estimate.noise.n_users == sum(COUNTS)
    low, high = estimate.confidence_interval(0.9999, simultaneous=True)
    truth = np.array([COUNTS[WORDS.index(word)] / sum(COUNTS) for word in estimate.categories])
    assert np.all((low[0] < truth) & (truth < high[0]))
    assert "firefox" in estimate.detected(0.95)[0]
    assert [text for text, _ in fitted.found_prefixes_[-1]] == estimate.categories.tolist()
    assert all("firefox".startswith(kept[0][0]) for kept in fitted.found_prefixes_)


def test_prefixes_that_are_whole_strings_are_not_extended(monkeypatch):
    ended_words = set()
    extended = _strings._extended

    def recorded(channel, coder, tally, digits, ended, n_best):
        ended_words.update(ended.values())
        return extended(channel, coder, tally, digits, ended, n_best)

    monkeypatch.setattr(_strings, "_extended", recorded)
    assert len(oracle().fit(WORDS, sample_weight=COUNTS).estimate_)
    assert {len(letters) for letters in ended_words} == {6}  # "opera" and its end


def test_the_held_out_part_alone_makes_the_estimate():
    """The searching parts' counts can be anything: the same strings have the same estimate."""
    reports = oracle(random_state=None).privatize(np.repeat(WORDS, COUNTS))
    is_held_out = reports[:, 0] == reports[:, 0].max()
    one, other, control = (
        oracle().aggregate(np.concatenate([reports, reports[more]])).estimate_
        for more in (slice(0), ~is_held_out, is_held_out.nonzero()[0][:1000])
    )
    shared = set(one.categories) & set(other.categories)
    assert "firefox" in shared
    for word in shared:
        assert one[word] == other[word]
    assert one["firefox"] != control["firefox"]


def test_reports_add_up_in_any_order():
    words = np.repeat(WORDS, COUNTS)[::4]
    whole = oracle().fit(words)
    parts = oracle().partial_fit(words[:1500]).partial_fit(words[1500:])
    assert np.array_equal(parts.estimate_.values, whole.estimate_.values)
    reports = oracle(random_state=None).privatize(words)
    server, other = oracle().aggregate(reports[:2000]), oracle().aggregate(reports[2000:])
    merged = clone(server).aggregate(reports[2000:]).merge(server)
    for same in (server.merge(other), pickle.loads(pickle.dumps(server))):
        assert merged.estimate_.categories.tolist() == same.estimate_.categories.tolist()
        assert np.array_equal(merged.estimate_.values, same.estimate_.values)
    with pytest.raises(ValueError, match="differently configured"):
        server.merge(oracle(n_found=5).fit(words))


def test_files_and_checkpoints(tmp_path):
    client, server = oracle(random_state=None), oracle(random_state=None)
    words = np.repeat(WORDS, COUNTS)[::4]
    paths = [tmp_path / name for name in ("a.parquet", "b.arrows", "c.jsonl")]
    for path, piece in zip(paths, np.array_split(words, 3), strict=True):
        write_reports(path, client.privatize(piece), client, batch_id=path.stem)
    collected = Aggregator(server)
    for path in paths:
        aggregate(path, collected)
    with pytest.raises(ValueError, match="counted batch"):
        aggregate(paths[0], collected)  # a batch counts once
    collected.save(tmp_path / "state.npz")
    loaded = Aggregator.load(tmp_path / "state.npz", oracle(random_state=None))
    assert loaded.n_samples == len(words)
    assert np.array_equal(loaded.estimate_.values, collected.estimate_.values)
    assert loaded.estimate_.categories[0] == "firefox"
    assert read_reports(paths[0], server).shape[1] == 3
    with pytest.raises(RefusedBatchError, match="domain"):
        aggregate(paths[0], Aggregator(oracle(max_length=9, random_state=None)))


def test_hostile_reports_and_tallies_are_refused():
    server = oracle(random_state=None)
    good = server.privatize(WORDS * 50)
    mechanism = server.protocol().mechanism
    sizes = [one.n_functions for one in mechanism.mechanisms]
    hostile = [good[:, :2], np.column_stack([good, good[:, :1]]), good[:, 0]]
    for columns, value in (
        *((0, 99), (1, 1 << 40), (2, 1000), (2, -1)),
        ([0, 1], (np.argmin(sizes), max(sizes) - 1)),  # a function of another, larger part
    ):
        hostile.append(good.copy())
        hostile[-1][7, columns] = value
    for bad in hostile:
        with pytest.raises(ValueError, match="cannot have made these reports"):
            server.aggregate(bad)
    tallies = mechanism.tally(good)[None]
    mechanism.check_tallies(tallies, np.array([len(good)]))
    for place, change in ((0, 1), (10, 1), (10, -1), (-1, 1)):
        tampered = tallies.copy()
        tampered[0, place] += change
        with pytest.raises(ValueError, match="reports|no negative count"):
            mechanism.check_tallies(tampered, np.array([len(good)]))


@pytest.mark.slow
def test_two_processes_agree(fresh_processes):
    """Plans, hash functions and codes are the same wherever they are computed."""
    code = (
        "from sklearn_ldp import StringOracle\n"
        f"oracle = StringOracle(4.0, alphabet={LETTERS!r}, max_length=8, n_found=4,\n"
        "    expected_n_users=20_000, random_state=0)\n"
        f"estimate = oracle.fit({WORDS!r}, sample_weight={COUNTS!r}).estimate_\n"
        "print(oracle.protocol().domain.digest, estimate.values.sum().hex())"
    )
    fitted = oracle().fit(WORDS, sample_weight=COUNTS)
    here = fitted.protocol().domain.digest, fitted.estimate_.values.sum().hex()
    assert fresh_processes.run(code).stdout.split() == list(here)


def test_groups_are_estimated_over_common_strings():
    words = np.repeat(WORDS, COUNTS)
    regions = np.where(words == "firefox", "north", "south")
    estimate = estimate_by_group(oracle(random_state=None), words, regions)
    assert estimate.row_names.tolist() == ["north", "south"]
    place = estimate.categories.tolist().index("firefox")
    assert estimate.values[0, place] > 0.8
    assert abs(estimate.values[1, place]) < 0.2


@pytest.mark.filterwarnings("ignore:.*are not detected among")
def test_without_held_out_users_there_is_no_row():
    reports = oracle(random_state=None).privatize(WORDS * 20)
    searching = reports[reports[:, 0] < reports[:, 0].max()]
    assert len(oracle().aggregate(reports).found_) == 1
    fitted = oracle().aggregate(searching)
    assert fitted.found_.shape == (0, 4)
    assert fitted.estimate_.shape == (0, 0)  # nobody tells whether they are somebody's


# -- what nobody has --------------------------------------------------------------------------
def test_what_is_not_detected_is_left_out_and_marked():
    """Of twelve strings that are kept, nobody has six or more: this fails by chance in 5 %."""
    fitted = oracle(n_found=12).fit(WORDS, sample_weight=COUNTS)
    with pytest.warns(
        UserWarning, match=r"searched for 12 strings, and the estimate omits \d.* about 0.0"
    ):
        estimate = fitted.estimate_
    assert fitted.estimate_ is estimate  # which warns no more
    kept = fitted.found_
    assert kept.shape == (1, 12)
    assert set(WORDS[:4]) <= set(estimate.categories) <= set(WORDS)
    assert kept.categories[kept.flags["detected"]].tolist() == estimate.categories.tolist()
    for word in estimate.categories:
        assert kept[word] == estimate[word]
    frame = kept.summary().set_index("category")
    assert frame["detected"].sum() == estimate.shape[1] < 12
    assert "firefox (detected)" in repr(kept)
    assert "firefox (detected)" in kept._repr_html_()
    assert "(detected)" not in repr(estimate)
    columns = ["category", "estimate", "low", "high", "count", "interval", "or longer"]
    assert list(estimate.to_frame(0.95)) == columns
    again = pickle.loads(pickle.dumps(kept))
    assert again.labels.tolist() == kept.labels.tolist()
    assert [text for text, _ in fitted.found_prefixes_[-1]] == kept.categories.tolist()


def test_no_distribution_is_made_of_strings_that_were_found():
    """They are some of many: negative control, an array whose sum is made 1 is far too large."""
    estimate = oracle().fit(WORDS, sample_weight=COUNTS).estimate_
    for post in (NormSub(), EmpiricalBayes(), SyntheticSearch()):
        with pytest.raises(ValueError, match=r"belong to only some of the categories. Use Base"):
            post.fit(estimate)
    for post in (BasePos(), EmpiricalBayes(simplex=False), HeldOutSearch()):
        values = post.fit_transform(estimate).values
        assert values.sum() == pytest.approx(estimate.values.sum(), rel=0.05)
        assert values.sum() < 0.95 * NormSub().fit_transform(estimate.values).sum()


def test_the_name_of_a_flag_says_nothing_about_sums(tmp_path):
    """Strings that were found are some of many by a field, which files keep, and not by a flag."""
    strings = oracle().fit(WORDS, sample_weight=COUNTS).estimate_
    strings.save(tmp_path / "strings.npz")
    for estimate in (strings, strings[0], load_estimate(tmp_path / "strings.npz")):
        assert estimate.is_partial
        assert not estimate.sums_to_one
    flags = {"or longer": np.array([True, False])}
    own = FrequencyEstimate([[0.5, 0.5]], ["a few hours", "a day"], flags=flags)
    assert own.sums_to_one


def test_errors_name_the_settings_of_strings_for_subclasses_too():
    class Words(StringOracle):
        pass

    options = {"max_length": 4, "n_found": 4, "expected_n_users": 10_000}
    for kind in (StringOracle, Words):
        ours, theirs = (kind(2.0, alphabet=a, **options).protocol() for a in ("abcd", "abce"))
        assert "the letters, max_length or n_found" in ours.difference(theirs.configuration)
    grr = GRR(2.0, categories=["a", "b"]).protocol()
    other = GRR(2.0, categories=["b", "a"]).protocol()
    assert "the categories or their order" in grr.difference(other.configuration)


def test_pictures_name_what_is_detected():
    kept = oracle().fit(WORDS, sample_weight=COUNTS).found_
    display = kept.plot()
    texts = [label.get_text() for label in display.ax_.get_yticklabels()]  # they are long
    assert "firefox (detected)" in texts
    of_two = kept.plot(queries=kept.categories[:2].tolist())
    assert of_two.categories.tolist() == ["firefox", "chrome"]


@pytest.mark.parametrize(
    ("changes", "words", "longer"),
    [
        ({"max_length": 6}, ["firefo", "chrome", "safari", "edge"], [True, True, True, False]),
        ({"max_length": 8}, ["firefox", "chrome", "safari", "edge"], [False] * 4),
        (  # here a code has too few digits, and not max_length
            {"alphabet": Domain.strings(code=SKEWED, max_digits=5), "hash_range": 29},
            ["firef", "chrom", "safar", "edge"],
            [True, True, True, False],
        ),
    ],
)
def test_strings_that_may_have_been_cut_say_so(changes, words, longer):
    estimate = oracle(**changes).fit(WORDS, sample_weight=COUNTS).estimate_
    is_longer = dict(zip(estimate.categories, estimate.flags["or longer"].tolist(), strict=True))
    assert is_longer == dict(zip(words, longer, strict=True))
    assert (f"{words[0]} (or longer)" in repr(estimate)) == longer[0]


@pytest.mark.filterwarnings("ignore:.*are not detected among")
def test_few_users_at_a_large_epsilon():
    """What nobody has is left out; but a large epsilon hides nobody, and the threshold says it."""
    words, given = [f"word{letter}" for letter in LETTERS[:20]], {"epsilon": 20.0, "max_length": 5}
    kept = oracle(**given, hash_range=29).fit(words)
    assert not set(kept.found_.categories) & set(words)
    estimate = kept.estimate_
    assert estimate.shape == (1, 0)
    assert estimate.summary().empty
    for simultaneous in (True, False):
        assert estimate.confidence_interval(simultaneous=simultaneous).low.shape == (1, 0)
    assert estimate.detected().mask.shape == (1, 0)
    assert repr(estimate).startswith("FrequencyEstimate of 0 categories")
    fitted = oracle(**given, hash_range=29).fit(words, sample_weight=[60] + [1] * 19)
    assert "worda" in fitted.estimate_.categories
    assert fitted.estimate_.detected(threshold=10 / 79)[0].tolist() == ["worda"]
    assert fitted.estimate_.detected(threshold=70 / 79)[0].tolist() == []


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*are not detected among")
@pytest.mark.parametrize(("n_groups", "n_runs"), [(1, 80), (3, 40)])
def test_no_more_than_5_percent_of_families_have_a_string_that_nobody_has(n_groups, n_runs, seed):
    """Binomial at 1e-5: of 80 collections at most 14. Some have strings that nobody else has."""
    rng = np.random.default_rng(seed)
    rare = {"".join(word) for word in rng.choice(list(LETTERS), size=(500, 8))}
    words = [*WORDS, *sorted(rare)]
    weights, by = [*COUNTS, *[1] * len(rare)], np.arange(len(words)) % n_groups
    n_false, n_false_kept, n_kept = 0, 0, 0
    for run in range(n_runs):
        given = oracle(n_found=12, random_state=1000 * seed + run)
        if n_groups == 1:
            fitted = given.fit(words, sample_weight=weights)
            n_false_kept += not set(fitted.found_.categories) <= set(words)
            estimate = fitted.estimate_
        else:
            estimate = estimate_by_group(given, words, by, sample_weight=weights)
        n_false += not set(estimate.categories) <= set(words)
        n_kept += len(set(estimate.categories) & set(WORDS[:4]))
    bound = stats.binom.isf(1e-5, n_runs, 0.05)
    assert n_false <= bound
    assert n_kept > 0.95 * 4 * n_runs
    if n_groups == 1:
        assert n_false_kept > bound  # negative control: all that is kept, without the test


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*are not detected among")
@pytest.mark.parametrize("alphabet", ["a", "ab"])
def test_few_strings_are_no_trouble(alphabet):
    """Of a single letter there are 20 strings: the search may find fewer than it looks for."""
    given = {"alphabet": alphabet, "max_length": 20, "n_found": 30}
    fitted = oracle(**given).fit(["a", "aa"], sample_weight=[9000, 3000])
    assert set(fitted.estimate_.categories) == {"a", "aa"}
    assert all(0 < len(one) <= 20 for one in fitted.found_.categories)
    oracle(**given).aggregate(oracle(**given, random_state=None).privatize(["a"])).estimate_  # noqa: B018


def test_the_plan_says_what_to_expect():
    plan = StringOracle(2.0, alphabet="0123456789abcdef", max_length=12, n_found=16).plan()
    assert sum(plan.shares) == pytest.approx(1)
    assert sum(plan.steps) == Domain.strings("0123456789abcdef", 12).coder(plan.hash_range).n_digits
    rising = plan.found_probability([0.001, 0.005, 0.05])
    assert rising[0] < 0.01 < 0.99 < rising[2]
    assert plan.found_probability([0.005], n_users=10**7) > rising[1]
    assert 0.003 < plan.threshold() < 0.01
    assert plan.threshold(10**7) < plan.threshold()
    assert plan.found_probability([plan.threshold()])[0] == pytest.approx(0.5)
    assert plan.threshold(10) == 1  # too few users for any frequency


PLANNED = {"alphabet": LETTERS, "max_length": 10, "n_found": 16}


def test_a_plan_computes_the_number_of_users():
    small = {"alphabet": "abcdefgh", "max_length": 5, "n_found": 4}
    plan = StringOracle(4.0, **small).plan()
    n_users = plan.users_for(0.01)
    assert plan.users_for(0.02) < n_users < plan.users_for(0.01, power=0.9)
    for n, suffices in ((n_users, True), (int(0.997 * n_users), False)):
        planned = StringOracle(4.0, expected_n_users=n, **small).plan()
        assert (planned.found_probability(0.01) >= 0.8) == suffices
    assert StringOracle(4.0, expected_n_users=10, **small).plan().users_for(0.01) == n_users
    fixed = StringOracle(4.0, hash_range=5, **small).plan()
    assert fixed.users_for(0.01) > 1.1 * n_users  # hash_range stays fixed
    with pytest.raises(ValueError, match="frequency 1e-09 needs more than 1,099,511,627,776 users"):
        plan.users_for(1e-9)


@pytest.mark.parametrize("n_users", [0, -5, "60000", np.nan, np.inf, None, True])
def test_plans_of_strings_check_the_number_of_users(n_users):
    plan = StringOracle(4.0, **PLANNED).plan()
    if n_users is not None:  # the expected number
        for call in (plan.threshold, lambda n: plan.found_probability(0.1, n)):
            with pytest.raises(ValueError, match="n_users must be a finite number > 0"):
                call(n_users)
    assert plan.threshold() == plan.threshold(plan.expected_n_users)


@pytest.mark.parametrize("frequency", [1, 2, -0.1, np.nan, "1 %", None])
def test_plans_of_strings_check_frequencies_and_powers(frequency):
    plan = StringOracle(4.0, **PLANNED).plan()
    for value in (frequency, [0.1, frequency]):
        with pytest.raises(ValueError, match="must be from 0 to below 1.*Write 1 % as 0.01"):
            plan.found_probability(value)
    with pytest.raises(ValueError, match="Argument frequency"):
        plan.users_for(frequency)
    with pytest.raises(ValueError, match="power must satisfy"):
        plan.users_for(0.01, power=frequency)
    assert plan.found_probability([0.0])[0] < 1e-6


def test_a_plan_of_strings_is_found():
    with pytest.raises(TypeError, match=r"StringOracle, which has a plan of its own.*plan\(\)"):
        Plan(oracle())


@pytest.mark.slow
def test_the_planned_probability_is_the_proportion_of_searches(seed):
    """The approximation may be wrong by 0.15; error rate 2e-4. Control: half of the users."""
    n_searches = 30
    frequency = 0.02
    rng = np.random.default_rng(seed)
    n_users = StringOracle(4.0, **PLANNED).plan().users_for(frequency)

    def n_successes(n):
        n_firefox = round(frequency * n)
        successes = 0
        for i in range(n_searches):
            others = rng.choice(list(LETTERS), (n - n_firefox, 8)).view("U8")[:, 0]
            fitted = oracle(**PLANNED, expected_n_users=n_users, random_state=1000 * seed + i)
            fitted.fit([*["firefox"] * n_firefox, *others.tolist()])
            successes += "firefox" in fitted.found_.categories
        return successes

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "StringOracle searched for")
        least, most = stats.binom.ppf([1e-4, 1 - 1e-4], n_searches, [0.65, 0.95])
        assert least <= n_successes(n_users) <= most
        assert n_successes(n_users // 2) < least


# -- strings that are no valid strings, or nearly equal ---------------------------------------
@pytest.mark.parametrize(
    ("value", "fault"),
    [
        (1, r"a value of type int, which is not a string, at position 1\. .*astype\(str\)"),
        (2.5, r"type float, which is not a string"),
        ("", r"an empty string at position 1\. Replace empty strings by a placeholder"),
        ("a\0", r"a string that contains NUL, at position 1\. Remove the letter NUL"),
        ("aX", r"the letter 'X'.*at position 1\. Add the letter to the alphabet, or replace it"),
    ],
)
def test_each_fault_of_a_string_has_its_remedy(value, fault):
    with pytest.raises(ValueError, match=f"{fault}.*, or set missing=.report"):
        oracle().fit(["ab", value])


def test_fit_refuses_numbers_that_clients_replace():
    server = oracle(missing="report")
    with pytest.raises(ValueError, match=r"type int.*position 1\. .*astype\(str\)\.$"):
        server.fit(["ab", 123])
    assert not hasattr(server, "n_samples_seen_")
    server.fit(["ab", None, float("nan"), "X"] * 100)  # missing, or outside of the alphabet
    oracle(missing="report", random_state=None).privatize(["ab", 123])  # an error would reveal it


def test_the_default_of_missing_strings_is_marked():
    fitted = oracle(missing="report", n_found=2).fit(["firefox", None] * 5000)
    for estimate in (fitted.estimate_, fitted.found_):
        assert sorted(estimate.categories) == ["firefox", "z"]
        assert estimate.categories[estimate.flags["or missing"]].tolist() == ["z"]
    plain = oracle(n_found=2).fit(["firefox", "z"] * 5000)
    assert "or missing" not in plain.estimate_.flags


@pytest.mark.parametrize("other", ["FIREFOX", "firefox ", "Firefox"])
def test_found_strings_that_differ_in_case_or_spaces_are_warned_of(other):
    letters = LETTERS + LETTERS.upper() + " "
    fitted = oracle(alphabet=letters, n_found=2).fit(["firefox", other] * 10_000)
    match = "2 strings that differ only in case or spaces around 'firefox'.*lower case and strip"
    with pytest.warns(UserWarning, match=match):
        assert set(fitted.estimate_.categories) == {"firefox", other}
    assert fitted.estimate_.shape == (1, 2)  # no second warning
    assert oracle(n_found=2).fit_transform(["firefox", "fire"] * 10_000).shape == (1, 2)


def test_groups_that_differ_in_case_or_spaces_are_warned_of():
    values = ["a", "b"] * 100
    collector = GRR(1.0, categories=["a", "b"], random_state=0)
    for labels in (["x", "x "] * 100, np.array(["x", "X"] * 100)):
        privacy._given.clear()
        match = "estimate_by_group has 2 labels that differ only in case or spaces.*one label for"
        with pytest.warns(UserWarning, match=match):
            estimate_by_group(collector, values, by=labels)
        estimate_by_group(collector, values, by=labels)  # once
    estimate_by_group(collector, values, by=["x", "y"] * 100)
    Domain(["a", "A"])  # declared categories may differ in case
    with pytest.warns(UserWarning, match="categories that differ only in spaces around 'a'"):
        Domain(["a", "a "])


def test_a_merged_copy_is_warned_of():
    collector = GRR(1.0, categories=["a", "b"], random_state=0).fit(["a", "b"] * 100)
    other = GRR(1.0, categories=["a", "b"], random_state=1).fit(["a", "b"] * 100)
    copy = pickle.loads(pickle.dumps(collector))
    clone(other).set_params(random_state=2).fit(["a", "b"] * 100).merge(other)
    few = [clone(other).fit(["a"]) for _ in range(2)]
    few[0].merge(few[1])  # few reports may be equal by chance
    with pytest.warns(UserWarning, match="GRR.merge got a GRR with equal counts.*if it is a copy"):
        collector.merge(copy)
    assert collector.n_samples_seen_ == 400


@pytest.mark.parametrize("epsilon", [0.5, 6.0, 1000.0])
def test_the_tally_does_not_grow_with_the_users(epsilon):
    """Whatever the plan, a million users cost no more than a few hundred megabytes."""
    for n in (10**6, 10**9):
        one = StringOracle(epsilon, alphabet=LETTERS, expected_n_users=n)
        assert one.protocol().mechanism.tally_size < 40e6


# -- statistics -------------------------------------------------------------------------------
def deviations(n_runs, seed, part):
    """Errors of the found over their standard errors, by the held-out or the searching part."""
    found = []
    for run in range(n_runs):
        fitted = oracle(n_found=12, random_state=seed * 1000 + run)  # more than anybody has
        fitted.fit(WORDS, sample_weight=COUNTS)
        estimate = fitted.found_
        counts = dict(zip(WORDS, COUNTS, strict=True))
        truth = np.array([counts.get(w, 0) for w in estimate.categories]) / sum(COUNTS)
        values, noise = estimate.values[0], estimate.noise
        if part == "searching":
            values = np.array([value for _, value in fitted.found_prefixes_[-1]])
        found.append((values - truth) / np.sqrt(noise.variance(truth[None])[0]))
    return np.concatenate(found)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*are not detected among")
def test_found_frequencies_are_unbiased(seed):
    """Mean error 0 and 95 % intervals over 200 runs, z-tests at 1e-4; selected ones are biased."""
    held_out = deviations(200, seed, "held-out")
    assert abs(held_out.mean()) * np.sqrt(held_out.size) < 3.9
    covered = np.mean(np.abs(held_out) < 1.96)
    assert abs(covered - 0.95) < 3.9 * np.sqrt(0.95 * 0.05 / held_out.size) + 0.005
    searching = deviations(60, seed, "searching")
    assert searching.mean() * np.sqrt(searching.size) > 3.9
