"""Compares what our producer did with a script with what the real one did."""

from __future__ import annotations

import base64
import lzma
from pathlib import Path
from typing import Any

from engine.formats import BATCH_HEADER, CODEC_MASK, Codec
from engine.protocol.frames import decode_request
from engine.record.codecs.codecs import InflateStatus, inflate
from tests.producer.scripted import Script, as_float32

DATA = Path(__file__).parents[1] / "data/producer"
_LIBRARIES = (Codec.GZIP, Codec.ZSTD)  # their bytes depend on the version of a library
_UNLIMITED = 1 << 30


def stored(name: str) -> list[str]:
    """The lines of a file of tests/data/producer."""
    return lzma.decompress((DATA / f"{name}.jsonl.xz").read_bytes()).decode().splitlines()


def difference(script: dict[str, Any], expected: dict[str, Any]) -> str | None:
    """Where the two differ first; None: nowhere.

    A real flush that has nothing to wait for may return before the sender runs once; both are tried.
    """
    found = _difference(expected, Script(script).run())
    if found is not None and any("flush" in step for step in script["steps"]):
        return found and _difference(expected, Script(script, returns_at_once=True).run()) and found
    return found


def _difference(expected: dict[str, Any], got: dict[str, Any]) -> str | None:
    if "failed" in expected or "failed" in got:
        return None if expected.get("failed") == got.get("failed") else f"expected {expected.get('failed')}, got {got.get('failed')}"
    pairs = [
        *((f"step {number}", *pair) for number, pair in enumerate(zip(expected["steps"], got["steps"], strict=True))),
        *((f"record {number}", *pair) for number, pair in enumerate(zip(expected["records"], got["records"], strict=True))),
        ("estimates", as_float32(expected["compression_ratio_estimates"]), got["compression_ratio_estimates"]),
        ("the clock", expected["now"], got["now"]), ("requests", len(expected["requests"]), len(got["requests"])),
    ]  # fmt: skip
    for what, one, other in pairs:
        if one != other:
            return f"{what}: expected {one}, got {other}"
    for number, (one, other) in enumerate(zip(expected["requests"], got["requests"], strict=True)):
        if any(one[name] != other[name] for name in ("time", "node", "api", "version")):
            return f"request {number}: expected {one}, got {other}"
        frame = base64.b64decode(one["frame_b64"])
        if frame != other["frame"] and _plain(frame) != _plain(other["frame"]):
            return f"request {number}: expected {_plain(frame)}, got {_plain(other['frame'])}"
    return None


def _plain(frame: bytes) -> Any:
    """A request as a value, with records that a library compressed decompressed, and without what depends on their size."""
    request = decode_request(frame[4:])
    for topic in request.body.get("topicData", ()):
        for one in topic["partitionData"]:
            batch = bytes(one["records"])
            header = BATCH_HEADER.read(batch)
            codec = header.attributes & CODEC_MASK
            if codec not in _LIBRARIES:
                one["records"] = batch
                continue
            body = inflate(codec, batch[BATCH_HEADER.size :], _UNLIMITED)
            assert body.status == InflateStatus.OK
            one["records"] = (header._replace(crc=0, batch_length=0), bytes(body.data))
    return request.header, request.body
