"""Say what a release still lacks: ``check_release.py [--tag v1.2.3]``, after ``make wheel``.

It looks at the version, the changelog, the citation, the addresses, the files of today's formats,
and into the wheel and the sdist in ``dist``.
"""

import argparse
import re
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

ADDRESSES = {"Documentation", "Source", "Issues", "Changelog"}


def problems(root: Path, tag: str | None = None) -> list[str]:
    """Everything that keeps this tree from being released, a sentence each."""

    def text(name: str) -> str:
        return (root / name).read_text(encoding="utf-8")

    version = re.search(r'__version__ = "(.*)"', text("sklearn_ldp/_version.py"))[1]
    project = tomllib.loads(text("pyproject.toml"))["project"]
    headings = re.findall(r"^## (\S+)", text("CHANGELOG.md"), re.MULTILINE)
    lacking = ADDRESSES - set(project.get("urls", {}))
    checks = {
        f"The tag is {tag}, and the version v{version}.": tag not in (None, f"v{version}"),
        f"The version {version} is none that an index takes as a release or a candidate.": not (
            re.fullmatch(r"\d+\.\d+\.\d+(rc\d+)?", version)
        ),
        f"CHANGELOG.md does not begin with {version}.": headings[:1] != [version],
        f"CITATION.cff does not say {version}.": f"\nversion: {version}\n"
        not in text("CITATION.cff"),
        f"pyproject.toml has no [project.urls] for {', '.join(sorted(lacking))}.": bool(lacking),
        "doc/releasing.md still has placeholders.": "| placeholder |" in text("doc/releasing.md"),
        f"tests/data/written has no files of {version}: make formats.": not (
            root / "tests" / "data" / "written" / version
        ).is_dir(),
    }
    return [sentence for sentence, fails in checks.items() if fails] + of_dist(root, version)


def of_dist(root: Path, version: str) -> list[str]:
    """What is wrong with the wheel and the sdist."""
    names = {f"sklearn_ldp-{version}-py3-none-any.whl", f"sklearn_ldp-{version}.tar.gz"}
    found = {path.name for path in (root / "dist").glob("*")} if (root / "dist").is_dir() else set()
    if found != names:
        return [f"dist holds {sorted(found)}, expected {sorted(names)}: make wheel."]
    tracked = {
        path.relative_to(root).as_posix()
        for path in (root / "sklearn_ldp").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    wheel, sdist = sorted(names)
    with zipfile.ZipFile(root / "dist" / wheel) as file:
        packed = set(file.namelist())
    with tarfile.open(root / "dist" / sdist) as file:
        source = {name.partition("/")[2] for name in file.getnames()}
    licences = ["LICENSE", "NOTICE.md", "LICENSE.unicode"]
    absent = [one for one in licences if not any(n.endswith(f"/{one}") for n in packed)]
    return [
        *(f"The wheel lacks {name}." for name in sorted(tracked - packed)),
        *(f"The sdist lacks {name}." for name in sorted(tracked - source)),
        *(f"The wheel lacks the licence {name}." for name in absent),
    ]


def main() -> int:
    """Print the problems; 1 if there are any."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tag", help="the tag that is being released")
    found = problems(Path.cwd(), parser.parse_args().tag)
    print("\n".join(found) or "Nothing is lacking.")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
