"""The sets of the tiered corpus: their log dirs, stores and truth."""

from __future__ import annotations

import base64
import gzip
import json
import os
import shutil
from typing import TYPE_CHECKING

from tests.support.corpus import tiered_corpus

if TYPE_CHECKING:
    from pathlib import Path

TOP = tiered_corpus()
SETS = [name for name in ("clean", "killed", "resumed", "pair", "aiven") if (TOP / name).is_dir()]


def log_dirs(name: str) -> list[str]:
    """The log dirs of a set; of `pair` those of its three brokers."""
    top = TOP / name
    return sorted(map(str, [*top.glob("d?"), *top.glob("n?/d?")]))


def truth(name: str, file: str) -> list[dict]:
    """The rows of a file of truth."""
    path = TOP / name / "truth" / file
    if not path.exists():
        packed = path.with_name(f"{path.name}.gz")
        return [json.loads(line) for line in gzip.decompress(packed.read_bytes()).splitlines()]
    return [json.loads(line) for line in path.read_text().splitlines()]


def damaged(variant: str, target: Path) -> Path:
    """A copy of `clean` with the changes of a damaged variant."""
    shutil.copytree(TOP / "clean", target)
    for path in [target, *target.rglob("*")]:
        path.chmod(path.stat().st_mode | 0o200)
    for line in (TOP / "damaged" / variant / "changes.txt").read_text().splitlines():
        what, name, *rest = line.split("\t")
        _change(target, target / name, what, rest)
    return target


def _change(top: Path, path: Path, what: str, rest: list[str]) -> None:
    if what == "delete":
        path.unlink()
    elif what == "truncate":
        os.truncate(path, int(rest[0]))
    elif what == "flip":
        data = bytearray(path.read_bytes())
        data[int(rest[0])] ^= 1 << int(rest[1])
        path.write_bytes(data)
    elif what == "write":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(rest[0]))
    elif what == "copy":
        (top / rest[0]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, top / rest[0])
    elif what == "rename":
        path.rename(top / rest[0])
    else:
        assert what == "drop-tree"
        shutil.rmtree(path)
