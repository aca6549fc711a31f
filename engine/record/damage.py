"""How the record layer reports damaged bytes: as a Problem, which the layers above pass on; inside codecs as an exception."""

from __future__ import annotations

from typing import NamedTuple


class CorruptError(Exception):
    """Compressed bytes at which Kafka would stop; the message is the reason. `codecs.inflate` catches it."""


class Problem(NamedTuple):
    """A problem of an entry: a code of `findings.KINDS`, our text, and the exception of 0.7.2 with its text.

    `exception` is None if 0.7.2 throws nothing, and for every later format; `message` is None if the exception has no text.
    """

    code: str
    what: str
    exception: str | None = None
    message: str | None = None


def unknown_codec(codec: int) -> Problem:
    """Return the problem of an unknown codec of a batch, message or entry."""
    return Problem("unknown-codec", f"codec id {codec} is unknown")
