"""The cases of the corpus: a directory before and after one operation of the real storage engine (cases/README.md)."""

from __future__ import annotations

import json
import os
import shutil
import struct
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.support.corpus import corpus_directory
from tests.support.floors import absent

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


class Case(NamedTuple):
    """One case. `data` is its case.json."""

    name: str
    folder: Path
    data: dict[str, Any]

    @property
    def operation(self) -> str:
        return self.data["operation"]

    @property
    def failed(self) -> str | None:
        """The error with which Kafka itself failed; our engine repairs this."""
        return self.data.get("failed")

    @property
    def is_damaged(self) -> bool:
        """Does the directory before the operation have an invalid batch, or a record set that cannot be decoded?"""
        from engine.record.batch import read_records
        from tests.support.memory_files import MemoryFile

        findings: list[object] = []
        before = (self.folder / self.data.get("beforeDir", "before")).resolve()
        for path in sorted(before.glob("*/*.log")):
            for _ in read_records(MemoryFile(path.name, path.read_bytes()), findings.append):
                pass
        return bool(findings)

    def stage(self, target: Path) -> Path:
        """Copy the directory before the operation into `target` → the partition directory."""
        before = (self.folder / self.data.get("beforeDir", "before")).resolve()
        if before.exists():
            shutil.copytree(before, target, dirs_exist_ok=True)
        else:
            (target / "topic-0").mkdir(parents=True)
        times = self.data.get("mtimes", {})
        for file in target.rglob("*"):
            ms = times.get(file.name, times.get("*"))
            if file.is_file() and ms is not None:
                os.utime(file, ns=(ms * 1_000_000, ms * 1_000_000))
        return next(path for path in sorted(target.iterdir()) if path.is_dir())

    @property
    def expected(self) -> Path:
        return (self.folder / self.data.get("expectedDir", "expected")).resolve()

    def settings(self) -> dict[str, str]:
        """The topic's settings as text."""
        return {name: str(value) for name, value in self.data.get("config", {}).items()}


def cases(operations: frozenset[str] | None = None) -> list[Case]:
    """Every case of the corpus with one of these operations (default: all), by name."""
    top = corpus_directory()
    found: dict[Path, Case] = {}
    for pattern in ("cases", "*/cases", "*/*/cases"):
        for path in top.glob(pattern):
            for file in sorted(path.glob("*/case.json")):
                data = json.loads(file.read_text())
                if "beforeDir" in data and (operations is None or data["operation"] in operations):  # cases of 0.7 have another form
                    found[file] = Case(file.parent.name, file.parent, data)
    return [found[file] for file in sorted(found)]


def case_named(found: Iterable[Case], name: str) -> Case:
    """Return the case of that name. If another corpus (KAFKALOG_CORPUS) does not have it, the test is skipped."""
    for case in found:
        if case.name == name:
            return case
    return absent(f"case {name}")


def differences(want: Path, got: Path) -> list[str]:
    """Return how two trees differ; producer snapshots are equal if they have the same producers in any order."""
    wanted, found = (
        {str(path.relative_to(top)): path.read_bytes() for path in top.rglob("*") if path.is_file() and path.name != ".lock"}
        for top in (want, got)
    )
    lines = [f"left {name}" for name in sorted(found.keys() - wanted.keys())]
    lines += [f"no {name}" for name in sorted(wanted.keys() - found.keys())]
    for name in sorted(wanted.keys() & found.keys()):
        one, other = wanted[name], found[name]
        if one != other and not (".snapshot" in name and _same_producers(one, other)):
            at = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
            lines.append(f"{name} differs at byte {at}: {len(one)} bytes wanted, {len(other)} got")
    return lines


def _same_producers(one: bytes, other: bytes) -> bool:
    if len(one) != len(other) or len(one) < 10 or one[:2] != other[:2]:
        return False
    count = struct.unpack_from(">i", one, 6)[0]
    if count <= 0 or (len(one) - 10) % count:
        return False
    size = (len(one) - 10) // count
    return sorted(one[at : at + size] for at in range(10, len(one), size)) == sorted(
        other[at : at + size] for at in range(10, len(other), size)
    )
