"""Batches of every format, codec and kind by name, and the bytes that Kafka's own builder made of them."""

from __future__ import annotations

import hashlib
import itertools
import json
from pathlib import Path

from engine.formats import BATCH_HEADER, CODEC_NAMES, LEGACY_V0, LEGACY_V1, Codec, ControlType
from engine.record.assembly import LOG_APPEND_TIME
from engine.record.builder import NewRecord
from engine.record.codecs.codecs import InflateStatus, inflate
from engine.record.control import encode_control_key
from tests.support.strategies import INT_MAX, LONG_MAX, BatchCase

STORED = Path(__file__).resolve().parents[1] / "data" / "builder" / "kafka-4.3.1.json"
NOW = 1_700_000_000_000

PLAIN = [
    NewRecord(7, NOW, b"k", b"v", [(b"h", b"x"), (b"h", None), (b"", b""), ("ключ".encode(), b"\xff")]),
    NewRecord(8, NOW - 5, None, b"the key is null"),
    NewRecord(9, NOW + 5, b"", b""),
    NewRecord(12, -1, b"only a key", None),
    NewRecord(13, NOW, b"k" * 70, b"abc" * 30),
]
HEADLESS = [record._replace(headers=[]) for record in PLAIN]
LARGE = [NewRecord(i, NOW + i, b"x" * 9000, b"abc" * 50_000) for i in range(3)]
IDEMPOTENT = {"producer_id": 4001, "producer_epoch": 3, "base_sequence": 17}

KINDS = {
    "plain": {},
    "append-time": {"timestamp_type": LOG_APPEND_TIME, "log_append_time": NOW + 99},
    "idempotent": IDEMPOTENT,
    "transactional": {**IDEMPOTENT, "transactional": True},
    "wrapping": {**IDEMPOTENT, "base_sequence": INT_MAX - 1},
    "delete-horizon": {"delete_horizon_ms": NOW + 86_400_000},
    "delete-horizon-0": {"delete_horizon_ms": 0, **IDEMPOTENT},
    "epoch": {"partition_leader_epoch": INT_MAX},
    "compacted": {"base_offset": 2, "last_offset": 40},
}


def _cases() -> dict[str, BatchCase]:
    cases = {}
    for codec, (name, options) in itertools.product(Codec, KINDS.items()):
        cases[f"v2-{CODEC_NAMES[codec]}-{name}"] = BatchCase(PLAIN, {"codec": codec, **options})
    for magic, codec, name in itertools.product((0, 1), tuple(Codec)[:4], ("plain", "append-time")):
        if magic or name == "plain":
            options = {"magic": magic, "codec": codec, **KINDS[name]}
            cases[f"v{magic}-{CODEC_NAMES[codec]}-{name}"] = BatchCase(HEADLESS, options)
    for magic, codec in itertools.product((0, 1, 2), Codec):
        if magic == 2 or codec != Codec.ZSTD:
            cases[f"v{magic}-{CODEC_NAMES[codec]}-large"] = BatchCase(LARGE, {"magic": magic, "codec": codec})
    for kind in ControlType:
        options = {"control": True, "partition_leader_epoch": 6}
        record = NewRecord(3, NOW, encode_control_key(kind), b"\0\0 ready value")
        cases[f"control-{kind.name.lower()}"] = BatchCase([record], options)
    cases["no-records"] = BatchCase([], {"base_offset": 3})
    cases["largest-offset"] = BatchCase([NewRecord(LONG_MAX, LONG_MAX, None, None)], {})
    cases["widest-deltas"] = BatchCase([NewRecord(0, LONG_MAX, b"", b""), NewRecord(INT_MAX, -1, b"", b"")], {})
    cases["many"] = BatchCase([NewRecord(i, NOW + i, None, b"%d" % i) for i in range(20_000)], {})
    return cases


CASES = _cases()
PREFIX_SIZES = {Codec.GZIP: 10, Codec.SNAPPY: 16, Codec.LZ4: 7, Codec.ZSTD: 4}  # bytes at the start of a codec's framing


def inflated_parts(case: BatchCase, data: bytes) -> tuple[dict[str, int], bytes, bytes]:
    """Return (header without sizes and checksum, start of the compressed bytes, decompressed bytes) of a batch or wrapper."""
    magic, codec = case.options.get("magic", 2), case.options["codec"]
    layout = (LEGACY_V0, LEGACY_V1, BATCH_HEADER)[magic]
    fields = layout.read(data)._asdict()
    for name in ("crc", "batch_length", "message_size"):
        fields.pop(name, None)
    packed = data[layout.size + (0 if magic == 2 else 4) :]  # after a wrapper's value size
    inflated = inflate(codec, packed, 1 << 24, magic=magic)
    assert inflated.status == InflateStatus.OK
    return fields, packed[: PREFIX_SIZES[codec]], bytes(inflated.data)


def fingerprint(case: BatchCase, data: bytes) -> str:
    """Return the part of a case that is stored: all bytes if they are few; of compressed ones the library-independent part."""
    if case.options.get("codec", Codec.NONE) == Codec.NONE:
        return data.hex() if len(data) <= 600 else "sha256:" + hashlib.sha256(data).hexdigest()
    fields, prefix, content = inflated_parts(case, data)
    return " ".join([*map(str, fields.values()), prefix.hex(), "sha256:" + hashlib.sha256(content).hexdigest()])


def stored() -> dict[str, str]:
    """Return name → fingerprint of the bytes that Kafka made of the case."""
    return json.loads(STORED.read_text())
