"""What was lost or damaged before and no checksum shows: recover and verify name it, and never call it proven."""

from __future__ import annotations

import os
import shutil
import struct

import pytest

from engine.files import ReadOnlyFiles
from tests.support.file_work import tree
from tests.support.json_output import objects_of, reports_of
from tests.support.run import kafkalog

NOW = "1764000000000"
PARTITION = "small_segments-0"


@pytest.fixture
def log_dir(own_corpus, tmp_path):
    """A copy of a log dir that was stopped cleanly."""
    shutil.copytree(own_corpus / "kafka-4.3.1/logs/clean/d1", tmp_path / "d1")
    return tmp_path / "d1"


def report_of(*words, status):
    """The report of the one partition."""
    done = kafkalog("recover", "--now", NOW, "--format", "json", *map(str, words))
    assert done.status == status, (done.out, done.err)
    reports = reports_of(done.out)
    return next(report for report in reports if report["partition"].endswith("-0"))


def events(report, action):
    return [event for event in report["events"] if event["action"] == action]


def bytes_of(top):
    return {name: data for name, data in tree(ReadOnlyFiles(), str(top)).items() if not name.endswith(".lock")}


def codes_of(*words):
    """The findings of verify, by code; its status."""
    done = kafkalog("verify", "--format", "jsonl", *map(str, words))
    rows = objects_of(done.out)
    return {row["code"] for row in rows if row["type"] == "finding" and row["severity"] != "info"}, done.status


def positions(log):
    """Where the batches of a log begin."""
    data, at = log.read_bytes(), 0
    while at < len(data):
        yield at
        at += 12 + struct.unpack_from(">i", data, at + 8)[0]


def set_base_offset(log, batch, offset):
    """Give the batch of that number another base offset: no checksum covers it → its position."""
    at = list(positions(log))[batch]
    data = bytearray(log.read_bytes())
    struct.pack_into(">q", data, at, offset)
    log.write_bytes(data)
    return at


def test_a_base_offset_that_runs_backwards_is_named_and_never_proven(log_dir):
    log = log_dir / PARTITION / "00000000000000000022.log"
    at = set_base_offset(log, 1, 22)
    report = report_of("--recovery-point", "0", "--no-quarantine", log_dir / PARTITION, status=4)
    (event,) = [event for event in events(report, "kept") if event["severity"] == "error"]
    assert (event["file"], event["first_offset"]) == (log.name, 22)
    assert f"at byte {at}: a batch from offset 22" in event["reason"]
    assert "offset-order" in codes_of(log_dir / PARTITION)[0]
    done = kafkalog("recover", "--mark-clean", "--no-quarantine", str(log_dir))
    assert done.status == 4
    assert "proven" not in done.out.decode()
    assert not (log_dir / ".kafka_cleanshutdown").exists()


def test_a_base_offset_below_its_segment_is_named(log_dir):
    log = log_dir / PARTITION / "00000000000000000022.log"
    assert set_base_offset(log, 0, 21) == 0
    report = report_of("--recovery-point", "0", "--no-quarantine", log_dir / PARTITION, status=4)
    assert [event["first_offset"] for event in events(report, "kept")] == [21]
    assert "offset-order" in codes_of(log_dir / PARTITION)[0]


def test_a_last_batch_that_reaches_into_the_next_segment_is_named(log_dir):
    log = log_dir / PARTITION / "00000000000000000022.log"
    set_base_offset(log, -1, 70)
    report = report_of("--recovery-point", "0", "--no-quarantine", log_dir / PARTITION, status=4)
    (event,) = [event for event in events(report, "kept") if event["severity"] == "error"]
    assert event["file"] == log.name
    assert "the next segment begins at 42" in event["reason"]


@pytest.mark.parametrize("suffixes", [(".log",), (".log", ".index", ".timeindex", ".snapshot")], ids=["log", "all"])
def test_a_segment_that_is_missing_is_said_with_its_offsets(log_dir, tmp_path, suffixes):
    for suffix in suffixes:
        (log_dir / PARTITION / f"00000000000000000042{suffix}").unlink()
    found, status = codes_of(log_dir / PARTITION)
    assert "offset-gap" in found
    assert status == 4
    report = report_of("--recovery-point", "0", "--quarantine", tmp_path / "kept", log_dir / PARTITION, status=4)
    (event,) = events(report, "missing")
    assert (event["file"], event["first_offset"], event["end_offset"]) == ("00000000000000000042.log", 42, 63)
    if len(suffixes) == 1:
        kept = {path.name.partition("-")[2] for path in (tmp_path / "kept").rglob("*00042*")}
        assert {f"{PARTITION}-00000000000000000042{suffix}" for suffix in (".index", ".timeindex", ".snapshot")} <= kept
    text = kafkalog("recover", "--recovery-point", "0", "--no-quarantine", str(log_dir / PARTITION))
    assert text.status == 4
    assert "without loss" not in text.out.decode()
    assert "records are missing" in text.out.decode()


def test_a_last_segment_that_is_missing_is_said(log_dir):
    (log_dir / PARTITION / "00000000000000000083.log").unlink()
    report = report_of("--no-quarantine", log_dir / PARTITION, status=4)
    first, second = events(report, "missing")
    assert (first["file"], first["first_offset"], first["end_offset"]) == ("00000000000000000083.log", 83, 88), "by its indexes"
    assert (second["first_offset"], second["end_offset"]) == (88, 89), "by the snapshot"


def test_commands_that_change_a_log_leave_one_that_misses_a_segment(log_dir):
    (log_dir / PARTITION / "00000000000000000042.log").unlink()
    before = bytes_of(log_dir)
    done = kafkalog("roll", str(log_dir / PARTITION))
    assert done.status == 4
    assert "00000000000000000042.log" in done.err
    assert bytes_of(log_dir) == before, "the clean shutdown marker, too"


def test_gaps_that_compaction_explains_are_none(own_corpus, log_dir, tmp_path):
    for name in ("compact_delete-0", "__consumer_offsets-1"):
        report = report_of("--recovery-point", "0", "--no-quarantine", log_dir / name, status=0) if name[0] == "c" else None
        assert not report or events(report, "missing") == []
        assert "offset-gap" not in codes_of(log_dir / name)[0]


def test_an_index_beside_a_deleted_log_is_no_loss(log_dir):
    partition = log_dir / PARTITION
    (partition / "00000000000000000000.log").rename(partition / "00000000000000000000.log.deleted")
    report = report_of("--no-quarantine", partition, status=1)
    assert events(report, "missing") == []


def start_at(log_dir, offset, partition="records-deleted"):
    (log_dir / "log-start-offset-checkpoint").write_text(f"0\n1\n{partition} 0 {offset}\n")


def test_a_start_beyond_the_end_deletes_nothing_unasked(log_dir):
    partition = log_dir / "records-deleted-0"
    start_at(log_dir, 5000)
    before, marker = bytes_of(partition), (log_dir / ".kafka_cleanshutdown").read_bytes()
    assert codes_of(partition) == ({"start-beyond-end"}, 4)
    report = report_of("--no-quarantine", partition, status=4)
    assert report["error"]["code"] == "start-beyond-end"
    assert "6835 bytes of offsets 37 to 99" in report["error"]["message"]
    assert bytes_of(partition) == before
    done = kafkalog("recover", "--mark-clean", "--no-quarantine", str(log_dir))
    assert done.status == 4
    assert (log_dir / ".kafka_cleanshutdown").read_bytes() == marker, "nothing was changed"
    assert bytes_of(partition) == before


def test_a_misnamed_copy_does_not_hide_a_start_beyond_the_end(log_dir):
    """Salvage drops the copy; the start after the end would then delete the whole log."""
    partition = log_dir / "records-deleted-0"
    start_at(log_dir, 5000)
    shutil.copy(min(partition.glob("*.log")), partition / f"{6000:020}.log")
    before = bytes_of(partition)
    report = report_of("--salvage", "--no-quarantine", partition, status=4)
    assert report["error"]["code"] == "start-beyond-end"
    assert bytes_of(partition) == before
    done = report_of("--salvage", "--no-quarantine", "--start-beyond-end", "keep", partition, status=4)
    assert done["log_end_offset"] == 100


def test_a_start_beyond_the_end_can_be_corrected(log_dir):
    start_at(log_dir, 5000)
    only = log_dir / "records-deleted-0"
    assert report_of("--no-quarantine", "--start-beyond-end", "keep", only, status=4)["log_end_offset"] == 100
    assert "5000" in (log_dir / "log-start-offset-checkpoint").read_text(), "a partition was named, not its log dir"
    done = kafkalog("recover", "--no-quarantine", "--start-beyond-end", "keep", str(log_dir))
    assert done.status == 1
    assert "5000" not in (log_dir / "log-start-offset-checkpoint").read_text()
    assert codes_of(only) == (set(), 0)


def test_a_start_beyond_the_end_can_be_obeyed(log_dir):
    start_at(log_dir, 5000)
    words = ("--no-quarantine", "--start-beyond-end", "delete", log_dir / "records-deleted-0")
    report = report_of(*words, status=1)
    assert (report["log_start_offset"], report["log_end_offset"]) == (5000, 5000)


def test_a_wrong_index_does_not_make_a_log_end_early(log_dir):
    start_at(log_dir, 95)
    index = log_dir / "records-deleted-0/00000000000000000090.index"
    index.write_bytes(struct.pack(">ii", 3, 1 << 20))
    assert report_of("--no-quarantine", log_dir / "records-deleted-0", status=1)["log_end_offset"] == 100


def test_what_was_not_read_is_said(log_dir):
    log = log_dir / PARTITION / "00000000000000000000.log"
    data = bytearray(log.read_bytes())
    data[100] ^= 1
    log.write_bytes(data)
    report = report_of("--no-quarantine", "--recovery-point", "50", log_dir / PARTITION, status=0)
    assert report["unread_below"] == 42
    done = kafkalog("recover", "--no-quarantine", "--recovery-point", "50", str(log_dir / PARTITION))
    assert "; NOT checked: offsets 0 to 41 (recover --full reads all)" in done.out.decode()
    clean = kafkalog("recover", "--no-quarantine", "--clean-start", str(log_dir / PARTITION))
    assert "; NOT checked: offsets 0 to 88 (" in clean.out.decode()
    behind = report_of("--no-quarantine", "--recovery-point", str(2**63 - 1), log_dir / PARTITION, status=0)
    assert behind["unread_below"] == behind["log_end_offset"] == 89
    assert report_of("--no-quarantine", "--recovery-point", "0", log_dir / PARTITION, status=1)["unread_below"] is None


def test_salvage_reads_all_and_names_what_was_lost_before(log_dir):
    partition = log_dir / "compact_delete-0"
    (partition / "00000000000000000088.log").write_bytes(b"")
    (log_dir / ".kafka_cleanshutdown").unlink(missing_ok=True)
    assert codes_of(partition)[1] == 4
    full = report_of("--dry-run", "--full", partition, status=4)
    report = report_of("--dry-run", "--salvage", partition, status=4)
    assert events(report, "missing") == events(full, "missing") != []
    assert events(report, "recovered") == events(full, "recovered")
    assert report["unread_below"] is None
    marked = report_of("--dry-run", "--salvage", "--clean-start", partition, status=4)
    assert events(marked, "missing") == events(full, "missing")


def test_salvage_takes_leader_epochs_from_all_batches(log_dir):
    partition = log_dir / PARTITION
    epochs = partition / "leader-epoch-checkpoint"
    epochs.write_text("0\n0\n")
    (log_dir / ".kafka_cleanshutdown").unlink(missing_ok=True)
    report_of("--no-quarantine", "--salvage", partition, status=1)  # a broker's file is never without epochs
    assert epochs.read_text() == "0\n2\n0 0\n2 88\n"


@pytest.mark.parametrize("checkpoint", ["recovery-point-offset-checkpoint", "replication-offset-checkpoint"])
def test_a_stale_checkpoint_does_not_spoil_the_repair_of_a_base_offset(log_dir, checkpoint):
    (log_dir / ".kafka_cleanshutdown").unlink(missing_ok=True)
    log = log_dir / "multi-0/00000000000000000000.log"
    sound = log.read_bytes()
    log.write_bytes(sound[:7] + bytes([sound[7] ^ 4]) + sound[8:])
    lines = (log_dir / checkpoint).read_text().splitlines(keepends=True)
    changed = ["multi 0 1000000\n" if line.startswith("multi 0 ") else line for line in lines]
    assert changed != lines
    (log_dir / checkpoint).write_text("".join(changed))
    report = report_of("--salvage", "--no-quarantine", log_dir / "multi-0", status=4)  # offsets are missing by the checkpoint
    assert log.read_bytes() == sound
    assert [event["first_offset"] for event in events(report, "missing")] == [24]


def test_a_clean_start_that_takes_a_log_for_empty_says_so(own_corpus, tmp_path):
    partition = tmp_path / "dense-index-0"
    shutil.copytree(own_corpus / "kafka-4.3.1/logs/clean/d0/dense-index-0", partition)
    with (partition / "00000000000000000000.log").open("r+b") as log:
        log.truncate(1198)
    before = tree(ReadOnlyFiles(), str(partition))
    [told] = [event for event in report_of("--dry-run", "--clean-start", partition, status=4)["events"] if event["action"] == "kept"]
    assert "its offset index reaches offset 220, after the end of the log" in told["reason"]
    assert tree(ReadOnlyFiles(), str(partition)) == before
    report = report_of("--no-quarantine", partition, status=4)  # what the index knows and the log lacks was lost before
    assert report["log_end_offset"] == 9
    assert events(report, "missing")[0]["end_offset"] == 221


@pytest.mark.parametrize("kind", ["link", "dangling", "fifo"])
@pytest.mark.parametrize("suffix", [".log", ".index"])
def test_segments_that_are_no_plain_files_are_refused_before_anything_changes(log_dir, tmp_path, kind, suffix):
    path = log_dir / PARTITION / f"00000000000000000042{suffix}"
    if kind == "link":
        path.rename(tmp_path / "elsewhere")
        path.symlink_to(tmp_path / "elsewhere")
    else:
        path.unlink()
        path.symlink_to(tmp_path / "nowhere") if kind == "dangling" else os.mkfifo(path)
    names = sorted(os.listdir(path.parent))
    for words in (["recover"], ["recover", "--salvage"], ["truncate", "--to", "10"], ["recover", "--dry-run"]):
        done = kafkalog(*words, str(log_dir / PARTITION))
        assert done.status == 8, words
        assert f"{path}: a {'FIFO' if kind == 'fifo' else 'symbolic link'}" in done.err
    assert sorted(os.listdir(path.parent)) == names
    if kind == "dangling" and suffix == ".log":
        assert codes_of(log_dir / PARTITION)[1] == 8


def test_a_directory_without_meta_properties_is_never_proven(log_dir, tmp_path):
    top = tmp_path / "copies"
    shutil.copytree(log_dir / PARTITION, top / PARTITION)
    for _ in range(2):
        done = kafkalog("recover", "--mark-clean", "--no-quarantine", str(top))
        assert done.status == 4
        assert "No `meta.properties` found in" in done.out.decode()
        assert not (top / ".kafka_cleanshutdown").exists()


def test_a_meta_properties_of_a_version_that_is_none_is_named(log_dir):
    path = log_dir / "meta.properties"
    path.write_text(path.read_text().replace("version=1", "version=99"))
    done = kafkalog("recover", "--no-quarantine", str(log_dir))
    assert done.status == 4
    assert "Error while reading meta.properties file" in done.out.decode()
    assert "version '99'" in done.out.decode()
    assert "broker-stops" in codes_of(log_dir)[0]


@pytest.mark.parametrize("name", ["control-version-negative-0", "control-value-version-negative-0"])
def test_a_marker_that_can_not_be_read_is_named(own_corpus, name):
    partition = own_corpus / "kafka-4.3.1/logs/damaged" / name
    assert "control-record-invalid" in codes_of(partition)[0]
    for isolation in ("read_committed", "read_uncommitted"):
        done = kafkalog("fetch", "--isolation", isolation, str(partition))
        assert done.status == 4
        assert "control-record-invalid" in done.err


@pytest.mark.parametrize(("batch", "offset"), [(1, 22), (1, 40), (0, 37), (2, 22)])
def test_salvage_drops_the_batch_with_the_wrong_offset_and_keeps_the_others(log_dir, batch, offset):
    log = log_dir / PARTITION / "00000000000000000022.log"
    sizes = [end - at for at, end in zip(positions(log), [*list(positions(log))[1:], log.stat().st_size], strict=True)]
    set_base_offset(log, batch, offset)
    report = report_of("--recovery-point", "0", "--salvage", "--no-quarantine", log_dir / PARTITION, status=4)
    (event,) = events(report, "salvaged")
    assert event["bytes"] == sizes[batch]
    assert log.stat().st_size == sum(sizes) - sizes[batch]
    assert not [event for event in events(report, "kept") if event["severity"] != "info"]
    assert "offset-order" not in codes_of(log_dir / PARTITION)[0]


def test_the_hole_behind_what_is_cut_is_named_at_once(log_dir):
    """A segment without its index is recovered while it is loaded: what follows it stays."""
    (log_dir / PARTITION / "00000000000000000042.index").unlink()
    os.truncate(log_dir / PARTITION / "00000000000000000042.log", 1200)
    holes = []
    for _ in range(2):
        report = report_of("--recovery-point", "0", log_dir / PARTITION, status=4)
        holes.append([(event["file"], event["first_offset"], event["end_offset"]) for event in events(report, "missing")])
    assert holes == [[("00000000000000000051.log", 51, 63)]] * 2


@pytest.mark.parametrize("name", ["abc.log", "abc.index", ".timeindex", "abc.txnindex", "99999999999999999999.snapshot"])
def test_a_name_without_an_offset_is_told_once_and_goes_to_the_quarantine(log_dir, name):
    content = (log_dir / PARTITION / "00000000000000000042.log").read_bytes() if name.endswith(".log") else b"garbage"
    (log_dir / PARTITION / name).write_bytes(content)
    done = kafkalog("verify", str(log_dir / PARTITION))
    assert (done.status, done.err.count("[name-invalid]")) == (4, 1)
    before = bytes_of(log_dir)
    report = report_of("--recovery-point", "0", log_dir / PARTITION, status=1)
    (event,) = [event for event in events(report, "removed") if event["file"] == name]
    assert f'java.lang.NumberFormatException: For input string: "{name.partition(".")[0]}"' in event["reason"]
    held = ("error", 42, 63, 21) if name.endswith(".log") else ("warning", None, None, None)
    assert (event["severity"], *map(event.get, ("first_offset", "end_offset", "records"))) == held
    assert not (log_dir / PARTITION / name).exists()
    (quarantine,) = log_dir.parent.glob("d1.quarantine-*")
    assert kafkalog("restore", str(quarantine)).status == 0
    assert bytes_of(log_dir) == before
