"""What a Python program asks about log dirs: their content, their problems, and what a start or a recovery would do.

Every function takes partitions, log dirs or directories that contain log dirs, and changes nothing on the disk.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from engine.config.server import Settings
from engine.discovery.names import PartitionKind
from engine.errors import KafkalogError
from engine.files import Files, ReadOnlyFiles, now_ms
from engine.log.logdir.log_dirs import find_log_dirs
from engine.log.logdir.startup import survey_all
from engine.log.logdir.topics import Topics
from engine.overview.brokers import brokers_of
from engine.overview.partition_state import StateReader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.findings import Finding
    from engine.log.report import Report
    from engine.log.starting.outcome import Start
    from engine.log.verify.partition import Verification
    from engine.overview.brokers import Shutdown
    from engine.overview.partition_state import PartitionState


class ListedLogDir(NamedTuple):
    """A log dir: the broker in its meta.properties (None: not known), how that was stopped, and its partitions.

    lock_holder  process id of the running broker; None: no process holds the lock
    """

    path: str
    cluster_id: str | None
    node_id: int | None
    shutdown: Shutdown
    lock_holder: int | None
    partitions: list[PartitionState]


class Verified(NamedTuple):
    """What was checked in the partition at `path`, and the findings about it.

    verification  None: it could not be read to its end; `error` says why
    """

    path: str
    verification: Verification | None
    findings: list[Finding]
    error: KafkalogError | None = None


def ls(*paths: str) -> list[ListedLogDir]:
    """List log dirs and the states of their partitions, as `kafkalog ls` does: indexes and headers are read, not records.

    A partition that cannot be read has `error` set. Raises KafkalogError if a path has no log dir.
    """
    files = ReadOnlyFiles()
    reader = StateReader(files)
    return [
        ListedLogDir(
            one.log_dir.path, broker.cluster_id, broker.node_id, one.shutdown, one.lock_holder,
            list(broker.partitions(one.log_dir, reader)),
        )
        for broker in brokers_of(files, find_log_dirs(files, paths), Settings(), now_ms()) for one in broker.log_dirs
    ]  # fmt: skip


def verify(*paths: str) -> Iterator[Verified]:
    """Read every byte of every partition and check all its files, one partition after the other, as `kafkalog verify` does.

    A partition that cannot be read has `error` set. Raises KafkalogError if a path has no log dir.
    """
    from engine.log.verify.partition import verify_partition

    files = ReadOnlyFiles()
    log_dirs = find_log_dirs(files, paths)
    topics = Topics(files, survey_all(files, log_dirs), Settings())
    for log_dir in log_dirs:
        for one in log_dir.partitions(PartitionKind.PLAIN, PartitionKind.FUTURE):
            findings: list[Finding] = []
            try:
                done = verify_partition(files, one.path, findings.append, policy=partial(topics.policy, one.path))
                result = Verified(one.path, done, findings)
            except KafkalogError as error:
                result = Verified(one.path, None, findings, error)
            yield result


def predict_starts(*paths: str) -> list[Start]:
    """Predict for each broker what its next start would do, as `kafkalog check --level start` does.

    Log dirs without the files of a broker are left out. Raises KafkalogError.
    """
    from engine.log.starting.broker_start import predict_start, survey_broker
    from engine.log.starting.brokers import named_brokers

    files, now = ReadOnlyFiles(), now_ms()
    brokers, _ = named_brokers(files, paths)
    starts = (predict_start(files, one, survey_broker(files, one), Settings(), now) for one in brokers)
    return [start for start in starts if start is not None]


def plan_recovery(*paths: str, salvage: bool = False, full: bool = False) -> Iterator[Report]:
    """Yield for each partition what `kafkalog recover` would do: the recovery itself, on files in memory.

    salvage  keep the sound batches after damage      full  check all batches, not only those from the recovery point on
    Raises KafkalogError, for example if a broker runs on the log dir.
    """
    from engine.log.operations.recover import RecoverOptions, recover
    from engine.log.session import session

    disk = Files()
    options = RecoverOptions(salvage=salvage, recovery_point=0 if full else None, dry_run=True)
    with session(disk, find_log_dirs(disk, paths), options) as opened:
        yield from opened.run(lambda one: recover(one.manager, options))
