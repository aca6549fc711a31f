"""The iterators and the validity check of 0.7, against what 0.7.2 itself made of the same files."""

import base64
import gzip
import hashlib
import json
import random
import struct
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.files import ReadOnlyFiles
from engine.findings import KINDS
from engine.kafka07.entries import CODEC_NAMES_07, MessageAndOffset, Stopped, iterate_deep, iterate_set, open_sets
from engine.kafka07.file import find_entry, iterate_file, valid_size
from engine.record.codecs import codecs
from engine.record.codecs.bounded import MAX_DECOMPRESSED_BYTES
from engine.record.codecs.codecs import inflate
from tests.support.corpus import corpus_directory
from tests.support.floors import saw_enough

ROOT = corpus_directory() / "old" / "0.7.2"


def entry(payload, magic=1, attributes=0, checksum=None):
    checksum = zlib.crc32(payload) if checksum is None else checksum
    head = bytes([magic, attributes]) if magic == 1 else bytes([magic])
    return struct.pack(">i", len(head) + 4 + len(payload)) + head + struct.pack(">I", checksum) + payload


def wrapper(entries, level=6):
    return entry(gzip.compress(entries, level), attributes=1)


def on_disk(directory, data):
    path = directory / "0.kafka"
    path.write_bytes(data)
    return ReadOnlyFiles().open(str(path))


def expected_rows():
    iterated = ROOT / "expected" / "iterated.jsonl"
    if not iterated.exists():
        return []
    rows = [json.loads(line) for line in iterated.read_text().splitlines()]
    cases = {}
    for row in rows:
        for iterator in row["iterators"]:
            cases.setdefault((row["log"], row["file"], iterator), []).append(row)
    for name in sorted((ROOT / "logs").glob("*/*.kafka")):
        for iterator in ("file", "set", "deep"):  # those that gave no row at all must give none here
            cases.setdefault((name.parent.name, name.name, iterator), [])
    return sorted(cases.items())


def iterate(kind, path, window):
    start = int(path.name.split(".")[0])
    if kind == "file":
        with ReadOnlyFiles().open(str(path)) as file:
            return list(iterate_file(file, start, window=window))
    return list((iterate_set if kind == "set" else iterate_deep)(path.read_bytes(), start))


def as_row(item):
    """An item in the form of iterated.jsonl: a field that throws is its exception."""
    if isinstance(item, Stopped):
        return {"error": item.error.exception, "message": item.error.message}
    assert isinstance(item, MessageAndOffset)
    row = {"offset": item.offset, "next_offset": item.next_offset, "size": item.size, "magic": item.magic}
    if item.codec is None:
        thrown = {"error": item.error.exception, "message": item.error.message}
        codec = {"error": "java.lang.RuntimeException", "message": f"Invalid magic byte {item.magic}"}
        return row | {"codec": codec, "checksum": thrown, "valid": thrown, "payload": thrown}
    if item.attributes is not None:
        row["attributes"] = item.attributes - 256 if item.attributes > 127 else item.attributes
    thrown = item.error and {"error": item.error.exception, "message": item.error.message}
    row["codec"] = thrown or CODEC_NAMES_07[item.codec]
    row |= {"checksum": item.checksum, "valid": item.valid}
    if len(item.payload) > 1500:
        return row | {"payload_bytes": len(item.payload), "payload_sha256": hashlib.sha256(item.payload).hexdigest()}
    return row | {"payload": base64.b64encode(item.payload).decode()}


@pytest.mark.parametrize("window", [1, 100, 1 << 20])
@pytest.mark.parametrize(("case", "rows"), expected_rows(), ids=lambda v: "-".join(v) if isinstance(v, tuple) else "")
def test_iterators_give_what_kafka_gave(case, rows, window):
    log, name, iterator = case
    items = iterate(iterator, ROOT / "logs" / log / name, window)
    assert [as_row(item) for item in items] == [
        {key: value for key, value in row.items() if key not in ("log", "file", "iterators")} for row in rows
    ]
    for item in items:
        if isinstance(item, MessageAndOffset) and item.payload_position is not None:
            data = (ROOT / "logs" / log / name).read_bytes()
            assert data[item.payload_position :][: len(item.payload)] == item.payload


def fetches():
    """(case, offset, chunk, what a consumer made of it) of every fetch in the cases."""
    cases = [json.loads(path.read_text()) for path in sorted(ROOT.glob("cases/*/case.json"))] if ROOT.is_dir() else []
    if cases:
        more = ROOT / "cases" / "more.jsonl"
        cases += [json.loads(line) for line in more.read_text().splitlines()] if more.exists() else []
    for case in cases:
        for step in case.get("steps", []):
            if step["do"] == "fetch" and "bytes" in step["result"]:
                yield step["offset"], base64.b64decode(step["result"]["bytes"]), step["result"]


def test_consumers_of_unaligned_chunks():
    seen = 0
    for offset, chunk, result in fetches():
        items = list(iterate_deep(chunk, offset))
        before = [offset] + [item.next_offset for item in items if isinstance(item, MessageAndOffset)]
        ours = [
            as_row(item) if isinstance(item, Stopped) else [last, item.next_offset, item.checksum]
            for last, item in zip(before, items, strict=False)
        ]
        assert ours == result["consumer"]
        seen += 1
    saw_enough("fetches of 0.7", seen, 101)


@pytest.mark.parametrize("window", [1, 40, 1 << 20])
@pytest.mark.parametrize("name", ["recover-every-byte", "recover-every-cut"])
def test_valid_size_is_what_recovery_leaves(own_corpus, tmp_path, name, window):
    directory = own_corpus / "old/0.7.2/cases" / name
    case = json.loads((directory / "case.json").read_text())
    (path,) = (directory / "before" / case["topicPartition"]).iterdir()
    whole = path.read_bytes()
    assert len(case["rows"]) > 100
    for *variant, left in case["rows"]:
        if len(variant) == 1:
            data = whole[: variant[0]]
        else:
            data = bytearray(whole)
            data[variant[0]] ^= variant[1]
        with on_disk(tmp_path, data) as file:
            part = valid_size(file, window=window)
        if isinstance(left, str):
            assert part.problem.exception.endswith("." + left)
        else:
            assert (part.size, part.problem and part.problem.exception) == (left, None)
            assert (part.problem is None) == (left == len(data))


def recovered():
    """(last segment before, what opening the log gave) of every recovery case whose segments fit together."""
    cases = [(path.parent, json.loads(path.read_text())) for path in sorted(ROOT.glob("cases/recover-*/case.json"))]
    for directory, case in cases:
        steps = case.get("steps", [])
        if case["operation"] != "recover" or not steps[0].get("needRecovery"):
            continue
        files = sorted((directory / "before").glob("*/*.kafka"), key=lambda path: int(path.stem))
        if files and "IllegalState" not in steps[0]["result"].get("error", ""):
            yield files[-1], steps[0]["result"]


def test_valid_size_of_recovered_logs():
    seen = 0
    for path, result in recovered():
        with ReadOnlyFiles().open(str(path)) as file:
            part = valid_size(file)
        if "error" in result:
            assert (part.problem.exception, part.problem.message) == (result["error"], result["message"])
        else:
            assert part.size == result["segments"][-1]["bytes"]
        seen += 1
    saw_enough("recoveries of 0.7", seen, 6)


def test_header_that_does_not_fit(tmp_path):
    for size, magic, code in [(5, 1, "batch-size-invalid"), (5, 2, "unknown-magic"), (5, 0x80, "unknown-magic")]:
        data = entry(b"a") + struct.pack(">iB", size, magic) + bytes(size - 1)
        with on_disk(tmp_path, data) as file:
            assert valid_size(file).problem.code == code
            assert valid_size(file).problem.exception
            assert [item.error and item.error.code for item in iterate_file(file)] == [None, code]
        assert list(iterate_set(data))[-1].error.code == code


def test_smallest_entry_is_sound(tmp_path):
    data = entry(b"", magic=0)
    assert len(data) == 9
    with on_disk(tmp_path, data) as file:
        assert valid_size(file) == (9, None)


def test_unknown_codec_wins_over_a_bad_checksum():
    (stopped,) = iterate_set(entry(b"abc", attributes=3, checksum=1))
    assert stopped.error.code == "unknown-codec"


def test_message_in_front_of_a_bad_one_inside_a_set_is_lost():
    inner = entry(b"1") + entry(b"2") + entry(b"3", checksum=1)
    first, stopped = iterate_deep(wrapper(inner), 700)
    assert first.payload == b"1"
    assert (stopped.position, stopped.offset) == (0, 700)
    assert stopped.error.exception == "kafka.message.InvalidMessageException"
    assert stopped.error.message.endswith("size: 7 curr offset: 22 init offset: 0")


def test_an_empty_set_is_passed():
    data = wrapper(b"") + entry(b"x")
    (message,) = iterate_deep(data)
    assert (message.payload, message.next_offset) == (b"x", len(data))


def test_damaged_set_stops():
    good = entry(b"x")
    _, stopped = iterate_deep(good + entry(b"no gzip", attributes=1) + good, 5)
    assert (stopped.position, stopped.offset, stopped.error.code) == (len(good), 5 + len(good), "decompression-failed")


def test_bomb_stays_shut_and_the_rest_follows():
    bomb = wrapper(entry(bytes(1_000_000)))
    data = bomb + wrapper(entry(b"in")) + entry(b"out")
    shut, inside, outside = iterate_deep(data, limit=100_000)
    assert (shut.error.code, shut.codec, shut.next_offset) == ("over-limit", 1, len(bomb))
    assert (inside.payload, outside.payload) == (b"in", b"out")


def test_sets_may_be_as_large_as_batches_may():
    """Without a limit that is asked for: what inflates as a batch of a later format must not stay shut as a set of 0.7."""
    message = bytes(MAX_DECOMPRESSED_BYTES // 3)
    (opened,) = iterate_deep(wrapper(entry(message), 1))
    assert (opened.error, opened.valid, len(opened.payload)) == (None, True, len(message))


def test_nested_sets_share_the_limit():
    inner = wrapper(entry(bytes(1000)))
    outer = wrapper(inner + entry(random.Random(7).randbytes(1000)))
    assert [item.error and item.error.code for item in iterate_deep(outer, limit=1500)] == ["over-limit", None]
    assert [item.error for item in iterate_deep(outer, limit=5000)] == [None, None]


def test_sets_side_by_side_share_the_limit(monkeypatch):
    """Each of them alone is within it; what was inflated in vain counts as well."""
    outer = wrapper(wrapper(entry(bytes(1000))) * 50)
    found = list(iterate_deep(outer + outer, limit=10_000))
    assert [item.error and item.error.code for item in found] == ([None] * 7 + ["over-limit"] * 43) * 2
    bombs = wrapper(wrapper(entry(bytes(1_000_000))) * 50)
    asked = []
    monkeypatch.setattr(codecs, "inflate", lambda *given, **also: asked.append(given[2]) or inflate(*given, **also))
    assert {item.error.code for item in iterate_deep(bombs, limit=500_000)} == {"over-limit"}
    assert len(asked) == 2, "the set itself, and the first that needs too much"


def test_large_payloads_in_sets_are_views():
    """Else a message as large as the limit would be in memory twice."""
    small, large = iterate_deep(wrapper(entry(b"s") + entry(bytes(1 << 20))))
    assert (type(small.payload), type(large.payload)) == (bytes, memoryview)
    assert (small.payload, large.payload, large.valid) == (b"s", bytes(1 << 20), True)


def test_nesting_is_bounded():
    data = entry(b"deep")
    for _ in range(5):
        data = wrapper(data)
    assert [item.payload for item in iterate_deep(data, max_depth=5)] == [b"deep"]
    (shut,) = iterate_deep(data, max_depth=4)
    assert (shut.error.code, shut.next_offset) == ("over-limit", len(data))


def test_sets_of_a_file_open_where_they_are_sound(tmp_path):
    bad = entry(gzip.compress(entry(b"1")), attributes=1, checksum=1)
    also_unknown = entry(b"?", attributes=3, checksum=1)
    with on_disk(tmp_path, bad + also_unknown + wrapper(entry(b"2"))) as file:
        items = list(open_sets(iterate_file(file)))
    assert [item.error and item.error.code for item in items] == ["crc-mismatch", "crc-mismatch", None]
    assert items[2].payload == b"2"


def test_large_entry_comes_without_payload(tmp_path):
    data = entry(b"a") + entry(bytes(5000), attributes=1) + entry(b"b")
    with on_disk(tmp_path, data) as file:
        small, large, last = iterate_file(file, 10, max_entry=1000, window=100)
    assert (large.payload, large.valid, large.error.code) == (None, True, "batch-too-large")
    assert (small.payload, last.payload, last.next_offset) == (b"a", b"b", 10 + len(data))
    with on_disk(tmp_path, data) as file:
        _, large, _ = iterate_file(file, 10, max_entry=None, window=100)
    assert (large.payload, large.valid, large.error) == (None, True, None)
    assert data[large.payload_position :][:5000] == bytes(5000)


REAL = [path.read_bytes() for path in sorted(ROOT.glob("logs/*/*.kafka"))] + [
    entry(b"a") + wrapper(entry(b"b") + wrapper(entry(b"c"))) + entry(b"", magic=0)
]


@st.composite
def mutants(draw):
    """Real files, damaged; the checksums of the top level made right again every other time."""
    data = bytearray(draw(st.sampled_from(REAL)))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        data[at : at + draw(st.integers(0, 4))] = draw(st.binary(max_size=6))
    if draw(st.booleans()):
        at = 0
        while len(data) - at >= 10:
            (size,) = struct.unpack_from(">i", data, at)
            header = 6 if data[at + 4] == 1 else 5
            if size < header or size > len(data) - at - 4:
                break
            checksum = zlib.crc32(data[at + 4 + header : at + 4 + size])
            data[at + header : at + 4 + header] = struct.pack(">I", checksum)
            at += 4 + size
    return bytes(data)


@given(data=st.one_of(st.binary(max_size=200), mutants()), window=st.sampled_from([1, 50, 1000]))
@settings(deadline=None)
def test_any_bytes_give_items(shared_directory, data, window):
    shallow = list(iterate_set(data))
    items = shallow + list(iterate_deep(data, limit=100_000))
    with on_disk(shared_directory, data) as file:
        rows = list(iterate_file(file, window=window))
        part = valid_size(file, window=window)
        items += rows
        assert rows == list(iterate_file(file))
        assert part == valid_size(file)
        list(open_sets(iter(rows), limit=100_000))
    for item in items:
        assert item.error is None or item.error.code in KINDS
    assert 0 <= part.size <= len(data)
    assert (part.problem is None) == (part.size == len(data))
    assert part.problem is None or part.problem.code in KINDS
    sound = [item for item in shallow if isinstance(item, MessageAndOffset)]
    assert part.size == (sound[-1].next_offset if sound else 0)
    assert rows[: len(sound)] == sound


@given(st.binary(max_size=40), st.binary(min_size=1, max_size=30), st.sampled_from([0, 1]), st.binary(max_size=8), st.integers(1, 50))
@settings(deadline=None)
def test_a_sound_entry_is_found_behind_anything(shared_directory, garbage, payload, magic, behind, window):
    """…or another one that begins within the garbage."""
    data = garbage + entry(payload, magic) + behind
    with on_disk(shared_directory, data) as file, pytest.MonkeyPatch.context() as patch:
        patch.setattr("engine.kafka07.file.WINDOW", window)
        found = find_entry(file, 0, len(data))
        assert found is not None
        assert found <= len(garbage)
        assert find_entry(file, found, len(data)) == found
        assert next(iterate_file(file, begin=found)).valid


def test_a_search_for_an_entry_is_bounded(tmp_path):
    """Every fifth byte begins an entry that looks right, but each is wrong: the work does not grow with the square."""
    data = struct.pack(">iB", 1 << 19, 1) * 220_000
    with on_disk(tmp_path, data) as file:
        assert find_entry(file, 0, len(data)) is None
    with on_disk(tmp_path, data[:1000] + entry(b"x")) as file:
        assert find_entry(file, 0, 1000 + len(entry(b"x"))) == 1000
        assert find_entry(file, 0, 1000 + len(entry(b"x")), max_entry=6) is None
        assert find_entry(file, 1001, 1000 + len(entry(b"x"))) is None


@pytest.mark.parametrize("zeros", [bytes(200_000), bytes(4) + b"\x06" + bytes(300)])
def test_zeros_are_no_entry(tmp_path, zeros):
    with on_disk(tmp_path, zeros) as file:
        assert find_entry(file, 0, len(zeros)) is None
