"""Check the log dirs of brokers, for `check` and `report`: the verdict on a start, and the partitions to a level."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

from engine.amounts import count_of
from engine.discovery.choice import EVERY_PARTITION, PartitionChoice
from engine.discovery.names import PartitionKind
from engine.errors import KafkalogError
from engine.log.starting.outcome import Verdict
from kafkalog_cli.workers import in_order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from threading import Event

    from engine.config.server import Settings
    from engine.files import ReadOnlyFiles
    from engine.findings import Finding, Severity
    from engine.log.logdir.log_dirs import LogDir
    from engine.log.logdir.startup import Cluster
    from engine.log.logdir.topics import Topics
    from engine.log.starting.brokers import Broker
    from engine.log.starting.outcome import Start
    from engine.log.verify.partition import Verification
    from engine.log.verify.proven import ProvenSegments
    from engine.record.windows import Window

    Watch = Callable[[str], Callable[[str, Window], object]]

HEADLINES = {  # words and colour
    Verdict.STARTS: ("STARTS", "green"), Verdict.DEGRADED: ("STARTS DEGRADED", "yellow"),
    Verdict.LOSES_METADATA: ("STARTS AND LOSES METADATA", "red"), Verdict.REFUSES: ("WOULD NOT START", "red"),
}  # fmt: skip
_PHRASES = (
    ("take-offline", "take {} offline", "log dir"), ("truncate", "truncate {}", "segment"),
    ("rename-stray", "rename {} to -stray", "directory"), ("create-empty", "create {} empty", "log"),
    ("promote-future", "promote {}", "future replica"), ("rebuild-index", "rebuild {}", "index"),
    ("delete", "delete {}", "file"), ("rewrite", "rewrite {}", "file"),
)  # fmt: skip
_REPLICAS = (PartitionKind.PLAIN, PartitionKind.FUTURE)  # a broker serves no others


@dataclass(slots=True)
class CheckResult:
    """What was found out about a broker, or about partitions that were named alone.

    level       to which the partitions were checked
    start       None: no verdict      verified  the partitions that were read
    unfinished  number of partitions that were not read to their end, because --max-duration was over
    """

    log_dirs: list[str]
    level: str
    start: Start | None = None
    findings: list[Finding] = field(default_factory=list)
    errors: list[KafkalogError] = field(default_factory=list)
    verified: list[Verification] = field(default_factory=list)
    unfinished: int = 0

    @property
    def counts(self) -> Counter[Severity]:
        """The number of findings of each severity."""
        return Counter(one.severity for one in self.findings)


def would(start: Start) -> str:
    """Return what a start would do, in one line."""
    recovered = sum(log.is_recovered for log in start.logs)
    counts = Counter(action.action for action in start.actions)
    parts = [f"recover {recovered} of {count_of(len(start.logs), 'log')}"]
    parts += [text.format(count_of(counts[word], noun)) for word, text, noun in _PHRASES if counts[word]]
    return f"would {', '.join(parts)}"


class Checking(NamedTuple):
    """What is checked, and how.

    level         start, quick or full, as the option of `check`
    proven        segments that need not be read; None: all are read
    max_duration  ms after which no further segment is read; None: no limit
    watch         called with each partition; returns what is called with the path of each of its .log and every window
    """

    level: str
    now: int
    jobs: int
    choice: PartitionChoice = EVERY_PARTITION
    proven: ProvenSegments | None = None
    max_duration: int | None = None
    watch: Watch | None = None


class Check:
    """Checks brokers and partitions."""

    def __init__(self, files: ReadOnlyFiles, settings: Settings, checking: Checking) -> None:
        self._files, self._settings, self._how = files, settings, checking
        self._deadline = None if checking.max_duration is None else perf_counter() + checking.max_duration / 1000

    def results(self, paths: Sequence[str]) -> Iterator[CheckResult]:
        """Check everything at `paths`; without them, the broker with server.properties. Raises UnreadableFile, UsageError."""
        from engine.log.logdir.startup import survey
        from engine.log.starting.brokers import configured_broker, named_brokers

        if not paths:
            yield self._broker(configured_broker(self._files, self._settings.server))
            return
        brokers, named = named_brokers(self._files, paths)
        yield from map(self._broker, brokers)
        if named:
            yield self._verified(CheckResult([one.path for one in named], self._how.level), survey(self._files, named), named)

    def _broker(self, broker: Broker) -> CheckResult:
        from engine.log.operations.deleted import open_findings
        from engine.log.starting.broker_start import predict_start, survey_broker

        how, cluster = self._how, survey_broker(self._files, broker)
        start = predict_start(self._files, broker, cluster, self._settings, how.now, how.jobs)
        result = CheckResult([one.path for one in broker.log_dirs], how.level, start)
        result = self._verified(result, cluster, cluster.log_dirs)
        known = {(finding.code, finding.where.file) for finding in result.findings}
        new = [] if start is None else [one for one in start.findings if (one.code, one.where.file) not in known]
        result.findings = [*open_findings(self._files, cluster), *new, *result.findings]
        return result

    def _verified(self, result: CheckResult, cluster: Cluster, log_dirs: Sequence[LogDir]) -> CheckResult:
        """Verify the chosen partitions of `log_dirs` to the level."""
        if self._how.level == "start":
            return result
        from engine.log.logdir.log_dirs import choose_partitions
        from engine.log.logdir.topics import Topics

        topics = Topics(self._files, [cluster], self._settings)
        chosen = choose_partitions(log_dirs, self._how.choice, _REPLICAS)
        directories = [partition.path for log_dir in chosen for partition in log_dir.partitions(*_REPLICAS)]
        if self._how.proven is not None:
            directories = self._how.proven.by_age(directories)
        with closing(in_order(partial(self._partition, topics), directories, self._how.jobs)) as results:
            for findings, done in results:
                result.findings.extend(findings)
                result.unfinished += done is None
                if isinstance(done, KafkalogError):
                    result.errors.append(done)
                elif done is not None:
                    result.verified.append(done)
        return result

    def _partition(
        self, topics: Topics, directory: str, stop: Event
    ) -> tuple[list[Finding], Verification | KafkalogError | None]:
        """Verify a partition. None: the time was over first."""
        from engine.log.verify.partition import verify_partition

        findings: list[Finding] = []
        how = self._how
        reads, note = (lambda _path: how.level == "full"), (lambda _path: None)
        if how.proven is not None:
            reads, note = how.proven.is_due, how.proven.note
        if self._is_over():
            return findings, None
        try:
            done = verify_partition(
                self._files, directory, findings.append, lambda: not (stop.is_set() or self._is_over()),
                partial(topics.policy, directory), reads, note, None if how.watch is None else how.watch(directory),
            )  # fmt: skip
        except KafkalogError as error:
            return findings, error
        return findings, None if self._is_over() else done

    def _is_over(self) -> bool:
        return self._deadline is not None and perf_counter() > self._deadline
