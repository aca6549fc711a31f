"""A partition to be damaged: its logs and indexes, the checkpoints of its log dir, an earlier state of it."""

from __future__ import annotations

import os
import shutil
import struct
from typing import TYPE_CHECKING

from tests.damage.evidence import places_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path
    from random import Random

    from tests.damage.evidence import PartitionPath

# by suffix: an entry, and which of its fields has an offset; but in the last one this counts from the base offset of the segment
_ENTRIES = {".index": (struct.Struct(">ii"), 0), ".timeindex": (struct.Struct(">qi"), 1), ".txnindex": (struct.Struct(">hqqqq"), 3)}
INDEXES = tuple(_ENTRIES)


class Log:
    """A .log and the batches in it."""

    def __init__(self, path: Path, random: Random) -> None:
        self.path, self.random = path, random

    @property
    def data(self) -> bytes:
        return self.path.read_bytes()

    @property
    def batches(self) -> tuple[PartitionPath, ...]:
        return places_in(self.data)

    def any(self) -> PartitionPath:
        return self.random.choice(self.batches)

    def inner(self) -> PartitionPath:
        """Return a batch that is neither the first nor the last, if there is one."""
        return self.random.choice(self.batches[1:-1] or self.batches)

    def bytes_of(self, place: PartitionPath) -> bytes:
        return self.data[place.start : place.end]

    def write(self, *parts: bytes) -> None:
        self.path.write_bytes(b"".join(parts))

    def put(self, at: int, new: bytes) -> None:
        """Overwrite the bytes from `at` on with `new`."""
        data = self.data
        self.write(data[:at], new, data[at + len(new) :])

    def replace(self, start: int, end: int, new: bytes = b"") -> None:
        """Replace bytes [start, end) by `new`."""
        self.write(self.data[:start], new, self.data[end:])

    def flip(self, at: int, bits: int) -> None:
        self.put(at, bytes([self.data[at] ^ bits]))

    def append(self, *parts: bytes) -> None:
        self.write(self.data, *parts)

    def index(self, suffix: str) -> Path:
        """Return the path of one of its indexes, or of another file of its segment."""
        return self.path.with_suffix(suffix)

    def files(self, *suffixes: str) -> list[Path]:
        """Return the .log and its existing indexes."""
        return [path for suffix in (suffixes or (".log", *INDEXES)) if (path := self.index(suffix)).exists()]

    def remove(self, *suffixes: str) -> None:
        for path in self.files(*suffixes):
            path.unlink()

    def copy_to(self, path: Path) -> None:
        """Copy the .log and its indexes to `path` and its indexes."""
        for file in self.files():
            shutil.copyfile(file, path.with_suffix(file.suffix))

    def rename_to(self, path: Path) -> None:
        for file in self.files():
            file.rename(path.with_suffix(file.suffix))


class Target:
    """The directory of a partition. `others`: undamaged partitions of another topic; `backup`: an earlier state."""

    def __init__(self, directory: Path, random: Random, others: list[Path], backup: Callable[[Path], object]) -> None:
        self.directory, self.random, self._others, self.go_back = directory, random, others, backup

    def log(self, path: Path) -> Log:
        return Log(path, self.random)

    @property
    def logs(self) -> list[Log]:
        return [self.log(path) for path in sorted(self.directory.glob("*.log"))]

    @property
    def active(self) -> Log:
        return self.logs[-1]

    @property
    def middle(self) -> Log:
        """The largest inner segment with several batches."""
        inner = [log for log in self.logs[1:-1] if len(log.batches) > 3]
        return max(self.random.sample(inner, min(2, len(inner))), key=lambda log: len(log.data))

    @property
    def middle_of_other(self) -> Log:
        """The largest inner segment of another partition."""
        logs = [self.log(path) for path in sorted(self.other.glob("*.log"))]
        return max(logs[1:-1], key=lambda log: len(log.data))

    @property
    def other(self) -> Path:
        return self.random.choice(self._others)

    @property
    def end(self) -> int:
        return max((place.last + 1 for log in self.logs for place in log.batches), default=0)

    def segment(self, base: int) -> Path:
        return self.directory / f"{base:020d}.log"

    def found(self, pattern: str, *, filled: bool = False) -> list[Path]:
        return [path for path in sorted(self.directory.glob(pattern)) if path.stat().st_size or not filled]


def cut_out(log: Log, gone: Iterable[PartitionPath]) -> None:
    """Remove batches from a log, and adjust its indexes, so that only offsets are missing."""
    gone, places, base = set(gone), log.batches, int(log.path.stem)
    moved, at = {}, 0
    for place in places:
        if place not in gone:
            moved[place.last] = at
            at += place.end - place.start
    log.write(*(log.bytes_of(place) for place in places if place not in gone))
    log.index(".index").write_bytes(b"".join(
        _ENTRIES[".index"][0].pack(offset, moved[base + offset])
        for offset, _ in entries_of(log.index(".index")) if base + offset in moved
    ))  # fmt: skip
    log.index(".timeindex").write_bytes(b"".join(
        _ENTRIES[".timeindex"][0].pack(timestamp, offset) for timestamp, offset in entries_of(log.index(".timeindex"))
        if any(place.first <= base + offset <= place.last for place in places if place not in gone)
    ))  # fmt: skip


def entries_of(path: Path) -> list[tuple[int, ...]]:
    """Return the entries of an index."""
    data, (entry, _) = path.read_bytes(), _ENTRIES[path.suffix]
    return [entry.unpack_from(data, at) for at in range(0, len(data) - entry.size + 1, entry.size)]


def read_checkpoint(path: Path) -> dict[str, str]:
    """Return the entries of a checkpoint of a log dir by topic and partition."""
    lines = path.read_text().splitlines()[2:] if path.exists() else []
    return dict(line.rsplit(" ", 1) for line in lines)


def write_checkpoint(path: Path, said: dict[str, str]) -> None:
    path.write_text("".join(f"{line}\n" for line in ["0", str(len(said)), *map(" ".join, said.items())]))


def go_back_to(directory: Path, end: int) -> None:
    """Set the partition back to a backup that was made after a clean stop, when the log ended at offset `end`."""
    for path in sorted(directory.glob("*.snapshot")):
        if int(path.stem) > end:
            path.unlink()
    for path in sorted(directory.glob("*.log")):
        base = int(path.stem)
        places = [place for place in places_in(path.read_bytes()) if place.last < end]
        if base >= end:
            for suffix in (".log", *INDEXES):
                path.with_suffix(suffix).unlink(missing_ok=True)
            continue
        os.truncate(path, places[-1].end if places else 0)
        for suffix, (entry, field) in _ENTRIES.items():
            index, first = path.with_suffix(suffix), 0 if suffix == ".txnindex" else base
            if index.exists():
                index.write_bytes(b"".join(entry.pack(*one) for one in entries_of(index) if first + one[field] < end))
    epochs = directory / "leader-epoch-checkpoint"
    lines = [line for line in epochs.read_text().splitlines()[2:] if int(line.split()[1]) < end]
    epochs.write_text("".join(f"{line}\n" for line in ["0", str(len(lines)), *lines]))
