"""--format jsonl and json: every line fits the schema, nothing is lost, and real consumers read the same."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import struct
import zlib
from base64 import b64decode
from collections import Counter
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from engine.formats import BATCH_HEADER, CODEC_NAMES
from engine.kafka07.entries import encode_set
from engine.record.builder import NewRecord, build_batch
from engine.record.codecs.codecs import InflateStatus, inflate
from engine.record.windows import crc32c
from tests.support.corpus import corpus_directory, roots
from tests.support.floors import absent, saw_enough
from tests.support.json_output import SCHEMA, all_objects
from tests.support.run import kafkalog

PARTS = ("document", "object", "sent-batch", "base64", "int64")  # definitions that are not of one type
OTHERS = ("fetched-record", "match", "match-count", "matching-file", "field", "request", "response", "verification", "rebuilt", "report", "answer", "appended", "marker", "undone", "not-put-back", "difference",
          "restored", "undone-commit", "quarantine", "statistics", "written", "exported", "remote-partition", "remote-segment",
          "kept", "remote-orphan", "remote-cost", "restored-objects", "remote-event", "remote-verification", "remote-offsets",
          "broker", "log-dir", "partition", "topic", "total", "usage", "reclaim", "group-log", "group", "group-offset", "offset-change",
          "transaction", "open-transaction", "candidate", "metadata-record", "metadata-state", "metadata-node",
          "deleted-topic", "metadata-difference", "metadata-log", "metadata-snapshot",
          "recompression", "comparison", "lineage", "fork", "only", "differs", "unclean-election", "lost", "saved-file",
          "producer-state", "page", "start", "start-action")  # of other commands
TYPES = [name for name in SCHEMA["$defs"] if name not in PARTS]
VALIDATORS = {name: Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": SCHEMA["$defs"]}) for name in SCHEMA["$defs"]}
TREES = sorted(path for pattern in ("*/logs", "*/*/logs") for path in corpus_directory().glob(pattern))
PER_SHAPE = 3  # objects that are validated of each set of fields; the validator takes a millisecond for each


def dump(*words: str, cwd: Path | None = None) -> tuple[list[dict], str, int]:
    """(objects, stderr, exit status) of a dump as JSON lines."""
    done = kafkalog("dump-log", "--format", "jsonl", *words, cwd=cwd)
    return all_objects(done.out)[1:], done.err, done.status


def the_bytes(found: dict, name: str) -> bytes | None:
    """The bytes behind a field."""
    if f"{name}_b64" in found:
        assert name not in found
        return b64decode(found[f"{name}_b64"], validate=True)
    return None if found[name] is None else found[name].encode()


def of_type(objects: list[dict], kind: str) -> list[dict]:
    return [found for found in objects if found["type"] == kind]


def test_the_schema_is_one():
    Draft202012Validator.check_schema(SCHEMA)
    assert [reference["$ref"] for reference in SCHEMA["oneOf"]] == ["#/$defs/object", "#/$defs/document"]
    objects = SCHEMA["$defs"]["object"]["oneOf"]
    assert [reference["$ref"] for reference in objects] == [f"#/$defs/{name}" for name in TYPES]
    for name in TYPES:
        assert SCHEMA["$defs"][name]["properties"]["type"] == {"const": name}


@pytest.mark.parametrize("flags", [
    (), ("--deep-iteration",), ("--print-data-log",), ("--print-data-log", "--decode", "auto"),
    ("--print-data-log", "--skip-record-metadata"), ("--index-sanity-check",), ("--offset", "3:40", "--print-data-log"),
    ("--count",), ("--key-decoder-class", "DefaultDecoder", "--value-decoder-class", "LongDecoder"),
], ids=" ".join)  # fmt: skip
@pytest.mark.parametrize("tree", TREES, ids=lambda tree: tree.parent.name)
def test_every_object_fits_the_schema(tree, flags):
    objects, err, status = dump(*flags, str(tree))
    seen: Counter[object] = Counter()
    for found in objects:
        shape = tuple((name, type(value).__name__, value == []) for name, value in found.items())
        seen[shape, found["type"]] += 1
        if seen[shape, found["type"]] <= PER_SHAPE or found["type"] not in {"batch", "record"}:
            error = next(VALIDATORS[found["type"]].iter_errors(found), None)
            assert error is None, (found, error)
    end = objects[-1]
    assert end["exit_status"] == status
    assert end["objects"] == dict(sorted(Counter(found["type"] for found in objects[:-1]).items()))
    assert sum(end["findings"].values()) == end["objects"].get("finding", 0)
    assert err.count("\n") == len(of_type(objects, "error"))


def test_the_whole_schema_tells_types_apart(own_corpus):
    whole = Draft202012Validator(SCHEMA)
    objects, _, _ = dump("--print-data-log", "--decode", "auto", *(str(root / "logs") for root in roots(own_corpus)))
    first = {found["type"]: found for found in objects}
    assert set(first) == set(TYPES) - {"begin", "sanity-check", "count", "error", *OTHERS}
    for found in first.values():
        whole.validate(found)
        assert not whole.is_valid({**found, "foreign": 1})


@pytest.mark.parametrize("words", [
    ["clean/d1/codec.zstd-0", "--print-data-log"], ["damaged/torn-16-0"], ["clean/d0/tx-0", "no such file", "--deep-iteration"],
    ["clean/d1/small_segments-0", "--count"], ["no such file"],
], ids=" ".join)  # fmt: skip
def test_a_json_document_fits_the_schema(own_corpus, words):
    done = kafkalog("dump-log", "--format", "json", *words, cwd=own_corpus / "kafka-4.3.1/logs")
    document = json.loads(done.out)
    whole = Draft202012Validator(SCHEMA)
    whole.validate(document)
    lines, _, status = dump(*words, cwd=own_corpus / "kafka-4.3.1/logs")
    begin = {"type": "begin", "schema": "kafkalog/1", "command": "dump-log"}
    assert document == {"schema": "kafkalog/1", "objects": [begin, *lines]}
    assert status == done.status
    for broken in ({**document, "objects": document["objects"][:-1]}, {**document, "objects": lines}, {**document, "more": 1},
                   {"schema": "kafkalog/1"}, document["objects"]):  # fmt: skip
        assert not whole.is_valid(broken)


def test_an_error_names_its_path(tmp_path):
    (tmp_path / "1.log").mkdir()
    odd = b"not-utf8-\xff.log"
    objects, _, _ = dump("--files", f"1.log,2.log,{odd.decode('utf-8', 'surrogateescape')}", "plain.txt", cwd=tmp_path)
    errors = of_type(objects, "error")
    for error in errors:
        VALIDATORS["error"].validate(error)
    assert [the_bytes(error, "path") for error in errors] == [b"plain.txt", b"1.log", b"2.log", odd]


def varint(value: int) -> bytes:
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def field(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def rebuilt(record: dict, batch: dict) -> bytes:
    """The bytes of a record of magic 2."""
    body = b"\0" + varint(record["timestamp"] - batch["base_timestamp"]) + varint(record["offset"] - batch["base_offset"])
    body += field(the_bytes(record, "key")) + field(the_bytes(record, "value")) + varint(len(record["headers"]))
    for header in record["headers"]:
        body += field(the_bytes(header, "key")) + field(the_bytes(header, "value"))
    return varint(len(body)) + body


def rebuilt_message(record: dict, batch: dict) -> bytes:
    """The bytes of an uncompressed message of magic 0 or 1, from its magic on."""
    body = bytes([batch["magic"], 8 * (batch["timestamp_type"] == "LogAppendTime")])
    if batch["magic"]:
        body += struct.pack(">q", record["timestamp"])
    for name in ("key", "value"):
        data = the_bytes(record, name)
        body += struct.pack(">i", -1 if data is None else len(data)) + (data or b"")
    return body


def batches_of(objects: list[dict]) -> list[tuple[Path, dict, list[dict]]]:
    """(file, batch, its records) in order."""
    found: list[tuple[Path, dict, list[dict]]] = []
    path = Path()
    for one in objects:
        if one["type"] == "file":
            path = Path(one["path"])
        elif one["type"] == "batch":
            found.append((path, one, []))
        elif one["type"] == "record":
            found[-1][2].append(one)
    return found


@pytest.mark.parametrize("tree", [tree for tree in TREES if tree.parent.name != "0.7.2"], ids=lambda tree: tree.parent.name)
def test_the_records_can_be_built_again(tree):
    objects, _, _ = dump("--print-data-log", str(tree))
    damaged = {found.get("file") for found in of_type(objects, "finding") if found["severity"] == "error"}
    checked = 0
    for path, batch, records in batches_of(objects):
        if str(path) in damaged:
            continue
        with path.open("rb") as file:
            file.seek(batch["position"])
            data = file.read(batch["size"])
        if batch["magic"] < 2:
            if batch["compression"] == "none":
                assert data[16:] == rebuilt_message(records[0], batch)
                checked += 1
            continue
        if batch["timestamp_type"] == "LogAppendTime":  # the records' own timestamps cannot be seen by anyone
            continue
        body = data[BATCH_HEADER.size :]
        if batch["compression"] != "none" and batch["count"]:
            inflated = inflate(CODEC_NAMES.index(batch["compression"]), body, 1 << 30)
            assert inflated.status == InflateStatus.OK
            body = inflated.data
        assert bytes(body) == b"".join(rebuilt(record, batch) for record in records)
        assert len(records) == batch["count"]
        checked += len(records)
    saw_enough("records to be built again", checked, 41)


CONSUMED = sorted(corpus_directory().glob("kafka-4.3.1/consumed/clean/read_uncommitted/*.jsonl.gz"))


@pytest.mark.parametrize("consumed", CONSUMED, ids=lambda path: path.name.removesuffix(".jsonl.gz"))
def test_a_real_consumer_read_the_same(consumed):
    name = consumed.name.removesuffix(".jsonl.gz")
    logs = consumed.parents[3] / "logs" / "clean"
    (directory,) = logs.glob(f"d?/{name}")
    objects, _, _ = dump("--print-data-log", str(directory))
    ours = {
        record["offset"]: (record, batch) for path, batch, records in batches_of(objects) for record in records
        if path.name.endswith(".log") and not batch["is_control"]
    }  # fmt: skip
    read = [json.loads(line) for line in gzip.decompress(consumed.read_bytes()).splitlines()]
    assert read
    for wanted in read:
        record, batch = ours[wanted["offset"]]
        key, value = (None if wanted[part] is None else b64decode(wanted[part]) for part in ("key", "value"))
        assert (the_bytes(record, "key"), the_bytes(record, "value")) == (key, value)
        assert (record["key_size"], record["value_size"]) == tuple(-1 if x is None else len(x) for x in (key, value))
        assert (record["timestamp"], record["timestamp_type"]) == (wanted["timestamp"], wanted["timestampType"])
        assert batch["partition_leader_epoch"] == wanted["leaderEpoch"]
        headers = [(the_bytes(header, "key"), the_bytes(header, "value")) for header in record["headers"]]
        assert headers == [
            (key.encode(), None if value is None else b64decode(value)) for key, value in wanted["headers"]
        ]  # fmt: skip
    assert {offset for offset in ours if offset >= read[0]["offset"]} == {wanted["offset"] for wanted in read}


def test_logs_of_0_7_are_what_0_7_2_iterates(corpus):
    root = corpus / "old" / "0.7.2"
    iterated = root / "expected" / "iterated.jsonl"
    if not iterated.exists():
        absent("logs of 0.7 that were iterated")
    wanted: dict[str, list[dict]] = {}
    for line in iterated.read_text().splitlines():
        row = json.loads(line)
        if "file" in row["iterators"] and "payload" in row and "offset" in row:
            wanted.setdefault(f"{row['log']}/{row['file']}", []).append(row)
    for path, rows in wanted.items():
        objects, _, _ = dump("--print-data-log", str(root / "logs" / path))
        entries = {entry["offset"]: entry for entry in of_type(objects, "entry-07")}
        for row in rows:
            entry = entries[row["offset"]]
            if isinstance(row["payload"], str):
                assert the_bytes(entry, "payload") == b64decode(row["payload"])
                assert entry["crc"] == row["checksum"]
            assert (entry["next_offset"], entry["size"]) == (row["next_offset"], row["size"])
    saw_enough("files that were iterated", len(wanted), 11)


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_sizes_below_that_of_null_fit_the_schema(tmp_path, magic):
    """Kafka takes any for null; it prints those of format 0 and 1 as they are stored, and so do we."""
    batch = bytearray(build_batch([NewRecord(0, 5, None, None)], magic=magic))
    if magic == 2:
        batch[BATCH_HEADER.size + 4 : BATCH_HEADER.size + 6] = b"\x03\x05"  # zigzag
        batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4, "big")
    else:
        batch[-8:] = struct.pack(">ii", -2, -3)
        batch[12:16] = zlib.crc32(batch[16:]).to_bytes(4, "big")
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(batch)
    objects, _, status = dump("--print-data-log", str(path))
    [record] = of_type(objects, "record")
    sizes = (-1, -1) if magic == 2 else (-2, -3)
    assert (record["key_size"], record["value_size"], record["key"], record["value"], status) == (*sizes, None, None, 0)
    VALIDATORS["record"].validate(record)


@pytest.mark.parametrize("form", ["json", "jsonl"])
def test_large_payloads_of_0_7_come_whole(tmp_path, form):
    """In pieces, and so that the object is the one that small payloads have."""
    payloads = [b"small", "\u20ac\"\n".encode() * 100_000, b"\xff" + bytes(500_001), b""]
    plain, packed = encode_set(payloads), encode_set(payloads, codec=1)
    path = tmp_path / "00000000000000000000.kafka"
    path.write_bytes(plain + packed)
    done = kafkalog("dump-log", "--format", form, "--print-data-log", str(path))
    assert (done.err, done.status) == ("", 0)
    objects = all_objects(done.out)[1:]
    entries, inside = of_type(objects, "entry-07"), of_type(objects, "message-07")
    assert [the_bytes(one, "payload") for one in entries[:-1]] == payloads
    assert [the_bytes(one, "payload") for one in inside] == payloads
    assert ["payload" in one for one in inside] == [True, True, False, True]
    assert {tuple(one)[:-1] for one in inside} == {tuple(inside[0])[:-1]}


@pytest.mark.parametrize("tree", TREES, ids=lambda tree: tree.parent.name)
def test_one_document_holds_the_same_objects(tree):
    lines, err, status = dump("--print-data-log", str(tree))
    document = kafkalog("dump-log", "--format", "json", "--print-data-log", str(tree))
    assert all_objects(document.out)[1:] == lines
    assert (document.err, document.status) == (err, status)


FLAGS = [("--print-data-log",), ("--index-sanity-check",), ("--offset", "3:40")]


@pytest.mark.parametrize("flags", FLAGS, ids=" ".join)
@pytest.mark.parametrize("tree", TREES, ids=lambda tree: tree.parent.name)
def test_the_exit_status_is_that_of_the_text(tree, flags):
    for path in sorted(path for path in tree.rglob("*") if path.parent.parent.name == "damaged") or [tree]:
        assert dump(*flags, str(path))[2] == kafkalog("dump-log", *flags, str(path)).status


def segment(own_corpus: Path) -> Path:
    return own_corpus / "kafka-4.3.1" / "logs" / "clean" / "d0" / "tx-0" / "00000000000000000007.log"


def test_a_name_that_is_not_text(own_corpus, tmp_path):
    directory = tmp_path / "t-\udcff-0"
    directory.mkdir()
    shutil.copy(segment(own_corpus), directory / "x.log")
    objects, err, status = dump(str(directory / "x.log"))
    assert the_bytes(objects[0], "path") == str(directory / "x.log").encode("utf-8", "surrogateescape")
    (finding,) = of_type(objects, "finding")
    assert the_bytes(finding, "file") == the_bytes(objects[0], "path")
    assert (finding["code"], err, status) == ("name-invalid", "", 4)


def test_work_that_could_not_be_done(tmp_path):
    objects, err, status = dump(str(tmp_path / "nothing.log"))
    assert [found["type"] for found in objects] == ["error", "end"]
    assert objects[0]["code"] == "unreadable-file"
    assert err.startswith("error[unreadable-file] ")
    assert (objects[1]["exit_status"], status) == (8, 8)


def test_a_foreign_file(tmp_path):
    (tmp_path / "notes.txt").write_text("x")
    objects, _, status = dump(str(tmp_path / "notes.txt"))
    assert ([found["type"] for found in objects], status) == (["error", "end"], 2)
    objects, err, status = dump("--files", str(tmp_path / "notes.txt"))  # as kafka-dump-log takes it
    assert [found["type"] for found in objects] == ["file", "finding", "end"]
    assert objects[0]["kind"] is None
    assert (objects[1]["code"], err, status) == ("file-ignored", "", 0)


def test_control_records_are_decoded(own_corpus):
    objects, _, _ = dump("--deep-iteration", str(segment(own_corpus)))
    markers = [record for record in of_type(objects, "record") if "control" in record]
    kinds = Counter(record["control"]["control_type"] for record in markers)
    text = kafkalog("dump-log", "--deep-iteration", str(segment(own_corpus))).out
    assert kinds == {kind: text.count(f"endTxnMarker: {kind} ".encode()) for kind in ("ABORT", "COMMIT")}
    assert all(record["control"]["coordinator_epoch"] >= 0 for record in markers)
    assert not any("key" in record or "key_b64" in record for record in markers)


def test_decoders_stand_beside_the_bytes(own_corpus):
    directory = next(own_corpus.glob("kafka-4.3.1/logs/clean/d?/__cluster_metadata-0"))
    objects, _, _ = dump("--print-data-log", "--decode", "auto", str(directory))
    decoded = [record for record in of_type(objects, "record") if record.get("decoded_value")]
    assert decoded
    assert all("value_b64" in record or "value" in record for record in decoded)
    assert "TOPIC_RECORD" in {record["decoded_value"]["type"] for record in decoded}
    plain, _, _ = dump("--print-data-log", str(directory))
    assert [{name: value for name, value in found.items() if not name.startswith("decoded")}
            for found in of_type(objects, "record")] == of_type(plain, "record")  # fmt: skip


def test_a_decoder_that_is_named_goes_before_the_one_of_the_topic(own_corpus):
    directory = str(next(own_corpus.glob("kafka-4.3.1/logs/clean/d?/__cluster_metadata-0")))
    for name in ("DefaultDecoder", "StringDecoder"):
        named = kafkalog("dump-log", "--value-decoder-class", name, directory)
        assert kafkalog("dump-log", "--value-decoder-class", name, "--decode", "auto", directory) == named


def test_decoding_implies_printing(own_corpus):
    directory = str(next(own_corpus.glob("kafka-4.3.1/logs/clean/d?/__cluster_metadata-0")))
    printed = kafkalog("dump-log", "--decode", "auto", "--print-data-log", directory)
    assert kafkalog("dump-log", "--decode", "auto", directory) == printed
    assert b'"type":"TOPIC_RECORD"' in printed.out


def test_a_decoder_that_fails(own_corpus):
    objects, _, status = dump("--value-decoder-class", "tests.cli.test_dump_log_json:failing", str(segment(own_corpus)))
    findings = of_type(objects, "finding")
    assert {finding["code"] for finding in findings} == {"record-undecodable"}
    assert "ZeroDivisionError" in findings[0]["what"]
    data = [record for record in of_type(objects, "record") if "control" not in record]
    assert len(findings) == len([record for record in data if record["value_size"] >= 0])
    assert all(record["decoded_value"] is None and "decoded_key" not in record for record in data)
    assert status == 4


def failing(data: bytes) -> bytes:
    """A decoder of somebody's."""
    raise ZeroDivisionError(data)


def test_small_files_as_text(own_corpus):
    logs = own_corpus / "kafka-4.3.1" / "logs" / "clean" / "d0"
    for path, wanted in {
        "tx-0/leader-epoch-checkpoint": r"(epoch: \d+ startOffset: \d+\n)+",
        "recovery-point-offset-checkpoint": r"(topic: \S+ partition: \d+ offset: \d+\n)+",
        "meta.properties": r"version: 1 clusterId: \S+ nodeId: \d+ directoryId: \S+\n",
        "tx-0/partition.metadata": r"version: 0 topicId: \S{22}\n",
        ".kafka_cleanshutdown": r"version: 0 brokerEpoch: \d+\n",
    }.items():
        text = kafkalog("dump-log", str(logs / path)).out.decode()
        assert re.fullmatch(f"Dumping {re.escape(str(logs / path))}\n{wanted}", text), text
        listed = kafkalog("dump-log", "--files", str(logs / path))
        assert (listed.out.decode(), listed.status) == (f"Dumping {logs / path}\n", 0)
        assert listed.err == f"Ignoring unknown file {logs / path}\n"


def test_logs_of_0_7_print_as_their_own_tool_did(own_corpus):
    root = own_corpus / "old" / "0.7.2"
    expected = (root / "expected" / "print" / "plain-0.txt").read_bytes()
    paths = sorted(str(path.relative_to(root)) for path in (root / "logs" / "plain-0").iterdir())
    assert kafkalog("dump-log", "--print-data-log", *paths, cwd=root).out == expected
