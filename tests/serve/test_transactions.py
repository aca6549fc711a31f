"""Transactions of one node, apart from logs: epochs of producers, and requests that are repeated."""

from __future__ import annotations

from itertools import count

import pytest

from engine.protocol.error_codes import Error
from engine.serve.catalogue import NotOpen
from engine.serve.transactions import Transactions, offsets_partition

LAST = 32767  # the largest epoch: only markers have it (TransactionMetadata.isProducerEpochExhausted)


class Offsets:
    """Notes which transactions ended."""

    def __init__(self):
        self.ended = []

    def end_transaction(self, producer_id, *, is_committed):
        self.ended.append((producer_id, is_committed))

    def txn_offset_commit(self, _body, _client):
        raise AssertionError


def transactions():
    made = Transactions(count(1000).__next__, lambda _topic, _index: Error.UNKNOWN_TOPIC_OR_PARTITION)
    made.offsets = Offsets()
    return made


def init(made, **own):
    return made.init_producer_id(5, {"transactionalId": "x", "transactionTimeoutMs": 60_000, **own})


def of(answer):
    return answer["producerId"], answer["producerEpoch"]


def end(made, producer, version, is_committed=True):
    producer_id, epoch = producer
    body = {"transactionalId": "x", "producerId": producer_id, "producerEpoch": epoch, "committed": is_committed}
    return made.end_txn(version, body)


def add(made, producer, group="g"):
    producer_id, epoch = producer
    answer = made.add_offsets(4, {"transactionalId": "x", "producerId": producer_id, "producerEpoch": epoch, "groupId": group})
    assert answer["errorCode"] == 0


def test_an_epoch_that_is_used_up_gives_a_new_producer_id():
    made = transactions()
    producer = of(init(made))
    made._known["x"].epoch = LAST - 2
    producer = (producer[0], LAST - 2)
    for expected in ((1000, LAST - 1), (1001, 0), (1001, 1)):
        add(made, producer)
        answer = end(made, producer, 5)
        assert (answer["errorCode"], of(answer)) == (0, expected)
        assert of(end(made, producer, 5)) == expected  # a request that is repeated
        producer = expected
    assert made.offsets.ended == [(1000, True), (1000, True), (1001, True)]


def test_the_end_is_repeated_with_the_same_result_only():
    made = transactions()
    producer = of(init(made))
    assert end(made, producer, 4)["errorCode"] == Error.INVALID_TXN_STATE
    add(made, producer)
    assert [end(made, producer, 4)["errorCode"] for _ in range(2)] == [0, 0]
    assert end(made, producer, 4, is_committed=False)["errorCode"] == Error.INVALID_TXN_STATE
    assert made.offsets.ended == [(1000, True)]


def test_an_earlier_producer_is_fenced():
    made = transactions()
    first = of(init(made))
    add(made, first)
    assert of(init(made)) == (1000, 1)
    assert made.offsets.ended == [(1000, False)]
    assert [end(made, first, version)["errorCode"] for version in (1, 2, 5)] == [
        Error.INVALID_PRODUCER_EPOCH, Error.PRODUCER_FENCED, Error.PRODUCER_FENCED,
    ]  # fmt: skip
    assert init(made, producerId=1000, producerEpoch=0)["errorCode"] == Error.PRODUCER_FENCED
    assert of(init(made, producerId=1000, producerEpoch=1)) == (1000, 2)
    assert end(made, (77, 0), 5)["errorCode"] == Error.INVALID_PRODUCER_ID_MAPPING


class Unwritable:
    """A partition whose first marker cannot be written."""

    def __init__(self):
        self.fails = True

    def open_log(self):
        raise NotOpen("x") if self.fails else Done

    def note(self, error):
        assert isinstance(error, NotOpen)


class Done(Exception):
    """A marker would be written."""


def test_a_marker_that_cannot_be_written_is_tried_again():
    made, partition = transactions(), Unwritable()
    producer = of(init(made))
    made.add("x", partition)
    for _ in range(2):
        assert end(made, producer, 5)["errorCode"] == Error.KAFKA_STORAGE_ERROR
    assert made.offsets.ended == []
    partition.fails = False
    with pytest.raises(Done):
        end(made, producer, 5)


def test_a_group_has_the_partition_that_kafka_gives_it():
    assert [offsets_partition(one) for one in ("", "g", "exactly-classic", "größe")] == [0, 3, 37, 7]  # of Java


def test_the_state_of_a_transactional_id():
    made = transactions()
    producer = of(init(made, transactionTimeoutMs=5000))
    state = made.states()["x"]
    assert (state.state.name, state.timeout_ms, state.start_ms, state.partitions) == ("Empty", 5000, -1, ())
    add(made, producer)
    state = made.states()["x"]
    assert (state.state.name, state.partitions) == ("Ongoing", (("__consumer_offsets", offsets_partition("g")),))
    assert state.start_ms > 0
    end(made, producer, 4)
    assert made.states()["x"]._replace(start_ms=-1) == state._replace(state=state.state.CompleteCommit, start_ms=-1, partitions=())
    add(made, producer)
    end(made, producer, 4, is_committed=False)
    assert made.states()["x"].state.name == "CompleteAbort"
    init(made, transactionTimeoutMs=6000)
    state = made.states()["x"]
    assert (state.state.name, state.epoch, state.timeout_ms, state.start_ms) == ("Empty", 1, 6000, -1)
