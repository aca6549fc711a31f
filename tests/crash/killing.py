"""Run the program in a process and kill it with SIGKILL after a given time.

A parent process imports all modules of the commands and forks a process for each run, so that the time in which Python starts,
and changes nothing, is not part of a run.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn, Self

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).parents[2]
PACKAGES = ("engine", "kafkalog_cli")
PATIENCE = 120.0  # seconds: a command that takes longer hangs


class Run(NamedTuple):
    """The result of a run. `status` is None if it was killed; `stdout`: its output until then."""

    status: int | None
    seconds: float
    stdout: bytes
    stderr: str


class Program:
    """The parent process. Use it in a `with` statement."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.killing"], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        return self

    def __exit__(self, *_error: object) -> None:
        self._process.communicate()

    def run(self, words: Sequence[str], cwd: Path, *, stdin: Path | None = None, kill_after: float | None = None) -> Run:
        """Run `kafkalog WORDS…` in `cwd`, with its output in files there; kill it after the given seconds if it still runs."""
        asked = {"words": list(words), "cwd": str(cwd), "stdin": str(stdin or os.devnull), "kill_after": kill_after}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        assert not answer["hangs"], f"{words} did not end in {PATIENCE} s"
        return Run(answer["status"], answer["seconds"], (cwd / "stdout").read_bytes(), (cwd / "stderr").read_text(errors="replace"))


def serve() -> None:
    """Read runs from stdin, one per line, and answer each with a line."""
    for package in PACKAGES:
        for found in pkgutil.walk_packages([str(ROOT / package)], f"{package}."):
            if found.name not in ("kafkalog_cli.__main__", "kafkalog_cli.manual"):
                importlib.import_module(found.name)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    for line in sys.stdin:
        asked = json.loads(line)
        heard, ready = os.pipe()
        child = os.fork()
        if not child:
            _become(asked["words"], asked["cwd"], asked["stdin"], ready)
        os.close(ready)
        os.read(heard, 1)
        os.close(heard)
        began = time.monotonic()
        kill_after = asked["kill_after"]
        ended = signal.sigtimedwait({signal.SIGCHLD}, PATIENCE if kill_after is None else kill_after)
        if ended is None:
            os.kill(child, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if ended is None:
            signal.sigtimedwait({signal.SIGCHLD}, 0)
        killed = status == -signal.SIGKILL
        answer = {"status": None if killed else status, "seconds": time.monotonic() - began, "hangs": killed and kill_after is None}
        print(json.dumps(answer), flush=True)


def _become(words: list[str], cwd: str, stdin: str, ready: int) -> NoReturn:
    """Continue this process as the program; close `ready` when its work begins."""
    from kafkalog_cli.main import main

    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
    status = 1
    try:
        os.chdir(cwd)
        for number, (path, flags) in enumerate([(stdin, os.O_RDONLY), ("stdout", os.O_WRONLY), ("stderr", os.O_WRONLY)]):
            os.dup2(os.open(path, flags | (os.O_CREAT | os.O_TRUNC if number else 0), 0o600), number)
        os.close(ready)
        try:
            main(words)
            status = 0
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 1
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        sys.excepthook(*sys.exc_info())
        raise
    finally:
        os._exit(status)


if __name__ == "__main__":
    serve()
