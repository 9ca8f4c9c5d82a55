"""What a release needs: pinned workflows, licences, one place of placeholders, and its check."""

import importlib.util
import re
import shutil
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PINNED = r"[\w./-]+@[0-9a-f]{40} # v\d+(\.\d+)+"


def unpinned(text):
    """Actions of others that no hash with a version beside it pins."""
    used = re.findall(r"uses: (.*)", text)
    return [one for one in used if not re.fullmatch(PINNED, one) and not one.startswith("./")]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned_by_hash(path):
    """Negative controls: an action by its version, and a hash without one."""
    assert unpinned(path.read_text(encoding="utf-8")) == []
    hashed = f"uses: actions/checkout@{'0' * 40}"
    assert unpinned("uses: actions/checkout@v4") == ["actions/checkout@v4"]
    assert unpinned(hashed)
    assert not unpinned(f"{hashed} # v4.1.0")


def jobs(name):
    path = ROOT / ".github" / "workflows" / name
    return yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"]


def test_nothing_is_published_that_was_not_checked_attested_rehearsed_and_approved():
    release = jobs("release.yml")
    assert release["attest"]["needs"] == ["ci", "build"]
    assert release["rehearse"]["needs"] == "attest"
    assert release["publish"]["needs"] == "rehearse"
    assert release["publish"]["environment"] == "index"  # whose reviewers approve
    for name in ("attest", "rehearse", "publish"):
        assert release[name]["if"] == "github.event_name == 'push'"  # of a tag
    writes = {name for name, job in release.items() if job.get("permissions", {}).get("id-token")}
    assert writes == {"attest", "rehearse", "publish"}


# ---- the check -----------------------------------------------------------------------------------
def check():
    spec = importlib.util.spec_from_file_location("check", ROOT / ".ci" / "check_release.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CHECKED = ["CHANGELOG.md", "CITATION.cff", "pyproject.toml", "doc/releasing.md"]


@pytest.fixture
def tree(tmp_path):
    """What the check looks at, as it would be on the day of a release."""
    for name in [*CHECKED, "sklearn_ldp/_version.py"]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    page = tmp_path / "doc" / "releasing.md"
    page.write_text(page.read_text(encoding="utf-8").replace("| placeholder |", "| yes |"))
    with (tmp_path / "pyproject.toml").open("a") as file:
        rows = "".join(f"{name} = 'https://example.org'\n" for name in sorted(check().ADDRESSES))
        file.write(f"[project.urls]\n{rows}")
    (tmp_path / "tests" / "data" / "written" / "1.0.0rc1").mkdir(parents=True)
    (tmp_path / "dist").mkdir()
    licences = ("LICENSE", "NOTICE.md", "x/LICENSE.unicode")
    with zipfile.ZipFile(tmp_path / "dist" / "sklearn_ldp-1.0.0rc1-py3-none-any.whl", "w") as file:
        file.write(tmp_path / "sklearn_ldp" / "_version.py", "sklearn_ldp/_version.py")
        for name in licences:
            file.writestr(f"sklearn_ldp-1.0.0rc1.dist-info/licenses/{name}", "")
    with tarfile.open(tmp_path / "dist" / "sklearn_ldp-1.0.0rc1.tar.gz", "w:gz") as file:
        file.add(tmp_path / "sklearn_ldp", "sklearn_ldp-1.0.0rc1/sklearn_ldp")
    return tmp_path


def test_a_tree_that_lacks_nothing(tree):
    assert check().problems(tree, "v1.0.0rc1") == []


def replaced(name, old, new):
    def change(tree):
        text = (tree / name).read_text(encoding="utf-8")
        assert old in text
        (tree / name).write_text(text.replace(old, new), encoding="utf-8")

    return change


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda tree: None, "The tag is v1.0.0, and the version v1.0.0rc1."),
        (replaced("CHANGELOG.md", "## 1.0.0rc1", "## next"), "CHANGELOG.md does not begin with"),
        (replaced("CITATION.cff", "1.0.0rc1", "0.9"), "CITATION.cff does not say"),
        (replaced("pyproject.toml", "Source", "Home"), "has no \\[project.urls\\] for Source."),
        (replaced("doc/releasing.md", "| yes |", "| placeholder |"), "still has placeholders"),
        (lambda tree: (tree / "tests/data/written/1.0.0rc1").rmdir(), "no files of 1.0.0rc1"),
        (lambda tree: (tree / "dist/sklearn_ldp-1.0.0rc1.tar.gz").unlink(), "dist holds"),
        (
            lambda tree: (tree / "sklearn_ldp/new.csv").touch(),
            "The wheel lacks sklearn_ldp/new.csv",
        ),
    ],
)
def test_what_is_lacking_is_said(change, sentence, tree):
    change(tree)
    assert re.search(sentence, "\n".join(check().problems(tree, "v1.0.0")))


# ---- addresses and licences ----------------------------------------------------------------------
def test_no_address_is_made_up():
    """Placeholders stand on one page; until they are filled in there is no badge and no link."""
    front = ["README.md", "CONTRIBUTING.md", "CODE_OF_CONDUCT.md", "pyproject.toml"]
    pages = [*front, *(f".github/{name}.md" for name in ("SECURITY", "SUPPORT"))]
    for name in pages:
        text = (ROOT / name).read_text(encoding="utf-8")
        assert not re.search(r"github\.(com|io)/|readthedocs|shields\.io|@[\w-]+\.\w+", text), name
    assert "| placeholder |" in (ROOT / "doc" / "releasing.md").read_text(encoding="utf-8")


def unlisted(notice, root):
    """Files of the package that are no code, and that the notice does not name."""
    patterns = re.findall(r"`([\w./*]+)`", notice)
    files = [path for path in root.rglob("*") if path.is_file() and path.suffix != ".py"]
    names = [path.relative_to(root) for path in files if "__pycache__" not in path.parts]
    return [str(n) for n in names if n.name != "py.typed" and not any(map(n.match, patterns))]


def test_the_licence_of_every_file_of_data_is_told():
    notice = (ROOT / "NOTICE.md").read_text(encoding="utf-8")
    assert unlisted(notice, ROOT / "sklearn_ldp") == []
    without = notice.replace("us_states_2020", "")
    assert unlisted(without, ROOT / "sklearn_ldp") == ["datasets/data/us_states_2020.csv"]
