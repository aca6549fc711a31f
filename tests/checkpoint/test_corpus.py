"""Every small file of the corpus: what real Kafka printed of snapshots, and no fault in what brokers wrote."""

from __future__ import annotations

from pathlib import Path

from engine.checkpoint.checkpoints import (
    decode_leader_epochs,
    decode_offset_checkpoint,
    encode_leader_epochs,
    encode_offset_checkpoint,
)
from engine.checkpoint.identity import (
    decode_clean_shutdown,
    decode_meta_properties,
    decode_partition_metadata,
    decode_quorum_state,
)
from engine.checkpoint.producer_snapshot import ProducerSnapshot, producer_text
from engine.discovery.names import FileKind, parse_file_name
from engine.discovery.paths import discover
from engine.files import ReadOnlyFiles
from tests.support.corpus import roots
from tests.support.floors import saw_enough

OFFSETS = {
    FileKind.RECOVERY_POINT_CHECKPOINT, FileKind.REPLICATION_CHECKPOINT, FileKind.LOG_START_CHECKPOINT,
    FileKind.CLEANER_CHECKPOINT,
}
IDENTITIES = {
    FileKind.PARTITION_METADATA: decode_partition_metadata,
    FileKind.META_PROPERTIES: decode_meta_properties,
    FileKind.CLEAN_SHUTDOWN: decode_clean_shutdown,
    FileKind.QUORUM_STATE: decode_quorum_state,
}


def log_roots():
    return [root / "logs" for root in roots()]


def test_snapshots_print_as_in_kafka():
    printed = refused = 0
    for logs in log_roots():
        expected = logs.parent / "expected" / "dump"
        for out in sorted(expected.rglob("*.snapshot.out")):
            path = logs / out.relative_to(expected).with_suffix("")
            snapshot = ProducerSnapshot.read(ReadOnlyFiles(), str(path))
            error = snapshot.error()
            lines = [] if error else [producer_text(entry) for entry in snapshot]
            assert lines == out.read_text().splitlines()[1:], path
            err = out.with_suffix(".err")
            assert (error or "") == (err.read_text().rstrip("\n") if err.exists() else ""), path
            printed += bool(lines)
            refused += bool(error)
    saw_enough("snapshots that were printed", printed)
    saw_enough("snapshots that were refused", refused)


def test_what_brokers_wrote_has_no_faults():
    seen = dict.fromkeys(FileKind, 0)
    for logs in log_roots():
        for path in map(Path, discover(ReadOnlyFiles(), str(logs)).paths):
            kind = parse_file_name(path.name).kind
            if "damaged" in path.parts:
                continue
            seen[kind] += 1
            data = path.read_bytes()
            if kind in OFFSETS:
                found = decode_offset_checkpoint(data, str(path))
                assert not data or encode_offset_checkpoint(found.entries) == data, path
            elif kind is FileKind.LEADER_EPOCH_CHECKPOINT:
                found = decode_leader_epochs(data, str(path))
                assert not data or encode_leader_epochs(found.entries) == data, path
            elif kind in IDENTITIES:
                found = IDENTITIES[kind](data, str(path))
                assert found.value is not None
            elif kind is FileKind.PRODUCER_SNAPSHOT:
                assert ProducerSnapshot(data, str(path)).sanity() == [], path
                continue
            else:
                continue
            assert found.findings == [], path
    for kind in (*OFFSETS, *IDENTITIES, FileKind.LEADER_EPOCH_CHECKPOINT, FileKind.PRODUCER_SNAPSHOT):
        saw_enough(kind.name, seen[kind])


def test_damaged_epochs_of_the_recovery_cases_are_noticed(own_corpus):
    for name, faulty in (("garbage", True), ("count", True), ("unordered", True), ("ahead", False), ("behind", False)):
        paths = list(own_corpus.rglob(f"recover-epochs-{name}/before/*/leader-epoch-checkpoint"))
        assert paths, name
        for path in paths:
            assert bool(decode_leader_epochs(path.read_bytes(), str(path)).findings) == faulty, path


def test_every_file_of_the_corpus_is_discovered():
    assert log_roots()
    for logs in log_roots():
        discovery = discover(ReadOnlyFiles(), str(logs))
        missed = {str(path) for path in logs.rglob("*") if path.is_file()} - set(discovery.paths)
        ignored = {finding.where.file for finding in discovery.findings}
        assert {path for path in missed if Path(path).name not in {".lock", "LIST.md", "README.md"}} <= ignored
        assert len(set(discovery.paths)) == len(discovery.paths)
        assert {finding.code for finding in discovery.findings} <= {"name-invalid"}
