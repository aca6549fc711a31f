"""Searches over batch headers agree with one that looks at every batch in turn, in logs in any order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.log.errors import CorruptRecord
from engine.log.segment import batch_search
from engine.log.segment.batch_search import (
    TimestampAndOffset,
    heads,
    largest_timestamp_after,
    last_head,
    search_for_offset,
    search_for_timestamp,
)
from engine.record.builder import NewRecord, build_batch
from tests.support.memory_files import MemoryFiles

sizes = st.tuples(st.integers(0, 60), st.integers(1, 3), st.integers(-1, 40))  # base offset, records, timestamp


def log_of(batches):
    return b"".join(
        build_batch([NewRecord(base + i, timestamp, b"k", b"v") for i in range(count)], partition_leader_epoch=base % 5 - 1)
        for base, count, timestamp in batches
    )


def opened(data):
    return MemoryFiles({"x.log": data}).open("x.log")


@given(st.lists(sizes, max_size=12), st.integers(-1, 65), st.integers(-2, 41), st.sampled_from([80, 200, 1 << 16]))
def test_searches(batches, offset, timestamp, window):
    data = log_of(batches)
    with pytest.MonkeyPatch.context() as patch, opened(data) as file:
        patch.setattr(batch_search, "_WINDOW", window)
        found = list(heads(file, 0, len(data)))
        assert [(head.base_offset, head.last_offset, head.max_timestamp) for head in found] == [
            (base, base + count - 1, when) for base, count, when in batches
        ]
        assert sum(head.size for head in found) == len(data)
        assert search_for_offset(file, offset, 0, len(data)) == plain_search(found, offset)
        assert last_head(file, 0, len(data)) == (found[-1] if found else None)
        wanted = TimestampAndOffset(-1, -1, None)
        for head in found:
            if head.max_timestamp > wanted.timestamp:
                epoch = head.leader_epoch if head.leader_epoch >= 0 else None
                wanted = TimestampAndOffset(head.max_timestamp, head.last_offset, epoch)
        assert largest_timestamp_after(file, 0, len(data)) == wanted
        first = next(((base + i, when, base % 5 - 1) for base, count, when in batches for i in range(count)
                      if when >= timestamp and base + i >= offset), None)  # fmt: skip
        assert search_for_timestamp(file, timestamp, 0, offset, len(data)) == (
            first and (first[1], first[0], first[2] if first[2] >= 0 else None)
        )


def plain_search(found, offset):
    before = None
    for head in found:
        if head.base_offset == offset:
            return head
        if head.base_offset > offset:
            return before if before and before.last_offset >= offset else head
        before = head
    return before if before and before.last_offset >= offset else None


def test_a_range_of_the_file():
    one = log_of([(0, 1, 5)])
    with opened(one * 3 + b"\0" * 20) as file:
        assert len(list(heads(file, len(one), 3 * len(one)))) == 2
        assert list(heads(file, 9, 9)) == list(heads(file, 9, 3)) == []
        assert last_head(file, 0, 3 * len(one) - 1).position == len(one)
        with pytest.raises(CorruptRecord, match=f"at byte {3 * len(one)}"):
            last_head(file, 0, 3 * len(one) + 20)


@pytest.mark.parametrize("size", [1, 11, 12, 16, 60])
def test_a_file_that_ends_inside_a_batch_is_damage_where_batches_must_be_whole(size):
    whole = log_of([(0, 2, 5)])
    with opened(whole + whole[:size]) as file, pytest.raises(CorruptRecord, match=f"ends inside the batch at byte {len(whole)}"):
        list(batch_search.whole_windows(file, 0, file.size()))
