"""Append input to a log of Kafka 0.7: values of lines become sets, raw entries are appended as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.amounts import count_of
from engine.formats import INT_MAX, RecordField
from engine.kafka07.entries import HEADER_V0, HEADER_V1, SIZE_FIELD, encode_set
from engine.kafka07.segment import ILLEGAL_STATE, Refused07
from engine.log.append.frames import Appended, LineEnds, Outcome
from engine.record.columns import RecordColumns
from engine.record.json_record import LineInvalid

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.kafka07.log import Log07
    from engine.record.lines import LineReader


class LineIntake07:
    """Appends lines, each as a message. A set has as many as fit `batch_size` bytes, at least one. An Intake.

    now    returns the time, ms    magic  of the messages: 0 or 1    codec  0 none, 1 gzip, 2 snappy
    """

    def __init__(
        self, log: Log07, reader: LineReader, now: Callable[[], int], *, magic: int, codec: int, batch_size: int
    ) -> None:
        self.appended = Outcome()
        self._log, self._reader, self._now = log, reader, now
        self._magic, self._codec, self._batch_size = magic, codec, batch_size
        self._records = RecordColumns()
        self._taken = 0  # records so far
        self._ends = LineEnds(reader, log.config.max_message_size, is_compressed=codec != 0)

    def is_whole(self, data: bytearray, seen: int, filled: int) -> bool:
        """See Intake."""
        return self._ends.is_whole(data, seen, filled)

    def take(self, data: bytearray, *, is_last: bool) -> int:
        """Append the complete lines. Returns the bytes used. Raises LineInvalid for a key, header or null, Refused07."""
        end = len(data) if is_last else data.rfind(b"\n") + 1
        view, at, done = memoryview(data), 0, end == 0
        waiting: list[memoryview] = []
        while not done:
            filled, at, done = self._reader.read(view, at, end, -1, self._records)
            size = 0
            for row in range(filled):
                try:
                    payload = self._payload(view, row)
                except LineInvalid:
                    self._append(waiting)  # the lines before it
                    raise
                entry = SIZE_FIELD + HEADER_V1 + len(payload)
                if waiting and size + entry > self._batch_size:
                    self._append(waiting)
                    size = 0
                waiting.append(payload)
                size += entry
            self._append(waiting)
        return end

    def _payload(self, data: memoryview, row: int) -> memoryview:
        table = self._records.table
        self._taken += 1
        if table[RecordField.KEY_SIZE, row] >= 0 or table[RecordField.HEADER_COUNT, row] > 0:
            raise LineInvalid(f"record {self._taken} of the input has a key or headers, which messages of Kafka 0.7 do not "
                              "have")
        size = table[RecordField.VALUE_SIZE, row]
        if size < 0:
            raise LineInvalid(f"record {self._taken} of the input has no value, which a message of Kafka 0.7 needs; it may be "
                              "empty")
        at = table[RecordField.VALUE_POSITION, row]
        return data[at : at + size]

    def _append(self, waiting: list[memoryview]) -> None:
        if waiting:
            data = encode_set(waiting, self._magic, self._codec)
            waiting.clear()
            first = self._log.append(data, self._now())
            self.appended.append(Appended(first, first + len(data) - 1))


class SetIntake07:
    """Appends entries in the format of a file of 0.7, in sets of `batch_size` bytes, at least one entry. An Intake."""

    def __init__(self, log: Log07, now: Callable[[], int], batch_size: int) -> None:
        self.appended = Outcome()
        self._log, self._now, self._batch_size = log, now, batch_size

    def is_whole(self, data: bytearray, _seen: int, filled: int) -> bool:
        """See Intake. Raises Refused07."""
        if filled <= SIZE_FIELD:
            return False
        size = SIZE_FIELD + int.from_bytes(data[:SIZE_FIELD], "big")
        if filled < size <= INT_MAX:
            self._log.check_payload(size - SIZE_FIELD - (HEADER_V1 if data[SIZE_FIELD] else HEADER_V0))
            return False
        return True

    def take(self, data: bytearray, *, is_last: bool) -> int:
        """Append the complete entries. Returns the bytes used. Raises Refused07."""
        start = at = 0
        while len(data) - at >= SIZE_FIELD:
            size = SIZE_FIELD + int.from_bytes(data[at : at + SIZE_FIELD], "big")
            if size > INT_MAX:
                raise Refused07(ILLEGAL_STATE, None, f"the size of an entry of the input is {size - SIZE_FIELD}")
            if size > len(data) - at:
                break
            if at > start and at + size - start > self._batch_size:
                start = self._append(data, start, at)
            at += size
        start = self._append(data, start, at)
        if is_last and start < len(data):
            what = f"incomplete entry at the end of the input: {count_of(len(data) - start, 'byte')}"
            raise Refused07(ILLEGAL_STATE, None, what)
        return start

    def _append(self, data: bytearray, start: int, end: int) -> int:
        if end > start:
            first = self._log.append(bytes(data[start:end]), self._now())
            self.appended.append(Appended(first, first + end - start - 1))
        return end
