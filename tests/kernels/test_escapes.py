"""What a terminal would obey is one set of characters, wherever it is written down, and each is shown in one way.

escapes.py has it as a pattern, words.py as bounds, text.py and json_strings.py have the ASCII part of it: all of them are
asked about every character of 16 bits, and about some above.
"""

from __future__ import annotations

import json
import sys
import unicodedata

from engine.formats import RecordField
from engine.kernels import ndjson
from engine.kernels import text as text_kernel
from engine.kernels.decoded import Decoded
from engine.kernels.escapes import terminal_safe, terminal_safe_json
from engine.kernels.fields import CONTENTS, ESCAPE, OPEN
from engine.record.builder import NewRecord, stage
from engine.record.columns import BatchColumns, RecordColumns
from tests.support.kernel_calls import text

SURROGATES = range(0xD800, 0xE000)  # no well-formed UTF-8 has them
ABOVE = (0x10000, 0x1061C, 0x1200B, 0x1202E, 0x1206F, 0x1F600, 0x1FEFF, 0xDFFFF, 0xE1000, 0xFFFFF, sys.maxunicode)
IGNORABLE = (*range(0x1BCA0, 0x1BCA4), *range(0x1D173, 0x1D17B), *range(0xE0000, 0xE1000))  # of Unicode, beyond 16 bits
CODES = [code for code in range(0x10000) if code not in SURROGATES] + sorted({*ABOVE, *IGNORABLE, 0x1BC9F, 0x1BCA4, 0x1D17B})
MARKS = "\u061c\u200b\u200c\u200d\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\ufeff"
FILLERS = "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180e\u180f\u3164\uffa0"
UNSAFE = {
    *range(0x20), *range(0x7F, 0xA0), *map(ord, MARKS + FILLERS), *range(0x2060, 0x2070), *range(0xFFF0, 0xFFFC), *IGNORABLE,
}  # fmt: skip
# of the category "format", but seen: signs that enclose or join what follows
SEEN = {*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD, *range(0x13430, 0x13440)}
SHORT = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


def in_text(code):
    char = chr(code)
    if code not in UNSAFE:
        return char
    return SHORT.get(char) or (f"\\x{code:02x}" if code < 0xA0 else json.dumps(char)[1:-1])


def in_json(code):
    return json.dumps(chr(code), ensure_ascii=code in UNSAFE)[1:-1].replace("\x7f", "\\u007f")


def differences(shown, wanted):
    """(character, how it is shown, how it should be) of those that differ; `shown` gives one text for a list of codes."""
    if shown(CODES) == "".join(map(wanted, CODES)):
        return []
    return [(hex(code), shown([code]), wanted(code)) for code in CODES if shown([code]) != wanted(code)]


def characters(codes):
    return "".join(map(chr, codes))


def test_what_unicode_calls_a_control_a_format_an_end_of_line_or_a_change_of_direction_is_unsafe():
    directions = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    by_unicode = {
        code for code in range(sys.maxunicode + 1)
        if unicodedata.category(chr(code)) in ("Cc", "Cf", "Zl", "Zp") or unicodedata.bidirectional(chr(code)) in directions
    }  # fmt: skip
    assert by_unicode - SEEN <= UNSAFE


def test_in_names_and_messages():
    assert differences(lambda codes: terminal_safe(characters(codes)), in_text) == []


def test_in_json_that_is_quoted_already():
    def shown(codes):
        return terminal_safe_json(json.dumps(characters(codes), ensure_ascii=False)[1:-1])

    assert differences(shown, in_json) == []


def test_in_the_text_of_payloads():
    def shown(codes):
        payload, records = characters(codes).encode(), RecordColumns(1)
        records.table[RecordField.KEY_SIZE, 0], records.table[RecordField.VALUE_SIZE, 0] = -1, len(payload)
        printed, _ = text(text_kernel, payload, BatchColumns(1), 0, records, 1, CONTENTS | ESCAPE | OPEN, 1 << 20)
        return printed.removeprefix(b"| payload: ").decode()

    assert differences(shown, in_text) == []


def test_in_the_json_of_values():
    out = memoryview(bytearray(1 << 20))

    def shown(codes):
        data, columns = stage([NewRecord(0, 0, None, characters(codes).encode())])
        batches = BatchColumns(1).table
        at, *_ = ndjson.record_objects(out, 0, Decoded(memoryview(data), batches, columns.table), 0, 1, 0, 1, CONTENTS | ESCAPE)
        return bytes(out[:at]).decode().partition('"value":"')[2].removesuffix('"}\n')

    assert differences(shown, in_json) == []
