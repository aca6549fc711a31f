"""Run the commands of documents: blocks ```console with `$ …` lines and their output."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SHELL = 'kafkalog() { "$KAFKALOG_PYTHON" -m kafkalog_cli.main "$@"; }\n'


class Step(NamedTuple):
    """A command of a document and the lines below it. `…` stands for any text, alone on a line for any lines."""

    line: int
    command: str
    printed: list[str]


def steps(document: Path) -> list[Step]:
    """Every command of a document, in order."""
    text = document.read_text(encoding="utf-8")
    found: list[Step] = []
    for block in _BLOCK.finditer(text):
        at = text.count("\n", 0, block.start(1))
        for number, line in enumerate(block[1].splitlines(), at + 1):
            if line.startswith("$ "):
                found.append(Step(number, line[2:], []))
            elif found:
                found[-1].printed.append(line)
    return found


def run(command: str, directory: Path, status: int = 0) -> tuple[str, int]:
    """Run a command in a shell → (output with stderr, exit status). `$?` is `status`."""
    environment = {**os.environ, "KAFKALOG_PYTHON": sys.executable, "PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8"}
    script = f"{_SHELL}(exit {status})\n{command}"
    done = subprocess.run(["sh", "-c", script], cwd=directory, env=environment, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)  # fmt: skip
    return done.stdout, done.returncode


def pattern(printed: list[str]) -> re.Pattern[str]:
    """Return the pattern for the lines of a document."""
    parts = ["(?:.*\n)*?" if line.strip() == "…" else ".*".join(map(re.escape, line.split("…"))) + " *\n" for line in printed]
    return re.compile("".join(parts))
