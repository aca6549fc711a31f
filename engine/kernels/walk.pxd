# What walk.py says as literals, for the kernel. tests/kernels/test_fields.py compares the two.

cdef enum:  # Place and Walk: places in the state
    S_BASE_OFFSET = 0
    S_INTERVAL = 1
    S_POSITION = 2
    S_SINCE_ENTRY = 3
    S_MAX_TIMESTAMP = 4
    S_MAX_TIMESTAMP_OFFSET = 5
    S_OFFSETS = 6
    S_OFFSETS_MAX = 7
    S_LAST_OFFSET = 8
    S_TIMES = 9
    S_TIMES_MAX = 10
    S_LAST_TIME = 11
    S_LAST_TIME_OFFSET = 12
    S_OFFSETS_AT = 13
    S_TIMES_AT = 14
    S_BATCHES = 15
    S_RECORDS = 16
    S_NEXT_OFFSET = 17
    S_MAP_END = 18
    S_HAS_MAP_END = 19
    S_EPOCH = 20
    S_EPOCHS_AT = 21
    S_ROWS_AT = 22
    S_PRODUCERS = 23
    S_HOLES = 24
    S_DISORDERS = 25
    S_DISORDER_AT = 26
    S_DISORDER_OFFSET = 27
    S_DISORDER_BEHIND = 28
    WALK_FIELDS = 29

cdef enum:  # Walked, and what of Placed it passes on
    END = 0
    TORN = 100
    BAD_SIZE = 101
    INVALID = 102
    UNCHECKED = 103
    MARKER = 104
    NO_ROOM = 105
    SLOTS_FULL = 106
    BAD_START = 107
    OVERFLOW = 2
    PLACE_NO_ROOM = 1

cdef enum:  # Flag
    CHECKED = 1
    LOOKED_AT = 2
    HEAD_ONLY = 4

cdef enum:  # Row
    R_PRODUCER_ID = 0
    R_PRODUCER_EPOCH = 1
    R_BASE_SEQUENCE = 2
    R_BASE_OFFSET = 3
    R_LAST_OFFSET = 4
    R_MAX_TIMESTAMP = 5
    R_KIND = 6
    R_MARKER = 7
    R_COORDINATOR_EPOCH = 8
    R_MARKER_TIMESTAMP = 9
    ROW_FIELDS = 10

cdef enum:  # Kind
    K_TRANSACTIONAL = 1
    K_CONTROL = 2
    K_HAS_MARKER = 4

cdef enum:  # Slot
    SLOT_USED = 0
    SLOT_ID = 1
    SLOT_EPOCH = 2
    SLOT_KIND = 3
    SLOT_HELD = 4
    SLOT_LAST = 5
    SLOT_FIELDS = 9
