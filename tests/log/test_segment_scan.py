"""What recovery finds in a segment: against a plain model, for logs that are whole, torn, damaged and crafted."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.formats import BATCH_HEADER, Codec, ControlType
from engine.log.errors import IndexFull, InvalidOffset, SegmentOffsetOverflow
from engine.log.producers.state_manager import ProducerStateManager
from engine.log.segment import recovery_walk
from engine.log.segment.producer_rows import RowChunk, TxnMarker
from engine.log.segment.recovery_walk import ScanStop, scan_segment
from engine.record.builder import NewRecord, build_batch, end_txn_batch
from engine.record.windows import crc32c
from tests.support import producer_logs, recovery_model
from tests.support.kernel_calls import mutate
from tests.support.memory_files import MemoryFiles
from tests.support.strategies import batches

STOPS = {
    "overflow": SegmentOffsetOverflow, "offsets full": IndexFull, "offset order": InvalidOffset, "times full": IndexFull,
    "time order": InvalidOffset,
}  # fmt: skip


def scan(data, base=0, interval=4096, max_index_size=1 << 20, **options):
    files = MemoryFiles({"x.log": data})
    return scan_segment(files, "x.log", base, index_interval=interval, max_index_size=max_index_size, **options)


def batch(offset, count=1, timestamp=1000, size=10, **options):
    records = [NewRecord(offset + i, timestamp, None, b"v" * size) for i in range(count)]
    return build_batch(records, **options)


def patched(data, position, new):
    """`data` with bytes replaced and its checksum made right again."""
    data = bytearray(data)
    data[position : position + len(new)] = new
    data[17:21] = crc32c(bytes(data[21:])).to_bytes(4, "big")
    return bytes(data)


def agree(data, base, interval, max_index_size):
    found = scan(data, base, interval, max_index_size)
    wanted = recovery_model.recover(data, base, interval, max_index_size)
    compare(found, wanted)
    return found, wanted


def compare(found, wanted):
    assert (found.valid_size, found.batches, found.records) == (wanted.valid_size, wanted.batches, wanted.records)
    assert (bytes(found.offset_entries), bytes(found.time_entries)) == (wanted.offsets, wanted.times)
    assert (found.largest, found.next_offset) == (wanted.largest, wanted.next_offset)
    assert recovery_model.settled(found.epochs) == recovery_model.settled(recovery_model.runs_of(wanted))
    if wanted.stop in STOPS:
        assert found.stop is ScanStop.REFUSED
        assert isinstance(found.error, STOPS[wanted.stop])
    else:
        assert (found.stop.value, found.error) == (wanted.stop, None)


logs = st.lists(batches(), max_size=6).map(lambda cases: b"".join(case.build() for case in cases))


WINDOWS = [(1 << 20, 4 << 20), (100, 1 << 20), (61, 100)]  # (size, the largest)


@given(data=logs, interval=st.sampled_from([0, 100, 4096]), max_index_size=st.sampled_from([8, 24, 1 << 20]), draw=st.data())
def test_any_log_in_windows_of_any_size(data, interval, max_index_size, draw):
    in_windows(data, interval, max_index_size)
    if data:
        with suppress(recovery_model.Unmodelled):
            in_windows(mutate(data, draw), interval, max_index_size)


def in_windows(data, interval, max_index_size):
    wanted = recovery_model.recover(data, 0, interval, max_index_size)
    for window, largest in WINDOWS:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(recovery_walk, "WINDOW_SIZE", window)
            patch.setattr(recovery_walk, "LARGEST_WINDOW", largest)
            compare(scan(data, 0, interval, max_index_size), wanted)


@given(producer_logs.events, st.sampled_from([0, 300]))
def test_producers_of_a_log(events, interval):
    data = b"".join(producer_logs.build(events))
    found, wanted = agree(data, 0, interval, 1 << 20)
    assert [row for row in found.producers if row.marker] == [row for row in wanted.rows if row.marker]
    assert state(found.producers) == state(wanted.rows)


def state(rows):
    """Everything that rows make of producer state, and the transactions that were aborted, in order."""
    rows = list(rows)
    manager = ProducerStateManager(MemoryFiles({"/log/t-0/00000000000000000000.log": b""}), "/log/t-0", for_snapshots=True)
    aborted = bytearray()
    manager.update_recovered([RowChunk.of(rows)] if rows else [], aborted.extend)
    entries = [
        (entry.producer_id, entry.producer_epoch, entry.coordinator_epoch, entry.last_timestamp,
         entry.current_txn_first_offset, list(entry.batches))
        for entry in manager.producers.values()
    ]  # fmt: skip
    return entries, bytes(aborted), manager.first_undecided_offset


@given(producer_logs.events)
def test_what_is_loaded_for_snapshots_alone_makes_the_same_ones(events):
    rows = recovery_model.recover(b"".join(producer_logs.build(events)), 0, 4096, 1 << 20).rows
    found = []
    for for_snapshots in (True, False):
        state = ProducerStateManager(MemoryFiles({}), "/log/t-0", for_snapshots=for_snapshots)
        state.load_batches([RowChunk.of(rows)] if rows else [])
        found.append((b"".join(state.producers.pieces()), state.first_undecided_offset))
        assert not for_snapshots or state.first_unstable_offset == state.first_undecided_offset
    assert found[0] == found[1]


def test_a_long_run_is_told_by_its_first_and_last_batch():
    data = b"".join(batch(i, producer_id=4, producer_epoch=1, base_sequence=i) for i in range(3000))
    rows = list(scan(data).producers)
    assert [row.base_offset for row in rows] == [0, 2999]


def test_more_producers_than_slots():
    order = [i * 37 % 5000 for i in range(5000)] * 2
    data = b"".join(
        batch(i, producer_id=producer, producer_epoch=0, base_sequence=i // 5000) for i, producer in enumerate(order)
    )
    found = scan(data)
    model = recovery_model.recover(data, 0, 4096, 1 << 20)
    assert state(found.producers) == state(model.rows)


def test_too_many_rows_are_read_again(monkeypatch):
    data = b"".join(producer_logs.build([producer_logs.Event(7, kind, 1) for kind in ("transactional", "abort") * 50]))
    kept = list(scan(data).producers)
    monkeypatch.setattr(recovery_walk, "_MOST_ROWS", 10)
    scanned = scan(data + b"\0" * 30)
    assert list(scanned.producers) == list(scanned.producers) == kept
    assert len(kept) == 100


def test_why_a_scan_ends():
    good = batch(0) + batch(1)
    assert scan(b"").stop is ScanStop.END
    assert scan(good).stop is ScanStop.END
    assert scan(good + bytes(17)).stop is ScanStop.TORN
    assert scan(good + bytes(18)).stop is ScanStop.BAD_SIZE
    assert scan(good + batch(2)[:-1]).stop is ScanStop.TORN
    broken = scan(good + batch(2)[:-1] + b"x" + batch(3))
    assert (broken.stop, broken.valid_size, broken.next_offset) == (ScanStop.INVALID, len(good), 2)
    assert scan(good, size=len(batch(0))).valid_size == len(batch(0))


def test_a_header_cut_off_by_its_own_size_ends_it():
    small = bytes(8) + (40).to_bytes(4, "big") + bytes(4) + b"\x02" + bytes(35)
    assert scan(batch(0) + small).stop is ScanStop.INVALID
    assert scan(batch(0) + small + batch(1)).stop is ScanStop.INVALID


@pytest.mark.parametrize("magic", [5, 127, 0x80, 0xFF])
def test_magic_outside_the_formats(magic):
    """5 is read as format 2, which its checksum does not cover; a negative one as an old format."""
    data = bytearray(batch(0))
    data[16] = magic
    found, _ = agree(bytes(data) + batch(1), 0, 4096, 1 << 20)
    assert found.batches == (2 if magic < 128 else 0)


@pytest.mark.parametrize("base", [-(2**63), -5, 0, 2**63 - 2**31, 2**63 - 1])
@pytest.mark.parametrize("offset", [-(2**63), -5, 0, 2**31 - 1, 2**31, 2**63 - 1])
def test_extreme_offsets(base, offset):
    data = bytearray(batch(0))
    data[:8] = offset.to_bytes(8, "big", signed=True)
    agree(bytes(data), base, 0, 1 << 20)


def test_last_offset_before_the_base_offset_of_its_batch():
    data = patched(batch(5), BATCH_HEADER.positions["last_offset_delta"], (-3).to_bytes(4, "big", signed=True))
    found, _ = agree(data + batch(6), 0, 0, 1 << 20)
    assert found.next_offset == 7


def test_a_batch_is_refused_and_what_came_before_it_counts():
    data = b"".join(batch(offset, partition_leader_epoch=offset) for offset in (0, 5, 9, 7))
    found = scan(data, interval=0)
    assert isinstance(found.error, InvalidOffset)
    assert (found.batches, found.next_offset, len(found.offset_entries)) == (3, 10, 16)
    found.epochs.finish(10)
    assert [run.epoch for run in found.epochs.trusted] == [0, 5, 9]
    far = scan(batch(0) + batch(2**31))
    assert isinstance(far.error, SegmentOffsetOverflow)
    assert (far.error.offset, far.error.base_offset, far.batches) == (2**31, 0, 1)


MARKER = {"producer_id": 9, "producer_epoch": 2}


def control(value=b"\0\0\0\0\0\x07", key=b"\0\0\0\0", count=1, **options):
    records = [NewRecord(i, 55, key, value) for i in range(count)]
    return build_batch(records, control=True, transactional=True, **MARKER, **options)


@pytest.mark.parametrize("codec", list(Codec))
def test_markers_of_every_shape(codec):
    wanted = TxnMarker(ControlType.ABORT, 7, 55)
    for data in (control(codec=codec), control(b"\0\x09\0\0\0\x07 more", b"\0\x03\0\0 more", codec=codec), control(count=2, codec=codec)):
        rows = list(scan(data + batch(5)).producers)
        assert [(row.is_control, row.is_transactional, row.marker) for row in rows] == [(True, True, wanted)]
    miscounted = patched(control(), 57, (2).to_bytes(4, "big"))  # the second record is never asked for
    assert [row.marker for row in scan(miscounted).producers] == [wanted]
    late = control(codec=codec, timestamp_type=1, log_append_time=99)
    assert [row.marker.timestamp for row in scan(late).producers] == [99]


def test_control_batches_that_end_no_transaction():
    assert [row.marker for row in scan(control(key=b"\0\0\0\x02")).producers] == [None]
    empty = patched(control()[:8] + (49).to_bytes(4, "big") + control()[12:61], 57, bytes(4))
    assert [(row.is_control, row.marker) for row in scan(empty).producers] == [(True, None)]


@pytest.mark.parametrize("bad", [
    control(value=b"\0\0\0"), control(value=b"\xff\xff\0\0\0\0"), control(key=b"\0\0"), control(key=None),
    control(value=None), patched(control(count=2), 57, (1).to_bytes(4, "big")), patched(control(), 61, b"\x7e"),
])  # fmt: skip
def test_a_marker_that_can_not_be_read_is_kept_and_ends_the_scan(bad):
    data = batch(0, **MARKER, base_sequence=0) + bad
    found = scan(data + batch(2))
    assert (found.stop, found.valid_size) == (ScanStop.BAD_MARKER, len(data))
    assert [row.base_offset for row in found.producers] == [0]


def test_a_large_batch_is_checked_in_pieces(monkeypatch):
    monkeypatch.setattr(recovery_walk, "WINDOW_SIZE", 4096)
    monkeypatch.setattr(recovery_walk, "LARGEST_WINDOW", 8192)
    for options in ({}, {"magic": 1}, {"magic": 0}, {**MARKER, "base_sequence": 1}):
        large = batch(1, size=50_000, **options)
        data = batch(0) + large + batch(2)
        agree(data, 0, 0, 1 << 20)
        agree(data[:-200] + b"?" + data[-199:], 0, 0, 1 << 20)
    bulky = control(value=b"\0\0\0\0\0\x07" + bytes(20_000))
    assert scan(bulky + batch(3)).stop is ScanStop.BAD_MARKER
    many = b"".join(batch(i, producer_id=i, producer_epoch=0, base_sequence=0) for i in range(1024))
    assert scan(many + batch(2000, size=50_000, producer_id=4999, producer_epoch=0, base_sequence=0)).batches == 1025


def test_marker_kept_back_rows_come_first():
    data = b"".join(batch(i, **MARKER, base_sequence=i, transactional=True) for i in range(8))
    data += end_txn_batch(ControlType.COMMIT, 3, base_offset=8, timestamp=5, producer_id=9, producer_epoch=2)
    assert [row.base_offset for row in scan(data).producers] == [0, 7, 8]
