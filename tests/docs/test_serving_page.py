"""The commands of the page on serving run in their order, up to the data frame and the plot."""

import json
import os
import re
import secrets
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from serving import end, get, patience, post

from sklearn_ldp import best_oracle
from sklearn_ldp.__main__ import main

pytest.importorskip("uvicorn")

PAGE = Path(__file__).parents[2] / "doc" / "serving.md"


def commands():
    text = PAGE.read_text(encoding="utf-8").replace("\\\n", " ")
    blocks = re.findall(r"```(?:sh|console)\n(.*?)```", text, flags=re.DOTALL)
    lines = [line.removeprefix("$ ") for block in blocks for line in block.splitlines()]
    return [shlex.split(line)[1:] for line in lines if "sklearn-ldp " in line]


def test_the_values_of_the_command_stand_in_one_place():
    """A reader with another round, epsilon or port changes one line of Python for each."""
    code = "".join(re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), flags=re.DOTALL))
    for value in ('"may"', "1.0", "8000"):
        assert code.count(value) == 1, value


@pytest.mark.pages
def test_from_a_page_to_a_picture(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    listed = ["Chrome", "Safari", "Firefox"]
    Path("domain.txt").write_text("\n".join(listed) + "\n")
    demo, serve, aggregate, estimate = commands()
    vote, load = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), flags=re.DOTALL)
    names = {}
    assert demo == ["serve", "--demo"]  # tests/serve/test_serve.py runs it
    argv = [sys.executable, "-m", "sklearn_ldp", *serve, "--port", "0"]
    process = subprocess.Popen(
        argv,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(PAGE.parents[1])},
    )
    try:
        port = int(process.stdout.readline().split("/ asks")[0].rpartition(":")[2])
        assert json.loads(get(port, "/estimate.json")[2])["n_samples"] == 0
        exec(compile(vote.replace("8000", str(port)), "serving.md", "exec"), names)
        shown = json.loads(get(port, "/estimate.json")[2])
        assert shown["n_samples"] == 50  # the page says: 50 by default
        assert "all looks" in shown["interval"]
        oracle = best_oracle(1.0, listed)
        reports = oracle.privatize(["Chrome"] * 900 + ["Safari"] * 100).tolist()
        body = {"configuration": oracle.protocol("may").configuration, "reports": reports}
        assert post(port, {**body, "nonce": secrets.token_hex(16)})[0] == 204
    finally:
        code, _ = end(process)
    assert code == 130  # ended by Ctrl-C
    assert patience(lambda: list(Path("reports").glob("*.jsonl")))
    assert main(aggregate) == 0
    assert main(estimate) == 0
    assert "reports: 1060" in capsys.readouterr().out
    page = Path("report.html").read_text(encoding="utf-8")
    assert "<svg" in page
    assert "Chrome" in page
    assert Path("browsers.png").read_bytes().startswith(b"\x89PNG")
    Path("browsers.png").unlink()
    exec(compile(load, "serving.md", "exec"), names)
    assert names["table"]["category"].tolist() == listed
    assert names["server"].n_samples == 1060
    widths = [row["high"] - row["low"] for row in names["rows_at_all_times"]]
    assert (widths > names["table"]["high"] - names["table"]["low"]).all()
    assert Path("browsers.png").read_bytes().startswith(b"\x89PNG")
