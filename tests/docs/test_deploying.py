"""The page on deployments says what is: its commands and its Python run, in their order."""

import re
import shlex
from pathlib import Path

import pytest

from sklearn_ldp.__main__ import main

PAGE = Path(__file__).parents[2] / "doc" / "deploying.md"


def test_the_page_runs(tmp_path, monkeypatch, capsys):
    pytest.importorskip("pyarrow")
    pytest.importorskip("distributed")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "domain.txt").write_text("red\ngreen\nblue\n")
    (tmp_path / "values.txt").write_text("red\n" * 3000 + "blue\n" * 1000)
    (tmp_path / "reports").mkdir()
    page = PAGE.read_text(encoding="utf-8")
    (domains,) = re.findall(r"```json\n(.*?)```", page, flags=re.DOTALL)
    (tmp_path / "domains.json").write_text(domains)
    (tmp_path / "people.csv").write_text("sex,age,state\n" + "F,3,north\nM,9,south\n" * 2000)
    namespace = {}
    for language, body in re.findall(r"```(python|console)\n(.*?)```", page, flags=re.DOTALL):
        if language == "python":
            exec(compile(body, PAGE.name, "exec"), namespace)
            continue
        for line in body.splitlines():
            program, *argv = shlex.split(line.removeprefix("$ "))
            assert program == "sklearn-ldp"
            assert main([*argv, "--jobs", "1"] if argv[0] == "study" else argv) == 0
    out = capsys.readouterr().out
    assert "[5.824 0.032 0.033]" in out
    assert (tmp_path / "estimate.csv").read_text().count("\n") == 4
    assert (tmp_path / "estimates.csv").read_text().count("\n") == 1 + 2 + 10 + 2
    assert (tmp_path / "errors.csv").read_text().count("\n") == 9
