"""The damages and what a broker did with them (truth.json), and our decisions that differ from the broker's (allowed.json).

`KAFKALOG_DAMAGE_CORPUS` names another directory of the same layout: before/, dirs/, truth.json.
"""

from __future__ import annotations

import json
import os
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.corpus import unpacked

ARCHIVE = Path(__file__).parents[1] / "data" / "damage.tar.xz"
ALLOWED = Path(__file__).with_name("allowed.json")
MODES = ("unclean", "full", "clean")  # starts: without the clean shutdown marker; without recovery points too; with the marker

Batch = tuple[int, int, int]  # base offset, last offset, CRC


class Violation(NamedTuple):
    """A result of a command that a law forbids."""

    law: str
    text: str

    def __str__(self) -> str:
        return f"{self.law}: {self.text}"


@cache
def damage_corpus() -> Path:
    """The directory of before/, dirs/ and truth.json. Never write to it: copy first."""
    if given := os.environ.get("KAFKALOG_DAMAGE_CORPUS"):
        return Path(given).resolve()
    return unpacked(ARCHIVE, "damage")


@cache
def truth() -> dict[str, Any]:
    """truth.json. `damages` and `dirs` by id (of several damages at once: `one+other`); `settings` of the broker, `now_ms`.

    A damage has `partition`, `checkpoints` (what those beside it say), `original` (its batches before the damage), `before` (base
    offsets of those still sound in a .log), and for each mode `started`, `words` of the broker, `stray` (renamed), `files` (size
    and SHA-256), `epochs` (the last line is the broker's own new epoch), `left` (base offsets of original batches).
    """
    found: dict[str, Any] = json.loads((damage_corpus() / "truth.json").read_text())
    return found


def not_allowed(damage: str, mode: str, violations: list[Violation]) -> list[str]:
    """Return the violations without a reason in allowed.json, as text.

    An entry has `law`, `damage` and `mode` (patterns), `match` (a part of the text), and `reason`: why we decided otherwise.
    """
    entries = [
        entry for entry in json.loads(ALLOWED.read_text())
        if fnmatchcase(mode, entry.get("mode", "*")) and any(fnmatchcase(one, entry["damage"]) for one in damage.split("+"))
    ]  # fmt: skip
    return [
        str(one) for one in violations
        if not any(entry["law"] == one.law and entry.get("match", "") in one.text for entry in entries)
    ]  # fmt: skip
