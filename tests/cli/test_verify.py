"""kafkalog verify: what it prints of real directories, and how it ends."""

from __future__ import annotations

import os
import shlex
import shutil

import pytest

from engine.record.builder import NewRecord, build_batch
from tests.support.json_output import all_objects, objects_of
from tests.support.permissions import without_permission
from tests.support.run import kafkalog


@pytest.fixture
def partition(own_corpus, tmp_path):
    shutil.copytree(own_corpus / "kafka-4.3.1/cases/recover-open-transaction/expected/topic-0", tmp_path / "topic-0")
    return tmp_path / "topic-0"


def objects(*words, cwd=None):
    done = kafkalog("verify", "--format", "jsonl", *words, cwd=cwd)
    return all_objects(done.out)[1:], done


def test_a_sound_log_dir(own_corpus):
    done = kafkalog("verify", "clean", cwd=own_corpus / "kafka-4.3.1/logs")
    assert done.status == 0
    *lines, total = done.out.decode().splitlines()
    assert len(lines) > 40
    assert total.startswith(f"{len(lines)} partitions: {len(lines)} sound; ")
    assert all(": sound (" in line for line in lines)
    assert [line for line in done.err.splitlines() if not line.startswith("info[index-zero-tail] clean/d0/doomed")] == []


def test_damage_ends_with_4_and_says_whether_it_does_harm(partition):
    index = partition / "00000000000000000000.index"
    index.write_bytes(index.read_bytes() + bytes([0, 0, 255, 0, 0, 0, 255, 0]))
    done = kafkalog("verify", "topic-0", cwd=partition.parent)
    assert done.status == 4
    assert done.out.decode().startswith("topic-0: broken (2 segments, ")
    assert done.err.startswith("warning[index-beyond-log] topic-0/00000000000000000000.index at byte ")
    assert "not harmless" in done.err


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".txnindex"])
def test_the_advice_makes_anew_what_is_missing(own_corpus, tmp_path, suffix):
    """In a directory whose name has a blank, as a shell takes the command."""
    kept = own_corpus / "kafka-4.3.1/logs/clean/d0/tx-0"
    chosen = next(path for path in sorted(kept.glob(f"*{suffix}")) if path.stat().st_size > 0)
    partition = tmp_path / "my data" / chosen.parent.name
    shutil.copytree(chosen.parent, partition)
    (partition / chosen.name).unlink()
    found = [one for one in objects(str(partition))[0] if one["type"] == "finding" and one["severity"] != "info"]
    (advice,) = {one["do"] for one in found}
    program, *words = shlex.split(advice)
    assert program == "kafkalog"
    assert kafkalog(*words).status == 1
    assert (partition / chosen.name).exists()
    assert kafkalog("verify", str(partition)).status == 0


def test_json_fits_the_schema(partition):
    (partition / "00000000000000000045.timeindex").unlink()
    found, done = objects(str(partition))
    assert [one["type"] for one in found] == ["finding", "verification", "end"]
    assert (found[1]["verdict"], found[2]["exit_status"], done.status) == ("broken", 4, 4)
    assert all_objects(kafkalog("verify", "--format", "json", str(partition)).out)[1:] == found


def test_paths_of_every_kind(partition):
    for path in ("topic-0", ".", "topic-*", "topic-0/00000000000000000045.index"):
        found, done = objects(path, cwd=partition.parent)
        assert [one["path"] for one in found if one["type"] == "verification"] == [
            "./topic-0" if path == "." else "topic-0"
        ], path
        assert done.status == 0
    found, _ = objects(".", cwd=partition)
    assert [one["path"] for one in found if one["type"] == "verification"] == ["."]


def test_each_partition_comes_once_however_it_is_spelled(partition):
    (partition.parent / "link").symlink_to(partition)
    found, done = objects("topic-0", "link", "./topic-0", str(partition), "topic-0/00000000000000000045.index", cwd=partition.parent)
    assert [one["path"] for one in found if one["type"] == "verification"] == ["topic-0"]
    assert done.status == 0


def test_what_is_no_partition_is_told(tmp_path):
    (tmp_path / "empty").mkdir()
    assert kafkalog("verify", str(tmp_path / "empty")).status == 2
    assert kafkalog("verify", str(tmp_path / "missing")).status == 8
    assert kafkalog("verify").status == 2


@pytest.mark.parametrize("words", [
    ("verify",), ("recover",), ("retain",), ("roll",), ("truncate", "--to", "1"), ("delete-records", "--before", "1"),
    ("append", "--input", "/dev/null"), ("fetch",), ("compact",),
], ids=lambda words: words[0])  # fmt: skip
def test_every_command_says_the_same_of_a_directory_that_is_none_of_kafkas(tmp_path, words):
    (tmp_path / "etc/below").mkdir(parents=True)
    (tmp_path / "etc/passwd").write_text("root")
    done = kafkalog(*words, str(tmp_path / "etc"))
    assert (done.status, done.err.splitlines()) == (2, [
        f"error[usage] {tmp_path}/etc: not a partition, not a log dir, and not a directory of log dirs",
        "  do   name partition directories, such as data/orders-7, or log dirs (log.dirs in server.properties)",
    ])  # fmt: skip


def test_a_partition_without_a_file_is_one_and_not_sound(tmp_path):
    (tmp_path / "orders-7").mkdir()
    done = kafkalog("verify", str(tmp_path / "orders-7"))
    assert (done.status, done.out.decode().partition(" (")[0]) == (4, f"{tmp_path}/orders-7: broken")
    (tmp_path / "file").write_text("x")
    done = kafkalog("verify", str(tmp_path / "file"))
    assert (done.status, "file: its name is not that of a file of a partition" in done.err) == (2, True)


def test_several_jobs_give_the_same_in_the_same_order(own_corpus):
    folder = own_corpus / "kafka-4.3.1/logs"
    one, four = (kafkalog("verify", "--jobs", jobs, "unclean", cwd=folder) for jobs in ("1", "4"))
    assert (one.out.splitlines()[:-1], one.err, one.status) == (four.out.splitlines()[:-1], four.err, 0)
    assert one.out.splitlines()[-1].partition(b" in ")[0] == four.out.splitlines()[-1].partition(b" in ")[0]


def test_nothing_is_changed(partition):
    def state():
        return {name: ((partition / name).read_bytes(), os.stat(partition / name).st_mtime_ns) for name in os.listdir(partition)}

    os.chmod(partition, 0o500)
    before = state()
    assert kafkalog("verify", str(partition)).status == 0
    assert state() == before
    os.chmod(partition, 0o700)


def test_rebuild(partition):
    before = {path.name: path.read_bytes() for path in partition.iterdir()}
    settings = ("--config", "index.interval.bytes=256", "--now", "1700003600000")
    (partition / "00000000000000000000.index").unlink()
    (partition / "00000000000000000045.snapshot").write_bytes(b"garbage")
    broken = {path.name: path.read_bytes() for path in partition.iterdir()}
    dry = kafkalog("verify", "--rebuild", "--no-quarantine", "--dry-run", *settings, "topic-0", cwd=partition.parent)
    assert dry.status == 1
    assert {path.name: path.read_bytes() for path in partition.iterdir()} == broken
    done = kafkalog("verify", "--rebuild", "--no-quarantine", *settings, "topic-0", cwd=partition.parent)
    assert (done.status, done.out + b"dry run: nothing was changed\n") == (1, dry.out)
    assert done.out.decode().splitlines()[0].startswith("topic-0: rebuilt 00000000000000000000.index, ")
    assert {path.name: path.read_bytes() for path in partition.iterdir()} == before
    assert sorted(path.name for path in partition.parent.iterdir()) == [".lock", "topic-0"]
    again, done = objects("--rebuild", *settings, "topic-0", cwd=partition.parent)
    assert ([one["type"] for one in again], done.status) == (["verification", "end"], 0)


def test_rebuild_in_json(partition):
    (partition / "00000000000000000000.index").unlink()
    found, done = objects("--rebuild", "topic-0", cwd=partition.parent)
    assert [one["type"] for one in found] == ["finding", "rebuilt", "verification", "kept", "end"]
    assert found[1]["files"][0] == "00000000000000000000.index"
    assert (found[2]["verdict"], done.status) == ("sound", 1)


@pytest.mark.parametrize("form", ["text", "jsonl"])
def test_a_log_dir_that_can_not_be_looked_at_ends_a_rebuild_without_a_traceback(partition, form):
    identity = partition.parent / "meta.properties"
    identity.write_text("version=1\n")
    with without_permission(identity):
        done = kafkalog("verify", "--rebuild", "--format", form, str(partition))
    assert done.status == 8
    assert f"error[unreadable-file] {identity}: Permission denied" in done.err
    assert (b'"unreadable-file"' in done.out) is (form == "jsonl")


def test_what_can_not_be_rebuilt_stays(partition):
    log = partition / "00000000000000000045.log"
    log.write_bytes(log.read_bytes()[:-5])
    (partition / "00000000000000000000.index").unlink()
    done = kafkalog("verify", "--rebuild", str(partition))
    assert done.status == 4
    assert "error[log-damaged]" in done.err
    assert not (partition / "00000000000000000000.index").exists()
    assert kafkalog("verify", "--dry-run", str(partition)).status == 2


@pytest.fixture
def log_dirs(own_corpus, tmp_path):
    shutil.copytree(own_corpus / "kafka-4.3.1/logs/clean", tmp_path / "clean")
    return tmp_path / "clean"


def test_rebuilt_with_the_settings_of_the_metadata_log(log_dirs, tmp_path):
    """The topic's index.interval.bytes stands there, in the other log dir; what the user says goes over it."""
    path = log_dirs / "d0/codec.none-0/00000000000000000000.index"
    before = path.read_bytes()
    assert before

    def rebuilt(*arguments):
        path.unlink()
        kafkalog("verify", "--rebuild", *arguments)
        return path.read_bytes()

    properties = tmp_path / "server.properties"
    properties.write_text(f"log.dirs={log_dirs}/d0,{log_dirs}/d1\nlog.index.interval.bytes=1\n")
    directory, other = str(path.parent), str(log_dirs / "d1")
    assert rebuilt("--config-file", str(properties)) == before
    assert rebuilt(directory, other) == before
    assert len(rebuilt(directory, other, "--config", "index.interval.bytes=100000")) < len(before)
    assert len(rebuilt("--config-file", str(properties), "--config", "index.interval.bytes=1")) > len(before)


@pytest.mark.parametrize(("damage", "code", "words"), [
    (lambda top: (top / "d1/meta.properties").unlink(), "broker-stops", "No `meta.properties` found in"),
    (lambda top: (top / "d1/lost+found").mkdir(), "broker-stops", "is not in the form of topic-partition"),
    (lambda top: (top / "d1/replication-offset-checkpoint").write_text("x"), "log-dir-offline", "checkpoint"),
    (lambda top: (top / "d0/tx-0/partition.metadata").unlink(), "partition-stray", "treat it as a stray log"),
    (lambda top: (top / "d0/tx-0/leader-epoch-checkpoint").write_text("x"), "broker-stops", "checkpoint"),
])  # fmt: skip
def test_what_a_broker_would_trip_over_is_told_in_its_words(log_dirs, damage, code, words):
    damage(log_dirs)
    done = kafkalog("verify", str(log_dirs))
    found = [line for line in done.err.splitlines() if f"[{code}]" in line]
    assert done.status == 4
    assert len(found) == 1
    assert words in found[0]


@pytest.mark.parametrize("size", [8, 3 << 30])
def test_a_partition_that_is_named_alone_is_not_fine_when_it_stops_a_broker(size, log_dirs):
    path = log_dirs / "d0/tx-0/partition.metadata"
    path.write_bytes(b"garbage\n")
    os.truncate(path, size)
    done = kafkalog("verify", str(path.parent))
    assert (done.status, done.err.count("[broker-stops]"), done.err.count("[")) == (4, 1, 1), done.err


@pytest.mark.parametrize("suffix", ["index", "timeindex", "txnindex"])
@pytest.mark.parametrize("base", [42, 83])  # a segment in the middle, and the last one
def test_an_index_of_an_absurd_size_is_built_anew(base, suffix, own_corpus, tmp_path):
    partition = tmp_path / "d1/small_segments-0"
    shutil.copytree(own_corpus / "kafka-4.3.1/logs/clean/d1", partition.parent)
    path = partition / f"{base:020}.{suffix}"
    for words in (["recover", "--full"], ["recover", "--salvage"], ["verify", "--rebuild"]):
        with path.open("ab") as file:
            file.truncate(3 << 30)
        looked = kafkalog("verify", str(partition))
        assert (looked.status, looked.err.count("[index-too-large]")) == (4, 1), looked.err
        done = kafkalog(*words, str(partition))
        assert (done.status, kafkalog("verify", str(partition)).status) == (1, 0), done.err


def test_a_damaged_metadata_log_is_the_loudest(log_dirs):
    log = next((log_dirs).glob("*/__cluster_metadata-0/00000000000000000000.log"))
    data = bytearray(log.read_bytes())
    data[400] ^= 1
    log.write_bytes(data)
    done = kafkalog("verify", str(log_dirs))
    assert done.err.startswith("error[metadata-loss] ")
    assert done.status == 4


def test_rebuild_looks_again_once_it_has_the_lock(own_corpus, tmp_path, monkeypatch):
    import engine.log.session as locking

    partition = tmp_path / "small_segments-0"
    shutil.copytree(own_corpus / "kafka-4.3.1/logs/clean/d1/small_segments-0", partition)
    first, second = (partition / f"{base:020}.timeindex" for base in (22, 42))
    sound = first.read_bytes()
    first.write_bytes(sound[:-12] + bytes(12))
    lock = locking.locked

    def locked(*arguments):
        """A broker that stops at this moment has repaired one index, and left another in the middle."""
        first.write_bytes(sound)
        second.write_bytes(second.read_bytes()[:-1])
        return lock(*arguments)

    monkeypatch.setattr(locking, "locked", locked)
    done = kafkalog("verify", "--rebuild", str(partition))
    assert "00000000000000000042.timeindex" in done.out.decode()
    assert "00000000000000000022.timeindex" not in done.out.decode()
    assert first.read_bytes() == sound
    assert kafkalog("verify", str(partition)).status == 0


GAPS = {"offset-gap", "gaps-compacted"}


@pytest.mark.parametrize("words", [[], ["--deep-iteration"]], ids=["shallow", "deep"])
def test_what_real_cleaners_left_is_no_loss_without_anything_beside_it(own_corpus, tmp_path, words):
    """Copies of partitions alone, by a name that tells nothing: dump-log and verify say the same of their gaps."""
    told = set()
    for number, real in enumerate(sorted(own_corpus.glob("**/logs/clean/**/*-[0-9]*"))):
        if not list(real.glob("[0-9]*.log")):
            continue
        copy = tmp_path / f"x-{number}"
        shutil.copytree(real, copy)
        logs = sorted(map(str, copy.glob("*.log")))
        said = [
            {(found["code"], found["file"]) for found in objects_of(kafkalog(*run).out) if found.get("code") in GAPS}
            for run in (["dump-log", "--format", "jsonl", *words, *logs], ["verify", "--format", "jsonl", str(copy)])
        ]
        assert said[0] == said[1] or (words and not said[0]), "records in old compressed sets show gaps that their headers do not"
        told |= {(code, real.name) for code, _ in said[0]}
    assert {code for code, _ in told} == {"gaps-compacted"}
    assert words or {"compacted-0", "compacted-plain-0"} <= {name for _, name in told}


@pytest.fixture
def gaps(tmp_path):
    """A partition of 50 segments, in each of which offsets are missing."""
    directory = tmp_path / "gaps-0"
    directory.mkdir()
    for base in range(0, 500, 10):
        batches = (build_batch([NewRecord(base + offset, 1, None, b"x")], partition_leader_epoch=0) for offset in (0, 4, 9))
        (directory / f"{base:020}.log").write_bytes(b"".join(batches))
    return directory


def test_the_same_in_very_many_segments_is_told_of_the_first_ones_and_counted(gaps):
    done = kafkalog("verify", str(gaps))
    lines = [line for line in done.err.splitlines() if "[offset-gap]" in line]
    assert len(lines) == 21
    assert all(line.startswith("warning[offset-gap] ") for line in lines[:20])
    assert lines[20] == f"{gaps}: 80 more findings [offset-gap] in 40 more files"
    assert done.status == 4
    found, _ = objects(str(gaps))
    assert sum(one.get("code") == "offset-gap" for one in found) == 100


def test_the_rest_of_a_file_and_of_other_files_is_counted_to_the_last(gaps, monkeypatch):
    monkeypatch.setattr("kafkalog_cli.app.SHOWN_PER_CODE", 1)
    monkeypatch.setattr("kafkalog_cli.app.SHOWN_PER_DIRECTORY", 2)
    monkeypatch.setattr("engine.log.continuity.header_gaps.KEPT", 1)
    lines = [line for line in kafkalog("verify", str(gaps)).err.splitlines() if "[offset-gap]" in line]
    assert lines[2:] == [
        f"{gaps}/00000000000000000000.log: 1 more finding [offset-gap]",
        f"{gaps}/00000000000000000010.log: 1 more finding [offset-gap]",
        f"{gaps}: 96 more findings [offset-gap] in 48 more files",
    ]


def test_a_snapshot_inside_a_batch_is_rebuilt_once(tmp_path):
    """It knows the batches that end below its offset: verifying and rebuilding agree about that."""
    directory = tmp_path / "t-0"
    directory.mkdir()
    batches = [build_batch([NewRecord(base + n, 1, None, b"x") for n in range(4)], producer_id=7, producer_epoch=0,
                           base_sequence=base, partition_leader_epoch=0) for base in (0, 4)]  # fmt: skip
    (directory / "00000000000000000000.log").write_bytes(b"".join(batches))
    assert kafkalog("recover", "--no-quarantine", "--now", "5", str(directory)).status == 1
    (directory / "00000000000000000008.snapshot").rename(directory / "00000000000000000006.snapshot")
    rebuild = ["verify", "--rebuild", "--now", "5", str(directory)]
    assert "last offset 7, but its last batch before that ends at 3" in kafkalog("verify", str(directory)).err
    assert [kafkalog(*rebuild).status for _ in range(2)] == [1, 0]


@pytest.mark.parametrize("others", [True, False])
def test_a_segment_whose_link_leads_nowhere_is_told_once(partition, others):
    log, *rest = sorted(partition.glob("*.log"))
    for path in rest:
        path.unlink()
    log.unlink()
    log.symlink_to("nowhere")
    for path in () if others else [path for path in partition.iterdir() if path != log]:
        path.unlink()
    found, done = objects(str(partition.parent))
    assert done.status == 8
    assert [one["file"] for one in found if one.get("code") == "path-unreadable"] == [str(log)]
    assert "error[usage]" not in done.err
    assert [one["path"] for one in found if one["type"] == "verification"] == [str(partition)]


def test_what_does_not_exist_is_reported_once(tmp_path):
    (tmp_path / "server.properties").write_text("log.dirs=data\n")
    done = kafkalog("verify", "--config-file", "server.properties", "data", cwd=tmp_path)
    assert (done.status, done.err.count("error[")) == (8, 1), done.err


def test_the_keys_behind_an_emptied_segment_explain_nothing(own_corpus, tmp_path):
    """The next one bears a wrong name: its first offset is missing as well, and no record stands in front of that gap."""
    partition = tmp_path / "u-tx-0"
    shutil.copytree(own_corpus / "kafka-4.3.1/logs/unclean/d1/u-tx-0", partition)
    (partition / f"{0:020}.log").write_bytes(b"")
    for path in list(partition.glob(f"{4:020}.*")):
        path.rename(partition / f"{3:020}{path.suffix}")
    done = kafkalog("recover", "--salvage", "--full", "--no-quarantine", str(partition))
    assert done.status == 4
    assert b"(offsets 0 to 2)" in done.out
    assert b"(offset 3)" in done.out


@pytest.mark.parametrize("choice", [(), ("--topic", "orders"), ("--topic", "o*", "--partition", "1")])
def test_a_replica_that_has_lost_all_its_segments_is_not_passed_over(own_cluster_corpus, tmp_path, choice):
    node = shutil.copytree(own_cluster_corpus / "ops/1-stopped/n1", tmp_path / "n1")
    for path in (node / "d0/orders-1").glob("0*"):
        path.unlink()
    for paths in ((node,), (node / "d0", node / "d1"), (node / "d*",)):
        found, done = objects(*choice, *map(str, paths))
        verdicts = {one["path"]: one["verdict"] for one in found if one["type"] == "verification"}
        assert (done.status, verdicts[f"{node}/d0/orders-1"]) == (4, "broken")


def test_a_replica_without_a_segment_is_not_called_sound(tmp_path):
    (tmp_path / "t-0").mkdir()
    shutil.copytree(tmp_path / "t-0", tmp_path / "t-1")
    (tmp_path / "t-1/partition.metadata").write_text("version: 0\ntopic_id: xoVtQKWDSrWFUjwL48UiIw")
    for path in (tmp_path, tmp_path / "t-0", tmp_path / "t-1"):
        found, done = objects(str(path))
        verdicts = [one["verdict"] for one in found if one["type"] == "verification"]
        assert (done.status, set(verdicts), len(verdicts)) == (4, {"broken"}, 2 if path == tmp_path else 1)
        assert {one["what"] for one in found if one["type"] == "finding"} == {"no segment: a broker begins an empty log"}


def test_one_byte_of_a_snapshot_is_one_byte(partition):
    path = max(partition.glob("*.snapshot"))
    path.write_bytes(b"\0")
    found, _ = objects(str(partition))
    assert [one["what"] for one in found if one.get("file") == str(path)] == ["1 byte, the header has 10"]
