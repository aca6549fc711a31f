"""Jobs of the sink beside each other: which of them are alive, what they keep, what they say of files that others wrote."""

from __future__ import annotations

import json
import os
import re
import socket
import time

import pytest

from engine.errors import KafkalogError, UnwritableFile
from engine.files import Files, now_ms
from kafkalog_spark.sink import owners
from kafkalog_spark.sink import staging as jobs
from kafkalog_spark.sink.commit import NotUndone, _Commit
from kafkalog_spark.sink.state_files import Journal, Manifest, UnknownFormat, read_kept, write_kept
from tests.support.sink_runs import NOW, SinkRun, batch, read

FILES = Files()
DAY = 24 * 3600
ROWS = [batch(value=[b"a"], topic=["t"], partition=[0])]


@pytest.fixture
def root(tmp_path):
    return str(tmp_path / "logs")


def staging(root):
    path = f"{root}/{jobs.STAGING}"
    return FILES.list(path) if FILES.exists(path) else []


def age(seconds, *paths):
    for path in paths:
        os.utime(path, (time.time() - seconds,) * 2)


def clear(root):
    with jobs.holding(FILES, root):
        jobs.clear_leftovers(FILES, root, now_ms())
    return staging(root)


needs_proc = pytest.mark.skipif(owners.this_system() is None, reason="this needs /proc: not found")


@needs_proc
@pytest.mark.parametrize("other", ["another-boot pid:[4026531836]", "{boot} pid:[1]"])
def test_a_process_of_another_container_is_not_looked_for_here(root, other):
    """It has the same host name, and an id that nothing has here, or something else."""
    host, boot, _ = owners.this_system().split(" ")
    assert host == socket.gethostname()
    there = owners.Owner(f"{host} {other.format(boot=boot)}", 2**30, 1)
    SinkRun(FILES, root, name="theirs", owner=there).stage(ROWS)
    assert clear(root) == ["theirs"]
    SinkRun(FILES, root, name="ours", owner=owners.Owner(owners.this_system(), 2**30, 1)).stage(ROWS)
    assert clear(root) == ["theirs"]


def test_an_owner_says_which_system_it_is_of(root):
    run = SinkRun(FILES, root, owner=owners.this_owner())
    run.stage(ROWS)
    kept = json.loads(FILES.read(f"{run.job.directory}/{owners.OWNER}", 1000))
    assert kept == {"version": 1, "owner": [owners.this_system(), os.getppid(), owners.this_owner().began]}


def test_a_job_that_nobody_sees_is_alive_for_a_day_after_its_last_sign(root):
    run = SinkRun(FILES, root, name="theirs", owner=owners.Owner("another", 1, 1))
    run.stage(ROWS)
    path = f"{run.job.directory}/{owners.OWNER}"
    age(2 * DAY, run.job.directory)
    assert clear(root) == ["theirs"]
    age(DAY + 60, run.job.directory, path)
    assert clear(root) == []


@pytest.mark.usefixtures("sources")
def test_a_task_leaves_signs_of_life_while_its_rows_come(root, monkeypatch):
    from pyspark.sql.types import BinaryType, StructField, StructType

    from kafkalog_spark.sink.writers import Sink

    monkeypatch.setattr(owners, "_HEARTBEAT", 0.01)
    monkeypatch.setattr("kafkalog_spark.sink.writers.this_owner", lambda: owners.Owner("another", 1, 1))
    sink = Sink({"path": root, "topic": "t", "numPartitions": "1"}, StructType([StructField("value", BinaryType())]))
    path = f"{sink.job.directory}/{owners.OWNER}"

    def slowly():
        for _ in range(3):
            age(2 * DAY, sink.job.directory, path)
            until = time.monotonic() + 20
            while now_ms() - FILES.info(path).modified_ms > DAY * 1000:
                assert time.monotonic() < until
                time.sleep(0.01)
            assert clear(root) == [sink.job.name]
            yield batch(value=[b"a"])

    written = sink.write(slowly())
    age(2 * DAY, path)
    time.sleep(0.05)
    assert now_ms() - FILES.info(path).modified_ms > DAY * 1000  # it ends with the task
    sink.publish([written], overwrite=False)
    assert read(FILES, root) == {"t-0": [(number, b"a") for number in range(3)]}


# ---- files of other versions ------------------------------------------------------------------------

JOURNAL = Journal("job", {"t-0": 3}, ["u-0"], [], {".kafka_cleanshutdown": None, "x": "eA=="}, {"segment.bytes": "1"})


@pytest.mark.parametrize("content", [JOURNAL, Manifest("job", {"q": 2}), owners.OwnerFile(["s", 1, 2]), owners.OwnerFile(None)])
def test_what_is_kept_comes_back(content, tmp_path):
    path = str(tmp_path / "kept.json")
    assert read_kept(FILES, path, type(content)) is None
    write_kept(FILES, path, content)
    assert read_kept(FILES, path, type(content)) == content


@pytest.mark.parametrize(("change", "said"), [
    ({"version": 2}, "version 2, and version 1 is known here"), ({"version": None}, "version null"),
    ({"more": 1}, "more: unknown or missing fields"), ({"ends": ...}, "ends: unknown or missing fields"),
    ({"ends": {"t-0": "3"}}, "ends is not what"), ({"new": "t-0"}, "new is not what"), ({"ends": {"t-0": True}}, "ends is not"),
    ({"own": {"x": 1}}, "own is not what"),
])  # fmt: skip
def test_a_journal_of_another_version_is_refused_with_advice(change, said, root):
    run = SinkRun(FILES, root)
    run.write(ROWS)
    jobs.begin(FILES, run.job)
    kept = {"version": 1, **vars(JOURNAL), **change}
    kept = {name: value for name, value in kept.items() if value is not ...}
    path = f"{run.job.directory}/{jobs.JOURNAL}"
    with open(path, "w") as file:
        json.dump(kept, file)
    with pytest.raises(UnknownFormat) as caught:
        SinkRun(FILES, root, name="next").write(ROWS)
    assert f"{path}: " in str(caught.value)
    assert said in str(caught.value)
    assert "with the version of kafkalog that wrote the file" in str(caught.value)
    assert read(FILES, root) == {"t-0": [(0, b"a")]}


@pytest.mark.parametrize("text", [
    '{"version": 2, "last": "job", "streams": {}}', '{"version": 1, "last": "job", "streams": {}, "more": 1}',
    '{"version": 1, "last": "job", "streams": {"q": "1"}}', '{"version": 1, "last": "job", "streams": []}', "[]", "{", "[" * 99_999,
])  # fmt: skip
def test_a_manifest_of_another_version_is_refused(text, root):
    """By what it does not know a stream would write its batches again."""
    run = SinkRun(FILES, root)
    run.write(ROWS)
    with open(f"{root}/{jobs.MANIFEST}", "w") as file:
        file.write(text)
    with pytest.raises(KafkalogError, match="with the version of kafkalog that wrote the file"):
        run.write(ROWS, stream=("q", 0))
    assert read(FILES, root) == {"t-0": [(0, b"a")]}


def test_an_owner_of_another_version_is_nobody_that_is_seen(root):
    run = SinkRun(FILES, root, name="theirs")
    run.stage(ROWS)
    with open(f"{run.job.directory}/{owners.OWNER}", "w") as file:
        file.write('{"version": 2, "owner": "x"}')
    assert clear(root) == ["theirs"]
    jobs.clear_leftovers(FILES, root, now_ms() + 2 * DAY * 1000)
    assert staging(root) == []


# ---- commits that fail ------------------------------------------------------------------------------


@pytest.fixture
def half_done(root, monkeypatch):
    """A commit into partitions that are there, with all of it published; then `fail` raises what it is given."""
    SinkRun(FILES, root, name="first").write([batch(value=[b"a", b"b"], topic=["t", "u"], partition=[0, 0])])
    publish = _Commit._publish

    def fail(error, **how):
        def published(work, *arguments, **values):
            publish(work, *arguments, **values)
            assert len(read(FILES, root)) == 3
            raise error

        with monkeypatch.context() as patch:
            patch.setattr(_Commit, "_publish", published)
            run = SinkRun(FILES, root, name="failing")
            run.write([batch(value=[b"c", b"d"], topic=["t", "n"], partition=[0, 0])], **how)

    return fail


BEFORE = {"t-0": [(0, b"a")], "u-0": [(0, b"b")]}


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("error", [TypeError("a mistake"), MemoryError(), KeyboardInterrupt(), SystemExit(1), KafkalogError("no")])
def test_whatever_ends_a_commit_it_is_undone(half_done, root, error, overwrite):
    own = jobs.own_files(FILES, root)
    with pytest.raises(type(error)) as caught:
        half_done(error, overwrite=overwrite)
    assert caught.value is error
    assert read(FILES, root) == BEFORE
    assert jobs.own_files(FILES, root) == own


def test_an_undoing_that_fails_hides_no_first_error_and_is_made_up_for_by_the_next_job(half_done, root, monkeypatch):
    own = jobs.own_files(FILES, root)

    def fail(*_):
        raise UnwritableFile("no room")

    with monkeypatch.context() as patch, pytest.raises(NotUndone) as caught:
        patch.setattr(jobs, "roll_back", fail)
        half_done(ValueError("the log is odd"))
    assert isinstance(caught.value.__cause__, ValueError)
    assert re.fullmatch(f"{root}: the log is odd; it could not be undone: no room; the next job .* undoes it first; .*", str(caught.value))
    assert len(read(FILES, root)) == 3
    with jobs.holding(FILES, root):
        jobs.clear_leftovers(FILES, root, NOW)
    assert read(FILES, root) == BEFORE
    assert jobs.own_files(FILES, root) == own
