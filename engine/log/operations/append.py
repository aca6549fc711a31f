"""The operation `append`: input becomes batches at the end of a log, or messages of a log of Kafka 0.7."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from engine.discovery.names import parent_of
from engine.errors import KafkalogError, UsageError
from engine.formats import CODEC_NAMES, Codec, ControlType
from engine.kafka07.entries import CODEC_NAMES_07
from engine.log.append.intake import BatchIntake, FollowerIntake, LineIntake, end_transaction, with_producer
from engine.log.append.intake_07 import LineIntake07, SetIntake07
from engine.log.append.log_end import refuse_damaged_end
from engine.log.append.selected import SelectedBatches
from engine.log.append_errors import AppendRefused
from engine.log.logdir.logs_07 import ReportedLog07
from engine.log.operations.mending import set_topic_id
from engine.log.operations.operation import AnyLogOperation
from engine.log.report import Report
from engine.overlay import OverlayFiles
from engine.record.assembly import BatchSpec
from engine.record.lines import JsonLines, TextLines
from engine.record.packing import Packer
from engine.record.selection import EVERYTHING

if TYPE_CHECKING:
    from collections.abc import Collection

    from engine.files import Files
    from engine.log.append.frames import Appended
    from engine.log.append.intake import Intake
    from engine.log.logdir.log_manager import LogManager
    from engine.log.partition.unified_log import PartitionLog, UnifiedLog
    from engine.record.lines import LineReader
    from engine.record.selection import Selection


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendOptions:
    """The format of the input and how its records are written; see the options of `kafkalog append`.

    form       "json", "text" or "raw"        separator, null  of the text form
    timestamp  of records that have none, ms; None: the log's clock
    level      of compression; None: Kafka's default for the codec
    leader_epoch, producer_epoch, sequence   None: continue from the state of the log
    transaction  "commit", "abort" or "open"; None: no transaction
    magic      of messages of Kafka 0.7; None: 1
    topic_id   for partition.metadata; None: the id that is found on the disk
    selection  of the records of raw batches
    """

    form: str = "json"
    ignore_unknown: bool = False
    separator: bytes = b":"
    null: bytes = b""
    timestamp: int | None = None
    compression: str = "none"
    level: int | None = None
    batch_size: int = 16384
    leader_epoch: int | None = None
    follower: bool = False
    magic: str | None = None
    producer_id: int = -1
    producer_epoch: int | None = None
    sequence: int | None = None
    transaction: str | None = None
    coordinator_epoch: int = 0
    topic_id: str | None = None
    selection: Selection = EVERYTHING


_DEFAULTS = AppendOptions()
# options that a log of 0.7 does not support: field → option
_UNKNOWN_TO_07 = {
    "follower": "--follower", "producer_id": "--producer-id", "producer_epoch": "--producer-epoch",
    "sequence": "--sequence", "transaction": "--transaction", "leader_epoch": "--leader-epoch", "timestamp": "--timestamp",
    "level": "--compression-level", "selection": "options that select records",
}  # fmt: skip


class InputUsed(KafkalogError):
    """Input that would be needed a second time."""

    code = "input-used"


class Appender(Protocol):
    """Appends input to one log.

    unit   what the log's offsets count, in the singular: "record" or "byte"
    parts  what `skipped` counts, in the singular: "line" or "request"
    """

    unit: str
    parts: str
    intake: Intake

    @property
    def skipped(self) -> int:
        """Number of parts of the input that contained no data record."""

    def end_transaction(self, kind: str) -> Appended:
        """Write the marker that ends the transaction: "commit" or "abort". Raises AppendRefused."""


def appender_for(log: UnifiedLog | ReportedLog07, options: AppendOptions) -> Appender:
    """Return the appender for `log`. Raises UsageError for options that the log does not support, or that contradict it."""
    if isinstance(log, ReportedLog07):
        return _Appender07(log, options)
    return _Appender(log, options)


class _Appender:
    """Appends to a log of record batches or message sets."""

    unit, parts = "record", "line"
    intake: Intake

    def __init__(self, log: UnifiedLog, options: AppendOptions) -> None:
        if options.magic is not None:
            raise UsageError(f"{log.directory}: --magic needs a log of Kafka 0.7, and this is not one", path=log.directory)
        self._log, self._options = log, options
        self._json = JsonLines(ignore_unknown=options.ignore_unknown)
        spec = BatchSpec(
            codec=Codec(CODEC_NAMES.index(options.compression)), level=options.level,
            transactional=options.transaction is not None,
        )  # fmt: skip
        self._spec = with_producer(log, spec, options.producer_id, options.producer_epoch, options.sequence)
        self._epoch = self._leader_epoch()
        self.intake = self._intake()

    @property
    def skipped(self) -> int:
        return self._json.skipped

    def end_transaction(self, kind: str) -> Appended:
        return end_transaction(
            self._log, ControlType[kind.upper()], self._spec, leader_epoch=self._epoch,
            coordinator_epoch=self._options.coordinator_epoch,
        )  # fmt: skip

    def _leader_epoch(self) -> int:
        """Raises UsageError for an old epoch: it would remove the later ones from leader-epoch-checkpoint."""
        latest, wanted = self._log.leader_epoch_cache.latest_epoch, self._options.leader_epoch
        if wanted is None:
            return latest or 0
        if latest is not None and wanted < latest:
            what = f"{self._log.directory}: the log has records of leader epoch {latest}: a leader of epoch {wanted} is fenced"
            raise UsageError(what, do=f"--leader-epoch {latest} or higher, or remove it")
        return wanted

    def _intake(self) -> Intake:
        options = self._options
        if options.form == "raw":
            raw = self._raw_intake()
            if options.selection == EVERYTHING:
                return raw
            return SelectedBatches(raw, options.selection, keeps_offsets=options.follower)
        packer = Packer(self._spec, options.batch_size)
        return LineIntake(self._log, _line_reader(options, self._json), packer, self._epoch, options.timestamp)

    def _raw_intake(self) -> Intake:
        if not self._options.follower:
            return BatchIntake(self._log, self._epoch)
        return FollowerIntake(self._log) if self._options.leader_epoch is None else FollowerIntake(self._log, self._epoch)


class _Appender07:
    """Appends to a log of 0.7. Its offsets count bytes."""

    unit, parts = "byte", "line"
    intake: Intake

    def __init__(self, log: ReportedLog07, options: AppendOptions) -> None:
        given = [option for name, option in _UNKNOWN_TO_07.items() if getattr(options, name) != getattr(_DEFAULTS, name)]
        if given:
            raise UsageError(f"{log.directory}: a log of Kafka 0.7 does not support {', '.join(given)}", path=log.directory)
        codec = CODEC_NAMES.index(options.compression)
        if codec >= len(CODEC_NAMES_07):
            what = f"{log.directory}: a log of Kafka 0.7 supports none, gzip and snappy, not {options.compression}"
            raise UsageError(what, path=log.directory)
        self._json = JsonLines(ignore_unknown=options.ignore_unknown)

        def now() -> int:
            return log.now

        if options.form == "raw":
            self.intake = SetIntake07(log.log, now, options.batch_size)
        else:
            self.intake = LineIntake07(
                log.log, _line_reader(options, self._json), now, magic=1 if options.magic is None else int(options.magic),
                codec=codec, batch_size=options.batch_size,
            )  # fmt: skip

    @property
    def skipped(self) -> int:
        return self._json.skipped

    def end_transaction(self, kind: str) -> Appended:
        raise AppendRefused(f"a log of Kafka 0.7 has no transactions: no {kind} marker was written")


def _line_reader(options: AppendOptions, json: JsonLines) -> LineReader:
    is_text = options.form == "text"
    return TextLines(options.separator, options.null) if is_text else json


class Append(AnyLogOperation):
    """Appends input to logs. Subclasses read the input.

    new             paths of the partition directories that were created for this append
    accepts_losses  append even if opening the log loses records, which are kept in a quarantine
    """

    name = "append"
    for_snapshots = False
    of_partitions = True

    def __init__(self, manager: LogManager, options: AppendOptions, *, new: Collection[str], accepts_losses: bool) -> None:
        self.accepts_losses = accepts_losses
        self._manager, self._options, self._new = manager, options, new
        self._begun: set[str] = set()

    @abstractmethod
    def read_input(self, log: PartitionLog, appender: Appender) -> None:
        """Pass the input to `appender`."""

    def work(self, log: UnifiedLog | ReportedLog07) -> None:
        """Append to one open log. Raises LogDamaged if no consumer would find the appended records."""
        if isinstance(log, ReportedLog07):
            self.read_input(log, appender_for(log, self._options))
            return
        if log.directory in self._begun:  # the log was recovered in between, and the input cannot be read a second time
            what = f"{log.directory}: was recovered while records were appended; it contains the records acknowledged above"
            raise InputUsed(what, "append the records after them again")
        self._begun.add(log.directory)
        refuse_damaged_end(log)
        appender = appender_for(log, self._options)
        self._set_topic_id(self._manager.files_of(parent_of(log.directory)), log.directory, log.report)
        self.read_input(log, appender)

    def refuse(self, log: UnifiedLog | ReportedLog07) -> None:
        """Raise LogDamaged where nobody would find what is appended, UsageError for options that the log does not support."""
        appender_for(log, self._options)
        if not isinstance(log, ReportedLog07) and log.directory not in self._begun:
            refuse_damaged_end(log)
            files = OverlayFiles(self._manager.files_of(parent_of(log.directory)), self._manager.now)
            self._set_topic_id(files, log.directory, Report(log.directory, self.name))

    def _set_topic_id(self, files: Files, directory: str, report: Report) -> None:
        """Raises UsageError."""
        cluster = self._manager.cluster
        [partition] = [partition for partition in cluster.log_dirs[0].directories if partition.path == directory]
        set_topic_id(files, cluster, partition, report, self._options.topic_id, is_new=directory in self._new)
