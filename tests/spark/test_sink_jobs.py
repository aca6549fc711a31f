"""Jobs of the sink beside each other: which of them are alive, what they keep, what they say of files that others wrote."""

from __future__ import annotations

import json
import os
import re
import time

import pytest

from engine.errors import KafkalogError, UnwritableFile
from engine.files import Files, now_ms
from engine.log.commits import staging as jobs
from engine.log.commits.commit import NotUndone, _Commit
from engine.log.commits.state_files import Journal, Manifest, UnknownFormat, read_kept, write_kept
from tests.support.run import kafkalog
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


def test_a_job_is_alive_for_a_day_after_its_last_write(root):
    """Nobody sees the processes of a job that runs elsewhere."""
    run = SinkRun(FILES, root, name="theirs")
    run.stage(ROWS)
    paths = [run.job.directory, *(os.path.join(top, name) for top, more, names in os.walk(run.job.directory) for name in (*more, *names))]
    age(2 * DAY, *paths[:-1])
    assert clear(root) == ["theirs"]
    age(DAY + 60, *paths)
    assert clear(root) == []


def test_a_job_that_was_taken_for_dead_fails_and_changes_nothing(root):
    SinkRun(FILES, root, name="first").write(ROWS)
    run = SinkRun(FILES, root, name="slow")
    pieces = run.stage(ROWS, [batch(value=[b"b"], topic=["u"], partition=[0])])
    with jobs.holding(FILES, root):
        assert jobs.clear_leftovers(FILES, root, now_ms(), of_all=True) == 1
    pieces += run.stage([batch(value=[b"c"], topic=["v"], partition=[0])])  # a task that goes on
    with pytest.raises(KafkalogError, match="No such file"):
        run.commit(pieces)
    assert read(FILES, root) == {"t-0": [(0, b"a")]}


def test_undoing_removes_what_a_killed_job_staged(root):
    SinkRun(FILES, root, name="first").write(ROWS)
    SinkRun(FILES, root, name="killed").stage(ROWS)
    assert clear(root) == ["killed"]
    done = kafkalog("restore", root)
    assert (done.status, b"removed: what 1 job staged and did not commit" in done.out) == (1, True)
    assert staging(root) == []
    assert read(FILES, root) == {"t-0": [(0, b"a")]}


# ---- files of other versions ------------------------------------------------------------------------

JOURNAL = Journal("job", {"t-0": 3}, ["u-0"], [], {".kafka_cleanshutdown": None, "x": "eA=="}, {"segment.bytes": "1"})


@pytest.mark.parametrize("content", [JOURNAL, Manifest("job", 5, {"t-0": [0, 1, 2]})])
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
    '{"version": 2, "last": "job"}', '{"version": 1, "last": "job", "at_ms": 1, "written": {}, "replaced": [], "undoing": false, "more": 1}',
    '{"version": 1, "last": "job", "at_ms": "1", "written": {}, "replaced": [], "undoing": false}', '{"version": 1, "last": "job"}', "[]", "{",
    "[" * 99_999,
])  # fmt: skip
def test_a_manifest_of_another_version_is_refused(text, root):
    run = SinkRun(FILES, root)
    run.write(ROWS)
    with open(f"{root}/{jobs.MANIFEST}", "w") as file:
        file.write(text)
    with pytest.raises(KafkalogError, match="with the version of kafkalog that wrote the file"):
        run.write(ROWS)
    assert read(FILES, root) == {"t-0": [(0, b"a")]}


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
