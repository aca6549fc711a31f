"""The output of a dump as JSON objects: kernels write batches and records, Python writes all other entries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.checkpoint.checkpoints import EpochEntry, PartitionOffset
from engine.checkpoint.identity import CleanShutdown, MetaProperties, PartitionMetadata, QuorumState
from engine.dump.entries_07 import Entries07, put_entries
from engine.dump.json_stream import put_large_field, text_field
from engine.dump.kernel_renderer import Form, KernelRenderer
from engine.dump.record_text import decoder_failure, decoder_for
from engine.formats import AbortedTxn, ControlType, ProducerSnapshotEntry, RecordField, Status
from engine.index.sparse import TimeIndex
from engine.java.strings import java_utf8
from engine.kernels.fields import ARRAY, CONTENTS, ESCAPE, META
from engine.kernels.ndjson import batch_objects, entry_objects, record_objects
from engine.record.control import control_type, end_txn_marker, known_control_type
from engine.schema.decode import control_data

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.discovery.names import FileName, PartitionDir
    from engine.dump.json_stream import JsonStream
    from engine.dump.kernel_renderer import Ending
    from engine.dump.renderer import DumpOptions, Entry
    from engine.dump.selection import Selector
    from engine.files import OpenFile
    from engine.findings import Finding
    from engine.index.sparse import OffsetIndex
    from engine.record.reader import Chunk
    from engine.record.windows import Window

TYPES: dict[type, str] = {
    AbortedTxn: "aborted-txn",
    ProducerSnapshotEntry: "producer",
    EpochEntry: "leader-epoch",
    PartitionOffset: "partition-offset",
    PartitionMetadata: "partition-metadata",
    MetaProperties: "meta-properties",
    CleanShutdown: "clean-shutdown",
    QuorumState: "quorum-state",
}
_FORM = Form(record_objects, headers=b'"headers":[', end=b"}\n", bad_control=b',"control":null}')


class JsonDump:
    """A DumpRenderer that writes JSON objects."""

    def __init__(self, options: DumpOptions, stream: JsonStream, report: Callable[[Finding], None]) -> None:
        self._options, self._stream, self._report = options, stream, report

    def file(self, path: str, name: FileName | None) -> None:
        """Write the object `file`, before the objects of its content."""
        fields: dict[str, object] = {**text_field("path", path), "kind": None}
        if name is not None:
            fields["kind"] = name.kind.name.lower().replace("_", "-")
            fields["base_offset"] = name.base_offset
            if name.epoch is not None:
                fields["epoch"] = name.epoch
            fields["suffix"] = name.suffix
        self._stream.put("file", fields)

    def log(self, path: str, partition: PartitionDir | None) -> JsonRenderer:
        """Return the renderer for the log at `path`."""
        return JsonRenderer(path, partition, self._options, self._stream, self._report)

    def log_07(self, file: OpenFile, path: str, selector: Selector | None) -> None:
        """Write objects `entry-07`, and report their problems."""
        put_entries(Entries07(file, path, self._options, self._report, selector), self._options, self._stream)

    def entry(self, entry: Entry) -> None:
        """Write one entry of a transaction index, a snapshot or a small file."""
        self._stream.put(TYPES[type(entry)], entry._asdict())

    def index_entries(self, index: OffsetIndex | TimeIndex, number: int, end: int) -> None:
        """Write entries as objects, and count them."""
        out, is_time, flags = self._stream.out, isinstance(index, TimeIndex), ARRAY if self._stream.array else 0
        self._stream.counts["time-index-entry" if is_time else "offset-index-entry"] += end - number
        while number < end:
            out.at, number, status = entry_objects(
                out.data, out.at, index.whole, number, end, index.base_offset, is_time, flags
            )
            if status == Status.FULL:
                out.make_room()

    def empty_index(self, _path: str) -> None:
        """Write nothing: an index without entries is a `file` object without others after it."""

    def sound_index(self, _path: str) -> None:
        """Write nothing: a broker would accept the index."""
        self._stream.put("sanity-check", {"passed": True})

    def count(self, path: str | None, records: int, batches: int) -> None:
        """Write the object `count`, without a path for the sum."""
        where: dict[str, object] = {"path": None} if path is None else text_field("path", path)
        self._stream.put("count", {**where, "records": records, "batches": batches})

    def flush(self) -> None:
        """Write the objects so far to the sink."""
        self._stream.out.flush()


class JsonRenderer(KernelRenderer):
    """A LogRenderer that writes batches and records of one log as objects, and counts them."""

    def __init__(
        self, path: str, partition: PartitionDir | None, options: DumpOptions, stream: JsonStream,
        report: Callable[[Finding], None],
    ) -> None:
        super().__init__(_FORM, path, options, stream.out, report)
        self._stream = stream
        self._flags = (ARRAY if stream.array else 0) | (ESCAPE if options.escape else 0)
        contents = CONTENTS if options.print_data else 0
        self._record_flags = self._flags | (0 if options.skip_metadata else META) | contents
        self._decoder = decoder_for(path, partition, options)
        self._decodes = options.print_data and (
            self._decoder is not None or options.key_decoder is not None or options.value_decoder is not None
        )

    def batches(self, window: Window, row: int, last_row: int) -> None:
        """Write objects `batch`."""
        self._stream.counts["batch"] += last_row - row
        super().batches(window, row, last_row)

    def records(self, chunk: Chunk, base: int) -> None:
        """Write objects `batch` and `record`, interleaved. A message shorter than its value is only a finding."""
        chunk = chunk.without_records() if chunk.is_overlong else chunk
        self._stream.counts["batch"] += chunk.last_row - chunk.first_row
        self._stream.counts["record"] += chunk.end - chunk.first
        super().records(chunk, base)

    def trailing(self, count: int) -> None:
        """Write nothing: a finding reports the bytes after the last batch."""

    def _batches(self, window: Window, row: int, last_row: int) -> tuple[int, int, int]:
        done: tuple[int, int, int] = batch_objects(
            self._out.data, self._out.at, window.batches.table, row, last_row, self._flags, window.base
        )
        return done

    def _flags_of(self, _chunk: Chunk) -> int:
        return self._record_flags

    def _ending_of(self, chunk: Chunk) -> Ending | None:
        if chunk.control:
            return self._control
        return self._decoded if self._decodes else None

    def _control_text(self, key: bytes | None, value: bytes | None) -> bytes:
        return self._members({"control": control_object(key, value)})

    def _decoded(self, chunk: Chunk, record: int, base: int) -> bytes:
        key, value = chunk.key(record), chunk.value(record)
        if self._decoder is None:
            return self._members(self._decoded_payloads(chunk, record, base, key, value))
        data = self._decoder.data(chunk.records.table[RecordField.OFFSET, record], key, value)
        if data["problem"] is not None:
            self._finding("record-undecodable", chunk, record, base, str(data["problem"]))
        return self._members({"decoded_key": data["key"], "decoded_value": data["value"]})

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
            except (Exception, SystemExit) as error:  # noqa: BLE001  # becomes a finding
                fields[f"decoded_{name}"] = None
                self._finding("record-undecodable", chunk, record, base, decoder_failure(error))
        return fields

    def _members(self, fields: dict[str, object]) -> bytes:
        """Return the last members of an unfinished object, and its brace."""
        return b"," + self._stream.text(fields)[1:]

    def _put_contents(self, key: memoryview | None, value: memoryview | None, flags: int) -> None:
        for name, data in (("key", key), ("value", value)):
            put_large_field(self._out, name, data, escape=bool(flags & ESCAPE))


def control_object(key: bytes | None, value: bytes | None) -> dict[str, object]:
    """Return the members for a control record. Raises ControlRecordInvalid and SchemaError."""
    kind = control_type(key)
    known = known_control_type(kind)
    if known is None:
        return {"control_type": None, "control_type_id": kind}
    fields: dict[str, object] = {"control_type": known.name, "control_type_id": kind}
    if known in (ControlType.ABORT, ControlType.COMMIT):
        return {**fields, "coordinator_epoch": end_txn_marker(value)}
    return {**fields, "data": control_data(kind, value)}
