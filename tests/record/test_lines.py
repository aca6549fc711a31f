"""Lines of input to records: the kernel and the parser that knows all of JSON read them alike."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.formats import RECORD_FIELDS, RecordField
from engine.kernels.lines import parse_json_lines, parse_text_lines
from engine.kernels.tables import Parsed
from engine.record.columns import RecordColumns, Table
from engine.record.json_record import OTHER_NAMES, LineInvalid, parse_json_line
from engine.record.lines import JsonLines, TextLines
from tests.support.json_output import SCHEMA

NOW = 1_700_000_000_000
ROOT = Path(__file__).parents[2]


def records(reader, text, capacity=64):
    """(key, value, headers in wire form, timestamp) of every record; columns are made as small as `capacity`."""
    data, found, at, done = bytearray(text), [], 0, False
    while not done:
        columns = RecordColumns(capacity)
        filled, at, done = reader.read(memoryview(data), at, len(data), NOW, columns)
        found += [record(data, columns.row(row)) for row in range(filled)]
    return found


def record(data, row):
    def content(name):
        at, size = row[RecordField[f"{name}_POSITION"]], row[RecordField[f"{name}_SIZE"]]
        return None if size < 0 else bytes(data[at : at + size])

    headers, at = [], row[RecordField.HEADERS_POSITION]
    for _ in range(row[RecordField.HEADER_COUNT]):
        pair = []
        for _ in range(2):
            size, at = varint(data, at)
            pair.append(None if size < 0 else bytes(data[at : at + size]))
            at += max(size, 0)
        headers.append(tuple(pair))
    return content("KEY"), content("VALUE"), headers, row[RecordField.TIMESTAMP]


def varint(data, at):
    raw = shift = 0
    while True:
        raw |= (data[at] & 127) << shift
        at += 1
        if data[at - 1] < 128:
            return (raw >> 1) ^ -(raw & 1), at
        shift += 7


def one(text):
    return records(JsonLines(), text.encode())


class TestText:
    def test_keys_and_values(self):
        found = records(TextLines(b":", b""), b"k:v\nno key\n:\nk:a:b\r\n\nlast:one", capacity=2)
        assert [record[:2] for record in found] == [
            (b"k", b"v"), (None, b"no key"), (b"", b""), (b"k", b"a:b"), (None, b""), (b"last", b"one"),
        ]  # fmt: skip
        assert {record[2:] == ([], NOW) for record in found} == {True}

    def test_no_separator(self):
        assert [record[:2] for record in records(TextLines(b"", b""), b"a:b\nc")] == [(None, b"a:b"), (None, b"c")]

    def test_long_separators_and_nulls(self):
        found = records(TextLines(b"=>", b"\\N"), b"k=>\\N\n\\N=>v\n\\N\nk=v=>x\n")
        assert [record[:2] for record in found] == [(b"k", None), (None, b"v"), (None, None), (b"k=v", b"x")]

    @given(st.binary(max_size=60), st.binary(max_size=3), st.binary(max_size=2))
    def test_it_is_what_splitting_gives(self, text, separator, null):
        columns, data = RecordColumns(64), bytearray(text)
        filled, at, status = parse_text_lines(
            memoryview(data), 0, len(data), memoryview(separator), memoryview(null), NOW, columns.table, 0
        )
        assert (at, status, data) == (len(text), Parsed.END, text)
        lines = text.split(b"\n")
        lines = lines if lines[-1] else lines[:-1]
        for row, line in enumerate(lines):
            line = line.removesuffix(b"\r") if line.endswith(b"\r") else line  # noqa: PLW2901  # the line without its end
            key, found, value = line.partition(separator) if separator else (b"", b"", line)
            key, value = (key, value) if found else (None, line)
            wanted = [None if null and content == null else content for content in (key, value)]
            assert list(record(data, columns.row(row))[:2]) == wanted
        assert filled == len(lines)


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize(("start", "end", "filled", "fields"), [
    (-1, 3, 0, RECORD_FIELDS), (0, 4, 0, RECORD_FIELDS), (3, 2, 0, RECORD_FIELDS), (0, 3, -1, RECORD_FIELDS), (0, 3, 0, 8),
])  # fmt: skip
def test_arguments_that_do_not_fit_are_refused(form, start, end, filled, fields):
    data, table = memoryview(bytearray(b"k:v")), Table(fields, 2).table
    words = [memoryview(b":"), memoryview(b""), NOW] if form == "text" else [NOW, memoryview(b"")]
    parse = parse_text_lines if form == "text" else parse_json_lines
    assert parse(data, start, end, *words, table, filled) == (filled, start, Parsed.BAD_START)


@pytest.mark.parametrize("reader", [JsonLines(), TextLines(b":", b"")])
def test_a_reader_of_bytes_that_are_not_there_is_a_mistake_of_its_caller(reader):
    with pytest.raises(AssertionError, match="do not match"):
        reader.read(memoryview(bytearray(3)), 0, 4, NOW, RecordColumns(2))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('{"key":"k","value":"v"}', (b"k", b"v", [], NOW)),
        ('{"value":"v"}', (None, b"v", [], NOW)),
        ('{"key":null}', (None, None, [], NOW)),
        ('{"value_b64":null}', (None, None, [], NOW)),
        ('{"key":null,"value":""}', (None, b"", [], NOW)),
        (' { "value" : "v" , "timestamp" : 5 } ', (None, b"v", [], 5)),
        ('{"value":"v","timestamp":-1}', (None, b"v", [], -1)),
        ('{"value":"v","timestamp":null}', (None, b"v", [], NOW)),
        ('{"value":{"a":[1,2.5e-3,{"b":null}],"c":"}"}}', (None, b'{"a":[1,2.5e-3,{"b":null}],"c":"}"}', [], NOW)),
        ('{"key":17,"value":true}', (b"17", b"true", [], NOW)),
        (r'{"value":"a\"\\\/\b\f\n\r\t\u00e9\u20ac\ud83d\ude00z"}', (None, 'a"\\/\b\f\n\r\té€😀z'.encode(), [], NOW)),
        ('{"value":"é😀"}', (None, "é😀".encode(), [], NOW)),
        ('{"key_b64":"/w==","value_b64":"AAEC"}', (b"\xff", b"\x00\x01\x02", [], NOW)),
        ('{"value":"v","headers":[]}', (None, b"v", [], NOW)),
        (
            '{"headers":[{"key":"a","value":"1"},{"key":"b","value":null},{"key":"c","value":""}],"value":"v"}',
            (None, b"v", [(b"a", b"1"), (b"b", None), (b"c", b"")], NOW),
        ),
        (r'{"value":"v","headers":[{"value":"x\n","key":"\u00e9"}]}', (None, b"v", [("é".encode(), b"x\n")], NOW)),
        ('{"value":"v","headers":[{"key":"a","value_b64":"/w=="}]}', (None, b"v", [(b"a", b"\xff")], NOW)),
        ('{"type":"record","offset":7,"timestamp":9,"sequence":-1,"value":"v"}', (None, b"v", [], 9)),
        (r'{"va\u006cue":"v"}', (None, b"v", [], NOW)),
        ('{"topic":"x","partition":0,"offset":1,"control":null,"value":"v"}', (None, b"v", [], NOW)),
    ],
)  # fmt: skip
def test_json(text, wanted):
    assert one(text) == [wanted]


@pytest.mark.parametrize("text", ["", "  ", '{"type":"batch","count":3}', '{"control":{"type":"commit"},"value":"x"}'])
def test_lines_that_are_no_records(text):
    reader = JsonLines()
    assert records(reader, text.encode()) == []
    assert reader.skipped == bool(text.strip())


@pytest.mark.parametrize(
    "text",
    [
        "x", "[]", '"v"', "{", '{"value":"v"', '{"value":"v",}', '{"value":"v"} x', '{"value":}', '{"value" "v"}',
        '{value:"v"}', '{"value":"\x01"}', r'{"value":"\q"}', r'{"value":"\ud800"}', r'{"value":"\u12g4"}',
        '{"value":01}', '{"value":1.}', '{"value":NaN}', '{"value":tru}', '{"value":[1,]}', '{"value":{"a"}}',
        '{"timestamp":1.5}', '{"timestamp":"now"}', '{"timestamp":-2}', '{"timestamp":9223372036854775808}',
        '{"value":"v","value_b64":"dg=="}', '{"value_b64":"?"}', '{"value_b64":5}', '{"headers":{}}', '{"headers":[1]}',
        "{}", '{"timestamp":5}', '{"offset":7,"headers":[]}', '{"type":"record","offset":7,"key_size":1}',
        '{"kye":"a"}', '{"value":"v","Key":"k"}', '{"value":"v","key ":"k"}', '{"value":"v","":1}', '{"value":"v","of":1}',
        '{"value":"v","offsets":1}', '{"value":"v","vague":"x"}', '{"value":"v","tyre":"y"}', '{"value":"v","healers":1}',
        '{"value":"v","timeshare":"z"}', '{"value":"v","kez":0}', '{"value":"v","headers":[{"key":"a","vlaue":"b"}]}',
        '{"headers":[{"value":"v"}]}', '{"headers":[{"key":1}]}', '{"headers":[{"key":"a","value":1}]}',
        '{"key":"a","key":"b"}', '{"value":"v","value":"w"}', '{"value":"v","value":"v"}', '{"value":"v","value":null}',
        r'{"value":"v","v\u0061lue":"w"}', '{"value_b64":"dg==","value_b64":"dw=="}', '{"value":"v","timestamp":1,"timestamp":2}',
        '{"value":"v","headers":[],"headers":[]}', '{"value":"v","type":"record","type":"record"}',
        '{"value":"v","offset":1,"offset":2}', '{"value":"v","value_size":1,"topic":"t","value_size":1}',
        '{"value":"v","headers":[{"key":"a","value":"b","value":"c"}]}', '{"value":"v","headers":[{"key":"a","key":"b"}]}',
        '{"value":' + "[" * 100_000 + "}",
    ],
)  # fmt: skip
def test_what_is_no_record(text):
    with pytest.raises(LineInvalid, match=r"^line 2: "):
        records(JsonLines(), b'{"value":"v"}\n' + text.encode())


def test_a_member_that_is_there_twice():
    text = b'{"value":"v"}\n{"key":"a","value":"v","key":"b"}'
    for reader in (JsonLines(), JsonLines(ignore_unknown=True)):
        with pytest.raises(LineInvalid, match=r"^line 2: the member 'key' occurs twice$"):
            records(reader, text)
    twice = b'{"value":{"a":1,"a":2},"note":1,"note":2,"offset":1,"offset":2,"headers":[{"key":"h","note":1,"note":2,"value":"x"}]}'
    assert records(JsonLines(ignore_unknown=True), twice) == [(None, b'{"a":1,"a":2}', [(b"h", b"x")], NOW)]
    with pytest.raises(LineInvalid, match=r"^line 1: the member 'note' occurs twice$"):
        records(JsonLines(), twice)


def test_more_names_than_are_kept_track_of():
    """A name beyond those that are kept track of is for the other parser."""
    columns = RecordColumns(2)
    names = memoryview(b"".join(b"\x02" + b"%02d" % number for number in range(80)))
    for number in range(80):
        line = bytearray(b'{"value":"v","%02d":1}' % number)
        filled, _, status = parse_json_lines(memoryview(line), 0, len(line), NOW, names, columns.table, 0)
        assert (filled, status) == ((1, Parsed.END) if number < 58 else (0, Parsed.ODD))


@pytest.mark.parametrize("names", [b"", OTHER_NAMES, b"\x03", b"\x03no", b"\xff" + bytes(9)])
def test_names_of_other_members(names):
    line, columns = bytearray(b'{"value":"v","note":1}'), RecordColumns(2)
    filled, _, status = parse_json_lines(memoryview(line), 0, len(line), NOW, memoryview(names), columns.table, 0)
    assert (filled, status) == ((0, Parsed.ODD) if names else (1, Parsed.END))


def test_unknown_members_can_be_passed_over():
    text = b'{"value":"v","kye":"k","headers":[{"key":"h","note":1,"value":"x"}]}\n{"kye":"a"}'
    with pytest.raises(LineInvalid, match=r"^line 1: a record has no member 'kye'; --ignore-unknown"):
        records(JsonLines(), text)
    reader = JsonLines(ignore_unknown=True)
    with pytest.raises(LineInvalid, match=r"^line 2: neither key nor value"):
        records(reader, text)
    assert records(JsonLines(ignore_unknown=True), text.partition(b"\n")[0]) == [(None, b"v", [(b"h", b"x")], NOW)]


@pytest.mark.parametrize("name", ["record", "fetched-record"])
def test_all_members_of_our_own_objects_are_known(name):
    others = set(SCHEMA["$defs"][name]["properties"]) - {"type", "control", "headers", "timestamp", "key", "value", "key_b64", "value_b64"}
    assert one(json.dumps({**dict.fromkeys(others, "v"), "value": "x"}))[0][:2] == (None, b"x")


@pytest.mark.parametrize("odd", [b'{"value_b64":"AA=="}', b'{"type":"batch"}', b'{"control":{}}', b""])
def test_odd_lines_count_in_the_numbers_of_lines(odd):
    """What the kernel leaves to the other parser, record or none, is a line, too."""
    with pytest.raises(LineInvalid, match=r"^line 4: "):
        records(JsonLines(), b'{"value":"v"}\n' + odd + b"\n" + odd + b"\nbad\n")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
HEADER = st.fixed_dictionaries({"key": st.text(max_size=80), "value": st.none() | st.text(max_size=200)})


@st.composite
def lines(draw):
    """A record as text of one line, more or less plain."""
    members = {}
    for name, values in (
        ("key", JSON), ("value", JSON), ("timestamp", st.integers(-1, 2**63 - 1)), ("headers", st.lists(HEADER, max_size=3)),
        ("offset", st.integers()), ("topic", JSON),
    ):  # fmt: skip
        if draw(st.booleans()):
            members[name] = draw(values)
    separators = draw(st.sampled_from([(",", ":"), (", ", ": "), (" ,\t", " : ")]))
    return json.dumps(members, ensure_ascii=draw(st.booleans()), separators=separators).replace("\n", "")


@given(st.lists(lines(), max_size=5), st.integers(1, 4))
def test_the_kernel_reads_what_json_reads(texts, capacity):
    text = "\n".join(texts).encode("utf-8", "surrogatepass")
    try:
        wanted = [parse_json_line(line.encode("utf-8", "surrogatepass")) for line in texts]
    except LineInvalid:
        return
    found = records(JsonLines(), text, capacity)
    assert [(key, value, len(headers)) for key, value, headers, _ in found] == [
        (one.key, one.value, one.header_count) for one in wanted
    ]
    assert [stamp for *_, stamp in found] == [NOW if one.timestamp is None else one.timestamp for one in wanted]
    for (_, _, headers, _), text in zip(found, texts, strict=True):
        given_headers = json.loads(text).get("headers", [])
        pairs = [(h["key"].encode(), None if h["value"] is None else h["value"].encode()) for h in given_headers]
        assert headers == pairs


@given(st.binary(max_size=60) | lines().map(str.encode), st.data())
def test_any_bytes_are_records_or_an_error(text, data):
    if text and data.draw(st.booleans()):
        at = data.draw(st.integers(0, len(text) - 1))
        text = text[:at] + data.draw(st.binary(max_size=2)) + text[at + 1 :]
    line = text.partition(b"\n")[0]
    before, columns = bytearray(line), RecordColumns(2)
    filled, _, status = parse_json_lines(memoryview(before), 0, len(before), NOW, memoryview(OTHER_NAMES), columns.table, 0)
    if status == Parsed.ODD:
        assert before == line  # as it was, for the other parser
    try:
        wanted = parse_json_line(line)
    except LineInvalid:
        assert status == Parsed.ODD
        return
    if status != Parsed.ODD and wanted is not None:
        key, value, headers, stamp = record(before, columns.row(0))
        assert (key, value, len(headers)) == (wanted.key, wanted.value, wanted.header_count)
        assert stamp == (NOW if wanted.timestamp is None else wanted.timestamp)
    elif status != Parsed.ODD:
        assert filled == 0


def test_base64_of_any_bytes():
    content = bytes(range(256)) * 3
    text = base64.b64encode(content).decode()
    assert one(f'{{"value_b64":"{text}","key":"k"}}') == [(b"k", content, [], NOW)]
