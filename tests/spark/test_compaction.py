"""The job `compact` leaves what Kafka's cleaner and the command leave, also if a task's map is too small for the keys."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest
from click.testing import CliRunner

from engine.config.topic import LogConfig
from engine.files import Files
from engine.log.cleaner.compaction import CompactionOptions
from engine.log.loading.loader import open_log
from kafkalog_cli.commands.spark.compact import command
from kafkalog_cli.main import cli
from kafkalog_spark.jobs import upkeep
from kafkalog_spark.jobs.upkeep import DEDUPE_BUFFER_SIZE, compact
from tests.support.cases import cases, differences
from tests.support.keyed_logs import write_keyed_log
from tests.support.live_keys import last_records
from tests.support.run import kafkalog

NOW = 1_700_000_100_000
CASES = (
    "compact-plain", "compact-codec-mixed", "compact-tombstones-3", "compact-transactions-2", "compact-dirty-middle",
    "compact-v1-none", "compact-null-keys", "compact-group-all",
)  # fmt: skip
CONFIG = {
    "cleanup.policy": "compact", "segment.bytes": "8000", "index.interval.bytes": "64", "delete.retention.ms": "100000",
}  # fmt: skip
TINY = 24 * 20  # bytes: a map of 18 keys


def test_command_and_function_give_a_task_the_same_memory_for_keys():
    given = command.make_context("compact", ["/nowhere"]).params
    assert given["dedupe_buffer_size"] == DEDUPE_BUFFER_SIZE


@pytest.mark.parametrize("case", [case for case in cases(frozenset(("compact",))) if case.name in CASES], ids=lambda case: case.name)
def test_same_files_as_kafka(spark, case, tmp_path):
    options = CompactionOptions(force=True, rounds=1, first_dirty_offset=case.data.get("dirty"))
    compact(
        spark, str(case.stage(tmp_path)), config=case.settings(), options=options, clean_start=True, now=case.data["now"]
    ).collect()
    assert differences(case.expected, tmp_path) == []


def logs(top, *seeds):
    """A log dir with a partition for each seed, as a broker that was killed leaves them."""
    for number, seed in enumerate(seeds):
        directory = top / f"t-{number}"
        write_keyed_log(directory, seed, now=NOW)
        open_log(Files(), str(directory), LogConfig.of(CONFIG), now=NOW, clean_shutdown=False).close()
    (top / "cleaner-offset-checkpoint").write_bytes(b"0\n0\n")
    (top / "recovery-point-offset-checkpoint").write_bytes(b"0\n0\n")
    return top


@pytest.fixture
def twins(tmp_path):
    """The same log dir twice: for the command, and for the job."""
    logs(tmp_path / "command", 3, 4)
    shutil.copytree(tmp_path / "command", tmp_path / "job")
    return tmp_path / "command", tmp_path / "job"


def words(memory):
    settings = [word for name, value in CONFIG.items() for word in ("--config", f"{name}={value}")]
    return ["--force", "--now", str(NOW), *settings, "--dedupe-buffer-size", str(memory)]


def by_command(top, memory=TINY):
    done = kafkalog("compact", "--jobs", "1", *words(memory), str(top))
    assert done.status in (0, 1), done.err
    return state(top)


def by_job(spark, top, memory=TINY):
    options = CompactionOptions(force=True, dedupe_buffer_size=memory)
    return compact(spark, str(top), config=CONFIG, options=options, now=NOW).collect()


def state(top):
    """Every file and its bytes; the lines of checkpoints in any order."""
    return {
        str(path.relative_to(top)): sorted(path.read_bytes().split(b"\n")) if path.name.endswith("-checkpoint") else path.read_bytes()
        for path in sorted(top.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }  # fmt: skip


@pytest.mark.parametrize(("memory", "is_small"), [(TINY, True), (1 << 20, False)])
def test_the_job_leaves_what_the_command_leaves(spark, twins, memory, is_small):
    """A map that is too small for the keys takes several rounds, in one task."""
    command, job = twins
    before = state(job)
    rows = by_job(spark, job, memory)
    rounds = [row.directory for row in rows if row.action == "compacted"]
    assert all((rounds.count(f"{job}/t-{number}") > 1) == is_small for number in (0, 1))
    assert state(job) == by_command(command, memory) != before


def test_several_rounds_keep_the_last_record_of_every_key(spark, twins):
    command, job = twins
    wanted, found = ({}, {})
    by_job(spark, job)
    by_command(command, 1 << 20)
    for top, keys in ((command, wanted), (job, found)):
        for number in (0, 1):
            keys[number] = last_records({str(path): path.read_bytes() for path in (top / f"t-{number}").glob("*.log")})
    assert found == wanted
    assert all(len(keys) > 20 for keys in wanted.values())


def test_damage_leaves_its_partition_unchanged_and_the_others_are_compacted(spark, twins):
    command, job = twins
    for top in twins:
        log = sorted(top.glob("t-1/*.log"))[2]
        data = bytearray(log.read_bytes())
        data[-1] ^= 1  # a checksum
        log.write_bytes(data)
    done = kafkalog("compact", "--clean-start", *words(1 << 20), str(command))
    assert done.status == 4, done.err
    options = CompactionOptions(force=True, dedupe_buffer_size=1 << 20)
    rows = compact(spark, str(job), config=CONFIG, options=options, now=NOW, clean_start=True).collect()
    assert state(job) == state(command)
    assert any("not compacted, unchanged: " in row.reason and "checksum" in row.reason for row in rows if row.directory.endswith("t-1"))
    assert [row.action for row in rows if row.directory.endswith("t-0")] == ["compacted"]


def killed_once(asked, logs, real=upkeep._compact):
    """The first task is killed when its log is compacted, before it reports."""
    for report in real(asked, logs):
        try:
            os.close(os.open(Path(report.directory).parent.parent / "killed", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            yield report
        else:
            os.kill(os.getpid(), signal.SIGKILL)


def test_a_worker_that_is_killed_in_the_middle(spark, twins, monkeypatch):
    command, job = twins
    monkeypatch.setattr(upkeep, "_compact", killed_once)
    by_job(spark, job)
    assert (job.parent / "killed").exists()
    wanted = by_command(command)
    for name in ("cleaner-offset-checkpoint", "recovery-point-offset-checkpoint"):
        assert state(job)[name] == wanted[name]
    for number in (0, 1):
        found, keys = (
            last_records({str(path): path.read_bytes() for path in (top / f"t-{number}").glob("*.log")}) for top in (job, command)
        )
        assert found == keys
    assert not [path for path in job.rglob("*") if path.suffix in (".cleaned", ".swap", ".deleted")]


def test_a_log_of_metadata_is_refused_as_by_the_command(spark, tmp_path):
    logs(tmp_path / "d", 3)
    target = tmp_path / "d" / "__cluster_metadata-0"
    (tmp_path / "d" / "t-0").rename(target)
    [row] = compact(spark, str(target), config=CONFIG, options=CompactionOptions(force=True), now=NOW).collect()
    done = kafkalog("compact", "--force", "--format", "json", str(target))
    assert row.action == "refused"
    assert row.reason in done.out.decode()


def test_the_command_takes_memory_for_keys(spark, twins):
    command, job = twins
    done = CliRunner().invoke(cli, ["spark", "compact", *words(TINY), str(job)], standalone_mode=False)
    assert done.return_value == 0, done.output
    assert done.stdout.count("  compacted ") > 2
    assert state(job) == by_command(command)
