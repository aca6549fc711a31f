"""Whether older segments of a log are in remote storage (KIP-405). Mirrors UnifiedLog.isRemoteLogEnabled.

The log start offset of a tiered log is what log-start-offset-checkpoint says, below the first local segment as a rule.
Opening it by the rule of other logs would move the start up to that segment; the next leader then deletes the remote ones.
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

    Policy = Callable[[], "TopicPolicy"]  # asked only where something depends on it: settings may have to be read

REMOTE_LOG_METADATA_TOPIC = "__remote_log_metadata"
_NEVER_TIERED = INTERNAL_TOPICS | {METADATA_TOPIC, REMOTE_LOG_METADATA_TOPIC}


class Tiering(Enum):
    """What the settings of a topic say about remote storage. UNKNOWN: they are not available."""

    TIERED = "tiered"
    UNTIERED = "untiered"
    UNKNOWN = "unknown"


class TopicPolicy(NamedTuple):
    """What becomes of old records of a topic, as far as somebody says it; None: nobody does.

    compacted  the cleaner may take records out of the log      tiering  older segments may be in remote storage
    """

    compacted: bool | None = None
    tiering: Tiering = Tiering.UNKNOWN


def nothing_known() -> TopicPolicy:
    """The policy of a topic of which nobody says anything."""
    return TopicPolicy()


def is_never_tiered(topic: str) -> bool:
    """Is it one of Kafka's own topics, which have no remote storage whatever their settings say?"""
    return topic in _NEVER_TIERED


def tiering_of(topic: str, config: LogConfig, *, is_known: bool) -> Tiering:
    """What the settings of `topic` say. `is_known`: `config` is the topic's own and not only the defaults."""
    if is_never_tiered(topic) or config.compact:
        return Tiering.UNTIERED
    if config.remote_storage_enable:
        return Tiering.TIERED
    return Tiering.UNTIERED if is_known else Tiering.UNKNOWN


class Starts(NamedTuple):
    """Where a log begins, as three places say it.

    line           in log-start-offset-checkpoint; None: it has no line for the log
    first_segment  base offset of the first local segment
    first_epoch    start offset of the first entry in leader-epoch-checkpoint; None: it has no entry
    """

    line: int | None
    first_segment: int
    first_epoch: int | None

    @property
    def differ(self) -> bool:
        """Is the first segment not the first one that there was? Else all of the log is in local segments, tiered or not."""
        return any(start is not None and start < self.first_segment for start in (self.line, self.first_epoch))

    def are_of_tiered(self, tiering: Tiering) -> bool:
        """Are older records of the log in remote storage?

        Where the settings are not available the files decide: when a broker deletes segments of a log that is not tiered, it
        moves the log start offset, and with it the first epoch, up to the first segment. Both are below it in a tiered log.
        Lost epochs say nothing: then the line alone decides, as moving it up would be final.
        """
        if tiering is not Tiering.UNKNOWN:
            return tiering is Tiering.TIERED
        return self.line is not None and max(self.line, self.first_epoch or 0) < self.first_segment


def read_starts(files: ReadOnlyFiles, directory: str) -> Starts:
    """The starts of the partition in `directory`; without a segment its first one is 0. Raises UnreadableFile."""
    partition = partition_of(files.absolute(f"{directory}/x"))
    checkpoint = f"{parent_of(files.absolute(directory))}/{FileKind.LOG_START_CHECKPOINT.value}"
    line = None
    if partition is not None and files.exists(checkpoint):
        line = known_offsets(files, checkpoint)[0].get((partition.topic, partition.partition))
    path = f"{directory}/{FileKind.LEADER_EPOCH_CHECKPOINT.value}"
    epochs = read_leader_epochs(files, path).entries if files.exists(path) else []
    segments = [int(name[:20]) for name in files.plain(directory) if is_log_file_name(name)]
    return Starts(line, min(segments, default=0), epochs[0].start_offset if epochs else None)
