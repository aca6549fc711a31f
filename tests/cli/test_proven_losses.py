"""What the disk proves to be lost is reported with its offsets, by verify and by recover, before and after a repair."""

from __future__ import annotations

import shutil
import struct

import pytest

from engine.amounts import offsets_text
from engine.config.server import Settings, server_config
from engine.files import ReadOnlyFiles
from engine.findings import LOSSES
from engine.log.logdir.log_dirs import find_log_dirs
from engine.log.logdir.log_manager import LogManager
from engine.log.logdir.startup import survey
from engine.log.tiering import Tiering
from engine.overlay import OverlayFiles
from tests.support.file_work import tree
from tests.support.json_output import objects_of, reports_of
from tests.support.lost_batches import cut_out
from tests.support.run import kafkalog
from tests.support.small_logs import emptied

NOW = "1764000000000"
COMPACT = ("--config", "cleanup.policy=compact")
PARTITION = "small_segments-0"  # segments 0, 22, 42, 63, 83; it ends at 89; epochs 0@0 and 2@88; keys do not repeat
EVERY_SUFFIX = (".log", ".index", ".timeindex", ".snapshot")


@pytest.fixture
def top(own_corpus, tmp_path):
    """The log dirs of a broker that was stopped cleanly; d0 holds the metadata log, d1 the partition."""
    shutil.copytree(own_corpus / "kafka-4.3.1/logs/clean", tmp_path / "logs")
    return tmp_path / "logs"


@pytest.fixture
def partition(top):
    for marker in top.glob("d?/.kafka_cleanshutdown"):
        marker.unlink()
    return top / "d1" / PARTITION


def segment(partition, base, *suffixes):
    return [partition / f"{base:020}{suffix}" for suffix in suffixes]


def drop(partition, base, *suffixes):
    for path in segment(partition, base, *(suffixes or EVERY_SUFFIX)):
        path.unlink(missing_ok=True)


def set_line(checkpoint, topic, offset):
    """Set, add or (None) remove the line of partition 0 of a topic."""
    lines = [line for line in checkpoint.read_text().splitlines()[2:] if not line.startswith(f"{topic} 0 ")]
    lines += [] if offset is None else [f"{topic} 0 {offset}"]
    checkpoint.write_text("\n".join(["0", str(len(lines)), *lines, ""]))


def verified(*words):
    """{code: [offsets]} of findings that are not harmless; the verdicts; the status."""
    done = kafkalog("verify", "--format", "jsonl", *map(str, words))
    rows = objects_of(done.out)
    found = {}
    for row in rows:
        if row["type"] == "finding" and row["severity"] != "info":
            found.setdefault(row["code"], []).append(row.get("offset"))
    return found, [row["verdict"] for row in rows if row["type"] == "verification"], done.status


def recovered(*words, name=PARTITION):
    """What `recover` reports as missing, and the status of the partition; the dry run reports the same."""
    both = []
    for more in (("--dry-run",), ()):
        done = kafkalog("recover", "--now", NOW, "--format", "json", "--no-quarantine", *more, *map(str, words))
        reports = reports_of(done.out)
        report = next(one for one in reports if one["partition"].endswith(name))
        both.append((report["events"], report["exit_status"]))
    assert both[0] == both[1]
    events, status = both[1]
    return [(one["first_offset"], one["end_offset"]) for one in events if one["action"] == "missing"], status


@pytest.mark.parametrize("kind", ["recovery-point", "replication"])
def test_a_checkpoint_beyond_the_log_proves_a_loss(partition, kind):
    set_line(partition.parent / f"{kind}-offset-checkpoint", "small_segments", 120)
    assert verified(partition) == ({"checkpoint-beyond-log": [120]}, ["offsets-missing"], 4)
    assert recovered(partition.parent) == ([(89, 120)], 4)
    lines = (partition.parent / f"{kind}-offset-checkpoint").read_text().splitlines()
    is_left = "small_segments 0 120" in lines
    assert is_left == (kind == "replication"), "a recovery point beyond the log would have a broker believe what it did not write"
    assert recovered(partition.parent) == (([(89, 120)], 4) if is_left else ([], 0))


def test_lost_segments_at_the_end(partition):
    for base in (63, 83):
        drop(partition, base, ".log", ".index", ".timeindex")
    found, verdicts, status = verified(partition)
    assert (found["checkpoint-beyond-log"], verdicts, status) == ([89, 89], ["offsets-missing"], 4)
    assert found["snapshot-beyond-log"] == [83, 88, 89]
    assert found["epochs-beyond-log"] == [88]
    assert recovered("--clean-start", partition.parent) == ([(63, 89)], 4)


@pytest.mark.parametrize("words", [(), ("--salvage",)])
def test_an_older_log_beside_newer_indexes(partition, words):
    """What is truncated is named, and what the index knows beyond that as well."""
    shutil.copytree(partition, partition.parent.parent / "copy" / PARTITION)  # alone: no checkpoint tells
    partition = partition.parent.parent / "copy" / PARTITION
    drop(partition, 89, ".snapshot")
    log = partition / f"{63:020}.log"
    drop(partition, 83)
    drop(partition, 88, ".snapshot")
    (partition / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    log.write_bytes(log.read_bytes()[: 12 + struct.unpack_from(">i", log.read_bytes(), 8)[0]])  # its first batch
    found, _, status = verified(partition)
    assert ("index-beyond-log" in found, status) == (True, 4)
    missing, status = recovered(*words, partition)
    assert (len(missing), status) == (1, 4)
    assert missing[0][1] > missing[0][0]


def test_a_lost_first_segment(partition):
    drop(partition, 0)
    assert verified(partition) == ({"epochs-before-log": [0]}, ["offsets-missing"], 4)
    assert recovered(partition.parent) == ([(0, 22)], 4)
    assert verified(partition)[0] == {"epochs-before-log": [0]}


def test_a_log_start_before_the_first_segment_is_not_called_lost_nor_silently_sound(own_corpus, tmp_path):
    """As with remote storage; nothing beside the partition tells whether it has that."""
    shutil.copytree(own_corpus / "kafka-4.3.1/logs/clean/d1" / PARTITION, tmp_path / PARTITION)
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\nsmall_segments 0 3\n")
    drop(tmp_path / PARTITION, 0)
    done = kafkalog("verify", "--format", "jsonl", str(tmp_path / PARTITION))
    [finding] = [row for row in objects_of(done.out) if row["type"] == "finding"]
    assert (finding["code"], finding["severity"], finding["offset"], done.status) == ("records-in-remote-storage", "info", 3, 0)
    assert "offsets 3 to 21, not checked" in finding["what"]
    known = verified("--config", "remote.storage.enable=false", tmp_path / PARTITION)
    assert known[0] == {"epochs-before-log": [3]}


NOT_TIERED = ("--config", "remote.storage.enable=false")


def begin_late(partition, line, epochs):
    """The segments before 42 are gone; a line of the log start, and leader epochs."""
    for base in (0, 22):
        drop(partition, base)
    set_line(partition.parent / "log-start-offset-checkpoint", "small_segments", line)
    (partition / "leader-epoch-checkpoint").write_text(epochs)
    return partition


@pytest.fixture
def alone(own_corpus, tmp_path):
    """The partition in a log dir without the metadata log."""
    shutil.copytree(own_corpus / "kafka-4.3.1/logs/clean/d1" / PARTITION, tmp_path / "alone" / PARTITION)
    (tmp_path / "alone/log-start-offset-checkpoint").write_text("0\n0\n")
    return tmp_path / "alone" / PARTITION


def test_a_log_start_below_the_first_segment_is_evidence_without_epochs(alone):
    begin_late(alone, 25, "0\n0\n")
    assert verified(*NOT_TIERED, alone)[0]["start-before-log"] == [25]
    assert recovered(*NOT_TIERED, alone) == ([(25, 42)], 4)


REMOTE = "remote storage may hold offsets 25 to 41, not checked"


def test_without_epochs_and_settings_the_log_start_stays(alone):
    """It may be tiered: moved up to the first segment the line would have a leader delete what is in remote storage."""
    begin_late(alone, 25, "0\n0\n")
    done = kafkalog("verify", "--format", "jsonl", str(alone))
    assert b'"code":"records-in-remote-storage","severity":"info"' in done.out.replace(b'": "', b'":"').replace(b", ", b",")
    done = kafkalog("recover", "--now", NOW, "--no-quarantine", str(alone.parent))
    assert REMOTE in done.out.decode()
    assert "small_segments 0 25" in (alone.parent / "log-start-offset-checkpoint").read_text()


def test_malformed_epochs_of_a_log_that_may_be_tiered_have_epoch_0_from_the_log_start_on(alone):
    """The first local batch is of epoch 0, and no epoch is below it."""
    begin_late(alone, 25, "0\n1\nno epoch\n")
    done = kafkalog("recover", "--now", NOW, "--no-quarantine", str(alone))
    assert (done.status, REMOTE in done.out.decode()) == (1, True)
    assert (alone / "leader-epoch-checkpoint").read_text().splitlines()[2:] == ["0 25", "2 88"]


def test_malformed_epochs_of_a_log_that_is_not_tiered_are_made_anew(alone):
    begin_late(alone, 25, "0\n1\nno epoch\n")
    assert recovered(*NOT_TIERED, alone) == ([(25, 42)], 4)
    assert (alone / "leader-epoch-checkpoint").read_text().splitlines()[2:] == ["0 42", "2 88"]


@pytest.mark.parametrize(("options", "first"), [((), "0 25"), (NOT_TIERED, "0 42")])
def test_malformed_epochs_that_verify_index_rebuilds(alone, options, first):
    begin_late(alone, 25, "0\n1\nno epoch\n")
    kafkalog("verify", "--rebuild", "--no-quarantine", "--yes", *options, str(alone))
    assert (alone / "leader-epoch-checkpoint").read_text().splitlines()[2:] == [first, "2 88"]


def test_the_metadata_log_says_that_a_log_is_not_tiered(partition):
    begin_late(partition, 25, "0\n1\nno epoch\n")
    assert recovered(partition.parent.parent / "d0", partition.parent) == ([(25, 42)], 4)


def policy_of(top, topic="small_segments", settings=None):
    """What a manager of these log dirs knows of a topic."""
    files = ReadOnlyFiles()
    log_dirs = find_log_dirs(files, [str(top / "d0"), str(top / "d1")])
    overlay = OverlayFiles(files, 0)
    return LogManager(lambda _log_dir: overlay, survey(files, log_dirs), settings or Settings(), 0).policy(topic)


def test_what_brokers_clean_by_default_is_not_known_to_be_uncompacted(partition):
    """A topic without a policy of its own has that of its brokers, which only server.properties or the cleaner tells."""
    top = partition.parent.parent
    assert policy_of(top) == (False, Tiering.UNTIERED)
    set_line(partition.parent / "cleaner-offset-checkpoint", "records-deleted", 50)
    assert policy_of(top) == (None, Tiering.UNTIERED), "the cleaner was in another topic without a policy of its own"
    for policy in ("delete", "compact"):
        settings = Settings(server_config({"log.cleanup.policy": policy}))
        assert policy_of(top, settings=settings) == (policy == "compact", Tiering.UNTIERED)
    assert policy_of(top, settings=Settings(overrides=(("cleanup.policy", "delete"),))).compacted is False
    set_line(partition.parent / "cleaner-offset-checkpoint", "records-deleted", None)
    set_line(partition.parent / "cleaner-offset-checkpoint", "deleted-long-ago", 50)
    assert policy_of(top).compacted is False, "a topic that the metadata log does not know tells nothing"


def test_a_damaged_metadata_log_is_no_evidence(partition):
    """Behind the damage the topic may have got other settings, whichever is asked for."""
    top = partition.parent.parent
    log = next((top / "d0/__cluster_metadata-0").glob("*.log"))
    data = bytearray(log.read_bytes())
    data[-1] ^= 1
    log.write_bytes(data)
    assert policy_of(top) == (None, Tiering.UNKNOWN)


def test_a_gap_is_a_loss_where_the_topic_is_known_not_to_be_compacted(partition, tmp_path):
    """The metadata log beside it says so, or the user does; without either the keys may explain it."""
    cut_out(partition, 63, 2)
    found, _, status = verified(partition.parent.parent)
    assert ("offset-gap" in found, status) == (True, 4)
    shutil.copytree(partition, tmp_path / "alone" / PARTITION)
    assert "offset-gap" in verified("--config", "cleanup.policy=delete", tmp_path / "alone" / PARTITION)[0]
    assert "offset-gap" not in verified("--config", "cleanup.policy=compact", tmp_path / "alone" / PARTITION)[0]
    missing, status = recovered("--full", partition.parent.parent)
    assert (len(missing), status) == (1, 4)
    assert recovered("--salvage", partition.parent.parent) == (missing, 4)


def test_snapshots_of_producers_that_are_missing(partition):
    for snapshot in partition.glob("*.snapshot"):
        snapshot.unlink()
    assert verified(partition)[0] == {"snapshot-missing": [None]}
    missing, status = recovered("--clean-start", partition)
    assert (missing, status) == ([], 4)
    for snapshot in partition.glob("*.snapshot"):
        snapshot.unlink()
    assert recovered(partition) == ([], 1)
    assert recovered(partition) == ([], 0)


def test_what_was_truncated_on_purpose_is_no_loss(partition):
    assert kafkalog("truncate", "--to", "46", "--now", NOW, "--no-quarantine", str(partition)).status == 0
    line = next(one for one in (partition.parent / "replication-offset-checkpoint").read_text().splitlines() if "small_segments" in one)
    assert int(line.split()[2]) == 46
    assert not LOSSES & set(verified(partition)[0])
    assert recovered(partition.parent) == ([], 0)


@pytest.mark.parametrize(("to", "end"), [(49, 48), (43, 42), (86, 83), (51, 51)], ids=["inside", "first", "last", "between"])
def test_a_truncation_within_a_batch_is_no_loss(partition, to, end):
    """The batch goes as a whole; the snapshot has the name that Kafka gives it, and proves nothing."""
    assert kafkalog("truncate", "--to", str(to), "--now", NOW, "--no-quarantine", str(partition)).status == 0
    assert (partition / f"{to:020}.snapshot").exists()
    for kind in ("recovery-point", "replication"):
        assert f"small_segments 0 {end}" in (partition.parent / f"{kind}-offset-checkpoint").read_text().splitlines()
    assert verified(partition) == ({}, ["sound"], 0)
    assert recovered(partition.parent) == ([], 0)
    assert recovered(partition.parent) == ([], 0)


def test_a_truncation_within_a_batch_below_the_log_start_leaves_a_log_that_opens(partition):
    line = partition.parent / "log-start-offset-checkpoint"
    set_line(line, "small_segments", 60)
    done = kafkalog("truncate", "--to", "49", "--now", NOW, "--no-quarantine", str(partition))
    assert done.status == 0, done.out
    assert "small_segments 0 48" in line.read_text().splitlines()
    assert verified(partition)[2] == 0
    assert recovered(partition.parent) == ([], 0)


def test_a_snapshot_whose_producers_wrote_behind_the_end_proves_a_loss(partition):
    for kind in ("recovery-point", "replication"):
        (partition.parent / f"{kind}-offset-checkpoint").unlink()
    (partition / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    drop(partition, 83)
    drop(partition, 89, ".snapshot")
    assert verified(partition)[0] == {"snapshot-beyond-log": [88]}
    assert recovered(partition.parent) == ([(83, 88)], 4)


def test_what_a_repair_truncates_is_named_once(partition):
    log = partition / f"{83:020}.log"
    data = bytearray(log.read_bytes())
    data[100] ^= 1
    log.write_bytes(data)
    missing, status = recovered("--full", partition.parent)
    assert (missing, status) == ([], 1)
    assert recovered("--full", partition.parent) == ([], 0)
    assert verified(partition)[0] == {}


def test_records_of_a_damaged_batch_are_counted_by_its_header(partition):
    log = partition / f"{83:020}.log"
    data = bytearray(log.read_bytes())
    count = struct.unpack_from(">i", data, 57)[0]
    data[70] ^= 1
    log.write_bytes(data[: 12 + struct.unpack_from(">i", data, 8)[0]])
    done = kafkalog("recover", "--dry-run", "--full", "--now", NOW, str(partition))
    [line] = [one for one in done.out.decode().splitlines() if one.startswith("  would truncate")]
    assert f"; {count} records by the batch header" in line
    assert "0 records" not in line
    assert f"({offsets_text(83, 83 + count)}, " in line


def test_a_swap_that_is_not_whole_is_reported_with_what_a_start_would_lose(partition):
    log = partition / f"{42:020}.log"
    shutil.copy(log, f"{log}.swap")
    done = kafkalog("verify", "--format", "jsonl", str(partition))
    [finding] = [row for row in objects_of(done.out) if row["type"] == "finding"]
    assert (finding["code"], finding["severity"], done.status) == ("leftover-file", "info", 0)
    assert f"replaces {log.name}" in finding["what"]
    data = log.read_bytes()
    (partition / f"{log.name}.swap").write_bytes(data[:-10])
    found, verdicts, status = verified(partition)
    assert (list(found), verdicts, status) == (["swap-loses-records"], ["broken"], 4)
    (partition / f"{log.name}.swap").write_bytes(data[: 383 + 129])  # two batches: an end as a compaction may leave it
    logs = partition.parent.parent
    assert verified(logs)[0] == {"swap-loses-records": [None]}, "the metadata log says that the topic is not compacted"
    assert verified("--config", "cleanup.policy=compact", partition)[0] == {}
    lost = "do not have these offsets"
    assert lost in kafkalog("recover", "--dry-run", str(partition)).out.decode()
    assert lost not in kafkalog("recover", "--dry-run", "--config", "cleanup.policy=compact", str(partition)).out.decode()
    (partition / f"{log.name}.swap").write_bytes(data[: 383 + 129 + 70])  # no compaction ends inside a batch
    assert lost in kafkalog("recover", "--dry-run", "--config", "cleanup.policy=compact", str(partition)).out.decode()
    (partition / f"{log.name}.swap").rename(partition / f"{log.name}.cleaned")
    assert verified(partition)[0] == {}


@pytest.mark.parametrize(("size", "policy", "is_lost"), [
    (0, (), True), (383, (), True), (383 + 129, (), True), (0, COMPACT, True), (383, COMPACT, False), (383 + 100, COMPACT, True),
])  # fmt: skip
def test_verify_index_and_recover_say_the_same_of_a_swap(partition, size, policy, is_lost):
    """Of a topic whose policy is not known, and of one that is compacted: a swap without a batch proves nothing."""
    log = partition / f"{42:020}.log"
    (partition / f"{log.name}.swap").write_bytes(log.read_bytes()[:size])
    done = kafkalog("verify", "--format", "jsonl", *policy, str(partition))
    [finding] = [row for row in objects_of(done.out) if row["type"] == "finding"]
    recovered = kafkalog("recover", "--full", "--dry-run", "--format", "jsonl", *policy, str(partition))
    rows = objects_of(recovered.out)
    found = [event for row in rows for event in row.get("events", [row])]
    events = [event for event in found if event.get("action") == "missing" and event["severity"] == "error"]
    assert (finding["code"], done.status) == (("swap-loses-records", 4) if is_lost else ("leftover-file", 0))
    assert bool(events) == is_lost
    for event in events:
        assert f"a loss: only the replaced segments hold {offsets_text(event['first_offset'], event['end_offset'])}" in finding["what"]
    assert ("unless the topic is compacted" in finding["what"]) == (is_lost and not policy)
    assert recovered.status == (4 if is_lost else 1)


@pytest.mark.parametrize(("policy", "is_lost"), [(COMPACT, False), ((), True)])
def test_a_swap_without_a_batch_and_with_an_empty_time_index_is_a_compaction(partition, policy, is_lost):
    """The cleaner may remove every batch of a segment. It ends the time index of a segment that has one with an entry."""
    (partition / f"{42:020}.log.swap").touch()
    (partition / f"{42:020}.index.swap").touch()
    (partition / f"{42:020}.timeindex.swap").touch()
    assert verified(*policy, partition)[2] == (4 if is_lost else 0)
    done = kafkalog("recover", "--full", *policy, str(partition))
    assert done.status == (4 if is_lost else 1)
    assert (partition / f"{42:020}.log").stat().st_size == 0, "completed as a broker does"
    assert not list(partition.glob("*.swap"))


def test_a_swap_that_lost_its_batches_is_no_compaction(partition):
    """Its time index has an entry, so it had a batch."""
    (partition / f"{42:020}.log.swap").touch()
    shutil.copy(partition / f"{42:020}.timeindex", partition / f"{42:020}.timeindex.swap")
    assert (partition / f"{42:020}.timeindex").stat().st_size
    done = kafkalog("recover", "--dry-run", *COMPACT, str(partition))
    assert "do not have these offsets" in done.out.decode()
    assert "cleanup.policy=compact" not in done.out.decode(), "it was given"


@pytest.mark.parametrize("is_clean", [True, False])
def test_zeros_after_the_last_batch_stop_a_broker_only_with_the_clean_marker(top, is_clean):
    partition = top / "d1" / PARTITION
    log = partition / f"{83:020}.log"
    log.write_bytes(log.read_bytes() + bytes(4096))
    marker = top / "d1/.kafka_cleanshutdown"
    marker.touch() if is_clean else marker.unlink(missing_ok=True)
    done = kafkalog("verify", str(partition))
    assert ("and does not start" in done.err) == is_clean
    assert ("a broker truncates them when it starts" in done.err) != is_clean


@pytest.mark.parametrize("damage", ["duplicate-id", "both-dirs", "no-identity", "cluster", "node"])
def test_log_dirs_that_stop_a_broker_together(partition, damage):
    d0, d1 = partition.parent.parent / "d0", partition.parent
    identity = d1 / "meta.properties"
    changes = {
        "duplicate-id": ("GwU-VCmqfoM16VN-PhPllg", "rpeCRmupTJubnfO3Cgkmfw"),
        "cluster": ("kafkalogCorpusSeed42AA", "kafkalogCorpusSeed43AA"), "node": ("node.id=1", "node.id=7"),
    }  # fmt: skip
    if damage in changes:
        identity.write_text(identity.read_text().replace(*changes[damage]))
    elif damage == "both-dirs":
        shutil.copytree(partition, d0 / PARTITION)
    else:
        identity.unlink()
    assert "broker-stops" in verified(d0, d1)[0]
    done = kafkalog("recover", "--dry-run", "--now", NOW, str(d0), str(d1))
    assert (done.status, b"a broker does not start" in done.out) == (4 if damage != "no-identity" else done.status, True)


def test_log_dirs_of_two_brokers_are_judged_apart(own_corpus, tmp_path):
    for name in ("one", "two"):
        shutil.copytree(own_corpus / "kafka-4.3.1/logs/clean", tmp_path / name)
        for identity in tmp_path.glob(f"{name}/d?/meta.properties"):
            identity.write_text(identity.read_text().replace("node.id=1", f"node.id={1 + (name == 'two')}"))
    found, _, _ = verified(*sorted(tmp_path.glob("*/d?")))
    assert "broker-stops" not in found


def test_log_dirs_of_two_brokers_are_repaired_apart(own_corpus, tmp_path):
    for node in ("1", "2"):
        shutil.copytree(own_corpus / "kafka-4.3.1/logs/clean", tmp_path / node)
    for path in (tmp_path / "2").glob("d?/meta.properties"):
        path.write_text(path.read_text().replace("cluster.id=", "cluster.id=other"))
    log_dirs = [str(tmp_path / node / log_dir) for node in ("1", "2") for log_dir in ("d0", "d1")]
    for path in tmp_path.glob("*/d?"):
        (path / ".lock").touch()
    before = tree(ReadOnlyFiles(), str(tmp_path))
    done = kafkalog("recover", "--clean-start", "--now", NOW, *log_dirs)
    assert (done.status, b"does not start" in done.out) == (0, False), done.out
    assert tree(ReadOnlyFiles(), str(tmp_path)) == before


def test_a_directory_with_only_a_malformed_snapshot_is_a_finding(tmp_path):
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{7:020}.snapshot").write_bytes(b"no snapshot")
    before = tree(ReadOnlyFiles(), str(tmp_path / "t-0"))
    found, _, status = verified("--rebuild", tmp_path / "t-0")
    assert ("snapshot-corrupt" in found, status) == (True, 4)
    assert tree(ReadOnlyFiles(), str(tmp_path / "t-0")) == before


def appended(partition):
    """`append` of one record."""
    source = partition.parent.parent / "records"
    source.write_text('{"value": "more"}\n')
    return kafkalog("append", "--now", NOW, "--input", str(source), str(partition))


@pytest.mark.parametrize("how", ["segment", "tail"])
@pytest.mark.parametrize("words", [("append",), ("truncate", "--to", "89"), ("delete-records", "--before", "30"), ("roll",),
                                   ("retain",), ("compact", "--force")], ids=lambda words: words[0])
def test_no_operation_removes_the_proof_of_a_lost_end(partition, how, words):
    """Opening the log would remove snapshots and leader epochs, and acknowledged offsets would be given away again."""
    if how == "segment":
        drop(partition, 83)
    else:
        with segment(partition, 83, ".log")[0].open("r+b") as log:
            log.truncate(519)
    (partition.parent / ".lock").touch()
    before = tree(ReadOnlyFiles(), str(partition.parent))
    lost = "offsets 83 to 88" if how == "segment" else "offset 88"
    done = appended(partition) if words == ("append",) else kafkalog(*words, "--now", NOW, str(partition))
    assert done.status == 4, done.out
    assert f"the log has lost {lost}, and" in done.err
    assert f"kafkalog recover --dry-run {partition.parent} " in done.err
    assert tree(ReadOnlyFiles(), str(partition.parent)) == before


def test_after_recover_an_append_reports_the_lost_end_and_goes_on(partition):
    drop(partition, 83)
    assert recovered(partition.parent)[1] == 4
    done = appended(partition)
    assert done.status == 4
    assert b"missing 00000000000000000083.log (offsets 83 to 88)" in done.out
    assert b"offset 83 (1 record)" in done.out


def test_a_gap_in_the_middle_does_not_refuse_an_append(partition):
    drop(partition, 42)
    assert b"offset 89 (1 record)" in appended(partition).out


@pytest.mark.parametrize("with_index", [True, False])
@pytest.mark.parametrize(("base", "end"), [(0, 5), (42, 46)])
def test_a_lost_first_batch_of_a_segment_is_not_the_cleaners_work(partition, base, end, with_index):
    """Before the first segment's no key can be asked, and the segments before another one have keys that come twice."""
    log = segment(partition, base, ".log")[0]
    data = log.read_bytes()
    (size,) = struct.unpack_from(">i", data, 8)
    log.write_bytes(data[12 + size :])
    if not with_index:
        drop(partition, base, ".index", ".timeindex")
    found, _, status = verified(partition)
    assert status == 4
    assert found["offset-gap"] == [end]
    assert recovered("--full", partition.parent) == ([(base, end)], 4)


def test_a_segment_whose_deletion_has_begun_explains_the_offsets_that_it_holds(partition):
    for suffix in (".log", ".index", ".timeindex"):
        segment(partition, 0, suffix)[0].rename(partition / f"{0:020}{suffix}.deleted")
    assert verified(partition)[2] == 0
    drop(partition, 22)
    assert verified(partition)[0]["epochs-before-log"] == [22]
    assert (22, 42) in recovered(partition.parent)[0]


def break_batch(partition, base, *, at=70):
    """Flip a byte of the first batch of a segment, whose header still makes sense."""
    log = segment(partition, base, ".log")[0]
    data = bytearray(log.read_bytes())
    data[at] ^= 1
    log.write_bytes(data)


def rename(partition, base, to):
    """Give a segment another name."""
    for suffix in (".log", ".index", ".timeindex"):
        segment(partition, base, suffix)[0].rename(segment(partition, to, suffix)[0])


def lines_of(*words):
    """{(action, base offset): line} of what a dry run would do to segments."""
    done = kafkalog(*words[:1], "--dry-run", "--now", NOW, *map(str, words[1:]))
    lines = [line.replace("would ", "").split() for line in done.out.decode().splitlines() if ".log " in line]
    past = {"keep": "kept", "remove": "removed", "truncate": "truncated", "salvage": "salvaged", "rebuild": "rebuilt"}
    return {(past.get(words[0], words[0]), int(words[1][:20])): " ".join(words[2:]) for words in lines}


@pytest.mark.parametrize("to", [1083, 84])
def test_a_segment_with_a_wrong_name_that_is_removed_after_damage_says_what_it_holds(partition, to):
    break_batch(partition, 63)
    rename(partition, 83, to)
    found = lines_of("recover", "--full", partition)
    assert found["removed", to].startswith("(offsets 83 to 88, 6 records, 701 bytes)")
    assert "(offsets 63 to 82, 17 records, " in found["truncated", 63]
    assert "; 3 records by the batch header; lost with it: 6 sound batches (offsets 66 to 82)" in found["truncated", 63]


def test_a_segment_with_too_low_a_name_says_what_it_holds(partition):
    break_batch(partition, 42)
    drop(partition, 63)
    rename(partition, 83, 70)
    found = lines_of("recover", "--full", partition)
    assert found["removed", 70].startswith("(offsets 70 to 88, 6 records, 701 bytes)")
    assert found["removed", 70].endswith("; its sound batches hold offsets 83 to 88")


def test_a_segment_without_a_sound_batch_is_counted_by_its_headers(partition):
    break_batch(partition, 63)
    log = segment(partition, 83, ".log")[0]
    data = bytearray(log.read_bytes())
    at, batches = 0, 0
    while at < len(data):
        data[at + 62] ^= 1
        batches, at = batches + 1, at + 12 + struct.unpack_from(">i", data, at + 8)[0]
    log.write_bytes(data)
    assert batches > 1
    line = lines_of("recover", "--full", partition)["removed", 83]
    assert line.startswith("(offsets 83 to 88, 701 bytes)")
    assert line.endswith("; 6 records by the batch headers")


@pytest.fixture
def misnamed(partition):
    """The last segment has too high a name, and nothing else proves that."""
    rename(partition, 83, 1083)
    drop(partition, 88, ".snapshot")
    drop(partition, 89, ".snapshot")
    for kind in ("recovery-point", "replication"):
        set_line(partition.parent / f"{kind}-offset-checkpoint", "small_segments", None)
    (partition / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    segment(partition, 1083, ".timeindex")[0].write_bytes(b"")
    return partition


def test_what_is_removed_on_purpose_is_named_by_its_batches(misnamed):
    found = lines_of("delete-records", "--before", "1083", "--clean-start", misnamed)
    assert found["removed", 63].startswith("(offsets 63 to 82, 20 records, ")


@pytest.mark.parametrize("words", [("--to", "50"), ("--to", "85"), ("--fully", "--to", "85")], ids=" ".join)
def test_what_batches_contradict_is_not_truncated(misnamed, words):
    before = {path: path.read_bytes() for path in misnamed.iterdir()}
    done = kafkalog("truncate", "--now", NOW, *words, "--clean-start", str(misnamed))
    assert (done.status, {path: path.read_bytes() for path in misnamed.iterdir()}) == (4, before)
    assert "its sound batches hold offsets 83 to 88" in done.err


def test_salvage_counts_the_records_of_a_damaged_batch(partition):
    break_batch(partition, 63)
    line = lines_of("recover", "--salvage", partition)["salvaged", 63]
    assert line.startswith("(offsets 63 to 65, ")
    assert line.endswith("; 3 records by the batch header")


def test_batches_below_the_name_of_the_last_segment_are_not_called_bytes_without_a_batch(partition):
    rename(partition, 83, 1083)
    line = lines_of("recover", "--clean-start", partition)["kept", 1083]
    assert line.startswith("(offsets 83 to 88, 6 records, 701 bytes)")
    assert "its batches have offsets 83 to 88" in line


def alone_at_the_end(alone, *left):
    """The last segment was emptied; only its index `left` says that there was more."""
    for suffix in (".log", ".index", ".timeindex"):
        path = segment(alone, 83, suffix)[0]
        if suffix not in left:
            path.write_bytes(b"")
    for base in (88, 89):
        drop(alone, base, ".snapshot")
    (alone / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")


def test_the_time_index_of_the_last_segment_proves_a_loss(alone):
    alone_at_the_end(alone, ".timeindex")
    assert verified(alone)[2] == 4
    assert recovered("--full", alone) == ([(83, 88)], 4)
    assert recovered("--full", alone) == ([], 0)


def test_a_time_index_with_a_timestamp_that_the_log_has_proves_nothing(alone):
    """One of its bits is wrong: it says where the largest timestamp is that the log still has."""
    index = segment(alone, 83, ".timeindex")[0]
    timestamp, offset = struct.unpack(">qi", index.read_bytes()[-12:])
    index.write_bytes(index.read_bytes()[:-12] + struct.pack(">qi", timestamp, offset | 1 << 20))
    assert verified(alone)[2] == 4
    assert recovered("--full", alone)[0] == []


def test_the_transaction_index_of_the_last_segment_proves_a_loss(own_corpus, tmp_path):
    tx = tmp_path / "tx-0"
    shutil.copytree(own_corpus / "kafka-4.3.1/logs/clean/d0/tx-0", tx)
    for suffix in (".log", ".index", ".timeindex"):
        segment(tx, 71, suffix)[0].write_bytes(b"")
    drop(tx, 88, ".snapshot")
    assert verified(tx)[2] == 4
    done = appended(tx)
    assert (done.status, "the log has lost offsets 71 to 79, and" in done.err) == (4, True)
    assert recovered("--full", tx, name="tx-0") == ([(71, 80)], 4)
    assert recovered("--full", tx, name="tx-0") == ([], 0)


@pytest.mark.parametrize("is_clean", [True, False])
def test_an_index_proves_a_lost_last_batch_of_a_compacted_segment(own_corpus, tmp_path, is_clean):
    """The cleaner was in the log, so that gaps are its own; but it rewrites indexes with their segments."""
    logs = own_corpus / "old/3.9.1/logs/clean"
    shutil.copytree(logs / "compacted-0", tmp_path / "compacted-0")
    if is_clean:
        (tmp_path / ".kafka_cleanshutdown").touch()
    log = segment(tmp_path / "compacted-0", 0, ".log")[0]
    log.write_bytes(log.read_bytes()[:234])  # up to the batch of offsets 106 to 110
    assert verified(tmp_path / "compacted-0")[2] == 4
    assert recovered("--full", tmp_path / "compacted-0", name="compacted-0") == ([(98, 111)], 4)


@pytest.mark.parametrize("words", [("append",), ("roll",)], ids=" ".join)
def test_indexes_whose_log_is_gone_prove_a_lost_end(alone, words):
    """Leftovers of a roll have no entries, and do not stop one (the case roll-files-exist of the storage engine)."""
    drop(alone, 83, ".log")
    for base in (83, 88, 89):
        drop(alone, base, ".snapshot")
    (alone / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    (alone.parent / ".lock").touch()
    before = tree(ReadOnlyFiles(), str(alone))
    done = appended(alone) if words == ("append",) else kafkalog(*words, "--now", NOW, str(alone))
    assert (done.status, f"{83:020}" in done.err) == (4, True), done.err
    assert tree(ReadOnlyFiles(), str(alone)) == before
    segment(alone, 83, ".timeindex")[0].write_bytes(b"")
    assert kafkalog("roll", "--now", NOW, str(alone)).status == 1, "leftovers are removed, nothing is lost"


def test_indexes_whose_log_is_gone_name_the_offsets(alone):
    drop(alone, 83)
    drop(alone, 63, ".log")
    for base in (88, 89):
        drop(alone, base, ".snapshot")
    (alone / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    done = kafkalog("verify", str(alone))
    assert (done.status, done.err.count("its segment held offsets up to 82")) == (4, 2)
    assert recovered("--full", alone) == ([(63, 83)], 4)


def test_evidence_is_compared_with_the_highest_batch(alone):
    """Old batches at the end of the last segment: the log lacks nothing."""
    with segment(alone, 83, ".log")[0].open("ab") as file:
        file.write(segment(alone, 42, ".log")[0].read_bytes()[:500])
    assert set(verified(alone)[0]) == {"offset-order", "torn-tail", "epoch-order", "sequence-order"}


def without_third_batch(data):
    starts = batch_starts(data)
    return data[: starts[2]] + data[starts[3] :]


def with_wrong_third_batch(data):
    at = batch_starts(data)[2] + 80
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def batch_starts(data):
    starts = [0]
    while starts[-1] < len(data):
        starts.append(starts[-1] + 12 + struct.unpack_from(">i", data, starts[-1] + 8)[0])
    return starts


@pytest.fixture
def rolls(own_corpus, tmp_path):
    """A partition of a log dir that was not stopped cleanly; its metadata log says that the topic is not compacted."""
    shutil.copytree(own_corpus / "kafka-4.3.1/logs/unclean", tmp_path / "logs")
    return tmp_path / "logs/d0/u-rolls-0"


DELETE = ("--config", "cleanup.policy=delete")


@pytest.mark.parametrize(("damage", "policy", "is_lost"), [
    (without_third_batch, (), True), (without_third_batch, DELETE, True), (without_third_batch, COMPACT, False),
    (with_wrong_third_batch, (), True), (with_wrong_third_batch, DELETE, True), (with_wrong_third_batch, COMPACT, True),
    (bytes, DELETE, False),
])  # fmt: skip
def test_a_swap_that_lacks_a_batch_in_its_middle_loses_it(rolls, damage, policy, is_lost):
    log = rolls / f"{79:020}.log"
    whole = log.read_bytes()
    (rolls / f"{log.name}.swap").write_bytes(damage(whole))
    before = tree(ReadOnlyFiles(), str(rolls))
    done = kafkalog("verify", "--format", "jsonl", *policy, str(rolls))
    findings = [row for row in objects_of(done.out) if row["type"] == "finding"]
    [finding] = [row for row in findings if row["file"].endswith(".swap")]
    assert (finding["code"], done.status) == (("swap-loses-records", 4) if is_lost else ("leftover-file", 0))
    assert ("a loss: only the replaced segments hold offsets 95 to 99" in finding["what"]) == is_lost
    recovered = kafkalog("recover", "--dry-run", "--format", "jsonl", *policy, str(rolls))
    found = [event for row in objects_of(recovered.out) for event in row.get("events", [row])]
    missing = [(event["first_offset"], event["end_offset"]) for event in found if event.get("action") == "missing"]
    assert missing == ([(95, 100)] if is_lost else [])
    assert recovered.status == (4 if is_lost else 1)
    if is_lost:
        for words in (("roll",), ("truncate", "--to", "330"), ("delete-records", "--before", "200")):
            refused = kafkalog(*words, *policy, str(rolls))
            assert (refused.status, "would lose records" in refused.err) == (4, True), words
        assert tree(ReadOnlyFiles(), str(rolls)) == before
        assert kafkalog("recover", "--salvage", "--no-quarantine", *policy, str(rolls)).status in (0, 1)
        assert log.read_bytes() == whole


@pytest.mark.parametrize("damage", [without_third_batch, with_wrong_third_batch])
def test_of_an_unknown_topic_a_swap_loses_what_no_cleaner_took(rolls, tmp_path, damage):
    """The other segments have no gap: no cleaner was here. What verify-index foretells, recover does, and salvage keeps."""
    alone = shutil.copytree(rolls, tmp_path / "alone/u-rolls-0")
    log = alone / f"{79:020}.log"
    whole = log.read_bytes()
    (alone / f"{log.name}.swap").write_bytes(damage(whole))
    found, _, status = verified(alone)
    assert ("swap-loses-records" in found, status) == (True, 4)
    recovered = kafkalog("recover", "--dry-run", str(alone)).out.decode()
    assert "(offsets 95 to 99) - the .swap files do not have these offsets" in recovered
    assert recovered.count("(offsets 95 to 99)") == 1
    assert kafkalog("recover", "--salvage", "--no-quarantine", str(alone)).status in (0, 1)
    assert log.read_bytes() == whole


def test_of_an_unknown_topic_a_swap_may_lack_what_a_cleaner_took(rolls, tmp_path):
    """It left a batch without records in place of the second one."""
    alone = shutil.copytree(rolls, tmp_path / "alone/u-rolls-0")
    log = alone / f"{79:020}.log"
    data = log.read_bytes()
    _, second, third, fourth = batch_starts(data)[:4]
    first, end = (struct.unpack_from(">q", data, at)[0] for at in (second, third))
    (alone / f"{log.name}.swap").write_bytes(data[:second] + emptied(first, end - 1) + data[fourth:])
    found, _, status = verified(alone)
    assert ("swap-loses-records" in found, status) == (False, 0)
    assert "missing" not in kafkalog("recover", "--dry-run", str(alone)).out.decode()


def test_a_damaged_swap_is_a_loss_where_nothing_else_has_the_batch(rolls):
    log = rolls / f"{79:020}.log"
    (rolls / f"{log.name}.swap").write_bytes(with_wrong_third_batch(log.read_bytes()))
    log.unlink()
    assert kafkalog("recover", "--dry-run", str(rolls)).status == 4
