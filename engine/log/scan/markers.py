"""What is said of a control batch that can not be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.findings import Finding, Where
from engine.formats import BatchField

if TYPE_CHECKING:
    from engine.record.control import ControlRecordInvalid
    from engine.record.windows import Window


def unreadable_marker(window: Window, row: int, path: str, error: ControlRecordInvalid) -> Finding:
    """The finding about the control batch in column `row` of a window of the log at `path`."""
    table = window.batches.table
    where = Where(path, window.base + table[BatchField.POSITION, row], table[BatchField.BASE_OFFSET, row])
    producer = table[BatchField.PRODUCER_ID, row]
    what = f"{error}: whether producer {producer} committed or aborted here is not known"
    return Finding("control-record-invalid", where, what)
