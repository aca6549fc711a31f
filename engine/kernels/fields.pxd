# What fields.py takes from formats.py, as literals. tests/kernels/test_fields.py compares the two.

cdef enum:  # flags of the kernels that print
    META = 1
    CONTENTS = 2
    ESCAPE = 4
    OPEN = 8
    ARRAY = 16

cdef enum:  # room that they want
    BATCH_LINE_LIMIT = 640
    RECORD_LINE_LIMIT = 320
    BATCH_OBJECT_LIMIT = 960
    TEXT_GROWTH = 4

cdef enum:  # formats.Status
    END = 0
    TORN = 1
    BAD_SIZE = 2
    FULL = 3
    BAD_START = 4
    BAD_VARINT = 5
    BAD_RECORD = 6
    BAD_COUNT = 7
    BAD_VALUE = 8
    BAD_CODEC = 9

cdef enum:  # formats.BatchField
    B_POSITION = 0
    B_SIZE = 1
    B_MAGIC = 2
    B_VALID = 3
    B_CRC = 4
    B_ATTRIBUTES = 5
    B_BASE_OFFSET = 6
    B_LAST_OFFSET = 7
    B_COUNT = 8
    B_MAX_TIMESTAMP = 9
    B_BASE_TIMESTAMP = 10
    B_PRODUCER_ID = 11
    B_PRODUCER_EPOCH = 12
    B_BASE_SEQUENCE = 13
    B_LEADER_EPOCH = 14
    B_BODY = 15
    B_BODY_END = 16

cdef enum:  # formats.RecordField
    R_BATCH = 0
    R_OFFSET = 1
    R_TIMESTAMP = 2
    R_KEY_POSITION = 3
    R_KEY_SIZE = 4
    R_VALUE_POSITION = 5
    R_VALUE_SIZE = 6
    R_HEADERS_POSITION = 7
    R_HEADER_COUNT = 8
    R_CRC = 9
    R_VALID = 10
    R_FIELDS = 11

cdef enum:  # bits of a batch's attributes
    CODEC_MASK = 7
    TIMESTAMP_TYPE_FLAG = 8
    TRANSACTIONAL_FLAG = 16
    CONTROL_FLAG = 32
    DELETE_HORIZON_FLAG = 64
    KNOWN_ATTRIBUTES = 127
    LEGACY_ATTRIBUTES = 15

cdef enum:  # formats.Codec: one that kernels know, the last one, and the last one of formats 0 and 1; LZ4 frames
    LZ4 = 3
    ZSTD = 4
    LAST_CODEC = 4
    LAST_LEGACY_CODEC = 3
    LZ4_FRAME_BLOCK = 65536

cdef enum:  # formats.ControlType
    ABORT = 0
    COMMIT = 1

cdef enum:  # format 2, and what stands for nothing
    MAGIC_V2 = 2
    NO_TIMESTAMP = -1
    NO_PRODUCER_ID = -1
    LEFT_OUT = -2

cdef extern from *:  # of 64 bits, so that sums with them are as wide
    const long long INT_MAX "2147483647LL"
    const long long LONG_MAX "9223372036854775807LL"
    const long long LZ4_STORED "2147483648LL"

cdef enum:  # sizes
    OVERHEAD = 12
    UP_TO_MAGIC = 17
    SMALLEST = 14
    V2_SMALLEST_RECORD = 7
    VARINT_SIZE = 5
    V0_OVERHEAD = 14
    V1_OVERHEAD = 22
    V2_SIZE = 61
    OFFSET_ENTRY_SIZE = 8
    TIME_ENTRY_SIZE = 12
    ABORTED_TXN_SIZE = 34
    E_SIZE = 46

cdef enum:  # formats.BatchHeader
    V2_BASE_OFFSET_AT = 0
    V2_BATCH_LENGTH_AT = 8
    V2_PARTITION_LEADER_EPOCH_AT = 12
    V2_MAGIC_AT = 16
    V2_CRC_AT = 17
    V2_ATTRIBUTES_AT = 21
    V2_LAST_OFFSET_DELTA_AT = 23
    V2_BASE_TIMESTAMP_AT = 27
    V2_MAX_TIMESTAMP_AT = 35
    V2_PRODUCER_ID_AT = 43
    V2_PRODUCER_EPOCH_AT = 51
    V2_BASE_SEQUENCE_AT = 53
    V2_RECORD_COUNT_AT = 57

cdef enum:  # formats.LegacyHeaderV0
    V0_OFFSET_AT = 0
    V0_MESSAGE_SIZE_AT = 8
    V0_CRC_AT = 12
    V0_MAGIC_AT = 16
    V0_ATTRIBUTES_AT = 17
    V0_KEY_SIZE_AT = 18

cdef enum:  # formats.LegacyHeaderV1
    V1_OFFSET_AT = 0
    V1_MESSAGE_SIZE_AT = 8
    V1_CRC_AT = 12
    V1_MAGIC_AT = 16
    V1_ATTRIBUTES_AT = 17
    V1_TIMESTAMP_AT = 18
    V1_KEY_SIZE_AT = 26

cdef enum:  # formats.OffsetIndexEntry
    OFFSET_ENTRY_RELATIVE_OFFSET_AT = 0
    OFFSET_ENTRY_POSITION_AT = 4

cdef enum:  # formats.TimeIndexEntry
    TIME_ENTRY_TIMESTAMP_AT = 0
    TIME_ENTRY_RELATIVE_OFFSET_AT = 8

cdef enum:  # formats.ProducerSnapshotEntry
    E_PRODUCER_ID_AT = 0
    E_PRODUCER_EPOCH_AT = 8
    E_LAST_SEQUENCE_AT = 10
    E_LAST_OFFSET_AT = 14
    E_OFFSET_DELTA_AT = 22
    E_TIMESTAMP_AT = 26
    E_COORDINATOR_EPOCH_AT = 34
    E_CURRENT_TXN_FIRST_OFFSET_AT = 38
