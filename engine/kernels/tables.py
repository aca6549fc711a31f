"""What kernels and their callers agree on besides batches and records (`fields`) and walks (`walk`): the fields of small
tables and states, and the words in which one answers the other.

Kernels take it from tables.pxd, where setup.py writes it as literals. The names:

T_…, FLAW_…     Trait and Flaw, of `admission`          C_…, MAP_…   Count and MapState, of `offset_map`
TXN_…    TxnBatch, TxnState and TxnFlag, of `transactions`
ASK, DROP …     Verdict and Fate, of compaction         CHECK_…, DOUBT_…   Check, OffsetDoubt and TimeDoubt, of `verify`
TABLE_…, BOUND_…, TAKEN_…, KEPT_…   TableState, Bound, Taken and Kept, of `producers`        PARSED_…   Parsed, of `lines`
PIECE_…, SHOW_…   Piece and Shown, of `templates`        REMOTE_…   RemoteKind and RemoteRow, of `remote`
"""

from enum import IntEnum

# ---- what a leader looks at in records


class Trait(IntEnum):
    """Fields of a table of batches: what their records are. Set all to 0, LARGEST to −1, before the first call."""

    FLAWS = 0  # bits of Flaw
    LARGEST = 1  # largest timestamp of its records, −1 none
    COUNT = 2  # records seen
    CHANGED = 3  # `stamp_batches`: the checksum has to be made anew


class Flaw(IntEnum):
    """Bits of Trait.FLAWS: what is odd about records of a batch."""

    NULL_KEY = 1
    TIMESTAMP = 2  # one lies outside the bounds
    OFFSETS = 4  # they do not count from the base offset on without a gap
    BROKEN = 8  # the records could not be decoded: the caller sets it


TRAITS = len(Trait)

# ---- compaction

SLOT_WORDS = 3  # of a map from keys to offsets: digest, digest, offset


class Verdict(IntEnum):
    """Which records of a batch stay."""

    ASK = 0  # the map knows
    KEEP_ALL = 1
    KEEP_NONE = 2
    ASK_SURVIVORS = 3  # the bits of those that survive know
    SUPERSEDED = 4  # none is the last of its key: they are not read


class Count(IntEnum):
    """Fields of a table of batches: how many of their records …"""

    READ = 0  # … were looked at
    KEPT = 1  # … stay
    TOMBSTONES = 2  # … stay and have no value; 1 of a marker that nothing needs any more
    WITHOUT_KEY = 3  # … go because they have no key
    EXPIRED = 4  # … are tombstones, and go


class MapState(IntEnum):
    """What a map must know from call to call: one 64-bit integer each."""

    ENTRIES = 0  # in it
    CAPACITY = 1  # it takes no more entries
    LATEST = 2  # offset that was put, untouched if none is


class TxnBatch(IntEnum):
    """What a batch says of its producer's transaction."""

    DATA = 0
    COMMIT = 1
    ABORT = 2
    OTHER = 3  # a control batch that is no marker
    EMPTY = 4  # a control batch without a record


class TxnState(IntEnum):
    """What a walk knows of transactions, from call to call: one 64-bit integer each."""

    PRODUCERS = 0  # in the table
    NEXT = 1  # aborted transaction that lies ahead
    KEPT = 2  # numbers in the output for aborted transactions whose data were seen
    UNTOLD = 3  # 1 + offset of the last abort marker behind data that nobody had said to be aborted; 0: there was none
    FROM = 4  # data of which nobody had said so, and that end below this offset, are nobody's concern


class TxnFlag(IntEnum):
    """Bits of a producer's flags."""

    TAKEN = 1  # it is in the table
    COMMITTED = 2  # data of a transaction were seen that is not known to be aborted
    ABORTED = 4  # it is in an aborted transaction
    OBSERVED = 8  # of which a batch was seen


class Fate(IntEnum):
    """What becomes of a batch."""

    DROP = 0
    COPY = 1  # it stays as it is
    REWRITE = 2  # some of its records stay, or it gets a delete horizon
    EMPTY = 3  # its header stays


COUNTS = len(Count)
MAP_FIELDS = len(MapState)
TXN_FIELDS = len(TxnState)
TXN_WORDS = 3  # of a producer: its id, flags, the number of its aborted transaction

# ---- indexes against their log


class Check(IntEnum):
    """State of a check, which goes on from window to window: one 64-bit integer each."""

    NEXT = 0  # entry
    BEFORE = 1  # last offset of the batch before
    LARGEST = 2  # of a time index: largest timestamp up to there
    PENDING = 3  # of an offset index: row of OffsetDoubt that is still being filled, or −1
    DECIDED = 4  # of an offset index: first entry that can only be a last offset, or −1


class OffsetDoubt(IntEnum):
    """Fields of the table of an offset index's doubtful entries, and of what the log holds where they point."""

    ENTRY = 0  # its number
    IS_BATCH = 1  # does a batch begin there?
    PREVIOUS = 2  # last offset of the batch before
    FIRST = 3  # offset of the batch
    LAST = 4  # offset of the batch
    OLD_FORMAT = 5  # FIRST is not known
    BEHIND = 6  # last offset in front of the next entry's batch
    MEETS_END = 7  # is it the last offset of a batch up to there?


class TimeDoubt(IntEnum):
    """The same of a time index; the first six are those of OffsetDoubt."""

    ENTRY = 0
    IS_BATCH = 1
    PREVIOUS = 2
    FIRST = 3
    LAST = 4
    OLD_FORMAT = 5  # the batch has no timestamp
    STAMP = 6  # the batch's largest timestamp
    STAMP_BEFORE = 7  # the largest before it


CHECK_FIELDS = len(Check)
DOUBT_FIELDS = len(OffsetDoubt)

# ---- libzstd


class Zstd(IntEnum):
    """Addresses of functions of libzstd, and of the contexts of one thread: one unsigned 64-bit integer each."""

    DECOMPRESS = 0  # ZSTD_decompressDCtx
    DECOMPRESSION = 1  # ZSTD_DCtx
    COMPRESS = 2  # ZSTD_compressStream2
    RESET = 3  # ZSTD_CCtx_reset
    COMPRESSION = 4  # ZSTD_CCtx, with all that frames are to be made with


ZSTD_WORDS = len(Zstd)

# ---- producers


class TableState(IntEnum):
    """What a table of producers must know from call to call: one 64-bit integer each."""

    COUNT = 0  # entries
    CAPACITY = 1  # buckets of the HashMap that Kafka would have, a power of two


class Bound(IntEnum):
    """From where to where the columns of open transactions are valid."""

    FROM = 0
    TO = 1


class Taken(IntEnum):
    """Whether a table of producers took what it was given."""

    DONE = 0
    NO_ROOM = 1
    REFUSED = 2
    BAD_START = 3  # arguments that do not fit together


class Kept(IntEnum):
    """What is kept of a producer that is looked for again: one 64-bit integer each, the fields of the other batches follow."""

    COUNT = 0  # batches, the oldest first
    LAST_SEQ = 1  # of the first batch
    LAST_OFFSET = 2
    OFFSET_DELTA = 3
    TIMESTAMP = 4


KEPT_BATCHES = 5  # of each producer
KEPT_BATCH_FIELDS = len(Kept) - 1
KEPT_FIELDS = 1 + KEPT_BATCHES * KEPT_BATCH_FIELDS

# ---- templates


class Piece(IntEnum):
    """Fields of a table of pieces, which are written one after the other for every record."""

    KIND = 0  # of Shown
    START = 1  # where a constant begins among the constants
    SIZE = 2  # its bytes


class Shown(IntEnum):
    """What a piece writes."""

    CONSTANT = 0
    OFFSET = 1
    TIMESTAMP = 2
    KEY_SIZE = 3  # −1 of null
    VALUE_SIZE = 4
    BINARY_VALUE_SIZE = 5  # in four bytes, big-endian
    KEY = 6  # its bytes; none of null
    VALUE = 7
    HEADERS = 8  # name=value,name=NULL
    TIMESTAMP_TYPE = 9  # as Kafka names it
    LEADER_EPOCH = 10  # `null` where there is none
    JSON_KEY = 11  # what follows `"key`: `":null`, `":"text"` or `_b64":"base64"`
    JSON_VALUE = 12
    JSON_HEADERS = 13  # objects with commas between them


PIECE_FIELDS = len(Piece)
LAST_SHOWN = int(max(Shown))

# ---- remote segments


class RemoteKind(IntEnum):
    """What a value of `__remote_log_metadata` is."""

    OTHER = 0  # nothing that was decoded
    SEGMENT = 1  # a copy begins; its segment has one leader epoch, which begins with it, and no custom metadata
    UPDATE = 2  # the state of a segment changes; no custom metadata


class RemoteRow(IntEnum):
    """Where a row has what such a value says: byte positions, integers big-endian. What changes comes last."""

    KEY = 0  # topic id and partition
    ID = 20  # of the segment
    OFFSETS = 36  # the first and the last one, 8 bytes each
    MAX_TIMESTAMP = 52  # 8 bytes
    SIZE = 60  # 4 bytes
    EPOCH = 64  # 4 bytes
    TXN_INDEX_EMPTY = 68
    BROKER = 69  # 4 bytes
    EVENT = 73  # 8 bytes, its timestamp
    STATE = 81


REMOTE_ROW_SIZE = 82

# ---- lines


class Parsed(IntEnum):
    """Why reading lines stopped."""

    END = 0  # every line was read
    FULL = 1  # the columns are used up: call again
    ODD = 2  # the line at the returned position has to be looked at by other means
    BAD_START = 3  # arguments that do not fit each other: nothing was read


for _prefix, _kind in (
    ("T_", Trait), ("FLAW_", Flaw), ("", Verdict), ("C_", Count), ("MAP_", MapState), ("TXN_", TxnBatch), ("TXN_", TxnState),
    ("TXN_", TxnFlag), ("", Fate), ("CHECK_", Check), ("DOUBT_", OffsetDoubt), ("DOUBT_", TimeDoubt),
    ("TABLE_", TableState), ("BOUND_", Bound), ("TAKEN_", Taken), ("KEPT_", Kept), ("PARSED_", Parsed), ("ZSTD_", Zstd),
    ("PIECE_", Piece), ("SHOW_", Shown), ("REMOTE_", RemoteKind), ("REMOTE_", RemoteRow),
):  # fmt: skip
    globals().update({_prefix + _name: int(_one) for _name, _one in _kind.__members__.items()})
