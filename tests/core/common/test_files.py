"""Files: one files writer and one reader behind data sets, collections and the command line."""

import errno
import gzip
import os

import pytest

from sklearn_ldp._core.common import files


def names(folder):
    return sorted(file.name for file in folder.iterdir())


# -- writing --------------------------------------------------------------------------------------
def test_a_name_appears_when_all_is_written(tmp_path):
    path = tmp_path / "out.csv"
    with files.replacing(path) as file:
        file.write(b"new")
        assert not path.exists()
        assert len(names(tmp_path)) == 1  # the temporary file is in the same folder
    assert path.read_bytes() == b"new"
    assert names(tmp_path) == ["out.csv"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, OSError])
def test_a_block_that_fails_leaves_the_older_file(tmp_path, error):
    path = tmp_path / "out.csv"
    path.write_bytes(b"old")

    def write():
        with files.replacing(path) as file:
            file.write(b"half")
            raise error

    with pytest.raises(error):
        write()
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["out.csv"]


@pytest.mark.skipif(os.name != "posix", reason="links need rights elsewhere")
def test_what_a_link_points_to_is_replaced(tmp_path):
    target, link = tmp_path / "far" / "state.npz", tmp_path / "link.npz"
    link.symlink_to(target)
    files.check_writable(link)
    files.make_folder(link)  # of the target
    assert names(tmp_path) == ["far", "link.npz"]
    target.write_bytes(b"old")
    orphan = target.with_name(f".state.npz.{2**30}-0a0a0a0a.tmp")  # of another machine
    orphan.write_bytes(b"half")
    os.utime(orphan, (0, 0))  # left for long
    files.sweep(link)
    with files.replacing(link) as file:
        file.write(b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert names(target.parent) == ["state.npz"]


def start(path):
    files.replacing(path).__enter__()


@pytest.mark.parametrize(
    ("work", "path", "named", "message"),
    [
        (files.check_writable, "file/out.csv", "file/out.csv", "cannot write here"),
        (start, "file/out.csv", "file/out.csv", "cannot write here"),
        (start, "none/out.csv", "none/out.csv", "cannot write here"),
        (start, "", None, "which cannot be replaced"),
        (files.check_writable, "", None, "which cannot be replaced"),
        (files.check_writable, "file/none/out.csv", "file/none", "cannot create this folder"),
        (files.make_folder, "file/none/out.csv", "file/none", "cannot create this folder"),
    ],
)
def test_errors_name_the_file_or_the_folder(tmp_path, work, path, named, message):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OSError, match=message) as caught:
        work(tmp_path / path)
    assert named is None or caught.value.filename == str(tmp_path / named)
    assert names(tmp_path) == ["file"]


def test_asking_writes_nothing_and_folders_are_made(tmp_path):
    """Asking creates none of them, and making one twice is fine."""
    path = tmp_path / "a" / "b" / "out.csv"
    files.check_writable(path)
    assert names(tmp_path) == []
    for _ in range(2):
        files.make_folder(path)
        files.check_writable(path)
        assert names(path.parent) == []
    path.write_bytes(b"old")
    files.check_writable(path)
    assert path.read_bytes() == b"old"
    assert names(path.parent) == ["out.csv"]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_errors_of_the_disk_name_the_file_too(tmp_path, monkeypatch, step):
    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device", ".out.csv.stand-in")

    monkeypatch.setattr(files.os, step, full)
    with (
        pytest.raises(OSError, match="No space left on device") as caught,
        files.replacing(tmp_path / "out.csv"),
    ):
        pass
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, str(tmp_path / "out.csv"))
    assert names(tmp_path) == []


# -- reading --------------------------------------------------------------------------------------
TABLE = b'value,count\n"a, b",1\n\n"two\nlines",2\n'
ROWS = [(1, ["value", "count"]), (2, ["a, b", "1"]), (3, []), (5, ["two\nlines", "2"])]


@pytest.mark.parametrize("content", [TABLE, gzip.compress(TABLE)], ids=["plain", "gzip"])
def test_files_and_bytes_are_read_alike_and_again(tmp_path, content):
    path = tmp_path / "anything"
    path.write_bytes(content)
    for source in (files.Source(path, "it"), files.Source(content, "it")):
        for _ in range(2):
            assert list(source.csv_rows()) == ROWS
        assert "".join(source.lines()).encode() == TABLE
        assert not source.is_parquet


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a,b\n1,2\n\n3\n", r"it, line 4: expected 2 columns as in the header, got 1 columns\."),
        (b'a\n"b\n', "it, line 2: not well-formed CSV"),
        (gzip.compress(TABLE, mtime=0)[:-1], "it is a truncated or damaged gzip file"),
    ],
)
def test_bad_text_is_named_with_its_line(content, message):
    with pytest.raises(ValueError, match=message):
        list(files.Source(content, "it").csv_rows())


def test_an_error_of_gzip_shows_no_content():
    """The error of the standard library shows two bytes of text after a packed file."""
    content = gzip.compress(TABLE) + b"QZ"
    with pytest.raises(ValueError, match="damaged gzip") as plain:
        list(files.Source(content, "it").csv_rows())
    assert "QZ" in str(plain.value.__cause__)  # the negative control
    with files.hidden_cells(), pytest.raises(ValueError, match="damaged gzip") as hidden:
        list(files.Source(content, "it").csv_rows())
    assert "QZ" not in f"{plain.value} {hidden.value}"
    assert hidden.value.__cause__ is None


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_lines_without_an_end_are_not_held(pack):
    """A million bytes of zeros are a kilobyte of gzip. The negative control is a shorter line."""
    with pytest.raises(ValueError, match="it, line 2: expected lines of less than 1,048,576 bytes"):
        list(files.Source(pack(b"a\n" + b"b" * 2**20), "it").lines())
    (line,) = files.Source(pack(b"b" * (2**20 - 1)), "it").lines()
    assert len(line) == 2**20 - 1


def test_columns_of_parquet(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow.parquet import write_table

    path = tmp_path / "table"
    write_table(pa.table({"a": [1, 2], "b": ["x", None]}), path)
    for source in (files.Source(path, "it"), files.Source(path.read_bytes(), "it")):
        assert source.is_parquet
        assert source.parquet_header() == ["a", "b"]
        assert source.parquet_table(["b"]).to_pydict() == {"b": ["x", None]}
        assert source.parquet_table().num_columns == 2
    damaged = files.Source(path.read_bytes()[:-4], "it")
    for read in (damaged.parquet_header, damaged.parquet_table):
        with pytest.raises(ValueError, match="it is a truncated or damaged Parquet file"):
            read()
