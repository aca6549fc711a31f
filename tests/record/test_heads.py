"""The walk over headers sees what the walk over batches sees, wherever damage leads both of them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import FileChangedWhileReading
from engine.formats import BATCH_FIELDS, BatchField
from engine.record.builder import NewRecord, build_batch
from engine.record.columns import BatchColumns
from engine.record.heads import HeadWalk
from engine.record.windows import LogWalk
from tests.support.kernel_calls import mutate
from tests.support.memory_files import MemoryFiles

POSITIONS = (BatchField.POSITION, BatchField.BODY, BatchField.BODY_END)
FIELDS = [field for field in range(BATCH_FIELDS) if field != BatchField.VALID]


def batch(number, size, magic=2):
    return build_batch([NewRecord(number, 1000 + number, b"k", b"v" * size)], base_offset=number, magic=magic)


def seen(walk):
    """(headers with positions in the file, why the walk ended, where)."""
    found = []
    for window in walk:
        table = window.batches.table
        found += [
            tuple(table[field, row] + (window.base if field in POSITIONS else 0) for field in FIELDS)
            for row in range(window.rows)
        ]
    return found, walk.stop, walk.position


logs = st.lists(st.tuples(st.sampled_from([0, 50, 3000, 20_000, 300_000]), st.sampled_from([0, 1, 2, 2, 2])), max_size=40).map(
    lambda sizes: b"".join(batch(number, size, magic) for number, (size, magic) in enumerate(sizes))
)


@given(logs, st.data())
@settings(deadline=None, max_examples=60)
def test_as_the_walk_over_batches(data, draw):
    if draw.draw(st.booleans()) and data:
        data = mutate(data, draw)
    with MemoryFiles({"x.log": data}).open("x.log") as file:
        assert seen(HeadWalk(file)) == seen(LogWalk(file))


def test_of_large_batches_only_the_headers_are_read():
    data = b"".join(batch(number, 100_000) for number in range(50))
    done = 0
    with MemoryFiles({"x.log": data}).open("x.log") as file:
        read_into = file.read_into

        def counted(buffer, position):
            nonlocal done
            done += len(buffer)
            return read_into(buffer, position)

        file.read_into = counted
        assert len(seen(HeadWalk(file, batches=BatchColumns(7)))[0]) == 50
    assert done < 300_000


def test_a_file_that_became_shorter():
    data = b"".join(batch(number, 20_000) for number in range(50))
    with MemoryFiles({"x.log": data}).open("x.log") as file, pytest.raises(FileChangedWhileReading):
        seen(HeadWalk(file, 0, len(data) + 100))
