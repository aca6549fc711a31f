"""Remove batches from a log."""

from __future__ import annotations

import struct


def cut_out(partition, base, number):
    """Remove batch `number` from a log, and its indexes."""
    log = partition / f"{base:020}.log"
    data, at, ends = log.read_bytes(), 0, []
    while at < len(data):
        at += 12 + struct.unpack_from(">i", data, at + 8)[0]
        ends.append(at)
    log.write_bytes(data[: ends[number - 1]] + data[ends[number] :])
    for suffix in (".index", ".timeindex"):
        (partition / f"{base:020}{suffix}").unlink(missing_ok=True)
