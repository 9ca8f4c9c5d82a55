"""The store: what is acknowledged is on disk, once, and nothing tells in which order it came."""

import json
import secrets
import shutil
import stat
import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest
from scipy import stats
from serving import COLOURS, ORACLE, draw, patience, sealed
from sklearn.base import clone

from sklearn_ldp import GRR, OLH, OUE, HadamardResponse, SubsetSelection
from sklearn_ldp._core.aggregation import _report_files
from sklearn_ldp._core.common.arrays import pack_arrays
from sklearn_ldp._serve import slots as slots_module
from sklearn_ldp._serve import state as state_module
from sklearn_ldp._serve import store as store_module
from sklearn_ldp._serve.slots import Slots
from sklearn_ldp._serve.store import Post, Rules, Store
from sklearn_ldp.collection import Aggregator, CheckpointError, aggregate, read_reports

RULES = Rules(batch_reports=40, least=1, step=10)


class Outcomes(dict):
    """Outcomes by their ticket."""

    def __call__(self, pairs):
        self.update(pairs)


def opened(folder, rules=RULES, oracle=ORACLE, was_shown=False):
    outcomes = Outcomes()
    store = Store(folder, oracle, "may", rules, outcomes)
    store.said = store.open(was_shown)
    return store, outcomes


def submit(store, outcomes, posts):
    """Post and wait: pairs of a nonce and a list of reports."""
    tickets = [object() for _ in posts]
    for ticket, (nonce, reports) in zip(tickets, posts, strict=True):
        store.submit(Post(nonce, reports, ticket))
    assert patience(lambda: all(ticket in outcomes for ticket in tickets))
    return [outcomes[ticket] for ticket in tickets]


def single(reports):
    return [(secrets.token_bytes(16), [one]) for one in reports]


@pytest.mark.parametrize(
    "oracle",
    [
        GRR(1.0, categories=COLOURS),
        OUE(1.0, categories=20),
        OLH(1.0, categories=COLOURS),
        ORACLE,
        HadamardResponse(1.0, categories=COLOURS),
        SubsetSelection(1.0, categories=20),
        SubsetSelection(1.0, categories=5),
    ],
    ids=repr,
)
def test_every_oracle_of_a_page(oracle, tmp_path):
    """All reports come out, in batches that are counted; a new start counts the same."""
    store, outcomes = opened(tmp_path, oracle=oracle)
    reports = oracle.privatize(np.resize(oracle.protocol().domain.categories, 100)).tolist()
    assert set(submit(store, outcomes, single(reports))) == {""}
    assert store.counts.n_samples == 100
    expected = clone(oracle).aggregate(reports).support_counts_
    assert store.close() == "the last 20 reports are sealed"
    assert sealed(tmp_path, oracle) == sorted(reports)
    server = aggregate(tmp_path, oracle, collection_round="may")
    assert (server.n_samples, len(server.batches)) == (100, 3)
    np.testing.assert_array_equal(server.oracle_.support_counts_, expected)
    again, _ = opened(tmp_path, oracle=oracle)
    assert again.counts.n_samples == 100
    np.testing.assert_array_equal(again.counts.tallies[0, 0], store.counts.tallies[0, 0])
    assert again.close() == "no reports are held"


def test_a_nonce_counts_once(tmp_path):
    """Also with another report, in the same round, after its batch was sealed, and a new start."""
    store, outcomes = opened(tmp_path)
    first, other, *more = draw(102)
    nonce = secrets.token_bytes(16)
    assert submit(store, outcomes, [(nonce, [first]), (nonce, [other])]) == ["", ""]
    submit(store, outcomes, single(more))
    submit(store, outcomes, [(nonce, [other])])
    store.close()
    store, outcomes = opened(tmp_path)
    assert submit(store, outcomes, [(nonce, [other])]) == [""]
    # Of a post of several reports, each one has a place of its own under the nonce.
    submit(store, outcomes, [(secrets.token_bytes(16), draw(3))])
    nonce = secrets.token_bytes(16)
    assert submit(store, outcomes, [(nonce, draw(1)), (nonce, draw(1))]) == ["", ""]
    store.close()
    assert len(sealed(tmp_path)) == 101 + 3 + 1
    assert first in sealed(tmp_path)
    assert other not in sealed(tmp_path)


def test_what_no_client_can_have_made_is_refused_alone(tmp_path):
    store, outcomes = opened(tmp_path)
    bad = [(secrets.token_bytes(16), [[5, 99]]), (secrets.token_bytes(16), [[2**70, 0]])]
    good = single(draw(2))
    found = submit(store, outcomes, [good[0], bad[0], good[1], bad[1]])
    assert found[0] == found[2] == ""
    assert "cannot have made these reports" in found[1]
    assert found[3]
    store.close()
    assert len(sealed(tmp_path)) == 2


def test_few_reports_are_held_for_the_next_start(tmp_path):
    rules = RULES._replace(least=10)
    store, outcomes = opened(tmp_path, rules)
    submit(store, outcomes, single(draw(9)))
    assert store.close() == "9 reports are held for the next start, because --least is 10"
    assert not list(tmp_path.glob("*.jsonl"))
    store, outcomes = opened(tmp_path, rules)
    assert (store.n_held, store.counts.n_samples) == (9, 9)
    submit(store, outcomes, single(draw(1)))
    assert store.close() == "the last 10 reports are sealed"
    assert len(sealed(tmp_path)) == 10


def test_a_batch_is_sealed_in_time(tmp_path):
    """If it has the least number of reports by then."""
    store, outcomes = opened(tmp_path, RULES._replace(batch_seconds=0.5, least=5))
    submit(store, outcomes, single(draw(4)))
    time.sleep(2)
    assert not list(tmp_path.glob("*.jsonl"))
    submit(store, outcomes, single(draw(1)))
    assert patience(lambda: list(tmp_path.glob("*.jsonl")))
    store.close()


def test_one_process_and_one_collection_at_a_time(tmp_path):
    store, _ = opened(tmp_path)
    with pytest.raises(CheckpointError, match="is in use by process"):
        opened(tmp_path)
    store.close()
    with pytest.raises(ValueError, match="is of another collection: oracle 'OLH' instead of"):
        opened(tmp_path, oracle=GRR(1.0, categories=COLOURS))
    (tmp_path / ".serve" / "x.slots").write_bytes(b"{}")
    with pytest.raises(
        ValueError, match=r"not a file of reports \(slots\) that this release can read"
    ):
        opened(tmp_path)


# ---- a folder that was edited --------------------------------------------------------------------
HELD = RULES._replace(least=30)


@pytest.fixture(scope="module")
def a_folder(tmp_path_factory):
    """A folder with two sealed batches of 40 reports, and 15 reports that are held."""
    folder = tmp_path_factory.mktemp("served")
    store, outcomes = opened(folder, HELD)
    submit(store, outcomes, single(draw(95)))
    assert store.close() == "15 reports are held for the next start, because --least is 30"
    return folder


@pytest.fixture
def own(a_folder, tmp_path):
    """The state of a server in a copy of the folder."""
    shutil.copytree(a_folder, tmp_path / "kept")
    return tmp_path / "kept" / ".serve"


def reopened(own, oracle=ORACLE, collection_round="may"):
    """Start a server with a folder; return the number of its reports, and the server's words."""
    store = Store(own.parent, oracle, collection_round, HELD, Outcomes())
    said = store.open()
    store.close()
    return store.counts.n_samples, said


def test_a_folder_that_nobody_has_edited_is_read_in_silence(own):
    for _ in range(2):
        n, said = reopened(own)
        assert (n, "missing" in said) == (95, False)
    content, _ = state_module.read_state(own / "batches", ORACLE.protocol("may"))
    assert sorted(content.values(), key=str) == [40, 40, None]


def test_only_the_owner_can_read_the_salt(own):
    assert stat.S_IMODE((own / "salt").stat().st_mode) == 0o600


@pytest.mark.parametrize("content", [None, b"", b"x", b"x" * 33], ids=["lost", "0", "1", "33"])
def test_a_salt_of_another_size_is_refused(content, own):
    salt = own / "salt"
    kept = salt.read_bytes()
    salt.unlink()
    if content is not None:
        salt.write_bytes(content)
    with pytest.raises(
        ValueError, match=r"salt must have 32 bytes.* sent again would count twice\. Restore"
    ):
        reopened(own)
    salt.write_bytes(kept)
    assert reopened(own)[0] == 95


def test_the_salt_of_another_folder_is_named(own):
    """It is named once, because the list of batches then has the new salt."""
    (own / "salt").write_bytes(bytes(32))
    n, said = reopened(own)
    assert n == 95
    assert f"{own / 'salt'} is not the file of the last start" in said
    assert "is not the file" not in reopened(own)[1]


@pytest.mark.parametrize("is_salt_left", [False, True])
def test_batches_without_a_state_are_named(is_salt_left, own):
    for path in own.iterdir():
        if path.name != "salt" or not is_salt_left:
            path.unlink()
    n, said = reopened(own)
    assert n == 0
    assert f"{own.parent} has batches, and {own} does not list them" in said
    assert "count twice" in said


@pytest.mark.parametrize("left", ["*.slots", "*.tags", "batches"])
@pytest.mark.parametrize(
    ("oracle", "name", "match"),
    [
        (clone(ORACLE).set_params(epsilon=1.0), "may", "epsilon 2.0 instead of 1.0"),
        (ORACLE, "june", "collection_round 'may' instead of 'june'"),
        (GRR(2.0, categories=COLOURS), "may", "oracle 'OLH' instead of 'GRR'"),
    ],
    ids=["epsilon", "round", "oracle"],
)
def test_each_file_shows_its_collection(left, oracle, name, match, own):
    """Any one kind of files is enough to refuse other options."""
    for path in {*own.glob("*.slots"), *own.glob("*.tags"), own / "batches"} - {*own.glob(left)}:
        path.unlink()
    with pytest.raises(ValueError, match=f"is of another collection: {match}") as refusal:
        reopened(own, oracle, name)
    assert str(next(own.glob(left)).parent) in str(refusal.value)


@pytest.mark.parametrize(
    ("pattern", "n", "words"),
    [
        ("*.tags", 55, "is missing, and its 40 reports are not in the results. Restore it"),
        ("*.slots", 80, "is missing, and its held reports are not in the results. Restore it"),
        ("batches", 95, "is missing, so other missing files cannot be detected"),
    ],
)
def test_a_missing_file_is_named_at_each_start(pattern, n, words, own):
    # Of the files of slots, the fullest one has the 15 reports; the other one is empty.
    path = max(own.glob(pattern), key=lambda one: len(Slots.open(one).read()[1]) if n == 80 else 0)
    content = path.read_bytes()
    path.unlink()
    for _ in range(1 if pattern == "batches" else 2):
        found, said = reopened(own)
        assert found == n
        assert f"{path} {words}" in said
    path.write_bytes(content)
    found, said = reopened(own)
    assert (found, "missing" in said) == (95, False)


def tags_changed(path, change):
    """Change the arrays of a file of tags, with a digest that is right."""
    protocol = ORACLE.protocol("may")
    _, arrays = state_module.read_state(path, protocol)
    arrays = {name: array.copy() for name, array in arrays.items()}
    change(arrays)
    state_module.write_state(path, protocol, **arrays)


def added(name, number):
    def change(arrays):
        arrays[name].ravel()[0] += number

    return change


NOT_THOSE = "the arrays have other types or shapes than expected for 40 reports"
EDITS = {
    "negative": (added("tallies", -100), "a count of reports is"),
    "huge": (added("tallies", 10**14), "a count of reports is"),
    "another size": (added("sizes", 1), "the file has 40 tags for 41 reports"),
    "no tallies": (lambda arrays: arrays.pop("tallies"), "tallies"),
    "another shape": (lambda a: a.update(tallies=a["tallies"][..., :1]), NOT_THOSE),
    "flat": (lambda a: a.update(sizes=a["sizes"].ravel()), NOT_THOSE),
    "fractions": (lambda a: a.update(tallies=a["tallies"] / 2), NOT_THOSE),
    "order": (lambda a: a.update(tags=a["tags"][::-1]), "the tags in the file are not sorted"),
    "tag twice": (
        lambda a: a["tags"].__setitem__(1, a["tags"][0]),
        "the tags in the file are not sorted",
    ),
}


@pytest.mark.parametrize("name", EDITS)
def test_tags_that_cannot_be_are_refused(name, own):
    change, match = EDITS[name]
    path = next(own.glob("*.tags"))
    tags_changed(path, change)
    with pytest.raises(ValueError, match="is damaged or was changed") as refusal:
        reopened(own)
    assert str(path) in str(refusal.value)
    assert match in str(refusal.value)


@pytest.mark.parametrize("kind", ["tags", "slots"])
def test_a_copy_under_another_name_is_refused(kind, own):
    path = next(own.glob(f"*.{kind}"))
    copied = path.with_name(f"{'0' * 32}.{kind}")
    shutil.copy(path, copied)
    with pytest.raises(ValueError, match="was written") as refusal:
        reopened(own)
    assert str(copied) in str(refusal.value)


@pytest.mark.parametrize("kind", ["tags", "batches", "slots"])
def test_damaged_bytes_are_refused_or_harmless(kind, own, seed):
    """A file whose bytes are flipped, or that is cut short, is named; or all reports count.

    The header of a file of slots has no digest: its blanks and its number of seconds may change.
    Whether a slot with another CRC was ever acknowledged cannot be known.
    """
    rng, n_refused = np.random.default_rng(seed), 0
    path = next(path for path in own.iterdir() if kind in path.name)
    content = path.read_bytes()
    end = len(content) if kind != "slots" else content.index(b"}")
    for i in range(40):
        edited = bytearray(content)
        edited[rng.integers(end)] ^= 1 << rng.integers(8)
        path.write_bytes(edited if i % 4 else content[: rng.integers(len(content))])
        try:
            told = f"{reopened(own)[0]} reports"
        except ValueError as error:
            told = str(error)
            n_refused += 1
        assert str(path) in told or told == "95 reports"
    assert n_refused >= (20 if kind == "slots" else 40)


def test_a_header_of_slots_claims_no_memory(own):
    path = next(own.glob("*.slots"))
    head = json.loads(path.read_bytes()[:4096])
    for name, value in [("n_slots", 10**15), ("width", 10**15), ("width", -12), ("n_slots", "9")]:
        text = json.dumps({**head, name: value}).encode().ljust(4096)
        path.write_bytes(text + path.read_bytes()[4096:])
        with pytest.raises(ValueError, match="is damaged|is not a file of reports") as refusal:
            reopened(own)
        assert str(path) in str(refusal.value)


def as_by_an_older_release(own):
    """Write the state as release candidates did: tags of arrays alone, and no list."""
    for path in own.glob("*.tags"):
        _, arrays = state_module.read_state(path, ORACLE.protocol("may"))
        path.write_bytes(pack_arrays({name: arrays[name] for name in ("tags", "tallies", "sizes")}))
    (own / "batches").unlink()


def test_a_folder_of_an_older_release_is_read(own):
    as_by_an_older_release(own)
    n, said = reopened(own)
    assert n == 95
    assert "batches is missing, so other missing files" in said
    n, said = reopened(own)
    assert (n, "missing" in said) == (95, False)
    other = clone(ORACLE).set_params(epsilon=1.0)
    with pytest.raises(ValueError, match="epsilon 2.0 instead of 1.0"):
        reopened(own, other)


def test_a_copy_of_older_tags_is_refused(own):
    as_by_an_older_release(own)
    path = next(own.glob("*.tags"))
    shutil.copy(path, path.with_name(f"{'f' * 32}.tags"))
    with pytest.raises(ValueError, match=r"another file also has its reports\). Restore the file"):
        reopened(own)


def test_older_tags_alone_show_no_collection(own):
    as_by_an_older_release(own)
    for path in own.glob("*.slots"):
        path.unlink()
    with pytest.raises(
        ValueError, match=r"tags is damaged or was changed \(the SHA-256 does not match"
    ):
        reopened(own)


@pytest.mark.parametrize("content", [b"", b'{"n_samples": 50, "rows": []}', b"[1]"])
def test_shown_results_that_were_edited_are_not_shown(content, own):
    """They count as shown all the same, so that the next results have a step more."""
    pytest.importorskip("uvicorn")
    from sklearn_ldp._serve.app import App, Question

    app = App(ORACLE, ORACLE, "may", Question("Which?", "may"), own.parent)
    app.store = Store(own.parent, ORACLE, "may", HELD, Outcomes())
    said = []
    assert not app.read_shown(said.append)
    protocol = ORACLE.protocol("may")
    state_module.write_state(own / "shown", protocol, {"n_samples": 50, "rows": []})
    assert app.read_shown(said.append)
    assert (said, app._results) == ([], {"n_samples": 50, "rows": []})
    app._results = None
    (own / "shown").write_bytes(content)
    assert app.read_shown(said.append)
    assert app._results is None
    assert f"{own / 'shown'} is damaged or was changed" in said[0]
    assert said[0].endswith("Results are shown again after 10 new reports.")


def test_results_change_by_whole_steps(tmp_path):
    """And after a new start by a step more than all that is there."""
    store, outcomes = opened(tmp_path)
    published = set()
    for report in draw(45):
        submit(store, outcomes, single([report]))
        published.add(None if store.published is None else store.published.n_samples)
    assert published == {None, *range(10, 50, 10)}
    store.close()
    again, outcomes = opened(tmp_path, was_shown=True)
    for i, report in enumerate(draw(10)):
        assert again.published is None, i
        submit(again, outcomes, single([report]))
    assert again.published.n_samples == 55
    again.close()
    fresh, _ = opened(tmp_path, was_shown=False)  # nobody has seen anything
    assert fresh.published.n_samples == 55
    fresh.close()


# ---- disks that fail -----------------------------------------------------------------------------
def test_a_full_disk_does_not_end_the_service(tmp_path, monkeypatch):
    """No spare file can be made, and no batch be sealed: posts are refused until there is room."""
    monkeypatch.setattr(store_module, "_RETRY_SECONDS", 0.2)
    store, outcomes = opened(tmp_path)
    submit(store, outcomes, single(draw(30)))
    is_full = threading.Event()
    is_full.set()

    def full(path):
        if is_full.is_set():
            raise OSError(28, "No space left on device", str(path))
        return kept(path)

    kept = store_module.replacing
    for module in (store_module, state_module, slots_module, _report_files):
        monkeypatch.setattr(module, "replacing", full)
    found = submit(store, outcomes, single(draw(100)))
    assert found[:10] == [""] * 10
    assert isinstance(found[-1], OSError)
    is_full.clear()
    assert patience(lambda: submit(store, outcomes, single(draw(1))) == [""])
    n = store.counts.n_samples
    store.close()
    assert store.failure is None
    assert len(sealed(tmp_path)) == n


def test_a_failed_sync_ends_the_service(tmp_path, monkeypatch):
    """What such a disk holds is not known: nothing is acknowledged, then or later."""
    store, outcomes = opened(tmp_path)
    submit(store, outcomes, single(draw(3)))

    def fail(file):
        raise OSError(5, "Input/output error")

    for name in ("fdatasync", "fsync"):
        monkeypatch.setattr(slots_module.os, name, fail, raising=False)
    (found,) = submit(store, outcomes, single(draw(1)))
    assert "Input/output error" in str(found)
    assert store.failure is not None
    monkeypatch.undo()
    store.close()
    store, _ = opened(tmp_path)
    assert store.counts.n_samples in (3, 4)
    store.close()


def test_systems_without_pwrite(tmp_path, monkeypatch):
    for name in ("pwrite", "fdatasync"):
        monkeypatch.delattr(slots_module.os, name, raising=False)
    store, outcomes = opened(tmp_path)
    reports = draw(50)
    submit(store, outcomes, single(reports))
    store.close()
    assert sealed(tmp_path) == sorted(reports)


class Killed(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("step", ["before", "tags", "batch"])
@pytest.mark.parametrize("is_moved", [False, True])
def test_a_crash_between_the_steps_of_sealing(step, is_moved, tmp_path, monkeypatch):
    """All steps are repeated at the next start; a batch that was taken away comes as a repeat."""
    store, outcomes = opened(tmp_path)
    reports = draw(40)
    submit(store, outcomes, single(reports[:39]))
    names = {"before": (Slots, "read"), "tags": (store_module, "write_reports")}
    with monkeypatch.context() as patch:
        owner, name = names.get(step, (Slots, "remove"))
        patch.setattr(owner, name, lambda *_, **__: (_ for _ in ()).throw(Killed()))
        store._later(store._seal, store._present).exception()
    store._stack.close()  # the lock of a process that is gone
    kept = tmp_path / "kept"
    kept.mkdir()
    if is_moved:
        for path in tmp_path.glob("*.jsonl"):
            path.rename(kept / path.name)
    again, outcomes = opened(tmp_path)
    assert again.counts.n_samples == 39
    submit(again, outcomes, single(reports[39:]))
    again.close()
    server = Aggregator(ORACLE, collection_round="may", on_repeat="ignore")
    for path in [*kept.glob("*.jsonl"), *tmp_path.glob("*.jsonl")]:
        aggregate(path, server)
    assert server.n_samples == 40


# ---- power losses --------------------------------------------------------------------------------
class Disk:
    """A log of what was written, from which the disk after a power loss is made."""

    def __init__(self, monkeypatch, waits=True):
        self.log, self.lock = [], threading.Lock()
        replacing, write = store_module.replacing, Slots.write
        sync, remove = Slots.sync, Slots.remove

        @contextmanager
        def logged_file(path):
            with replacing(path) as file:
                yield file
            self.note("file", path, path.read_bytes())

        def logged_write(slots, slot, tag, record):
            write(slots, slot, tag, record)
            size = len(tag) + len(record) + 4
            with open(slots.path, "rb") as file:
                file.seek(4096 + slot * size)
                self.note("write", slots.path, 4096 + slot * size, file.read(size))

        def logged_sync(slots):
            with self.lock:
                n = len(self.log)
            sync(slots)
            if waits:
                self.note("sync", slots.path, n)

        def logged_remove(slots):
            remove(slots)
            self.note("remove", slots.path)

        for module in (store_module, state_module, slots_module, _report_files):
            monkeypatch.setattr(module, "replacing", logged_file)
        monkeypatch.setattr(Slots, "write", logged_write)
        monkeypatch.setattr(Slots, "sync", logged_sync)
        monkeypatch.setattr(Slots, "remove", logged_remove)

    def note(self, *event):
        with self.lock:
            self.log.append(event)

    def after_a_loss(self, events, rng):
        """The files of a disk: of what no sync has waited for, any sectors are there."""
        files, waiting = {}, {}
        for i, (kind, path, *rest) in enumerate(events):
            if kind == "file":
                files[path] = bytearray(rest[0])
            elif kind == "write":
                waiting.setdefault(path, []).append((i, *rest))
            elif kind == "remove":
                if rng.random() < 0.5:  # or the folder was not written yet
                    files.pop(path, None)
            elif kind == "sync":
                for at, place, content in waiting.get(path, []):
                    if at < rest[0] and path in files:
                        files[path][place : place + len(content)] = content
                waiting[path] = [one for one in waiting.get(path, []) if one[0] >= rest[0]]
        for path, writes in waiting.items():
            if path in files:
                newest = bytearray(files[path])
                for _, place, content in writes:
                    newest[place : place + len(content)] = content
                for start in range(0, len(newest), 512):
                    if rng.random() < 0.5:
                        files[path][start : start + 512] = newest[start : start + 512]
        return files


def losses(n, folder, monkeypatch, seed, waits=True):
    """Simulate power losses: all posts are sent again if they were not acknowledged."""
    rng = np.random.default_rng(seed)
    with monkeypatch.context() as patch:
        disk = Disk(patch, waits)
        store, outcomes = opened(folder / "original")
        acknowledged = store._deliver

        def deliver(pairs):
            disk.note("acknowledged", None, [ticket for ticket, _ in pairs])
            acknowledged(pairs)

        store._deliver = deliver
        posts = single(draw(130))
        for i, (nonce, reports) in enumerate(posts):
            store.submit(Post(nonce, reports, i))
            if rng.random() < 0.3:
                patience(lambda i=i: i in outcomes)
        assert patience(lambda: len(outcomes) == len(posts))
        store.close()
    n_lost = 0
    for trial in range(n):
        events = disk.log[: rng.integers(3, len(disk.log) + 1)]
        done = {ticket for kind, _, *rest in events if kind == "acknowledged" for ticket in rest[0]}
        place = folder / f"{trial}"
        for path, content in disk.after_a_loss(events, rng).items():
            target = place / path.relative_to(folder / "original")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        again, outcomes = opened(place)
        assert "missing" not in again.said
        repeated = [post for i, post in enumerate(posts) if i not in done or rng.random() < 0.2]
        assert set(submit(again, outcomes, repeated)) <= {""}
        again.close()
        n_lost += sealed(place) != sorted(report for _, (report,) in posts)
    return n_lost


@pytest.mark.parametrize("n", [10, pytest.param(500, marks=pytest.mark.slow)])
def test_power_losses(n, tmp_path, monkeypatch, seed):
    assert losses(n, tmp_path, monkeypatch, n + seed) == 0


@pytest.mark.slow
def test_a_store_that_acknowledges_too_early_loses(tmp_path, monkeypatch, seed):
    """Negative control of the above: the same, if nothing waits for the disk.

    If half of the losses cost a report, fewer than two of 20 do once in 50,000.
    """
    assert losses(20, tmp_path, monkeypatch, seed, waits=False) > 1


# ---- the order of arrival ------------------------------------------------------------------------
def correlations(folder, reports):
    """Rank correlations of place and arrival, over every file of the folder that has reports."""
    arrival = {tuple(report): i for i, report in enumerate(reports)}
    found = {}
    for path in folder.rglob("*"):
        if path.suffix == ".jsonl":
            rows = read_reports(path, ORACLE, collection_round="may").tolist()
        elif path.suffix == ".slots":
            one = Slots.open(path)
            _, _, records = one.read()
            seeds = np.ascontiguousarray(records[:, :8]).view("<u8").ravel().tolist()
            by_seed = {report[0]: report for report in reports}
            rows = [by_seed[seed] for seed in seeds]
        else:
            continue
        if len(rows) > 100:
            found[path.name] = stats.spearmanr(
                [arrival[tuple(row)] for row in rows], range(len(rows))
            ).statistic
    return found


def ordered_posts(folder):
    store, outcomes = opened(folder, Rules(batch_reports=1000, least=1000))
    reports = draw(1900)
    for start in range(0, len(reports), 20):
        submit(store, outcomes, single(reports[start : start + 20]))
    patience(lambda: list(folder.glob("*.jsonl")))
    store.close()
    return correlations(folder, reports)


def test_no_file_tells_the_order_of_arrival(tmp_path):
    """Two files of about 1,000 reports; at five standard deviations it fails once in 10**6 runs."""
    found = ordered_posts(tmp_path)
    assert len(found) == 2
    assert all(abs(one) < 5 / np.sqrt(900) for one in found.values())


@pytest.mark.slow
def test_slots_in_order_are_found(tmp_path, monkeypatch):
    """Negative control of the above."""
    monkeypatch.setattr(store_module, "shuffled", lambda n: list(range(n)))
    assert any(abs(one) > 0.9 for one in ordered_posts(tmp_path).values())


def test_slots_are_shuffled_uniformly(seed):
    """By chi-square over all orders of four; fails once in 10**6 runs."""
    orders = [tuple(slots_module.shuffled(4)) for _ in range(4800)]
    assert stats.chisquare(np.unique(orders, axis=0, return_counts=True)[1]).pvalue > 1e-6
    assert len(set(orders)) == 24
