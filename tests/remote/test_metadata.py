"""The state from the records of `__remote_log_metadata` equals that of Kafka's RemoteLogMetadataCache."""

from __future__ import annotations

import base64
import json
import random
import struct
import uuid

import pytest

from engine.amounts import size_text
from engine.files import ReadOnlyFiles
from engine.kernels.tables import RemoteKind
from engine.remote import metadata_log
from engine.remote.metadata import RemoteLogMetadata
from engine.remote.metadata_log import MetadataLogs
from engine.remote.records import (
    SegmentRecord,
    State,
    UpdateRecord,
    _decode,
    _decode_by_schema,
    decode_record,
    encode_record,
    key_of,
    metadata_partition_of,
)
from engine.schema.decode import SchemaError
from tests.remote.corpus import OWN_ONLY, SETS, damaged, log_dirs, truth
from tests.support.json_output import objects_of
from tests.support.kernel_calls import remote_rows
from tests.support.run import kafkalog


@pytest.mark.parametrize("name", SETS)
def test_remote_list_shows_the_state_of_kafka(name):
    done = kafkalog("remote", "list", "--format", "jsonl", *log_dirs(name))
    assert (done.status, done.err) == (0, "")
    partitions, segments = {}, {}
    for one in objects_of(done.out):
        key = f"{one.get('topic_id')}:{one.get('topic')}-{one.get('partition')}"
        if one["type"] == "remote-partition":
            partitions[key] = one
        elif one["type"] == "remote-segment":
            segments.setdefault(key, []).append(one)
    expected = truth(name, "segments.jsonl")
    assert partitions.keys() == {row["partition"] for row in expected}
    for row in expected:
        key = row["partition"]
        for field in ("metadata_partition", "refused", "by_epoch", "highest"):
            assert partitions[key][field] == row[field], (key, field)
        found = segments.get(key, [])
        assert [{field: one[field] for field in kafkas} for one, kafkas in zip(found, row["segments"], strict=True)] == row["segments"]


@pytest.mark.parametrize("name", SETS)
def test_lookups_find_what_kafka_finds(name):
    metadata = MetadataLogs(ReadOnlyFiles(), log_dirs(name), lambda _finding: None).read()
    asked = 0
    for row in truth(name, "segments.jsonl"):
        topic_id, _, directory = row["partition"].partition(":")
        partition = metadata.find(topic_id, int(directory.rpartition("-")[2]))
        for epoch, offset, segment, with_txn_index in row["lookups"]:
            found, next_one = partition.segment(epoch, offset), partition.segment_with_txn_index(epoch, offset)
            assert (found and found.name, next_one and next_one.name) == (segment, with_txn_index)
            asked += 1
    assert asked > 100


def values(name):
    """Return every value in the metadata logs of a set."""
    done = kafkalog("dump-log", "--format", "jsonl", "--print-data-log",
                    *(f"{path}/__remote_log_metadata-{number}" for path in log_dirs(name) for number in range(3)))  # fmt: skip
    rows = [json.loads(line) for line in done.out.splitlines() if b'"record"' in line[:20]]
    return [base64.b64decode(row["value_b64"]) if "value_b64" in row else row["value"].encode() for row in rows]


@pytest.mark.parametrize("name", [name for name in SETS if name != "pair"])
def test_specialized_decoding_equals_the_schema(name):
    found = values(name)
    assert len(found) > 50
    for value in found:
        assert _decode(value) == _decode_by_schema(value)


def outcome(decode, value):
    try:
        return decode(value)
    except SchemaError:
        return None


def test_changed_bytes_are_decoded_as_the_schema_does_or_refused():
    rng, found = random.Random(1), values(SETS[-1])
    for _ in range(3000):
        value = bytearray(rng.choice(found))
        if rng.random() < 0.3:
            del value[rng.randrange(len(value)) :]
        else:
            value[rng.randrange(len(value))] ^= 1 << rng.randrange(8)
        value = bytes(value)
        decoded = outcome(decode_record, value)
        if decoded is not None and decoded.topic.isascii():  # the JSON of the schema replaces other characters
            assert decoded == outcome(_decode_by_schema, value)


@pytest.mark.parametrize("name", SETS)
def test_remote_list_ends_with_a_total(name):
    rows = truth(name, "segments.jsonl")
    count, words = len({row["partition"] for row in rows}), ("remote", "list", *log_dirs(name))
    listed = [one for one in objects_of(kafkalog(*words, "--format", "jsonl").out) if one["type"] == "remote-segment"]
    last = kafkalog(*words).out.decode().splitlines()[-1]
    assert last == f"{count} partitions: {len(listed)} remote segments, {size_text(sum(one['size'] for one in listed))}"
    [topic, *_] = {row["partition"] for row in rows}
    one = kafkalog(*words, "--topic", topic.partition(":")[2].rpartition("-")[0]).out.decode()
    assert ("partitions: " in one) == (one.count("  topic id ") > 1)


@OWN_ONLY
def test_an_undecodable_record_is_a_finding_and_later_ones_are_read(tmp_path):
    top = damaged("metadata-flipped", tmp_path / "top") if SETS else tmp_path
    done = kafkalog("remote", "list", str(top / "d0"), str(top / "d1"))
    assert done.status == 4
    assert "crc-mismatch" in done.err
    assert b"plain-0: " in done.out


KEY = uuid.UUID(int=7).bytes + struct.pack(">i", 3)


def started(number, start, end, epochs=None):
    epochs = ((0, start),) if epochs is None else epochs
    ident = uuid.UUID(int=number).bytes
    return SegmentRecord(KEY, b"t", ident, start, end, 1, 5, 6, epochs, 100, None, State.COPY_SEGMENT_STARTED, False)


def update(number, state):
    return UpdateRecord(KEY, b"t", uuid.UUID(int=number).bytes, 2, 9, None, state)


class Model:
    """A literal translation of RemoteLogMetadataCache."""

    def __init__(self):
        self.known, self.epochs = {}, {}

    def state(self, epoch):
        return self.epochs.setdefault(epoch, {"ids": {}, "unreferenced": set(), "highest": None})

    def apply(self, record):
        ident = record.segment_id
        if isinstance(record, SegmentRecord):
            if record.state != 0 or self.known.get(ident, (0,))[0] != 0:
                return False
            for epoch, _ in record.leader_epochs:
                self.state(epoch)["unreferenced"].add(ident)
            self.known[ident] = (0, record)
            return True
        if ident not in self.known:
            return False
        before, segment = self.known[ident]
        if (before, record.state) not in {(0, 1), (1, 1), (0, 2), (1, 2), (2, 2), (2, 3)}:
            return False
        for place, (epoch, start) in enumerate(segment.leader_epochs):
            state = self.state(epoch)
            ids = state["ids"]
            if record.state == 1:
                rest = segment.leader_epochs[place + 1 :]
                end = rest[0][1] - 1 if rest else segment.end_offset
                while ids and max(ids) >= start and state["highest"] <= end:
                    state["unreferenced"].add(ids.pop(max(ids)))
                if start in ids:
                    state["unreferenced"].add(ids[start])
                ids[start] = ident
                state["unreferenced"].discard(ident)
                state["highest"] = end if state["highest"] is None else max(end, state["highest"])
            elif record.state == 2:
                if ids.get(start) == ident:
                    del ids[start]
                state["unreferenced"].add(ident)
            else:
                state["unreferenced"].discard(ident)
        self.known[ident] = (record.state, segment)
        if record.state == 3:
            del self.known[ident]
        return True


@pytest.mark.parametrize("seed", range(40))
def test_random_histories_end_as_in_a_plain_model(seed):
    rng, model, metadata = random.Random(seed), Model(), RemoteLogMetadata()
    refused, numbers = 0, list(range(12))
    for following in range(12, 412):
        place = rng.randrange(12)
        number = numbers[place]
        if rng.random() < 0.4:
            start = rng.randrange(0, 60, 5)
            end = start + rng.randrange(1, 30)
            epochs = ((0, start),) if rng.random() < 0.5 else ((0, start), (1, rng.randrange(start, end + 1)))
            record = started(number, start, end, epochs)
        else:
            record = update(number, rng.choice((1, 1, 1, 2, 3)))
            if record.state == 3:
                numbers[place] = following  # no id comes twice
        partition = metadata.of(record, 0)
        is_taken = model.apply(record)
        refused += not is_taken
        assert partition.apply(record) is is_taken
    assert partition.refused == refused > 0
    assert {one.id: one.state for one in partition.segments()} == {ident: state for ident, (state, _) in model.known.items()}
    for epoch, state in model.epochs.items():
        assert partition.highest_offset(epoch) == state["highest"]
        assert {one.id for one in partition.segments_of(epoch)} == {*state["ids"].values(), *state["unreferenced"]} & {*model.known}
        for offset in range(95):
            below = [start for start in state["ids"] if start <= offset]
            found = state["ids"][max(below)] if below else None
            got = partition.segment(epoch, offset)
            assert got is None or got.id == found
            if found is not None:
                segment = model.known[found][1]
                end = next((start - 1 for other, start in segment.leader_epochs if other > epoch), segment.end_offset)
                assert (got is not None) is (offset <= end)


def test_many_deletions_at_the_front_keep_the_other_segments():
    metadata, count = RemoteLogMetadata(), 5000
    for number in range(count):
        for record in (started(number, number * 10, number * 10 + 9), update(number, 1)):
            partition = metadata.of(record, 0)
            assert partition.apply(record)
    for number in range(count - 100):
        assert partition.apply(update(number, 2))
        assert partition.apply(update(number, 3))
    assert len(partition) == 100
    assert partition.segment(0, (count - 101) * 10) is None
    assert partition.segment(0, (count - 100) * 10 + 5).start_offset == (count - 100) * 10
    assert partition.highest_offset(0) == count * 10 - 1


def state_of(metadata):
    """Return the whole state as plain values."""
    return [
        (one.name, one.topic_id, one.metadata_partition, one.refused, one.deletion, list(one.segments()),
         [(epoch, list(one.segments_of(epoch)), one.highest_offset(epoch)) for epoch in one.epochs()])
        for one in metadata.partitions()
    ]  # fmt: skip


@pytest.mark.parametrize("seed", range(20))
def test_rows_of_the_kernel_end_as_single_records(seed):
    """Return values in unusual forms: several epochs, custom metadata, invalid changes of the state, changed bytes."""
    rng = random.Random(seed)
    values, topics = [], [KEY, KEY[:-1] + b"\4"]
    for _ in range(600):
        number, start, key = rng.randrange(30), rng.randrange(0, 60, 5), rng.choice(topics)
        record = update(number, rng.choice((1, 1, 2, 3)))
        if rng.random() < 0.4:
            epochs = rng.choice([((0, start),), ((2, start),), ((2, 1),), ((0, start), (1, start + 1))])
            record = started(number, start, start + rng.randrange(1, 30), epochs)
        if rng.random() < 0.1:
            record = record._replace(custom=b"c" * rng.randrange(3))
        value = bytearray(encode_record(record._replace(key=key)))
        if rng.random() < 0.05:
            value[rng.randrange(len(value))] ^= 1 << rng.randrange(8)
        values.append(bytes(value))
    one_by_one, by_rows = RemoteLogMetadata(), RemoteLogMetadata()
    for value in values:
        record = outcome(decode_record, value)
        if record is not None:
            one_by_one.of(record, 0).apply(record)
    kinds, rows = remote_rows(values)
    assert {int(one) for one in kinds} == set(RemoteKind)
    by_rows.apply_rows(kinds, rows, 0, lambda place: outcome(decode_record, values[place]))
    assert state_of(by_rows) == state_of(one_by_one)


@pytest.mark.parametrize("name", SETS)
def test_records_are_written_as_brokers_write_them(name, monkeypatch):
    count = 0

    def both(value):
        nonlocal count
        record = decode_record(value)
        assert encode_record(record) == value
        count += 1
        return record

    monkeypatch.setattr(metadata_log, "decode_record", both)
    logs, metadata = MetadataLogs(ReadOnlyFiles(), log_dirs(name), lambda _finding: None), RemoteLogMetadata()
    assert len(list(logs.events(metadata))) == count > 50
    assert state_of(metadata) == state_of(logs.read())
    for partition in metadata.partitions():
        assert metadata_partition_of(key_of(partition.topic_id, partition.partition), 3) == partition.metadata_partition
