"""A log with open transactions at its end, as after the death of a broker."""

from __future__ import annotations

import json
import struct

from engine.record.builder import NewRecord, build_batch
from tests.support.run import kafkalog

NOW = 1_700_000_000_000
PREPARE_COMMIT, PREPARE_ABORT, ONGOING, COMPLETE_COMMIT = 2, 3, 1, 4  # of a transaction


def append(partition, values, *words):
    partition.parent.mkdir(exist_ok=True)
    source = partition.parent / "input.jsonl"
    source.write_text("".join(json.dumps({"value": value}) + "\n" for value in values))
    done = kafkalog("append", "--create", "--now", str(NOW), "--input", str(source), *words, str(partition))
    assert done.status == 0, done.err
    source.unlink()


def in_transaction(producer, end):
    return ("--producer-id", str(producer), "--transaction", end)


def with_open_transactions(path):
    """Make the partition at `path`: producer 7 commits, 9 aborts; 8 and 6 are open, with records of others between theirs."""
    append(path, ["7a", "7b"], *in_transaction(7, "commit"))  # 0, 1, marker 2
    append(path, ["8a", "8b"], *in_transaction(8, "open"))  # 3, 4
    append(path, ["plain"])  # 5
    append(path, ["9a"], *in_transaction(9, "abort"))  # 6, marker 7
    append(path, ["6a"], *in_transaction(6, "open"))  # 8
    append(path, ["8c"], *in_transaction(8, "open"))  # 9
    append(path, ["7c"], *in_transaction(7, "commit"))  # 10, marker 11
    append(path, ["end"])  # 12
    return path


def transaction_state(log_dir, *states):
    """Make a log of __transaction_state with (transactional id, producer, status, partitions of `t`); the last entry counts."""
    directory = log_dir / "__transaction_state-3"
    directory.mkdir()
    batches = b""
    for offset, (name, producer, status, partitions) in enumerate(states):
        key = struct.pack(">hh", 0, len(name)) + name
        value = struct.pack(">hqhibi", 0, producer, 0, 60_000, status, 1) + struct.pack(">h", 1) + b"t"
        value += struct.pack(f">i{len(partitions)}i", len(partitions), *partitions) + struct.pack(">qq", NOW, NOW)
        batches += build_batch([NewRecord(offset, NOW, key, value)])
    (directory / "00000000000000000000.log").write_bytes(batches)


def of_cluster(log_dir, cluster):
    """Make the log dir of that cluster; None: without meta.properties."""
    log_dir.mkdir(exist_ok=True)
    if cluster is not None:
        (log_dir / "meta.properties").write_text(f"version=1\nnode.id=1\ncluster.id={cluster}\n")
    return log_dir
