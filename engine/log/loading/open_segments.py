"""From the names in a partition's directory to open segments: every `.log`, recovered where its indexes make it necessary."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.discovery.names import DELETED, FileKind, log_file_name, offset_index_file_name, offset_of, time_index_file_name
from engine.findings import Severity
from engine.formats import OFFSET_INDEX_ENTRY
from engine.log.errors import CorruptIndex, OffsetIndexMissing
from engine.log.loading.notes import ALONE, NO_INDEX
from engine.log.loading.recovery import recover_segment
from engine.log.report import Action
from engine.record.windows import MAX_BATCH_BYTES

if TYPE_CHECKING:
    from engine.log.loading.shared import Loading
    from engine.log.segment.log_segment import LogSegment

_LOG, _SNAPSHOT = FileKind.LOG.value, FileKind.PRODUCER_SNAPSHOT.value
_INDEXES = (FileKind.OFFSET_INDEX.value, FileKind.TIME_INDEX.value, FileKind.TRANSACTION_INDEX.value)
_FIRST_ENTRY = 16  # bytes that hold it, whatever the index: zeros in a new one


def load_segment_files(log: Loading) -> None:
    """Open every `.log`, recovering those without an offset index or with a corrupt index."""
    log.segments.close()
    log.segments.clear()
    names, log.listed = log.listed or log.files.plain(log.directory), []
    there, log.unloaded = set(names), names
    removed = {event.path for event in log.report.find(Action.REMOVED)}
    opened = _expect_scans(log, names, there)
    last = max((name for name in names if name.endswith(_LOG)), default="")  # after a clean stop only its indexes are opened
    for name in names:
        is_index = name.endswith(_INDEXES)
        if _stands_beside_its_log(name, there) if is_index else not name.endswith((_LOG, _SNAPSHOT)):
            continue
        offset = offset_of(name)
        if offset is None:
            _report_nameless(log, name)
        elif name.endswith(_SNAPSHOT):
            continue
        elif is_index:
            _remove_orphan(log, name, offset, there, removed)
        else:
            segment = opened.get(offset) or log.open_segment(offset, there)
            _load_segment(log, segment, there, checks_sizes=not log.clean_shutdown or name == last)
    log.unloaded = []


def _expect_scans(log: Loading, names: list[str], there: set[str]) -> dict[int, LogSegment]:
    """Open the segments without an offset index, which will be recovered, and begin to scan them; by base offset."""
    bases = [offset for name in names if name.endswith(_LOG) and (offset := offset_of(name)) is not None
             and name == log_file_name(offset) and offset_index_file_name(offset) not in there]
    opened = {base: log.open_segment(base, there) for base in bases if not _waits(log, base)}
    log.scans.expect(opened.values())
    return opened


def _waits(log: Loading, base_offset: int) -> bool:
    """Is this segment left to the recovery that follows?"""
    return log.in_order and not log.clean_shutdown and base_offset >= log.recovery_point


def _report_nameless(log: Loading, name: str) -> None:
    log.report.add(Action.KEPT, name, "its name contains no offset: a broker does not start with this file here",
                   severity=Severity.WARNING)


def _remove_orphan(log: Loading, name: str, offset: int, there: set[str], removed: set[str]) -> None:
    its_log = log_file_name(offset)
    if its_log not in there and not log.files.exists(log.path(its_log)):
        with log.files.open(log.path(name)) as file:
            has_entries = _is_entry(name, file.read(0, _FIRST_ENTRY))
        log.files.remove(log.path(name))
        reason = ALONE if has_entries and its_log + DELETED not in removed else "an index without a log"
        log.report.add(Action.REMOVED, name, reason, severity=Severity.WARNING)


def _load_segment(log: Loading, segment: LogSegment, there: set[str], *, checks_sizes: bool) -> None:
    has_offset_index = offset_index_file_name(segment.base_offset) in there
    has_time_index = time_index_file_name(segment.base_offset) in there
    try:
        segment.sanity_check(time_index_newly_created=not has_time_index, has_offset_index=has_offset_index)
        if checks_sizes:
            segment.refuse_large_indexes()
        if segment.base_offset in log.unsplittable:  # its recovery was given up; its index is a part only
            _recover_while_loading(log, segment, "its offsets do not fit its index (more than 2^31 - 1 after the base offset) "
                                                 "(more than 2^31 - 1 after the base offset)")
    except OffsetIndexMissing:
        if segment.size:
            _recover_while_loading(log, segment, NO_INDEX)
        else:  # as every roll leaves it
            _recover_while_loading(log, segment, "it is empty and has no offset index", Severity.INFO)
    except CorruptIndex as error:
        _recover_while_loading(log, segment, f"an index is corrupt: {error}")
    log.segments.add(segment)


def _recover_while_loading(log: Loading, segment: LogSegment, reason: str, severity: Severity = Severity.WARNING) -> None:
    if _waits(log, segment.base_offset):
        return
    log.report.add(Action.REBUILT, log_file_name(segment.base_offset), reason, severity=severity)
    scan = log.scans.take(segment)
    recover_segment(log, segment, scan, damage_ends_it=False)
    log.scans.keep(segment, scan)


def _stands_beside_its_log(name: str, there: set[str]) -> bool:
    """Does an index with the usual 20 digits have its log among the files that are there? It is nearly always so."""
    digits = name[:20]
    return name[20:21] == "." and digits.isascii() and digits.isdigit() and digits + _LOG in there


def _is_entry(name: str, head: bytes) -> bool:
    """Is `head` the beginning of an index that a log once had? The first entry stands behind the first batches, no further."""
    if not name.endswith(FileKind.OFFSET_INDEX.value):
        return head.strip(b"\0") != b""
    if len(head) < OFFSET_INDEX_ENTRY.size:
        return False
    entry = OFFSET_INDEX_ENTRY.read(head)
    return entry.relative_offset >= 0 and 0 < entry.position <= MAX_BATCH_BYTES
