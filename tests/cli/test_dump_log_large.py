"""Records larger than any buffer, as text and as JSON."""

import json
import sys
from base64 import b64encode

import pytest

from engine.java.strings import java_utf8
from engine.record.builder import NewRecord, build_batch
from tests.bench.measure import run
from tests.support.console import ROOT
from tests.support.json_output import all_objects
from tests.support.run import kafkalog

PAYLOADS = {
    "ascii": b"abcdefghij" * 60_000,
    "three bytes a character": "\u65e5\u672c".encode() * 80_000,
    "nothing that is UTF-8": b"\xed\xa0\x80\xf0\x9f" * 90_000,
    "a character over a border": b"x" * 65_535 + "\U0001f4e6".encode() * 90_000,
}


@pytest.mark.parametrize("name", PAYLOADS)
@pytest.mark.parametrize("skip", [False, True])
def test_large_records_are_printed_as_small_ones(tmp_path, name, skip):
    payload = PAYLOADS[name]
    records = [NewRecord(0, 1, b"k", b"v"), NewRecord(1, 2, payload, payload), NewRecord(2, 3, None, payload), NewRecord(3, 4, b"", None)]
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(build_batch(records, base_offset=0, codec=3) + build_batch([NewRecord(4, 5, b"k", b"v")], base_offset=4))
    done = kafkalog("dump-log", "--print-data-log", *(["--skip-record-metadata"] if skip else []), str(path))
    text = java_utf8(payload)
    lines = [b"key: k payload: v", b"key: " + text + b" payload: " + text, b"payload: " + text, b"key: ", b"key: k payload: v"]
    heads = [
        f"offset: {i} CreateTime: {i + 1} keySize: {-1 if r is None else len(r)} valueSize: {-1 if v is None else len(v)} "
        f"sequence: -1 headerKeys: [] ".encode()
        for i, (r, v) in enumerate([*((r.key, r.value) for r in records), (b"k", b"v")])
    ]
    wanted = [b"| " + (b"" if skip else head) + line for head, line in zip(heads, lines, strict=True)]
    assert [line for line in done.out.split(b"\n") if line.startswith(b"|")] == wanted
    assert done.out.count(b"baseOffset: ") == 2


@pytest.mark.parametrize("name", PAYLOADS)
@pytest.mark.parametrize("codec", [0, 3])
def test_large_records_are_json_as_small_ones(tmp_path, name, codec):
    payload = PAYLOADS[name]
    path = tmp_path / "00000000000000000000.log"
    records = [NewRecord(0, 1, b"k", b"v"), NewRecord(1, 2, payload, None), NewRecord(2, 3, None, payload)]
    path.write_bytes(build_batch(records, base_offset=0, codec=codec))
    done = kafkalog("dump-log", "--print-data-log", "--format", "jsonl", str(path))
    objects = [one for one in all_objects(done.out)[1:] if one["type"] == "record"]
    fields = [
        [(name, one[name]) for name in ("key", "key_b64", "value", "value_b64") if name in one] for one in objects
    ]
    try:
        stored = ("", payload.decode())
    except UnicodeDecodeError:
        stored = ("_b64", b64encode(payload).decode())
    assert fields == [
        [("key", "k"), ("value", "v")],
        [("key" + stored[0], stored[1]), ("value", None)],
        [("key", None), ("value" + stored[0], stored[1])],
    ]
    assert [one["headers"] for one in objects] == [[], [], []]


@pytest.mark.parametrize("value", [b"v", PAYLOADS["nothing that is UTF-8"]], ids=["small", "large"])
@pytest.mark.parametrize("contents", [True, False], ids=["contents", "heads"])
def test_many_headers_come_some_at_a_time(tmp_path, value, contents):
    names = ["", 40 * "name", "\u65e5"]  # all of them are longer than the buffer for text
    headers = [(names[number % 3].encode(), None if number % 5 == 0 else b"%d" % number) for number in range(20_000)]
    path = tmp_path / "00000000000000000000.log"
    records = [NewRecord(0, 1, b"k", b"v"), NewRecord(1, 2, b"key", value, headers), NewRecord(2, 3, None, b"w", headers[:2])]
    path.write_bytes(build_batch(records, base_offset=0))
    options = ["--print-data-log"] if contents else ["--deep-iteration"]
    line = kafkalog("dump-log", *options, str(path)).out.split(b"\n")[-3]
    head, _, tail = line.partition(b"headerKeys: [")
    assert head == b"| offset: 1 CreateTime: 2 keySize: 3 valueSize: %d sequence: -1 " % len(value)
    wanted = ",".join(names[number % 3] for number in range(20_000)) + "]"
    assert tail == wanted.encode() + (b" key: key payload: " + java_utf8(value) if contents else b"")
    out = kafkalog("dump-log", *options, "--format", "jsonl", str(path)).out.splitlines()
    one = next(found for found in map(json.loads, out) if found.get("offset") == 1)
    assert one["headers"] == [{"key": key.decode(), "value": value and value.decode()} for key, value in headers]
    assert ("key" in one) == contents


def test_memory_does_not_grow_with_the_headers(tmp_path):
    headers = [(b"", None)] * 800_000
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(build_batch([NewRecord(0, 1, b"k", b"v", headers)], base_offset=0))
    for words in (["--deep-iteration"], ["--print-data-log", "--format", "jsonl"]):
        done = run([sys.executable, "-m", "kafkalog_cli", "dump-log", *words, str(path)], ROOT, tmp_path / "out")
        assert done.peak_bytes < 60 << 20, words
