"""Logs that are open for producers while a server runs: opened, closed and noted in checkpoints as by every other command.

Each log has a thread that opens it, waits for the end of the server, and closes it (see `operate`).
"""

from __future__ import annotations

import secrets
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from threading import Condition, Thread
from typing import TYPE_CHECKING, Any

from engine.files import now_ms
from engine.log.append.log_end import refuse_damaged_end
from engine.log.operations.operation import Operation, operate, partitions_of
from engine.protocol.error_codes import Error
from engine.serve.producing import FIRST_TOPIC_IDS, Producing, failed
from engine.serve.transactions import Transactions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.errors import KafkalogError
    from engine.log.logdir.log_dirs import LogDir
    from engine.log.partition.unified_log import UnifiedLog
    from engine.log.report import Report
    from engine.log.session import Session
    from engine.serve.catalogue import Catalogue, Partition
    from engine.serve.producing import Batch

_FIRST_IMPLICIT = 12  # version of Produce that adds its partition to the transaction (KIP-890)
_FIRST_PRODUCER_ID = 1 << 40


class OpenLogs(Operation):
    """The logs of a session's log dirs, open until `close`.

    by_directory  the logs that are open
    failed        called with the error of each log that cannot be opened, or closed
    """

    name = "serve"
    for_snapshots = False

    def __init__(self, session: Session, failed: Callable[[KafkalogError], object]) -> None:
        self.by_directory: dict[str, UnifiedLog] = {}
        self._failed, self._changed = failed, Condition()
        self._is_ending, self._ended = False, 0
        number = sum(len(partitions_of(log_dir)) for log_dir in session.log_dirs)
        self._thread = Thread(target=self._run, args=(session, number), name="kafkalog-logs")
        self._thread.start()
        with self._changed:
            self._changed.wait_for(lambda: len(self.by_directory) + self._ended >= number)

    def _run(self, session: Session, number: int) -> None:
        """Open the log dirs in threads of their own: `operate` begins with the next one when the logs of one are closed."""
        threads = [Thread(target=self._operate, args=(session, log_dir, number)) for log_dir in session.log_dirs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _operate(self, session: Session, log_dir: LogDir, number: int) -> None:
        manager = session.manager.of(log_dir)
        for _ in operate(manager, replace(session.options, jobs=max(2, number)), self):
            pass

    def ended(self, report: Report) -> None:
        """See Operation."""
        if report.failure is not None:
            self._failed(report.failure)
        with self._changed:
            self._ended += 1
            self._changed.notify_all()

    def refuse(self, log: UnifiedLog) -> None:
        """Raise LogDamaged where no consumer would find what is appended."""
        refuse_damaged_end(log)

    def work(self, log: UnifiedLog) -> None:
        """Keep the log open."""
        log.update_high_watermark(log.log_end_offset)  # there is one replica
        with self._changed:
            self.by_directory[log.directory] = log
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._is_ending)
        log.flush()

    def close(self) -> None:
        """Flush and close all logs, and note their offsets."""
        with self._changed:
            self._is_ending = True
            self._changed.notify_all()
        self._thread.join()


def producer_ids() -> Callable[[], int]:
    """Return a function whose results are producer ids far above those that clusters give out."""
    return count(_FIRST_PRODUCER_ID + secrets.randbelow(_FIRST_PRODUCER_ID)).__next__


class Leader:
    """Answers what producers send, for a catalogue whose logs are open.

    next_id  returns a producer id that no log has
    """

    def __init__(self, catalogue: Catalogue, next_id: Callable[[], int]) -> None:
        self._catalogue = catalogue
        self.transactions = Transactions(next_id, self._find)

    def _find(self, topic: str, index: int) -> Partition | Error:
        known = self._catalogue.topics.get(topic)
        partition = None if known is None else known.partitions.get(index)
        return Error.UNKNOWN_TOPIC_OR_PARTITION if partition is None else partition

    def produce(self, version: int, body: dict[str, Any]) -> dict[str, Any] | None:
        """Answer Produce; None: the producer wants no answer, and there was no error. Raises Unanswered."""
        answer = Producing(_RequestLogs(self, version)).answer(version, body)
        return answer if body["acks"] or failed(answer) else None

    def partition(self, topic: dict[str, Any], index: int, version: int) -> Partition | Error:
        """Return the partition of a topic by its name or id."""
        if version < FIRST_TOPIC_IDS:
            return self._find(topic["name"], index)
        known = self._catalogue.by_id(topic["topicId"])
        return Error.UNKNOWN_TOPIC_ID if known is None else self._find(known.name, index)


class _RequestLogs:
    """The logs to which one request of a version appends. See PartitionLogs."""

    def __init__(self, leader: Leader, version: int) -> None:
        self._leader, self._version = leader, version

    @contextmanager
    def log(self, topic: dict[str, Any], index: int) -> Iterator[UnifiedLog | Error]:
        """See PartitionLogs."""
        partition = self._leader.partition(topic, index, self._version)
        if isinstance(partition, Error):
            yield partition
            return
        with partition.open_log() as log:
            log.now = now_ms()
            yield log

    def check_transaction(self, transactional_id: str, batch: Batch, topic: dict[str, Any], index: int) -> Error:
        """See PartitionLogs."""
        transactions = self._leader.transactions
        error = transactions.check(transactional_id, batch.producer_id, batch.producer_epoch)
        partition = self._leader.partition(topic, index, self._version)
        if error is not Error.NONE or isinstance(partition, Error):
            return error
        if self._version >= _FIRST_IMPLICIT:
            transactions.add(transactional_id, partition)
        return Error.NONE if transactions.has(transactional_id, partition) else Error.INVALID_TXN_STATE
