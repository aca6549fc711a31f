"""What mutants are made of: the files of the corpus, small, each with the other files of its segment."""

from __future__ import annotations

import hashlib
import struct
from functools import cache
from typing import NamedTuple

from engine.discovery.names import FileKind, parse_file_name
from tests.support.corpus import corpus_directory

LOGS = (FileKind.LOG, FileKind.KRAFT_SNAPSHOT, FileKind.BOOTSTRAP_CHECKPOINT)
_SEGMENT = (FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX)
_LARGEST = 6000  # bytes: small mutants are fast mutants, and damage meets what matters more often


class Seed(NamedTuple):
    """One real file, cut to a few KB at a boundary between entries.

    path     <partition directory>/<name>, since decoders are chosen by the topic
    beside   the log and indexes of the same segment, by path
    """

    path: str
    kind: FileKind
    data: bytes
    beside: dict[str, bytes]


@cache
def seeds() -> tuple[Seed, ...]:
    """Every different file of the corpus, in an order that does not depend on the machine."""
    top = corpus_directory()
    found: dict[tuple[FileKind, bytes], Seed] = {}
    for path in sorted(top.rglob("*")):
        name = parse_file_name(path.name)
        if "logs" not in path.parts or name is None or not path.is_file() or name.kind is FileKind.LOCK:
            continue
        data = shorten(name.kind, path.read_bytes())
        key = name.kind, hashlib.sha256(data).digest()
        if key in found:
            continue
        beside = {}
        if name.kind in _SEGMENT:
            stem = path.name.split(".")[0]
            for kind in _SEGMENT:
                other = path.with_name(stem + kind.value)
                if other != path and other.is_file():
                    beside[f"{path.parent.name}/{other.name}"] = shorten(kind, other.read_bytes())
        found[key] = Seed(f"{path.parent.name}/{path.name}", name.kind, data, beside)
    return tuple(found.values())


@cache
def by_kind() -> dict[FileKind, list[Seed]]:
    """The seeds of each kind."""
    kinds: dict[FileKind, list[Seed]] = {}
    for seed in seeds():
        kinds.setdefault(seed.kind, []).append(seed)
    return kinds


def shorten(kind: FileKind, data: bytes) -> bytes:
    """Whole entries of `data` up to _LARGEST bytes, at least one entry up to ten times that."""
    if len(data) <= _LARGEST:
        return data
    if kind in LOGS or kind is FileKind.LOG_07:
        at, step = 0, (12, 8) if kind in LOGS else (4, 0)
        while len(data) - at >= step[0]:
            size = struct.unpack_from(">i", data, at + step[1])[0] + step[0]
            if size < step[0] or size > len(data) - at or (at and at + size > _LARGEST):
                break
            at += size
        return data[: min(at or _LARGEST, 10 * _LARGEST)]
    entry = {FileKind.OFFSET_INDEX: 8, FileKind.TIME_INDEX: 12}.get(kind, 1)
    return data[: _LARGEST // entry * entry]
