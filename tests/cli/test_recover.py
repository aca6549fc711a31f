"""kafkalog recover on log dirs: quarantine, dry run, marker, salvage, locks, settings, metrics."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from engine.errors import UnwritableFile
from engine.files import ReadOnlyFiles
from engine.log.quarantine.quarantining_files import QuarantiningFiles
from tests.support.file_work import tree
from tests.support.json_output import reports_of
from tests.support.other_process import lock_held
from tests.support.permissions import without_permission
from tests.support.run import kafkalog

ROOT = Path(__file__).resolve().parents[2]

LOG = "00000000000000000000.log"
NOW = "1764000000000"


@pytest.fixture
def log_dirs(own_corpus, tmp_path):
    """A copy of the log dirs of a killed broker, and what is in them."""
    top = tmp_path / "logs"
    shutil.copytree(own_corpus / "kafka-4.3.1/logs/unclean", top)
    return top


@pytest.fixture
def damaged(log_dirs):
    """The same with a flipped byte in the middle of u-plain-0, and what was there before."""
    log = log_dirs / "d1/u-plain-0" / LOG
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(data)
    return log_dirs


def bytes_of(top):
    return {name: data for name, data in tree(ReadOnlyFiles(), str(top)).items() if not name.endswith(".lock")}


def test_what_is_cut_is_kept_beside_the_log_dir_and_put_back(damaged):
    before = bytes_of(damaged)
    done = kafkalog("recover", "--now", NOW, "--jobs", "2", str(damaged))
    assert done.status == 1
    text = done.out.decode()
    assert "truncated 00000000000000000000.log" in text
    quarantines = sorted(path.name for path in damaged.iterdir() if "quarantine" in path.name)
    assert quarantines == ["d0.quarantine-20251124T160000Z", "d1.quarantine-20251124T160000Z"]
    assert bytes_of(damaged / "d1") != {name[3:]: data for name, data in before.items() if name.startswith("d1/")}
    for name in quarantines:
        assert f"kafkalog restore {damaged}/{name}" in text
        assert kafkalog("restore", str(damaged / name)).status == 0
        shutil.rmtree(damaged / name)
    assert bytes_of(damaged) == before


def test_each_run_has_a_quarantine_of_its_own(damaged):
    for _ in range(2):
        assert kafkalog("recover", "--now", NOW, str(damaged / "d1/u-plain-0")).status == 1
        with (damaged / "d1/u-plain-0" / LOG).open("ab") as log:
            log.write(b"torn")
    names = sorted(path.name for path in damaged.iterdir() if "quarantine" in path.name)
    assert names == ["d1.quarantine-20251124T160000Z", "d1.quarantine-20251124T160000Z-2"]


@pytest.mark.parametrize("words", [(), ("--mark-clean",)])  # the marker is away while it works
def test_a_second_run_has_nothing_to_keep(damaged, words):
    for _ in range(2):
        done = kafkalog("recover", "--now", NOW, *words, str(damaged))
    assert done.status == 0
    assert b"quarantine" not in done.out
    names = sorted(path.name for path in damaged.iterdir() if "quarantine" in path.name)
    assert names == ["d0.quarantine-20251124T160000Z", "d1.quarantine-20251124T160000Z"], "those of the first run"


def test_a_snapshot_that_says_something_else_is_made_anew_and_kept(damaged):
    kafkalog("recover", "--no-quarantine", "--now", NOW, str(damaged))
    after = bytes_of(damaged)
    snapshot = max((damaged / "d1/u-tx-0").glob("*.snapshot"))
    data = snapshot.read_bytes()[:-1] + b"x"
    snapshot.write_bytes(data)
    kafkalog("recover", "--now", NOW, str(damaged))
    [kept] = (damaged / "d1.quarantine-20251124T160000Z/files").iterdir()
    assert kept.read_bytes() == data
    assert {name: data for name, data in bytes_of(damaged).items() if "quarantine" not in name} == after


def test_a_quarantine_is_never_inside_a_log_dir(damaged):
    before = bytes_of(damaged)
    for inside in ("d1/kept", "d1/u-tx-0/kept"):
        done = kafkalog("recover", "--quarantine", str(damaged / inside), str(damaged / "d1"))
        assert done.status == 2
        assert "a broker does not start with a directory that is not Kafka's" in done.err
    assert bytes_of(damaged) == before


def test_a_dry_run_says_what_the_real_run_does(damaged):
    before = bytes_of(damaged)
    arguments = ("recover", "--now", NOW, "--format", "json", "--mark-clean", "--no-quarantine", str(damaged))
    said = kafkalog(arguments[0], "--dry-run", *arguments[1:])
    assert bytes_of(damaged) == before
    done = kafkalog(*arguments)
    assert said.status == done.status == 1
    foretold, reports = (reports_of(one.out) for one in (said, done))
    assert {report.pop("dry_run") for report in foretold} == {True}
    assert {report.pop("dry_run") for report in reports} == {False}
    assert foretold == reports
    assert bytes_of(damaged) != before
    assert (damaged / "d0/.kafka_cleanshutdown").read_bytes() == b""


def test_a_second_recovery_finds_nothing(damaged):
    kafkalog("recover", "--mark-clean", "--no-quarantine", str(damaged))
    before = bytes_of(damaged)
    done = kafkalog("recover", "--mark-clean", "--no-quarantine", str(damaged))
    assert done.status == 0
    assert bytes_of(damaged) == before


def test_a_partition_of_a_clean_log_dir_leaves_no_quarantine(own_corpus, tmp_path):
    top = tmp_path / "d0"
    shutil.copytree(own_corpus / "kafka-4.3.1/logs/clean/d0", top)
    assert kafkalog("recover", "--now", NOW, str(top / "append.time-0")).status == 0
    for path in tmp_path.glob("d0.quarantine-*"):
        shutil.rmtree(path)
    before, marker = bytes_of(tmp_path), (top / ".kafka_cleanshutdown").stat().st_mtime_ns // 1_000_000
    assert kafkalog("recover", "--now", NOW, str(top / "append.time-0")).status == 0
    assert bytes_of(tmp_path) == before
    assert (top / ".kafka_cleanshutdown").stat().st_mtime_ns // 1_000_000 == marker


def test_recovery_points_are_those_of_the_checkpoint(damaged):
    checkpoint = damaged / "d1/recovery-point-offset-checkpoint"
    checkpoint.write_text("0\n1\nu-plain 0 199\n")
    size = (damaged / "d1/u-plain-0" / LOG).stat().st_size
    partition = str(damaged / "d1/u-plain-0")
    kafkalog("recover", "--no-quarantine", "--recovery-point", "0", partition)
    assert (damaged / "d1/u-plain-0" / LOG).stat().st_size < size
    assert checkpoint.read_text() == "0\n1\nu-plain 0 199\n", "a partition was named, not its log dir"


def test_salvage_keeps_what_lies_behind_the_damage(damaged, own_corpus):
    done = kafkalog("recover", "--salvage", "--no-quarantine", "--format", "json", str(damaged / "d1/u-plain-0"))
    assert done.status == 1
    [report] = reports_of(done.out)
    (event,) = (event for event in report["events"] if event["action"] == "salvaged")
    assert 0 < event["first_offset"] < event["end_offset"] < report["log_end_offset"] == 199
    kept = kafkalog("dump-log", "--deep-iteration", "--format", "jsonl", str(damaged / "d1/u-plain-0" / LOG))
    whole = kafkalog("dump-log", "--deep-iteration", "--format", "jsonl",
                     str(own_corpus / "kafka-4.3.1/logs/unclean/d1/u-plain-0" / LOG))
    offsets, all_offsets = ([json.loads(line)["offset"] for line in one.out.splitlines() if b'"type":"record"' in line]
                            for one in (kept, whole))
    assert offsets == [offset for offset in all_offsets if not event["first_offset"] <= offset < event["end_offset"]]
    assert kafkalog("verify", str(damaged / "d1/u-plain-0")).status in (0, 4)


def test_salvage_below_the_recovery_point_says_what_it_did_and_read(own_corpus, tmp_path):
    partition = tmp_path / "u-rolls-0"
    shutil.copytree(own_corpus / "kafka-4.3.1/logs/unclean/d0/u-rolls-0", partition)
    segment = sorted(partition.glob("*.log"))[1]
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 1
    segment.write_bytes(data)
    done = kafkalog("recover", "--salvage", "--no-quarantine", "--recovery-point", "173", str(partition))
    text = done.out.decode()
    assert done.status == 1
    assert f"salvaged {segment.name}" in text
    assert "its offset index is missing" not in text
    assert "was read (--recovery-point" not in text


def test_a_running_broker_keeps_it_out(log_dirs):
    before = bytes_of(log_dirs)
    with lock_held(log_dirs / "d1/.lock"):
        for paths in ([str(log_dirs)], [str(log_dirs / "d1/u-tx-0")]):
            done = kafkalog("recover", *paths)
            assert done.status == 8
            assert "error[log-dir-locked]" in done.err
    assert bytes_of(log_dirs) == before
    assert kafkalog("recover", "--dry-run", str(log_dirs)).status in (0, 1)


def test_settings_come_from_the_metadata_log_on_the_same_disk(log_dirs):
    """index.interval.bytes of the topic decides where entries fall: the broker's own index is made again."""
    index = log_dirs / "d0/u-codecs-0/00000000000000000000.index"
    kafkalog("recover", "--no-quarantine", str(log_dirs / "d0"))
    own = index.read_bytes()
    kafkalog("recover", "--no-quarantine", "--config", "index.interval.bytes=4096", str(log_dirs / "d0"))
    assert len(index.read_bytes()) < len(own)
    kafkalog("recover", "--no-quarantine", "--config", "index.interval.bytes=500", str(log_dirs / "d0"))
    assert index.read_bytes() == own


def test_log_dirs_come_from_server_properties(log_dirs):
    file = log_dirs / "server.properties"
    file.write_text(f"log.dirs={log_dirs}/d0,{log_dirs}/d1\nlog.index.interval.bytes=100\n")
    done = kafkalog("recover", "--dry-run", "--config-file", str(file), "--format", "json")
    assert len({one["partition"].split("/")[-2] for one in reports_of(done.out)}) == 2
    assert kafkalog("recover", "--dry-run").status == 2
    file.write_text("log.segment.bytes=none\n")
    done = kafkalog("recover", "--config-file", str(file), str(log_dirs))
    assert done.status == 2
    assert "Invalid value none for configuration segment.bytes: Not a number of type INT" in done.err


def test_metrics_have_the_names_of_kafka(damaged):
    file = damaged / "kafkalog.prom"
    kafkalog("recover", "--no-quarantine", "--now", NOW, "--metrics-textfile", str(file), str(damaged / "d1"))
    lines = file.read_text().splitlines()
    assert 'kafka_log_log_logendoffset{partition="0",topic="u-moving"} 200.0' in lines
    assert any(line.startswith('kafkalog_truncated_bytes{partition="0",topic="u-plain"} ') for line in lines)
    assert "kafkalog_last_run_timestamp_seconds 1.764e+09" in lines
    assert sorted(path.name for path in damaged.iterdir()) == ["d0", "d1", "kafkalog.prom"]


@pytest.mark.parametrize(("where", "what"), [("nowhere/kafkalog.prom", "No such file or directory"), ("d1", "not a file")])
def test_metrics_that_can_not_be_written_are_met_before_anything_is_done(damaged, where, what):
    before = bytes_of(damaged)
    done = kafkalog("recover", "--no-quarantine", "--now", NOW, "--metrics-textfile", f"{damaged}/{where}", str(damaged / "d1"))
    assert (done.status, done.out) == (8, b"")
    assert f"error[unwritable-file] {damaged}/{where}" in done.err
    assert what in done.err
    assert "\n  do   the directory of --metrics-textfile FILE must exist and be writable" in done.err
    assert bytes_of(damaged) == before
    assert not (damaged / "d1/.lock").exists()


def test_metrics_without_their_package_are_refused_before_anything_is_done(damaged, monkeypatch):
    before = bytes_of(damaged)
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    done = kafkalog("recover", "--no-quarantine", "--now", NOW, "--metrics-textfile", f"{damaged}/m.prom", str(damaged / "d1"))
    assert (done.status, done.out) == (2, b"")
    assert "metrics need the package prometheus-client" in done.err
    assert bytes_of(damaged) == before


def test_a_quarantine_that_can_not_be_closed_leaves_no_other_open(damaged, monkeypatch):
    finish = QuarantiningFiles.finish

    def finish_some(seam):
        if seam.directory.endswith("kept"):
            raise UnwritableFile(f"{seam.directory}: the disk is failing")
        finish(seam)

    shutil.copytree(damaged / "d1", damaged / "d2")
    monkeypatch.setattr(QuarantiningFiles, "finish", finish_some)
    kept = str(damaged.parent / "kept")
    done = kafkalog("recover", "--quarantine", kept, "--now", NOW, *(str(damaged / name) for name in ("d0", "d1", "d2")))
    assert done.status == 8
    assert f"error[unwritable-file] {kept}: the disk is failing" in done.err
    last = {name: (damaged.parent / name / "manifest.jsonl").read_text().splitlines()[-1] for name in ("kept", "kept-2", "kept-3")}
    assert [name for name, line in last.items() if '"left"' in line] == ["kept-2", "kept-3"]


MARKER = b'{"version":0,"brokerEpoch":375}'


@pytest.fixture
def clean(own_corpus, tmp_path):
    """A log dir that was stopped cleanly: its marker has an epoch of the broker."""
    shutil.copytree(own_corpus / "kafka-4.3.1/logs/clean/d0", tmp_path / "d0")
    (tmp_path / "d0/.kafka_cleanshutdown").write_bytes(MARKER)
    (tmp_path / "d0/.lock").touch()
    return tmp_path / "d0"


@pytest.mark.parametrize("words", [(), ("--full",), ("--salvage",), ("--mark-clean",), ("--jobs", "4")], ids=" ".join)
def test_a_sound_log_dir_that_was_stopped_cleanly_stays_as_it_is(clean, words):
    before = tree(ReadOnlyFiles(), str(clean))
    for more in (("--dry-run",), ()):
        done = kafkalog("recover", "--now", NOW, *words, *more, str(clean))
        assert done.status == 0, done.out
        assert b"quarantine" not in done.out
        assert tree(ReadOnlyFiles(), str(clean)) == before
    assert [path.name for path in clean.parent.iterdir()] == ["d0"]


@pytest.mark.parametrize(("name", "at"), [("index", 6), ("index", None), ("timeindex", 0), ("timeindex", None)])
def test_a_broken_index_is_rebuilt_after_a_clean_stop_too(clean, own_corpus, name, at):
    shutil.copytree(own_corpus / "kafka-4.3.1/logs/clean/d1", clean.parent / "d1")
    (clean.parent / "d1/.lock").touch()
    index = max((clean / "append.time-0").glob(f"*.{name}"))
    sound = index.read_bytes()
    index.write_bytes(sound + b"x" if at is None else sound[:at] + bytes([sound[at] ^ 0x55]) + sound[at + 1 :])
    before, beside = tree(ReadOnlyFiles(), str(clean)), tree(ReadOnlyFiles(), str(clean.parent / "d1"))
    assert kafkalog("verify", "-q", str(clean / "append.time-0")).status == 4
    done = kafkalog("recover", "--full", "--now", NOW, str(clean.parent))
    assert (done.status, f"  rebuilt {index.name} - it was broken" in done.out.decode()) == (1, True), done
    assert index.read_bytes() == sound
    assert kafkalog("verify", "-q", str(clean / "append.time-0")).status == 0
    assert tree(ReadOnlyFiles(), str(clean.parent / "d1")) == beside, "nothing was wrong there"
    kafkalog("restore", str(next(clean.parent.glob("d0.quarantine-*"))))
    assert tree(ReadOnlyFiles(), str(clean)) == before


@pytest.mark.parametrize("name", ["500.log", "9223372036854775807.log", "000000000000000000500.log"])
@pytest.mark.parametrize("command", [("recover", "--salvage"), ("recover", "--mark-clean"), ("roll",)], ids=" ".join)
def test_a_log_whose_name_does_not_have_20_digits_begins_no_empty_segment(clean, command, name):
    """A broker begins an empty segment at the offset in the name: the offsets before it would be lost to producers."""
    stray = clean / "append.time-0" / name
    shutil.copy(max((clean / "append.time-0").glob("*.log")), stray)
    before = tree(ReadOnlyFiles(), str(clean / "append.time-0"))
    done = kafkalog(*command, "--now", NOW, str(clean))
    assert done.status == 8
    assert f"{stray}: not the name of a segment: a broker begins an empty segment at offset {int(name[:-4])}" in done.err
    assert tree(ReadOnlyFiles(), str(clean / "append.time-0")) == before
    for level in ("start", "quick", "full"):
        checked = kafkalog("check", "--level", level, str(clean))
        assert checked.status == 4
        assert f"{stray}: not a file name of a broker, which begins an empty segment at offset" in checked.out.decode()
    assert kafkalog("verify", str(clean / "append.time-0")).status == 4


def test_plain_recovery_begins_that_empty_segment_as_a_broker_and_says_so(clean, tmp_path):
    stray = clean / "append.time-0/500.log"
    shutil.copy(max((clean / "append.time-0").glob("*.log")), stray)
    before = tree(ReadOnlyFiles(), str(clean))
    foretold = kafkalog("recover", "-n", "--now", NOW, str(clean))
    done = kafkalog("recover", "--now", NOW, "--quarantine", str(tmp_path / "kept"), str(clean))
    for one in (foretold, done):
        assert one.status == 4
        assert "500.log - not the name of a segment: a broker begins an empty segment at offset 500" in one.out.decode()
    assert (clean / f"append.time-0/{500:020}.log").read_bytes() == b""
    assert kafkalog("restore", str(tmp_path / "kept")).status == 0
    assert {path: data for path, data in tree(ReadOnlyFiles(), str(clean)).items() if ".lock" not in path} == {
        path: data for path, data in before.items() if ".lock" not in path}  # fmt: skip


def test_the_clean_marker_is_removed_with_the_first_repair(clean):
    log = max((clean / "append.time-0").glob("*.log"))
    log.write_bytes(log.read_bytes() + bytes(100))
    said = kafkalog("recover", "--no-quarantine", "--now", NOW, "--dry-run", str(clean))
    assert "  would remove .kafka_cleanshutdown - " in said.out.decode()
    marker = clean / ".kafka_cleanshutdown"
    assert marker.exists()
    done = kafkalog("recover", "--no-quarantine", "--now", NOW, "--format", "json", str(clean))
    [told] = [event for one in reports_of(done.out) for event in one["events"] if event.get("file") == marker.name]
    assert (told["action"], told["severity"]) == ("removed", "info")
    assert not marker.exists()
    assert b".kafka_cleanshutdown" not in kafkalog("recover", "--no-quarantine", "--now", NOW, str(clean)).out


@pytest.mark.parametrize(("tail", "kept"), [(bytes(100), MARKER), (b"x" * 100, b"")], ids=["zeros", "bytes"])
def test_a_marker_that_is_written_again_keeps_the_broker_epoch_unless_something_was_lost(clean, tail, kept):
    log = max((clean / "append.time-0").glob("*.log"))
    log.write_bytes(log.read_bytes() + tail)
    assert kafkalog("recover", "--mark-clean", "--no-quarantine", "--now", NOW, str(clean)).status == 1
    assert (clean / ".kafka_cleanshutdown").read_bytes() == kept


@pytest.mark.parametrize("magic", [3, 127])
def test_a_log_that_consumers_can_not_read_is_not_marked_as_clean(own_corpus, tmp_path, magic):
    """No checksum covers the magic: a broker keeps the batch and starts. That is done, told, and no proof."""
    shutil.copytree(own_corpus / "kafka-4.3.1/logs/clean/d1/small_segments-0", tmp_path / "data/small_segments-0")
    shutil.copy(own_corpus / "kafka-4.3.1/logs/clean/d1/meta.properties", tmp_path / "data")
    path = tmp_path / "data/small_segments-0" / f"{42:020}.log"
    data = bytearray(path.read_bytes())
    data[16] = data[383 + 16] = magic
    path.write_bytes(data)
    done = kafkalog("recover", "--mark-clean", "data", cwd=tmp_path)
    assert done.status == 4, done.err
    assert f"{path.name} (at offset 42) - at byte 0: a batch of magic {magic}, which no version of Kafka knows, and 1 more".encode() in done.out
    assert not (tmp_path / "data/.kafka_cleanshutdown").exists()
    assert path.read_bytes() == data
    done = kafkalog("recover", "--mark-clean", "--salvage", "data", cwd=tmp_path)
    assert done.status == 1, done.err
    assert (tmp_path / "data/.kafka_cleanshutdown").exists()
    assert 0 < len(path.read_bytes()) < len(data) - 383
    assert data.endswith(path.read_bytes())


def test_other_commands_keep_the_marker_and_note_where_logs_begin(own_corpus, tmp_path):
    top = tmp_path / "d0"
    shutil.copytree(own_corpus / "kafka-4.3.1/logs/clean/d0", top)
    marker = (top / ".kafka_cleanshutdown").read_bytes()
    done = kafkalog("delete-records", "--before", "50", str(top / "append.time-0"))
    assert done.status == 0
    assert (top / ".kafka_cleanshutdown").read_bytes() == marker
    assert "append.time 0 50" in (top / "log-start-offset-checkpoint").read_text().splitlines()
    assert "append.time 0 95" in (top / "recovery-point-offset-checkpoint").read_text().splitlines()


def test_a_partition_that_is_recovered_keeps_the_marker_unless_something_is_wrong(own_corpus, tmp_path):
    top = tmp_path / "d0"
    shutil.copytree(own_corpus / "kafka-4.3.1/logs/clean/d0", top)
    marker = (top / ".kafka_cleanshutdown").read_bytes()
    asked = ("recover", "--no-quarantine", "--recovery-point", "0", str(top / "append.time-0"))
    assert kafkalog(*asked).status in (0, 1)
    assert (top / ".kafka_cleanshutdown").read_bytes() == marker
    (top / "append.time-0/00000000000000000000.log").unlink()
    (top / "append.time-0/00000000000000000000.log").symlink_to("nowhere")
    assert kafkalog(*asked).status == 8  # and nothing was done
    assert (top / ".kafka_cleanshutdown").read_bytes() == marker


def test_a_partition_that_is_recovered_and_still_stops_a_broker_takes_the_marker(own_corpus, tmp_path):
    top = tmp_path / "d0"
    shutil.copytree(own_corpus / "kafka-4.3.1/logs/clean/d0", top)
    (top / "log-start-offset-checkpoint").write_text("0\n1\nappend.time 0 1000000\n")
    asked = ("recover", "--no-quarantine", "--start-beyond-end", "keep", str(top / "append.time-0"))
    assert kafkalog(*asked).status == 4
    assert not (top / ".kafka_cleanshutdown").exists()


def test_what_is_removed_is_not_said_to_be_kept(log_dirs):
    (log_dirs / "d0/recovery-point-offset-checkpoint").write_bytes(b"garbage")
    said = [kafkalog("recover", *words, "--no-quarantine", str(log_dirs / "d0")).out.decode() for words in (("--dry-run",), ())]
    reason = " recovery-point-offset-checkpoint - no valid line was read; "
    assert [f"  {verb}{reason}" in text for verb, text in zip(("would remove", "removed"), said, strict=True)] == [True, True]
    assert "set aside" not in "".join(said)


def test_a_partition_is_not_marked_as_clean(log_dirs):
    before = bytes_of(log_dirs)
    done = kafkalog("recover", "--mark-clean", "--no-quarantine", str(log_dirs / "d0/u-plain-1"))
    assert (done.status, done.out) == (2, b"")
    assert "u-plain-1: a partition; --mark-clean marks a whole log dir" in done.err
    assert f"kafkalog recover --mark-clean {log_dirs / 'd0'}" in done.err
    assert bytes_of(log_dirs) == before


def test_options_that_exclude_each_other(log_dirs):
    assert kafkalog("recover", "--quarantine", "x", "--no-quarantine", str(log_dirs)).status == 2
    assert kafkalog("recover", "--mark-clean", "--clean-start", str(log_dirs)).status == 2


def test_offsets_are_of_partitions_not_of_log_dirs(log_dirs):
    before = bytes_of(log_dirs)
    for command in (("truncate", "--to", "5"), ("delete-records", "--before", "5")):
        done = kafkalog(*command, str(log_dirs / "d0"))
        assert done.status == 2
        assert "needs partitions, named one by one" in done.err
    assert bytes_of(log_dirs) == before


def test_the_metadata_log_is_only_rolled_by_name(log_dirs):
    metadata = log_dirs / "d0/__cluster_metadata-0"
    kafkalog("roll", str(log_dirs / "d0"))
    assert len(list((log_dirs / "d0/u-plain-1").glob("*.log"))) == 2
    assert len(list(metadata.glob("*.log"))) == 1


def test_a_partition_that_can_not_be_read_is_one_error(log_dirs):
    with without_permission(log_dirs / "d1/u-tx-0"):
        done = kafkalog("recover", "--no-quarantine", "--mark-clean", str(log_dirs / "d1"))
    assert done.status == 8
    assert not (log_dirs / "d1/.kafka_cleanshutdown").exists()
    assert "u-plain-0: offsets 0 to 198" in done.out.decode()


@pytest.mark.parametrize("words", [("--mark-clean",), ("--salvage",), ("--dry-run",)])
def test_a_log_on_a_disk_that_is_not_mounted_is_one_error(log_dirs, words):
    log = log_dirs / "d1/u-plain-0" / LOG
    log.unlink()
    log.symlink_to(log_dirs / "nowhere")
    names = sorted(os.listdir(log.parent))
    done = kafkalog("recover", *words, "--now", NOW, str(log_dirs / "d1"))
    assert done.status == 8
    assert f"{log}: a symbolic link to a target that does not exist: perhaps a disk is not mounted; the partition is left unchanged" in done.err
    would_be = "would be done; not" if "--dry-run" in words else "done; not done"
    assert f"5 of 6 partitions {would_be}: u-plain-0" in done.err
    assert not (log_dirs / "d1/.kafka_cleanshutdown").exists()
    assert sorted(os.listdir(log.parent)) == names


def test_a_metadata_log_on_a_disk_that_is_not_mounted_stops_everything(log_dirs):
    log = log_dirs / "d0/__cluster_metadata-0" / LOG
    log.unlink()
    before = bytes_of(log_dirs)
    log.symlink_to(log_dirs / "nowhere")
    done = kafkalog("recover", "--now", NOW, str(log_dirs / "d0"))
    assert done.status == 8
    assert f"{log}: No such file or directory: a symbolic link to a target that does not exist" in done.err
    log.unlink()
    assert bytes_of(log_dirs) == before


def test_the_empty_segment_of_a_roll_is_nothing_wrong(own_corpus, tmp_path):
    partition = tmp_path / "small_segments-0"
    shutil.copytree(own_corpus / "kafka-4.3.1" / "logs" / "clean" / "d1" / partition.name, partition)
    assert kafkalog("roll", str(partition)).status == 0
    assert kafkalog("recover", "--clean-start", "--no-quarantine", str(partition)).status == 0


def test_a_reader_that_goes_away_does_not_stop_the_work(own_corpus, tmp_path):
    trees = []
    for name, closed in (("read", False), ("unread", True)):
        log_dir = tmp_path / name / "d1"
        shutil.copytree(own_corpus / "kafka-4.3.1" / "logs" / "unclean" / "d1", log_dir)
        words = [sys.executable, "-m", "kafkalog_cli", "recover", "--now", "1764000000000", "--jobs", "1", str(log_dir)]
        with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            if closed:
                process.stdout.close()
            else:
                process.stdout.read()
            assert re.fullmatch(rb"kept in quarantine: .*\n", process.stderr.read())
            assert process.wait(60) == 1
        trees.append(tree(ReadOnlyFiles(), str(tmp_path / name)))
    assert len(trees[0]) > 50
    assert {name: data for name, data in trees[0].items() if "manifest" not in name} == {
        name: data for name, data in trees[1].items() if "manifest" not in name
    }


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_broker_that_is_not_root_can_open_what_root_left(damaged):
    for path in (damaged, *damaged.rglob("*")):
        os.chown(path, 3001, 3002)
    assert kafkalog("recover", "--salvage", "--now", NOW, str(damaged)).status in (1, 4)
    assert kafkalog("roll", "--now", NOW, str(damaged / "d0/u-rolls-0")).status == 0
    assert [path for path in damaged.rglob("*") if (path.stat().st_uid, path.stat().st_gid) != (3001, 3002)] == []


def test_what_was_written_aside_when_it_was_stopped_goes(log_dirs):
    names = [f"00000000000000000000{kind}.kafkalog" for kind in (".log", ".index", ".txnindex")]
    for name in names:
        (log_dirs / "d0/u-rolls-0" / name).write_bytes(b"half of it")
    assert kafkalog("verify", str(log_dirs / "d0/u-rolls-0")).status == 0
    done = kafkalog("recover", "--now", NOW, str(log_dirs / "d0/u-rolls-0"))
    assert done.status == 1
    for name in names:
        assert f"removed {name} (10 bytes) - a leftover file of a kafkalog command that was stopped" in done.out.decode()
    assert not list((log_dirs / "d0").rglob("*.kafkalog"))


def test_a_hard_link_to_an_index_keeps_what_it_had(log_dirs, tmp_path):
    index = log_dirs / "d0/u-rolls-0/00000000000000000263.index"
    (tmp_path / "backup").hardlink_to(index)
    before = index.read_bytes()
    assert kafkalog("recover", "--now", NOW, str(log_dirs / "d0/u-rolls-0")).status == 0
    assert (tmp_path / "backup").read_bytes() == before != index.read_bytes()


@pytest.mark.parametrize("now", ["0", str(2**63 - 1)])
def test_any_clock_names_a_quarantine(damaged, now):
    done = kafkalog("recover", "--now", now, str(damaged / "d1/u-plain-0"))
    assert done.status == 1
    assert b"kept in quarantine" in done.out


@pytest.mark.parametrize("words", [(), ("--quarantine", "{top}/kept")])
def test_a_quarantine_that_can_not_be_made_is_told_once_before_anything_is_done(damaged, words):
    before = bytes_of(damaged)
    with without_permission(damaged, 0o555):
        done = kafkalog("recover", "--now", NOW, *(word.format(top=damaged) for word in words), str(damaged / "d1"))
        assert done.status == 8
        assert done.err.count("Permission denied: the quarantine would be written there") == 1
        assert "\n  do   --quarantine DIR chooses another place, --no-quarantine keeps nothing\n" in done.err
        assert bytes_of(damaged) == before
        assert kafkalog("recover", "--now", NOW, "--no-quarantine", str(damaged / "d1")).status == 1


def test_a_lock_that_can_not_be_taken_has_advice(damaged):
    with without_permission(damaged / "d1", 0o555):
        done = kafkalog("recover", "--now", NOW, str(damaged / "d1"))
    assert done.status == 8
    assert f"/d1/.lock: Permission denied\n  do   chmod u+rwX {damaged}/d1    # " in done.err


def test_the_metadata_log_is_counted_with_the_others(log_dirs, monkeypatch):
    from engine.errors import UnwritableFile
    from engine.log.logdir.log_manager import LogManager

    def refuse(_self, place, _report, _options, **_values):
        raise UnwritableFile(f"{place.path}: no space")

    monkeypatch.setattr(LogManager, "load", refuse)
    done = kafkalog("recover", "--now", NOW, str(log_dirs))
    assert done.status == 8
    count = sum(not path.name.endswith("-delete") for path in log_dirs.glob("d?/*-[0-9]*/"))
    assert f"0 of {count} partitions done; not done: " in done.err
    assert "__cluster_metadata-0" in done.err.splitlines()[-1]


def test_a_file_of_kafka_07_among_later_ones_is_ignored(log_dirs):
    log_dir = log_dirs / "d1"
    (log_dir / "u-plain-0/00000000000000000000.kafka").write_bytes(b"of somebody")
    remark = "note: 00000000000000000000.kafka - a file of Kafka 0.7 among those of a later log: ignored, as by a broker"
    done = kafkalog("recover", "--now", NOW, str(log_dir))
    assert done.status <= 1, done.err
    assert done.out.decode().count(remark) == 1
    done = kafkalog("retain", "--now", NOW, str(log_dir / "u-plain-0"))
    assert (done.status, done.err) == (0, "")
    assert done.out.decode().count(remark) == 1
    assert (log_dir / "u-plain-0/00000000000000000000.kafka").read_bytes() == b"of somebody"


def test_a_topic_id_before_the_zeros_of_a_torn_write_is_taken(log_dirs):
    log_dir = log_dirs / "d1"
    path = log_dir / "u-plain-0/partition.metadata"
    before = path.read_bytes()
    shutil.rmtree(log_dirs / "d0")  # with the metadata log, which knows it too
    path.write_bytes(before + bytes(100))
    done = kafkalog("recover", "--now", NOW, str(log_dir))
    assert done.status == 1, done.err
    assert " is in the file itself, before the zeros of an unfinished write" in done.out.decode()
    assert path.read_bytes() == before
    path.write_bytes(before[:-1] + bytes(100))
    done = kafkalog("recover", "--now", NOW, str(log_dir))
    assert "its content is nowhere else on the disk" in done.out.decode()
