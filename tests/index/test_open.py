"""Indexes that are open: what they believe, take, cut, and what of it is in the file."""

from __future__ import annotations

import errno
import os
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.discovery.names import ASIDE
from engine.errors import FileChangedWhileReading, UnreadableFile, UnwritableFile
from engine.files import Files, ReadOnlyFiles, unwritable
from engine.formats import AbortedTxn
from engine.index.entries import (
    CorruptIndex,
    IndexFull,
    IndexOffsetOverflow,
    InvalidIndexSize,
    InvalidOffset,
    InvalidTimestamp,
    TransactionOrder,
)
from engine.index.sparse import OffsetIndex, OffsetPosition, TimeIndex, TimestampOffset
from engine.index.transaction import TransactionIndex

BASE = 1000


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "x.index")


def content(path):
    with open(path, "rb") as file:
        return file.read()


def offset_index(path, size=100, base=BASE, **options):
    return OffsetIndex.open(Files(), path, base, size, **options)


def time_index(path, size=100, base=BASE, **options):
    return TimeIndex.open(Files(), path, base, size, **options)


def pairs(*entries):
    return b"".join(struct.pack(">ii", *entry) for entry in entries)


@pytest.mark.parametrize(("kind", "length"), [(OffsetIndex, 96), (TimeIndex, 96)])
def test_a_new_one_is_allocated_in_whole_entries_and_trimmed_when_it_closes(path, kind, length):
    index = kind.open(Files(), path, BASE, 100)
    assert (index.entries, index.length, index.max_entries) == (0, length, length // index.entry_size)
    assert content(path) == bytes(length)
    index.close()
    assert content(path) == b""


def test_an_index_too_small_for_an_entry(path):
    for size in (-1, 0, 7):
        with pytest.raises(InvalidIndexSize):
            offset_index(path, size)


def test_what_is_there_is_believed(path, tmp_path):
    (tmp_path / "x.index").write_bytes(pairs((5, 100), (9, 200)) + bytes(8) + b"odd")
    index = offset_index(path)
    assert (len(index), index.last_offset, index.used_entries) == (3, BASE, 3)
    assert index.lookup(BASE + 7) == (BASE + 5, 100) or index.lookup(BASE + 7) == (BASE, 0)  # zeros are entries here
    index.close()
    assert content(path) == pairs((5, 100), (9, 200), (0, 0))


def test_entries_reach_the_file_when_it_closes_or_is_flushed(path):
    index = offset_index(path)
    index.append(BASE + 5, 100)
    index.append(BASE + 9, 200)
    assert (len(index), index.last_offset, index.lookup(BASE + 8)) == (2, BASE + 9, (BASE + 5, 100))
    index.flush()
    assert content(path)[:16] == pairs((5, 100), (9, 200))
    index.append(BASE + 10, 300)
    index.close()
    assert content(path) == pairs((5, 100), (9, 200), (10, 300))
    again = offset_index(path)
    assert (again.last_offset, list(again), again.is_full) == (BASE + 10, list(index), True)
    assert again.resize(100)
    again.append(BASE + 11, 400)
    again.close()
    assert content(path) == pairs((5, 100), (9, 200), (10, 300), (11, 400))


def test_offsets_grow_and_fit(path):
    index = offset_index(path, 24)
    index.append(BASE, 0)
    for offset in (BASE, BASE - 1):
        with pytest.raises(InvalidOffset, match=f"an offset {offset} to position 1 no larger"):
            index.append(offset, 1)
    with pytest.raises(IndexOffsetOverflow):
        index.append(BASE + 2**31, 1)
    index.append(BASE + 2**31 - 1, 1)
    assert not index.can_append_offset(BASE + 2**31)
    other = offset_index(path + "2", 8)
    other.append(BASE, 0)
    with pytest.raises(IndexFull, match=r"full index \(size = 1\)"):
        other.append(BASE + 1, 1)


def test_a_run_of_entries_is_checked_where_it_joins(path):
    index = offset_index(path, 32)
    index.extend(b"")
    index.extend(pairs((3, 10), (4, 20)))
    with pytest.raises(InvalidOffset):
        index.extend(pairs((4, 30)))
    with pytest.raises(IndexFull):
        index.extend(pairs((5, 30), (6, 40), (7, 50)))
    with pytest.raises(ValueError, match="whole entries"):
        index.extend(b"\0" * 9)
    assert len(index) == 2


@pytest.mark.parametrize(("offset", "left"), [(BASE - 1, 0), (BASE + 3, 0), (BASE + 4, 1), (BASE + 9, 1), (BASE + 10, 2), (2**62, 2)])
def test_truncating_removes_the_offset_and_what_follows(path, offset, left):
    index = offset_index(path)
    index.extend(pairs((3, 10), (9, 20)))
    index.truncate_to(offset)
    assert (len(index), index.length) == (left, 96)
    index.append(BASE + 100, 30)
    index.close()
    assert content(path) == pairs((3, 10), (9, 20))[: 8 * left] + pairs((100, 30))


def test_resizing_never_cuts_entries(path):
    index = offset_index(path, 800)
    index.extend(pairs(*((i, i) for i in range(1, 11))))
    assert index.resize(40)
    assert (index.length, index.is_full, len(index)) == (80, True, 10)
    assert not index.resize(80)


def test_an_index_made_anew_takes_the_place_of_the_old_one_in_one_step(path, tmp_path):
    (tmp_path / "x.index").write_bytes(pairs((3, 10), (9, 20), (11, 30)))
    index = offset_index(path, 800, rewrite=True)
    assert (len(index), index.length, index.max_entries, index.last_offset) == (0, 800, 100, BASE)
    before = (tmp_path / "x.index").open("rb")
    index.extend(pairs((4, 7)))
    assert content(path) == pairs((3, 10), (9, 20), (11, 30))
    index.close()
    assert content(path) == pairs((4, 7))
    assert before.read() == pairs((3, 10), (9, 20), (11, 30))
    assert index.is_replaced
    assert os.listdir(tmp_path) == ["x.index"]
    index.resize(800)  # from here on it grows as every index does
    index.append(BASE + 9, 8)
    index.close()
    assert content(path) == pairs((4, 7), (9, 8))


@pytest.mark.parametrize("old", [None, b"", pairs((4, 7)), pairs((4, 7), (5, 8))])
@pytest.mark.parametrize("new", [b"", pairs((4, 7))])
def test_an_index_made_anew_that_is_as_it_was_stays(path, tmp_path, old, new):
    if old is not None:
        (tmp_path / "x.index").write_bytes(old)
        node = os.stat(path).st_ino
    index = offset_index(path, 800, rewrite=True)
    index.extend(new)
    index.close()
    assert content(path) == new
    assert index.is_replaced == (old not in (None, new))
    assert old is None or index.is_replaced == (os.stat(path).st_ino != node)


class Refusing(Files):
    """Does not take what is written aside."""

    def __init__(self, error):
        self._error = error

    def open_writable(self, path, *, create=False, mode=None):
        file = super().open_writable(path, create=create, mode=mode)
        if path.endswith(ASIDE):
            file.close()
            cause = OSError(self._error, os.strerror(self._error))
            raise unwritable(path, cause) from cause
        return file


def test_a_disk_without_room_for_both_gets_the_new_one_over_the_old_one(path, tmp_path):
    """The disk is full, and that is why somebody wants to delete segments."""
    (tmp_path / "x.index").write_bytes(pairs((3, 10), (9, 20), (11, 30)))
    index = OffsetIndex.open(Refusing(errno.ENOSPC), path, BASE, 800, rewrite=True)
    index.extend(pairs((4, 7)))
    index.close()
    assert content(path) == pairs((4, 7))
    assert os.listdir(tmp_path) == ["x.index"]


def test_an_index_that_could_not_be_made_anew_is_as_it_was(path, tmp_path):
    old = pairs((3, 10), (9, 20), (11, 30))
    (tmp_path / "x.index").write_bytes(old)
    index = OffsetIndex.open(Refusing(errno.EIO), path, BASE, 800, rewrite=True)
    index.extend(pairs((4, 7)))
    for _ in range(2):
        with pytest.raises(UnwritableFile, match="Input/output error"):
            index.close()
        assert content(path) == old
    assert index.is_rewritten


def test_a_time_index_keeps_a_place_for_closing(path):
    index = time_index(path, 36)
    index.maybe_append(10, BASE + 1)
    assert not index.is_full
    index.maybe_append(11, BASE + 2)
    assert index.is_full
    with pytest.raises(IndexFull):
        index.maybe_append(11, BASE + 2)  # though nothing would be added
    index.maybe_append(12, BASE + 3, skip_full_check=True)
    with pytest.raises(IndexFull):
        index.maybe_append(13, BASE + 4, skip_full_check=True)
    index.close()
    assert content(path) == b"".join(struct.pack(">qi", 9 + i, i) for i in (1, 2, 3))


def test_a_time_index_takes_only_later_timestamps(path):
    index = time_index(path)
    index.maybe_append(-1, BASE)
    assert (len(index), index.last_entry()) == (0, TimestampOffset(-1, BASE))
    index.maybe_append(10, BASE + 5)
    index.maybe_append(10, BASE + 6)
    assert (len(index), index.last_entry()) == (1, TimestampOffset(10, BASE + 5))
    with pytest.raises(InvalidOffset):
        index.maybe_append(11, BASE + 4)
    with pytest.raises(InvalidTimestamp):
        index.maybe_append(9, BASE + 6)
    with pytest.raises(IndexOffsetOverflow):
        index.maybe_append(11, BASE + 2**31)
    with pytest.raises(InvalidTimestamp):
        index.extend(struct.pack(">qi", 10, 7))
    index.extend(struct.pack(">qi", 12, 7))
    index.truncate_to(BASE + 7)
    assert list(index) == [(10, BASE + 5)]
    index.close()
    assert time_index(path).last_entry() == (10, BASE + 5)


@given(st.lists(st.integers(0, 2**31 - 1), unique=True, max_size=2500).map(sorted), st.data())
def test_an_open_index_answers_as_the_view_of_its_bytes(tmp_path_factory, offsets, draw):
    entries = [(offset, position) for position, offset in enumerate(offsets)]
    path = tmp_path_factory.mktemp("index") / "x.index"
    path.write_bytes(pairs(*entries))
    opened, view = offset_index(str(path)), OffsetIndex(pairs(*entries), BASE, "view")
    for _ in range(5):
        target = BASE + draw.draw(st.sampled_from(offsets) if offsets else st.just(0)) + draw.draw(st.integers(-1, 1))
        assert opened.lookup(target) == view.lookup(target, zero_tail=True)
    assert opened.fetch_upper_bound(OffsetPosition(BASE, 0), 3) == view.fetch_upper_bound(OffsetPosition(BASE, 0), 3) or not offsets


def test_open_for_reading_makes_and_changes_nothing(path, tmp_path):
    index = OffsetIndex.open(ReadOnlyFiles(), path, BASE, 100, writable=False)
    assert (len(index), index.lookup(BASE + 4), index.last_offset) == (0, (BASE, 0), BASE)
    index.close()
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "x.index").write_bytes(pairs((5, 100)))
    index = OffsetIndex.open(ReadOnlyFiles(), path, BASE, 100, writable=False)
    assert index.lookup(BASE + 5) == (BASE + 5, 100)
    for change in (index.flush, lambda: index.append(BASE + 9, 1)):
        with pytest.raises((PermissionError, IndexFull)):
            change()
    assert content(path) == pairs((5, 100))


def test_renamed_and_removed(path, tmp_path):
    index = offset_index(path, 16)
    index.append(BASE + 1, 7)
    index.rename_to(path + ".deleted")
    assert content(path + ".deleted") == pairs((1, 7), (0, 0))
    index.append(BASE + 2, 8)
    index.delete_if_exists()
    index.delete_if_exists()
    assert list(tmp_path.iterdir()) == []


def test_a_view_takes_no_entries():
    view = OffsetIndex(pairs((5, 100)), BASE, "x.index")
    with pytest.raises((TypeError, ValueError, IndexFull)):
        view.append(BASE + 9, 200)
    with pytest.raises(ValueError, match="not open"):
        view.flush()


def test_a_file_that_becomes_shorter_is_noticed(path, tmp_path):
    (tmp_path / "x.index").write_bytes(pairs((5, 100), (9, 200)))
    index = offset_index(path)
    (tmp_path / "x.index").write_bytes(b"")
    with pytest.raises(FileChangedWhileReading, match="shorter"):
        index.lookup(BASE + 5)
    (tmp_path / "x.index").unlink()
    with pytest.raises(UnreadableFile):
        index.lookup(BASE + 5)


# ---- aborted transactions ----------------------------------------------------------------------------


def txn(first, last, stable=0, version=0):
    return AbortedTxn(version, 7, first, last, stable)


def test_a_transaction_index_appears_with_the_first_entry(path, tmp_path):
    index = TransactionIndex.open(Files(), path, BASE)
    index.reset()
    index.sanity_check()
    index.flush()
    index.close()
    assert list(tmp_path.iterdir()) == []
    index.append(txn(1000, 1005, 1006))
    index.append(txn(1006, 1009, 1010))
    with pytest.raises(TransactionOrder):
        index.append(txn(1006, 1009))
    index.close()
    assert len(content(path)) == 68
    again = TransactionIndex.open(Files(), path, BASE)
    assert again.collect_aborted_txns(1000, 1004) == ([txn(1000, 1005, 1006)], True)
    again.append(txn(1, 2))  # what an earlier life wrote is not compared
    again.reset()
    assert (len(again), len(content(path))) == (0, 68)
    again.close()
    assert (len(again), content(path)) == (0, b"")


@pytest.mark.parametrize(("offset", "left"), [(0, 0), (1005, 0), (1006, 1), (1009, 1), (1010, 2)])
def test_a_transaction_index_is_cut(path, offset, left):
    index = TransactionIndex.open(Files(), path, BASE)
    index.append(txn(1000, 1005))
    index.append(txn(1006, 1009))
    index.close()
    index.truncate_to(offset)
    assert len(content(path)) == 34 * left
    if left < 2:
        index.append(txn(1006, 1009 if left else 1005))  # the last offset went with its entry
    with pytest.raises(TransactionOrder):
        index.append(txn(1006, 1005))


def test_half_an_entry_at_the_end_is_not_noticed_and_stays(path, tmp_path):
    (tmp_path / "x.index").write_bytes(bytes(34)[:17])
    index = TransactionIndex.open(Files(), path, 0)
    index.sanity_check()
    index.append(txn(1, 2))
    index.close()
    assert len(content(path)) == 17 + 34


def test_sanity_of_a_transaction_index(path):
    index = TransactionIndex.open(Files(), path, BASE)
    index.append(txn(1, BASE - 1))
    with pytest.raises(CorruptIndex, match="less than start offset 1000"):
        index.sanity_check()
    index.reset()
    index.append(txn(BASE, BASE, version=0x100))
    for refused in (index.sanity_check, lambda: index.collect_aborted_txns(0, 9), lambda: index.truncate_to(0)):
        with pytest.raises(CorruptIndex, match="Unexpected aborted transaction version 1"):
            refused()
