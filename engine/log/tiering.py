"""Whether older segments of a log are in remote storage (KIP-405). Mirrors UnifiedLog.isRemoteLogEnabled.

log-start-offset-checkpoint has the log start offset of a tiered log, which is usually below the first local segment. If such a
log were opened like any other, its start would move up to that segment, and the next leader would delete the remote segments.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from engine.checkpoint.checkpoints import known_offsets, read_leader_epochs
from engine.discovery.names import INTERNAL_TOPICS, METADATA_TOPIC, FileKind, is_log_file_name, parent_of, partition_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.config.topic import LogConfig
    from engine.files import ReadOnlyFiles

    Policy = Callable[[], "TopicPolicy"]  # called only if a decision depends on it: it may have to read the settings

REMOTE_LOG_METADATA_TOPIC = "__remote_log_metadata"
_NEVER_TIERED = INTERNAL_TOPICS | {METADATA_TOPIC, REMOTE_LOG_METADATA_TOPIC}


class Tiering(Enum):
    """What the settings of a topic say about remote storage. UNKNOWN: they are not available."""

    TIERED = "tiered"
    UNTIERED = "untiered"
    UNKNOWN = "unknown"


class TopicPolicy(NamedTuple):
    """What the settings of a topic say about its old records.

    compacted  the cleaner may remove records from the log; None: not known
    tiering    older segments may be in remote storage
    """

    compacted: bool | None = None
    tiering: Tiering = Tiering.UNKNOWN


def nothing_known() -> TopicPolicy:
    """The policy of a topic whose settings are not available."""
    return TopicPolicy()


def is_never_tiered(topic: str) -> bool:
    """Is it one of Kafka's internal topics, which never have remote storage?"""
    return topic in _NEVER_TIERED


def tiering_of(topic: str, config: LogConfig, *, is_known: bool) -> Tiering:
    """Return whether `topic` is tiered. `is_known`: `config` has the topic's own settings, not only the defaults."""
    if is_never_tiered(topic) or config.compact:
        return Tiering.UNTIERED
    if config.remote_storage_enable:
        return Tiering.TIERED
    return Tiering.UNTIERED if is_known else Tiering.UNKNOWN


class Starts(NamedTuple):
    """The start of a log according to three files.

    line           in log-start-offset-checkpoint; None: it has no line for the log
    first_segment  base offset of the first local segment
    first_epoch    start offset of the first entry in leader-epoch-checkpoint; None: it has no entry
    """

    line: int | None
    first_segment: int
    first_epoch: int | None

    @property
    def differ(self) -> bool:
        """Was there a segment before the first one? If not, the whole log is in local segments, tiered or not."""
        return any(start is not None and start < self.first_segment for start in (self.line, self.first_epoch))

    def are_of_tiered(self, tiering: Tiering) -> bool:
        """Are older records of the log in remote storage?

        If the settings are not available, the files decide. When a broker deletes segments of a log that is not tiered,
        it moves the log start offset, and with it the first epoch, up to the first segment. In a tiered log both are below it.
        If the epochs are lost, the line in the checkpoint decides alone: a start that was moved up cannot be moved back.
        """
        if tiering is not Tiering.UNKNOWN:
            return tiering is Tiering.TIERED
        return self.line is not None and max(self.line, self.first_epoch or 0) < self.first_segment


def read_starts(files: ReadOnlyFiles, directory: str) -> Starts:
    """Read the starts of the partition in `directory`; without a segment, `first_segment` is 0. Raises UnreadableFile."""
    partition = partition_of(files.absolute(f"{directory}/x"))
    checkpoint = f"{parent_of(files.absolute(directory))}/{FileKind.LOG_START_CHECKPOINT.value}"
    line = None
    if partition is not None and files.exists(checkpoint):
        line = known_offsets(files, checkpoint)[0].get((partition.topic, partition.partition))
    path = f"{directory}/{FileKind.LEADER_EPOCH_CHECKPOINT.value}"
    epochs = read_leader_epochs(files, path).entries if files.exists(path) else []
    segments = [int(name[:20]) for name in files.plain(directory) if is_log_file_name(name)]
    return Starts(line, min(segments, default=0), epochs[0].start_offset if epochs else None)
