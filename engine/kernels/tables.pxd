# What tables.py says as literals, for the kernels. tests/kernels/test_fields.py compares the two.

cdef enum:  # Trait
    T_FLAWS = 0
    T_LARGEST = 1
    T_COUNT = 2
    T_CHANGED = 3
    TRAITS = 4

cdef enum:  # Flaw
    FLAW_NULL_KEY = 1
    FLAW_TIMESTAMP = 2
    FLAW_OFFSETS = 4
    FLAW_BROKEN = 8

cdef enum:  # Verdict
    ASK = 0
    KEEP_ALL = 1
    KEEP_NONE = 2
    ASK_SURVIVORS = 3
    SUPERSEDED = 4

cdef enum:  # Count
    C_READ = 0
    C_KEPT = 1
    C_TOMBSTONES = 2
    C_WITHOUT_KEY = 3
    C_EXPIRED = 4
    COUNTS = 5

cdef enum:  # MapState, and a slot of the map
    MAP_ENTRIES = 0
    MAP_CAPACITY = 1
    MAP_LATEST = 2
    MAP_FIELDS = 3
    SLOT_WORDS = 3

cdef enum:  # TxnBatch
    TXN_DATA = 0
    TXN_COMMIT = 1
    TXN_ABORT = 2
    TXN_OTHER = 3
    TXN_EMPTY = 4

cdef enum:  # TxnState, and a producer
    TXN_PRODUCERS = 0
    TXN_NEXT = 1
    TXN_KEPT = 2
    TXN_UNTOLD = 3
    TXN_FROM = 4
    TXN_FIELDS = 5
    TXN_WORDS = 3

cdef enum:  # TxnFlag
    TXN_TAKEN = 1
    TXN_COMMITTED = 2
    TXN_ABORTED = 4
    TXN_OBSERVED = 8

cdef enum:  # TxnEvent
    EVENT_POSITION = 0
    EVENT_PRODUCER_ID = 1
    EVENT_LAST_OFFSET = 2
    EVENT_KIND = 3
    EVENT_WORDS = 4

cdef enum:  # Fate
    DROP = 0
    COPY = 1
    ALONE = 2
    EMPTY = 3

cdef enum:  # Check
    CHECK_NEXT = 0
    CHECK_BEFORE = 1
    CHECK_LARGEST = 2
    CHECK_PENDING = 3
    CHECK_DECIDED = 4
    CHECK_FIELDS = 5

cdef enum:  # OffsetDoubt and TimeDoubt, their head
    DOUBT_ENTRY = 0
    DOUBT_IS_BATCH = 1
    DOUBT_PREVIOUS = 2
    DOUBT_FIRST = 3
    DOUBT_LAST = 4
    DOUBT_OLD_FORMAT = 5
    DOUBT_FIELDS = 8

cdef enum:  # OffsetDoubt
    DOUBT_BEHIND = 6
    DOUBT_MEETS_END = 7

cdef enum:  # TimeDoubt
    DOUBT_STAMP = 6
    DOUBT_STAMP_BEFORE = 7

cdef enum:  # Zstd
    ZSTD_DECOMPRESS = 0
    ZSTD_DECOMPRESSION = 1
    ZSTD_COMPRESS = 2
    ZSTD_RESET = 3
    ZSTD_COMPRESSION = 4
    ZSTD_WORDS = 5

cdef enum:  # TableState
    TABLE_COUNT = 0
    TABLE_CAPACITY = 1

cdef enum:  # Bound
    BOUND_FROM = 0
    BOUND_TO = 1

cdef enum:  # Taken
    TAKEN_DONE = 0
    TAKEN_NO_ROOM = 1
    TAKEN_REFUSED = 2
    TAKEN_BAD_START = 3

cdef enum:  # Kept, and how much of it there is
    KEPT_COUNT = 0
    KEPT_LAST_SEQ = 1
    KEPT_LAST_OFFSET = 2
    KEPT_OFFSET_DELTA = 3
    KEPT_TIMESTAMP = 4
    KEPT_BATCHES = 5
    KEPT_BATCH_FIELDS = 4
    KEPT_FIELDS = 21

cdef enum:  # Parsed
    PARSED_END = 0
    PARSED_FULL = 1
    PARSED_ODD = 2
    PARSED_BAD_START = 3
