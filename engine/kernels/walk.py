"""What `recovery` says of a walk over a segment, and is told: its state, why it stopped, the producers that it saw.

The kernel takes them from walk.pxd, where they are literals, a test compares the two; interpreted by the same names here:

S_…   places in the state, of Place and Walk        R_…, K_…, SLOT_…   Row, Kind and Slot
END, TORN …, CHECKED …   Walked and Flag
"""

from enum import IntEnum

from engine.kernels.placement import PLACE_FIELDS, Place, Placed


class Walk(IntEnum):
    """State of a walk behind that of `Place`, in the same array: one 64-bit integer each."""

    BATCHES = PLACE_FIELDS  # that were walked over
    RECORDS = PLACE_FIELDS + 1  # in them, as headers count; one for each entry of magic below 2
    NEXT_OFFSET = PLACE_FIELDS + 2  # last offset of the last batch + 1, as Java adds
    MAP_END = PLACE_FIELDS + 3  # the same of the last batch of magic 2 and above
    HAS_MAP_END = PLACE_FIELDS + 4  # 1: there was one
    EPOCH = PLACE_FIELDS + 5  # largest leader epoch so far; −1: none
    EPOCHS_AT = PLACE_FIELDS + 6  # columns used in the output for epochs
    ROWS_AT = PLACE_FIELDS + 7  # columns used in the output for producers
    PRODUCERS = PLACE_FIELDS + 8  # slots used
    HOLES = PLACE_FIELDS + 9  # batches of magic 2 and above behind a gap, or with fewer records than offsets
    DISORDERS = PLACE_FIELDS + 10  # batches that begin below NEXT_OFFSET, which the caller sets before the first one
    DISORDER_AT = PLACE_FIELDS + 11  # of the first of them: its position in the .log
    DISORDER_OFFSET = PLACE_FIELDS + 12  # its base offset
    DISORDER_BEHIND = PLACE_FIELDS + 13  # the NEXT_OFFSET that it is below


WALK_FIELDS = PLACE_FIELDS + 14


class Walked(IntEnum):
    """Why a walk stopped at a batch, which is not in the state. Below 100: see Placed."""

    END = 0  # nothing is left
    TORN = 100  # 17 bytes or fewer are left, or the batch goes on behind the end
    BAD_SIZE = 101  # a size field below 14
    INVALID = 102  # a batch below its header's size, or with a wrong checksum
    UNCHECKED = 103  # its checksum is left to a library: call again with CHECKED
    MARKER = 104  # a control batch that needs a closer look: call again with LOOKED_AT
    NO_ROOM = 105  # an output is used up: take what is there, reset its counter, and call again
    SLOTS_FULL = 106  # too many producers: `flush_producers`, and call again
    BAD_START = 107  # arguments that do not fit together


class Flag(IntEnum):
    """What the caller knows of the batch at `start`; for this one only."""

    CHECKED = 1  # its checksum is right
    LOOKED_AT = 2  # it is a control batch, and its marker is none of our business
    HEAD_ONLY = 4  # the data hold its header, the body is elsewhere; the walk ends behind it


class Row(IntEnum):
    """Fields of the output for producers: one column per batch that must be looked at."""

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
    """Bits of Row.KIND."""

    TRANSACTIONAL = 1
    CONTROL = 2
    HAS_MARKER = 4


class Slot(IntEnum):
    """What is kept of one producer and its current run of data batches: one 64-bit integer each."""

    USED = 0
    ID = 1
    EPOCH = 2
    KIND = 3  # −1: no run
    HELD = 4  # 1: there is a batch behind the first of the run, and the last one is kept
    LAST = 5  # base sequence, base offset, last offset, max timestamp of that


ROW_FIELDS = len(Row)
SLOT_FIELDS = Slot.LAST + 4

OVERFLOW, PLACE_NO_ROOM = int(Placed.OVERFLOW), int(Placed.NO_ROOM)
for _prefix, _kind in (("S_", Place), ("S_", Walk), ("R_", Row), ("K_", Kind), ("SLOT_", Slot), ("", Walked), ("", Flag)):
    globals().update({_prefix + _one.name: int(_one) for _one in _kind})
