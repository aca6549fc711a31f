"""Jobs that change logs leave what the commands leave: the same bytes, checkpoints, quarantines."""

from __future__ import annotations

import shutil
import time
from types import SimpleNamespace

import pytest

from engine.errors import KafkalogError, UnreadableFile, UnwritableFile
from engine.files import Files, ReadOnlyFiles
from engine.findings import Severity
from engine.log.cleaner.compaction import CompactionOptions
from engine.log.errors import LogDamaged
from engine.log.logdir.log_dirs import find_log_dirs
from engine.log.operations.recover import RecoverOptions
from engine.log.quarantine.manifest import read_manifest
from engine.log.quarantine.quarantining_files import QuarantiningFiles
from engine.log.report import Action, Report
from engine.log.session import OpenOptions
from kafkalog_cli.app import Outcome
from kafkalog_cli.render_report import exit_status
from kafkalog_cli.spark_events import show_events
from kafkalog_spark.errors import LogDirError
from kafkalog_spark.jobs import upkeep
from kafkalog_spark.jobs.upkeep import compact, event_rows, recover
from tests.spark.logs_left import NOW, done, log_dirs, state
from tests.support.other_process import is_held, lock_held
from tests.support.permissions import without_permission
from tests.support.run import kafkalog


def status_of(rows):
    """The exit status of `kafkalog spark` for the rows of a job."""
    known = [row if isinstance(row, dict) else row.asDict() for row in rows]
    filled = [{name: row.get(name) for name in upkeep.EVENT_TYPES} for row in known]
    return show_events(SimpleNamespace(toLocalIterator=lambda: filled), Outcome())


def test_a_log_of_which_much_is_told_fills_no_driver(torn):
    """All rows of all tasks come to it at once."""
    [log_dir] = find_log_dirs(Files(), [str(torn)])
    report = Report(log_dir.directories[0].path, "recover")
    for number in range(upkeep._MAX_SIMILAR + 500):
        report.add(Action.SALVAGED, f"{number}.log", "why", records=2, size=10, severity=Severity.ERROR)
        report.add(Action.KEPT, "", "odd", severity=Severity.WARNING if number else Severity.INFO)
    rows = list(upkeep._rows([str(torn)], upkeep.Assignment(OpenOptions(now=NOW), (), lambda _: iter([report]))))
    assert len(rows) == 2 * upkeep._MAX_SIMILAR + 3
    more = [(row["action"], row["reason"], row.get("records"), row.get("bytes")) for row in rows[-2:]]
    assert more == [("salvaged", "500 more of these", 1000, 5000), ("kept", "499 more of these", None, None)]
    assert status_of(rows) == exit_status(report) == 4


def sound_partitions(top):
    """Some partitions of each log dir, none of them damaged."""
    return [str(path) for log_dir in sorted(top.glob("d?")) for path in sorted(log_dir.glob("*-*"))
            if path.is_dir() and path.name != "u-rolls-0" and not path.name.startswith("__")]


def test_recover_leaves_what_the_command_leaves(spark, twins):
    by_command, by_job = twins
    done = kafkalog("recover", "--now", str(NOW), *log_dirs(by_command))
    assert done.status == 1, done.err
    rows = recover(spark, *log_dirs(by_job), now=NOW).collect()
    assert state(by_job) == state(by_command)
    assert status_of(rows) == 1
    cut = [row for row in rows if row.action == "truncated"]
    assert [row.bytes for row in cut if row.file and "u-rolls-0" in row.directory] == [4]
    assert list(by_job.glob("d?.quarantine-*"))


@pytest.mark.usefixtures("no_session")
def test_restore_undoes_what_a_job_did_to_a_log_dir(torn):
    def files():
        return {str(path): path.read_bytes() for path in torn.rglob("*") if path.is_file() and path.name != ".lock"}

    before = files()
    recover(None, str(torn), now=NOW)
    assert files() != before
    [quarantine] = torn.parent.glob("logs.quarantine-*")
    done = kafkalog("restore", str(quarantine))
    assert done.status == 0, done.err
    assert files() == before


@pytest.mark.usefixtures("no_session")
def test_partitions_that_are_recovered_keep_the_marker(own_corpus, tmp_path):
    top = tmp_path / "d0"
    shutil.copytree(own_corpus / "kafka-4.3.1/logs/clean/d0", top)
    marker = (top / ".kafka_cleanshutdown").read_bytes()
    named = [str(top / name) for name in ("append.time-0", "codec.none-0")]
    rows = recover(None, *named, now=NOW)
    assert not [row for row in rows if row["action"] in ("failed", "refused")]
    assert (top / ".kafka_cleanshutdown").read_bytes() == marker


def test_a_running_broker_is_left_alone(spark, twins):
    _, by_job = twins
    before = state(by_job)
    with lock_held(f"{log_dirs(by_job)[0]}/.lock"):
        for job in (recover, compact):
            with pytest.raises(LogDirError, match=r"\.lock"):
                job(spark, *log_dirs(by_job), now=NOW)
    assert state(by_job) == before


def test_compact_leaves_what_the_command_leaves(spark, own_corpus, tmp_path):
    for name in ("command", "job"):
        shutil.copytree(own_corpus / "kafka-4.3.1/logs/clean", tmp_path / name)
    by_command, by_job = log_dirs(tmp_path / "command"), log_dirs(tmp_path / "job")
    assert by_job
    config = {"cleanup.policy": "compact"}
    done = kafkalog("compact", "--force", "--clean-start", "--now", str(NOW), "--config", "cleanup.policy=compact", *by_command)
    assert done.status == 1, done.err
    rows = compact(spark, *by_job, now=NOW, config=config, clean_start=True, options=CompactionOptions(force=True)).collect()
    assert any(row.action == "compacted" for row in rows)
    assert state(tmp_path / "job") == state(tmp_path / "command")
    assert status_of(rows) == 1


@pytest.mark.usefixtures("no_session")
def test_a_partition_that_may_not_be_entered_keeps_no_other_from_being_compacted(own_corpus, tmp_path):
    logs = tmp_path / "logs"
    for name in ("a-0", "shut-0", "z-0"):
        shutil.copytree(next(own_corpus.glob("kafka-4.3.1/logs/clean/*/small_segments-0")), logs / name)
    (logs / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=x\n")
    with without_permission(logs / "shut-0"):
        rows = compact(None, str(logs), now=NOW, config={"cleanup.policy": "compact"}, clean_start=True,
                       options=CompactionOptions(force=True))  # fmt: skip
    failed = [(row["directory"], row["reason"]) for row in rows if row["action"] == upkeep.FAILED]
    assert failed == [(f"{logs}/shut-0", f"{logs}/shut-0: Permission denied")]
    assert {row["directory"] for row in rows if row["action"] == "compacted"} == {f"{logs}/a-0", f"{logs}/z-0"}
    assert status_of(rows) == 8


def test_compact_names_no_option_that_the_job_has_not(no_session, own_corpus, tmp_path):
    shutil.copytree(next(own_corpus.glob("kafka-4.3.1/logs/clean/*/multi-1")), tmp_path / "d" / "multi-1")
    config = {"cleanup.policy": "compact"}
    for directory in ("d", "d/multi-1"):
        rows = compact(None, str(tmp_path / directory), now=NOW, config=config)
        said = " ".join(row["reason"] for row in rows).replace("kafkalog compact --explain shows why", "OURS")
        assert ("OURS" in said or "--config min.cleanable.dirty.ratio=" in said, "--explain" in said, "--min-dirty" in said) == (
            True, False, False), rows  # fmt: skip


@pytest.mark.usefixtures("no_session")
def test_a_log_dir_that_may_not_be_entered_ends_the_job_before_its_tasks(torn):
    with without_permission(torn), pytest.raises(LogDirError, match=f"^kafkalog: {torn}.*: Permission denied$"):
        recover(None, str(torn), now=NOW)


@pytest.fixture
def two_brokers(torn):
    """Log dirs of two brokers, each with a torn log."""
    other = torn.parent / "other"
    shutil.copytree(torn, other)
    (other / "meta.properties").write_text("version=1\nnode.id=2\ncluster.id=x\n")
    return torn, other


@pytest.mark.usefixtures("no_session")
def test_a_broker_that_starts_after_the_job_keeps_its_log_dir_and_the_others_are_recovered(two_brokers, monkeypatch):
    """The driver checks all locks before the tasks start, and each task locks its own log dirs again."""
    monkeypatch.setattr(upkeep, "_PATIENCE", 0)
    [first, other], run = two_brokers, upkeep.run
    before = state(first)
    held = lock_held(f"{first}/.lock")

    def start_a_broker(*arguments):
        held.__enter__()
        return run(*arguments)

    monkeypatch.setattr(upkeep, "run", start_a_broker)
    rows = recover(None, str(first), str(other), now=NOW)
    held.__exit__(None, None, None)
    assert [(row["action"], row["code"]) for row in rows if row["directory"] == str(first)] == [("failed", "log-dir-locked")]
    assert "most likely a running broker" in rows[0]["reason"]
    assert state(first) == before
    assert any(row["action"] == "truncated" and row["directory"] == f"{other}/small_segments-0" for row in rows)
    assert status_of(rows) == 8


def test_an_attempt_waits_for_another_one_that_still_works(torn, monkeypatch):
    """Spark may run a task twice at once (speculation): one that fails at once fails four times, and with it the job."""
    held = lock_held(f"{torn}/.lock")
    held.__enter__()
    slept = []

    def end_the_other(seconds):
        slept.append(seconds)
        if len(slept) == 2:
            held.__exit__(None, None, None)

    monkeypatch.setattr(upkeep, "time", SimpleNamespace(sleep=end_the_other, monotonic=time.monotonic))
    work = upkeep.Assignment(OpenOptions(now=NOW), (), lambda logs: iter([Report(logs.log_dirs[0].path, "recover")]), "recover")
    assert list(upkeep._rows([str(torn)], work)) == []
    assert slept == [upkeep._AGAIN, upkeep._AGAIN, upkeep._GRACE]


def test_nobody_else_gets_the_log_dirs_while_a_task_works_on_them(torn):
    """So a task that Spark has given up keeps brokers, and other attempts, away until it ends."""
    def held(_logs):
        assert is_held(f"{torn}/.lock")
        yield Report(str(torn), "recover")

    assert list(upkeep._rows([str(torn)], upkeep.Assignment(OpenOptions(now=NOW), (), held))) == []
    assert not is_held(f"{torn}/.lock")


@pytest.mark.usefixtures("no_session")
def test_a_log_dir_is_marked_as_clean_as_by_the_command(torn, tmp_path):
    shutil.copytree(torn, tmp_path / "other")
    assert kafkalog("recover", "--mark-clean", "--now", str(NOW), str(tmp_path / "other")).status == 1
    recover(None, str(torn), options=RecoverOptions(mark_clean=True), now=NOW)
    assert state(torn) == state(tmp_path / "other")


@pytest.mark.usefixtures("no_session")
def test_what_is_refused_of_a_log_dir_keeps_no_partition_from_being_recovered(torn):
    (torn / "meta.properties").unlink()
    (torn / "not-kafkas").mkdir()
    rows = recover(None, str(torn), now=NOW)
    assert {row["file"] for row in rows if row["action"] == "refused"} == {"meta.properties", "not-kafkas"}
    assert ("truncated", "small_segments-0") in done(rows)


@pytest.mark.usefixtures("no_session")
def test_logs_of_07_are_recovered_and_their_log_dir_gets_nothing_of_later_brokers(own_corpus, tmp_path):
    shutil.copytree(own_corpus / "old/0.7.2/logs/torn-0", tmp_path / "d/torn-0")
    rows = recover(None, str(tmp_path / "d"), now=NOW)
    assert done(rows) == {("truncated", "torn-0")}
    assert {path.name for path in (tmp_path / "d").iterdir()} - {".lock"} == {"torn-0"}


@pytest.mark.usefixtures("no_session")
def test_a_log_that_was_left_alone_leaves_its_log_dir_clean(torn, tmp_path):
    (torn / ".kafka_cleanshutdown").write_bytes(b"{}")
    with max((torn / "small_segments-0").glob("*.log")).open("r+b") as log:
        log.truncate(log.seek(0, 2) - 4)
    odd = torn / "odd-0"
    odd.mkdir()
    (odd / "00000000000000000000.log").symlink_to(tmp_path)
    how = {"config": {"cleanup.policy": "compact"}, "options": CompactionOptions(force=True), "now": NOW}
    rows = compact(None, str(torn / "small_segments-0"), str(odd), **how)
    assert ("failed", "odd-0") in done(rows)
    assert (torn / ".kafka_cleanshutdown").read_bytes() == b"{}"


@pytest.mark.usefixtures("no_session")
def test_partitions_may_be_spelled_in_another_way_than_their_log_dir(torn, tmp_path):
    """What is told of them counts for the log dir all the same."""
    (tmp_path / "link").symlink_to(torn)
    odd = torn / "odd-0"
    odd.mkdir()
    (odd / "00000000000000000000.log").symlink_to(tmp_path / "nowhere")
    named = (str(torn / "small_segments-0"), f"{tmp_path}/link/odd-0")
    assert {("failed", "odd-0"), ("truncated", "small_segments-0")} <= done(recover(None, *named, now=NOW))
    named = (str(odd), f"{tmp_path}/link/small_segments-0")
    compact(None, *named, config={"cleanup.policy": "compact"}, options=CompactionOptions(force=True), now=NOW)
    assert "small_segments 0 " in (torn / "cleaner-offset-checkpoint").read_text()


@pytest.mark.usefixtures("no_session")
@pytest.mark.parametrize("job", ["compact", "recover"])
@pytest.mark.parametrize("named", ["log dirs", "partitions"])
def test_checkpoints_get_what_the_command_writes_whatever_was_named(job, named, twins):
    """The rule stands with LogDir: recovering partitions leaves checkpoints alone, and nothing else does."""
    by_command, by_job = twins
    name = "recovery-point-offset-checkpoint"
    for top in twins:
        for path in top.glob(f"d?/{name}"):
            path.unlink()
    words = ["--now", str(NOW), *(("--force", "--config", "cleanup.policy=compact") if job == "compact" else ())]
    paths = [log_dirs(top) if named == "log dirs" else sound_partitions(top) for top in twins]
    done = kafkalog(job, *words, *paths[0])
    if job == "compact":
        config = {"cleanup.policy": "compact"}
        rows = compact(None, *paths[1], config=config, options=CompactionOptions(force=True), now=NOW)
    else:
        rows = recover(None, *paths[1], now=NOW)
    assert state(by_job) == state(by_command)
    assert status_of(rows) == done.status
    is_written = [(log_dir / name).exists() for log_dir in by_job.glob("d?")]
    assert is_written == [(job, named) != ("recover", "partitions")] * 2


@pytest.mark.usefixtures("no_session")
def test_a_log_that_would_lose_records_ends_job_and_command_with_the_same_status(torn):
    log = min((torn / "small_segments-0").glob("*.log"))
    log.write_bytes(log.read_bytes()[:-1] + b"?")
    done = kafkalog("compact", "--force", "--now", str(NOW), "--config", "cleanup.policy=compact", str(torn))
    assert "error[log-damaged]" in done.err
    how = {"config": {"cleanup.policy": "compact"}, "options": CompactionOptions(force=True), "now": NOW}
    rows = compact(None, str(torn), **how)
    assert [row["action"] for row in rows] == ["failed"]
    assert (status_of(rows), done.status) == (4, 4)


@pytest.mark.usefixtures("no_session")
def test_a_log_that_ends_below_its_start_is_kept_as_by_the_command(torn, tmp_path):
    (torn / "log-start-offset-checkpoint").write_text("0\n1\nsmall_segments 0 99999\n")
    shutil.copytree(torn, tmp_path / "other")
    done = kafkalog("recover", "--start-beyond-end", "keep", "--now", str(NOW), str(tmp_path / "other"))
    rows = recover(None, str(torn), options=RecoverOptions(start_beyond_end="keep"), now=NOW)
    assert status_of(rows) == done.status == 1
    assert state(torn) == state(tmp_path / "other")
    assert not [row for row in rows if row["action"] == "kept"]


@pytest.mark.usefixtures("no_session")
def test_a_time_behind_every_calendar_names_a_quarantine_too(torn):
    assert ("truncated", "small_segments-0") in done(recover(None, str(torn), now=2**63 - 1))
    assert list(torn.parent.glob("logs.quarantine-99991231T235959Z"))


@pytest.mark.usefixtures("no_session")
def test_every_quarantine_is_closed_whatever_fails(two_brokers, monkeypatch):
    """Restoring asks how things were left."""
    closing = QuarantiningFiles.finish

    def finish(quarantine):
        if "/other." in quarantine.directory:
            raise UnwritableFile(f"{quarantine.directory}: no room")
        closing(quarantine)

    monkeypatch.setattr(QuarantiningFiles, "finish", finish)
    rows = recover(None, *map(str, two_brokers), now=NOW)
    [failed] = [row for row in rows if row["action"] == "failed"]
    assert (failed["directory"], "no room" in failed["reason"]) == (str(two_brokers[1]), True)
    [kept] = two_brokers[0].parent.glob("logs.quarantine-*")
    assert read_manifest(ReadOnlyFiles(), str(kept)).left is not None
    assert status_of(rows) == 8


@pytest.mark.parametrize(("events", "status"), [
    ([("recovered", "info")], 0),
    ([("truncated", "error"), ("rebuilt", "warning")], 1),
    ([("refused", "info")], 4),
    ([("missing", "warning"), ("truncated", "error")], 4),
    ([("kept", "warning")], 4),
    ([LogDamaged("it would lose records"), ("truncated", "error")], 4),
    ([UnreadableFile("it cannot be read"), ("kept", "info")], 8),
])  # fmt: skip
def test_a_job_ends_with_the_status_of_the_command(events, status):
    report = Report("t-0", "recover")
    for event in events:
        if isinstance(event, KafkalogError):
            report.failure = event
        else:
            report.add(Action(event[0]), "", "", severity=Severity(event[1]))
    assert status_of(list(event_rows(report))) == exit_status(report) == status
