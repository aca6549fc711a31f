"""Which offsets survive, a bit each, and which batches have none of them."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.formats import BatchField
from engine.kernels import offset_map as kernel
from engine.kernels.tables import Verdict
from tests.support.batch_tables import ranges
from tests.support.strategies import examples


def survivors_of(kernel, offsets, start, words):
    slots = memoryview(array("Q", [word for offset in offsets for word in (1, offset, offset)] + [0, 0, 0]))
    bits = memoryview(array("Q", bytes(8 * words)))
    return bits if kernel.note_survivors(slots, start, bits) else None


@given(st.sets(st.integers(10, 400)), st.lists(st.tuples(st.integers(0, 450), st.integers(0, 200)), min_size=1, max_size=30))
@examples(150)
def test_a_batch_without_a_survivor_is_superseded(survivors, described):
    bits = survivors_of(kernel, survivors, 10, 7)
    batches = ranges(*((base, base + size) for base, size in described))
    verdicts = memoryview(bytearray(len(described)))
    assert kernel.judge_batches(batches, len(described), verdicts, bits, 10, 420, False)
    for verdict, (base, size) in zip(verdicts, described, strict=True):
        if base < 10 or base + size > 420:
            assert verdict == Verdict.ASK
        else:
            lives = any(base <= offset <= base + size for offset in survivors)
            assert verdict == (Verdict.ASK_SURVIVORS if lives else Verdict.SUPERSEDED)


@pytest.mark.parametrize("offset", [10, 73, 74, 137, 138])
@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 128])
def test_ends_of_words(offset, size):
    for survivor in (offset - 1, offset, offset + size, offset + size + 1):
        bits, verdicts = survivors_of(kernel, [survivor], 9, 6), memoryview(bytearray(1))
        assert kernel.judge_batches(ranges((offset, offset + size)), 1, verdicts, bits, 9, 9 + 64 * 6 - 1, False)
        assert (verdicts[0] == Verdict.SUPERSEDED) == (not offset <= survivor <= offset + size)


def test_batches_that_are_asked_by_their_records():
    bits = memoryview(array("Q", [0] * 2048))
    batches = ranges((0, 1), (0, 1), (0, 1), (0, kernel.LONGEST), (0, 1), (0, 1))
    batches[BatchField.MAGIC, 0] = 1
    batches[BatchField.ATTRIBUTES, 1] = 16
    batches[BatchField.ATTRIBUTES, 2] = 32
    batches[BatchField.COUNT, 4] = 0
    verdicts = memoryview(bytearray(b"\0\0\0\0\0\1"))
    assert kernel.judge_batches(batches, 6, verdicts, bits, 0, 100_000, False)
    assert list(verdicts) == [Verdict.ASK, Verdict.ASK, Verdict.ASK, Verdict.ASK_SURVIVORS, Verdict.ASK, Verdict.KEEP_ALL]
    assert kernel.judge_batches(batches, 3, verdicts, bits, 0, 100_000, True)
    assert list(verdicts[:3]) == [Verdict.ASK, Verdict.SUPERSEDED, Verdict.SUPERSEDED]
    assert not kernel.judge_batches(batches, 6, verdicts, bits, 0, 200_000, False), "fewer bits than offsets"
    assert not kernel.judge_batches(batches, 7, verdicts, bits, 0, 1, False)


def test_survivors_that_do_not_fit():
    assert survivors_of(kernel, [5], 6, 1) is None
    assert survivors_of(kernel, [70], 6, 1) is None
    assert list(survivors_of(kernel, [6, 69], 6, 1)) == [1 | 1 << 63]
