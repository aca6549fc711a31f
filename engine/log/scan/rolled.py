"""Whether nobody wrote the offsets that are missing at the end of a log: a segment may begin ahead of what comes before it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.layout import offset_index_file_name, parent_of, time_index_file_name, transaction_index_file_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.files import ReadOnlyFiles

_INDEXES = (offset_index_file_name, time_index_file_name, transaction_index_file_name)


def is_rolled_ahead(files: ReadOnlyFiles, path: str, first: int, end: int, epoch_starts: Iterable[int]) -> bool:
    """Is the .log at `path`, the last of its log, empty, and does nothing tell of batches at offsets `first` to `end` − 1?

    It begins at `end`, and the segment before it ends at `first`. Kafka opens such a log without a word and goes on at `end`.
    epoch_starts  where leader epochs begin: one that begins in between began with a batch
    """
    if not files.exists(path) or files.info(path).size:
        return False
    if any(first < start < end for start in epoch_starts):
        return False
    return not any(files.exists(f"{parent_of(path)}/{name(first)}") for name in _INDEXES)
