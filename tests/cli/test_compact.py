"""kafkalog compact: a log dir gives what needs it, the dirtiest first; --dry-run and --explain change nothing."""

from __future__ import annotations

import json
from random import Random
from shutil import copytree
from threading import Barrier

import pytest

from engine.amounts import count_of
from engine.files import ReadOnlyFiles
from engine.formats import BATCH_HEADER, ControlType
from engine.log.cleaner.cleaner import Cleaner
from engine.log.report import moment
from engine.overlay.tree import Spill
from engine.record.batch import read_records
from engine.record.builder import NewRecord, build_batch, end_txn_batch
from engine.record.windows import crc32c
from tests.support.file_work import tree
from tests.support.full_disk import full_disk
from tests.support.json_output import reports_of
from tests.support.keyed_logs import write_keyed_log
from tests.support.live_keys import last_records, lost_keys
from tests.support.memory_files import MemoryFile
from tests.support.permissions import without_permission
from tests.support.run import kafkalog

NOW = 1_764_000_000_000


@pytest.fixture
def log_dir(tmp_path):
    top = tmp_path / "d0"
    top.mkdir()
    (top / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=x\n")
    return top


def append(log_dir, partition, keys, *, codec="uncompressed"):
    """A segment for every record."""
    records = log_dir.parent / "records.jsonl"
    lines = [json.dumps({"key": key, "value": "v" * 50, "timestamp": NOW - 10_000 + at}) for at, key in enumerate(keys)]
    records.write_text("\n".join(lines) + "\n")
    done = kafkalog("append", "--create", "--clean-start", "--now", str(NOW), "--input", str(records), "--batch-size", "1",
                    "--config", "segment.bytes=130", "--config", f"compression.type={codec}", str(log_dir / partition))
    assert done.status == 0, done.err


def logs(directory):
    return {path.name: path.read_bytes() for path in directory.glob("*.log")}


def compact(*arguments, policy="compact"):
    policies = ("--config", f"cleanup.policy={policy}") if policy else ()
    return kafkalog("compact", "--clean-start", "--now", str(NOW), "--format", "json", *policies, *map(str, arguments))


def reports(done):
    return reports_of(done.out)


def test_a_log_dir_gives_the_dirtiest_first_and_leaves_the_clean_alone(log_dir):
    for partition in ("clean-0", "half-0", "dirty-0"):
        append(log_dir, partition, ["a", "b", "a", "b", "a", "b", "a"])
    (log_dir / "cleaner-offset-checkpoint").write_text("0\n3\nclean 0 6\nhalf 0 2\ngone 7 11\n")
    before = {partition: logs(log_dir / partition) for partition in ("clean-0", "half-0", "dirty-0")}
    done = compact(log_dir)
    assert done.status == 0, done.err
    assert [report["partition"].rpartition("/")[2] for report in reports(done)] == ["dirty-0", "half-0"]
    assert logs(log_dir / "clean-0") == before["clean-0"]
    for partition in ("half-0", "dirty-0"):
        assert lost_keys(before[partition], logs(log_dir / partition)) == []
        kept = last_records(logs(log_dir / partition))
        assert {key: last.offset for key, last in kept.items()} == {b"a": 6, b"b": 5}
        assert len(b"".join(logs(log_dir / partition).values())) < len(b"".join(before[partition].values()))
    noted = (log_dir / "cleaner-offset-checkpoint").read_text().splitlines()
    assert noted[:2] == ["0", "3"]
    assert sorted(noted[2:]) == ["clean 0 6", "dirty 0 6", "half 0 6"], "a line of a partition that is not there is stale"
    [said] = reports(compact(log_dir))
    assert (said["partition"], said["exit_status"]) == (str(log_dir), 0)
    assert [event["reason"].partition("; ")[0] for event in said["events"]] == [
        "nothing to compact: 3 of 3 partitions belong to compacted topics, and none exceeds the dirty ratio"
    ]


@pytest.mark.parametrize("option", ["--force", "--explain"])
def test_a_partition_that_may_not_be_entered_keeps_no_other_from_being_done(option, log_dir):
    for partition in ("a-0", "shut-0", "z-0"):
        append(log_dir, partition, ["a", "b", "a", "b"])
    before = logs(log_dir / "z-0")
    with without_permission(log_dir / "shut-0"):
        done = compact(option, log_dir)
    assert done.status == 8
    assert (logs(log_dir / "z-0") == before) == (option == "--explain")
    told = {report["partition"].rpartition("/")[2]: report["exit_status"] for report in reports(done)}
    assert told == {"a-0": 0, "z-0": 0, "shut-0": 8}
    assert f"{log_dir}/shut-0: Permission denied" in done.err


def test_topics_that_are_not_compacted_are_left_alone(log_dir):
    append(log_dir, "a-0", ["a", "a", "a"])
    before = tree(ReadOnlyFiles(), str(log_dir / "a-0"))
    [said] = reports(compact(log_dir, policy="delete"))
    [event] = said["events"]
    assert event["reason"].startswith("nothing to compact: the partition does not belong to a compacted topic, as far as known: ")
    assert "metadata log" in event["reason"]
    assert tree(ReadOnlyFiles(), str(log_dir / "a-0")) == before
    done = compact("--force", log_dir / "a-0", policy="delete")
    assert done.status == 4
    assert b"not compacted: cleanup.policy is delete, not compact; " in done.out
    assert b"--config cleanup.policy=compact" in done.out
    assert tree(ReadOnlyFiles(), str(log_dir / "a-0")) == before


def test_what_was_aborted_stays_aborted_where_a_segment_is_split(log_dir):
    """Else the aborted record would be the last one of its key, and the one that it never replaced would go."""
    def put(offset, value, **options):
        return build_batch([NewRecord(offset, NOW - 10_000, b"a", value)], **options)

    partition = log_dir / "a-0"
    partition.mkdir()
    first = partition / "00000000000000000000.log"
    first.write_bytes(
        put(0, b"committed") + put(1, b"aborted", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
        + end_txn_batch(ControlType.ABORT, 0, base_offset=2, timestamp=NOW - 10_000, producer_id=7, producer_epoch=0)
    )  # fmt: skip
    far = build_batch([NewRecord(2**31 + 5, NOW - 10_000, b"b", b"1"), NewRecord(2**31 + 6, NOW - 10_000, b"b", b"2")])
    (partition / "00000000004294967296.log").write_bytes(build_batch([NewRecord(2**32, NOW - 10_000, b"z", b"z")]))
    assert kafkalog("recover", "--no-quarantine", "--now", str(NOW), str(partition)).status == 4  # offsets are missing
    first.write_bytes(first.read_bytes() + far)
    before = logs(partition)
    done = compact("--force", partition)
    assert "the round starts again: " in done.out.decode()
    assert lost_keys(before, logs(partition)) == []
    assert {key: last.value for key, last in last_records(logs(partition)).items()} == {b"a": b"committed", b"b": b"2", b"z": b"z"}


def write_aborted(partition):
    """Key a: committed at 0, aborted at 1 by a marker at 2. Another key behind it, and in a second segment."""
    def put(offset, value, **options):
        return build_batch([NewRecord(offset, NOW - 10_000, b"a" if offset < 3 else b"b", value)], **options)

    partition.mkdir()
    (partition / "00000000000000000000.log").write_bytes(
        put(0, b"committed") + put(1, b"aborted", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
        + end_txn_batch(ControlType.ABORT, 0, base_offset=2, timestamp=NOW - 10_000, producer_id=7, producer_epoch=0)
        + put(3, b"later")
    )  # fmt: skip
    (partition / "00000000000000000004.log").write_bytes(put(4, b"active"))
    kafkalog("recover", "--no-quarantine", "--now", str(NOW), str(partition))


def test_without_its_transaction_index_a_log_is_left_as_it_is(log_dir):
    """Kafka takes the aborted record for the last one of its key, and the committed one is lost."""
    partition = log_dir / "a-0"
    write_aborted(partition)
    index = partition / "00000000000000000000.txnindex"
    assert index.stat().st_size
    index.unlink()
    before = logs(partition)
    done = compact("--force", partition)
    assert done.status == 4
    [report] = reports(done)
    assert "offset 2: this marker aborts a transaction that is missing from the transaction index" in str(report["events"])
    assert f"kafkalog verify --rebuild {partition}" in str(report["events"])
    assert "a round would fail" in compact("--explain", partition).out.decode()
    assert logs(partition) == before
    assert kafkalog("verify", "--rebuild", str(partition)).status in (1, 4)
    assert compact("--force", partition).status == 0
    assert lost_keys(before, logs(partition)) == []
    assert logs(partition) != before


def test_what_was_aborted_below_the_dirty_part_needs_no_transaction_index(log_dir):
    """Its records are no key's last ones in the map: as where the beginning of the log was deleted, and the rest recovered."""
    partition = log_dir / "a-0"
    write_aborted(partition)
    (partition / "00000000000000000000.txnindex").unlink()
    before = logs(partition)
    refused = compact("--force", "--first-dirty-offset", "1", partition)
    assert refused.status == 4
    assert logs(partition) == before
    assert compact("--force", "--first-dirty-offset", "2", partition).status == 0
    assert logs(partition) != before


def test_a_marker_below_the_dirty_part_ends_its_transaction(log_dir):
    """What the producer writes next is not taken for aborted."""
    def put(offset, key, sequence):
        return build_batch([NewRecord(offset, NOW - 10_000, key, b"%d" % offset)], producer_id=7, producer_epoch=0,
                           base_sequence=sequence, transactional=True)  # fmt: skip

    def end(offset, kind):
        return end_txn_batch(kind, 0, base_offset=offset, timestamp=NOW - 10_000, producer_id=7, producer_epoch=0)

    partition = log_dir / "a-0"
    partition.mkdir()
    (partition / "00000000000000000000.log").write_bytes(
        put(0, b"a", 0) + end(1, ControlType.ABORT) + put(2, b"b", 1) + put(3, b"b", 2) + end(4, ControlType.COMMIT)
    )
    (partition / "00000000000000000005.log").write_bytes(put(5, b"z", 3))
    kafkalog("recover", "--no-quarantine", "--now", str(NOW), str(partition))
    assert compact("--force", "--first-dirty-offset", "2", partition).status == 0
    kept = kafkalog("fetch", "--offset", "0", "--isolation", "read_committed", "-f", "%o %k\\n", str(partition))
    assert kept.out.decode().splitlines() == ["3 b"]


def test_explain_says_how_young_a_segment_is(log_dir):
    append(log_dir, "a-0", ["a", "b", "a", "b", "a"])  # at NOW - 10,000 and on, 1 ms apart
    lag = ("--config", "min.compaction.lag.ms=9998", "--explain", log_dir / "a-0")
    [report] = reports(compact(*lag))
    [limit] = [event["reason"] for event in report["events"] if "uncleanable from" in event["reason"]]
    assert limit == (f"dirty from offset 0, uncleanable from 3: min.compaction.lag.ms; the largest timestamp of that segment, "
                     f"{moment(NOW - 9997)}, is 10.0 s (9997 ms) old, min.compaction.lag.ms=9998: due from {moment(NOW + 1)} on")  # fmt: skip
    assert "uncleanable from 4: active segment" in compact("--now", str(NOW + 1), *lag).out.decode()


@pytest.mark.parametrize("option", ["--force", "--dry-run", "--explain"])
def test_keys_and_tombstones_are_numbers_in_json(option, log_dir):
    write_tombstones(log_dir / "a-0", horizon=NOW - 1)
    [report] = reports(compact("--force", option, log_dir / "a-0"))
    [one] = [event for event in report["events"] if "tombstones" in event]
    assert (one["records"], one["keys"], one["tombstones"]) == (2, 2, 1)


def write_tombstones(partition, *, horizon):
    """Key a: a value, and a tombstone with a delete horizon. Another key, and a second segment."""
    partition.mkdir()
    value, gone, other = (NewRecord(at, NOW - 10_000, key, value) for at, key, value in ((0, b"a", b"1"), (1, b"a", None), (2, b"b", b"2")))
    batches = build_batch([value]), build_batch([gone], delete_horizon_ms=horizon), build_batch([other])
    (partition / "00000000000000000000.log").write_bytes(b"".join(batches))
    (partition / "00000000000000000003.log").write_bytes(build_batch([NewRecord(3, NOW - 10_000, b"a", b"active")]))


def test_an_index_without_room_leaves_the_log_as_it_is(log_dir):
    """Kafka's cleaner dies of it."""
    partition = log_dir / "a-0"
    write_tombstones(partition, horizon=NOW + 1)
    kafkalog("recover", "--no-quarantine", "--now", str(NOW), str(partition))
    before = tree(ReadOnlyFiles(), str(partition))
    done = compact("--force", "--config", "segment.index.bytes=12", "--config", "index.interval.bytes=0", partition)
    assert done.status == 4
    [report] = reports(done)
    assert [event["action"] for event in report["events"]] == ["refused"]
    assert "use a larger --config segment.index.bytes=N" in report["events"][0]["reason"]
    assert tree(ReadOnlyFiles(), str(partition)) == before


def test_what_is_aborted_behind_a_full_map_is_met_before_anything_changes(log_dir):
    def put(offset, key, **options):
        return build_batch([NewRecord(offset, NOW - 10_000, key, b"%d" % offset)], **options)

    partition = log_dir / "a-0"
    partition.mkdir()
    segments = {
        0: put(0, b"a") + put(1, b"a", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True) + put(2, b"b"),
        3: put(3, b"c") + put(4, b"d"),
        5: put(5, b"e") + end_txn_batch(ControlType.ABORT, 0, base_offset=6, timestamp=NOW - 10_000, producer_id=7, producer_epoch=0),
        7: put(7, b"f"),
    }  # fmt: skip
    for base, data in segments.items():
        (partition / f"{base:020d}.log").write_bytes(data)
    kafkalog("recover", "--no-quarantine", "--now", str(NOW), str(partition))
    before = logs(partition)
    small = ("--force", "--dedupe-buffer-size", "72", "--config", "segment.bytes=400")
    whole = log_dir / "b-0"
    copytree(partition, whole)
    (partition / "00000000000000000005.txnindex").unlink()
    for option in ((), ("--rounds", "1")):
        assert compact(*small, *option, partition).status == 4
        assert logs(partition) == before
    assert compact(*small, whole).status == 0
    assert lost_keys(before, logs(whole)) == []
    assert logs(whole) != before


def test_a_full_disk_leaves_the_log_as_it_was_and_says_what_helps(log_dir, tmp_path):
    append(log_dir, "a-0", ["a", "b", "c", "d", "e"])
    before = logs(log_dir / "a-0")
    with full_disk(tmp_path, 100):
        done = compact("--force", log_dir / "a-0")
    assert done.status == 8
    [report] = reports(done)
    assert report["error"]["code"] == "unwritable-file"
    assert "a smaller --config segment.bytes=N" in report["error"]["do"]
    assert logs(log_dir / "a-0") == before


def test_an_aborted_transaction_in_front_of_what_is_read_needs_no_index(log_dir):
    partition = log_dir / "a-0"
    write_aborted(partition)
    (partition / "00000000000000000000.txnindex").unlink()
    assert compact("--force", "--first-dirty-offset", "3", partition).status == 0


def test_offset_indexes_of_nonsense_are_not_believed(log_dir):
    append(log_dir, "a-0", ["a", "b", "a", "b", "a"])
    twin = log_dir / "b-0"
    copytree(log_dir / "a-0", twin)
    for number, index in enumerate(sorted(twin.glob("*.index"))):
        index.write_bytes(Random(number).randbytes(64))
    for partition in (log_dir / "a-0", twin):
        done = compact("--force", partition)
        assert done.status == 0, done.err
    assert logs(twin) == logs(log_dir / "a-0")


def test_the_metadata_log_is_never_compacted(log_dir):
    """Its records have no key. Whoever names all partitions of a log dir, as the shell's * does, names it too."""
    append(log_dir, "a-0", [None, None, None])
    (log_dir / "a-0").rename(log_dir / "__cluster_metadata-0")
    before = logs(log_dir / "__cluster_metadata-0")
    done = compact("--force", log_dir / "__cluster_metadata-0")
    assert done.status == 4
    assert "not compacted: it is the cluster's metadata log" in done.out.decode()
    assert logs(log_dir / "__cluster_metadata-0") == before
    assert "nothing would be deleted: it is the cluster's metadata log" in compact("--explain", log_dir / "__cluster_metadata-0").out.decode()


def test_explain_on_a_log_dir_tells_of_every_log_of_a_compacted_topic(log_dir):
    for partition in ("clean-0", "dirty-0", "active-0"):
        append(log_dir, partition, ["a"] if partition == "active-0" else ["a", "b", "a"])
    (log_dir / "cleaner-offset-checkpoint").write_text("0\n1\nclean 0 2\n")
    told = {report["partition"].rpartition("/")[2]: report["events"][-1]["reason"] for report in reports(compact("--explain", log_dir))}
    assert list(told) == ["dirty-0", "active-0", "clean-0"]
    assert told["dirty-0"].startswith("would delete 0 of 2 records and leave ")
    assert told["clean-0"] == told["active-0"] == "nothing would be deleted: no dirty segment can be cleaned"
    assert compact(log_dir).status == 0
    [said] = reports(compact("--force", log_dir))
    assert said["events"][0]["reason"].endswith("none has dirty records before its active segment")


def test_of_an_empty_log_dir_it_is_said(log_dir):
    done = kafkalog("compact", str(log_dir))
    assert done.status == 0
    assert b"nothing to compact: it contains no partition\n" in done.out


def test_why_a_log_that_is_named_is_not_compacted_and_what_to_do(log_dir):
    append(log_dir, "a-0", ["a", "b", "a", "b", "a"])
    options = ("compact", "--clean-start", "--now", str(NOW), "--config", "cleanup.policy=compact", str(log_dir / "a-0"))
    done = kafkalog(*options, "--min-dirty-ratio", "1")
    assert done.status == 0
    assert b"not compacted: its dirty ratio 1.00 is not above 1.00; --force" in done.out
    assert kafkalog(*options).status == 0
    for _ in range(2):
        done = kafkalog(*options, "--force")
        assert done.status == 0
        assert b"not compacted: no dirty segment can be cleaned: the first uncleanable offset is 4: active segment" in done.out


@pytest.mark.parametrize(("keys", "every"), [([None, "a", None, "a", "b"], False), ([None] * 5, True)])
def test_records_without_a_key_are_told(keys, every, log_dir):
    append(log_dir, "a-0", keys)
    for options, become in ((["--explain"], "would be dropped"), (["--dry-run"], "dropped"), ([], "dropped")):
        [report] = reports(compact("--force", *options, log_dir / "a-0"))
        [told] = [event for event in report["events"] if "without a key" in event["reason"]]
        assert told["records"] == keys[:4].count(None)
        assert told["reason"].startswith(f"{count_of(told['records'], 'record')} without a key {become}")
        assert ("every record" in told["reason"]) is every


def test_nothing_above_the_known_high_watermark_is_cleaned(log_dir):
    append(log_dir, "a-0", ["a", "a", "a", "a", "a", "a"])
    (log_dir / "replication-offset-checkpoint").write_text("0\n1\na 0 3\n")
    assert compact("--force", log_dir).status == 0
    offsets = sorted(int(name[:20]) for name, data in logs(log_dir / "a-0").items() if data)
    assert offsets[-3:] == [3, 4, 5]
    assert (log_dir / "cleaner-offset-checkpoint").read_text() == "0\n1\na 0 3\n"


@pytest.mark.parametrize("option", ["--dry-run", "--explain"])
def test_nothing_is_written_by(option, log_dir):
    append(log_dir, "a-0", ["a", "b", "a", "b", "a"], codec="gzip")
    before = tree(ReadOnlyFiles(), str(log_dir))
    done = compact(option, log_dir)
    assert done.status == 0, done.err
    assert tree(ReadOnlyFiles(), str(log_dir)) == before
    [report] = reports(done)
    assert report["dry_run"]
    assert any(event.get("records") == 2 for event in report["events"]), report
    done = kafkalog("compact", "--now", str(NOW), option, "--config", "cleanup.policy=compact", str(log_dir / "a-0"))
    assert done.status == 0, done.err
    assert tree(ReadOnlyFiles(), str(log_dir)) == before


def test_explain_names_what_is_in_the_way(log_dir):
    append(log_dir, "a-0", ["a", "b", "a", "b", "a"])
    told = compact("--explain", "--config", "min.compaction.lag.ms=9999", log_dir / "a-0").out.decode()
    assert "min.compaction.lag.ms" in told
    assert "active segment" in compact("--explain", log_dir / "a-0").out.decode()
    damaged = log_dir / "a-0/00000000000000000001.log"
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"x")
    before = logs(log_dir / "a-0")
    explained = compact("--explain", log_dir / "a-0")
    assert explained.status == 4
    told = explained.out.decode()
    assert "a round would fail" in told
    (log_dir / "recovery-point-offset-checkpoint").write_text("0\n1\na 0 4\n")  # closed segments lie below it
    advice = next(line for line in told.splitlines() if "recover" in line).partition("kafkalog ")[2].partition("    #")[0]
    assert "would truncate 00000000000000000001.log" in kafkalog(*advice.split()).out.decode(), advice
    assert "at byte 0, offset 1" in told
    refused = compact(log_dir / "a-0")
    assert refused.status == 4
    assert "not compacted, unchanged: " in refused.out.decode()
    assert logs(log_dir / "a-0") == before


def spoil(path, *, checksum):
    """Damage the last batch of a segment, with a right or a wrong checksum."""
    data = bytearray(path.read_bytes())
    data[BATCH_HEADER.size] = 1  # the length of a record, which is then shorter than what it says it holds
    if checksum:
        BATCH_HEADER.put("crc", data, 0, crc32c(memoryview(data)[BATCH_HEADER.positions["attributes"] :]))
    path.write_bytes(data)


SEGMENT_EACH = ("--config", "segment.bytes=130", "--force")


@pytest.mark.parametrize("checksum", [False, True])
@pytest.mark.parametrize("option", [(), ("--dry-run",)])
def test_damage_in_what_is_clean_is_met_before_anything_changes(option, checksum, log_dir):
    """A group in front of it loses what lies again behind the damage: who then cuts the log there would have neither."""
    append(log_dir, "a-0", ["a", "b", "c", "a", "b", "c"])
    (log_dir / "cleaner-offset-checkpoint").write_text("0\n1\na 0 3\n")
    spoil(log_dir / "a-0/00000000000000000002.log", checksum=checksum)
    before = logs(log_dir / "a-0")
    done = compact(*SEGMENT_EACH, *option, log_dir / "a-0")
    assert done.status == 4
    assert "not compacted, unchanged: " in done.out.decode()
    assert logs(log_dir / "a-0") == before


def test_a_marker_without_sense_is_met_before_anything_changes(log_dir):
    append(log_dir, "a-0", ["a", "b", "c", "a", "b", "c"])
    (log_dir / "cleaner-offset-checkpoint").write_text("0\n1\na 0 3\n")
    marker = bytearray(end_txn_batch(ControlType.COMMIT, 0, base_offset=2, timestamp=0, producer_id=1, producer_epoch=0))
    marker[BATCH_HEADER.size + 5] = 0xFF  # the version of its key, which is negative then
    BATCH_HEADER.put("crc", marker, 0, crc32c(memoryview(marker)[BATCH_HEADER.positions["attributes"] :]))
    (log_dir / "a-0/00000000000000000002.log").write_bytes(marker)
    before = logs(log_dir / "a-0")
    done = compact(*SEGMENT_EACH, "--clean-start", log_dir / "a-0")
    assert done.status == 4
    assert "not compacted, unchanged: " in done.out.decode()
    assert logs(log_dir / "a-0") == before


def test_damage_that_nobody_foresaw_says_what_was_cleaned_before_it(log_dir, monkeypatch):
    append(log_dir, "a-0", ["a", "b", "c", "a", "b", "c"])
    (log_dir / "cleaner-offset-checkpoint").write_text("0\n1\na 0 3\n")
    spoil(log_dir / "a-0/00000000000000000002.log", checksum=True)
    before = logs(log_dir / "a-0")
    monkeypatch.setattr(Cleaner, "_read_ahead", lambda *_: None)
    done = compact(*SEGMENT_EACH, log_dir / "a-0")
    assert done.status == 4
    assert "not compacted from offset 2 on; that part is unchanged: " in done.out.decode()
    after = logs(log_dir / "a-0")
    assert sorted(int(name[:20]) for name in before if before[name] != after[name]) == [0, 1]


@pytest.mark.parametrize("checksum", [False, True])
def test_damage_that_a_later_round_would_meet_is_met_before_the_first(checksum, log_dir):
    append(log_dir, "a-0", ["a", "a", "b", "c", "a", "b", "d"])
    spoil(log_dir / "a-0/00000000000000000005.log", checksum=checksum)
    before = logs(log_dir / "a-0")
    small = (*SEGMENT_EACH, "--dedupe-buffer-size", "96")
    done = compact(*small, log_dir / "a-0")
    assert done.status == 4
    assert "not compacted, unchanged: " in done.out.decode()
    assert "a round would fail" in compact(*small, "--explain", log_dir / "a-0").out.decode()
    assert logs(log_dir / "a-0") == before
    one = compact(*small, "--rounds", "1", log_dir / "a-0")  # who asks for one round gets it
    assert one.status == 0
    assert logs(log_dir / "a-0") != before


def test_damage_behind_what_the_first_rounds_reached_says_that_the_rest_is_left(log_dir):
    append(log_dir, "a-0", ["a", "b", "c", "a", "b", "c", "d"])
    spoil(log_dir / "a-0/00000000000000000005.log", checksum=False)
    before = logs(log_dir / "a-0")
    done = compact(*SEGMENT_EACH, "--dedupe-buffer-size", "96", "--rounds", "9", log_dir / "a-0")
    assert done.status == 4
    [report] = reports(done)
    [*rounds, refused] = [event for event in report["events"] if event["action"] in ("compacted", "refused")]
    assert [event["action"] for event in rounds] == ["compacted"]
    assert refused["reason"].startswith("not compacted further, the rest is unchanged: ")
    after = logs(log_dir / "a-0")
    assert {name: after[name] for name in before if int(name[:20]) >= rounds[-1]["end_offset"]} == {
        name: before[name] for name in before if int(name[:20]) >= rounds[-1]["end_offset"]}


def test_an_overflowed_segment_is_split_and_the_rounds_go_on(log_dir):
    """KAFKA-6264: nothing was refused where all was done in the end."""
    def puts(offset, *keys):
        return build_batch([NewRecord(offset + at, NOW - 10_000, key, b"v") for at, key in enumerate(keys)])

    def offsets():
        return {key: last.offset for key, last in last_records(logs(partition)).items()}

    partition = log_dir / "a-0"
    partition.mkdir()
    (partition / "00000000000000000000.log").write_bytes(puts(0, b"a", b"c") + puts(2**31 + 5, b"a", b"b"))
    (partition / "00000000004294967296.log").write_bytes(puts(2**32, b"d"))
    for log in partition.glob("*.log"):  # with indexes it is not read, and so not split, when it is opened
        log.with_suffix(".index").touch()
        log.with_suffix(".timeindex").touch()
    wanted, size = offsets(), sum(map(len, logs(partition).values()))
    once = compact("--force", "--rounds", "1", "--dry-run", partition)
    assert (once.status, "another round compacts it" in once.out.decode()) == (4, True)
    tried, done = compact("--force", "--dry-run", partition), compact("--force", partition)
    assert done.status == 1, done.out
    assert tried.out.replace(b'"dry_run":true', b'"dry_run":false') == done.out
    assert "the round starts again: " in done.out.decode()
    assert offsets() == wanted
    assert sum(map(len, logs(partition).values())) < size


@pytest.mark.parametrize(("minutes", "hangs"), [(20, False), (21, True)])
def test_explain_says_that_a_transaction_hangs(log_dir, minutes, hangs):
    """Nobody may leave one open for longer than transaction.max.timeout.ms, and brokers give five minutes more."""
    open_one = build_batch([NewRecord(0, NOW, b"a", b"v")], transactional=True, producer_id=7, producer_epoch=0, base_sequence=0)
    partition = log_dir / "a-0"
    partition.mkdir()
    (partition / "00000000000000000000.log").write_bytes(open_one)
    (partition / "00000000000000000001.log").touch()
    now = ("--now", str(NOW + minutes * 60_000))
    told = [event["reason"] for event in reports(compact("--explain", *now, partition))[0]["events"]]
    [told] = [reason for reason in told if "has a transaction open" in reason]
    assert told.endswith("; that is longer than transaction.max.timeout.ms allows: it hangs until it is aborted") is hangs, told


def test_after_a_roll_nothing_but_the_active_segment_is_in_the_way(log_dir):
    append(log_dir, "a-0", ["a", "b", "a"])
    assert kafkalog("roll", "--clean-start", "--now", str(NOW), str(log_dir / "a-0")).status == 0
    [report] = reports(compact("--explain", log_dir / "a-0"))
    assert "dirty from offset 0, uncleanable from 3: active segment" in [event["reason"] for event in report["events"]]


def test_several_logs_at_once_leave_what_one_after_the_other_does(log_dir, tmp_path, monkeypatch):
    for number in range(6):
        append(log_dir, f"t-{number}", [str(n % (number + 1)) for n in range(8)])
    before = {path.name: logs(path) for path in log_dir.iterdir() if path.is_dir()}
    in_turn = copytree(log_dir, tmp_path / "in-turn")
    options = ("--max-bytes-per-second", "100000000")
    assert compact("--jobs", "1", *options, in_turn).status == 0
    met, clean = Barrier(4, timeout=30), Cleaner.clean

    def clean_beside_others(cleaner, log, *arguments, **options):
        if int(log.directory[-1]) > 1:  # those of two keys and more: four of them, as there are jobs
            met.wait()  # BrokenBarrierError where they come one after the other
        return clean(cleaner, log, *arguments, **options)

    monkeypatch.setattr(Cleaner, "clean", clean_beside_others)
    assert compact("--jobs", "4", *options, log_dir).status == 0
    for name, data in before.items():
        assert lost_keys(data, logs(log_dir / name)) == []
        assert logs(log_dir / name) == logs(in_turn / name) != data
    noted = (log_dir / "cleaner-offset-checkpoint").read_text().splitlines()
    assert sorted(noted[2:]) == [f"t {number} 7" for number in range(6)]


def test_a_dry_run_says_what_all_rounds_leave(log_dir):
    append(log_dir, "a-0", [str(n % 13) for n in range(60)])
    options = ("--force", "--dedupe-buffer-size", "192", log_dir / "a-0")
    [tried] = reports(compact("--dry-run", *options))
    [done] = reports(compact(*options))
    assert len([event for event in done["events"] if event["action"] == "compacted"]) > 3
    assert {**tried, "dry_run": False} == done


@pytest.mark.parametrize("seed", [3, 5, 17, 24])
def test_what_is_said_to_go_is_what_goes(seed, log_dir):
    """Records of aborted transactions and their markers too, which Kafka's own numbers leave out."""
    def records():
        return sum(1 for name, data in logs(directory).items() for _ in read_records(MemoryFile(name, data), print))

    directory = log_dir / "t-0"
    write_keyed_log(directory, seed, now=NOW, batches=200)
    options = ("--force", "--config", "delete.retention.ms=0", "--dedupe-buffer-size", "480", directory)
    before, size = records(), sum(map(len, logs(directory).values()))
    [explained] = reports(compact("--explain", *options))
    [tried] = reports(compact("--dry-run", *options))
    [done] = reports(compact(*options))
    assert {**tried, "dry_run": False} == done
    rounds = [event for event in done["events"] if event["action"] == "compacted"]
    assert "of aborted transactions or markers" in " ".join(event["reason"] for event in rounds)
    assert sum(event["records"] for event in rounds) == before - records() > 0
    assert sum(event["bytes"] for event in rounds) == size - sum(map(len, logs(directory).values()))
    would_go = explained["events"][-1]
    assert (would_go["records"], would_go["bytes"]) == (rounds[0]["records"], rounds[0]["bytes"])


def test_what_a_dry_run_writes_spills_to_a_file_without_a_name(log_dir, monkeypatch, tmp_path):
    named = []

    class Watched(Spill):
        def file_of(self, path):
            named.extend((tmp_path / "temporary").iterdir())
            file = super().file_of(path)
            spilled.append(file is not None)
            return file

    spilled: list[bool] = []
    monkeypatch.setattr("engine.overlay.tree.Spill", Watched)
    monkeypatch.setattr("engine.overlay.tree.WORTH_IT", 1)
    monkeypatch.setattr("engine.overlay.tree.IN_MEMORY", 0)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    append(log_dir, "a-0", [str(n % 13) for n in range(60)], codec="zstd")
    before = tree(ReadOnlyFiles(), str(log_dir))
    options = ("--force", "--dedupe-buffer-size", "192", log_dir / "a-0")
    [tried] = reports(compact("--dry-run", *options))
    assert tree(ReadOnlyFiles(), str(log_dir)) == before
    assert any(spilled)
    assert named == [], "a dry run that is killed would leave it"
    [done] = reports(compact(*options))
    assert {**tried, "dry_run": False} == done


def test_a_dry_run_without_a_place_for_temporary_files_says_so(log_dir, monkeypatch, tmp_path):
    monkeypatch.setattr("engine.overlay.tree.WORTH_IT", 1)
    monkeypatch.setattr("engine.overlay.tree.IN_MEMORY", 0)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    append(log_dir, "a-0", [str(n % 13) for n in range(60)])
    done = compact("--dry-run", "--force", log_dir / "a-0")
    assert done.status == 8
    assert f"a temporary file in {tmp_path / 'nowhere'}: No such file or directory" in done.err


@pytest.mark.parametrize("content", ["0\n9\na 0 4\n", "nonsense\n", "0\n2\na 0 4\nb zero 4\n"])
def test_of_a_checkpoint_that_a_broker_can_not_read_no_line_counts(content, log_dir):
    append(log_dir, "a-0", ["a", "b", "a", "b", "a"])
    (log_dir / "cleaner-offset-checkpoint").write_text(content)
    explained = compact("--explain", log_dir / "a-0")
    assert "cleaner-offset-checkpoint of the log dir cannot be read" in explained.out.decode()
    assert explained.status == 1
    done = compact(log_dir)
    assert done.status == 1, "it was wrong, and is mended"
    [report] = reports(done)
    assert [event["first_offset"] for event in report["events"] if event["action"] == "compacted"] == [0]
    assert (log_dir / "cleaner-offset-checkpoint").read_text() == "0\n1\na 0 4\n"


def test_metrics_of_the_cleaner(log_dir, tmp_path):
    for partition in ("a-0", "bad-0"):
        append(log_dir, partition, ["a", "b", "a", "b", "a"])
    damaged = log_dir / "bad-0/00000000000000000001.log"
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"x")
    assert compact("--metrics-textfile", tmp_path / "kafkalog.prom", log_dir).status == 4
    lines = (tmp_path / "kafkalog.prom").read_text().splitlines()
    values = dict(line.rsplit(" ", 1) for line in lines if line.startswith("kafka_log_logcleaner"))
    size = sum(len(data) for data in logs(log_dir / "bad-0").values())
    assert float(values.pop("kafka_log_logcleaner_cleaner_recopy_percent")) == 50
    assert {name: float(value) for name, value in values.items()} == {
        "kafka_log_logcleaner_max_buffer_utilization_percent": 0,
        "kafka_log_logcleaner_max_clean_time_secs": 0,
        "kafka_log_logcleaner_max_compaction_delay_secs": 0,
        "kafka_log_logcleanermanager_max_dirty_percent": 100,
        f'kafka_log_logcleanermanager_uncleanable_partitions_count{{logDirectory="{log_dir}"}}': 1,
        f'kafka_log_logcleanermanager_uncleanable_bytes{{logDirectory="{log_dir}"}}': size,
    }


def test_metrics_of_log_dirs_where_nothing_is_wrong_have_their_names_too(log_dir, tmp_path):
    append(log_dir, "a-0", ["a", "b", "a"])
    assert compact("--metrics-textfile", tmp_path / "kafkalog.prom", log_dir / "a-0").status == 0
    lines = (tmp_path / "kafkalog.prom").read_text().splitlines()
    assert f'kafka_log_logcleanermanager_uncleanable_partitions_count{{logDirectory="{log_dir}"}} 0.0' in lines


def test_a_stale_line_beyond_the_log_does_not_hide_it(log_dir):
    append(log_dir, "a-0", ["a", "b", "a", "b", "a"])
    (log_dir / "cleaner-offset-checkpoint").write_text("0\n1\na 0 99999\n")
    [report] = reports(compact(log_dir))
    assert [event["first_offset"] for event in report["events"] if event["action"] == "compacted"] == [0]
    assert any("is outside the log: the whole log counts as dirty" in event["reason"] for event in report["events"])
    assert (log_dir / "cleaner-offset-checkpoint").read_text() == "0\n1\na 0 4\n"


def test_too_small_a_map_and_no_rate_are_refused_before_anything_is_touched(log_dir):
    append(log_dir, "a-0", ["a", "b", "a"])
    append(log_dir, "b-0", ["a", "b", "a"])
    (log_dir / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":1}')
    before = tree(ReadOnlyFiles(), str(log_dir))
    for options, why in (
        (("--dedupe-buffer-size", "10"), "no room for a key"),
        (("--dedupe-buffer-size", "90", "--jobs", "2"), "an offset map of 45 bytes has no room for a key"),
        (("--max-bytes-per-second", "0"), "must be 1 or greater, not '0'"),
    ):
        done = compact("--force", *options, log_dir)
        assert done.status == 2
        assert why in done.out.decode() + done.err
        assert tree(ReadOnlyFiles(), str(log_dir)) == before


@pytest.mark.parametrize(("words", "capacity"), [((), 9), (("--dedupe-buffer-size", "192"), 7), (("--dedupe-buffer-size", "128MiB"), 5033164)])
def test_the_brokers_memory_for_keys_unless_another_is_named(words, capacity, log_dir, tmp_path):
    append(log_dir, "a-0", ["a", "b", "a", "b", "a"])
    server = tmp_path / "server.properties"
    server.write_text("log.cleaner.dedupe.buffer.size=240\n")
    [report] = reports(compact("--explain", "--config-file", server, *words, log_dir))
    assert f"2 distinct keys; the offset map holds {capacity}" in [event["reason"] for event in report["events"]]
    for size, why in (("many", "Not a number of type LONG"), ("10", "no room for a key")):
        server.write_text(f"log.cleaner.dedupe.buffer.size={size}\n")
        done = compact("--explain", "--config-file", server, log_dir)
        assert (done.status, why in done.err) == (2, True)


def test_explain_says_where_the_map_is_full(log_dir):
    append(log_dir, "a-0", [str(n) for n in range(20)])
    [report] = reports(compact("--explain", "--dedupe-buffer-size", "192", log_dir))
    assert "the offset map is full with 7 distinct keys of 7 at offset 7: " in " ".join(e["reason"] for e in report["events"])


def test_what_stands_above_is_named_only_where_something_does(log_dir):
    append(log_dir, "a-0", ["a", "b", "a"])
    (log_dir / "a-0/00000000000000000000.log.cleaned").mkdir()
    before = logs(log_dir / "a-0")
    done = kafkalog("compact", "--force", "--now", str(NOW), "--config", "cleanup.policy=compact", str(log_dir / "a-0"))
    assert done.status == 8
    assert done.out.decode() == f"{log_dir / 'a-0'}: nothing was done\n"
    assert done.err.startswith("error[no-log-of-brokers] ")
    assert "00000000000000000000.log.cleaned" in done.err
    (log_dir / "a-0/00000000000000000000.log.cleaned").rmdir()
    assert logs(log_dir / "a-0") == before


def test_a_ratio_is_a_number(log_dir):
    append(log_dir, "a-0", ["a", "b", "a"])
    done = compact("--min-dirty-ratio", "nan", log_dir)
    assert done.status == 2
    assert "'nan' is not a number" in done.err


def test_one_first_dirty_offset_is_not_that_of_all_logs(log_dir):
    for partition in ("a-0", "b-0"):
        append(log_dir, partition, ["a", "b", "a", "b", "a"])
    (log_dir / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":1}')
    before = tree(ReadOnlyFiles(), str(log_dir))
    done = compact("--force", "--first-dirty-offset", "2", log_dir)
    assert done.status == 2
    assert "--first-dirty-offset needs partitions, named one by one" in done.err
    assert tree(ReadOnlyFiles(), str(log_dir)) == before
    assert compact("--force", "--first-dirty-offset", "2", log_dir / "a-0", log_dir / "b-0").status == 0


@pytest.mark.parametrize("suffix", ["future", "stray"])
def test_a_copy_has_no_line_in_the_checkpoint(suffix, log_dir):
    """KAFKA-8362: a line that speaks of another log makes a broker take what is dirty for clean."""
    copy = f"a-0.0123456789abcdef0123456789abcdef-{suffix}"
    for partition in ("a-0", copy):
        append(log_dir, partition, ["a", "b", "a", "b", "a"])
    (log_dir / "cleaner-offset-checkpoint").write_text("0\n1\na 0 2\n")
    [report] = reports(compact("--force", log_dir / copy))
    assert [event["first_offset"] for event in report["events"] if event["action"] == "compacted"] == [0]
    assert (log_dir / "cleaner-offset-checkpoint").read_text() == "0\n1\na 0 2\n"
