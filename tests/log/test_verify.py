"""Verification of a partition: silent about what brokers write, loud about every damage, and it says what does harm."""

from __future__ import annotations

import gc
import shutil
import struct
from pathlib import Path

import pytest

from engine.config.topic import LogConfig
from engine.files import Files, ReadOnlyFiles
from engine.findings import Severity
from engine.log.loading.loader import open_log
from engine.log.logdir.log_manager import NoLogOfBrokers
from engine.log.verify.partition import verify_partition
from engine.log.verify.rebuild import Rebuilder
from engine.record.builder import NewRecord, build_batch
from tests.support.corpus import corpus_directory

INDEX, TIME, TXN, LOG = "{:020d}.index", "{:020d}.timeindex", "{:020d}.txnindex", "{:020d}.log"
SNAPSHOT, EPOCHS = "{:020d}.snapshot", "leader-epoch-checkpoint"


def real_partitions():
    """Every partition that a real broker left behind."""
    top = corpus_directory()
    folders = [*top.glob("kafka-4.3.1/logs/clean"), *top.glob("kafka-4.3.1/logs/unclean"), *top.glob("kafka-4.3.1/logs/killed*"),
               *top.glob("kafka-4.3.1/logs/tiered"), *top.glob("old/*/logs")]  # fmt: skip
    found = {path.parent for folder in folders for path in folder.rglob("*.log")}
    return sorted(str(path.relative_to(top)) for path in found)


def verify(directory):
    findings = []
    result = verify_partition(ReadOnlyFiles(), str(directory), findings.append)
    return findings, result


@pytest.mark.parametrize("path", real_partitions())
def test_what_brokers_of_all_ages_leave_behind_is_sound(path):
    findings, result = verify(corpus_directory() / path)
    assert [finding for finding in findings if finding.severity is not Severity.INFO] == []
    assert result.segments >= 1


@pytest.fixture
def partition(own_corpus, tmp_path):
    """Two segments with transactions, snapshots and epochs, as the broker closed them."""
    target = tmp_path / "topic-0"
    shutil.copytree(own_corpus / "kafka-4.3.1/cases/recover-open-transaction/expected/topic-0", target)
    assert verify(target)[0] == []
    return target


def overwrite(path: Path, at: int, data: bytes) -> None:
    content = bytearray(path.read_bytes())
    content[at : at + len(data)] = data
    path.write_bytes(content)


def entries(path: Path, code: str) -> list[tuple[int, ...]]:
    return list(struct.iter_unpack(code, path.read_bytes()))


def codes(directory):
    return [(finding.code, Path(finding.where.file).name, finding.where.position) for finding in verify(directory)[0]]


def only(directory, code, name, position, *, harmless):
    findings, result = verify(directory)
    assert [(finding.code, Path(finding.where.file).name, finding.where.position) for finding in findings] == [
        (code, name, position)
    ]
    assert result.worst is Severity.WARNING
    assert (": harmless" in findings[0].what, "not harmless" in findings[0].what) == (harmless, not harmless)


def test_an_offset_that_no_broker_writes_there(partition):
    index = partition / INDEX.format(0)
    rows = entries(index, ">ii")
    assert len(rows) > 3
    overwrite(index, 8, struct.pack(">i", rows[1][0] - 1))  # inside the batch, which has more records
    only(partition, "index-offset-mismatch", index.name, 8, harmless=True)
    overwrite(index, 8, struct.pack(">i", rows[0][0] + 1))  # ends before the batch begins: readers would miss it
    only(partition, "index-offset-mismatch", index.name, 8, harmless=False)


def test_a_position_where_no_batch_begins(partition):
    index = partition / INDEX.format(0)
    rows = entries(index, ">ii")
    overwrite(index, 12, struct.pack(">i", rows[1][1] + 1))
    only(partition, "index-beyond-log", index.name, 8, harmless=False)
    overwrite(index, 12, struct.pack(">i", rows[1][1]))
    index.write_bytes(index.read_bytes() + struct.pack(">ii", 2**20, 2**20))
    only(partition, "index-beyond-log", index.name, 8 * len(rows), harmless=False)


def test_entries_out_of_order_are_compared_all_the_same(partition):
    index = partition / INDEX.format(0)
    rows = entries(index, ">ii")
    index.write_bytes(b"".join(struct.pack(">ii", *row) for row in [rows[1], rows[0], *rows[2:]]))
    assert codes(partition) == [("index-out-of-order", index.name, 8), ("index-out-of-order", index.name, 8)]


def test_a_timestamp_that_hides_records(partition):
    index = partition / TIME.format(0)
    rows = entries(index, ">qi")
    overwrite(index, 12, struct.pack(">q", rows[1][0] + 1))
    only(partition, "timeindex-timestamp-mismatch", index.name, 12, harmless=True)
    overwrite(index, 12, struct.pack(">q", rows[0][0] + 1))
    findings = verify(partition)[0]
    assert [(finding.code, finding.where.position) for finding in findings] == [("timeindex-timestamp-mismatch", 12)]
    overwrite(index, 12, struct.pack(">qi", rows[1][0], rows[2][1]))
    assert ("timeindex-timestamp-mismatch", index.name, 12) in codes(partition)
    assert any("not harmless" in finding.what for finding in verify(partition)[0])


def test_a_time_index_cut_short(partition):
    index = partition / TIME.format(0)
    index.write_bytes(index.read_bytes()[:-12])
    assert codes(partition) == [("timeindex-incomplete", index.name, None)]
    index.unlink()
    assert codes(partition) == [("index-missing", index.name, None)]


@pytest.mark.parametrize(("name", "size"), [(INDEX, 8), (TIME, 12)])
def test_unused_space_is_harmless_only_where_a_broker_looks_at_it(partition, name, size):
    for base, is_clean, code in ((45, False, "index-zero-tail"), (45, True, "index-untrimmed"), (0, False, "index-untrimmed")):
        index = partition / name.format(base)
        before = index.read_bytes()
        index.write_bytes(before + bytes(10 * size))
        marker = partition.parent / ".kafka_cleanshutdown"
        if is_clean:
            marker.write_text("")
        assert codes(partition) == [(code, index.name, len(before))]
        index.write_bytes(before)
        marker.unlink(missing_ok=True)


def test_transaction_index(partition):
    index = partition / TXN.format(0)
    rows = entries(index, ">hqqqq")
    assert rows
    index.write_bytes(index.read_bytes()[34:])
    assert codes(partition) == [("txnindex-incomplete", index.name, None)]
    for field, value in ((1, rows[0][1] + 1), (2, rows[0][2] + 1), (4, rows[0][4] + 1)):
        changed = [*rows[0]]
        changed[field] = value
        index.write_bytes(b"".join(struct.pack(">hqqqq", *row) for row in [changed, *rows[1:]]))
        assert codes(partition) == [("txnindex-mismatch", index.name, 0)], field
    index.unlink()
    assert {code for code, *_ in codes(partition)} == {"txnindex-incomplete"}


def test_a_committed_transaction_named_as_aborted(partition):
    from engine.formats import ABORTED_TXN, AbortedTxn
    from engine.record.batch import read_records

    with ReadOnlyFiles().open(str(partition / LOG.format(0))) as file:
        commits = [r for r in read_records(file, print) if r.batch.is_control and r.key == b"\0\0\0\1"]
    commit = commits[-1]
    index = partition / TXN.format(0)
    rows = [(number, row) for number, row in enumerate(entries(index, ">hqqqq")) if row[3] < commit.offset]
    data = index.read_bytes()
    entry = ABORTED_TXN.pack(AbortedTxn(0, commit.batch.producer_id, commit.offset - 1, commit.offset, commit.offset + 1))
    index.write_bytes(data[: 34 * len(rows)] + entry + data[34 * len(rows) :])
    found = [finding for finding in verify(partition)[0] if finding.where.offset == commit.offset]
    assert [finding.code for finding in found] == ["txnindex-mismatch"]
    assert "not harmless" in found[0].what


def test_a_snapshot_of_another_moment(partition):
    from engine.record.windows import crc32c

    path = partition / SNAPSHOT.format(45)
    data = bytearray(path.read_bytes())
    assert len(data) >= 56
    data[10 + 10 : 10 + 14] = struct.pack(">i", 4711)  # the first producer's last sequence
    data[2:6] = struct.pack(">I", crc32c(bytes(data[6:])))
    path.write_bytes(data)
    assert codes(partition) == [("snapshot-mismatch", path.name, None)]
    path.write_bytes(data[:-1])
    assert codes(partition) == [("snapshot-corrupt", path.name, 0)]
    path.unlink()
    beyond = partition / SNAPSHOT.format(9999)
    shutil.copy(max(partition.glob("*.snapshot")), beyond)
    assert codes(partition) == [], "a truncation within a batch leaves such a snapshot"
    data = bytearray(beyond.read_bytes())
    data[10 + 14 : 10 + 22] = struct.pack(">q", 9998)  # the first producer's last offset
    data[2:6] = struct.pack(">I", crc32c(bytes(data[6:])))
    beyond.write_bytes(data)
    assert codes(partition) == [("snapshot-beyond-log", SNAPSHOT.format(9999), None)]
    result = verify(partition)[1]
    assert (result.worst, result.is_broken) == (Severity.WARNING, False)


def test_leader_epochs(partition):
    path = partition / EPOCHS
    assert path.read_text() == "0\n1\n0 0\n"
    for text, expected in (
        ("0\n1\n1 0\n", "epochs-mismatch"),  # another epoch
        ("0\n2\n0 0\n1 10\n", "epochs-mismatch"),  # a change that no batch knows of
        ("", "epochs-mismatch"),
        ("0\n1\n0 5\n", "epochs-start-late"),
        ("0\n2\n0 0\n1 4711\n", "epochs-beyond-log"),
        ("0\n9\n0 0\n", "file-malformed"),
    ):
        path.write_text(text)
        assert [code for code, *_ in codes(partition)] == [expected], text
    (partition.parent / "log-start-offset-checkpoint").write_text("0\n0\n")
    path.write_text("0\n1\n0 5\n")
    assert [code for code, *_ in codes(partition)] == ["epochs-mismatch"]
    (partition.parent / "log-start-offset-checkpoint").write_text("0\n1\ntopic 0 5\n")
    assert codes(partition) == []


def test_damage_of_the_log_itself(partition):
    log = partition / LOG.format(45)
    whole = log.read_bytes()
    overwrite(log, 100, b"\xff\xfe")
    assert codes(partition)[0] == ("crc-mismatch", log.name, 0)
    log.write_bytes(whole + bytes(100))
    assert codes(partition) == [("zero-tail", log.name, len(whole))]
    log.write_bytes(whole + whole[:50])
    assert codes(partition) == [("torn-tail", log.name, len(whole))]
    log.write_bytes(whole + whole)
    assert ("offset-order", log.name, len(whole)) in codes(partition)


def test_left_overs_and_foreign_names(partition):
    (partition / "00000000000000000007.index").write_bytes(bytes(8))
    (partition / "7.log").write_bytes(b"")
    (partition / "abc.index").write_bytes(b"")
    (partition / "00000000000000000000.log.deleted").write_bytes(b"garbage")
    assert codes(partition) == [
        ("name-invalid", "7.log", None), ("name-invalid", "abc.index", None),
        ("log-missing", "00000000000000000007.index", None),
    ]  # fmt: skip


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".txnindex"])
def test_an_index_whose_link_leads_nowhere_is_one_finding_and_the_link_stays(partition, suffix):
    path = partition / (LOG.format(0).removesuffix(".log") + suffix)
    path.unlink(missing_ok=True)
    path.symlink_to(partition.parent / "gone" / "far")
    findings, _ = verify(partition)
    assert {(finding.code, finding.where.file) for finding in findings} <= {
        ("index-missing", str(path)), ("txnindex-incomplete", str(path)),
    }  # fmt: skip
    assert len({finding.code for finding in findings}) == 1
    assert ("a target that does not exist" in findings[0].what) == (findings[0].code == "index-missing")
    with pytest.raises(NoLogOfBrokers, match="a symbolic link to a target that does not exist"):
        Rebuilder(Files(), str(partition), LogConfig(), findings, 1_700_003_600_000)
    assert path.is_symlink(), "nothing could put it back"
    path.unlink()
    Rebuilder(Files(), str(partition), LogConfig(), findings, 1_700_003_600_000).run()
    assert verify(partition)[0] == []


def test_it_stops_when_told_to(partition):
    answers = iter([True, False])
    result = verify_partition(ReadOnlyFiles(), str(partition), print, lambda: next(answers))
    assert result.segments == 1


def test_offsets_at_the_edge_of_64_bits(own_corpus, tmp_path):
    shutil.copytree(own_corpus / "kafka-4.3.1/cases/lookup-v1/before/topic-0", tmp_path / "topic-0")
    for offset in (-(2**63), 2**63 - 1):
        overwrite(tmp_path / "topic-0" / LOG.format(0), 0, struct.pack(">q", offset))
        assert verify(tmp_path / "topic-0")[1].segments == 1


def test_base_offsets_beyond_2_to_the_62(tmp_path):
    """No broker gets there, but one opens them, and recovery knows them."""
    for base, verdict in ((2**63 - 2**33, []), (2**63 - 1000, ["name-invalid"])):
        directory = tmp_path / f"t-{base}"
        directory.mkdir()
        batches = [build_batch([NewRecord(base + at, 1000, None, b"v")], base_offset=base + at) for at in (0, 1, 900)]
        (directory / LOG.format(base)).write_bytes(b"".join(batches))
        recovered = open_log(Files(), str(directory), LogConfig.of({"index.interval.bytes": "0"}), now=2000, clean_shutdown=False)
        recovered.close()
        assert recovered.log_end_offset == base + 901
        findings, result = verify(directory)
        found = {finding.code for finding in findings if finding.code != "offset-gap"}
        assert (sorted(found), result.segments) == (verdict, 0 if verdict else 1)
        assert all("are not checked" in finding.what for finding in findings if verdict)
        assert result.offset_entries == (0 if verdict else 2)


def test_logs_of_kafka_0_7_have_only_their_checksums(own_corpus):
    logs = own_corpus / "old/0.7.2/logs"
    for name, expected in (("plain-0", []), ("mixed-topic-12", []), ("bad-crc-0", ["crc-mismatch"]), ("torn-0", ["torn-tail"])):
        findings, result = verify(logs / name)
        assert [finding.code for finding in findings] == expected, name
        assert result.segments >= 1


def test_nothing_of_a_partition_waits_for_the_garbage_collector(own_corpus):
    """Thousands of partitions are verified in one run: the columns and windows of each go at once."""
    directory = str(own_corpus / "kafka-4.3.1/logs/clean/d0/tx-0")
    verify(directory)
    gc.collect()
    gc.disable()
    try:
        verify(directory)
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_sequence_numbers_of_a_producer_rise(own_corpus, tmp_path):
    """As after two batches of 4 records got each other's base offsets: 18 and 22 differ in one bit."""
    shutil.copytree(own_corpus / "kafka-4.3.1/logs/clean/d1/small_segments-0", tmp_path / "small_segments-0")
    first, second = (tmp_path / f"small_segments-0/{base:020}.log" for base in (0, 22))
    one, other = first.read_bytes()[2002:], second.read_bytes()[:517]
    first.write_bytes(first.read_bytes()[:2002] + one[:8] + other[8:])
    second.write_bytes(other[:8] + one[8:] + second.read_bytes()[517:])
    found = [finding for finding in verify(tmp_path / "small_segments-0")[0] if finding.code == "sequence-order"]
    assert [(finding.where.offset, finding.what) for finding in found] == [
        (22, "producer 1006, epoch 0: sequence number 18 after 25")]
