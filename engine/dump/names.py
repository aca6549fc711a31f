"""What the name of a file must say to Kafka: a finding where it does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.findings import Finding, Where
from engine.layout import FileKind, file_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.layout import FileName


def base_offset_of(path: str, name: FileName, report: Callable[[Finding], None]) -> int:
    """The offset in the file's name; 0 and a finding where there is none."""
    if name.base_offset is None:
        what = f"the name {file_name(path)!r} does not begin with an offset"
        report(Finding("name-invalid", Where(path), what))
        return 0
    return name.base_offset


def check_log_name(path: str, name: FileName, report: Callable[[Finding], None]) -> None:
    """A finding where the name of a log, of any format, or of a KRaft snapshot does not say what it should."""
    if name.kind in (FileKind.LOG, FileKind.LOG_07):
        base_offset_of(path, name, report)
    elif name.kind is FileKind.KRAFT_SNAPSHOT and (name.base_offset is None or name.epoch is None):
        what = "a KRaft snapshot is named <20 digits>-<10 digits>.checkpoint"
        report(Finding("name-invalid", Where(path), what))
