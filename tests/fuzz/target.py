"""Dump one case in this process, with buffers of its size."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from engine.checkpoint.producer_snapshot import ProducerSnapshot
from engine.discovery.names import FileKind, file_name, parse_file_name
from engine.dump import batch_heads
from engine.dump.explain import Choice, explain
from engine.dump.json_objects import JsonDump
from engine.dump.json_stream import JsonStream
from engine.dump.reports import DumpReports
from engine.dump.run import LOGS, Dump, tally
from engine.dump.search import Search, SearchOptions
from engine.dump.selection import Selector
from engine.dump.text import TextDump
from engine.dump.text_buffer import TextBuffer
from engine.errors import KafkalogError
from engine.index.sparse import OffsetIndex, TimeIndex
from engine.index.transaction import TransactionIndex
from engine.kafka07 import entries as kafka07
from engine.kafka07 import file as kafka07_file
from engine.record import columns, reader, windows
from tests.support.memory_files import MemoryFiles

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator

    from engine.discovery.names import FileName
    from engine.findings import Finding
    from tests.fuzz.cases import Buffers, Case

_OFFSETS = (-(2**63), -1, 0, 1, 7, 2**31, 2**63 - 1)

class Result(NamedTuple):
    """What came of a case: text, findings, the final reports, and the error that ended it."""

    out: bytes
    findings: list[Finding]
    reports: list[str]
    error: KafkalogError | None


def run(case: Case) -> Result:
    """Dump the case. Any exception but KafkalogError comes through: it is what we look for."""
    parts: list[bytes] = []
    findings: list[Finding] = []
    error = None
    files = MemoryFiles(case.files, case.shrink)
    name = parse_file_name(file_name(case.dump))
    assert name is not None
    with sized(case.buffers):
        out = TextBuffer(lambda text: parts.append(bytes(text)), case.buffers.text)
        stream = JsonStream(out, "dump-log", array=case.form == "json", ascii=case.options.escape) if case.form != "text" else None
        renderer = JsonDump(case.options, stream, findings.append) if stream else TextDump(case.options, out, findings.append)
        selector = Selector(case.selection) if case.selection else None
        dump = Dump(files, case.options, renderer, findings.append, selector)
        try:
            dump.dump(case.dump, name)
            _other_readers(files, case, name.kind, findings)
            if case.selection and stream and case.shrink is None:
                _count_agrees(files, case, name, stream.counts)
        except KafkalogError as caught:
            error = caught
        if stream:
            for finding in sorted(findings, key=str):  # their order depends on where buffers end
                stream.finding(finding)
            stream.end(4 if findings else 0)
        renderer.flush()
        return Result(b"".join(parts), findings, list(dump.reports.lines()), error)


def _other_readers(files: MemoryFiles, case: Case, kind: FileKind, findings: list[Finding]) -> None:
    """What other commands ask of a file."""
    if kind is FileKind.LOG_07:
        _log_07(files, case)
    else:
        _lookups(case, kind, findings)
        _explained(files, case)
    if kind in LOGS and case.selection is not None:
        _found_alike(files, case)


def _count_agrees(files: MemoryFiles, case: Case, name: FileName, shown: Counter[str]) -> None:
    """--count counts what is shown. Counters of the JSON stream, by type."""
    selection = case.selection
    if name.kind not in (*LOGS, FileKind.LOG_07) or selection is None or (selection.limit, selection.tail) != (None, None):
        return
    unheard: list[Finding] = []
    counted = tally(files, case.dump, name, case.options, selection, unheard.append, DumpReports())
    if name.kind is FileKind.LOG_07:
        assert counted.batch_count == shown["entry-07"], "--count counts other entries than are shown"
    else:
        found = counted.batch_count, counted.record_count
        assert found == (shown["batch"], shown["record"]), "--count counts other batches and records than are shown"


def _explained(files: MemoryFiles, case: Case) -> None:
    """Every byte is explained."""
    name = parse_file_name(file_name(case.dump))
    assert name is not None
    choice = Choice(records=case.options.print_data, max_decompressed_bytes=case.options.max_decompressed_bytes)
    covered = bytearray(len(case.files[case.dump]))
    for field in explain(files, case.dump, name, choice, lambda _: None):
        if not field.inflated:
            covered[field.at : field.at + field.size] = b"\1" * field.size
    assert all(covered) or case.shrink is not None, f"byte {covered.find(0)} is not explained"


def _found_alike(files: MemoryFiles, case: Case) -> None:
    """grep finds what it finds without the search for strings."""
    name = parse_file_name(file_name(case.dump))
    assert name is not None
    assert case.selection is not None
    options = SearchOptions(max_decompressed_bytes=case.options.max_decompressed_bytes)
    found, unheard = [], []
    for literals in (None, ()):
        search = Search(files, case.selection, unheard.append, options)
        search._literals = search._literals if literals is None else literals
        found.append([record.offset for run in search.runs(case.dump, name) for record in run.records()])
    assert found[0] == found[1], "grep leaves out batches with matches"


def _log_07(files: MemoryFiles, case: Case) -> None:
    window = case.buffers.window
    with files.open(case.dump) as file:
        kafka07_file.valid_size(file, window=window)
        found = kafka07_file.iterate_file(file, 2**63 - 50, max_entry=500, window=window)
        for _ in kafka07.open_sets(found, limit=case.options.max_decompressed_bytes):
            pass


def _lookups(case: Case, kind: FileKind, findings: list[Finding]) -> None:
    data = case.files[case.dump]
    if kind is FileKind.OFFSET_INDEX:
        index = OffsetIndex(data, 3, case.dump)
        findings += index.sanity()
        for offset in _OFFSETS:
            index.fetch_upper_bound(index.lookup(offset), 100)
            index.lookup(offset, zero_tail=True)
    elif kind is FileKind.TIME_INDEX:
        times = TimeIndex(data, 2**63 - 4, case.dump)
        findings += times.sanity()
        for offset in _OFFSETS:
            times.lookup(offset)
        times.last_entry()
    elif kind is FileKind.TRANSACTION_INDEX:
        txns = TransactionIndex(data, 0, case.dump)
        findings += txns.sanity()
        txns.broker_error("/x")
        for offset in _OFFSETS:
            txns.aborted_in(offset, 2**40)
    elif kind is FileKind.PRODUCER_SNAPSHOT:
        findings += ProducerSnapshot(data, case.dump).sanity()


@contextmanager
def sized(buffers: Buffers) -> Iterator[None]:
    """The engine with buffers of other sizes. Only defaults and constants are touched, no code is replaced."""
    defaults = (
        (columns.BatchColumns.__init__, (buffers.batch_rows,)),
        (columns.RecordColumns.__init__, (buffers.record_rows,)),
    )
    constants = (
        (reader, "_ARENA", buffers.arena), (windows, "_CHUNK", buffers.chunk), (windows, "PIECE", buffers.chunk),
        (batch_heads, "_BLOCK", max(61, buffers.chunk)),
    )
    walk = windows.LogWalk.__init__
    before = [function.__defaults__ for function, _ in defaults], dict(walk.__kwdefaults__ or {})
    kept = [getattr(module, name) for module, name, _ in constants]
    try:
        for function, values in defaults:
            function.__defaults__ = values
        walk.__kwdefaults__ = {**before[1], "window_size": buffers.window}
        for module, name, value in constants:
            setattr(module, name, value)
        yield
    finally:
        for (function, _), values in zip(defaults, before[0], strict=True):
            function.__defaults__ = values
        walk.__kwdefaults__ = before[1]
        for (module, name, _), value in zip(constants, kept, strict=True):
            setattr(module, name, value)
