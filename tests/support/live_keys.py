"""A model of what a compacted log must keep, the last record of every key, and a comparison of two logs by it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from engine.record.batch import read_records
from tests.support.memory_files import MemoryFile

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from engine.record.batch import Record


class Last(NamedTuple):
    """The last record of a key, for read_committed consumers."""

    offset: int
    value: bytes | None
    headers: tuple[object, ...]


def last_records(logs: Mapping[str, bytes]) -> dict[bytes, Last]:
    """Return key → its last record; records of committed and of open transactions count."""
    last: dict[bytes, Last] = {}
    waiting: dict[int, list[Record]] = {}
    for record in _records(logs):
        batch = record.batch
        if batch.is_control:
            records = waiting.pop(batch.producer_id, []) if record.key == b"\0\0\0\1" else waiting.pop(batch.producer_id, [])[:0]
        else:
            records = [record]
            if batch.is_transactional:
                waiting.setdefault(batch.producer_id, []).append(record)
                continue
        _put(last, records)
    _put(last, [record for records in waiting.values() for record in records])
    return last


def lost_keys(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> list[str]:
    """Return the keys whose last record changed. A tombstone may be deleted together with the records before it."""
    wanted, found = last_records(before), last_records(after)
    lines = [f"{key!r}: {record} is lost, {found.get(key)} is left" for key, record in wanted.items()
             if found.get(key) != record and (record.value is not None or key in found)]  # fmt: skip
    return lines + [f"{key!r} came up" for key in found.keys() - wanted.keys()]


def _put(last: dict[bytes, Last], records: list[Record]) -> None:
    for record in records:
        if record.key is not None and (record.key not in last or last[record.key].offset < record.offset):
            last[record.key] = Last(record.offset, record.value, tuple(record.headers))


def _records(logs: Mapping[str, bytes]) -> Iterator[Record]:
    """Records of the logs, in their order."""
    for name in sorted(logs):
        yield from read_records(MemoryFile(name, logs[name]), _sound)


def _sound(finding: object) -> None:
    raise AssertionError(finding)
