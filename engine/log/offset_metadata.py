"""An offset and its place in a log. A module of its own, so that reading does not load what changes logs."""

from __future__ import annotations

from typing import NamedTuple


class LogOffsetMetadata(NamedTuple):
    """An offset and where its batch lies: base offset of the segment, byte position; None where nobody looked."""

    message_offset: int
    segment_base_offset: int | None = None
    position: int | None = None

    @property
    def is_offset_only(self) -> bool:
        """Is the place unknown?"""
        return self.segment_base_offset is None
