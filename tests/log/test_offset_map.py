"""The offset map holds what it promises, whatever it was told to expect, and takes no memory for keys that cannot come."""

from __future__ import annotations

import pytest

from engine.errors import UsageError
from engine.log.cleaner.offset_map import BYTES_PER_ENTRY, SkimpyOffsetMap
from engine.record.builder import NewRecord, build_batch
from engine.record.reader import ChunkReader
from engine.record.windows import LogWalk
from tests.support.memory_files import MemoryFile

KEYS = 30_000  # more than a map begins with


def put_all(offset_map, keys):
    """How many of the keys 0 … keys − 1 were put before it was full."""
    batches = b"".join(
        build_batch([NewRecord(at, 0, b"%d" % at, b"") for at in range(start, min(start + 5000, keys))], base_offset=start)
        for start in range(0, keys, 5000)
    )
    done = 0
    for window in LogWalk(MemoryFile("x.log", batches)):
        for chunk in ChunkReader("x.log", [].append).chunks(window):
            at = offset_map.put(chunk, 0, bytes(window.rows))
            done += at - chunk.first
            if at < chunk.end:
                return done
    return done


@pytest.mark.parametrize("expected", [0, 1, KEYS // 2, KEYS, 10**15])
def test_it_holds_what_comes_whatever_was_expected(expected):
    offset_map = SkimpyOffsetMap(4 << 20, (1, 2))
    for _ in range(2):
        offset_map.clear(expected)
        assert put_all(offset_map, KEYS) == len(offset_map) == KEYS
        assert [offset_map.get(b"%d" % key) for key in (0, 1, 777, KEYS - 1)] == [0, 1, 777, KEYS - 1]
        assert offset_map.get(b"never") == -1


@pytest.mark.parametrize("expected", [0, 10**6])
def test_it_is_full_at_its_capacity(expected):
    offset_map = SkimpyOffsetMap(1000 * BYTES_PER_ENTRY, (1, 2))
    offset_map.clear(expected)
    assert put_all(offset_map, KEYS) == offset_map.capacity == 900


def test_a_large_limit_costs_nothing_where_few_keys_can_come():
    offset_map = SkimpyOffsetMap(1 << 60, (1, 2))
    offset_map.clear(KEYS)
    assert put_all(offset_map, KEYS) == KEYS


def test_more_memory_than_there_is_is_a_clear_error(monkeypatch):
    def refuse(size):
        raise MemoryError(f"{size} bytes")

    offset_map = SkimpyOffsetMap(1 << 40, (1, 2))
    offset_map.clear(KEYS)
    monkeypatch.setattr("engine.log.cleaner.offset_map.zeros", refuse)
    with pytest.raises(UsageError, match="the operating system does not provide that much memory"):
        put_all(offset_map, KEYS)
