"""`kafkalog remote download`: complete logs, whose remote segments have the same bytes as the broker's."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.remote.corpus import SETS, TOP, as_consumed, consumed, log_dirs, private_keys, stores
from tests.support.json_output import objects_of
from tests.support.run import kafkalog

ANSWERED = [name for name in SETS if name in ("clean", "resumed", "aiven")]
SUFFIXES = {"index": "index", "timeindex": "timeindex", "txnindex": "txnindex", "log": "log"}


def download(name, into, tmp_path, *words):
    keys = private_keys(tmp_path) if name == "aiven" else {}
    more = [word for item in keys.items() for word in ("--private-key", "=".join(item))]
    return kafkalog("remote", "download", "--into", str(into), "--store", stores(name), "--format", "jsonl", *more, *words, *log_dirs(name))


@pytest.mark.parametrize("name", ANSWERED)
def test_whole_logs_are_what_a_consumer_read(name, tmp_path):
    into = tmp_path / "whole"
    done = download(name, into, tmp_path)
    refused = {Path(one["partition"]).name for one in objects_of(done.out) if one["type"] == "report" and one["error"]}
    assert refused <= ({"cut-start-0", "cut-delete-0"} if name == "resumed" else set())  # whose starts brokers lost, see the corpus
    shown = 0
    for isolation in ("read_uncommitted", "read_committed"):
        for directory, rows in consumed(name, isolation):
            path = into / directory
            if rows is None or not path.is_dir() or directory in refused:
                continue
            fetched = kafkalog("fetch", "--isolation", isolation, "--format", "jsonl", str(path))
            assert [as_consumed(one) for one in objects_of(fetched.out) if one["type"] == "fetched-record"] == rows, directory
            shown += len(rows)
    assert shown > 500
    checked = kafkalog("verify", *[str(path) for path in sorted(into.iterdir()) if path.is_dir() and path.name not in refused])
    assert checked.status == 0, checked.err


@pytest.mark.skipif("clean" not in SETS, reason="the layout of its store has a file for each part")
def test_every_file_of_a_remote_segment_is_the_object(tmp_path):
    into, count = tmp_path / "whole", 0
    assert download("clean", into, tmp_path).status == 0
    for path in (TOP / "clean/remote").rglob("*.*"):
        partition = into / path.parent.name[:-23]
        suffix = SUFFIXES.get(path.suffix[1:])
        if suffix is None or not partition.is_dir():
            continue
        file = partition / f"{path.name[:20]}.{suffix}"
        if not file.exists():
            continue
        assert file.read_bytes() == path.read_bytes(), path
        count += 1
    assert count > 200


@pytest.mark.skipif("clean" not in SETS, reason="names its log dirs")
def test_a_log_dir_of_a_broker_is_refused(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/meta.properties").write_text("version=1\n")
    done = download("clean", tmp_path / "data", tmp_path)
    assert (done.status, "a broker's log dir" in done.out.decode()) == (2, True)


@pytest.mark.skipif("clean" not in SETS, reason="names its log dirs")
def test_a_dry_run_writes_nothing_and_a_second_run_reads_nothing(tmp_path):
    assert download("clean", tmp_path / "whole", tmp_path, "-n").status == 0
    assert not (tmp_path / "whole").exists()
    download("clean", tmp_path / "whole", tmp_path)
    again = download("clean", tmp_path / "whole", tmp_path)
    events = [event for one in objects_of(again.out) if one["type"] == "report" for event in one["events"]]
    assert {event["action"] for event in events} == {"kept"}


def tree(top):
    return {str(path.relative_to(top)): path.read_bytes() for path in sorted(top.rglob("*")) if path.is_file()}


@pytest.mark.skipif("clean" not in SETS, reason="names its topics")
@pytest.mark.parametrize("name", [
    "plain-0/00000000000000000000.log", "plain-0/00000000000000000000.index", "plain-0/leader-epoch-checkpoint",
    "plain-0/partition.metadata", "plain-0/00000000000000000777.log", "plain-0/notes", "log-start-offset-checkpoint",
])  # fmt: skip
def test_files_of_others_are_not_replaced(name, tmp_path):
    """The only copy of something may have the name of a file that is written."""
    (tmp_path / "whole/plain-0").mkdir(parents=True)
    (tmp_path / "whole" / name).write_bytes(b"the only copy\n")
    done = download("clean", tmp_path / "whole", tmp_path, "--topic", "plain")
    reports = {Path(one["partition"]).name: one for one in objects_of(done.out) if one["type"] == "report"}
    assert (done.status, name in reports["plain-0"]["error"]["message"]) == (4, True)
    assert {file: data for file, data in tree(tmp_path / "whole").items() if file == name or "plain-0" in file} == {name: b"the only copy\n"}


@pytest.mark.skipif("clean" not in SETS, reason="names its topics")
@pytest.mark.parametrize("of_local", [False, True])
def test_a_run_that_stopped_is_completed(of_local, tmp_path):
    """The last file of a stopped run is an index without its log, or the beginning of a local log that has grown since."""
    download("clean", tmp_path / "whole", tmp_path, "--topic", "plain")
    expected = tree(tmp_path / "whole")
    logs = sorted((tmp_path / "whole/plain-0").glob("*.log"))
    if of_local:
        logs[-1].write_bytes(logs[-1].read_bytes()[:-100])
        (tmp_path / "whole/plain-0/leader-epoch-checkpoint.tmp").write_bytes(b"0")
    else:
        for path in (tmp_path / "whole/plain-0").iterdir():
            if path.name[:20] >= logs[2].name[:20] and path not in (logs[2].with_suffix(".index"), logs[2].with_suffix(".snapshot")):
                path.unlink()
    assert download("clean", tmp_path / "whole", tmp_path, "--topic", "plain").status == 0
    assert tree(tmp_path / "whole") == expected


@pytest.mark.skipif("clean" not in SETS, reason="names its topics")
@pytest.mark.parametrize("in_store", [False, True])
def test_damage_is_reported(in_store, tmp_path):
    """A flipped bit in an object, or in the file that an earlier run wrote, is not called a log without problems."""
    top = tmp_path / "top"
    shutil.copytree(TOP / "clean", top)
    words = ("remote", "download", "--topic", "plain", "--into", str(tmp_path / "whole"), "--store", str(top / "remote"),
             str(top / "d0"), str(top / "d1"))  # fmt: skip
    if not in_store:
        assert b"no problems" in kafkalog(*words).out
    folder = next((top / "remote/kafka-tiered-storage").glob("plain-0-*")) if in_store else tmp_path / "whole/plain-0"
    log = min(folder.glob("00000000000000000000*.log"))
    log.chmod(0o644)
    data = bytearray(log.read_bytes())
    data[100] ^= 1
    log.write_bytes(data)
    done = kafkalog(*words)
    assert done.status == 4
    assert "kept 00000000000000000000.log" in done.out.decode()
    assert "crc-mismatch" in done.out.decode()
    assert [b"problems are left" in line for line in done.out.splitlines() if b"plain-0: offsets" in line] == [True]
