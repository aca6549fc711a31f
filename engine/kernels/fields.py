"""The constants of `formats` under the names that kernels use, and the flags of kernels that print.

Kernels import them from fields.pxd, which setup.py writes with literals, so that no kernel loads or declares one.
Every constant that `formats`, callers or other kernels share is declared here, in `walk` or in `tables`; `cython.declare` is
only for constants of one kernel (tests/test_house.py).

B_… and R_…     fields of BatchColumns and RecordColumns        END, TORN …     statuses
V2_…_AT         positions in a batch header                     V0_…_AT, V1_…_AT   in a message of format 0 or 1
OFFSET_ENTRY_…, TIME_ENTRY_…, E_…   positions in entries of an .index, a .timeindex and a producer snapshot
INT_MAX, LONG_MAX   the largest numbers of Java's types
"""

from engine import formats

META = 1  # print the record's metadata (not --skip-record-metadata)
CONTENTS = 2  # print key and payload
ESCAPE = 4  # escape for a terminal
OPEN = 8  # do not write the end of a record: the caller writes more of it
ARRAY = 16  # JSON objects are elements of an array: write a comma before each

BATCH_LINE_LIMIT = 640  # largest line of a batch, in bytes
RECORD_LINE_LIMIT = 320  # largest line of a record without header keys, key and payload
BATCH_OBJECT_LIMIT = 960  # largest JSON object of a batch
TEXT_GROWTH = 4  # largest number of text bytes for one byte of a payload

CODEC_MASK = formats.CODEC_MASK
TIMESTAMP_TYPE_FLAG = formats.TIMESTAMP_TYPE_FLAG
TRANSACTIONAL_FLAG = formats.TRANSACTIONAL_FLAG
CONTROL_FLAG = formats.CONTROL_FLAG
DELETE_HORIZON_FLAG = formats.DELETE_HORIZON_FLAG
KNOWN_ATTRIBUTES = CODEC_MASK | TIMESTAMP_TYPE_FLAG | TRANSACTIONAL_FLAG | CONTROL_FLAG | DELETE_HORIZON_FLAG
LEGACY_ATTRIBUTES = CODEC_MASK | TIMESTAMP_TYPE_FLAG

LZ4 = int(formats.Codec.LZ4)
ZSTD = int(formats.Codec.ZSTD)
LAST_CODEC = int(max(formats.Codec))
LAST_LEGACY_CODEC = int(formats.LAST_LEGACY_CODEC)
LZ4_FRAME_BLOCK = formats.LZ4_FRAME_BLOCK
LZ4_STORED = formats.LZ4_STORED

ABORT = int(formats.ControlType.ABORT)
COMMIT = int(formats.ControlType.COMMIT)
MAGIC_V2 = formats.MAGIC_V2
NO_TIMESTAMP = formats.NO_TIMESTAMP
NO_PRODUCER_ID = formats.NO_PRODUCER_ID
LEFT_OUT = formats.LEFT_OUT

INT_MAX = formats.INT_MAX
LONG_MAX = formats.LONG_MAX

OVERHEAD = formats.LOG_OVERHEAD
UP_TO_MAGIC = formats.HEADER_SIZE_UP_TO_MAGIC
SMALLEST = formats.MIN_RECORD_SIZE
V2_SMALLEST_RECORD = 7  # length, attributes, deltas of time and offset, sizes of key and value, count of headers: a byte each
VARINT_SIZE = 5  # largest size of a varint of 32 bits
V0_OVERHEAD = formats.LEGACY_OVERHEAD_V0
V1_OVERHEAD = formats.LEGACY_OVERHEAD_V1
V2_SIZE = formats.BATCH_HEADER.size
OFFSET_ENTRY_SIZE = formats.OFFSET_INDEX_ENTRY.size
TIME_ENTRY_SIZE = formats.TIME_INDEX_ENTRY.size
ABORTED_TXN_SIZE = formats.ABORTED_TXN.size
E_SIZE = formats.PRODUCER_SNAPSHOT_ENTRY.size
R_FIELDS = formats.RECORD_FIELDS

for _prefix, _names in (("B_", formats.BatchField), ("R_", formats.RecordField), ("", formats.Status)):
    globals().update({_prefix + _name.name: int(_name) for _name in _names})
for _prefix, _layout in (
    ("V2_", formats.BATCH_HEADER), ("V0_", formats.LEGACY_V0), ("V1_", formats.LEGACY_V1),
    ("OFFSET_ENTRY_", formats.OFFSET_INDEX_ENTRY), ("TIME_ENTRY_", formats.TIME_INDEX_ENTRY),
    ("E_", formats.PRODUCER_SNAPSHOT_ENTRY),
):  # fmt: skip
    globals().update({f"{_prefix}{_name.upper()}_AT": _at for _name, _at in _layout.positions.items()})
