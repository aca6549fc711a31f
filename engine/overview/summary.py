"""Everything about log dirs that a report shows, beside the verdicts and findings of a check."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from engine.checkpoint.checkpoints import read_leader_epochs
from engine.discovery.names import FileKind, PartitionKind
from engine.errors import UnreadableFile
from engine.log.report import lost_offsets
from engine.overview.partition_state import StateReader
from engine.overview.timeline import Amount, ProducerAmount, Timeline, TopicAmounts
from engine.overview.usage import Usage, used_files

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from engine.checkpoint.checkpoints import EpochEntry
    from engine.errors import KafkalogError
    from engine.files import ReadOnlyFiles
    from engine.log.starting.outcome import LoadedLog
    from engine.log.verify.partition import Verification
    from engine.overview.brokers import Broker
    from engine.overview.partition_state import PartitionState
    from engine.overview.timeline import Span
    from engine.record.windows import Window

_MOST_INTERVALS, _ALL_INTERVALS, _LEAST_INTERVALS = 240, 60_000, 40  # of the rates of a topic; of all topics together
_ALL_SEGMENTS, _LEAST_SEGMENTS = 100_000, 20


@dataclass(slots=True)
class Replica:
    """A partition's directory.

    node          of its broker; None: not known      policy  cleanup.policy; None: not known
    retention_ms  of its topic; None: without limit, or the topic is only compacted
    knows_retention  False: the settings of the topic are not on the disk, and `retention_ms` is None
    epochs        of leader-epoch-checkpoint
    timeline      None: its log was not read
    missing       offsets [first, end) that no batch has, and that compaction does not explain
    """

    state: PartitionState
    cluster: str | None
    node: int | None
    policy: str | None
    retention_ms: int | None
    knows_retention: bool
    epochs: list[EpochEntry]
    timeline: Timeline | None = None
    missing: list[tuple[int, int]] = field(default_factory=list)

    @property
    def name(self) -> str:
        """TOPIC-PARTITION."""
        return f"{self.state.partition.name.topic}-{self.state.partition.name.partition}"


@dataclass(slots=True)
class TopicSummary:
    """A topic in all log dirs. `usage` counts every replica, `amounts` only the longest one of each partition."""

    name: str
    amounts: TopicAmounts
    partitions: int = 0
    usage: Usage = field(default_factory=Usage)


class Producer(NamedTuple):
    """What a producer id wrote to the topic of which it wrote most, and to how many topics it wrote."""

    producer_id: int
    epoch: int
    amount: Amount
    topics: list[str]


class Summary:
    """What the log dirs of `brokers` contain. Use `watch` for the check of partitions, then `add` its results.

    span    batches that count in rates and sums
    failed  called with errors: such a directory is left out
    """

    def __init__(
        self, files: ReadOnlyFiles, brokers: Iterable[Broker], span: Span, failed: Callable[[KafkalogError], None]
    ) -> None:
        self._files, self._span = files, span
        self.brokers = list(brokers)
        self.replicas: list[Replica] = []
        reader = StateReader(files)
        for broker in self.brokers:
            for one in broker.log_dirs:
                for state in broker.partitions(one.log_dir, reader):
                    self.replicas.append(self._replica(broker, state))
                    if state.error is not None:
                        failed(state.error)
        self._by_path = {one.state.partition.path: one for one in self.replicas}
        self._longest = self._choose_longest()
        self._sum_up(failed)

    def _replica(self, broker: Broker, state: PartitionState) -> Replica:
        topic, path = state.partition.name.topic, f"{state.partition.path}/{FileKind.LEADER_EPOCH_CHECKPOINT.value}"
        epochs: list[EpochEntry] = []
        if state.leader_epoch is not None:
            with suppress(UnreadableFile):  # the check reports it
                epochs = read_leader_epochs(self._files, path).entries
        return Replica(
            state, broker.cluster_id, broker.node_id, broker.cleanup_policy(topic), broker.retention_ms(topic),
            broker.knows_retention(topic), epochs,
        )  # fmt: skip

    def _choose_longest(self) -> set[str]:
        """The paths of the replicas that count: of each partition of a cluster the one with the largest log end."""
        best: dict[tuple[str | None, str, int], PartitionState] = {}
        for one in self.replicas:
            state = one.state
            if state.partition.name.kind is PartitionKind.PLAIN:
                key = (one.cluster, *state.partition.key)
                known = best.get(key)
                if known is None or (state.end or 0) > (known.end or 0):
                    best[key] = state
        return {state.partition.path for state in best.values()}

    def _sum_up(self, failed: Callable[[KafkalogError], None]) -> None:
        names = dict.fromkeys(one.state.partition.name.topic for one in self.replicas)
        most = max(_LEAST_INTERVALS, min(_MOST_INTERVALS, _ALL_INTERVALS // max(1, len(names))))
        self.topics = {name: TopicSummary(name, TopicAmounts(self._span, most)) for name in names}
        self._segments = max(_LEAST_SEGMENTS, _ALL_SEGMENTS // max(1, len(self.replicas)))
        for path in self._longest:
            self.topics[self._by_path[path].state.partition.name.topic].partitions += 1
        self.total, self.log_dir_files, self.kinds = Usage(), Usage(), dict[str, Usage]()
        log_dirs = [one.log_dir for broker in self.brokers for one in broker.log_dirs]
        for used in used_files(self._files, log_dirs, failed):
            self.total.add_file(used)
            self.kinds.setdefault(used.group, Usage()).add_file(used)
            topic = None if used.partition is None else self.topics.get(used.partition.name.topic)
            (self.log_dir_files if topic is None else topic.usage).add_file(used)

    def watch(self, directory: str) -> Callable[[str, Window], object]:
        """Return what is called with the path of each .log of the partition in `directory`, and every window of it."""
        replica = self._by_path.get(directory)
        topic = TopicAmounts(self._span, 1)
        if directory in self._longest and replica is not None:
            topic = self.topics[replica.state.partition.name.topic].amounts
        timeline = Timeline(topic, self._segments)
        if replica is not None:
            replica.timeline = timeline
        return timeline.watch

    def add(self, verified: Iterable[Verification]) -> None:
        """Add the results of the check of partitions."""
        for done in verified:
            replica = self._by_path.get(done.path)
            if replica is not None:
                replica.missing = done.losses
                if replica.timeline is not None:
                    replica.timeline.finish()

    def is_counted(self, replica: Replica) -> bool:
        """Return whether the replica is the longest one of its partition."""
        return replica.state.partition.path in self._longest

    @property
    def amount(self) -> Amount:
        """The sum over all topics."""
        total = Amount()
        for topic in self.topics.values():
            total.add_amount(topic.amounts.total)
        return total

    def producers(self) -> list[Producer]:
        """Return the producers, those of most bytes first."""
        found: dict[int, tuple[ProducerAmount, list[str]]] = {}
        for topic in self.topics.values():
            for number, one in topic.amounts.producers.items():
                sum_, topics = found.setdefault(number, (ProducerAmount(one.epoch), []))
                sum_.epoch = max(sum_.epoch, one.epoch)
                sum_.amount.add_amount(one.amount)
                topics.append(topic.name)
        listed = [Producer(number, one.epoch, one.amount, topics) for number, (one, topics) in found.items()]
        return sorted(listed, key=lambda one: (-one.amount.size, one.producer_id))


class State(Enum):
    """What is known of a part of a log, the better first."""

    READ = "read"  # every byte was read, and its checksums are right
    HEADERS = "headers"  # only the headers of batches were read
    MISSING = "missing"  # no batch has these offsets, and compaction does not explain it
    DAMAGED = "damaged"  # unreadable, or removed by a start of the broker


class PartOfLog(NamedTuple):
    """Offsets [first, end) of a log."""

    first: int
    end: int
    state: State


def map_of_log(replica: Replica, loaded: LoadedLog | None, broken: Collection[int]) -> list[PartOfLog]:
    """Return the parts of a log, in the order of their offsets; empty: nothing is damaged or missing.

    loaded  the log as a start opens it; None: not known
    broken  base offsets of the .log files with an error
    """
    spans = [] if replica.timeline is None else replica.timeline.segments
    ranges = [(first, end, State.MISSING) for first, end in replica.missing]
    if loaded is not None:
        ranges += [(first, end, State.DAMAGED) for first, end in lost_offsets(loaded.report)]
    known = [one for pair in ((replica.state.start, replica.state.end), *(one[:2] for one in ranges)) for one in pair]
    bounds = [one for one in (*known, *(one.base for one in spans), *(one.end for one in spans)) if one is not None]
    if not bounds:
        return []
    start, end = min(bounds), max(bounds)
    for base in sorted(broken):
        good = next((one.end for one in spans if one.base == base), base)
        following = next((one.base for one in spans if one.base > base), end)
        if good < following:
            ranges.append((good, following, State.DAMAGED))
    if not ranges:
        return []
    if loaded is not None and loaded.is_recovered and loaded.report.failure is None:
        ranges.append((max(start, loaded.report.unread_below or start), end, State.READ))
    return _painted(start, end, ranges)


def _painted(start: int, end: int, ranges: list[tuple[int, int, State]]) -> list[PartOfLog]:
    """Return the parts from `start` to `end`: in each the worst of the ranges that cover it, else only headers were read."""
    order = list(State)
    cuts = sorted({start, end, *(at for first, last, _ in ranges for at in (first, last) if start < at < end)})
    parts: list[PartOfLog] = []
    for first, last in pairwise(cuts):
        covering = [state for begin, stop, state in ranges if begin <= first and last <= stop]
        state = max(covering, key=order.index, default=State.HEADERS)
        if parts and parts[-1].state is state:
            parts[-1] = parts[-1]._replace(end=last)
        else:
            parts.append(PartOfLog(first, last, state))
    return parts
