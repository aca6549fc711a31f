"""Jobs that change logs, on the partitions of some topics: as if these had been named, and nothing else is touched."""

from __future__ import annotations

import pytest

from engine.log.cleaner.compaction import CompactionOptions
from engine.log.operations.recover import RecoverOptions
from kafkalog_spark.errors import OptionError
from kafkalog_spark.jobs.upkeep import compact, recover
from tests.spark.logs_left import NOW, done, log_dirs, state
from tests.support.run import kafkalog

pytestmark = pytest.mark.usefixtures("no_session")
COMPACTED = {"config": {"cleanup.policy": "compact"}, "options": CompactionOptions(force=True), "now": NOW}
CHECKPOINTS = "*-offset-checkpoint"


def checkpoints(top):
    return {path.relative_to(top): path.read_bytes() for path in top.glob(f"d?/{CHECKPOINTS}")}


def marked(top):
    """Every log dir with a marker of a clean shutdown."""
    for log_dir in top.glob("d?"):
        (log_dir / ".kafka_cleanshutdown").write_bytes(b"{}")


@pytest.mark.parametrize("job", ["recover", "compact"])
def test_topics_leave_what_their_partitions_by_name_leave(job, twins):
    by_command, by_job = twins
    before = state(by_job)
    named = [str(path) for topic in ("u-rolls", "u-tx") for path in sorted(by_command.glob(f"d?/{topic}-?"))]
    assert len(named) == 3
    words = ("--force", "--config", "cleanup.policy=compact") if job == "compact" else ()
    kafkalog(job, "--now", str(NOW), *words, *named)
    work, how = (compact, COMPACTED) if job == "compact" else (recover, {"now": NOW})
    work(None, *log_dirs(by_job), topics=["u-rolls", "u-tx"], **how)
    assert state(by_job) == state(by_command)
    changed = {name for name, content in state(by_job).items() if before.get(name) != content}
    assert changed
    assert all("/u-rolls-" in name or "/u-tx-" in name or name.endswith("-checkpoint") for name in changed)


def test_recovering_a_topic_leaves_checkpoints_and_what_else_is_wrong_in_the_log_dir(twins):
    _, top = twins
    for log_dir in top.glob("d?"):
        (log_dir / "not-kafkas").mkdir()
        (log_dir / "meta.properties").write_bytes(b"no property")
    before = checkpoints(top)
    rows = recover(None, str(top), topics=["u-rolls"], now=NOW)
    assert done(rows) >= {("truncated", "u-rolls-0"), ("recovered", "u-rolls-0")}
    assert {row["directory"].rpartition("/")[2] for row in rows} == {"u-rolls-0"}
    assert checkpoints(top) == before
    assert list(top.glob("d?/*-delete"))


def test_compacting_a_topic_keeps_the_lines_of_other_partitions(twins):
    _, top = twins
    before = {path: set(content.splitlines()[2:]) for path, content in checkpoints(top).items()}
    assert ("compacted", "u-tx-0") in done(compact(None, str(top), topics=["u-tx"], **COMPACTED))
    assert b"u-tx 0 " in (top / "d1/cleaner-offset-checkpoint").read_bytes()
    for path, content in checkpoints(top).items():
        others = {line for line in before[path] if not line.startswith(b"u-tx ")}
        assert others <= set(content.splitlines()[2:])


def test_a_log_dir_of_which_some_partitions_are_recovered_gets_no_marker_and_keeps_its_own(twins):
    _, top = twins
    recover(None, str(top), topics=["u-rolls"], options=RecoverOptions(mark_clean=True), now=NOW)
    assert not list(top.glob("d?/.kafka_cleanshutdown"))
    marked(top)
    assert not [one for one in recover(None, str(top), topics=["u-rolls"], now=NOW + 1000) if one["action"] == "failed"]
    assert len(list(top.glob("d?/.kafka_cleanshutdown"))) == 2


def test_something_wrong_with_a_topic_leaves_the_markers_that_the_command_leaves(twins, tmp_path):
    for top in twins:
        marked(top)
        log = min(top.glob("d0/u-rolls-0/*.log"))
        log.unlink()
        log.symlink_to(tmp_path / "nowhere")
    by_command, by_job = twins
    assert kafkalog("recover", "--now", str(NOW), *map(str, sorted(by_command.glob("d?/u-rolls-?")))).status
    assert ("failed", "u-rolls-0") in done(recover(None, str(by_job), topics=["u-rolls"], now=NOW))
    markers = [sorted(path.parent.name for path in top.glob("d?/.kafka_cleanshutdown")) for top in twins]
    assert markers[0] == markers[1]


def test_settings_of_a_topic_come_from_the_metadata_log_in_another_log_dir(twins):
    _, top = twins
    assert list(top.glob("d1/u-compact-0"))
    assert list(top.glob("d0/__cluster_metadata-0"))
    rows = compact(None, *log_dirs(top), topics=["u-compact"], options=CompactionOptions(force=True), clean_start=True, now=NOW)
    assert not [row for row in rows if "to a compacted topic" in row["reason"]]
    assert {row["directory"].rpartition("/")[2] for row in rows} == {"u-compact-0"}


@pytest.mark.parametrize("job", [recover, compact])
@pytest.mark.parametrize("topic", ["nowhere", "u-doomed"])
def test_a_topic_that_is_not_there_is_refused_before_anything_is_touched(job, topic, twins):
    _, top = twins
    before = state(top)
    with pytest.raises(OptionError, match=f"^kafkalog: no such topic: {topic}$"):
        job(None, str(top), topics=["u-rolls", topic], now=NOW)
    assert state(top) == before
    assert not list(top.glob("*.quarantine-*"))
