"""Every byte of a file is in one field; the values are those of dump-log; damage is explained up to where it makes no sense."""

from __future__ import annotations

import json
from base64 import b64decode
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.discovery.names import FileKind, file_name, parse_file_name
from engine.discovery.paths import discover
from engine.dump.explain import Choice, explain
from engine.dump.explained import RAW
from engine.errors import UsageError
from engine.files import ReadOnlyFiles
from engine.findings import Severity
from engine.formats import BATCH_HEADER
from tests.support.corpus import corpus_directory
from tests.support.floors import saw_enough
from tests.support.json_output import all_objects
from tests.support.kernel_calls import mutate
from tests.support.memory_files import MemoryFiles
from tests.support.run import kafkalog
from tests.support.small_logs import LOG, batch, with_wrong_checksum
from tests.support.strategies import batches

FILES = ReadOnlyFiles()
TREES = sorted(tree for tree in corpus_directory().rglob("logs") if next(tree.rglob("*.log"), None) is not None)


def paths_of(tree, kinds=None):
    found = [path for path in discover(FILES, str(tree)).paths if "/damaged/" not in path]
    names = {path: parse_file_name(file_name(path)) for path in found}
    return {path: name for path, name in names.items() if name.kind is not FileKind.LOG_07 and (not kinds or name.kind in kinds)}


def explained(files, path, findings=None, **choice):
    report = (lambda _: None) if findings is None else findings.append
    return list(explain(files, path, parse_file_name(file_name(path)), Choice(**choice), report))


def gaps_and_overlaps(fields, size):
    """Places at which the fields do not follow each other from 0 to `size`."""
    at, wrong = 0, []
    for field in fields:
        if field.bits or field.inflated:
            continue
        if field.at != at:
            wrong.append((at, field))
        at = field.at + field.size
    return wrong + ([] if at == size else [(at, size)])


@pytest.mark.parametrize("records", [False, True])
@pytest.mark.parametrize("tree", TREES, ids=lambda tree: "-".join(tree.parts[-3:-1]))
def test_every_byte_is_in_one_field(tree, records):
    kinds = Counter()
    for path, name in paths_of(tree).items():
        findings = []
        fields = explained(FILES, path, findings, records=records)
        assert gaps_and_overlaps(fields, FILES.info(path).size) == [], path
        damaged = [field for field in fields if field.is_damaged]
        if damaged:
            assert any(finding.severity is not Severity.INFO for finding in findings), (path, damaged[0])
        inner = Counter()
        for field in fields:  # of decompressed bytes too
            if field.inflated and not field.bits:
                assert field.at == inner[field.unit], (path, field)
                inner[field.unit] += field.size
        kinds[name.kind] += bool(fields)
    saw_enough("explained files", kinds.total(), 1)


HEADER = {
    "base_offset": "base_offset", "record_count": "count", "producer_id": "producer_id", "producer_epoch": "producer_epoch",
    "base_sequence": "base_sequence", "partition_leader_epoch": "partition_leader_epoch", "crc": "crc", "magic": "magic",
    "max_timestamp": "max_timestamp", "base_timestamp": "base_timestamp",
}  # fmt: skip


def the_bytes(found, name):
    if f"{name}_b64" in found:
        return b64decode(found[f"{name}_b64"])
    return None if found[name] is None else found[name].encode()


@pytest.mark.parametrize("tree", TREES, ids=lambda tree: "-".join(tree.parts[-3:-1]))
def test_the_values_are_those_of_dump_log(tree):
    logs, seen = paths_of(tree, {FileKind.LOG, FileKind.KRAFT_SNAPSHOT}), 0
    if not logs:
        pytest.skip("a tree without logs")
    shown = kafkalog("dump-log", "--format", "jsonl", "--print-data-log", *logs)
    path, wanted = None, {}
    for one in all_objects(shown.out):
        if one["type"] == "file":
            path = one["path"]
        elif one["type"] == "batch":
            last = []
            wanted[path, one["position"]] = one, last
        elif one["type"] == "record" and "control" not in one:
            last.append(one)
    for path in logs:
        fields = {}
        for field in explained(FILES, path, records=True):
            fields.setdefault(field.unit, {})[field.name] = field
        for (_, at), of_batch in fields.items():
            if (path, at) not in wanted:
                continue
            head, records = wanted[path, at]
            if head["magic"] < 2:
                for number, record in enumerate(records):
                    prefix = "" if head["compression"] == "none" else f"messages[{number}]."
                    assert of_batch[f"{prefix}crc"].value == record["crc"]
                    for name in ("key", "value"):
                        assert of_batch[f"{prefix}{name}_size"].value == record[f"{name}_size"]
                        if data := the_bytes(record, name):
                            assert of_batch[f"{prefix}{name}"].value == data[:RAW]
                    seen += 1
                continue
            for ours, theirs in HEADER.items():
                assert of_batch[ours].value == head[theirs]
            assert of_batch["last_offset_delta"].value == head["last_offset"] - head["base_offset"]
            assert of_batch["attributes.compression"].note == head["compression"]
            assert of_batch["attributes.transactional"].value == head["is_transactional"]
            assert of_batch["attributes.control"].value == head["is_control"]
            for number, record in enumerate(records):
                assert of_batch[f"records[{number}].offset_delta"].value == record["offset"] - head["base_offset"]
                assert of_batch[f"records[{number}].key_size"].value == record["key_size"]
                assert of_batch[f"records[{number}].value_size"].value == record["value_size"]
                for name in ("key", "value"):
                    data = the_bytes(record, name)
                    if data:
                        assert of_batch[f"records[{number}].{name}"].value == data[:RAW]
                assert of_batch[f"records[{number}].header_count"].value == len(record["headers"])
                seen += 1
    saw_enough("records", seen, 1)


INDEXES = {
    FileKind.OFFSET_INDEX: ("offset-index-entry", lambda entry, base: (entry["relative_offset"] + base, entry["position"]),
                            lambda one: (one["offset"], one["position"])),
    FileKind.TIME_INDEX: ("time-index-entry", lambda entry, base: (entry["timestamp"], entry["relative_offset"] + base),
                          lambda one: (one["timestamp"], one["offset"])),
    FileKind.PRODUCER_SNAPSHOT: ("producer", lambda entry, _: (entry["producer_id"], entry["producer_epoch"], entry["last_offset"]),
                                 lambda one: (one["producer_id"], one["producer_epoch"], one["last_offset"])),
    FileKind.TRANSACTION_INDEX: ("aborted-txn", lambda entry, _: (entry["producer_id"], entry["first_offset"]),
                                 lambda one: (one["producer_id"], one["first_offset"])),
}  # fmt: skip


@pytest.mark.parametrize("kind", INDEXES)
def test_entries_are_those_of_dump_log(kind):
    of_type, ours, theirs = INDEXES[kind]
    seen = 0
    for tree in TREES:
        found = paths_of(tree, {kind})
        if not found:
            continue
        path, wanted = None, {}
        for one in all_objects(kafkalog("dump-log", "--format", "jsonl", *found).out):
            if one["type"] == "file":
                path = one["path"]
            elif one["type"] == of_type:
                wanted.setdefault(path, []).append(theirs(one))
        for path, name in found.items():
            entries = {}
            for field in explained(FILES, path):
                if field.unit[0] == "entry":
                    entries.setdefault(field.unit, {})[field.name] = field.value
            values = [ours(entry, name.base_offset) for entry in entries.values()]
            shown = wanted.get(path, [])  # in a preallocated index, also the first zeros; and not those after other zeros
            common = min(len(values), len(shown))
            assert values[:common] == shown[:common], path
            assert set(shown[common:]) <= {(name.base_offset, 0), (0, name.base_offset)}, path
            seen += len(values)
    saw_enough("entries", seen, 1)


DATA = batch(0, 3) + batch(3, 2, b"w" * 300) + batch(5, 4)


def test_one_byte():
    second = len(batch(0, 3))
    for at in range(len(DATA)):
        fields = explained(MemoryFiles({LOG: DATA}), LOG, at=at)
        assert sum(field.at <= at < field.at + field.size for field in fields if not field.bits) == 1
        assert {field.unit[0] for field in fields} == {"batch"}
    fields = explained(MemoryFiles({LOG: DATA}), LOG, at=second + 17)
    assert {field.unit for field in fields} == {("batch", second)}
    with pytest.raises(UsageError, match="after the end"):
        explained(MemoryFiles({LOG: DATA}), LOG, at=len(DATA))


def test_one_offset_and_one_batch():
    for offset in range(9):
        fields = explained(MemoryFiles({LOG: DATA}), LOG, offset=offset)
        base = next(field.value for field in fields if field.name == "base_offset")
        assert [base + field.value for field in fields if field.name.endswith("offset_delta") and "[" in field.name] == [offset]
    assert explained(MemoryFiles({LOG: DATA}), LOG, entry=1)[0].value == 3
    for choice, words in (({"offset": 9}, "no batch holds"), ({"entry": 3}, "there is no batch 3")):
        with pytest.raises(UsageError, match=words):
            explained(MemoryFiles({LOG: DATA}), LOG, **choice)


@pytest.mark.parametrize(("data", "names"), [
    (batch(0) + bytes(100), ["base_offset"]), (batch(0) + batch(1)[:40], ["last_offset_delta", "base_timestamp"]),
    (batch(0) + b"\\0" * 5, ["unknown"]), (with_wrong_checksum(batch(0)), ["crc"]),
])  # fmt: skip
def test_damage(data, names):
    findings = []
    fields = explained(MemoryFiles({LOG: data}), LOG, findings, records=True)
    assert gaps_and_overlaps(fields, len(data)) == []
    assert set(names) <= {field.name for field in fields}
    assert findings


@given(st.lists(batches(), max_size=2), st.data(), st.booleans())
@settings(deadline=None, max_examples=200)
def test_damaged_logs_are_explained_to_their_end(cases, draw, records):
    data = mutate(b"".join(case.build() for case in cases), draw)
    fields = explained(MemoryFiles({LOG: data}), LOG, records=records)
    covered = bytearray(len(data))
    for field in fields:
        assert field.size >= 0
        if not field.inflated:
            assert 0 <= field.at <= field.at + field.size <= len(data)
            covered[field.at : field.at + field.size] = b"\1" * field.size
    assert all(covered)


SMALL = ["partition.metadata", "meta.properties", "quorum-state", "leader-epoch-checkpoint", "recovery-point-offset-checkpoint",
         ".kafka_cleanshutdown", "00000000000000000000.index", "00000000000000000000.timeindex", "00000000000000000000.txnindex",
         "00000000000000000000.snapshot"]  # fmt: skip


@given(st.sampled_from(SMALL), st.binary(max_size=80) | st.text('{}":,\n0aleaderId version', max_size=60).map(str.encode))
@settings(deadline=None, max_examples=300)
def test_any_bytes_of_small_files(name, data):
    path = f"t-0/{name}"
    assert gaps_and_overlaps(explained(MemoryFiles({path: data}), path), len(data)) == []


def test_the_command(tmp_path):
    path = tmp_path / file_name(LOG)
    path.write_bytes(DATA)
    done = kafkalog("explain", "--at", "20", str(path))
    lines = done.out.decode().splitlines()
    assert (done.status, lines[0]) == (0, "batch at byte 0")
    assert next(line for line in lines if line.startswith(">")).split()[1] == "17"
    objects = all_objects(kafkalog("explain", "--format", "jsonl", "--records", str(path)).out)
    assert objects[1]["path"] == "batch.base_offset"
    path.write_bytes(with_wrong_checksum(DATA))
    done = kafkalog("explain", str(path))
    assert done.status == 4
    assert "DAMAGED" in done.out.decode()
    assert kafkalog("explain", str(tmp_path)).status == 2
    assert kafkalog("explain", str(tmp_path / "other.txt")).status == 8
    assert kafkalog("explain", "--at", "1", "--entry", "0", str(path)).status == 2
    assert json.loads(kafkalog("explain", "--format", "json", str(path)).out)["schema"] == "kafkalog/1"
    assert BATCH_HEADER.size == 61
