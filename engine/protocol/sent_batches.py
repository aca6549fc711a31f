"""The batches inside Produce requests and Fetch responses, and their problems.

Findings of one capture: a wrong checksum, a batch that the leader refuses for its form, gaps and repetitions in the sequences
of idempotent producers, sizes near the limit.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import TYPE_CHECKING, NamedTuple

from engine.findings import Finding, Severity, Where
from engine.formats import CODEC_NAMES, MAGIC_V2, NO_PRODUCER_ID
from engine.protocol.layout import ZERO_ID
from engine.protocol.messages import Api
from engine.record.batch import RecordBatch
from engine.record.columns import BatchColumns
from engine.record.control import increment_sequence
from engine.record.windows import check_large_batches, scan_range

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.protocol.exchange import Message

_NEAR = 0.9  # of the limit
_MOST_PRODUCERS = 50_000  # partitions of producers whose sequences are followed
_MOST_NAMES = 1_000_000  # topics
_MOST_BATCHES = 100_000  # of a message
_ROWS = 16  # batches at a time
_KEPT = 5  # batches of a producer that a broker compares a repetition with


class SentBatch(NamedTuple):
    """A batch in a message. `topic` is None if only its id is known, `topic_id` if only its name is."""

    topic: str | None
    topic_id: str | None
    partition: int
    batch: RecordBatch

    @property
    def name(self) -> str:
        """Return the partition as people write it."""
        return f"{self.topic or self.topic_id}-{self.partition}"

    @property
    def compression(self) -> str:
        """Return the name of the codec."""
        codec = self.batch.codec
        return CODEC_NAMES[codec] if codec < len(CODEC_NAMES) else f"unknown({codec})"


class _Records(NamedTuple):
    topic: str | None
    topic_id: str | None
    partition: int
    data: memoryview


class SentBatches:
    """Reads the batches of messages, in the order of the capture.

    file  the path in findings        max_message_bytes  batches near this size are reported
    """

    def __init__(self, file: str, max_message_bytes: int) -> None:
        self._file = file
        self._limit = max_message_bytes
        self._names: dict[str, str] = {}  # by id, out of responses to Metadata
        self._sequences: OrderedDict[tuple[object, ...], _Sequences] = OrderedDict()
        self._columns = BatchColumns(_ROWS)

    def topic_of(self, topic_id: str) -> str | None:
        """Return the name that a Metadata response before gave for an id."""
        return self._names.get(topic_id)

    def read(self, message: Message) -> tuple[list[SentBatch], list[Finding]]:
        """Return the batches of a message, and findings."""
        if message.body is None or message.header is None:
            return [], []
        api_key = message.header.api_key
        if api_key == Api.METADATA and not message.is_request and len(self._names) < _MOST_NAMES:
            self._names |= {one["topicId"]: one["name"] for one in message.body["topics"] if one["name"]}
        found: list[SentBatch] = []
        findings: list[Finding] = []
        if (api_key, message.is_request) in {(Api.PRODUCE, True), (Api.FETCH, False)}:
            for records in self._records(message):
                if len(found) < _MOST_BATCHES:
                    batches, rest = _batches(records, self._columns)
                    found += batches
                    findings += self._findings(message, records, batches, rest)
        if len(found) >= _MOST_BATCHES:
            what = f"{len(found)} batches were read: further ones in this message are ignored"
            findings.append(Finding("frame-undecoded", Where(self._file, message.frame.position), what))
        return found, findings

    def _records(self, message: Message) -> Iterator[_Records]:
        """Yield the records of each partition that has some."""
        assert message.body is not None
        topics, name, partitions, index = (
            ("topicData", "name", "partitionData", "index") if message.is_request
            else ("responses", "topic", "partitions", "partitionIndex")
        )
        for topic in message.body[topics]:
            topic_id = None if topic["topicId"] == ZERO_ID else topic["topicId"]
            for partition in topic[partitions]:
                if partition["records"] is not None and len(partition["records"]):
                    known = topic[name] or self._names.get(topic_id or "")
                    yield _Records(known, topic_id, partition[index], partition["records"])

    def _findings(self, message: Message, records: _Records, batches: list[SentBatch], rest: int) -> Iterator[Finding]:
        position = message.frame.position
        for one in batches:
            if not one.batch.is_valid:
                what = f"{one.name}: the checksum of a batch of {one.batch.size_in_bytes} bytes is wrong"
                yield Finding("sent-batch-invalid", Where(self._file, position, one.batch.base_offset), what)
        if not message.is_request:
            return  # a Fetch response may end inside a batch
        where = Where(self._file, position)
        partition = f"{records.topic or records.topic_id}-{records.partition}"
        if len(batches) != 1 or rest or batches[0].batch.magic != MAGIC_V2:
            magics = sorted({one.batch.magic for one in batches})
            what = (f"{partition}: {len(batches)} batches, magic {magics}, {rest} other bytes; a broker accepts one batch of "
                    "magic 2")
            yield Finding("sent-batch-invalid", where, what)
        for one in batches:
            if one.batch.magic >= MAGIC_V2:
                yield from self._sequence_findings(one, where)
            size = one.batch.size_in_bytes
            if size > self._limit * _NEAR:
                milder = Severity.INFO if size <= self._limit else None
                what = f"{partition}: a batch of {size} bytes; max.message.bytes is {self._limit}"
                yield Finding("sent-batch-large", where, what, milder=milder)

    def _sequence_findings(self, one: SentBatch, where: Where) -> Iterator[Finding]:
        batch = one.batch
        if batch.producer_id == NO_PRODUCER_ID or batch.base_sequence < 0:
            return
        key = one.topic_id or one.topic, one.partition, batch.producer_id, batch.producer_epoch
        known = self._sequences.get(key)
        if known is None:
            if len(self._sequences) >= _MOST_PRODUCERS:
                self._sequences.popitem(last=False)
            known = self._sequences[key] = _Sequences(deque(maxlen=_KEPT), None)
        which = f"{one.name}: producer {batch.producer_id} epoch {batch.producer_epoch}, sequence {batch.base_sequence}"
        this = batch.base_sequence, batch.last_sequence
        if this in known.last:
            yield Finding("sequence-repeated", where, f"{which} to {batch.last_sequence} was sent before")
            return
        if known.next is not None and batch.base_sequence != known.next:
            yield Finding("sequence-gap", where, f"{which}; {known.next} is expected")
        known.last.append(this)
        self._sequences[key] = known._replace(next=increment_sequence(batch.last_sequence, 1))


class _Sequences(NamedTuple):
    """What a producer sent to a partition in one epoch: (first, last) of the last batches, and the next sequence."""

    last: deque[tuple[int, int]]
    next: int | None


def _batches(records: _Records, columns: BatchColumns) -> tuple[list[SentBatch], int]:
    """Return the whole batches, up to a limit, and the number of bytes after them. `columns`: room for _ROWS of them."""
    data, at = records.data, 0
    found: list[SentBatch] = []
    while True:
        rows = scan_range(data, at, len(data), columns)
        check_large_batches(data, columns, rows)
        found += [SentBatch(*records[:3], RecordBatch(columns, row, 0)) for row in range(rows)]
        at = found[-1].batch.position + found[-1].batch.size_in_bytes if rows else at
        if rows < _ROWS or len(found) >= _MOST_BATCHES:
            return found, len(data) - at
