# What walk.py says as literals, for the kernels. tests/kernels/test_fields.py compares the two.

cdef enum:  # Placing and Walk: places in the state
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
    PLACE_FIELDS = 15
    S_BATCHES = 15
    S_RECORDS = 16
    S_NEXT_OFFSET = 17
    S_MAP_END = 18
    S_HAS_MAP_END = 19
    S_EPOCH = 20
    S_EPOCHS_AT = 21
    S_TOLD_AT = 22
    S_PRODUCERS = 23
    S_HOLES = 24
    S_DISORDERS = 25
    S_DISORDER_AT = 26
    S_DISORDER_OFFSET = 27
    S_DISORDER_BEHIND = 28
    S_STRANGERS = 29
    S_STRANGER_AT = 30
    S_STRANGER_OFFSET = 31
    S_STRANGER_MAGIC = 32
    WALK_FIELDS = 33

cdef enum:  # Walked
    W_END = 0
    W_TORN = 100
    W_BAD_SIZE = 101
    W_INVALID = 102
    W_UNCHECKED = 103
    W_MARKER = 104
    W_NO_ROOM = 105
    W_SLOTS_FULL = 106
    W_BAD_START = 107
    W_NO_OFFSET_LEFT = 108

cdef enum:  # Placed
    PLACED_END = 0
    PLACED_NO_ROOM = 1
    PLACED_OVERFLOW = 2
    PLACED_OFFSETS_FULL = 3
    PLACED_OFFSET_ORDER = 4
    PLACED_TIMES_FULL = 5
    PLACED_TIME_ORDER = 6
    PLACED_TIME_RANGE = 7
    PLACED_BAD_START = 8

cdef enum:  # Flag
    CHECKED = 1
    LOOKED_AT = 2
    HEAD_ONLY = 4

cdef enum:  # ProducerField
    P_PRODUCER_ID = 0
    P_PRODUCER_EPOCH = 1
    P_BASE_SEQUENCE = 2
    P_BASE_OFFSET = 3
    P_LAST_OFFSET = 4
    P_MAX_TIMESTAMP = 5
    P_KIND = 6
    P_MARKER = 7
    P_COORDINATOR_EPOCH = 8
    P_MARKER_TIMESTAMP = 9
    PRODUCER_FIELDS = 10

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
