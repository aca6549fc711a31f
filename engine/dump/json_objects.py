"""What a dump shows, as JSON objects: batches and records by the kernel, everything else entry by entry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.checkpoint.identity import CleanShutdown, MetaProperties, PartitionMetadata, QuorumState
from engine.checkpoint.leader_epochs import EpochEntry
from engine.checkpoint.offsets import PartitionOffset
from engine.dump.entries_07 import Entries07
from engine.dump.json_objects_07 import put_entries
from engine.dump.json_pieces import put_large_field
from engine.dump.json_stream import text_field
from engine.dump.kernel_records import put_head, put_records
from engine.dump.record_text import decoder_failure, decoder_for
from engine.findings import Finding, Where
from engine.formats import AbortedTxn, ControlType, ProducerSnapshotEntry, RecordField, Status
from engine.index.offset import OffsetPosition
from engine.index.time import TimestampOffset
from engine.kernels.fields import ARRAY, CONTENTS, ESCAPE, META, OPEN
from engine.kernels.ndjson import batch_objects, record_objects
from engine.record.control import ControlRecordInvalid, control_type, end_txn_marker, known_control_type
from engine.record.java_text import java_utf8
from engine.schema.decode import SchemaError, control_data

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.dump.entries import Entry
    from engine.dump.json_stream import JsonStream
    from engine.dump.options import DumpOptions
    from engine.dump.selection import Selector
    from engine.files import OpenFile
    from engine.layout import FileName, PartitionDir
    from engine.record.reader import Chunk
    from engine.record.windows import Window

TYPES: dict[type, str] = {
    OffsetPosition: "offset-index-entry",
    TimestampOffset: "time-index-entry",
    AbortedTxn: "aborted-txn",
    ProducerSnapshotEntry: "producer",
    EpochEntry: "leader-epoch",
    PartitionOffset: "partition-offset",
    PartitionMetadata: "partition-metadata",
    MetaProperties: "meta-properties",
    CleanShutdown: "clean-shutdown",
    QuorumState: "quorum-state",
}


class JsonDump:
    """Writes files as objects. A DumpRenderer."""

    def __init__(self, options: DumpOptions, stream: JsonStream, report: Callable[[Finding], None]) -> None:
        self._options, self._stream, self._report = options, stream, report

    def file(self, path: str, name: FileName | None) -> None:
        """The object `file`, in front of everything that is in it."""
        fields: dict[str, object] = {**text_field("path", path), "kind": None}
        if name is not None:
            fields["kind"] = name.kind.name.lower().replace("_", "-")
            fields["base_offset"] = name.base_offset
            if name.epoch is not None:
                fields["epoch"] = name.epoch
            fields["suffix"] = name.suffix
        self._stream.put("file", fields)
        if name is None:
            self._report(Finding("file-ignored", Where(path), "not one of Kafka's files"))

    def log(self, path: str, partition: PartitionDir | None) -> JsonRenderer:
        """What shows the batches of the log at `path`."""
        return JsonRenderer(path, partition, self._options, self._stream, self._report)

    def log_07(self, file: OpenFile, path: str, selector: Selector | None) -> None:
        """Objects `entry-07`, and what is wrong with them."""
        put_entries(Entries07(file, path, self._options, self._report, selector), self._options, self._stream)

    def entry(self, entry: Entry) -> None:
        """One entry of an index, a snapshot or a small file."""
        self._stream.put(TYPES[type(entry)], entry._asdict())

    def empty_index(self, _path: str) -> None:
        """An index without entries is a `file` with nothing behind it."""

    def sound_index(self, _path: str) -> None:
        """The check that a broker makes passed."""
        self._stream.put("sanity-check", {"passed": True})

    def count(self, path: str | None, records: int, batches: int) -> None:
        """The object `count`, without a path for the sum."""
        where: dict[str, object] = {"path": None} if path is None else text_field("path", path)
        self._stream.put("count", {**where, "records": records, "batches": batches})

    def flush(self) -> None:
        """Hand out what was written up to here."""
        self._stream.out.flush()


class JsonRenderer:
    """Writes one log's batches and records as objects. A LogRenderer."""

    def __init__(
        self, path: str, partition: PartitionDir | None, options: DumpOptions, stream: JsonStream,
        report: Callable[[Finding], None],
    ) -> None:
        self._path, self._options, self._stream, self._report = path, options, stream, report
        self._flags = (ARRAY if stream.array else 0) | (ESCAPE if options.escape else 0)
        contents = CONTENTS if options.print_data else 0
        self._record_flags = self._flags | (0 if options.skip_metadata else META) | contents
        self._decoder = decoder_for(path, partition, options)
        self._decodes = options.print_data and (
            self._decoder is not None or options.key_decoder is not None or options.value_decoder is not None
        )

    def batches(self, window: Window, row: int, last_row: int) -> None:
        """Objects `batch` by the kernel."""
        self._stream.counts["batch"] += last_row - row
        out, status = self._stream.out, int(Status.FULL)
        while status == Status.FULL:
            out.at, row, status = batch_objects(
                out.data, out.at, window.batches.table, row, last_row, self._flags, window.base
            )
            if status == Status.FULL:
                out.make_room()

    def records(self, chunk: Chunk, base: int) -> None:
        """Objects `batch` and `record`, interleaved."""
        self._stream.counts["batch"] += chunk.last_row - chunk.first_row
        self._stream.counts["record"] += chunk.end - chunk.first
        if chunk.control:
            self._one_by_one(chunk, base, self._control)
        elif self._decodes:
            self._one_by_one(chunk, base, self._decoded)
        else:
            self._put(chunk, base, chunk.first_row, chunk.last_row, chunk.first, chunk.end, self._record_flags)

    def trailing(self, count: int) -> None:
        """Nothing: a finding tells of the bytes behind the last batch."""

    def _put(
        self, chunk: Chunk, base: int, row: int, last_row: int, record: int, last_record: int, flags: int
    ) -> int:
        """Objects by the kernel → the row whose object is due next."""
        return put_records(
            record_objects, self._put_large, self._stream.out, chunk, base, row, last_row, record, last_record, flags
        )

    def _put_large(self, chunk: Chunk, base: int, record: int, flags: int) -> None:
        """Write a record that an empty buffer has no room for, piece by piece."""
        table = chunk.records.table
        put_head(record_objects, self._stream.out, chunk, base, record, (flags & ~CONTENTS) | OPEN, b'"headers":[')
        for name, position, size in (
            ("key", table[RecordField.KEY_POSITION, record], table[RecordField.KEY_SIZE, record]),
            ("value", table[RecordField.VALUE_POSITION, record], table[RecordField.VALUE_SIZE, record]),
        ):
            if not flags & CONTENTS:
                break
            data = chunk.data[position : position + size] if size >= 0 else None
            put_large_field(self._stream.out, name, data, escape=bool(flags & ESCAPE))
        self._stream.out.put("" if flags & OPEN else "}\n")

    def _one_by_one(self, chunk: Chunk, base: int, fields: Callable[[Chunk, int, int], dict[str, object]]) -> None:
        """Records with fields that are not the kernel's. What is found wrong stands in front of the record."""
        row = chunk.first_row
        flags = self._record_flags | OPEN
        for record in range(chunk.first, chunk.end):
            last_row = chunk.records.table[RecordField.BATCH, record] + 1
            row = self._put(chunk, base, row, last_row, record, record, flags)
            more = fields(chunk, record, base)
            self._put(chunk, base, row, row, record, record + 1, flags)
            text = self._stream.text(more)
            self._stream.out.put((b"," + text[1:] if more else b"}") + b"\n")
        self._put(chunk, base, row, chunk.last_row, chunk.end, chunk.end, flags)

    def _control(self, chunk: Chunk, record: int, base: int) -> dict[str, object]:
        try:
            return {"control": control_object(chunk.key(record), chunk.value(record))}
        except (ControlRecordInvalid, SchemaError) as error:
            self._record_finding("control-record-invalid", chunk, record, base, str(error))
            return {"control": None}

    def _decoded(self, chunk: Chunk, record: int, base: int) -> dict[str, object]:
        key, value = chunk.key(record), chunk.value(record)
        if self._decoder is None:
            return self._decoded_payloads(chunk, record, base, key, value)
        data = self._decoder.data(chunk.records.table[RecordField.OFFSET, record], key, value)
        if data["problem"] is not None:
            self._record_finding("record-undecodable", chunk, record, base, str(data["problem"]))
        return {"decoded_key": data["key"], "decoded_value": data["value"]}

    def _decoded_payloads(
        self, chunk: Chunk, record: int, base: int, key: bytes | None, value: bytes | None
    ) -> dict[str, object]:
        fields: dict[str, object] = {}
        options = self._options
        for name, decode, data in (("key", options.key_decoder, key), ("value", options.value_decoder, value)):
            if decode is None:
                continue
            try:
                fields[f"decoded_{name}"] = None if data is None else java_utf8(decode(data)).decode()
            except BaseException as error:  # noqa: BLE001  # it becomes a finding
                fields[f"decoded_{name}"] = None
                self._record_finding("record-undecodable", chunk, record, base, decoder_failure(error))
        return fields

    def _record_finding(self, code: str, chunk: Chunk, record: int, base: int, what: str) -> None:
        self._report(Finding(code, chunk.where(record, self._path, base), what))


def control_object(key: bytes | None, value: bytes | None) -> dict[str, object]:
    """What a control record says. Raises ControlRecordInvalid and SchemaError."""
    kind = control_type(key)
    known = known_control_type(kind)
    if known is None:
        return {"control_type": None, "control_type_id": kind}
    fields: dict[str, object] = {"control_type": known.name, "control_type_id": kind}
    if known in (ControlType.ABORT, ControlType.COMMIT):
        return {**fields, "coordinator_epoch": end_txn_marker(value)}
    return {**fields, "data": control_data(kind, value)}
