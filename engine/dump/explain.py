"""Explain the bytes of a file: every field in order, with its position, type, value and meaning.

Each byte belongs to one field, except where a sound batch begins inside one with a wrong checksum: it is in both.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import TYPE_CHECKING, Any, NamedTuple

from engine.amounts import count_of
from engine.checkpoint.checkpoints import MAX_CHECKPOINT_SIZE, text_lines
from engine.checkpoint.producer_snapshot import VERSION, ProducerSnapshot
from engine.discovery.names import LOGS, FileKind
from engine.dump.batch_heads import BatchHeads
from engine.dump.explain_log import RecordChoice, batch_fields, torn_fields
from engine.dump.explained import Field, Source, crc_note, none_note, time_note
from engine.dump.renderer import SMALL_FILES, check_log_name, read_small_file
from engine.dump.selection import start_position
from engine.errors import UnreadableFile, UsageError, argument
from engine.findings import Severity
from engine.formats import (
    ABORTED_TXN,
    OFFSET_INDEX_ENTRY,
    PRODUCER_SNAPSHOT_ENTRY,
    PRODUCER_SNAPSHOT_HEADER,
    TIME_INDEX_ENTRY,
    BatchField,
)
from engine.index.sparse import OffsetIndex, TimeIndex
from engine.index.transaction import TransactionIndex
from engine.record.codecs.bounded import MAX_DECOMPRESSED_BYTES
from engine.record.selection import Selection
from engine.record.soundness import resume_after_damage, too_large, unsound_batches
from engine.record.windows import LogWalk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.discovery.names import FileName
    from engine.files import OpenFile, ReadOnlyFiles
    from engine.findings import Finding
    from engine.formats import Layout
    from engine.record.windows import Window

    Report = Callable[[Finding], None]
    Notes = dict[str, Callable[[int], tuple[str, bool]]]

_MEMBER = re.compile(rb'[{,]\s*("(?:[^"\\]|\\.)*")\s*:', re.DOTALL)
_PIECE = 4096  # entries that are read at a time


class Choice(NamedTuple):
    """What is explained of a file. at: what is at this byte; offset: the batch, record or entry with this log offset;
    entry: the batch, entry or line with this number, from 0. All None: everything.

    records  explain each record field by field; with `at` and `offset`, the record there is in any case
    """

    at: int | None = None
    offset: int | None = None
    entry: int | None = None
    records: bool = False
    max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES


def explain(files: ReadOnlyFiles, path: str, name: FileName, choice: Choice, report: Report) -> Iterator[Field]:
    """Return the chosen fields of the file at `path`, in order.

    report  receives the problems of the file
    Raises UnreadableFile, FileChangedWhileReading; UsageError for a file, or a choice, that is not explained.
    """
    with files.open(path) as file:
        size = file.size()
    if choice.at is not None and choice.at >= size:
        what = f"{path}: byte {choice.at} is after the end of the file, which has {count_of(size, 'byte')}"
        raise UsageError(what, "count bytes from 0", path=path)
    kind = name.kind
    if kind in LOGS:
        return _Log(files, path, name, choice, report).fields()
    if kind in _INDEXES:
        return _index(files, path, name, choice, report)
    if kind is FileKind.PRODUCER_SNAPSHOT:
        return _snapshot(files, path, choice, report)
    if kind in SMALL_FILES:
        return _text(files, path, kind, choice, report)
    if kind is FileKind.LOCK:
        return iter(())
    what = f"{path}: a log of Kafka 0.7, which explain does not know"
    raise UsageError(what, f"kafkalog dump-log {argument(path)}", path=path)


# ---- logs


class _Log:
    def __init__(self, files: ReadOnlyFiles, path: str, name: FileName, choice: Choice, report: Report) -> None:
        self._files, self._path, self._name, self._choice, self._report = files, path, name, choice, report
        self._number = 0  # of the next batch

    def fields(self) -> Iterator[Field]:
        """Return the chosen fields."""
        choice = self._choice
        check_log_name(self._path, self._name, self._report)
        with self._files.open(self._path) as file:
            larger = too_large(self._path, file.size())
            if larger is not None:
                self._report(larger)
            walk, resumes = LogWalk(file, self._start(file)), True
            while resumes:
                for window in walk:
                    problems = [finding for _, finding in unsound_batches(self._path, window, codecs=False)]
                    for row in range(window.rows):
                        if self._is_chosen(window, row):
                            position = window.base + window.batches.table[BatchField.POSITION, row]
                            for finding in problems:
                                if finding.where.position == position:
                                    self._report(finding)
                            yield from batch_fields(window, row, self._records(), choice.max_decompressed_bytes)
                            if choice != Choice(records=choice.records, max_decompressed_bytes=choice.max_decompressed_bytes):
                                return
                        self._number += 1
                stop = walk.position
                resumes, findings = resume_after_damage(walk)
                if choice.at is None and choice.offset is None and choice.entry is None:
                    for finding in findings:
                        self._report(finding)
                after = walk.position if resumes else file.size()
                if choice.offset is None and choice.entry is None and (choice.at is None or stop <= choice.at < after):
                    yield from self._between(file, stop, after, "; ".join(finding.what for finding in findings))
                    if choice.at is not None:
                        for finding in findings:
                            self._report(finding)
                        return
        if choice.offset is not None:
            raise UsageError(f"{self._path}: no batch holds offset {choice.offset}", path=self._path)
        if choice.entry is not None:
            raise _no_entry(self._path, "batch", choice.entry, self._number)

    def _records(self) -> RecordChoice | None:
        choice = self._choice
        if choice.at is not None or choice.offset is not None:
            return RecordChoice(choice.at, choice.offset)
        return RecordChoice() if choice.records else None

    def _is_chosen(self, window: Window, row: int) -> bool:
        choice, table = self._choice, window.batches.table
        if choice.at is not None:
            at = window.base + table[BatchField.POSITION, row]
            return bool(at <= choice.at < at + table[BatchField.SIZE, row])
        if choice.offset is not None:
            return bool(choice.offset <= table[BatchField.LAST_OFFSET, row])
        return choice.entry in (None, self._number)

    def _start(self, file: OpenFile) -> int:
        """Return a byte at which a batch begins and before which nothing is chosen, by the offset index; 0 without one."""
        choice, name = self._choice, self._name
        if choice.offset is not None:
            return start_position(self._files, self._path, name, file, Selection(first_offset=choice.offset))
        if choice.at is None or name.kind is not FileKind.LOG or name.base_offset is None or name.suffix:
            return 0
        try:
            index = OffsetIndex.read(self._files, self._path.removesuffix(".log") + ".index", name.base_offset)
        except UnreadableFile:
            return 0
        positions = [entry.position for entry in index][: index.used_entries]
        before = bisect_right(positions, choice.at)
        if not before:
            return 0
        batch = BatchHeads(file).at(positions[before - 1])
        is_ours = not isinstance(batch, str) and batch.base_offset >= name.base_offset
        return positions[before - 1] if is_ours and positions[before - 1] <= choice.at else 0

    def _between(self, file: OpenFile, start: int, end: int, note: str) -> Iterator[Field]:
        """Return the fields of bytes start … end − 1, at which no batch was read."""
        if start < end:
            source = Source(memoryview(file.read(start, min(end - start, _PIECE))), start, ("damage", start))
            for field in torn_fields(source, 0, len(source.data), note):
                last = field.at + field.size == start + len(source.data)
                yield field._replace(size=end - field.at) if last else field


# ---- indexes and snapshots


def _index_notes(kind: FileKind, base_offset: int) -> Notes:
    offset = {"relative_offset": lambda value: (f"offset {base_offset + value}", value < 0)}
    if kind is FileKind.OFFSET_INDEX:
        return {**offset, "position": lambda value: ("", value < 0)}
    if kind is FileKind.TIME_INDEX:
        return {**offset, "timestamp": time_note}
    return {"version": lambda value: ("" if value == 0 else f"Kafka reads version {value >> 8}", value >> 8 != 0)}


_INDEXES: dict[FileKind, tuple[Any, Layout[Any], tuple[str, ...]]] = {
    FileKind.OFFSET_INDEX: (OffsetIndex, OFFSET_INDEX_ENTRY, ("relative_offset",)),
    FileKind.TIME_INDEX: (TimeIndex, TIME_INDEX_ENTRY, ("relative_offset",)),
    FileKind.TRANSACTION_INDEX: (TransactionIndex, ABORTED_TXN, ("first_offset", "last_offset")),
}


def _index(files: ReadOnlyFiles, path: str, name: FileName, choice: Choice, report: Report) -> Iterator[Field]:
    kind_of_index, layout, keys = _INDEXES[name.kind]
    base_offset = name.base_offset or 0
    index = kind_of_index.read(files, path, base_offset)
    used = len(index) if name.kind is FileKind.TRANSACTION_INDEX else index.used_entries
    data, findings = memoryview(index.data), index.sanity()
    wrong = {finding.where.position: finding.what for finding in findings if finding.severity is not Severity.INFO}
    for finding in findings:
        report(finding)
    number = _chosen_entry(path, index, layout, keys, used, choice, base_offset)
    for each in range(used) if number is None else (number,):
        at = each * layout.size
        source = Source(data, 0, ("entry", at))
        fields = list(source.layout(layout, at, min(at + layout.size, len(data)), notes=_index_notes(name.kind, base_offset)))
        if at in wrong:
            fields[0] = fields[0]._replace(note=wrong[at], is_damaged=True)
        yield from fields
    if number is None:
        rest, end = used * layout.size, len(index) * layout.size
        if rest < end:
            yield Source(data, 0, ("unused", rest)).bytes_field("preallocated", rest, end - rest, note="room for more entries")
        yield from Source(data, 0, ("damage", end)).damaged("unknown", end, len(data), "incomplete entry")


def _chosen_entry(
    path: str, index: Any, layout: Layout[Any], keys: tuple[str, ...], used: int, choice: Choice, base_offset: int
) -> int | None:
    """Return the number of the chosen entry; None: all. Raises UsageError if there is no such entry."""
    if choice.offset is not None:
        key = layout.positions[keys[-1]]
        size = layout.fields[keys[-1]].size
        relative = choice.offset - (base_offset if keys == ("relative_offset",) else 0)
        values = [int.from_bytes(index.data[at + key : at + key + size], "big", signed=True)
                  for at in range(0, used * layout.size, layout.size)]  # fmt: skip
        number = bisect_right(values, relative) - 1 if keys == ("relative_offset",) else bisect_right(values, relative - 1)
        if not 0 <= number < used:
            raise UsageError(f"{path}: no entry is for offset {choice.offset}", path=path)
        return number
    if choice.at is not None:
        number = choice.at // layout.size
        return number if number < used else None
    if choice.entry is not None and choice.entry >= used:
        raise _no_entry(path, "entry", choice.entry, used)
    return choice.entry


def _snapshot(files: ReadOnlyFiles, path: str, choice: Choice, report: Report) -> Iterator[Field]:
    if choice.offset is not None:
        raise UsageError(f"{path}: a producer snapshot has no entries by offset: use --entry or --at", path=path)
    snapshot = ProducerSnapshot.read(files, path)
    for finding in snapshot.sanity():
        report(finding)
    head, layout = PRODUCER_SNAPSHOT_HEADER, PRODUCER_SNAPSHOT_ENTRY
    is_valid, last = snapshot.stored_crc == snapshot.computed_crc, snapshot.size - 1
    first = head.positions["entry_count"]
    room = max(0, snapshot.size - head.size)
    notes: Notes = {
        "version": lambda version: ("" if version == VERSION else f"only {VERSION} exists", version != VERSION),
        "crc": lambda crc: (crc_note(crc, is_valid, f"CRC-32C of bytes {first} to {last}"), not is_valid),
        "entry_count": lambda count: (f"room for {room // layout.size} in the file" if count * layout.size != room else "",
                                      count * layout.size != room),
    }  # fmt: skip
    entry_notes: Notes = dict.fromkeys(("last_offset", "coordinator_epoch", "current_txn_first_offset"), none_note)
    entry_notes["timestamp"] = time_note
    number = choice.entry if choice.at is None else (choice.at - head.size) // layout.size
    count = len(snapshot)
    if choice.entry is not None and choice.entry >= count:
        raise _no_entry(path, "entry", choice.entry, count)
    with files.open(path) as file:
        if number is None or number < 0:
            source = Source(memoryview(file.read(0, head.size)), 0, ("header", 0))
            yield from source.layout(head, 0, len(source.data), notes=notes)
        for each in range(count) if number is None else range(max(number, 0), min(number + 1, count)):
            at = head.size + each * layout.size
            source = Source(memoryview(file.read(at, layout.size)), at, ("entry", at))
            yield from source.layout(layout, 0, len(source.data), notes=entry_notes)
        rest = head.size + count * layout.size
        if rest < snapshot.size and (number is None or number >= count):
            source = Source(memoryview(file.read(rest, _PIECE)), rest, ("damage", rest))
            for field in source.damaged("unknown", 0, len(source.data), "bytes after the last entry"):
                yield field._replace(size=snapshot.size - rest)


# ---- text


def _text(files: ReadOnlyFiles, path: str, kind: FileKind, choice: Choice, report: Report) -> Iterator[Field]:
    _, findings = read_small_file(files, path, kind)
    for finding in findings:
        report(finding)
    wrong = {finding.where.position: finding.what for finding in findings}
    data = files.read(path, MAX_CHECKPOINT_SIZE)
    lines = _members(data) if kind in (FileKind.QUORUM_STATE, FileKind.CLEAN_SHUTDOWN) else _lines(data, kind)
    if choice.entry is not None and choice.entry >= len(lines):
        raise _no_entry(path, "line", choice.entry, len(lines))
    for number, (name, at, end, value, meaning) in enumerate(lines):
        if choice.entry not in (None, number) or (choice.at is not None and not at <= choice.at < end):
            continue
        note = wrong.get(at, wrong.get(None, "") if number == 0 else "")
        source = Source(memoryview(data), 0, ("text", 0))
        yield source.field(name, at, end - at, "text", value, note=note, meaning=meaning, is_damaged=bool(note))


_Line = tuple[str, int, int, "str | bytes", str]  # name, start, end, value, meaning


def _lines(data: bytes, kind: FileKind) -> list[_Line]:
    """Return the lines of a checkpoint or of properties."""
    starts = [(line.position, line.text) for line in text_lines(data)]
    ends = [*[start for start, _ in starts], len(data)][1:]
    found: list[_Line] = []
    for number, ((start, text), end) in enumerate(zip(starts, ends, strict=True)):
        value: str | bytes = data[start:end] if text is None else text
        if kind in (FileKind.PARTITION_METADATA, FileKind.META_PROPERTIES):
            name = "comment"
            if text and text[0] not in "#!":
                name, *others = re.split(r"[:=\s]\s*", text, maxsplit=1)
                value = "".join(others)
            meaning = _PROPERTIES.get(name, "")
        else:
            name, meaning = _CHECKPOINT_LINES[min(number, 2)]
            if number >= 2:
                name = f"{name}[{number - 2}]"
                meaning = _CHECKPOINT_ENTRIES.get(kind, "topic, partition, offset")
        found.append((name, start, end, value, meaning))
    return found


_CHECKPOINT_LINES = (("version", ""), ("entry_count", "lines after this one"), ("entries", ""))
_CHECKPOINT_ENTRIES = {
    FileKind.LEADER_EPOCH_CHECKPOINT: "leader epoch, its first offset",
    FileKind.RECOVERY_POINT_CHECKPOINT: "topic, partition, offset up to which the log was flushed",
    FileKind.REPLICATION_CHECKPOINT: "topic, partition, high watermark",
    FileKind.LOG_START_CHECKPOINT: "topic, partition, log start offset",
    FileKind.CLEANER_CHECKPOINT: "topic, partition, offset up to which the log was cleaned",
}
_PROPERTIES = {
    "version": "of the format", "topic_id": "of the topic of this partition", "cluster.id": "of the cluster",
    "node.id": "of the broker or controller", "broker.id": "of the broker", "directory.id": "of this log dir",
    "comment": "ignored",
}  # fmt: skip
_MEMBERS = {
    "clusterId": "of the cluster, unused", "leaderId": "of the leader, −1: none", "leaderEpoch": "of the quorum",
    "votedId": "for which this node voted in this epoch, −1: none", "votedDirectoryId": "log dir of that voter",
    "appliedOffset": "unused", "currentVoters": "the voters of a static quorum", "data_version": "of the format",
    "version": "of the format", "brokerEpoch": "of the broker that stopped",
}  # fmt: skip


def _members(data: bytes) -> list[_Line]:
    """Return the members of a JSON object, each with the punctuation around it; the text as a whole if it is not an object."""
    import json

    try:
        values = json.loads(data)
        assert isinstance(values, dict)
    except (ValueError, RecursionError, AssertionError):
        return [("text", 0, len(data), data, "")] if data else []
    outer = _top_level(data)
    starts = [(match.start(1), json.loads(match[1])) for match in _MEMBER.finditer(data) if match.start(1) in outer]
    found: list[_Line] = []
    for number, (start, name) in enumerate(starts):
        first = 0 if number == 0 else start
        end = starts[number + 1][0] if number + 1 < len(starts) else len(data)
        found.append((name, first, end, json.dumps(values.get(name), ensure_ascii=False), _MEMBERS.get(name, "")))
    return found or [("text", 0, len(data), data, "")]


def _top_level(data: bytes) -> set[int]:
    """Return the positions in a JSON object at which a string begins that is not inside a nested value."""
    found, depth, at = set(), 0, 0
    for match in re.finditer(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]', data, re.DOTALL):
        at = match.start()
        if data[at : at + 1] in (b"{", b"["):
            depth += 1
        elif data[at : at + 1] in (b"}", b"]"):
            depth -= 1
        elif depth == 1:
            found.add(at)
    return found


def _no_entry(path: str, what: str, number: int, count: int) -> UsageError:
    return UsageError(f"{path}: there is no {what} {number}: the file has {count}, counted from 0", path=path)
