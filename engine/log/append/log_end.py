"""Whether what is appended to a log would be found: no reader gets past a batch that is damaged or not complete."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.discovery.names import log_file_name
from engine.errors import argument
from engine.log.errors import LogDamaged
from engine.log.segment.batch_search import find_end

if TYPE_CHECKING:
    from engine.log.partition.unified_log import UnifiedLog


def damage_at_end(log: UnifiedLog) -> str | None:
    """What is wrong with the last batches of a log, of which a clean start reads none; None: nothing is."""
    segment = log.segments.active_segment
    if not segment.size:
        return None
    indexed = segment.offset_index.lookup(segment.offset_index.last_offset).position
    end = find_end(segment.log_file, indexed if indexed < segment.size else 0, segment.size, segment.base_offset)
    if end.sound_offset != end.next_offset:
        return f"the batch from offset {end.sound_offset} has a wrong checksum"
    if end.position < segment.size:
        return f"at byte {end.position}: what follows is not a whole batch ({segment.size - end.position} bytes)"
    return None


def refuse_damaged_end(log: UnifiedLog) -> None:
    """Raise LogDamaged if records would be appended behind damage, where a broker appends them and nobody finds them."""
    why = damage_at_end(log)
    if why is not None:
        what = (f"{log.directory}/{log_file_name(log.segments.active_segment.base_offset)}: {why}: no reader gets past this "
                "point")
        raise LogDamaged(what, do=f"kafkalog recover {argument(log.directory)}    # it keeps what it truncates in a quarantine")
