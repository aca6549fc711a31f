"""Read partition directories without the tested engine: batches, checkpoints, snapshots, fingerprints."""

from __future__ import annotations

import hashlib
import shutil
import struct
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from crc32c import crc32c

from tests.damage.truth import Batch, truth

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

CLEAN_MARKER = ".kafka_cleanshutdown"
CHECKPOINTS = {
    "recovery_point": "recovery-point-offset-checkpoint",
    "high_watermark": "replication-offset-checkpoint",
    "log_start": "log-start-offset-checkpoint",
}
_HEADER, _CRC_AT, _CHECKED_FROM = 61, 17, 21  # of a batch of format 2
_SNAPSHOT, _TIMESTAMP = struct.Struct(">hii"), struct.Struct(">q")  # version, CRC, number of entries; last timestamp of one
_EXPIRE_AFTER_MS = 24 * 3600 * 1000  # producer.id.expiration.ms
Tree = dict[str, bytes | None]


class PartitionPath(NamedTuple):
    """A batch at bytes [start, end) of a .log, with its first and last offset and its checksum."""

    start: int
    end: int
    first: int
    last: int
    crc: int


@lru_cache(maxsize=4096)
def places_in(data: bytes) -> tuple[PartitionPath, ...]:
    """Return every batch of format 2 with a right checksum, at any position."""
    found: list[PartitionPath] = []
    at = 0
    while at + _HEADER <= len(data):
        base, length = struct.unpack_from(">qi", data, at)
        if data[at + 16] == 2 and _HEADER - 12 <= length <= len(data) - at - 12:
            (stored,) = struct.unpack_from(">I", data, at + _CRC_AT)
            if crc32c(data[at + _CHECKED_FROM : at + 12 + length]) == stored:
                found.append(PartitionPath(at, at + 12 + length, base, base + struct.unpack_from(">i", data, at + 23)[0], stored))
                at += 12 + length
                continue
        at += 1
    return tuple(found)


def batches_in(data: bytes) -> tuple[Batch, ...]:
    """Return the batches without their positions."""
    return tuple(place[2:] for place in places_in(data))


def sound_batches(partition: Path) -> dict[tuple[int, int], int]:
    """Return {(base offset, CRC): last offset} of the valid batches in the logs of a partition."""
    return {
        (base, crc): last
        for file in sorted(partition.glob("*.log"))
        if file.is_file()
        for base, last, crc in batches_in(file.read_bytes())
    }


def bases_left(partition: Path | None, original: list[Batch]) -> set[int]:
    """Return the base offsets of the original batches that are still in the logs of a partition."""
    have = sound_batches(partition) if partition else {}
    return {base for base, _, crc in original if (base, crc) in have}


def first_backwards(partition: Path) -> str | None:
    """Return the first position at which the offsets of a log decrease."""
    end = 0
    for file in sorted(partition.glob("*.log")):
        for base, last, _ in batches_in(file.read_bytes()):
            if base < end:
                return f"offset {base} after {end - 1} in {file.name}"
            end = last + 1
    return None


def checkpoints_of(partition: Path) -> dict[str, int]:
    """Return a partition's entries in the checkpoints of its log dir; unreadable checkpoints are ignored."""
    said: dict[str, int] = {}
    for kind, name in CHECKPOINTS.items():
        try:
            lines = [line.rsplit(" ", 2) for line in (partition.parent / name).read_text().splitlines()[2:] if line]
            offsets = {f"{topic}-{number}": int(offset) for topic, number, offset in lines}
        except (OSError, ValueError):
            continue
        if partition.name in offsets:
            said[kind] = offsets[partition.name]
    return said


def snapshot_rows(data: bytes) -> list[bytes]:
    """Return the entries of a producer snapshot; none if it is not valid."""
    if len(data) < _SNAPSHOT.size:
        return []
    version, _, count = _SNAPSHOT.unpack_from(data)
    if count <= 0 or version not in (1, 2) or (len(data) - _SNAPSHOT.size) % count:
        return []
    size = (len(data) - _SNAPSHOT.size) // count
    return [data[at : at + size] for at in range(_SNAPSHOT.size, len(data), size)]


def last_offsets(data: bytes) -> set[int]:
    """Return the last offsets in a producer snapshot."""
    return {struct.unpack_from(">q", row, 14)[0] for row in snapshot_rows(data) if len(row) >= 22}


def without_expired(before: Tree, after: Tree) -> Tree:
    """Return `after`, with the previous content of snapshots that lost only expired producers.

    As in Kafka, expired producers are dropped when a snapshot is read, but not when the state is built from batches.
    """
    return after | {name: before[name] for name in before.keys() & after.keys() if _lost_expired(before[name], after[name])}


def _lost_expired(old: bytes | None, new: bytes | None) -> bool:
    had, has = set(snapshot_rows(old or b"")), set(snapshot_rows(new or b""))
    last_time = int(now()) - _EXPIRE_AFTER_MS
    return has < had and all(_TIMESTAMP.unpack_from(row, 26)[0] <= last_time for row in had - has)


def fingerprint(path: Path) -> list[Any]:
    """Return [size, SHA-256] of a file. The entries of a producer snapshot are sorted first, since their order is irrelevant."""
    data = path.read_bytes()
    rows = snapshot_rows(data) if path.suffix == ".snapshot" else []
    told = data[:2] + data[6:10] + b"".join(sorted(rows)) if rows else data
    return [len(data), hashlib.sha256(told).hexdigest()]


def tree(top: Path) -> Tree:
    """Return {relative path: bytes} of all files below a directory except locks; directories end in / and have None."""
    return {
        str(path.relative_to(top)) + ("/" if path.is_dir() else ""): None if path.is_dir() else path.read_bytes()
        for path in top.rglob("*")
        if path.name != ".lock"
    }


def compare(want: Tree, got: Tree) -> dict[str, list[str]]:
    """Return {partition, or file of a log dir: how it differs}."""
    found: dict[str, list[str]] = {}
    for name in sorted(want.keys() | got.keys()):
        if name in want and name in got and want[name] == got[name]:
            continue
        parts = name.strip("/").split("/")
        where = parts[1] if len(parts) > 2 or name.endswith("/") else "/".join(parts)
        if name not in got:
            what = "missing"
        elif name not in want:
            what = "new"
        else:
            what = f"{len(want[name] or b'')} → {len(got[name] or b'')} bytes"
        found.setdefault(where, []).append(f"{parts[-1]} {what}")
    return found


def copy_log_dirs(source: Path, target: Path) -> Path:
    """Copy the log dirs d0, d1 of `source` into `target`, which is replaced."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for log_dir in sorted(source.glob("d?")):
        shutil.copytree(log_dir, target / log_dir.name)
    return target


def prepare(mode: str, top: Path) -> None:
    """Prepare the log dirs below `top` for an unclean, full or clean start."""
    for log_dir in sorted(top.glob("d?")):
        if mode != "clean":
            (log_dir / CLEAN_MARKER).unlink(missing_ok=True)
        if mode == "full":
            (log_dir / CHECKPOINTS["recovery_point"]).unlink(missing_ok=True)


def partition_in(top: Path, name: str) -> Path | None:
    """Return the directory of a partition in one of the log dirs, under a -stray name if it was renamed."""
    return next((path for pattern in (f"d?/{name}.*-stray", f"d?/{name}") for path in sorted(top.glob(pattern))), None)


def broker_differs(left: dict[str, Any], partition: Path) -> list[str]:
    """Return how a directory differs from what the broker left.

    Files that end in .deleted are ignored: the broker removes them later, recover at once. In a partition that the broker
    renamed to -stray, or never closed, only the logs are compared.
    """
    only_logs = left.get("stray")

    def counts(name: str) -> bool:
        if only_logs:
            return name.endswith(".log")
        return not name.endswith(".deleted") and name not in ("leader-epoch-checkpoint", ".lock")

    files = {path.name: path for path in partition.iterdir() if path.is_file() and counts(path.name)}
    want = {name: print_ for name, print_ in left["files"].items() if counts(name)}
    differ = [f"only the broker has {name}" for name in sorted(want.keys() - files.keys())]
    differ += [f"only kafkalog has {name}" for name in sorted(files.keys() - want.keys())]
    for name in sorted(want.keys() & files.keys()):
        mine = fingerprint(files[name])
        if mine != want[name]:
            other = ", other content" if mine[0] == want[name][0] else ""
            differ.append(f"{name}: broker {want[name][0]} bytes, kafkalog {mine[0]}{other}")
    epochs = partition / "leader-epoch-checkpoint"
    lines = epochs.read_text(errors="replace").splitlines()[2:] if epochs.exists() else []
    if not only_logs and left["epochs"] and not _same_epochs(lines, left["epochs"]):
        differ.append(f"leader epochs: broker {left['epochs'][:-1]} and its new one, kafkalog {lines}")
    return differ


def _same_epochs(mine: list[str], broker: list[str]) -> bool:
    """Do our lines become the broker's when its new epoch (its last line) is assigned, which removes later epochs and offsets?"""
    try:
        (new_epoch, new_offset), parsed = map(int, broker[-1].split()), [tuple(map(int, line.split())) for line in mine]
    except ValueError:
        return False
    return mine == broker or [f"{epoch} {at}" for epoch, at in parsed if epoch < new_epoch and at < new_offset] == broker[:-1]


def ranges(offsets: Iterable[int]) -> str:
    """Format offsets as text: 1-3, 7."""
    found: list[list[int]] = []
    for offset in sorted(set(offsets)):
        if found and offset == found[-1][1] + 1:
            found[-1][1] = offset
        else:
            found.append([offset, offset])
    return ", ".join(f"{first}-{last}" if first != last else str(first) for first, last in found)


def now() -> str:
    """--now for every command: producers expire by it."""
    return str(truth()["now_ms"])
