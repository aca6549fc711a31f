"""What of the space of log dirs can be freed: what a broker deletes itself and when, and what stays until somebody removes it.

The rules of retention are those of `retain`, run over memory: nothing is changed.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from engine.amounts import count_of
from engine.discovery.names import DELETED, FileKind, PartitionKind
from engine.errors import argument
from engine.log.logdir.log_dirs import LIVE
from engine.log.operations.operation import places_of
from engine.log.operations.retain import RetainOptions, retain
from engine.log.report import Action
from engine.log.session import OpenOptions, session
from engine.overview.usage import FOREIGN, used_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from engine.config.server import Settings
    from engine.errors import KafkalogError
    from engine.files import Files
    from engine.log.logdir.log_dirs import LogDir, PartitionPath
    from engine.log.report import Report

_LOG = FileKind.LOG.value


class When(Enum):
    """When a broker removes something itself."""

    CHECK = "next-check"  # of retention, every log.retention.check.interval.ms
    START = "next-start"
    DELAY = "after-next-start"  # file.delete.delay.ms after it: each start begins the wait again
    NEVER = "never"


class Reclaim(NamedTuple):
    """Something that can be removed. `do`: the command that removes it now."""

    path: str
    size: int
    why: str
    when: When
    do: str


def reclaimable(
    disk: Files, log_dirs: Sequence[LogDir], around: Sequence[LogDir], settings: Settings, now: int,
    report: Callable[[KafkalogError], None],
) -> Iterator[Reclaim]:
    """Yield what can be removed in `log_dirs`.

    around  the log dirs of the same broker, with its metadata log
    report  called with the errors of logs that cannot be opened
    Raises KafkalogError.
    """
    options = OpenOptions(settings=settings, now=now, clean_start=True, dry_run=True)
    live = [
        replace(one, is_whole=False, directories=tuple(place for place in places_of(one) if place.name.kind in LIVE))
        for one in log_dirs
    ]
    with session(disk, live, options, around=around) as opened:
        for done in retain(opened.manager, options, RetainOptions()):
            if done.failure is not None:
                report(done.failure)
            yield from _of_report(done)
    directories: dict[PartitionPath, int] = {}
    for one in used_files(disk, log_dirs):
        if one.place is not None and one.place.name.kind in _WHY:
            directories[one.place] = directories.get(one.place, 0) + one.info.size
        elif one.kind == FOREIGN:
            yield Reclaim(one.path, one.info.size, "not one of Kafka's files", When.NEVER, f"rm {argument(one.path)}")
    for place, size in directories.items():
        yield Reclaim(place.path, size, *_WHY[place.name.kind], f"rm -r {argument(place.path)}")


_WHY = {
    PartitionKind.DELETE: ("its topic or replica was deleted", When.DELAY),
    PartitionKind.STRAY: ("the partition was not assigned to the broker, which keeps the directory", When.NEVER),
}


def _of_report(done: Report) -> Iterator[Reclaim]:
    """What retention, and the opening of the log, remove."""
    removed = [event for event in done.events if event.action is Action.REMOVED]
    do = f"kafkalog retain {argument(done.directory)}"
    expired = [event for event in removed if event.path.endswith(_LOG)]
    if expired:
        why = f"retention allows to delete {count_of(len(expired), 'segment')}; of the last one {expired[-1].reason}"
        yield Reclaim(done.directory, sum(event.size or 0 for event in expired), why, When.CHECK, do)
    waiting = [event for event in removed if event.path.endswith(DELETED)]
    if waiting:
        why = f"{count_of(len(waiting), 'file')} of deleted segments"
        yield Reclaim(done.directory, sum(event.size or 0 for event in waiting), why, When.START, do)
