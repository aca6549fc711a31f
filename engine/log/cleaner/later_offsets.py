"""What the second pass asks: has a key a later offset? Two that know: the offset map, or a bit for each record."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, NamedTuple, Protocol

from engine.formats import Status
from engine.kernels.offset_map import mark_retained
from engine.kernels.survivors import judge
from engine.kernels.tables import SLOT_WORDS, Verdict

if TYPE_CHECKING:
    from engine.log.cleaner.offset_map import SkimpyOffsetMap, Survivors
    from engine.record.columns import BatchColumns
    from engine.record.reader import Chunk

_NO_SLOTS = memoryview(array("Q", bytes(8 * SLOT_WORDS)))
_ALL_ASK_BITS = bytes(Verdict.ASK_SURVIVORS if verdict == Verdict.ASK else verdict for verdict in range(256))


class Marking(NamedTuple):
    """How records are marked, apart from later offsets.

    now  ms: tombstones go whose delete horizon it has reached     retain_legacy_deletes  whether those of formats 0 and 1 stay
    """

    now: int
    retain_legacy_deletes: bool


class LaterOffsets(Protocol):
    """Knows of every record of the log, up to some offset, whether a later one of its key was read in the first pass."""

    def judge(self, batches: BatchColumns, rows: int, verdicts: memoryview) -> None:
        """Settle those of the first `rows` batches that need no look at their records: ASK becomes SUPERSEDED and the like."""

    def mark(
        self, chunk: Chunk, batches: BatchColumns, verdicts: memoryview, how: Marking, keep: memoryview, counts: memoryview
    ) -> None:
        """Decide for each record of the chunk whether it stays (see kernels.offset_map.mark_retained)."""


class OffsetsByKey:
    """The offset map, and the offsets that survive as far as they speak for records.

    alike  both passes begin with the log: what became of a transaction they see in the same way. Else the first one, which
           begins in the middle, may take data for aborted that the second one keeps, and no bit speaks for those
    """

    def __init__(self, offset_map: SkimpyOffsetMap, survivors: Survivors, *, alike: bool) -> None:
        self._map, self._survivors, self._alike = offset_map, survivors, alike

    def judge(self, batches: BatchColumns, rows: int, verdicts: memoryview) -> None:
        """See LaterOffsets."""
        _judge(batches, rows, verdicts, self._survivors, alike=self._alike)

    def mark(
        self, chunk: Chunk, batches: BatchColumns, verdicts: memoryview, how: Marking, keep: memoryview, counts: memoryview
    ) -> None:
        """See LaterOffsets."""
        self._map.mark(chunk, batches, verdicts, *how, self._survivors, keep, counts)


class SurvivingOffsets:
    """A bit for every record of some segments: no key, no map.

    survivors  its bits stand for all offsets of the segments; where records share an offset or lie outside their segment's
               offsets, bits can not speak for them
    """

    def __init__(self, survivors: Survivors) -> None:
        self._survivors = survivors

    def judge(self, batches: BatchColumns, rows: int, verdicts: memoryview) -> None:
        """See LaterOffsets."""
        _judge(batches, rows, verdicts, self._survivors, alike=True)
        verdicts[:rows] = bytes(verdicts[:rows]).translate(_ALL_ASK_BITS)

    def mark(
        self, chunk: Chunk, batches: BatchColumns, verdicts: memoryview, how: Marking, keep: memoryview, counts: memoryview
    ) -> None:
        """See LaterOffsets."""
        known = self._survivors
        status = mark_retained(
            chunk.data, batches.table, chunk.records.table, chunk.first, chunk.end, verdicts, _NO_SLOTS, 0, 0, known.latest,
            *how, known.bits, known.start, keep, counts,
        )  # fmt: skip
        if status != Status.END:
            raise AssertionError("records that no bit stands for")


def _judge(batches: BatchColumns, rows: int, verdicts: memoryview, survivors: Survivors, *, alike: bool) -> None:
    if not judge(batches.table, rows, verdicts, survivors.bits, survivors.start, survivors.latest, alike):
        raise AssertionError("batches, verdicts and survivors that do not fit each other")
