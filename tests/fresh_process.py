"""Processes that have imported only what scikit-learn imports, forked from one that waits."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

# It forks for each piece of code, which is then run, and ended, as by `python -c`.
_SERVER = """
import json, os, sys
import joblib, numpy, scipy, sklearn.pipeline

job = None
for line in sys.stdin:
    job = json.loads(line)
    pid = os.fork()
    if not pid:
        break
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
else:
    sys.exit()
os.chdir(job["cwd"])
for descriptor, path in enumerate([os.devnull, job["stdout"], job["stderr"]]):
    flags = os.O_WRONLY | os.O_CREAT if descriptor else os.O_RDONLY
    os.dup2(os.open(path, flags), descriptor)
sys.argv = job["argv"]
exec(compile(job["code"], "<fresh process>", "exec"), {"__name__": "__main__"})
"""
_OPTIONS = ["-B", "-W", "error", "-c"]


class FreshProcesses:
    """Runs code in processes of their own; warnings are errors, and no byte code is written."""

    def __init__(self):
        self._server = None

    def run(self, code, *arguments, cwd=".", stdout=None):
        """Return `returncode`, `stdout` and `stderr` of a process.

        `stdout` is the path of what it writes to instead of a file.
        """
        with tempfile.TemporaryDirectory() as folder:
            out, err = Path(folder, "out"), Path(folder, "err")
            out.touch()
            err.touch()
            job = {"code": code, "argv": ["-c", *arguments], "cwd": str(Path(cwd).resolve())}
            job |= {"stdout": str(stdout or out), "stderr": str(err)}
            returncode = self._run_forked(job) if hasattr(os, "fork") else self._run_alone(job)
            return SimpleNamespace(
                returncode=returncode, stdout=out.read_text(), stderr=err.read_text()
            )

    def _run_forked(self, job):
        if self._server is None:
            command = [sys.executable, *_OPTIONS, _SERVER]
            pipe = subprocess.PIPE
            self._server = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
        self._server.stdin.write(json.dumps(job) + "\n")
        self._server.stdin.flush()
        return int(self._server.stdout.readline())

    @staticmethod
    def _run_alone(job):
        command = [sys.executable, *_OPTIONS, job["code"], *job["argv"][1:]]
        with open(job["stdout"], "wb") as out, open(job["stderr"], "wb") as err:
            return subprocess.run(command, cwd=job["cwd"], stdout=out, stderr=err).returncode

    def close(self):
        """End the process that forks."""
        if self._server is not None:
            self._server.communicate(timeout=60)
            self._server = None
