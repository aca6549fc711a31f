"""Whether older segments of a log are in remote storage (KIP-405). Mirrors UnifiedLog.isRemoteLogEnabled.

The log start offset of a tiered log is what log-start-offset-checkpoint says, below the first local segment as a rule.
Opening it by the rule of other logs would move the start up to that segment; the next leader then deletes the remote ones.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from engine.layout import INTERNAL_TOPICS, METADATA_TOPIC

if TYPE_CHECKING:
    from engine.config import LogConfig

REMOTE_LOG_METADATA_TOPIC = "__remote_log_metadata"
_NEVER_TIERED = INTERNAL_TOPICS | {METADATA_TOPIC, REMOTE_LOG_METADATA_TOPIC}


class Tiering(Enum):
    """What the settings of a topic say about remote storage. UNKNOWN: they are not available."""

    TIERED = "tiered"
    UNTIERED = "untiered"
    UNKNOWN = "unknown"


def tiering_of(topic: str, config: LogConfig, *, is_known: bool) -> Tiering:
    """What the settings of `topic` say. `is_known`: `config` is the topic's own and not only the defaults."""
    if topic in _NEVER_TIERED or config.compact:
        return Tiering.UNTIERED
    if config.remote_storage_enable:
        return Tiering.TIERED
    return Tiering.UNTIERED if is_known else Tiering.UNKNOWN


def is_tiered(tiering: Tiering, line: int | None, first_base_offset: int, first_epoch_start: int | None) -> bool:
    """Are older records of a log in remote storage?

    line               what log-start-offset-checkpoint says of the log; None: nothing
    first_base_offset  of the first local segment
    first_epoch_start  where the first entry of leader-epoch-checkpoint begins; None: it has no entry

    Where the settings are not available the files decide: a broker moves the start, and with it the first epoch, up to the
    first segment when it deletes segments of a log that is not tiered. If both are below it, the log is tiered.
    """
    if tiering is not Tiering.UNKNOWN:
        return tiering is Tiering.TIERED
    return (line is not None and line < first_base_offset
            and first_epoch_start is not None and first_epoch_start < first_base_offset)
