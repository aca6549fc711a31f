"""The constants of `formats` under the names that kernels use, and the flags of those that print.

Compiled kernels take them from fields.pxd, where they are literals, so that no kernel loads or declares one; a test
compares the two.

B_… and R_…     rows of BatchColumns and RecordColumns          END, TORN …     statuses
V2_…_AT         positions in a batch header                     V0_…_AT, V1_…_AT   in a message of format 0 or 1
INT_MAX, LONG_MAX   the largest numbers of Java's types
"""

from engine import formats

META = 1  # print the record's metadata (not --skip-record-metadata)
CONTENTS = 2  # print key and payload
ESCAPE = 4  # for a terminal
OPEN = 8  # leave the record open: somebody goes on behind it
ARRAY = 16  # JSON objects are elements of an array: a comma in front of each

CODEC_MASK = formats.CODEC_MASK
TIMESTAMP_TYPE_FLAG = formats.TIMESTAMP_TYPE_FLAG
TRANSACTIONAL_FLAG = formats.TRANSACTIONAL_FLAG
CONTROL_FLAG = formats.CONTROL_FLAG
DELETE_HORIZON_FLAG = formats.DELETE_HORIZON_FLAG

INT_MAX = formats.INT_MAX
LONG_MAX = formats.LONG_MAX

OVERHEAD = formats.LOG_OVERHEAD
UP_TO_MAGIC = formats.HEADER_SIZE_UP_TO_MAGIC
SMALLEST = formats.MIN_RECORD_SIZE
V0_OVERHEAD = formats.LEGACY_OVERHEAD_V0
V1_OVERHEAD = formats.LEGACY_OVERHEAD_V1
V2_SIZE = formats.BATCH_HEADER.size
R_FIELDS = formats.RECORD_FIELDS

for _prefix, _names in (("B_", formats.BatchField), ("R_", formats.RecordField), ("", formats.Status)):
    globals().update({_prefix + _name.name: int(_name) for _name in _names})
for _prefix, _layout in (("V2_", formats.BATCH_HEADER), ("V0_", formats.LEGACY_V0), ("V1_", formats.LEGACY_V1)):
    globals().update({f"{_prefix}{_name.upper()}_AT": _at for _name, _at in _layout.positions.items()})
