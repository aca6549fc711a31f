"""The cases of the corpus: a directory before and after one operation of the real storage engine (cases/README.md)."""

from __future__ import annotations

import json
import os
import shutil
import struct
from typing import TYPE_CHECKING, Any, NamedTuple

from engine.formats import BATCH_HEADER, CODEC_MASK, LOG_OVERHEAD, MAGIC_V2
from engine.record.codecs import inflate
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
        """What Kafka itself failed with; ours repairs."""
        return self.data.get("failed")

    @property
    def is_damaged(self) -> bool:
        """Is a batch of the directory before the operation not sound, or its record set undecodable?"""
        from engine.record.batch import read_records
        from tests.support.memory_files import MemoryFile

        findings: list[object] = []
        before = (self.folder / self.data.get("beforeDir", "before")).resolve()
        for path in sorted(before.glob("*/*.log")):
            for _ in read_records(MemoryFile(path.name, path.read_bytes()), findings.append):
                pass
        return bool(findings)

    def stage(self, target: Path) -> Path:
        """Lay the directory before the operation into `target`; returns the partition directory."""
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
                if "beforeDir" in data and (operations is None or data["operation"] in operations):  # 0.7 speaks another way
                    found[file] = Case(file.parent.name, file.parent, data)
    return [found[file] for file in sorted(found)]


def case_named(found: Iterable[Case], name: str) -> Case:
    """The one of that name. Another corpus (KAFKALOG_CORPUS) may have none: that skips the test; the project's own has each."""
    for case in found:
        if case.name == name:
            return case
    return absent(f"case {name}")


def differences(want: Path, got: Path, *, inflated: bool = False) -> list[str]:
    """How two trees differ; producer snapshots are equal when they hold the same producers in any order.

    inflated  compare what compressed batches hold, not their compressed bytes, sizes and checksums, nor the positions of
              such batches: without compiled kernels the codec libraries write other bytes than Kafka's
    """
    wanted, found = (
        {str(path.relative_to(top)): path.read_bytes() for path in top.rglob("*") if path.is_file() and path.name != ".lock"}
        for top in (want, got)
    )
    lines = [f"left {name}" for name in sorted(found.keys() - wanted.keys())]
    lines += [f"no {name}" for name in sorted(wanted.keys() - found.keys())]
    recompressed: set[str] = set()
    for name in sorted(wanted.keys() & found.keys(), key=lambda name: (".log" not in name, name)):
        one, other = wanted[name], found[name]
        if inflated and ".log" in name and one != other and _inflated(one) == _inflated(other):
            recompressed.add(name.partition(".")[0])
            continue
        if ".index" in name and name.partition(".")[0] in recompressed:
            continue
        if one != other and not (".snapshot" in name and _same_producers(one, other)):
            at = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
            lines.append(f"{name} differs at byte {at}: {len(one)} bytes wanted, {len(other)} got")
    return lines


def _inflated(data: bytes) -> list[tuple[bytes, ...]]:
    """The v2 batches of a log: header without size and checksum, records inflated."""
    found, at = [], 0
    while at < len(data):
        size = LOG_OVERHEAD + struct.unpack_from(">i", data, at + BATCH_HEADER.positions["batch_length"])[0]
        assert data[at + BATCH_HEADER.positions["magic"]] == MAGIC_V2
        header, body = data[at : at + BATCH_HEADER.size], data[at + BATCH_HEADER.size : at + size]
        codec = header[BATCH_HEADER.positions["attributes"] + 1] & CODEC_MASK
        records = bytes(inflate(codec, memoryview(body), 1 << 24).data) if codec and body else body
        crc_at = BATCH_HEADER.positions["crc"]
        found.append((header[:8], header[12:crc_at], header[crc_at + 4 :], records))
        at += size
    return found


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
