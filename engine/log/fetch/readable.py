"""What reading asks of a log: a log that is open for appends, or a view of one beside a broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from engine.checkpoint.checkpoints import EpochEntry
    from engine.formats import AbortedTxn
    from engine.log.segment.log_segments import LogOffsetMetadata
    from engine.log.segment.reading import ReadableSegment


class Epochs(Protocol):
    """Which leader wrote from which offset on."""

    @property
    def entries(self) -> Sequence[EpochEntry]:
        """The oldest first."""
        ...


class ReadableSegments(Protocol):
    """What reading asks of the segments of a log."""

    def __iter__(self) -> Iterator[ReadableSegment]:
        """From the oldest to the newest."""
        ...

    def floor_segment(self, offset: int) -> ReadableSegment | None:
        """The segment with the largest base offset at or below `offset`."""
        ...

    def higher_segment(self, offset: int) -> ReadableSegment | None:
        """The segment with the smallest base offset above `offset`."""
        ...


class ReadableLog(Protocol):
    """What reading asks of a log."""

    @property
    def directory(self) -> str:
        """The partition directory."""
        ...

    @property
    def segments(self) -> ReadableSegments:
        """All segments."""
        ...

    @property
    def log_start_offset(self) -> int:
        """The first offset that readers may see."""
        ...

    @property
    def log_end_offset(self) -> int:
        """The offset of the next record."""
        ...

    @property
    def leader_epoch_cache(self) -> Epochs:
        """The leader epochs."""
        ...

    @property
    def undecided(self) -> Sequence[AbortedTxn]:
        """Open transactions that are read as aborted ones."""
        ...

    def log_end_offset_metadata(self) -> LogOffsetMetadata:
        """The log end with its place."""
        ...

    def fetch_high_watermark_metadata(self) -> LogOffsetMetadata:
        """The high watermark with its place."""
        ...

    def fetch_last_stable_offset_metadata(self) -> LogOffsetMetadata:
        """The last stable offset with its place."""
        ...
