"""Is what a start would cut from the metadata log a loss? Sound batches behind the damage decide."""

from __future__ import annotations

import pytest

from engine.log.logdir.cluster_metadata import prove_metadata_log
from engine.record.builder import NewRecord, build_batch
from tests.support.memory_files import MemoryFiles

DIRECTORY = "/data/__cluster_metadata-0"
BATCHES = [build_batch([NewRecord(offset, 1, None, b"x" * 90)]) for offset in range(10)]
SIZE = len(BATCHES[0])


def proof(*logs):
    """Of a metadata log of these segments: (base offset, bytes)."""
    files = {f"{DIRECTORY}/{base:020}.log": bytes(data) for base, data in logs}
    return prove_metadata_log(MemoryFiles(files), DIRECTORY)


def zeroed(first, end, more=0):
    """The ten batches, a range of bytes zero, and so many zeros behind them."""
    data = bytearray(b"".join(BATCHES) + bytes(more))
    data[first:end] = bytes(end - first)
    return data


def test_a_sound_log():
    assert proof((0, zeroed(0, 0)))[:2] == (False, "")


@pytest.mark.parametrize("more", [0, 64])
@pytest.mark.parametrize(("first", "end", "position", "lost"), [
    (3 * SIZE + 80, 4 * SIZE + 20, 3, 5),  # a page, from one batch into the next one
    (3 * SIZE + 80, 3 * SIZE + 90, 3, 6),  # inside of one
    (4 * SIZE, 4 * SIZE + 20, 4, 5),  # a header
    (3 * SIZE + 80, 9 * SIZE + 20, 3, 0),
    (3 * SIZE, 10 * SIZE, 3, 0),
])  # fmt: skip
def test_batches_behind_the_damage_are_a_loss(more, first, end, position, lost):
    found = proof((0, zeroed(first, end, more)))
    assert (found.position, found.offset, found.lost_batches) == (position * SIZE, position, lost)
    ends_in_zeros = more or end == 10 * SIZE
    assert found.is_lossy is (lost > 0 or not ends_in_zeros)


def test_batches_behind_damage_in_a_later_segment_count_too():
    first, second = zeroed(3 * SIZE + 80, 4 * SIZE + 20), zeroed(4 * SIZE, 4 * SIZE + 20)
    found = proof((0, first), (10, second))
    assert (found.is_lossy, found.segment, found.offset, found.lost_batches) == (True, 0, 3, 5 + 9)


def test_the_rest_of_a_last_write_is_no_loss():
    assert proof((0, zeroed(0, 0)[:-5]))[0] is False
    assert proof((0, zeroed(9 * SIZE + 80, 10 * SIZE)))[0] is False
    assert proof((0, zeroed(0, 0)[:-5]), (10, zeroed(0, 0)))[0] is True, "a segment follows"
