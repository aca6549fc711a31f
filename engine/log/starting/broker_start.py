"""Predict the start of a broker: its steps in order, up to its verdict. Nothing is changed, and no broker is asked.

Mirrors KafkaRaftServer.initializeLogDirs, SharedServer.start, LogManager.startup and ReplicaManager; the messages are Kafka's.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from engine.background import side_by_side
from engine.checkpoint.checkpoints import read_leader_epochs
from engine.discovery.names import METADATA_TOPIC, FileKind, PartitionKind
from engine.files import is_locked
from engine.image.partition import RESERVED_DIRECTORIES
from engine.log.logdir.cluster_metadata import METADATA_DIR
from engine.log.logdir.log_manager import LogManager, NoLogOfBrokers
from engine.log.logdir.start_problems import Effect, StartProblem, find_start_problems, finding_of, unknown_partitions
from engine.log.logdir.startup import is_a_brokers, survey
from engine.log.starting.assignments import Assignments
from engine.log.starting.loading import actions_of, findings_of, fully_truncated, load_log, problem_of
from engine.log.starting.outcome import LoadedLog, Start, StartAction, Step, Verdict
from engine.overlay import OverlayFiles

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.config.server import Settings
    from engine.files import ReadOnlyFiles
    from engine.log.logdir.log_dirs import LogDir, PartitionPath
    from engine.log.logdir.startup import Cluster
    from engine.log.starting.brokers import Broker

_META, _BOOTSTRAP = FileKind.META_PROPERTIES.value, FileKind.BOOTSTRAP_CHECKPOINT.value
_LATER = (FileKind.REPLICATION_CHECKPOINT.value, FileKind.CLEANER_CHECKPOINT.value)
_VERDICTS = {
    Effect.STOPS: Verdict.REFUSES, Effect.LOSES_TOPICS: Verdict.LOSES_METADATA, Effect.OFFLINE: Verdict.DEGRADED,
}  # fmt: skip
_LOADED = (PartitionKind.PLAIN, PartitionKind.FUTURE, PartitionKind.DELETE, PartitionKind.STRAY)


def survey_broker(files: ReadOnlyFiles, broker: Broker) -> Cluster:
    """Read the identities and the metadata log of `broker`. Raises UnreadableFile."""
    listed = [one for one in broker.log_dirs if one.path not in broker.unlisted or not files.exists(one.path)]
    return survey(files, listed, broker.metadata_log_dir)


def predict_start(
    files: ReadOnlyFiles, broker: Broker, cluster: Cluster, settings: Settings, now: int, jobs: int = 1
) -> Start | None:
    """Predict the start of `broker`, of which `cluster` is the survey.

    None: these are not the log dirs of a broker, and no configuration says that they are.
    now   ms since 1970       jobs  logs that are loaded at the same time
    Raises UnreadableFile.
    """
    is_of_broker = broker.is_configured or is_a_brokers(files, cluster)
    return _Walk(files, broker, cluster, settings, now, jobs).run() if is_of_broker else None


class _Walk:
    def __init__(
        self, files: ReadOnlyFiles, broker: Broker, cluster: Cluster, settings: Settings, now: int, jobs: int
    ) -> None:
        self._files, self._broker, self._cluster, self._settings, self._jobs = files, broker, cluster, settings, jobs
        overlay = OverlayFiles(files, now)
        self._manager = LogManager(lambda _log_dir: overlay, cluster, settings, now)
        self._start = Start(tuple(one.path for one in broker.log_dirs), cluster.node_id, cluster.cluster_id)
        self._problems: list[StartProblem] = []
        self._log_problems: dict[str, StartProblem] = {}  # by path of the log

    def run(self) -> Start:
        """Walk the steps."""
        start = self._start
        self._problems += [*self._identity(), *self._metadata_gone(), *self._quorum_state(), *self._locks()]
        self._problems += map(self._as_configured, find_start_problems(self._files, self._cluster))
        if not start.is_running:
            self._load_metadata_log()
            self._load_logs()
        start.problems = sorted(self._problems, key=self._order)
        start.findings += [finding_of(problem) for problem in start.problems if self._is_due(problem)]
        offline = self._judge()
        self._act_on(start.problems, offline)
        self._assign(offline)
        return start

    def _is_due(self, problem: StartProblem) -> bool:
        """A corrupt producer snapshot costs nothing: a broker rebuilds the state from the log."""
        return problem.effect is not Effect.WARNS or problem.kind is not FileKind.PRODUCER_SNAPSHOT

    def _as_configured(self, problem: StartProblem) -> StartProblem:
        """The problem under server.properties: only the log cleaner reads its checkpoint, and the cleaner may be off."""
        has_cleaner = dict(self._settings.server.values).get("log.cleaner.enable", "true").strip().lower() != "false"
        if problem.kind is not FileKind.CLEANER_CHECKPOINT or has_cleaner:
            return problem
        what = f"{problem.what}; with log.cleaner.enable=false a broker does not read it"
        return problem._replace(effect=Effect.WARNS, message=None, what=what)

    # ---- steps 1 to 4

    def _identity(self) -> Iterator[StartProblem]:
        """Problems of step 1 that the files in the log dirs alone do not show."""
        first = self._broker.log_dirs[0]
        has_any = any(self._files.exists(f"{one.path}/{_META}") for one in self._cluster.log_dirs)
        if not has_any and self._cluster.is_kraft:
            message = "No readable meta.properties files found."
            do = "kafka-storage format writes new ones; copies of the old ones keep cluster.id, node.id and directory.id"
            yield StartProblem(Effect.STOPS, first.path, _META, message, "no log dir has one", None, do)
        for path, why in self._broker.unlisted.items():
            if self._files.exists(path):
                message = f"Failed to load {self._files.absolute(path)} during broker startup"
                do = "check its permissions, and the disk itself"
                yield StartProblem(self._offline(path), path, "", message, why, None, do)
        node_id, stored = self._settings.server.node_id, self._cluster.node_id
        if self._broker.is_configured and None not in (node_id, stored) and node_id != stored:
            path = next(path for path, one in self._cluster.identities.items() if one.node_id == stored)
            meta = f"{self._files.absolute(path)}/{_META}"
            message = f"Stored node id {stored} doesn't match previous node id {node_id} in {meta}"
            do = f"set node.id={stored} in server.properties, or mount the log dirs of node {node_id}"
            yield StartProblem(Effect.STOPS, path, _META, message, f"server.properties has node.id {node_id}", None, do)

    def _offline(self, log_dir: str) -> Effect:
        partition = self._cluster.metadata_partition
        metadata = self._broker.metadata_log_dir or (partition and partition.log_dir)
        return Effect.STOPS if metadata == log_dir else Effect.OFFLINE

    def _metadata_gone(self) -> Iterator[StartProblem]:
        """Step 3 of a controller of a dynamic quorum (KIP-853): the voters are in the metadata log."""
        settings = dict(self._settings.server.values)
        is_controller = "controller" in settings.get("process.roles", "")
        has_own = any(one.version for one in self._cluster.identities.values())
        if self._cluster.metadata_dir is not None or not (self._broker.is_configured and is_controller and has_own):
            return
        if settings.get("controller.quorum.voters") is None:
            message = "Shutting down because we were unable to register with the controller quorum."
            what = "the metadata log is missing, and with it the voters of the quorum"
            do = ("copy it from another controller, or put it back, before a broker starts: the failed start empties the "
                  "recovery-point checkpoints of all log dirs")
            yield StartProblem(Effect.STOPS, str(self._broker.metadata_log_dir), f"{METADATA_DIR}/", message, what, None, do)

    def _quorum_state(self) -> Iterator[StartProblem]:
        """Step 3: a missing quorum-state is made again, with epoch 0."""
        partition = self._cluster.metadata_partition
        names = [] if partition is None else self._files.plain(partition.path)
        if partition is None or FileKind.QUORUM_STATE.value in names or FileKind.LEADER_EPOCH_CHECKPOINT.value not in names:
            return
        entries = read_leader_epochs(self._files, f"{partition.path}/{FileKind.LEADER_EPOCH_CHECKPOINT.value}").entries
        if entries and entries[-1].epoch > 0:
            name = f"{METADATA_DIR}/{FileKind.QUORUM_STATE.value}"
            message = (f"Epoch from quorum store file ({self._files.absolute(partition.log_dir)}/{name}) is 0, which is "
                       f"smaller than last written epoch {entries[-1].epoch} in the log")
            yield StartProblem(Effect.WARNS, partition.log_dir, name, message, "the file is missing; a broker creates it")

    def _locks(self) -> Iterator[StartProblem]:
        """Step 4. A process that holds all locks is the broker itself."""
        there = [one for one in self._cluster.log_dirs if one.path not in self._broker.unlisted]
        locked = [one for one in there if is_locked(f"{one.path}/{FileKind.LOCK.value}")]
        self._start.is_running = bool(locked) and len(locked) == len(there)
        for one in () if self._start.is_running else locked:
            message = (f"Failed to acquire lock on file .lock in {self._files.absolute(one.path)}. A Kafka instance in another "
                       "process or thread is using this directory.")
            do = "find the process: fuser -v " + f"{one.path}/{FileKind.LOCK.value}"
            yield StartProblem(Effect.STOPS, one.path, FileKind.LOCK.value, message, "another process holds the lock", None, do)

    # ---- steps 3 and 5: logs

    def _load_metadata_log(self) -> None:
        partition, metadata = self._cluster.metadata_partition, self._cluster.metadata
        if partition is None or metadata is None:
            return
        self._start.metadata_end = metadata.end_offset
        log = self._loaded(partition, is_clean=False)
        if log is None:
            return
        self._start.actions += actions_of(log)
        emptied = None if metadata.snapshot is None else fully_truncated(log, metadata.snapshot.end_offset)
        if emptied is not None:
            self._start.actions.append(emptied)

    def _load_logs(self) -> None:
        partitions = [partition for log_dir in self._cluster.log_dirs for partition in log_dir.partitions(*_LOADED)
                  if partition.name.topic != METADATA_TOPIC]
        clean = {one.path: FileKind.CLEAN_SHUTDOWN.value in one.files for one in self._cluster.log_dirs}

        def load(partition: PartitionPath) -> LoadedLog | None:
            return self._loaded(partition, is_clean=clean[partition.log_dir])

        with closing(side_by_side(load, partitions, self._jobs)) as loaded:
            for partition, log in zip(partitions, loaded, strict=True):
                if log is None:
                    continue
                self._start.logs.append(log)
                self._start.actions += actions_of(log)
                if log.report.failure is None:
                    self._start.findings += findings_of(self._manager, partition, log)
        self._problems += self._log_problems.values()

    def _loaded(self, partition: PartitionPath, *, is_clean: bool) -> LoadedLog | None:
        """The log at `partition`; None: its small files stop a broker before, or no current broker opens such a log."""
        stops = (Effect.STOPS, Effect.OFFLINE)
        if any(problem.is_in(partition) and problem.effect in stops for problem in self._problems):
            return None
        try:
            log = load_log(self._manager, partition, is_clean=is_clean)
        except NoLogOfBrokers:
            return None
        if log.report.failure is not None:
            is_metadata_dir = self._offline(partition.log_dir) is Effect.STOPS
            self._log_problems[partition.path] = problem_of(partition, log.report.failure, is_metadata_dir=is_metadata_dir)
        return log

    # ---- the verdict

    def _order(self, problem: StartProblem) -> tuple[int, bool, int]:
        """Sort key: the step, then what stops it, then the log dir."""
        dirs = self._start.log_dirs
        at = dirs.index(problem.log_dir) if problem.log_dir in dirs else len(dirs)
        return _step(problem), problem.effect is not Effect.STOPS, at

    def _judge(self) -> set[str]:
        """Set verdict and words. Returns the log dirs that are offline after the start."""
        start, by_effect = self._start, dict[Effect, StartProblem]()
        for problem in start.problems:
            by_effect.setdefault(problem.effect, problem)
        offline = list(dict.fromkeys(one.log_dir for one in start.problems if one.effect is Effect.OFFLINE))
        for effect, verdict in _VERDICTS.items():
            if start.decided_by is None and effect in by_effect:
                start.verdict, start.decided_by = verdict, by_effect[effect]
                start.broker_says = start.decided_by.message
        if start.verdict is not Verdict.REFUSES and len(offline) == len(start.log_dirs):
            start.verdict = Verdict.REFUSES
            start.broker_says = f"Shutdown broker because all log dirs in {', '.join(offline)} have failed"
        return set(offline)

    def _act_on(self, problems: list[StartProblem], offline: set[str]) -> None:
        for log_dir in offline:
            lost = [one for one in self._cluster.log_dirs if one.path == log_dir]
            says = next(one.message for one in problems if one.log_dir == log_dir and one.effect is Effect.OFFLINE)
            self._start.actions.append(StartAction("take-offline", log_dir, size=_replicas(lost), broker_says=says))
        for path in self._strays(problems):
            says = f"Log in {self._files.absolute(path)} marked stray and renamed to {self._files.absolute(path)}."
            self._start.actions.append(StartAction("rename-stray", path, broker_says=says))
        for log_dir, identity in self._cluster.identities.items():
            if identity.directory_id is None or identity.version == 0:
                path = f"{log_dir}/{_META}"
                self._start.actions.append(StartAction("rewrite", path, broker_says=f"Rewriting {self._files.absolute(path)}"))

    def _strays(self, problems: list[StartProblem]) -> list[str]:
        found = [f"{one.log_dir}/{one.name.partition('/')[0]}" for one in problems if one.effect is Effect.STRAYS]
        if any(one.effect is Effect.LOSES_TOPICS for one in problems):
            found += [partition.path for partition in unknown_partitions(self._cluster)]
        return list(dict.fromkeys(found))

    # ---- step 6

    def _assign(self, offline: set[str]) -> None:
        away = {*offline, *self._broker.unlisted}
        online = [one for one in self._cluster.log_dirs if one.path not in away]
        strays, has_all = set(self._strays(self._start.problems)), self._broker.is_configured or self._has_all()
        is_running = self._start.is_running
        assignments = Assignments(self._files, self._cluster, online, strays, has_all=has_all, is_running=is_running)
        assignments.compare()
        self._start.actions += assignments.actions
        self._start.findings += assignments.findings

    def _has_all(self) -> bool:
        """Are all log dirs named that the metadata log assigns replicas to? Reserved ids are not log dirs."""
        metadata, node_id = self._cluster.metadata, self._cluster.node_id
        if metadata is None or node_id is None:
            return False
        own = {None, *(identity.directory_id for identity in self._cluster.identities.values()), *RESERVED_DIRECTORIES}
        return all(metadata.directory_of(topic.name, partition, node_id) in own
                   for topic in metadata.topics.values() for partition in topic.replicas)


def _replicas(log_dirs: list[LogDir]) -> int:
    return sum(len(one.partitions(PartitionKind.PLAIN, PartitionKind.FUTURE)) for one in log_dirs)


def _step(problem: StartProblem) -> Step:
    name = problem.name
    if name in ("", _META, METADATA_DIR):
        return Step.IDENTITY
    if name == _BOOTSTRAP:
        return Step.BOOTSTRAP
    if name.startswith(f"{METADATA_DIR}/"):
        return Step.METADATA
    if name == FileKind.LOCK.value:
        return Step.LOCKS
    return Step.RUNNING if name in _LATER else Step.LOGS
