"""What removed bytes hold, by the headers of their batches."""

from __future__ import annotations

import pytest

from engine.log.segment.extent import read_extent
from tests.support.legacy_messages import message, wrapper
from tests.support.small_logs import batch, emptied, opened, records_at, with_wrong_checksum


def damaged(first, count=1):
    return with_wrong_checksum(batch(first, count))


@pytest.mark.parametrize(("parts", "expected", "offsets", "records", "text"), [
    ([], 5, (5, None), 0, ""),
    ([bytes(40)], 5, (5, None), 0, "; only zeros are truncated"),
    ([b"\1" * 40], 5, (5, None), None, ""),
    ([batch(5, 3), batch(8, 2)], 5, (5, 10), 5, ""),
    ([batch(5, 3), batch(8, 2)], 900, (5, 10), 5, ""),  # the name is too high
    ([batch(5, 3)], 2, (2, 8), 3, "; its sound batches hold offsets 5 to 7"),  # too low, or compacted
    ([batch(5, 3)], None, (5, 8), 3, ""),
    ([damaged(5, 3)], 5, (5, 8), None, "; 3 records by the batch header"),
    ([damaged(5, 3)[:-4]], 5, (5, 8), None, "; 3 records by the batch header"),  # torn
    ([damaged(5, 3), damaged(8)], 5, (5, 9), None, "; 4 records by the batch headers"),
    ([damaged(5, 3)], 6, (6, None), None, ""),  # continues nothing
    ([damaged(5, 3), batch(8)], 900, (5, 9), 1, "; 3 records by the batch header; lost with it: 1 sound batch (offset 8)"),
    ([damaged(5, 3), batch(7)], 5, (5, 8), 1, "; lost with it: 1 sound batch (offset 7)"),  # the header is contradicted
    ([batch(5), damaged(6, 2), batch(9)], 5, (5, 10), 2, "; 2 records by the batch header"),
    ([batch(5), damaged(7, 2), batch(9)], 5, (5, 10), 2, "; 2 records by the batch header"),
    ([batch(5), damaged(7), batch(9)], 5, (5, 10), 2, ""),
    ([batch(5), damaged(1, 8), batch(9)], 5, (5, 10), 2, ""),
    ([with_wrong_checksum(records_at(5, 9))], 5, (5, None), None, ""),  # as the cleaner leaves it
    ([emptied(5, 7)], 5, (5, 8), 0, ""),
    ([message(5, b"k", b"v"), message(6, b"k", b"v")], 5, (5, 7), 2, ""),
    ([wrapper(7, [message(0, b"k", b"v")] * 3)], 5, (5, 8), None, ""),
])  # fmt: skip
def test_what_removed_bytes_hold(parts, expected, offsets, records, text):
    data = b"".join(parts)
    found = read_extent(opened(data), 0, len(data), expected)
    assert ((found.first_offset, found.end_offset), found.records, found.text) == (offsets, records, text)
    assert found.size == len(data)


def test_only_the_bytes_that_are_asked_for_count():
    data = batch(5, 3) + batch(8, 2) + batch(10)
    at = len(batch(5, 3))
    found = read_extent(opened(data), at, at + len(batch(8, 2)), 8)
    assert (found.first_offset, found.end_offset, found.records, found.text) == (8, 10, 2, "")
