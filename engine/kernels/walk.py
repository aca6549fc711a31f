"""The state, statuses and producer fields of a walk over a segment, which `placement` and `recovery` share with callers.

Kernels import them from walk.pxd, which setup.py writes with literals. The names:

S_…   fields of the state, Placing and Walk           P_…, K_…, SLOT_…   ProducerField, Kind and Slot
W_…, PLACED_…   Walked and Placed                   CHECKED …          Flag
"""

from enum import IntEnum


class Placing(IntEnum):
    """State of writing index entries between calls: one 64-bit integer each."""

    BASE_OFFSET = 0  # of the segment
    INTERVAL = 1  # index.interval.bytes
    POSITION = 2  # file position of the next batch
    SINCE_ENTRY = 3  # bytes from the last batch with an entry, or from the start, to POSITION
    MAX_TIMESTAMP = 4  # largest so far, −1 none
    MAX_TIMESTAMP_OFFSET = 5  # last offset of the first batch with it
    OFFSETS = 6  # entries in the offset index
    OFFSETS_MAX = 7  # most entries of the offset index
    LAST_OFFSET = 8  # offset of its last entry
    TIMES = 9  # entries in the time index
    TIMES_MAX = 10  # most entries of the time index, with the one that is added on close
    LAST_TIME = 11  # timestamp of its last entry, −1 none
    LAST_TIME_OFFSET = 12  # offset of its last entry
    OFFSETS_AT = 13  # bytes used in the output for the offset index
    TIMES_AT = 14  # bytes used in the output for the time index


PLACE_FIELDS = len(Placing)


class Placed(IntEnum):
    """Why writing index entries stopped."""

    END = 0  # all batches are done
    NO_ROOM = 1  # the output is used up: call again
    OVERFLOW = 2  # the batch's last offset minus the base offset does not fit in 31 bits
    OFFSETS_FULL = 3
    OFFSET_ORDER = 4  # its last offset is not above that of the last entry
    TIMES_FULL = 5
    TIME_ORDER = 6  # the largest timestamp's offset is below that of the last entry
    TIME_RANGE = 7  # the largest timestamp's offset minus the base offset does not fit in 31 bits
    BAD_START = 8  # bad arguments


class Walk(IntEnum):
    """State of a walk, after that of `Placing` in the same array: one 64-bit integer each."""

    BATCHES = PLACE_FIELDS  # number of batches walked
    RECORDS = PLACE_FIELDS + 1  # their records, by headers; one for each entry of magic below 2
    NEXT_OFFSET = PLACE_FIELDS + 2  # last offset of the last batch + 1, as Java adds
    MAP_END = PLACE_FIELDS + 3  # last offset of the last batch of magic 2 and above, + 1
    HAS_MAP_END = PLACE_FIELDS + 4  # 1: there is such a batch
    EPOCH = PLACE_FIELDS + 5  # leader epoch of the last batch of magic 2 and above; −1: none
    EPOCHS_AT = PLACE_FIELDS + 6  # rows used in the output for epochs
    REPORTED_AT = PLACE_FIELDS + 7  # rows used in the output for producers
    PRODUCERS = PLACE_FIELDS + 8  # slots used
    HOLES = PLACE_FIELDS + 9  # batches of magic 2 and above after a gap, or with fewer records than offsets
    DISORDERS = PLACE_FIELDS + 10  # batches that begin below NEXT_OFFSET (the caller sets NEXT_OFFSET before the first batch)
    DISORDER_AT = PLACE_FIELDS + 11  # position in the .log of the first of them
    DISORDER_OFFSET = PLACE_FIELDS + 12  # its base offset
    DISORDER_EXPECTED = PLACE_FIELDS + 13  # NEXT_OFFSET before it
    UNKNOWN_MAGICS = PLACE_FIELDS + 14  # batches of a magic above 2
    UNKNOWN_MAGIC_AT = PLACE_FIELDS + 15  # position in the .log of the first of them
    UNKNOWN_MAGIC_OFFSET = PLACE_FIELDS + 16  # its base offset
    UNKNOWN_MAGIC = PLACE_FIELDS + 17  # its magic


WALK_FIELDS = PLACE_FIELDS + 18


class Walked(IntEnum):
    """Why a walk stopped before a batch, which the state does not include. Below 100: see Placed."""

    END = 0  # nothing is left
    TORN = 100  # 17 bytes or fewer are left, or the batch continues after the end
    BAD_SIZE = 101  # a size field below 14
    INVALID = 102  # a batch smaller than its header, or with a wrong checksum
    UNCHECKED = 103  # its checksum is left to a library: call again with CHECKED
    MARKER = 104  # a control batch with an unusual marker: read it, and call again with MARKER_CHECKED
    NO_ROOM = 105  # an output is used up: process it, reset its counter, and call again
    SLOTS_FULL = 106  # too many producers: call `flush_producers`, then call again
    BAD_START = 107  # bad arguments
    NO_OFFSET_LEFT = 108  # its last offset is the largest one, or beyond it: no offset is left for another batch


class Flag(IntEnum):
    """What the caller has checked of the batch at `start`; only for this batch."""

    CHECKED = 1  # its checksum is right
    MARKER_CHECKED = 2  # it is a control batch whose marker the caller has read
    HEAD_ONLY = 4  # `data` has only its header; the walk ends after it


class ProducerField(IntEnum):
    """Fields of the output for producers: a row for each batch that is reported."""

    PRODUCER_ID = 0
    PRODUCER_EPOCH = 1
    BASE_SEQUENCE = 2
    BASE_OFFSET = 3
    LAST_OFFSET = 4
    MAX_TIMESTAMP = 5
    KIND = 6  # bits of Kind
    MARKER = 7  # ControlType of its marker
    COORDINATOR_EPOCH = 8
    MARKER_TIMESTAMP = 9


class Kind(IntEnum):
    """Bits of ProducerField.KIND."""

    TRANSACTIONAL = 1
    CONTROL = 2
    HAS_MARKER = 4


class Slot(IntEnum):
    """One producer and its current run of data batches: one 64-bit integer each."""

    USED = 0
    ID = 1
    EPOCH = 2
    KIND = 3  # −1: no run
    PENDING = 4  # 1: the run has a pending batch, its last one, which is not reported yet
    LAST = 5  # base sequence, base offset, last offset, max timestamp of the pending batch


PRODUCER_FIELDS = len(ProducerField)
SLOT_FIELDS = Slot.LAST + 4

for _prefix, _kind in (
    ("S_", Placing), ("S_", Walk), ("P_", ProducerField), ("K_", Kind), ("SLOT_", Slot), ("W_", Walked), ("PLACED_", Placed),
    ("", Flag),
):  # fmt: skip
    globals().update({_prefix + _one.name: int(_one) for _one in _kind})
