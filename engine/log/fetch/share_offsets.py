"""Offsets of share groups, as the logs of `__share_group_state` have them. Mirrors ShareCoordinatorShard (KIP-932).

A module of its own: share coordinators have a topic of their own, and other records than group coordinators.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

from engine.findings import Finding, Where
from engine.log.fetch.coordinator_logs import coordinator_logs, coordinator_records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from engine.files import ReadOnlyFiles

SHARE_TOPIC = "__share_group_state"
_UNSET = -1  # PartitionFactory.UNINITIALIZED_START_OFFSET; in an update: unchanged


class ShareOffset(NamedTuple):
    """Where a share group is in a partition.

    start      its share-partition start offset: all records before it are done; −1: nothing was read yet
    delivered  records from there on that are done; −1: not known (before Kafka 4.2)
    time_ms    of the last record about it
    """

    start: int
    delivered: int
    leader_epoch: int
    time_ms: int


def read_share_offsets(
    files: ReadOnlyFiles, log_dirs: Iterable[str], report: Callable[[Finding], None], until_ms: int | None = None
) -> dict[str, dict[tuple[str, int], ShareOffset]]:
    """Return group → (topic id, partition) → offset. No log of the topic: none.

    log_dirs, report, until_ms   as for `read_groups`. Raises UnreadableFile, FileChangedWhileReading.
    """
    from engine.schema.decode import decoder

    decode = decoder("share-group-state").data
    found: dict[str, dict[tuple[str, int], ShareOffset]] = {}
    for directory in coordinator_logs(files, log_dirs, SHARE_TOPIC).values():
        for record in coordinator_records(files, directory, report):
            if record.batch.is_control or (until_ms is not None and record.timestamp > until_ms):
                continue
            decoded = cast("dict[str, Any]", decode(record.offset, record.key, record.value))
            if decoded["key"] is None or (decoded["value"] is None and record.value is not None):
                what = f"the record of the share coordinator is skipped: {decoded['problem']}"
                report(Finding("record-undecodable", Where(directory, None, record.offset), what))
                continue
            key = decoded["key"]["data"]
            of_group = found.setdefault(key["groupId"], {})
            partition = key["topicId"], key["partition"]
            if decoded["value"] is None:
                of_group.pop(partition, None)
            else:
                of_group[partition] = _after(of_group.get(partition), decoded["value"]["data"], record.timestamp)
    return found


def _after(before: ShareOffset | None, value: dict[str, Any], time_ms: int) -> ShareOffset:
    """The offset after a ShareSnapshot or a ShareUpdate, which leaves out what does not change."""
    start, delivered = value["startOffset"], value.get("deliveryCompleteCount", _UNSET)
    if before is not None and start == _UNSET:
        start = before.start
    if before is not None and delivered == _UNSET:
        delivered = before.delivered
    return ShareOffset(start, delivered, value["leaderEpoch"], time_ms)
