"""Estimate the size of logs with another codec, from a sample of their batches that is spread evenly.

Each sampled batch of format 2 is decompressed and compressed again, as a producer with the same batches would have sent it.
"""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING, NamedTuple

from engine.formats import BATCH_HEADER, CODEC_MASK, MAGIC_V2, BatchField, Codec
from engine.record.codecs.bounded import MAX_DECOMPRESSED_BYTES
from engine.record.codecs.codecs import InflateStatus, deflate, inflate
from engine.record.windows import LogWalk

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from engine.files import ReadOnlyFiles
    from engine.overview.usage import UsedFile

SAMPLE = 64 << 20  # bytes that are read at most, in pieces
_PIECES = 256
_WINDOW = 256 << 10
_CERTAIN = 1.96  # standard deviations on both sides of 95 % of a normal distribution


class Estimate(NamedTuple):
    """The size of the logs with `codec`. size, margin, now: bytes; the true size is within the margin with 95 % probability.

    now      the size as stored, of the batches that can be compressed again
    sampled  bytes of batches that were read
    """

    codec: Codec
    now: int
    size: int
    margin: int
    sampled: int


def estimate(
    files: ReadOnlyFiles, logs: Sequence[UsedFile], codecs: Sequence[Codec], sample: int = SAMPLE
) -> list[Estimate]:
    """Estimate the size of `logs` with each of `codecs`; none if no batch was read. Raises UnreadableFile."""
    total = sum(one.info.size for one in logs)
    pieces: list[tuple[int, list[int]]] = []  # of each piece: bytes as stored, bytes with each codec
    for path, start, end in _pieces(logs, total, sample):
        before, after = 0, [0] * len(codecs)
        with files.open(path) as file:
            for size, rest, body in _bodies(LogWalk(file, start, window_size=_WINDOW), start, end):
                before += size
                for number, codec in enumerate(codecs):
                    after[number] += rest + len(deflate(codec, body))
        if before:
            pieces.append((before, after))
    sampled = sum(before for before, _ in pieces)
    if not sampled:
        return []
    found = []
    for number, codec in enumerate(codecs):
        ratio = sum(after[number] for _, after in pieces) / sampled
        error = 0.0
        if total > sampled and len(pieces) > 1:  # of a ratio of sums (Cochran, Sampling Techniques, 2.11)
            mean = sampled / len(pieces)
            deviations = sum((after[number] - ratio * before) ** 2 for before, after in pieces)
            share = 1 - sampled / total
            error = sqrt(share * deviations / (len(pieces) - 1) / len(pieces)) / mean
        found.append(Estimate(codec, total, round(total * ratio), round(total * error * _CERTAIN), sampled))
    return found


def _pieces(logs: Sequence[UsedFile], total: int, sample: int) -> Iterator[tuple[str, int, int]]:
    """Yield (path, first byte, last byte + 1) of the pieces to read: whole logs if there is little to read."""
    if total <= sample:
        for one in logs:
            yield one.path, 0, one.info.size
        return
    size, every = sample // _PIECES, total // _PIECES
    at, end = 0, 0
    for one in logs:
        start, end = end, end + one.info.size
        while at < end:
            position = at - start
            yield one.path, position, min(one.info.size, position + size)
            at += every


def _bodies(walk: LogWalk, start: int, end: int) -> Iterator[tuple[int, int, bytes]]:
    """Yield (size, size of the header, decompressed body) of the sound batches that begin in the bytes [start, end)."""
    if start and walk.resynchronise() is None:
        return
    for window in walk:
        for row in range(window.rows):
            table = window.batches.table
            at, size = table[BatchField.POSITION, row], table[BatchField.SIZE, row]
            if window.base + at >= end:
                return
            if table[BatchField.MAGIC, row] < MAGIC_V2 or not table[BatchField.VALID, row] or window.partial:
                continue
            body = window.data[at + BATCH_HEADER.size : at + size]
            plain = inflate(table[BatchField.ATTRIBUTES, row] & CODEC_MASK, body, MAX_DECOMPRESSED_BYTES)
            if plain.status is InflateStatus.OK:
                yield size, BATCH_HEADER.size, bytes(plain.data)
