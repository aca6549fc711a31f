"""How the record layer says that bytes are damaged: a Problem, which everything above hands on; inside codecs an exception."""

from __future__ import annotations

from typing import NamedTuple

# A search behind damage checksums no more than this many times the bytes that it goes over: what only looks like a header
# can claim a range that reaches far. Chance leaves one such header in gigabytes; 32 of them on top of each other are made.
SEARCH_BUDGET = 32


class CorruptError(Exception):
    """Compressed bytes that Kafka would refuse at this point; the message says why. Ends in `codecs.inflate`."""


class Problem(NamedTuple):
    """What is wrong with an entry: a code of `findings.KINDS`, our words, and the exception of 0.7.2 with its text.

    `exception` is None where 0.7.2 throws nothing, and for every later format; `message` is None where its exception
    has no text.
    """

    code: str
    what: str
    exception: str | None = None
    message: str | None = None


def unknown_codec(codec: int) -> Problem:
    """The codec bits of a batch, message or entry name no codec that its format knows."""
    return Problem("unknown-codec", f"codec id {codec} is unknown")
