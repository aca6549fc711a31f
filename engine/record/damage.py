"""How the record layer says that bytes are damaged: raised inside a codec, handed on by everything above."""

from __future__ import annotations

from typing import NamedTuple


class CorruptError(Exception):
    """Compressed bytes that Kafka would refuse at this point; the message says why. Never leaves `codecs`."""


class Problem(NamedTuple):
    """What is wrong with an entry: a code of `findings.KINDS`, our words, and the exception of 0.7.2 with its text.

    `exception` is None where 0.7.2 throws nothing, and for every later format; `message` is None where its exception
    has no text.
    """

    code: str
    what: str
    exception: str | None = None
    message: str | None = None
