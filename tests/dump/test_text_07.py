"""The dump text of 0.7, against what 0.7.2's own tool printed."""

import json
import struct
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.dump.entries_07 import Entries07, dump_entries, starting_offset
from engine.dump.renderer import DumpOptions
from engine.dump.selection import Selector
from engine.files import ReadOnlyFiles
from engine.findings import KINDS
from engine.java.strings import java_utf8, whole_text
from engine.record.selection import Selection
from tests.support.corpus import corpus_directory

ROOT = corpus_directory() / "old" / "0.7.2"
PRINTED = sorted(path.name for path in ROOT.glob("expected/print/*.txt"))
DIED = json.loads((ROOT / "expected/print/failures.json").read_text()) if (ROOT / "expected/print/failures.json").exists() else {}
DAMAGED = {"bad-crc-0": "crc-mismatch", "torn-0": "torn-tail", "zero-tail-0": "zero-tail"}


def entry(payload, magic=1, attributes=0, checksum=None):
    checksum = zlib.crc32(payload) if checksum is None else checksum
    head = bytes([magic, attributes]) if magic == 1 else bytes([magic])
    return struct.pack(">i", len(head) + 4 + len(payload)) + head + struct.pack(">I", checksum) + payload


def dump(path, shown=None, *, print_payload=True, window=1 << 20, selection=None, **options):
    """(text, findings) of one file."""
    parts, findings = [], []
    options = DumpOptions(print_data=print_payload, **options)
    selector = Selector(selection) if selection else None
    with ReadOnlyFiles().open(str(path)) as file:
        dump_entries(file, shown or str(path), options, parts.append, findings.append, selector, window=window)
    return b"".join(parts), findings


def made(directory, data, name="0.kafka"):
    path = directory / name
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("window", [1, 100, 1 << 20])
@pytest.mark.parametrize("name", PRINTED)
def test_text_is_that_of_0_7_2(name, window):
    log = name.removesuffix(".txt").removesuffix(".noprint")
    text, findings = b"", []
    for path in sorted((ROOT / "logs" / log).iterdir()):
        part, found = dump(path, f"logs/{log}/{path.name}", print_payload="noprint" not in name, window=window)
        text += part
        findings += found
    expected = (ROOT / "expected" / "print" / name).read_bytes()
    codes = [finding.code for finding in findings]
    if name in DIED:
        assert text.startswith(expected)
        assert b"tail of the log is at offset: " in text[len(expected) :]
        assert codes == ["unknown-codec" if "Codec" in DIED[name]["error"] else "unknown-magic"]
    else:
        assert text == expected
        assert codes == ([DAMAGED[log]] if log in DAMAGED else [])


def test_no_more_of_a_log_is_read_than_is_asked_for(tmp_path):
    data = entry(b"a") + entry(b"b") + entry(b"c")
    size = len(data) // 3
    path = made(tmp_path, data)
    for limit, shown in ((0, 0), (size - 1, 0), (size, 1), (2 * size + 5, 2), (3 * size, 3), (9 * size, 3)):
        text, findings = dump(path, max_bytes=limit)
        assert (text.count(b"payload:"), findings) == (shown, [])
        assert text.endswith(b"tail of the log is at offset: %d\n" % (shown * size))


def test_dump_goes_on_where_the_tool_died(tmp_path):
    data = entry(b"a") + entry(b"b", attributes=0x83) + entry(b"c", magic=0xFE)
    data += struct.pack(">iBBBBB", 5, 1, 1, 0, 0, 0) + entry(b"d", magic=0)
    text, findings = dump(made(tmp_path, data, "00100.kafka"), "x/00100.kafka")
    assert text.decode().splitlines() == [
        "Dumping x/00100.kafka",
        "Starting offset: 100",
        "offset: 100 isvalid: true payloadsize: 1 magic: 1 compresscodec: NoCompressionCodec",
        "payload:\ta",
        "offset: 111 isvalid: true payloadsize: 1 magic: 1 compresscodec: UNKNOWN(3)",
        "payload:\tb",
        "offset: 122 isvalid: false payloadsize: -1 magic: -2 compresscodec: UNKNOWN",
        "offset: 132 isvalid: false payloadsize: -1 magic: 1 compresscodec: GZIPCompressionCodec",
        "offset: 141 isvalid: true payloadsize: 1 magic: 0 compresscodec: NoCompressionCodec",
        "payload:\td",
        "tail of the log is at offset: 151",
    ]
    assert [(f.code, f.where.file, f.where.position, f.where.offset) for f in findings] == [
        ("unknown-codec", "x/00100.kafka", 11, 111),
        ("unknown-magic", "x/00100.kafka", 22, 122),
        ("batch-size-invalid", "x/00100.kafka", 32, 132),
    ]


@pytest.mark.parametrize(
    ("tail", "code"),
    [
        (b"\0\0\0", "torn-tail"),
        (b"\0\0\0\x05\0\0\0\0", "torn-tail"),
        (bytes(4), "zero-tail"),
        (bytes(3_000_000), "zero-tail"),
        (bytes(30) + b"\x01", "batch-size-invalid"),
        (b"\0\0\0\x04" + entry(b"behind"), "batch-size-invalid"),
        (b"\xff\xff\xff\xff" + entry(b"behind"), "batch-size-invalid"),
    ],
)
def test_what_stands_behind_the_last_entry(tmp_path, tail, code):
    text, (finding,) = dump(made(tmp_path, entry(b"a") + tail, "10.kafka"))
    assert text.endswith(b"payload:\ta\ntail of the log is at offset: 21\n")
    assert (finding.code, finding.where.position, finding.where.offset) == (code, 11, 21)


@pytest.mark.parametrize(
    "payload", ["é".encode() * 40, b"\xed\xa0\x80" * 30, b"\xf0\x9f\x98\x80\xf0\x9f" * 20, bytes(99)]
)
@pytest.mark.parametrize("magic", [0, 1])
def test_entries_larger_than_the_window(tmp_path, monkeypatch, payload, magic):
    data = entry(b"1") + entry(payload, magic) + entry(payload, magic, checksum=5) + entry(payload, attributes=3)
    path = made(tmp_path, data)
    whole = dump(path), dump(path, print_payload=False)
    for piece in (1, 7, 16):
        monkeypatch.setattr("engine.dump.entries_07.WINDOW", piece)
        monkeypatch.setattr("engine.record.windows.PIECE", piece)
        assert (dump(path, window=16), dump(path, print_payload=False, window=16)) == whole
    assert [finding.code for finding in whole[0][1]] == ["crc-mismatch", "unknown-codec"]


def test_offsets_wrap_as_java_longs_do(tmp_path):
    text, _ = dump(made(tmp_path, entry(b"a") + entry(b"b"), f"{2**63 - 5}.kafka"), print_payload=False)
    offsets = [line.split()[1] for line in text.splitlines() if line.startswith(b"offset")]
    assert offsets == [b"9223372036854775803", b"-9223372036854775802"]
    assert text.endswith(b"tail of the log is at offset: -9223372036854775791\n")


def test_entries_and_their_findings_have_offsets_that_wrap(tmp_path):
    path, found = made(tmp_path, entry(b"a") + entry(b"b", checksum=1) + b"\0", f"{2**63 - 5}.kafka"), []
    with ReadOnlyFiles().open(str(path)) as file:
        entries = Entries07(file, str(path), DumpOptions(), found.append)
        rows = [(one.offset, one.next_offset, entries.position(one)) for one in entries]
    assert rows == [(2**63 - 5, -(2**63) + 6, 0), (-(2**63) + 6, -(2**63) + 17, 11)]
    assert [(one.where.position, one.where.offset) for one in found] == [(11, -(2**63) + 6), (22, -(2**63) + 17)]
    assert entries.tail == -(2**63) + 17


def test_a_large_entry_has_the_finding_of_a_small_one(tmp_path):
    """Whether its payload is read by whoever asks for it, or not at all."""
    payload = bytes(range(256)) * 9
    path, told = made(tmp_path, entry(b"a") + entry(payload, checksum=1) + entry(b"b")), []
    for limit, window, in_pieces in ((1 << 20, 1 << 20, False), (1 << 20, 16, False), (1000, 16, False), (1000, 16, True)):
        with ReadOnlyFiles().open(str(path)) as file:
            options, found = DumpOptions(max_batch_bytes=limit), []
            entries = Entries07(file, str(path), options, found.append, window=window, in_pieces=in_pieces)
            assert [one.valid for one in entries] == [True, False, True]
        told.append([(one.code, one.what) for one in found])
    bad = ("crc-mismatch", f"stored CRC-32 00000001, computed {zlib.crc32(payload):08x}")
    assert told == [[bad], [bad], [("batch-too-large", f"{len(payload) + 6} bytes"), bad], [bad]]


SAMPLE = entry(b"first") + entry(b"second", magic=0) + entry(b"third") + entry(b"fourth")
STARTS = [0, 15, 30, 45]


def test_the_sample():
    assert [SAMPLE.index(entry(word, magic)) for word, magic in ((b"first", 1), (b"second", 0), (b"third", 1), (b"fourth", 1))] == STARTS


def shown(text):
    return [int(line.split()[1]) for line in text.splitlines() if line.startswith(b"offset: ")]


@pytest.mark.parametrize("window", [1, 20, 1 << 20])
@pytest.mark.parametrize(("wanted", "offsets", "has_tail"), [
    (Selection(first_offset=15), [15, 30, 45], True), (Selection(first_offset=16, end_offset=45), [30], False),
    (Selection(end_offset=0), [], False), (Selection(end_offset=1000), STARTS, True), (Selection(limit=2), [0, 15], False),
    (Selection(limit=0), [], False), (Selection(limit=4), STARTS, True),
])
def test_a_selection_by_offset(tmp_path, window, wanted, offsets, has_tail):
    text, findings = dump(made(tmp_path, SAMPLE), selection=wanted, window=window)
    assert shown(text) == offsets
    assert findings == []
    assert text.count(b"payload:") == len(offsets)
    assert (b"tail of the log" in text) == has_tail


def test_damage_is_told_up_to_where_the_selection_ends(tmp_path):
    data = entry(b"a", checksum=1) + entry(b"b", magic=7) + entry(b"c", checksum=1)
    _, findings = dump(made(tmp_path, data), selection=Selection(first_offset=15, end_offset=20))
    assert [(finding.code, finding.where.position) for finding in findings] == [("crc-mismatch", 0), ("unknown-magic", 11)]


@pytest.mark.parametrize("damage", [b"\0\0\0\0", b"\xff\xff\xff\xff", b"\0\0\x7f\xff", b"\x7f\xff\xff\xff", b"\0\0\0\4"])
@pytest.mark.parametrize("window", [1, 1 << 20])
def test_going_on_behind_a_damaged_size(tmp_path, damage, window):
    data = SAMPLE[:15] + damage + SAMPLE[19:]
    text, findings = dump(made(tmp_path, data), continue_on_corruption=True, window=window)
    assert shown(text) == [0, 30, 45]
    assert text.endswith(b"tail of the log is at offset: 61\n")
    assert [(finding.code, finding.where.position) for finding in findings] == [("batch-size-invalid", 15), ("skipped-bytes", 15)]
    assert "15 bytes skipped up to a sound entry at byte 30" in findings[1].what
    text, findings = dump(made(tmp_path, data), window=window)
    assert shown(text) == [0]
    assert len(findings) == 1


def test_a_size_that_leads_astray_hides_nothing(tmp_path):
    """The damaged size ends inside another entry: the entry is shown as bad, and the search begins within it."""
    data = SAMPLE[:15] + (20).to_bytes(4, "big") + SAMPLE[19:]
    text, findings = dump(made(tmp_path, data), continue_on_corruption=True)
    assert shown(text)[0] == 0
    assert shown(text)[-2:] == [30, 45]
    assert "crc-mismatch" in [finding.code for finding in findings]
    assert any("inside one with a wrong checksum" in finding.what for finding in findings)


def test_there_may_be_nothing_to_go_on_with(tmp_path):
    for tail, code in ((SAMPLE[:20], "torn-tail"), (b"\xff" * 300, "batch-size-invalid"), (bytes(300), "zero-tail")):
        data = entry(b"only") + tail[15:] if code == "torn-tail" else entry(b"only") + tail
        text, (finding,) = dump(made(tmp_path, data), continue_on_corruption=True)
        assert shown(text) == [0]
        assert finding.code == code


@pytest.mark.parametrize("window", [16, 1 << 20])
@pytest.mark.parametrize(("payload", "line"), [
    (b"two\nlines", b"two\\nlines"), (b"\x1b[31m", b"\\x1b[31m"), ("a\x85b\u2028c\x0bd".encode(), b"a\\x85b\\u2028c\\x0bd"),
    (b"payload:\tnested", b"payload:\\tnested"), (b"\xff\xc3\xa9", "\ufffdé".encode()), (b"\r\n", b"\\r\\n"),
])
def test_on_a_terminal_a_payload_is_one_line(tmp_path, monkeypatch, payload, line, window):
    for piece in (3, 1 << 20):
        monkeypatch.setattr("engine.dump.entries_07.WINDOW", piece)
        text, _ = dump(made(tmp_path, entry(payload) + entry(b"next")), "esc\x1b/0.kafka", escape=True, window=window)
        assert text.split(b"\n") == [
            b"Dumping esc\\x1b/0.kafka", b"Starting offset: 0",
            b"offset: 0 isvalid: true payloadsize: %d magic: 1 compresscodec: NoCompressionCodec" % len(payload),
            b"payload:\t" + line,
            b"offset: %d isvalid: true payloadsize: 4 magic: 1 compresscodec: NoCompressionCodec" % (10 + len(payload)),
            b"payload:\tnext", b"tail of the log is at offset: %d" % (24 + len(payload)), b"",
        ]


def test_name_that_says_no_offset(tmp_path):
    text, findings = dump(made(tmp_path, entry(b"a"), "abc.kafka"))
    assert b"Starting offset: 0\noffset: 0 " in text
    assert findings == []  # that is said for text and JSON alike, see Dump


@pytest.mark.parametrize(
    ("path", "offset"),
    [
        ("a.b/00012.x.kafka", 12),
        ("7", 7),
        ("-3.kafka", -3),
        ("+3.kafka", 3),
        (f"{2**63 - 1}.kafka", 2**63 - 1),
        (f"{2**63}.kafka", None),
        ("1_0.kafka", None),
        (" 1.kafka", None),
        (".kafka", None),
        ("", None),
        ("9" * 10_000, None),
    ],
)
def test_starting_offset(path, offset):
    assert starting_offset(path) == offset


def test_path_of_any_bytes(tmp_path):
    text, _ = dump(made(tmp_path, b""), "\udcff/0.kafka")
    assert text == b"Dumping \xff/0.kafka\nStarting offset: 0\ntail of the log is at offset: 0\n"


@given(st.lists(st.sampled_from(list(b"\xed\xa0\xbf\x80\x9f\xe2\xf0\xf4\xc3A\x90")), max_size=12), st.integers(0, 12))
def test_text_in_pieces_is_the_text(data, cut):
    first, rest = bytes(data[:cut]), bytes(data[cut:])
    at = whole_text(first)
    assert len(first) - at <= 3
    assert java_utf8(first[:at]) + java_utf8(first[at:] + rest) == java_utf8(bytes(data))


REAL = [path.read_bytes() for path in sorted(ROOT.glob("logs/*/*.kafka"))] + [entry(b"a") + entry(b"b", magic=0)]


@given(
    source=st.sampled_from(REAL),
    at=st.integers(0, 2000),
    damage=st.binary(max_size=12),
    window=st.sampled_from([1, 64, 1 << 20]),
    print_payload=st.booleans(),
)
@settings(deadline=None)
def test_any_bytes_have_a_dump(shared_directory, source, at, damage, window, print_payload):
    at %= len(source) + 1
    data = source[:at] + damage + source[at + len(damage) :]
    path = made(shared_directory, data)
    text, findings = dump(path, print_payload=print_payload, window=window)
    assert (text, findings) == dump(path, print_payload=print_payload)
    text.decode()
    assert b"tail of the log is at offset: " in text
    assert {finding.code for finding in findings} <= set(KINDS)
    assert findings or f"tail of the log is at offset: {len(data)}\n".encode() in text
