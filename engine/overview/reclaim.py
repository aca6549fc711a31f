"""What of the space of log dirs can be freed: what a broker deletes itself and when, and what stays until somebody removes it.

The rules of retention are those of `retain`, run over memory: nothing is changed.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from engine.amounts import count_of
from engine.discovery.names import METADATA_TOPIC, FileKind, PartitionKind
from engine.errors import argument
from engine.log.logdir.log_dirs import LIVE
from engine.log.operations.retain import RetainOptions, retain
from engine.log.report import Action
from engine.log.session import OpenOptions, session
from engine.overview.usage import DELETED_FILE, FOREIGN, used_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from engine.config.server import Settings
    from engine.errors import KafkalogError
    from engine.files import Files
    from engine.log.logdir.log_dirs import LogDir, PartitionPath
    from engine.overview.brokers import Broker

_LOG = FileKind.LOG.value


class When(Enum):
    """When a broker removes something itself."""

    CHECK = "next-check"  # of retention, every log.retention.check.interval.ms
    START = "next-start"
    DELAY = "after-next-start"  # file.delete.delay.ms after it: each start begins the wait again
    NEVER = "never"
    UNKNOWN = "unknown"  # the settings decide, and they are not known


class Reclaim(NamedTuple):
    """Something that can be removed. `do`: the command that removes it now, or finds out more."""

    path: str
    size: int
    why: str
    when: When
    do: str


def reclaimable(
    disk: Files, broker: Broker, settings: Settings, now: int, report: Callable[[KafkalogError], None],
    options: Sequence[str] = (),
) -> Iterator[Reclaim]:
    """Yield what can be removed in the chosen partitions of `broker`.

    report   called with the errors of logs that cannot be opened
    options  those of the command line that give `settings`, for the proposed commands
    Raises KafkalogError.
    """
    around = broker.cluster.log_dirs
    log_dirs = [one.log_dir for one in broker.log_dirs]
    yield from _expired(disk, broker, log_dirs, OpenOptions(settings=settings, now=now, clean_start=True, dry_run=True),
                        report, options)  # fmt: skip
    waiting: dict[str, int] = {}
    directories: dict[PartitionPath, int] = {}
    for one in used_files(disk, log_dirs, report):
        if one.kind == FOREIGN:
            yield Reclaim(one.path, one.info.size, "not one of Kafka's files", When.NEVER, f"rm {argument(one.path)}")
        elif one.partition is not None and one.partition.name.kind in _WHY:
            directories[one.partition] = directories.get(one.partition, 0) + one.info.size
        elif one.partition is not None and one.kind == DELETED_FILE:
            waiting[one.partition.path] = waiting.get(one.partition.path, 0) + one.info.size
    for path, size in waiting.items():
        do = f"kafkalog retain {_WITHOUT_LIMITS} {argument(path)}"
        yield Reclaim(path, size, "files of deleted segments", When.START, do)
    for partition, size in directories.items():
        why, when, caution = _WHY[partition.name.kind]
        yield Reclaim(partition.path, size, why, when, f"rm -r {argument(partition.path)}    # {caution}")
    topics = {partition.name.topic for one in log_dirs for partition in _opened(one)}
    unknown = {topic for topic in topics if not broker.knows_retention(topic)}
    if unknown:
        paths = " ".join(argument(one.path) for one in around)
        what = f"the retention of {count_of(len(unknown), 'topic')} is not known"
        do = f"kafkalog du --reclaimable --config-file server.properties {paths}    # and the log dir with the metadata log"
        yield Reclaim(log_dirs[0].path, 0, what, When.UNKNOWN, do)


_WITHOUT_LIMITS = "--config retention.ms=-1 --config retention.bytes=-1"  # only what a start deletes
_WHY = {
    PartitionKind.DELETE: ("its topic or replica was deleted", When.DELAY, "while the broker is stopped"),
    PartitionKind.STRAY: (
        "the partition was not assigned to the broker, which keeps the directory", When.NEVER,
        "if no record of it is needed: kafkalog ls --long shows what it has",
    ),
}  # fmt: skip


def _opened(log_dir: LogDir) -> list[PartitionPath]:
    """The logs that a broker opens, without the metadata log, which only controllers clean."""
    return [partition for partition in log_dir.partitions(*LIVE) if partition.name.topic != METADATA_TOPIC]


def _expired(
    disk: Files, broker: Broker, log_dirs: Sequence[LogDir], opening: OpenOptions, report: Callable[[KafkalogError], None],
    options: Sequence[str],
) -> Iterator[Reclaim]:
    """What retention allows to delete, by settings that are known."""
    around = broker.cluster.log_dirs
    live = [
        replace(one, is_whole=False,
                directories=tuple(partition for partition in _opened(one) if broker.knows_retention(partition.name.topic)))
        for one in log_dirs
    ]  # fmt: skip
    names = {partition.path: partition.name for one in live for partition in one.directories}
    paths = " ".join(argument(one.path) for one in around)  # all, so that the command finds the settings of topics
    with session(disk, live, opening, around=around) as opened:
        for done in retain(opened.manager, opening, RetainOptions()):
            if done.failure is not None:
                report(done.failure)
            expired = [event for event in done.events if event.action is Action.REMOVED and event.path.endswith(_LOG)]
            if expired:
                why = f"retention allows to delete {count_of(len(expired), 'segment')}; of the last one {expired[-1].reason}"
                one = f"--topic {argument(names[done.directory].topic)} --partition {names[done.directory].partition}"
                do = " ".join(("kafkalog retain", *options, one, paths))
                yield Reclaim(done.directory, sum(event.size or 0 for event in expired), why, When.CHECK, do)
