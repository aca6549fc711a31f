"""The kernels that read give the same answers as their plain counterparts, whatever the bytes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.formats import BATCH_FIELDS, BatchField, Codec, Status
from engine.kernels import decode as decode_kernel
from engine.kernels import scan as scan_kernel
from engine.record.columns import RecordColumns
from tests.support import plain_kernels
from tests.support.kernel_calls import decode, mutate, scan, table_of
from tests.support.strategies import batches, edges, examples

LONG = edges(-(2**63), 2**63 - 1)


@st.composite
def logs(draw):
    """Batches of every format and codec, mostly damaged."""
    built = b"".join(case.build() for case in draw(st.lists(batches(codecs=(Codec.NONE, Codec.GZIP)), max_size=3)))
    return mutate(built, draw(st.data())) if draw(st.integers(0, 3)) else built


@given(logs(), st.integers(1, 5), st.sampled_from([1, 3, 64]))
@examples(200)
def test_a_log(data, capacity, record_capacity):
    at, status = 0, Status.FULL
    while status == Status.FULL:
        scanned = scan(scan_kernel, data, at, None, capacity)
        assert scanned == scan(plain_kernels, data, at, None, capacity)
        rows, at, status = scanned
        if not rows:
            return
        table, count = table_of(rows), len(rows)
        decoded = decode(decode_kernel, data, table, count, record_capacity)
        assert decoded == decode(plain_kernels, data, table, count, record_capacity)


WILD = st.one_of(st.integers(-3, 90), LONG, st.sampled_from([2**31 - 1, -(2**31)]))


@given(st.binary(max_size=80), st.lists(st.lists(WILD, min_size=BATCH_FIELDS, max_size=BATCH_FIELDS), min_size=1, max_size=3),
       st.integers(-1, 4) | WILD, WILD, WILD, st.integers(-1, 4))  # fmt: skip
@examples(400)
def test_columns_that_nobody_wrote(data, rows, row, at, done, filled):
    rows = [tuple(one) for one in rows]
    table = table_of(rows)
    for index in range(len(rows)):
        table.table[BatchField.COUNT, index] = min(rows[index][BatchField.COUNT], 2**31 - 1)
    answers = []
    for kernel in (decode_kernel, plain_kernels):
        columns = RecordColumns(3)
        last_row = max(row, len(rows))
        answer = kernel.decode_records(memoryview(data), table.table, row, last_row, at, done, columns.table, filled)
        whole = answer[4] in (Status.END, Status.FULL)  # after damage nobody reads on at that byte
        kept = [field[: max(answer[0], 0)] for field in columns.table.tolist()]
        answers.append((answer[0], answer[1], answer[2] if whole else None, *answer[3:], kept))
    assert answers[0] == answers[1]


@given(st.binary(max_size=12) | st.binary(max_size=6).map(lambda tail: b"\xff\xff\xff\xff" + tail), st.integers(-1, 6), st.integers(0, 12))
def test_varints(data, at, end):
    end = min(end, len(data))
    try:
        wanted = plain_kernels.varint(data[:end], at) if at >= 0 else (0, -1)
    except plain_kernels.Broken:
        wanted = (0, -1)
    assert decode_kernel.read_varint(memoryview(data), at, end) == wanted
