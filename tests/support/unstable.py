"""Which transactions hang in the files of a log: a model in a few lines, of headers alone."""

from __future__ import annotations

from engine.files import ReadOnlyFiles
from engine.formats import LONG_MAX
from engine.record.batch import read_batches


def first_unstable_offset(directory):
    """The first offset of the oldest transaction that no marker ends."""
    begun = {}
    for path in sorted(directory.glob("*.log")):
        with ReadOnlyFiles().open(str(path)) as file:
            for batch in read_batches(file, lambda _finding: None):
                if batch.is_control:
                    begun.pop(batch.producer_id, None)
                elif batch.is_transactional:
                    begun.setdefault(batch.producer_id, batch.base_offset)
    return min(begun.values(), default=LONG_MAX)
