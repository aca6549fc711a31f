"""How the record layer says that bytes are damaged: a Problem, which everything above hands on; inside codecs an exception."""

from __future__ import annotations

from typing import NamedTuple

# What only looks like a header can claim a range that reaches far. Chance leaves few of them; where more than 32 lie on top of
# each other, or a few dozens claim all of a small file, somebody made them.
_TIMES = 32
_LEAST = 1 << 30  # bytes: less than a second


class CorruptError(Exception):
    """Compressed bytes that Kafka would refuse at this point; the message says why. Ends in `codecs.inflate`."""


class Problem(NamedTuple):
    """What is wrong with an entry: a code of `findings.KINDS`, our words, and the exception of 0.7.2 with its text.

    `exception` is None if 0.7.2 throws nothing, and for every later format; `message` is None if its exception
    has no text.
    """

    code: str
    what: str
    exception: str | None = None
    message: str | None = None


def unknown_codec(codec: int) -> Problem:
    """The codec bits of a batch, message or entry name no codec that its format knows."""
    return Problem("unknown-codec", f"codec id {codec} is unknown")


def search_budget(size: int) -> int:
    """The most bytes that a search of `size` bytes after damage may checksum."""
    return max(_TIMES * size, _LEAST)
