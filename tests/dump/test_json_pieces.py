"""Fields that are written piece by piece are those that the kernel writes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.dump import json_stream
from engine.dump.json_stream import put_large_field
from engine.dump.text_buffer import TextBuffer
from engine.formats import RecordField
from engine.kernels.decoded import Decoded
from engine.kernels.fields import CONTENTS, ESCAPE
from engine.kernels.ndjson import record_objects
from engine.record.columns import BatchColumns, RecordColumns

HEAD = b'{"type":"record","offset":0'
CONTENT = st.one_of(
    st.binary(max_size=60),
    st.text(st.characters() | st.sampled_from('"\\/\b\f\n\r\t\x00\x1f\x7f\x80\u202e\ufeff\u2028\U0001f4e6'), max_size=30).map(
        lambda text: text.encode("utf-8", "replace")
    ),
)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(json_stream, "_PIECE", 3)


def by_kernel(data: bytes, flags: int) -> bytes:
    """The field `key` as the kernel writes it."""
    batches, records, out = BatchColumns(1), RecordColumns(1), memoryview(bytearray(2000))
    for field, value in ((RecordField.KEY_SIZE, len(data)), (RecordField.VALUE_SIZE, -1)):
        records.table[field, 0] = value
    at = record_objects(out, 0, Decoded(memoryview(data), batches.table, records.table), 0, 0, 0, 1, CONTENTS | flags)[0]
    return bytes(out[:at]).removeprefix(HEAD).removesuffix(b',"value":null}\n')


@given(CONTENT, st.booleans())
@settings(max_examples=300, deadline=None)
def test_pieces_are_what_the_kernel_writes(data, escape):
    written: list[bytes] = []
    out = TextBuffer(lambda view: written.append(bytes(view)), 16)
    put_large_field(out, "key", memoryview(data), escape=escape)
    out.flush()
    assert b"".join(written) == by_kernel(data, ESCAPE if escape else 0)
