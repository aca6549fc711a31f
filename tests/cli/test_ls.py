"""`kafkalog ls` says what Kafka's own tools said while the brokers ran."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from engine.discovery.names import file_name
from engine.files import Files
from engine.log.fetch.view import PartitionView
from tests.support.cluster import described_partitions, log_dir_sizes, told_states, topic_settings
from tests.support.corpus import tiered_answers, tiered_corpus
from tests.support.json_output import SCHEMA, all_objects, of_type
from tests.support.permissions import without_permission
from tests.support.run import kafkalog

GONE = {"deleted", "stray"}  # flags of directories that a broker does not count


def listed(*words: str, cwd: Path | None = None) -> list[dict]:
    done = kafkalog("ls", "--format", "jsonl", *words, cwd=cwd)
    assert done.status == 0, done.err
    return all_objects(done.out)


def alive(objects: list[dict]) -> list[dict]:
    return [one for one in of_type(objects, "partition") if GONE.isdisjoint(one["flags"]) and one["topic"] != "__cluster_metadata"]


def node_of(partition: dict) -> int:
    return int(Path(partition["path"]).parts[-3][1:])


def test_sizes_are_those_of_kafka_log_dirs(cluster_corpus):
    states = told_states(cluster_corpus)
    assert states
    for state, truth in states:
        nodes = sorted(path.name for path in state.glob("n*"))
        found = {
            (str(Path(one["path"]).parent), f"{one['topic']}-{one['partition']}", "future" in one["flags"]): one["log_bytes"]
            for one in alive(listed(*nodes, cwd=state))
        }
        theirs = {key: size for key, size in log_dir_sizes(truth).items() if key[0].partition("/")[0] in nodes}
        assert found == theirs, state


def test_offsets_and_ids_are_those_of_the_leaders(cluster_corpus):
    seen = 0
    for state, truth in told_states(cluster_corpus):
        found = {(f"{one['topic']}-{one['partition']}", node_of(one)): one for one in alive(listed(str(state)))}
        settings = topic_settings(truth)
        for name, theirs in described_partitions(truth).items():
            ours = found.get((name, theirs["leader"]))
            if ours is None:  # the log dirs of that node were not kept
                continue
            seen += 1
            latest = -1 if ours["last_time"] is None else ours["last_time"]
            assert (ours["topic_id"], ours["log_start_offset"], ours["last_stable_offset"], ours["log_end_offset"], latest) == (
                theirs["topic_id"], theirs["earliest"], theirs["last_stable"], theirs["latest"], theirs["max_timestamp"][1],
            ), (state, name)  # fmt: skip
            assert ("open-transaction" in ours["flags"]) == (theirs["last_stable"] < theirs["latest"])
            assert ours["cleanup_policy"] == settings[ours["topic"]].get("cleanup.policy", "delete")
            assert "unassigned" not in ours["flags"]
    assert seen > 20


def partitions_below(top: Path) -> list[Path]:
    return sorted({log.parent for log in top.rglob("*.log") if file_name(str(log))[:20].isdigit()})


def test_every_partition_ends_where_a_reader_ends(cluster_corpus, corpus):
    """Of running, killed and stopped brokers, with indexes of every kind."""
    seen = 0
    for top in (cluster_corpus, corpus):
        for directory in partitions_below(top):
            done = kafkalog("ls", "--format", "jsonl", str(directory))
            rows = of_type(all_objects(done.out), "partition")
            if not rows or {"bad-end", "unreadable", "no-log"} & set(rows[0]["flags"]):
                continue
            view = PartitionView(Files(), str(directory), lambda _: None)
            try:
                expected = view.log_end_offset, view.fetch_last_stable_offset_metadata().message_offset
            finally:
                view.close()
            assert (rows[0]["log_end_offset"], rows[0]["last_stable_offset"]) == expected, directory
            seen += 1
    assert seen > 50


def test_a_broker_loads_the_offsets_that_are_listed(own_cluster_corpus):
    """The control of preflight: what the starting broker logged of each directory."""
    loads = json.loads((own_cluster_corpus / "preflight/cases/control/case.json").read_text())["loads"]
    base = own_cluster_corpus / "preflight/base/n1"
    found = {f"DIR/{Path(one['path']).relative_to(base)}": one for one in of_type(listed(str(base)), "partition")}
    checked = 0
    for directory, said in loads.items():
        ours = found[directory]
        if "deleted" in ours["flags"]:  # the broker takes its log end for 0, as its index was not trimmed
            continue
        assert (ours["log_start_offset"], ours["log_end_offset"], ours["segments"]) == (said["log_start"], said["log_end"], said["segments"])
        checked += 1
    assert checked > 5


def test_a_tree_is_split_by_broker(own_cluster_corpus):
    brokers = of_type(listed(str(own_cluster_corpus / "forks/1-forked")), "broker")
    assert [one["node_id"] for one in brokers] == [1, 2, 3]
    assert len({one["cluster_id"] for one in brokers}) == 1


def test_how_each_log_dir_was_stopped(own_cluster_corpus, tmp_path):
    states = {one["shutdown"] for one in of_type(listed(str(own_cluster_corpus / "ops/1-stopped")), "log-dir")}
    assert states == {"clean"}
    assert {one["shutdown"] for one in of_type(listed(str(own_cluster_corpus / "ops/2-prepared")), "log-dir")} == {"unclean"}
    copy = tmp_path / "copy"
    shutil.copytree(own_cluster_corpus / "ops/1-stopped/n1/d0/orders-1", copy / "orders-1")
    [log_dir] = of_type(listed(str(copy)), "log-dir")
    assert (log_dir["shutdown"], log_dir["lock_holder"]) == ("unknown", None)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says who holds a lock")
def test_who_holds_the_lock(own_cluster_corpus, tmp_path):
    shutil.copytree(own_cluster_corpus / "ops/1-stopped/n1/d0", tmp_path / "d0")
    program = f"import fcntl,sys;f=open({str(tmp_path / 'd0/.lock')!r},'w');fcntl.lockf(f,fcntl.LOCK_EX);print('held',flush=True);sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        [log_dir] = of_type(listed(str(tmp_path / "d0")), "log-dir")
        assert (log_dir["shutdown"], log_dir["lock_holder"]) == ("running", holder.pid)
        assert f"in use by process {holder.pid}" in kafkalog("ls", str(tmp_path / "d0")).out.decode()
        holder.communicate()


def test_flags(own_cluster_corpus, tmp_path):
    """Changed in one way each; deleted and future ones are the broker's own."""
    base = tmp_path / "n1"
    shutil.copytree(own_cluster_corpus / "preflight/base/n1", base)
    (base / "d0/pay-tx-0/partition.metadata").unlink()
    next((base / "d0/orders-0").glob("*.timeindex")).unlink()
    with max((base / "d1/orders-1").glob("*.log")).open("ab") as log:
        log.write(b"\0" * 100)
    (base / "d1/kv-0").rename(base / "d1" / f"kv-0.{'a' * 32}-stray")
    (base / "d1/empty-0").mkdir()
    (base / "d0/quiet-0/leader-epoch-checkpoint").unlink()
    (base / "d0/quiet-0/leader-epoch-checkpoint").mkdir()
    done = kafkalog("ls", "--format", "jsonl", str(base))
    found = {(one["topic"], one["partition"], Path(one["path"]).parent.name): one["flags"] for one in of_type(all_objects(done.out), "partition")}
    assert found["pay-tx", 0, "d0"] == ["unassigned"]
    assert found["orders", 0, "d0"] == ["missing-index"]
    assert found["orders", 1, "d1"] == ["bad-end"]
    assert found["kv", 0, "d1"] == ["stray"]
    assert found["empty", 0, "d1"] == ["unassigned", "no-log"]
    assert found["moving", 0, "d1"] == ["future"]
    assert found["gone", 0, "d1"] == ["deleted"]
    assert done.status == 0, done.err


def test_a_partition_that_cannot_be_read_is_an_error(own_cluster_corpus, tmp_path):
    shutil.copytree(own_cluster_corpus / "ops/1-stopped/n1/d0/orders-1", tmp_path / "orders-1")
    log = next((tmp_path / "orders-1").glob("*.log"))
    with log.open("ab") as file:
        file.truncate((2 << 30) + 10)  # sparse; a broker opens no such file
    done = kafkalog("ls", str(tmp_path))
    assert (done.status, b"too-large" in done.out) == (4, True)
    shutil.rmtree(tmp_path / "orders-1")
    (tmp_path / "orders-1").mkdir()
    (tmp_path / "orders-1/00000000000000000000.log").symlink_to("/dev/zero")
    assert "no-log" in kafkalog("ls", str(tmp_path / "orders-1")).out.decode()


def test_topics_are_sums(own_cluster_corpus):
    state = str(own_cluster_corpus / "ops/1-stopped/n1")
    partitions, topics = (of_type(listed(*words, state), kind) for words, kind in (((), "partition"), (("--topics",), "topic")))
    for name in ("partitions", "max_records", "log_bytes", "all_bytes"):
        sums = sum(1 if name == "partitions" else one[name] for one in partitions)
        assert sum(one[name] for one in topics) == sums
        [total] = of_type(listed("--topics", state), "total")
        assert total[name] == sums


@pytest.mark.parametrize(("order", "key"), [
    ("size", lambda one: -one["all_bytes"]), ("records", lambda one: -one["max_records"]), ("time", lambda one: -(one["last_time"] or 0)),
])  # fmt: skip
def test_orders(own_cluster_corpus, order, key):
    rows = of_type(listed("--sort", order, str(own_cluster_corpus / "ops/1-stopped/n1/d0")), "partition")
    assert rows == sorted(rows, key=key)


@pytest.mark.parametrize(("words", "names"), [
    (("--topic", "orders"), {"orders-1", "orders-2"}), (("-t", "orders", "-p", "2"), {"orders-2"}), (("-t", "mov*"), {"moved-0", "moving-0"}),
    (("-p", "2"), {"orders-2"}), (("-t", "__cluster_metadata"), {"__cluster_metadata-0"}), (("-t", "orders", "-t", "again"), {"again-0", "orders-1", "orders-2"}),
])  # fmt: skip
def test_a_choice_of_partitions(own_cluster_corpus, words, names):
    rows = of_type(listed(*words, str(own_cluster_corpus / "ops/1-stopped/n1/d0")), "partition")
    assert {f"{one['topic']}-{one['partition']}" for one in rows} == names


def test_a_choice_that_finds_nothing_says_what_there_is(own_cluster_corpus):
    done = kafkalog("ls", "-t", "order", str(own_cluster_corpus / "ops/1-stopped/n1/d0"))
    assert done.status == 2
    assert "no partition of topic order was found" in done.err
    assert "orders" in done.err


def test_the_output_fits_the_schema(own_cluster_corpus):
    whole = Draft202012Validator(SCHEMA)
    for words in ((), ("--topics",)):
        for one in listed(*words, str(own_cluster_corpus / "ops/1-stopped")):
            whole.validate(one)


def test_tiered_logs_begin_where_a_broker_says():
    """With remote segments: the earliest offset, not the first local one."""
    top = tiered_corpus() / "clean"
    found = {(one["topic"], one["partition"]): one for one in alive(listed(str(top / "d0"), str(top / "d1")))}
    tiered = 0
    for row in tiered_answers(top):
        ours = found[row["topic"], row["partition"]]
        assert (ours["log_start_offset"], ours["last_stable_offset"], ours["log_end_offset"]) == (row["earliest"], row["last_stable"], row["latest"])
        if row["earliest"] < row["earliest_local"]:
            assert "tiered" in ours["flags"]
            tiered += 1
    assert tiered > 3


def test_an_unreadable_partition_does_not_hide_the_others(own_cluster_corpus, tmp_path):
    top = shutil.copytree(own_cluster_corpus / "ops/1-stopped/n1", tmp_path / "n1")
    names = [one["topic"] for one in listed(str(top)) if one["type"] == "partition"]
    hidden = next(path for path in sorted((top / "d1").iterdir()) if path.is_dir())
    with without_permission(hidden):
        done = kafkalog("ls", "--format", "jsonl", str(top))
    partitions = [one for one in all_objects(done.out) if one["type"] == "partition"]
    assert (done.status, [one["topic"] for one in partitions]) == (8, names)
    assert [one["path"] for one in partitions if "unreadable" in one["flags"]] == [str(hidden)]


def test_damage_in_the_metadata_log_is_reported(own_cluster_corpus, tmp_path):
    shutil.copytree(own_cluster_corpus / "ops/1-stopped/n1", tmp_path / "n1")
    log = max((tmp_path / "n1/d0/__cluster_metadata-0").glob("*.log"))
    data = bytearray(log.read_bytes())
    data[-len(data) // 8] ^= 0xFF  # after the newest snapshot: a broker does not need what is before it
    log.write_bytes(data)
    done = kafkalog("ls", str(tmp_path / "n1"))
    assert done.status == 4
    assert "error[crc-mismatch]" in done.err
    assert "orders-1" in done.out.decode()


def test_a_log_larger_than_kafka_opens_is_reported(own_cluster_corpus, tmp_path):
    """A hole of 7 EiB in the metadata log, or of 3 GiB where the file system has no such files."""
    node = shutil.copytree(own_cluster_corpus / "preflight/base/n1", tmp_path / "n1")
    log = node / "d0/__cluster_metadata-0" / f"{0:020}.log"
    log.chmod(0o644)
    try:
        os.truncate(log, 7 << 60)
    except OSError:
        os.truncate(log, 3 << 30)
    done = kafkalog("ls", str(node))
    assert (done.status, f"error[segment-too-large] {log} at byte 2147483647" in done.err) == (4, True)
    assert "bad-end, too-large" in done.out.decode()
    told = kafkalog("check", "--level", "start", str(node))
    assert (told.status, f'broker: "The size of segment {log} (' in told.out.decode()) == (4, True)
