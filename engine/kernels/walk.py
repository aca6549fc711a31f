"""What `placement` and `recovery` report of a walk over a segment, and are given: its state, why it stopped, what producers
it saw.

Kernels take them from walk.pxd, where setup.py writes them as literals. The names:

S_…   places in the state, of Placing and Walk        P_…, K_…, SLOT_…   ProducerField, Kind and Slot
W_…, PLACED_…   Walked and Placed                   CHECKED …          Flag
"""

from enum import IntEnum


class Placing(IntEnum):
    """State that goes on from call to call: one 64-bit integer each."""

    BASE_OFFSET = 0  # of the segment
    INTERVAL = 1  # index.interval.bytes
    POSITION = 2  # file position of the next batch
    SINCE_ENTRY = 3  # bytes from the last batch that got an entry, or from the start, to POSITION
    MAX_TIMESTAMP = 4  # largest so far, −1 none
    MAX_TIMESTAMP_OFFSET = 5  # last offset of the first batch that has it
    OFFSETS = 6  # entries in the offset index
    OFFSETS_MAX = 7  # entries that it can hold
    LAST_OFFSET = 8  # offset of its last entry
    TIMES = 9  # entries in the time index
    TIMES_MAX = 10  # entries that it can hold, the one for closing included
    LAST_TIME = 11  # timestamp of its last entry, −1 none
    LAST_TIME_OFFSET = 12  # offset of its last entry
    OFFSETS_AT = 13  # bytes in the output for the offset index
    TIMES_AT = 14  # bytes in the output for the time index


PLACE_FIELDS = len(Placing)


class Placed(IntEnum):
    """Why placing stopped."""

    END = 0  # every batch is placed
    NO_ROOM = 1  # the output is used up: call again
    OVERFLOW = 2  # the batch's last offset does not fit behind the base offset in 31 bits
    OFFSETS_FULL = 3
    OFFSET_ORDER = 4  # its last offset is not above that of the last entry
    TIMES_FULL = 5
    TIME_ORDER = 6  # the largest timestamp's offset is below that of the last entry
    TIME_RANGE = 7  # the largest timestamp's offset does not fit behind the base offset in 31 bits
    BAD_START = 8  # arguments that do not fit together


class Walk(IntEnum):
    """State of a walk behind that of `Placing`, in the same array: one 64-bit integer each."""

    BATCHES = PLACE_FIELDS  # that were walked over
    RECORDS = PLACE_FIELDS + 1  # in them, as headers count; one for each entry of magic below 2
    NEXT_OFFSET = PLACE_FIELDS + 2  # last offset of the last batch + 1, as Java adds
    MAP_END = PLACE_FIELDS + 3  # the same of the last batch of magic 2 and above
    HAS_MAP_END = PLACE_FIELDS + 4  # 1: there was one
    EPOCH = PLACE_FIELDS + 5  # leader epoch of the last batch of magic 2 and above; −1: none
    EPOCHS_AT = PLACE_FIELDS + 6  # rows used in the output for epochs
    REPORTED_AT = PLACE_FIELDS + 7  # rows used in the output for producers
    PRODUCERS = PLACE_FIELDS + 8  # slots used
    HOLES = PLACE_FIELDS + 9  # batches of magic 2 and above behind a gap, or with fewer records than offsets
    DISORDERS = PLACE_FIELDS + 10  # batches that begin below NEXT_OFFSET, which the caller sets before the first one
    DISORDER_AT = PLACE_FIELDS + 11  # of the first of them: its position in the .log
    DISORDER_OFFSET = PLACE_FIELDS + 12  # its base offset
    DISORDER_BEHIND = PLACE_FIELDS + 13  # the NEXT_OFFSET that it is below
    STRANGERS = PLACE_FIELDS + 14  # batches of a magic above 2
    STRANGER_AT = PLACE_FIELDS + 15  # of the first of them: its position in the .log
    STRANGER_OFFSET = PLACE_FIELDS + 16  # its base offset
    STRANGER_MAGIC = PLACE_FIELDS + 17


WALK_FIELDS = PLACE_FIELDS + 18


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
    NO_OFFSET_LEFT = 108  # its last offset is the largest that there is, or above it: none is left for a batch behind it


class Flag(IntEnum):
    """What the caller knows of the batch at `start`; for this one only."""

    CHECKED = 1  # its checksum is right
    LOOKED_AT = 2  # it is a control batch, and its marker is none of our business
    HEAD_ONLY = 4  # the data hold its header, the body is elsewhere; the walk ends behind it


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
    """What is kept of one producer and its current run of data batches: one 64-bit integer each."""

    USED = 0
    ID = 1
    EPOCH = 2
    KIND = 3  # −1: no run
    HELD = 4  # 1: there is a batch behind the first of the run, and the last one is kept
    LAST = 5  # base sequence, base offset, last offset, max timestamp of that


PRODUCER_FIELDS = len(ProducerField)
SLOT_FIELDS = Slot.LAST + 4

for _prefix, _kind in (
    ("S_", Placing), ("S_", Walk), ("P_", ProducerField), ("K_", Kind), ("SLOT_", Slot), ("W_", Walked), ("PLACED_", Placed),
    ("", Flag),
):  # fmt: skip
    globals().update({_prefix + _one.name: int(_one) for _one in _kind})
