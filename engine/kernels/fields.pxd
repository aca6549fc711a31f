# What fields.py takes from formats.py, as literals. tests/kernels/test_fields.py compares the two.

cdef enum:  # flags of the kernels that print
    META = 1
    CONTENTS = 2
    ESCAPE = 4
    OPEN = 8
    ARRAY = 16

cdef enum:  # formats.Status
    END = 0
    TORN = 1
    BAD_SIZE = 2
    FULL = 3
    BAD_START = 4
    BAD_VARINT = 5
    BAD_RECORD = 6
    BAD_COUNT = 7
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

cdef extern from *:  # bounds, of 64 bits both: sums with them are as wide
    const long long INT_MAX "2147483647LL"
    const long long LONG_MAX "9223372036854775807LL"

cdef enum:  # sizes
    OVERHEAD = 12
    UP_TO_MAGIC = 17
    SMALLEST = 14
    V0_OVERHEAD = 14
    V1_OVERHEAD = 22
    V2_SIZE = 61

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
