"""Compiled kernels and the plain ones of `reference` give the same answers, whatever the bytes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.formats import BATCH_FIELDS, BatchField, Codec, Status
from engine.record.columns import RecordColumns
from tests.support.kernel_calls import columns_of, decode, mutate, scan, table_of, text
from tests.support.load_kernel import load_kernel
from tests.support.once import BOTH_BUILDS
from tests.support.strategies import batches, edges

pytestmark = BOTH_BUILDS

LONG = edges(-(2**63), 2**63 - 1)


@pytest.fixture(scope="module")
def pairs():
    """(compiled, plain) by name."""
    names = ("scan", "decode", "text")
    return {name: (load_kernel(name, "compiled"), load_kernel(name, "interpreted")) for name in names}


def agree(pair, call, *arguments):
    """What `call` makes of either kernel."""
    compiled, plain = (call(kernel, *arguments) for kernel in pair)
    assert compiled == plain
    return plain


@st.composite
def logs(draw):
    """Batches of every format and codec, mostly damaged."""
    built = b"".join(case.build() for case in draw(st.lists(batches(codecs=(Codec.NONE, Codec.GZIP)), max_size=3)))
    return mutate(built, draw(st.data())) if draw(st.integers(0, 3)) else built


@given(logs(), st.integers(1, 5), st.sampled_from([1, 3, 64]), st.integers(0, 15), st.integers(700, 5000))
@settings(deadline=None, max_examples=120)
def test_both_read_a_log_alike(pairs, data, capacity, record_capacity, flags, room):
    at, status = 0, Status.FULL
    while status == Status.FULL:
        base = at
        rows, at, status = agree(pairs["scan"], scan, data, base, None, capacity)
        if not rows:
            return
        table, count = table_of(rows), len(rows)
        records = agree(pairs["decode"], decode, data, table, count, record_capacity).records
        agree(pairs["text"], text, data, table, count, columns_of(records), len(records), flags, room, base)


WILD = st.one_of(st.integers(-3, 90), LONG, st.sampled_from([2**31 - 1, -(2**31)]))


@given(st.binary(max_size=80), st.lists(st.lists(WILD, min_size=BATCH_FIELDS, max_size=BATCH_FIELDS), min_size=1, max_size=3),
       st.integers(-1, 4) | WILD, WILD, WILD, st.integers(-1, 4))  # fmt: skip
@settings(deadline=None, max_examples=400)
def test_both_refuse_the_same_columns(pairs, data, rows, row, at, done, filled):
    rows = [tuple(one) for one in rows]
    table = table_of(rows)
    for index in range(len(rows)):
        table.table[BatchField.COUNT, index] = min(rows[index][BatchField.COUNT], 2**31 - 1)
    answers = []
    for kernel in pairs["decode"]:
        columns = RecordColumns(3)
        last_row = max(row, len(rows))
        answer = kernel.decode_records(memoryview(data), table.table, row, last_row, at, done, columns.table, filled)
        whole = answer[4] in (Status.END, Status.FULL)  # behind damage nobody goes on at that byte
        kept = [field[: max(answer[0], 0)] for field in columns.table.tolist()]
        answers.append((answer[0], answer[1], answer[2] if whole else None, *answer[3:], kept))
    assert answers[0] == answers[1]
