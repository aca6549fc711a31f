from __future__ import annotations

import crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.checkpoint import producer_snapshot
from engine.checkpoint.producer_snapshot import ProducerSnapshot, first_sequence, producer_text, write_producer_snapshot
from engine.files import Files
from engine.formats import PRODUCER_SNAPSHOT_ENTRY, ProducerSnapshotEntry

ENTRY = ProducerSnapshotEntry(1000, 0, 15, 15, 6, 1700680159533, -1, -1)


def snapshot(body, version=1, crc=None):
    crc = crc32c.crc32c(body) if crc is None else crc
    return ProducerSnapshot(version.to_bytes(2, "big") + crc.to_bytes(4, "big") + body, "x.snapshot")


def body(*entries, count=None):
    count = len(entries) if count is None else count
    return count.to_bytes(4, "big", signed=True) + b"".join(PRODUCER_SNAPSHOT_ENTRY.pack(entry) for entry in entries)


def test_entries():
    it = snapshot(body(ENTRY, ENTRY._replace(producer_id=2)))
    assert it.error() is None
    assert it.sanity() == []
    assert [entry.producer_id for entry in it] == [1000, 2]
    assert next(iter(it)) == ENTRY


def test_an_empty_snapshot():
    it = snapshot(body())
    assert (len(it), it.error(), it.sanity(), it.size) == (0, None, [], 10)


def test_text():
    assert producer_text(ENTRY) == (
        "producerId: 1000 producerEpoch: 0 coordinatorEpoch: -1 currentTxnFirstOffset: OptionalLong.empty "
        "lastTimestamp: 1700680159533 firstSequence: 9 lastSequence: 15 lastOffset: 15 offsetDelta: 6 "
        "timestamp: 1700680159533"
    )
    assert producer_text(ENTRY._replace(last_offset=-1, current_txn_first_offset=0)) == (
        "producerId: 1000 producerEpoch: 0 coordinatorEpoch: -1 currentTxnFirstOffset: OptionalLong[0] "
        "lastTimestamp: 1700680159533"
    )


@pytest.mark.parametrize(
    ("last", "delta", "first"),
    [(15, 6, 9), (0, 0, 0), (2, 5, 2147483645), (0, 1, 2147483647), (-1, -1, 0), (-(2**31), 1, -1), (-1, -2, 1)],
)
def test_sequences_wrap(last, delta, first):
    assert first_sequence(ENTRY._replace(last_sequence=last, offset_delta=delta)) == first


SCHEMA = "Snapshot failed schema validation: "


@pytest.mark.parametrize(
    ("it", "error"),
    [
        (ProducerSnapshot(b"", "x"), SCHEMA + "null"),
        (ProducerSnapshot(b"\0\x01\0\0\0\0\0\0\0", "x"), SCHEMA + "null"),
        (snapshot(body(), version=2), SCHEMA + "Snapshot contained an unknown file version 2"),
        (snapshot(body(ENTRY, count=2)), SCHEMA + "null"),
        (snapshot(body(count=-2)), SCHEMA + "non-nullable field producerEntries was serialized as null"),
        (
            snapshot(body(ENTRY, count=2**31 - 1)),
            SCHEMA + "Tried to allocate a collection of size 2147483647, but there are only 46 bytes remaining.",
        ),
        (
            snapshot(body(), crc=7),
            "Snapshot is corrupt (CRC is no longer valid). Stored crc: 7. Computed crc: 1214729159",
        ),
    ],
)
def test_errors(it, error):
    assert it.error() == error
    assert [finding.code for finding in it.sanity()] == ["snapshot-corrupt"]


def test_bytes_at_the_end_are_accepted_by_kafka():
    it = snapshot(body(ENTRY) + bytes(5))
    assert it.error() is None
    assert [finding.what for finding in it.sanity()] == ["5 bytes after the last producer"]


@pytest.mark.parametrize("entries", [0, 1, 2, 3, 7])
@pytest.mark.parametrize("damage", [None, "longer", "shorter", "changed"])
def test_a_file_is_read_and_written_in_pieces(monkeypatch, tmp_path, entries, damage):
    monkeypatch.setattr(producer_snapshot, "_PIECE", 2 * PRODUCER_SNAPSHOT_ENTRY.size)
    path, stored = tmp_path / "x.snapshot", [ENTRY._replace(producer_id=number) for number in range(entries)]
    path.write_bytes(b"what was there before" * 99)
    packed = b"".join(map(PRODUCER_SNAPSHOT_ENTRY.pack, stored))
    with Files().open_writable(str(path)) as file:
        write_producer_snapshot(file, entries, (packed[at : at + 46] for at in range(0, len(packed), 46)))
    data = path.read_bytes()
    assert data == b"\0\x01" + crc32c.crc32c(body(*stored)).to_bytes(4, "big") + body(*stored)
    damaged = {None: data, "longer": data + b"x" * 50, "shorter": data[:-1], "changed": data[:-1] + b"\x07"}[damage]
    path.write_bytes(damaged)
    whole, it = ProducerSnapshot(damaged, str(path)), ProducerSnapshot.read(Files(), str(path))
    assert (it.error(), it.sanity(), len(it), list(it), it.size) == (
        whole.error(), whole.sanity(), len(whole), list(whole), len(damaged),
    )  # fmt: skip
    assert (it.error() is None) == (damage is None)
    assert damage is not None or list(it) == stored


@given(st.binary(max_size=200) | st.binary(max_size=200).map(lambda data: b"\0\x01" + data))
def test_any_bytes(data):
    for it in (ProducerSnapshot(data, "x"), snapshot(data)):
        error = it.error()
        assert len(list(it)) == len(it)
        for entry in it:
            producer_text(entry)
        assert bool(it.sanity()) >= bool(error)
