"""What must hold for every case, whatever its bytes are.

The walk over batches is written a second time here, plainly, so that the engine's findings are compared with something
that does not come from the engine.
"""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING, NamedTuple

import pytest
from crc32c import crc32c

from engine.errors import FileChangedWhileReading
from engine.findings import KINDS
from engine.formats import LONG_MAX, to_long
from engine.log.segment import recovery_walk
from engine.log.segment.recovery_walk import ScanStop, scan_segment
from tests.fuzz.cases import LIMIT, ROOMY
from tests.fuzz.compaction import compacts
from tests.fuzz.seeds import LOGS
from tests.fuzz.target import Result, run, sized
from tests.support.memory_files import MemoryFiles

if TYPE_CHECKING:
    from tests.fuzz.cases import Case

_TAIL = {"torn-tail", "zero-tail", "batch-size-invalid"}
_OBEYED = {*range(32), 127} - set(b"\n\t")
_UNLIMITED = 2**31 - 1


class Entry(NamedTuple):
    """One entry that a plain walk sees. `sound`: its checksum fits. `last`: what its last offset comes to, without limits."""

    position: int
    size: int
    magic: int
    sound: bool
    last: int


def plain_walk(data: bytes) -> tuple[list[Entry], int]:
    """(entries, where the walk ends): as long as sizes fit, whatever the checksums say."""
    at, entries = 0, []
    while len(data) - at > 17:
        length = int.from_bytes(data[at + 8 : at + 12], "big", signed=True)
        magic = int.from_bytes(data[at + 16 : at + 17], signed=True)
        if length < 14 or length + 12 > len(data) - at or (magic >= 2 and len(data) - at < 61):
            break
        entry = data[at : at + length + 12]
        if magic >= 2:
            sound = length + 12 >= 61 and crc32c(entry[21:]) == int.from_bytes(entry[17:21], "big")
            last = int.from_bytes(entry[:8], "big", signed=True) + int.from_bytes(entry[23:27], "big", signed=True)
        else:
            last = int.from_bytes(entry[:8], "big", signed=True)
            sound = zlib.crc32(entry[16:]) == int.from_bytes(entry[12:16], "big")
        entries.append(Entry(at, length + 12, magic, sound, last))
        at += length + 12
    return entries, at


def check(case: Case) -> Result:
    """Run the case; AssertionError where a law is broken, any other exception as it comes."""
    result = run(case)
    _well_formed(case, result)
    if case.kind in LOGS and case.dump == case.path and case.shrink is None:
        assert result.error is None, f"a plain file cannot be read: {result.error}"
        _finds_damage(case, result)
        _recovers(case)
        compacts(case.files[case.path])
        if case.buffers != ROOMY and case.selection is None:  # a selection stops reading at the end of a window
            _same(result, run(case._replace(buffers=ROOMY)), "the size of buffers decides the answer")
        if case.form == "text" and case.selection is None:
            _shallow_agrees(case, result)
    return result


def _same(one: Result, other: Result, why: str) -> None:
    assert one.out == other.out, why
    assert sorted(map(str, one.findings)) == sorted(map(str, other.findings)), why
    assert one.reports == other.reports, why


def _well_formed(case: Case, result: Result) -> None:
    text = result.out.decode("utf-8")
    if case.form == "json":
        _objects(json.loads(text)["objects"])
    elif case.form == "jsonl":
        _objects([json.loads(line) for line in text.removesuffix("\n").split("\n")])
    assert result.error is None or case.shrink is not None or case.dump != case.path, f"unexpected error {result.error}"
    if case.shrink is not None and result.error is not None:
        assert isinstance(result.error, FileChangedWhileReading), repr(result.error)
    if case.options.escape:
        assert not _OBEYED & set(result.out), "a terminal would obey what is in the file"
    size = sum(map(len, case.files.values()))
    inflated = min(case.options.max_decompressed_bytes, LIMIT) * (1 + size // 60)
    assert len(result.out) <= 1000 * size + 100 * inflated + 10_000, f"{len(result.out)} bytes of text from {size}"
    for finding in result.findings:
        assert finding.code in KINDS, finding
        assert finding.where.file in case.files, finding
        position = finding.where.position
        assert position is None or 0 <= position <= len(case.files[finding.where.file]), finding
        assert finding.where.offset is None or -(2**63) <= finding.where.offset < 2**63, finding
        assert "\n" not in finding.what, finding
        assert finding.what, finding


def _objects(found: list[dict[str, object]]) -> None:
    assert all(isinstance(each["type"], str) for each in found), found
    assert found[0]["type"] == "begin", found[0]
    assert found[-1]["type"] == "end", found[-1]


def _finds_damage(case: Case, result: Result) -> None:
    options = case.options
    if case.selection or options.continue_on_corruption or options.max_bytes < _UNLIMITED:
        return
    data = case.files[case.path]
    entries, end = plain_walk(data)
    at = {code: {f.where.position for f in result.findings if f.code == code} for code in KINDS}
    small = {entry.position for entry in entries if entry.magic >= 2 and entry.size < 61}
    bad = {entry.position for entry in entries if not entry.sound} - small
    assert at["crc-mismatch"] == bad, f"checksums: found {at['crc-mismatch']}, there are {bad}"
    assert small <= at["batch-size-invalid"], f"sizes: found {at['batch-size-invalid']}, there are {small}"
    unknown = {entry.position for entry in entries if not 0 <= entry.magic <= 2} - small
    assert unknown <= at["unknown-magic"], f"magic: found {at['unknown-magic']}, there are {unknown}"
    codecs = {e.position for e in entries if e.size >= 61 and e.magic >= 2 and data[e.position + 22] & 7 > 4}
    if not options.iterates:
        assert codecs <= at["unknown-codec"], f"codecs: found {at['unknown-codec']}, there are {codecs}"
    if end < len(data):
        assert any(end in at[code] for code in _TAIL), f"nobody says that the walk ends at {end} of {len(data)}"
    elif not small:
        assert not any(at[code] for code in _TAIL), "a tail was found where there is none"


def _recovers(case: Case) -> None:
    """Recovery keeps the sound batches up to the first that is not, whatever the size of its windows."""
    data = case.files[case.path]
    entries, end = plain_walk(data)
    bad = [entry.position for entry in entries if not entry.sound or max(entry.last, to_long(entry.last)) >= LONG_MAX]  # no offset is left after it
    base = int.from_bytes(data[:8], "big", signed=True)
    found = []
    for window in (case.buffers.window, 1 << 20):
        with sized(case.buffers), pytest.MonkeyPatch.context() as patch:
            patch.setattr(recovery_walk, "WINDOW_SIZE", window)
            patch.setattr(recovery_walk, "LARGEST_WINDOW", max(window, case.buffers.chunk))
            files = MemoryFiles(case.files)
            scan = scan_segment(files, case.path, base, index_interval=100, max_index_size=4096)
        assert scan.batches <= len(entries), f"{scan.batches} batches, there are {len(entries)}"
        if scan.stop not in (ScanStop.REFUSED, ScanStop.BAD_MARKER):
            sound = min(bad, default=end)
            assert scan.valid_size == sound, f"recovery stops at {scan.valid_size}, sound are {sound} bytes"
        found.append((scan.valid_size, scan.next_offset, scan.offset_entries, scan.time_entries, scan.largest,
                      (scan.epochs.entries, scan.epochs.doubt), list(scan.producers)))
    large = any(entry.size > case.buffers.window for entry in entries)  # a marker in such a batch is not looked for
    assert found[0] == found[1] or large, "the size of windows decides what is recovered"


def _shallow_agrees(case: Case, result: Result) -> None:
    """The batches are the same with and without their records. Needs lines that payloads cannot break."""
    if not (case.options.iterates and case.options.escape) or case.options.skip_metadata:
        return
    shallow = run(case._replace(options=case.options._replace(print_data=False, deep=False)))
    batches = [line for line in result.out.split(b"\n") if not line.startswith(b"| ")]
    assert batches == shallow.out.split(b"\n"), "deep iteration shows other batches than shallow iteration"
