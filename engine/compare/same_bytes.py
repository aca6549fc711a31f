"""Skip the equal bytes of two replicas: a read and a comparison of memory for each piece."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from engine.compare.replica import Place
from engine.errors import became_shorter
from engine.formats import BatchField
from engine.log.errors import CorruptRecord
from engine.record.heads import HeadWalk

if TYPE_CHECKING:
    from engine.compare.replica import Replica
    from engine.log.fetch.segment_view import SegmentView

_PIECE = 128 << 10  # bytes of each replica that are read at once: both pieces fit into the cache


class Skipped(NamedTuple):
    """Where equal bytes end.

    places      of the batches in which the replicas differ, or the end of a log
    end_offset  offset after the last equal batch; None: no batch was skipped, or its offset is not known
    """

    places: tuple[Place, Place]
    end_offset: int | None


class SameBytes:
    """Skips equal bytes of two replicas. The buffers are reused."""

    def __init__(self, one: Replica, other: Replica) -> None:
        self._replicas = one, other
        self._buffers = bytearray(_PIECE), bytearray(_PIECE)

    def skip(self, one: Place, other: Place) -> Skipped:
        """Skip equal bytes from these places on, which are the starts of batches. Segments may end at different offsets.

        Raises UnreadableFile, FileChangedWhileReading.
        """
        places = [one, other]
        starts = list(places)  # of batches, in the present segments
        closed: SegmentView | None = None  # the segment that ended last
        while True:
            for side, replica in enumerate(self._replicas):
                while (at := places[side]).position >= replica.size_of(at.segment) and at.segment + 1 < len(replica.segments):
                    closed = replica.segments[at.segment]
                    closed.release_log()
                    places[side] = Place(at.segment + 1, 0)
                    starts = list(places)
            pairs = zip(self._replicas, places, strict=True)
            size = min(_PIECE, *(replica.size_of(place.segment) - place.position for replica, place in pairs))
            same = self._same(places, size) if size > 0 else 0
            places = [place._replace(position=place.position + same) for place in places]
            if size <= 0:  # one has ended, at the end of a batch
                return Skipped((places[0], places[1]), None)
            if same < size:
                return self._at_batch(places, starts, closed)

    def _same(self, places: list[Place], size: int) -> int:
        """The number of bytes, up to `size`, that are equal from these places on."""
        for replica, place, buffer in zip(self._replicas, places, self._buffers, strict=True):
            file = replica.segments[place.segment].log_file
            if file.read_into(memoryview(buffer)[:size], place.position) < size:
                raise became_shorter(file.path, place.position + size)
        one, other = self._buffers
        if one == other if size == _PIECE else one[:size] == other[:size]:
            return size
        low, high = 0, size  # the first difference is in [low, high)
        while high - low > 1:
            middle = (low + high) // 2
            if one[low:middle] == other[low:middle]:
                low = middle
            else:
                high = middle
        return low

    def _at_batch(self, places: list[Place], starts: list[Place], closed: SegmentView | None) -> Skipped:
        """Move the places back to the start of the batch in which they are; the bytes from `starts` on are equal."""
        replica, place, start = self._replicas[0], places[0], starts[0]
        begin, last = start.position, None
        with replica.files.open(replica.segments[place.segment].log_path) as file:
            for window in HeadWalk(file, start.position, replica.size_of(place.segment)):
                table, row = window.batches.table, 0
                while row < window.rows:
                    end = table[BatchField.POSITION, row] + table[BatchField.SIZE, row]
                    if end > place.position:
                        break
                    begin, last = end, table[BatchField.LAST_OFFSET, row]
                    row += 1
                if row < window.rows:
                    break
        back = place.position - begin
        one, other = (each._replace(position=each.position - back) for each in places)
        return Skipped((one, other), _end_of(closed) if last is None else last + 1)


def _end_of(segment: SegmentView | None) -> int | None:
    """The offset after the last batch of a segment; None: it is not known, because of damage."""
    try:
        return None if segment is None else segment.read_next_offset()
    except CorruptRecord:
        return None
