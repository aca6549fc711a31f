"""The producers of a partition that is only read: what a broker that loads its log knows of them.

The module stands alone: listing them all (engine.overview) and answering clients (engine.serve) need it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.formats import INT_MAX, LONG_MAX
from engine.log.fetch.view import PartitionView
from engine.log.finding_limits import FindingLimiter
from engine.log.producers.state_manager import ProducerStateManager, producer_chunks
from engine.overlay import OverlayFiles

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.files import ReadOnlyFiles
    from engine.findings import Finding
    from engine.log.producers.table import ProducerTable


def producers_of(files: ReadOnlyFiles, directory: str, report: Callable[[Finding], None]) -> ProducerTable:
    """Return the producers of a partition: the newest valid snapshot and the sound batches after it. None of them expires.

    report  called with damage
    Mirrors UnifiedLog.rebuildProducerState. Raises UnreadableFile, FileChangedWhileReading.
    """
    limited = FindingLimiter(report)
    view = PartitionView(files, directory, limited)
    try:
        overlay = OverlayFiles(files, 0)  # loading removes snapshots that are not valid
        state = ProducerStateManager(overlay, directory, producer_id_expiration_ms=LONG_MAX, for_snapshots=True)
        state.truncate_and_reload(view.log_start_offset, view.log_end_offset, 0)
        for segment in view.segments.values(state.map_end_offset):
            read = segment.read(max(segment.base_offset, state.map_end_offset, view.log_start_offset), INT_MAX, segment.size)
            if read is not None:
                state.load_batches(producer_chunks(segment, read.position, read.position + read.size, limited))
            segment.release_log()
        limited.finish()
        return state.producers
    finally:
        view.close()
