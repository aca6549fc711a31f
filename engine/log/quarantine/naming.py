"""Where a quarantine lies that nobody chose a place for: beside its log dir, by the time at which it was begun."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.files import ReadOnlyFiles

_LATEST = 253_402_300_799  # seconds since 1970: the end of the year 9999, behind which there is no calendar


def quarantine_beside(files: ReadOnlyFiles, log_dir: str, now: int, of: str = "") -> str:
    """A path where nothing is, for the quarantine of `log_dir`. Raises UnreadableFile.

    now  ms since 1970, of any size        of  what of the log dir it is for, such as a partition; "": for all of it
    """
    when = _utc(now).strftime("%Y%m%dT%H%M%SZ")
    directory = first = f"{files.resolve(log_dir)}.quarantine-{when}" + (f"-{of}" if of else "")
    number = 1
    while files.exists(directory):
        number += 1
        directory = f"{first}-{number}"
    return directory


def time_text(at: int) -> str:
    """A time in ms since 1970, of any size, for people."""
    return _utc(at).strftime("%Y-%m-%d %H:%M:%S UTC")


def _utc(at: int) -> datetime:
    return datetime.fromtimestamp(min(at // 1000, _LATEST), UTC)
