"""The fields of small tables and states, and the statuses, that kernels share with their callers, except those of batches and
records (`fields`) and of walks (`walk`).

Kernels import them from tables.pxd, which setup.py writes with literals. The names:

T_…, FLAW_…     Trait and Flaw, of `admission`          C_…, MAP_…   Count and MapState, of `offset_map`
TXN_…    TxnBatch, TxnState and TxnFlag, of `transactions`
ASK, DROP …     Verdict and BatchAction, of compaction         CHECK_…, DOUBT_…   Check, OffsetDoubt and TimeDoubt, of `verify`
TABLE_…, BOUND_…, APPLIED_…, KEPT_…   TableState, Bound, Applied and Kept, of `producers`        PARSED_…   Parsed, of `lines`
PIECE_…, SHOW_…   Piece and Shown, of `templates`        NEEDLE_…   Needle, of `search`
REMOTE_…   RemoteKind and RemoteRow, of `remote`
"""

from enum import IntEnum

# ---- checks of a leader


class Trait(IntEnum):
    """Fields of a table of batches: properties of their records. Set all to 0, LARGEST to −1, before the first call."""

    FLAWS = 0  # bits of Flaw
    LARGEST = 1  # largest timestamp of its records, −1 none
    COUNT = 2  # records checked
    CHANGED = 3  # `stamp_batches`: the checksum must be computed again


class Flaw(IntEnum):
    """Bits of Trait.FLAWS: problems of the records of a batch."""

    NULL_KEY = 1
    TIMESTAMP = 2  # a timestamp outside the allowed range
    OFFSETS = 4  # offsets that are not consecutive from the base offset on
    BROKEN = 8  # the records could not be decoded: set by the caller


TRAITS = len(Trait)

# ---- compaction

SLOT_WORDS = 3  # of a map from keys to offsets: digest, digest, offset


class Verdict(IntEnum):
    """Which records of a batch are retained."""

    ASK = 0  # look up each key in the map
    KEEP_ALL = 1
    KEEP_NONE = 2
    ASK_SURVIVORS = 3  # look up each offset in the bitmap of surviving offsets
    SUPERSEDED = 4  # no record is the last one of its key: they are not read


class Count(IntEnum):
    """Fields of a table of batches: numbers of their records."""

    READ = 0  # records read
    KEPT = 1  # records retained
    TOMBSTONES = 2  # records retained without a value; 1 for a marker that may be deleted but has no delete horizon
    WITHOUT_KEY = 3  # records deleted because they have no key
    EXPIRED = 4  # tombstones deleted


class MapState(IntEnum):
    """State of a map between calls: one 64-bit integer each."""

    ENTRIES = 0  # number of entries
    CAPACITY = 1  # most entries
    LATEST = 2  # offset that was put last; unchanged if none is put


class TxnBatch(IntEnum):
    """The role of a batch in its producer's transaction."""

    DATA = 0
    COMMIT = 1
    ABORT = 2
    OTHER = 3  # a control batch that is not a marker
    EMPTY = 4  # a control batch without a record


class TxnState(IntEnum):
    """State of a walk over transactions between calls: one 64-bit integer each."""

    PRODUCERS = 0  # in the table
    NEXT = 1  # number of the next aborted transaction
    KEPT = 2  # numbers in the output of aborted transactions with data
    UNREPORTED_ABORT = 3  # 1 + offset of the last abort marker after data that the index did not list as aborted; 0: none
    FROM = 4  # data that end below this offset are ignored, unless they are known to be aborted


class TxnFlag(IntEnum):
    """Bits of a producer's flags."""

    TAKEN = 1  # it is in the table
    COMMITTED = 2  # it has data of a transaction that is not known to be aborted
    ABORTED = 4  # it is in an aborted transaction
    OBSERVED = 8  # a batch of this aborted transaction was found


class BatchAction(IntEnum):
    """How compaction writes a batch."""

    DROP = 0
    COPY = 1  # unchanged
    REWRITE = 2  # with some of its records, or with a new delete horizon
    EMPTY = 3  # only its header


COUNTS = len(Count)
MAP_FIELDS = len(MapState)
TXN_FIELDS = len(TxnState)
TXN_WORDS = 3  # words of a producer: id, flags, number of its aborted transaction

# ---- checks of indexes


class Check(IntEnum):
    """State of a check of an index between windows: one 64-bit integer each."""

    NEXT = 0  # next entry
    BEFORE = 1  # last offset of the previous batch
    LARGEST = 2  # time index: largest timestamp so far
    PENDING = 3  # offset index: row of OffsetDoubt that is still being filled, or −1
    DECIDED = 4  # offset index: first entry that can only be a last offset, or −1


class OffsetDoubt(IntEnum):
    """Fields of the table of doubtful entries of an offset index, and of the batch at each entry's position."""

    ENTRY = 0  # its number
    IS_BATCH = 1  # does a batch begin at the position?
    PREVIOUS = 2  # last offset of the previous batch
    FIRST = 3  # first offset of the batch
    LAST = 4  # last offset of the batch
    OLD_FORMAT = 5  # FIRST is not known
    LAST_BEFORE_NEXT = 6  # last offset before the batch of the next entry
    IS_LAST_OFFSET = 7  # is the entry's offset the last offset of a batch before that of the next entry?


class TimeDoubt(IntEnum):
    """Fields of the table of doubtful entries of a time index; the first six as in OffsetDoubt."""

    ENTRY = 0
    IS_BATCH = 1
    PREVIOUS = 2
    FIRST = 3
    LAST = 4
    OLD_FORMAT = 5  # the batch has no timestamp
    STAMP = 6  # largest timestamp of the batch
    STAMP_BEFORE = 7  # largest timestamp before the batch


CHECK_FIELDS = len(Check)
DOUBT_FIELDS = len(OffsetDoubt)

# ---- libzstd


class Zstd(IntEnum):
    """Addresses of functions of libzstd, and of the contexts of one thread: one unsigned 64-bit integer each."""

    DECOMPRESS = 0  # ZSTD_decompressDCtx
    DECOMPRESSION = 1  # ZSTD_DCtx
    COMPRESS = 2  # ZSTD_compressStream2
    RESET = 3  # ZSTD_CCtx_reset
    COMPRESSION = 4  # ZSTD_CCtx, with the parameters for frames


ZSTD_WORDS = len(Zstd)

# ---- producers


class TableState(IntEnum):
    """State of a table of producers between calls: one 64-bit integer each."""

    COUNT = 0  # entries
    CAPACITY = 1  # buckets of the HashMap that Kafka would have, a power of two


class Bound(IntEnum):
    """The range in use of the columns of open transactions: FROM … TO − 1."""

    FROM = 0
    TO = 1


class Applied(IntEnum):
    """Statuses of changes to a table of producers."""

    DONE = 0
    NO_ROOM = 1
    REFUSED = 2
    BAD_START = 3  # bad arguments


class Kept(IntEnum):
    """The last batches of an active producer: one 64-bit integer each; the fields of the other batches follow."""

    COUNT = 0  # number of batches, the oldest first
    LAST_SEQ = 1  # of the first batch
    LAST_OFFSET = 2
    OFFSET_DELTA = 3
    TIMESTAMP = 4


KEPT_BATCHES = 5  # most batches of a producer
KEPT_BATCH_FIELDS = len(Kept) - 1
KEPT_FIELDS = 1 + KEPT_BATCHES * KEPT_BATCH_FIELDS

# ---- templates


class Piece(IntEnum):
    """Fields of a table of pieces, which are written in order for every record."""

    KIND = 0  # of Shown
    START = 1  # position of a constant
    SIZE = 2  # size of a constant


class Shown(IntEnum):
    """What a piece writes."""

    CONSTANT = 0
    OFFSET = 1
    TIMESTAMP = 2
    KEY_SIZE = 3  # −1 for null
    VALUE_SIZE = 4
    BINARY_VALUE_SIZE = 5  # in four bytes, big-endian
    KEY = 6  # its bytes; nothing for null
    VALUE = 7
    HEADERS = 8  # name=value,name=NULL
    TIMESTAMP_TYPE = 9  # Kafka's name
    LEADER_EPOCH = 10  # `null` for none
    JSON_KEY = 11  # the text after `"key`: `":null`, `":"text"` or `_b64":"base64"`
    JSON_VALUE = 12
    JSON_HEADERS = 13  # objects with commas between them
    CSV_KEY = 14  # two cells of CSV: text and \N, or \N and base64; null: \N and \N
    CSV_VALUE = 15
    CSV_HEADERS = 16  # a cell of CSV: JSON_HEADERS in brackets; \N for none


PIECE_FIELDS = len(Piece)
LAST_SHOWN = int(max(Shown))

# ---- searches


class Needle(IntEnum):
    """Fields of a table of byte strings to search for."""

    START = 0  # in the bytes of all strings
    SIZE = 1
    RARE = 2  # positions in the string of the two bytes that are compared first
    SECOND = 3


NEEDLE_FIELDS = len(Needle)

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
    ODD = 2  # the line at the returned position must be parsed by the caller
    BAD_START = 3  # bad arguments: nothing was read


for _prefix, _kind in (
    ("T_", Trait), ("FLAW_", Flaw), ("", Verdict), ("C_", Count), ("MAP_", MapState), ("TXN_", TxnBatch), ("TXN_", TxnState),
    ("TXN_", TxnFlag), ("", BatchAction), ("CHECK_", Check), ("DOUBT_", OffsetDoubt), ("DOUBT_", TimeDoubt),
    ("TABLE_", TableState), ("BOUND_", Bound), ("APPLIED_", Applied), ("KEPT_", Kept), ("PARSED_", Parsed), ("ZSTD_", Zstd),
    ("PIECE_", Piece), ("SHOW_", Shown), ("NEEDLE_", Needle), ("REMOTE_", RemoteKind), ("REMOTE_", RemoteRow),
):  # fmt: skip
    globals().update({_prefix + _name: int(_one) for _name, _one in _kind.__members__.items()})
