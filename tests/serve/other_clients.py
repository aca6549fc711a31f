"""Clients that are not written in Python: `python -m tests.serve.other_clients [LIBRARY…]` builds them, tests run them.

Their libraries come through the Go module proxy and npm, and are built once for each content of `clients`. Only the standard
library is imported: CI builds two of them while it makes the environment for everything else.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.s3.server import new_enough_go

SOURCES = Path(__file__).with_name("clients")
_DIGEST = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(SOURCES.rglob("*")) if path.is_file())).hexdigest()[:12]
HERE = Path(__file__).resolve().parents[2] / "build" / f"clients-{_DIGEST}"
IN_GO = ("franz-go", "sarama", "kafka-go")
IN_JAVASCRIPT = ("kafkajs@2.2.4", "kafkajs-snappy@1.1.0", "lz4js@0.2.0", "fzstd@0.1.1")
SECONDS = 120


def program(library: str) -> Path:
    """What is built of a library."""
    return HERE / "node_modules/kafkajs" if library == "kafkajs" else HERE / library


def build(library: str) -> None:
    """Build the program of a library, unless it is there."""
    if program(library).exists():
        return
    tool, package = ("npm", "npm") if library == "kafkajs" else ("go", "golang-go")
    if shutil.which(tool) is None:
        sys.exit(f"{tool} is not on the PATH: apt-get install {package}")
    HERE.mkdir(parents=True, exist_ok=True)
    if library == "kafkajs":
        words = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(HERE), *IN_JAVASCRIPT]
        subprocess.run(words, check=True)
    else:
        words = ["build", "-p", "2", "-trimpath", "-ldflags=-s -w", "-o", str(HERE / library), f"./{library}"]
        subprocess.run([new_enough_go(), *words], check=True, cwd=SOURCES, env={**os.environ, "GOTOOLCHAIN": "auto"})


def _command(library: str) -> list[str]:
    if library == "java":
        from tests.oracle.jvm import OPTIONS, class_path

        return ["java", *OPTIONS, "-cp", class_path(), "kafkalog.oracle.Consume"]
    return ["node", str(SOURCES / "kafkajs.js")] if library == "kafkajs" else [str(program(library))]


def rows(library: str, *words: object) -> list[dict[str, Any]]:
    """The records that a client reads. `words`: see clients/reading/reading.go."""
    environment = {**os.environ, "CLIENTS": str(HERE)}
    done = subprocess.run([*_command(library), *map(str, words)], capture_output=True, text=True, timeout=SECONDS, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


if __name__ == "__main__":
    for name in sys.argv[1:] or (*IN_GO, "kafkajs"):
        build(name)
