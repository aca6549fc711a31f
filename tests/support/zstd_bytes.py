"""zstd frames put together by hand: what no compressor writes, and what decides how Kafka's reader takes them."""

from __future__ import annotations

MAGIC = b"\x28\xb5\x2f\xfd"
WINDOW_2_MIB, WINDOW_128_MIB, WINDOW_144_MIB = 0x58, 0x88, 0x89
_LONGEST = 65_539  # the base of the longest match code, which has 16 more bits


def head(window: int | None, size: int | None = None) -> bytes:
    """A frame's header. window: the descriptor, None is one segment; size: what the frame says it will have, from 256 on."""
    descriptor = (0 if size is None else 0x80) | (0x20 if window is None else 0)
    return MAGIC + bytes((descriptor,)) + (b"" if window is None else bytes((window,))) + (
        b"" if size is None else size.to_bytes(4, "little"))


def raw(data: bytes, *, last: bool = False) -> bytes:
    """A block as it is."""
    return _block(0, len(data), last) + data


def run(byte: bytes, count: int, *, last: bool = False) -> bytes:
    """A block of one byte, many times."""
    return _block(1, count, last) + byte


def match(byte: bytes, count: int) -> bytes:
    """A compressed block that becomes `count` times the byte: one literal, and one match (RFC 8878)."""
    literals = bytes((1 | 1 << 3,)) + byte
    sequence = b"\x01\x54\x01\x00\x34"  # of each code one alone: 1 literal, the offset before, a match of the longest kind
    body = literals + sequence + (1 << 16 | count - 1 - _LONGEST).to_bytes(3, "little")
    return _block(2, len(body), last=False) + body


def _block(kind: int, size: int, last: bool) -> bytes:
    return (size << 3 | kind << 1 | last).to_bytes(3, "little")


def _cases() -> dict[str, tuple[bytes, int, bool]]:
    """name → (frame of letters a, how many, does Kafka's reader take it?)."""
    small, large, block = 16 << 10, 140_000, 128 << 10
    runs = run(b"a", block) + run(b"a", large - block, last=True)
    return {
        "largest window": (head(WINDOW_128_MIB) + runs, large, True),
        "window too large": (head(WINDOW_144_MIB) + raw(b"a" * 5, last=True), 5, False),
        "window too large, fits a buffer": (head(WINDOW_144_MIB, small) + run(b"a", small, last=True), small, True),
        "window too large, fits no buffer": (head(WINDOW_144_MIB, small + 1) + run(b"a", small + 1, last=True), small + 1, False),
        "run of a block": (head(WINDOW_2_MIB) + run(b"a", block, last=True), block, True),
        "run too long": (head(WINDOW_2_MIB) + run(b"a", block + 1, last=True), block + 1, False),
        "run too long, known size": (head(WINDOW_2_MIB, large) + run(b"a", large, last=True), large, False),
        "run too long, one segment": (head(None, large) + run(b"a", large, last=True), large, False),
        "run beyond the window": (head(0) + run(b"a", 1025, last=True), 1025, False),
        "run beyond the window, fits a buffer": (head(0, 1025) + run(b"a", 1025, last=True), 1025, True),
        "runs, known size": (head(WINDOW_2_MIB, large) + runs, large, True),
        "match of a block": (head(WINDOW_2_MIB) + match(b"a", block) + raw(b"", last=True), block, True),
        "match too long": (head(WINDOW_2_MIB) + match(b"a", block + 1) + raw(b"", last=True), block + 1, False),
        "match too long, known size": (head(None, block + 1) + match(b"a", block + 1) + raw(b"", last=True), block + 1, False),
    }  # fmt: skip


CASES = _cases()
