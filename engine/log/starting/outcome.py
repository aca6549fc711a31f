"""The outcome of a start: verdict, the broker's words, and what it would do to the files, in order."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from engine.findings import Finding
    from engine.log.logdir.start_problems import StartProblem
    from engine.log.report import Report


class Verdict(Enum):
    """How a start ends. The value is the word of the JSON output."""

    STARTS = "starts"
    DEGRADED = "starts-degraded"  # without the replicas of a log dir
    LOSES_METADATA = "loses-metadata"  # it starts, and no longer knows topics whose partitions are here
    REFUSES = "refuses"


class Step(IntEnum):
    """The steps of a start, in order (KafkaRaftServer, SharedServer, BrokerServer, LogManager.loadLogs, ReplicaManager)."""

    IDENTITY = 1  # meta.properties of every log dir; no second metadata log
    BOOTSTRAP = 2  # bootstrap.checkpoint
    METADATA = 3  # the metadata log is recovered, snapshots and log are replayed
    LOCKS = 4  # .lock of every log dir
    LOGS = 5  # checkpoints of a log dir, names of directories, logs
    RUNNING = 6  # high watermarks, the cleaner, replicas that are assigned here and have no log


class StartAction(NamedTuple):
    """One thing that a start does to the files, as the broker prints it.

    action   recover, truncate, rebuild-index, rename-stray, delete, promote-future, take-offline, create-empty, rewrite
    path     of the log, the file or the log dir
    to       the new path; None: it has none, or its name has an id that only the broker knows
    from_offset, to_offset   offsets concerned, the end exclusive; None: unknown or meaningless
    size     bytes concerned; None: unknown or meaningless
    broker_says  a part of the line in its log; None: it prints nothing about it
    """

    action: str
    path: str
    to: str | None = None
    from_offset: int | None = None
    to_offset: int | None = None
    size: int | None = None
    broker_says: str | None = None


class LoadedLog(NamedTuple):
    """A log as a start opens it. The offsets are None if it could not be opened.

    is_recovered  batches from the recovery point on are read
    """

    path: str
    log_start_offset: int | None
    log_end_offset: int | None
    segments: int
    is_recovered: bool
    report: Report


@dataclass(slots=True)
class Start:
    """What a start of one broker would do, without doing it.

    log_dirs      of the broker, in the order of its configuration
    metadata_end  log end offset of the metadata log after the start; None: there is none
    broker_says   why it does not start, or starts without a log dir; None: nothing is wrong
    decided_by    the problem that decides the verdict; None: nothing is wrong
    is_running    a process holds the locks of all log dirs: the verdict is about the next start after a crash
    problems      in the order in which a start would find them; it finds only the first one that stops it
    """

    log_dirs: tuple[str, ...]
    node_id: int | None
    cluster_id: str | None
    verdict: Verdict = Verdict.STARTS
    broker_says: str | None = None
    decided_by: StartProblem | None = None
    metadata_end: int | None = None
    is_running: bool = False
    problems: list[StartProblem] = field(default_factory=list)
    actions: list[StartAction] = field(default_factory=list)
    logs: list[LoadedLog] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
