"""Runs of records through the offline producer: the batches that a real producer sent for the same records, one by one."""

import base64
import json
import random

import pytest

from engine.formats import BATCH_HEADER, Codec, RecordField
from engine.producer.config import ProducerConfig
from engine.producer.failures import ProducerError
from engine.producer.offline import OfflineProducer
from engine.protocol.frames import decode_request
from engine.record.assembly import BatchSpec
from engine.record.builder import NewRecord, stage
from tests.producer.comparing import stored
from tests.producer.scripted import Script, content_of

_START = 1_700_000_000_000
_IGNORED = {"enable.idempotence", "linger.ms", "partitioner.adaptive.partitioning.enable"}


def is_one_run(script):
    """Sends without partitions to one topic, then one flush: nothing is sent before."""
    *sends, last = script["steps"]
    config, [topic, *others] = script["config"], script["cluster"]["topics"].values()
    return (
        last == {"flush": True} and sends and not others and "leaders" not in topic and not script["broker"]
        and all("send" in step and not {"partition", "topic"} & set(step["send"]) for step in sends)
        and script["cluster"]["nodes"] == [1] and int(config.get("linger.ms", 0)) >= 10 and "max.request.size" not in config
        and config.get("compression.type") not in ("gzip", "zstd")
    )  # fmt: skip


CASES = [
    (script, expected) for script, expected in zip(map(json.loads, stored("scripts")), stored("expected"), strict=True)
    if is_one_run(script)
]  # fmt: skip


def sent_by_kafka(expected):
    """(partition, count, bytes of the records) of each batch, in the order of the requests."""
    for request in json.loads(expected)["requests"]:
        if request["api"] != "Produce":
            continue
        [topic] = decode_request(base64.b64decode(request["frame_b64"])[4:]).body["topicData"]
        for one in topic["partitionData"]:
            yield one["index"], described(bytes(one["records"]))


def described(batch):
    header = BATCH_HEADER.read(batch)
    return header.record_count, header.base_timestamp, header.max_timestamp, batch[BATCH_HEADER.size :]


@pytest.mark.parametrize(("script", "expected"), CASES, ids=[script["name"] for script, _ in CASES])
@pytest.mark.parametrize("run", [1, 7, 1000])
def test_runs_of_records_become_the_batches_of_the_real_producer(script, expected, run):
    assert len(CASES) > 15
    [topic] = script["cluster"]["topics"]
    given = Script(script)  # for its random numbers
    config = ProducerConfig.of({name: value for name, value in script["config"].items() if name not in _IGNORED})
    count = script["cluster"]["topics"][topic]["partitions"]
    producer = OfflineProducer(config, topic, count, given.next_random, lambda: 0.5)
    records = []
    for step in script["steps"][:-1]:
        send = step["send"]
        headers = [(name.encode(), None if text is None else text.encode()) for name, text in send.get("headers", [])]
        timestamp = send.get("timestamp", _START)
        records.append(NewRecord(0, timestamp, content_of(send, "key"), content_of(send, "value"), headers))
    got = []
    for at in range(0, len(records), run):
        data, columns = stage(records[at : at + run])
        got += producer.send(memoryview(data), columns, len(records[at : at + run]))
    got += producer.flush()
    assert [(partition, described(batch)) for partition, batch in got] == list(sent_by_kafka(expected))


def total(batches):
    return sum(BATCH_HEADER.read(batch).record_count for _, batch in batches)


@pytest.mark.parametrize("memory", [100_000, 400_000, 900_000])
@pytest.mark.parametrize("size", [400, 16384])
@pytest.mark.parametrize("keyed", [False, True])
def test_memory_is_bounded_and_nothing_is_lost(keyed, size, memory):
    rng = random.Random(3)
    config = ProducerConfig(buffer_memory=memory, batch_size=size, idempotence=False, spec=BatchSpec(codec=Codec.SNAPPY))
    producer = OfflineProducer(config, "t", 20, lambda: rng.getrandbits(31), rng.random)
    data, columns = stage([NewRecord(0, 5, rng.randbytes(5) if keyed else None, rng.randbytes(90)) for _ in range(8000)])
    early = list(producer.send(memoryview(data), columns, 8000))
    late = list(producer.flush())
    assert total(early) + total(late) == 8000
    assert sum(len(batch) for _, batch in late) < 1.5 * memory


def test_records_for_grouped_and_single_appends_are_the_same():
    rng = random.Random(4)
    records = [NewRecord(0, 7, rng.choice([None, rng.randbytes(3)]), rng.randbytes(rng.randrange(300))) for _ in range(3000)]
    results = []
    for run in (1, 3000):
        own = random.Random(5)
        producer = OfflineProducer(ProducerConfig(idempotence=False), "t", 7, lambda own=own: own.getrandbits(31), own.random)
        for at in range(0, 3000, run):
            data, columns = stage(records[at : at + run])
            assert list(producer.send(memoryview(data), columns, run)) == []
        results.append(list(producer.flush()))
    assert results[0] == results[1]


def test_time_passes_with_the_records():
    producer = OfflineProducer(ProducerConfig(idempotence=False), "t", 1, lambda: 0, lambda: 0.5, linger_ms=10)
    data, columns = stage([NewRecord(0, timestamp, b"k", b"v") for timestamp in (100, 105, 109, 110, 104, 111, 10**12)])
    sent = [*producer.send(memoryview(data), columns, 7), *producer.flush()]
    assert [BATCH_HEADER.read(batch).record_count for _, batch in sent] == [3, 3, 1]
    assert [columns.table[RecordField.OFFSET, row] for row in range(7)] == [0, 1, 2, 0, 1, 2, 0]


def test_a_record_larger_than_the_memory_is_refused():
    producer = OfflineProducer(ProducerConfig(idempotence=False, batch_size=1000, buffer_memory=2000), "t", 1, lambda: 0, lambda: 0.5)
    data, columns = stage([NewRecord(0, 0, None, b"v"), NewRecord(0, 0, None, bytes(2000))])
    with pytest.raises(ProducerError, match="larger than"):
        list(producer.send(memoryview(data), columns, 2))
    assert total(producer.flush()) == 1
