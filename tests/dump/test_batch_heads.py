"""Heads of batches at any position."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.dump import batch_heads
from engine.dump.batch_heads import BatchAt, BatchHeads
from engine.errors import FileChangedWhileReading
from engine.formats import BatchField
from engine.record.columns import BatchColumns
from tests.support.memory_files import MemoryFile
from tests.support.small_logs import batch, opened

DATA = batch(0, 3) + batch(3, 1, magic=1) + batch(4, 2)
SECOND, THIRD = len(batch(0, 3)), len(batch(0, 3)) + len(batch(3, 1, magic=1))
BATCHES = [BatchAt(0, SECOND, 0, 2), BatchAt(SECOND, THIRD - SECOND, 3, 3), BatchAt(THIRD, len(DATA) - THIRD, 4, 5)]


def test_a_head_says_size_and_offsets_of_every_format():
    heads = BatchHeads(opened(DATA))
    assert [heads.at(found.position) for found in BATCHES] == BATCHES
    assert heads.size == len(DATA)


@given(st.lists(st.sampled_from(BATCHES), max_size=8), st.integers(61, 300))
def test_the_order_of_questions_and_the_size_of_blocks_do_not_matter(questions, block):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch_heads, "_BLOCK", block)
        heads = BatchHeads(opened(DATA))
        assert [heads.at(found.position) for found in questions] == questions


@pytest.mark.parametrize(("position", "why"), [
    (-1, "outside the log"), (len(DATA) + 1, "outside the log"), (len(DATA), "that is the end of the log"),
    (len(DATA) - 17, "that is the end of the log"), (5, "its size field would be"), (2, "the batch would need"),
])
def test_where_no_batch_begins(position, why):
    answer = BatchHeads(opened(DATA)).at(position)
    assert isinstance(answer, str)
    assert why in answer
    assert str(position) in answer


def test_no_batch_reaches_beyond_the_limit():
    heads = BatchHeads(opened(DATA))
    assert heads.at(0, limit=SECOND) == BATCHES[0]
    assert "the batch would need" in heads.at(0, limit=SECOND - 1)
    assert "that is the end of the log" in heads.at(0, limit=17)


def test_a_header_that_is_cut_off():
    short = (48 - 12).to_bytes(4, "big")
    data = bytes(8) + short + bytes(4) + b"\2" + bytes(31)
    assert "its header is cut off" in BatchHeads(opened(data)).at(0)


def test_offsets_wrap_as_java_longs_do():
    data = (2**63 - 1).to_bytes(8, "big") + batch(0, 2)[8:]
    assert BatchHeads(opened(data)).at(0) == BatchAt(0, len(data), 2**63 - 1, -(2**63))


def test_a_log_that_became_shorter():
    with pytest.raises(FileChangedWhileReading):
        BatchHeads(MemoryFile("x.log", DATA, (0, 10))).at(0)


def test_a_window_holds_the_whole_batch():
    columns, heads = BatchColumns(1), BatchHeads(opened(DATA))
    for found in BATCHES:
        window = heads.window(found, columns)
        assert window.rows == 1
        at = columns.table[BatchField.POSITION, 0]
        assert window.base + at == found.position
        assert window.data[at : at + found.size] == DATA[found.position : found.position + found.size]
        assert columns.table[BatchField.BASE_OFFSET, 0] == found.base_offset


def test_a_batch_beyond_a_block_has_no_window(monkeypatch):
    monkeypatch.setattr(batch_heads, "_BLOCK", 80)
    heads = BatchHeads(opened(batch(0, 1, b"v" * 500)))
    assert heads.window(heads.at(0), BatchColumns(1)) is None
