"""What a removed or truncated segment, or part of one, contains: according to its batches, not its name.

Every report of removed bytes uses these numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from engine.amounts import count_of, offsets_text
from engine.findings import Severity
from engine.formats import BATCH_HEADER, CODEC_MASK, LONG_MAX, MAGIC_V2, BatchField, can_be_followed
from engine.record.soundness import searched_up_to
from engine.record.windows import LogWalk, Stop, only_zeros

if TYPE_CHECKING:
    from engine.files import OpenFile
    from engine.log.report import Action, Report


class Extent(NamedTuple):
    """Offsets [first_offset, end_offset) of `size` bytes. None: not known.

    records   of sound batches, from their headers; 0 if there are only zeros, or no bytes
    text      more facts, to be appended to the reason of an event
    is_zeros  are all bytes zeros?
    sound     [first, end) of sound batches; None: there is none
    """

    first_offset: int | None
    end_offset: int | None
    size: int
    records: int | None = None
    text: str = ""
    is_zeros: bool = False
    sound: tuple[int, int] | None = None

    def contradicts(self, base: int, end: int) -> bool:
        """Does a sound batch have offsets outside of [base, end)? A compressed set of format 0 or 1 may begin anywhere."""
        if self.sound is None:
            return False
        first, after = self.sound
        return (first < base and self.records is not None) or after <= base or after > end

    def note(
        self, report: Report, action: Action, name: str, reason: str, *, severity: Severity = Severity.INFO,
        is_torn: bool = False,
    ) -> None:
        """Report that the file `name` loses these bytes."""
        report.add(action, name, reason + self.text, offsets=(self.first_offset, self.end_offset), records=self.records,
                   size=self.size, severity=severity, is_torn=is_torn)


def read_extent(file: OpenFile, position: int, end: int, expected: int | None) -> Extent:
    """Read bytes [position, end) of a segment. expected: the offset from which a batch must follow there; None: not known.

    Records of a damaged batch are counted from its header if that is plausible and continues the offsets of a neighbour.
    Raises UnreadableFile, FileChangedWhileReading.
    """
    walk, found, goes_on = LogWalk(file, position, end), _Found(expected), True
    while goes_on:
        for window in walk:
            table = window.batches.table
            for row in range(window.rows):
                magic, base, last, count = (table[field, row] for field in _FIELDS)
                if table[BatchField.VALID, row]:
                    is_set = magic < MAGIC_V2 and table[BatchField.ATTRIBUTES, row] & CODEC_MASK
                    found.add_sound(base, last, None if is_set else 1 if magic < MAGIC_V2 else count)
                else:
                    found.add_damaged(magic, base, last, count)
        if walk.stop is not Stop.END:
            found.add_damaged(*_header_at(file, walk.position, end))
        goes_on = walk.resynchronise() is not None
    found.trust_headers(None)
    is_zeros = found.is_empty and only_zeros(file, position, end)
    return found.extent(end - position, walk.gave_up, is_zeros=is_zeros)


_FIELDS = (BatchField.MAGIC, BatchField.BASE_OFFSET, BatchField.LAST_OFFSET, BatchField.COUNT)


def _header_at(file: OpenFile, position: int, end: int) -> tuple[int, int, int, int]:
    """Magic, base offset, last offset and record count of the incomplete batch of format 2 that begins at `position`."""
    data = file.read(position, min(BATCH_HEADER.size, end - position))
    if len(data) < BATCH_HEADER.size:
        return -1, -1, -1, -1
    header = BATCH_HEADER.read(data)
    return header.magic, header.base_offset, header.base_offset + header.last_offset_delta, header.record_count


class _Headers(NamedTuple):
    """Consecutive damaged batches, with the offsets [first, end) in their headers."""

    batches: int
    first: int
    end: int


class _Found:
    """Sums up batches in file order; `expected`: the offset of the first one, if it is known."""

    def __init__(self, expected: int | None) -> None:
        self._begin = LONG_MAX if expected is None else expected
        self._expected = expected
        self._is_by_name = True  # does `expected` come only from the name of the file?
        self._damaged: _Headers | None = None  # the last damaged batches, which are not counted yet
        self._begins_sound: bool | None = None  # None: no batch yet
        self._batches = 0
        self._records: int | None = 0  # None: the header of a compressed set of format 0 or 1 has no record count
        self._first, self._end = LONG_MAX, -1  # of sound batches
        self._headers = self._by_header = 0
        self._header_end = -1

    @property
    def is_empty(self) -> bool:
        """Is no batch sound?"""
        return not self._batches

    def add_sound(self, base: int, last: int, records: int | None) -> None:
        """Add a sound batch. `records`: None if its header has no record count."""
        self._begins_sound = True if self._begins_sound is None else self._begins_sound
        self._batches += 1
        self._records = None if records is None or self._records is None else self._records + max(0, records)
        if not can_be_followed(base, last):
            return
        self.trust_headers(base)
        if base >= 0:
            self._first, self._end = min(self._first, base), max(self._end, last + 1)
        self._expected, self._is_by_name = last + 1, False

    def add_damaged(self, magic: int, base: int, last: int, count: int) -> None:
        """Add a damaged batch, with the values in its header.

        After cleaning, a batch has fewer records than offsets: then the header proves nothing.
        """
        self._begins_sound = bool(self._begins_sound)
        if magic != MAGIC_V2 or base < 0 or count <= 0 or last - base + 1 != count:
            return
        before = self._damaged
        if before is not None and before.end == base:
            self._damaged = before._replace(batches=before.batches + 1, end=last + 1)
        elif before is None or before.first != self._expected:
            self._damaged = _Headers(1, base, last + 1)

    def trust_headers(self, following: int | None) -> None:
        """Count the damaged batches before offset `following` if they continue the offsets before or after them."""
        damaged, self._damaged = self._damaged, None
        if damaged is None or not (self._is_by_name or damaged.first >= (self._expected or 0)):
            return
        if (following is None or damaged.end <= following) and (damaged.first == self._expected or damaged.end == following):
            self._headers += damaged.batches
            self._by_header += damaged.end - damaged.first
            self._begin, self._header_end = min(self._begin, damaged.first), max(self._header_end, damaged.end)

    def extent(self, size: int, gave_up: int | None, *, is_zeros: bool) -> Extent:
        """The extent of all batches that were added."""
        begin, end = min(self._begin, self._first), max(self._end, self._header_end)
        records = self._records if self._batches or is_zeros else None
        text = "; only zeros are truncated" if is_zeros and size else self._text(begin, end) + searched_up_to(gave_up)
        sound = (self._first, self._end) if self._end >= 0 else None
        return Extent(None if begin == LONG_MAX else begin, end if end >= 0 else None, size, records, text, is_zeros, sound)

    def _text(self, begin: int, end: int) -> str:
        text = ""
        if self._by_header:
            text += f"; {count_of(self._by_header, 'record')} by the batch {'header' if self._headers == 1 else 'headers'}"
        if self._end < 0:
            return text
        offsets = offsets_text(self._first, self._end)
        if not self._begins_sound:
            return f"{text}; lost with it: {count_of(self._batches, 'sound batch')} ({offsets})"
        is_complete = (begin, end) == (self._first, self._end) or self._records is None  # a set has only its last offset
        return text if is_complete else f"{text}; its sound batches hold {offsets}"
