"""`kafkalog remote restore` restores everything that a broker had copied, from the store alone."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.remote.corpus import IS_OWN, OWN_ONLY, SETS, TOP, as_consumed, consumed, log_dirs, private_keys, stores, truth
from tests.support.json_output import objects_of
from tests.support.run import kafkalog

GONE = ("log-start-offset-checkpoint", "recovery-point-offset-checkpoint", "replication-offset-checkpoint", ".kafka_cleanshutdown")
METADATA = "__remote_log_metadata"


def lost(name, top, *, metadata=False):
    """Copy the log dirs of a set without the partitions of its topics; `metadata`: keep __remote_log_metadata."""
    left = []
    for origin in map(Path, log_dirs(name)):
        log_dir = top / origin.relative_to(TOP / name)
        kept = [path.name for path in origin.iterdir() if path.name.startswith("__") or path.is_file()]
        kept = [one for one in kept if one not in GONE and (metadata or not one.startswith(METADATA))]
        shutil.copytree(origin, log_dir, ignore=lambda where, names, origin=origin, kept=kept:
                        set(names) - set(kept) if Path(where) == origin else ())  # fmt: skip
        for path in [log_dir, *log_dir.rglob("*")]:
            path.chmod(path.stat().st_mode | 0o200)
        left.append(str(log_dir))
    return left


NOT_LIMITED = ("[!e]*", "epochs", "expired-time")  # topics without a limit by size


def restore(name, left, tmp_path, *words, topics=("*",)):
    keys = private_keys(tmp_path) if name == "aiven" else {}
    more = [word for item in keys.items() for word in ("--private-key", "=".join(item))]
    others = [word for path in left[1:] for word in ("--log-dir", path)]
    done = kafkalog("remote", "restore", *topics, "--into", left[0], *others, "--store", stores(name), "--format", "jsonl",
                    *more, *words)  # fmt: skip
    return done, more


@pytest.mark.parametrize("name", [one for one in SETS if one in ("clean", "aiven")])
@pytest.mark.parametrize("words", [(), ("--full",)])
def test_all_copied_records_can_be_read_after_a_restore(name, words, tmp_path):
    left = lost(name, tmp_path / "top")
    done, keys = restore(name, left, tmp_path, *words, topics=NOT_LIMITED if words else ("*",))
    reports = [one for one in objects_of(done.out) if one["type"] == "report"]
    undecided = {one["partition"]: event["first_offset"] for one in reports for event in one["events"] if event["severity"] == "warning"}
    limited = {Path(one["partition"]).name for one in reports if one["error"] and "retention.bytes" in one["error"]["message"]}
    assert len(undecided) == (name == "aiven")
    assert done.status == (4 if limited else len(undecided))
    assert (words and not IS_OWN) or not limited
    answers = {f"{one['topic']}-{one['partition']}": one for one in truth(name, "offsets.jsonl")}
    ends = {directory: one["latest_tiered"]["offset"] + 1 for directory, one in answers.items()}
    others = [word for path in left for word in ("--log-dir", path)]
    count = 0
    for isolation in ("read_uncommitted", "read_committed"):
        for directory, rows in consumed(name, isolation):
            path = Path(left[0]) / directory
            if rows is None or not path.is_dir():
                is_left_out = words and (directory in limited or directory.startswith("expired-size"))
                assert is_left_out or all(row["offset"] >= ends[directory] for row in rows or ()), directory
                continue
            end = int(max(one.name for one in path.glob("*.log"))[:20])
            assert ends[directory] in (0, end)
            fetched = kafkalog("fetch", "--store", stores(name), *others, *keys, "--isolation", isolation, "--format", "jsonl", str(path))
            found = [as_consumed(one) for one in objects_of(fetched.out) if one["type"] == "fetched-record"]
            if words and isolation == "read_committed":  # no marker of it was copied
                end = undecided.get(str(path), end)
            start = answers[directory]["earliest"]["offset"]  # in the first segment, after records that were deleted there
            assert [row for row in found if row["offset"] >= start] == [row for row in rows if row["offset"] < end], directory
            count += len(found)
    assert count > 1000


@pytest.mark.parametrize("name", [name for name in SETS if name != "pair"])  # whose replicas are on several brokers
def test_the_restored_metadata_equals_the_lost_one(name, tmp_path):
    """The records of every copied segment are written again."""
    left = lost(name, tmp_path / "top")
    done, _ = restore(name, left, tmp_path)
    assert done.status in (0, 1), done.err
    listed = kafkalog("remote", "list", "--format", "jsonl", *left)
    found = {}
    for one in objects_of(listed.out):
        if one["type"] == "remote-segment":
            found.setdefault((one["topic_id"], one["partition"]), []).append(one)
    for row in truth(name, "segments.jsonl"):
        topic_id, _, directory = row["partition"].partition(":")
        copied = [one for one in row["segments"] if one["state"] == "COPY_SEGMENT_FINISHED"]
        again = found.pop((topic_id, int(directory.rpartition("-")[2])), [])
        fields = ("id", "start_offset", "end_offset", "size", "max_timestamp", "txn_index_empty", "leader_epochs")
        assert [[one[field] for field in fields] for one in again] == [[one[field] for field in fields] for one in copied]
    assert found == {}


def tree(top):
    """Return every file with its bytes."""
    return {str(path.relative_to(top)): path.read_bytes() for path in sorted(Path(top).rglob("*")) if path.is_file()}


@OWN_ONLY
def test_a_dry_run_changes_nothing_and_restore_undoes(tmp_path):
    left = lost("aiven", tmp_path / "top")
    before = tree(tmp_path / "top")
    assert restore("aiven", left, tmp_path, "-n")[0].status == 1
    assert tree(tmp_path / "top") == before
    assert restore("aiven", left, tmp_path)[0].status == 1
    quarantines = sorted(map(str, (tmp_path / "top").glob("*.quarantine-*")))
    assert kafkalog("restore", *quarantines).status == 0
    after = {name: data for name, data in tree(tmp_path / "top").items() if ".quarantine-" not in name and not name.endswith(".lock")}
    assert after == before


@OWN_ONLY
def test_a_second_run_writes_nothing_more(tmp_path):
    left = lost("aiven", tmp_path / "top")
    restore("aiven", left, tmp_path, "--no-quarantine")
    first = tree(tmp_path / "top")
    assert restore("aiven", left, tmp_path, "--no-quarantine")[0].status == 1
    assert tree(tmp_path / "top") == first


@OWN_ONLY
def test_existing_objects_are_not_replaced(tmp_path):
    left = lost("aiven", tmp_path / "top")
    path = Path(left[0]) / "plain-0/00000000000000000000.log"
    path.parent.mkdir()
    path.write_bytes(b"the only copy")
    done, _ = restore("aiven", left, tmp_path, topics=("plain",))
    assert (done.status, "not-restored" in done.out.decode()) == (4, True)
    assert path.read_bytes() == b"the only copy"


def formatted(tmp_path):
    """Return a log dir in the state after kafka-storage format."""
    log_dir = tmp_path / "data"
    log_dir.mkdir()
    origin = TOP / "aiven/d0"
    for name in ("meta.properties", "bootstrap.checkpoint"):
        shutil.copy(origin / name, log_dir / name)
    return log_dir


@OWN_ONLY
def test_a_new_cluster_begins_with_the_topics(tmp_path):
    log_dir = formatted(tmp_path)
    done, _ = restore("aiven", [str(log_dir)], tmp_path, "--metadata-partitions", "3")
    assert done.status == 1, done.err
    shown = kafkalog("dump-log", "--cluster-metadata-decoder", "--format", "jsonl", str(log_dir / "bootstrap.checkpoint"))
    assert shown.status == 0, shown.err
    records = [one["decoded_value"] for one in objects_of(shown.out) if one["type"] == "record" and one.get("decoded_value")]
    topics = {one["data"]["name"]: one["data"]["topicId"] for one in records if one["type"] == "TOPIC_RECORD"}
    for directory in log_dir.iterdir():
        if directory.is_dir():
            topic_id = (directory / "partition.metadata").read_text().split()[-1]
            assert topics[directory.name.rpartition("-")[0]] == topic_id
    assert len([one for one in records if one["type"] == "PARTITION_RECORD"]) == 4 + 3
    again, _ = restore("aiven", [str(log_dir)], tmp_path, "--metadata-partitions", "3", "--no-quarantine")
    assert again.status == 1
    assert tree(log_dir)["bootstrap.checkpoint"] == (log_dir / "bootstrap.checkpoint").read_bytes()


@OWN_ONLY
def test_an_unformatted_log_dir_is_refused(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/recovery-point-offset-checkpoint").write_text("0\n0\n")
    done, _ = restore("aiven", [str(tmp_path / "data")], tmp_path)
    assert (done.status, "kafka-storage format" in done.out.decode()) == (2, True)


@pytest.mark.parametrize("is_into", [True, False])
def test_a_log_dir_that_does_not_exist_is_an_error(is_into, tmp_path):
    into, *_ = lost("clean", tmp_path / "top")
    words = ("--into", "/nowhere") if is_into else ("--into", into, "--log-dir", "/nowhere")
    done = kafkalog("remote", "restore", "plain", *words, "--store", stores("clean"))
    assert (done.status, done.out) == (8, b""), done.err
    assert "error[unreadable-file] /nowhere: No such file or directory" in done.err


@pytest.mark.parametrize("name", GONE[:3])
def test_a_malformed_checkpoint_keeps_its_lines(name, tmp_path):
    left = lost("clean", tmp_path / "top")
    path = Path(left[0]) / name
    path.write_bytes(b"0\n2\nother 0 80\nother 3 1\xff\n")
    before = tree(Path(left[0]))
    done, _ = restore("clean", left, tmp_path)
    assert (done.status, name in done.err, f"kafkalog recover {left[0]}" in done.err) == (4, True, True), done
    assert tree(Path(left[0])) == {**before, ".lock": b""}


@OWN_ONLY
def test_a_topic_that_the_cluster_has_under_another_id_is_not_restored(tmp_path):
    left = lost("clean", tmp_path / "top")
    done = kafkalog("remote", "restore", "plain", "--into", left[0], "--log-dir", left[1], "--store", stores("aiven"))
    assert (done.status, "with another id than" in done.err) == (2, True)


@OWN_ONLY
def test_whole_logs_of_topics_with_a_limit_by_size_are_refused(tmp_path):
    """A real broker deleted four of five remote segments when it started on such a log."""
    left = lost("clean", tmp_path / "top")
    done, _ = restore("clean", left, tmp_path, "--full", topics=("expired-size",))
    assert (done.status, "counts them twice" in done.out.decode()) == (4, True)
    assert restore("clean", left, tmp_path, topics=("expired-size",))[0].status == 0


def test_partitions_of_other_brokers_are_not_restored(tmp_path):
    left = [path for path in lost("pair", tmp_path / "top") if "/n0/" in path]
    done = kafkalog("remote", "restore", "*", "--into", left[0], "--store", stores("pair"))
    assert (done.status, "only brokers other than 0 have replicas" in done.err) == (2, True), done.err


def spoiled(tmp_path, suffix, change):
    """Return a copy of Aiven's bucket in which one object of the second segment of `plain` is changed, and its first offset."""
    shutil.copytree(TOP / "aiven/bucket", tmp_path / "bucket")
    path = sorted((tmp_path / "bucket").rglob(f"plain-*/0/*.{suffix}"))[1]
    path.chmod(0o644)
    change(path)
    return str(tmp_path / "bucket"), int(path.name[:20])


def restore_plain(bucket, tmp_path, *words):
    left = lost("aiven", tmp_path / "top")
    keys = [word for item in private_keys(tmp_path).items() for word in ("--private-key", "=".join(item))]
    others = [word for path in left[1:] for word in ("--log-dir", path)]
    done = kafkalog("remote", "restore", "plain", "--into", left[0], *others, "--store", bucket, "--format", "jsonl", *keys, *words)
    [report] = [one for one in objects_of(done.out) if one["type"] == "report" and one["partition"].endswith("/plain-0")]
    return done.status, report


@OWN_ONLY
@pytest.mark.parametrize(("suffix", "change"), [
    ("log", lambda path: path.write_bytes(path.read_bytes()[:-1])), ("log", lambda path: path.write_bytes(path.read_bytes() + b"1")),
    ("indexes", Path.unlink), ("indexes", lambda path: path.write_bytes(b"")),
])  # fmt: skip
def test_a_segment_whose_objects_do_not_have_the_size_in_its_manifest_is_left_out(suffix, change, tmp_path):
    bucket, first = spoiled(tmp_path, suffix, change)
    status, report = restore_plain(bucket, tmp_path)
    assert status == 4
    assert [one["first_offset"] for one in report["events"] if one["action"] == "missing"] == [first]
    assert any(f"from offset {first} is left out: damaged: " in one["reason"] for one in report["events"])


def flip(path):
    data = bytearray(path.read_bytes())
    data[300] ^= 1
    path.write_bytes(data)


@OWN_ONLY
def test_unread_batches_are_not_called_sound(tmp_path):
    """By its manifest alone a damaged log looks complete; its copy by --full is verified."""
    bucket, first = spoiled(tmp_path, "log", flip)
    status, report = restore_plain(bucket, tmp_path, "-n")
    assert (status, report["unread_below"]) == (0, report["log_end_offset"])
    status, report = restore_plain(bucket, tmp_path / "full", "--full")
    kept = [one for one in report["events"] if one["action"] == "kept"]
    assert (status, {one["file"] for one in kept}) == (4, {f"{first:020d}.log"})
    assert "crc-mismatch" in kept[0]["reason"]
    assert "unread_below" not in report or report["unread_below"] is None
