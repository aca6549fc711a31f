"""A partition whose keys do not fit one task's map: many tasks leave what Kafka's cleaner and the command leave, or nothing."""

from __future__ import annotations

import os
import pickle
import random
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from click.testing import CliRunner

from engine.config.topic import LogConfig
from engine.errors import UnwritableFile
from engine.files import Files, remove_tree
from engine.log.cleaner.compaction import CompactionOptions
from engine.log.cleaner.round_plan import SegmentToClean, plan_round
from engine.log.cleaner.survivor_bits import PART_BYTES, PART_SHIFT, GroupBits
from engine.log.loading.loader import open_log
from kafkalog_cli.commands.spark import command
from kafkalog_cli.main import cli
from kafkalog_spark.errors import OptionError
from kafkalog_spark.jobs import shuffling
from kafkalog_spark.jobs.bit_rows import COUNT, note_row
from kafkalog_spark.jobs.compact import DEDUPE_BUFFER_SIZE, STAGING, compact
from kafkalog_spark.jobs.holds import JobIsOver
from tests.support.cases import cases, differences
from tests.support.keyed_logs import write_keyed_log, write_transactions
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
LAZILY = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")


def test_command_and_function_give_a_task_the_same_memory_for_keys():
    given = command.make_context("spark", ["compact", "/nowhere"]).params
    assert given["dedupe_buffer_size"] == DEDUPE_BUFFER_SIZE


@pytest.mark.parametrize("case", [case for case in cases(frozenset(("compact",))) if case.name in CASES], ids=lambda case: case.name)
def test_same_files_as_kafka(spark, case, tmp_path):
    options = CompactionOptions(force=True, rounds=1, first_dirty_offset=case.data.get("dirty"))
    compact(
        spark, str(case.stage(tmp_path)), config=case.settings(), options=options, shuffle="always", clean_start=True,
        now=case.data["now"],
    )  # fmt: skip
    assert differences(case.expected, tmp_path) == []


def logs(top, *seeds, batches=150):
    """A log dir with a partition for each seed, as a broker that was killed leaves them."""
    for number, seed in enumerate(seeds):
        directory = top / f"t-{number}"
        write_keyed_log(directory, seed, now=NOW, batches=batches)
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


def by_command(top):
    words = [word for name, value in CONFIG.items() for word in ("--config", f"{name}={value}")]
    done = kafkalog("compact", "--force", "--now", str(NOW), *words, str(top))
    assert done.status in (0, 1), done.err
    return state(top)


def by_job(spark, top, *, memory=TINY, **how):
    options = CompactionOptions(force=True, dedupe_buffer_size=memory)
    return compact(spark, str(top), config=CONFIG, options=options, now=NOW, **how).collect()


def state(top):
    """Every file and its bytes; the lines of checkpoints in any order."""
    return {
        str(path.relative_to(top)): sorted(path.read_bytes().split(b"\n")) if path.name.endswith("-checkpoint") else path.read_bytes()
        for path in sorted(top.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }  # fmt: skip


def test_a_map_that_is_too_small_leaves_what_one_that_holds_all_keys_leaves(spark, twins):
    command, job = twins
    before = state(job)
    wanted = by_command(command)
    rows = by_job(spark, job)
    assert [row.operation for row in rows if row.action == "compacted"] == ["compact"] * 2, "one round each"
    assert state(job) == wanted != before
    assert not list(job.glob(f"*/{STAGING}"))
    assert all("25 keys" in row.reason for row in rows if row.action == "compacted")


def test_offsets_of_a_wide_log_are_shuffled_by_parts(spark, twins, monkeypatch):
    """So wide that a task has no room for the bits of all offsets: the same is left."""
    command, job = twins
    monkeypatch.setattr(shuffling._surviving_bits, "__defaults__", (1,))
    by_job(spark, job)
    assert state(job) == by_command(command)


@pytest.mark.parametrize("some_only_ask", [False, True])
def test_a_part_comes_once_however_wide_the_log(spark, some_only_ask):
    parts, keys = 64, 20_000
    end = parts << PART_SHIFT
    plan = SimpleNamespace(groups=[[SegmentToClean(0, end, 1, 0, ())]], first_uncleanable_offset=end)
    offsets = random.Random(3).sample(range(end), keys)
    rows = [(at, [max(0, at - 1), at + 1] if at + 1 < end else []) for at in offsets]
    last = spark.createDataFrame(rows, "last long, asking array<long>").repartition(8)
    last = last if some_only_ask else last.select("last")
    found = shuffling._surviving_bits(spark, last, plan, [7], 4 * PART_BYTES).collect()
    assert sum(row["keys"] for row in found) == keys
    group = GroupBits(0, end)
    for row in found:
        if row["first"] != COUNT:
            note_row(group, 0, row["first"], memoryview(row.bits))
    survive = {*offsets, *(at + 1 for at in offsets if at + 1 < end)} if some_only_ask else set(offsets)
    assert sum(word.bit_count() for word in group.survivors.bits) == len(survive)
    assert all(group.survivors.bits[at >> 6] >> (at & 63) & 1 for at in survive)
    assert sum(len(row.bits) for row in found) == 4 * len(survive) < parts * PART_BYTES, "once each, however wide the log"


WIDE = 1 << 26  # offsets of a log


@pytest.mark.parametrize("keys", [0, 1, 300, 3000, 1 << 21])
@pytest.mark.parametrize("groups", [1, 3, 3000])
def test_a_task_hands_over_some_bytes_a_key_or_a_bit_an_offset(keys, groups):
    """Whatever is less, however wide the log and however many the keys; and it is what survives."""
    drawn = random.Random(keys)
    end = WIDE if keys < 1 << 21 else 1 << 22
    starts = sorted({0, *(drawn.randrange(end) for _ in range(groups - 1))})
    plan = SimpleNamespace(
        groups=[[SegmentToClean(*bounds, 1, 0, ())] for bounds in zip(starts, [*starts[1:], end], strict=True)],
        first_uncleanable_offset=end,
    )
    offsets = drawn.sample(range(end), keys)
    some = shuffling._Survivors((pa.array(offsets[: keys // 2], pa.int64()), pa.array(offsets[keys // 2 :], pa.int64())), keys)
    tokens = list(range(100, 100 + len(starts)))
    rows = [row for batch in shuffling._bits([some], plan, tokens, 64 << 20) for row in batch.to_pylist()]
    amount = sum(len(row["bits"]) for row in rows)
    assert amount <= min(4 * keys, end // 8 + 2 * len(starts))
    assert len(rows) <= len(starts) + 1 + amount // 1000
    assert all(len(row["bits"]) <= PART_BYTES for row in rows)
    assert sum(row["keys"] for row in rows) == keys
    assert _told(plan, tokens, rows) == sorted(offsets)


def _told(plan, tokens, rows):
    """The offsets that rows tell groups of."""
    found = []
    for token, [segment] in zip(tokens, plan.groups, strict=True):
        group = GroupBits(segment.base_offset, segment.end_offset)
        for row in rows:
            if row["token"] == token and row["first"] != COUNT:
                note_row(group, segment.base_offset, row["first"], memoryview(row["bits"]))
        known = group.survivors
        at = known.start
        for octet in known.bits.cast("B"):
            if octet:
                found += [at + n for n in range(8) if octet >> n & 1 and segment.base_offset <= at + n < segment.end_offset]
            at += 8
    return found


def test_tasks_are_told_of_their_own_transactions(spark, tmp_path, monkeypatch):
    """Bytes are counted: of each aborted transaction some copies go to tasks in all, whatever the number of segments."""
    aborted = write_transactions(tmp_path / "job/t-0", 60, 40, now=NOW)
    open_log(Files(), str(tmp_path / "job/t-0"), LogConfig.of(CONFIG), now=NOW, clean_shutdown=False).close()
    for name in ("cleaner-offset-checkpoint", "recovery-point-offset-checkpoint"):
        (tmp_path / "job" / name).write_bytes(b"0\n0\n")
    shutil.copytree(tmp_path / "job", tmp_path / "command")
    told = []

    def noted(real, *given):
        told.append(real(*given))
        return told[-1]

    for name in ("_to_read", "_to_write"):
        monkeypatch.setattr(shuffling, name, partial(noted, getattr(shuffling, name)))

    def step(*fields, real=shuffling.Step):
        told.append(pickle.dumps(fields[0]))
        return real(*fields)

    monkeypatch.setattr(shuffling, "Step", step)
    monkeypatch.setattr(shuffling, "_TASK_BYTES", 10_000)
    by_job(spark, tmp_path / "job", shuffle="always")
    assert state(tmp_path / "job") == by_command(tmp_path / "command")
    of_all, *of_tasks = map(len, told)
    assert len(of_tasks) > 60
    assert of_all < 60 * 100 + 6000
    assert sum(of_tasks) < 100 * aborted + 800 * len(of_tasks)
    assert max(of_tasks) < sum(of_tasks) / 10


def test_a_map_that_is_large_enough_needs_no_shuffle(spark, twins, monkeypatch):
    command, job = twins
    monkeypatch.setattr("kafkalog_spark.jobs.compact.clean_by_shuffle", None)
    by_job(spark, job, memory=1 << 20)
    assert state(job) == by_command(command)


def test_never_by_shuffle_takes_as_many_rounds_as_it_takes(spark, twins):
    rows = by_job(spark, twins[1], shuffle="never")
    assert len([row for row in rows if row.action == "compacted"]) > 2


def test_what_is_cleaned_once_is_cleaned_again(spark, tmp_path):
    """The second time most of the log is clean: its records ask for later offsets, and are no later ones themselves."""
    for name in ("command", "job"):
        logs(tmp_path / name, 5)
    settings = ["--config", "min.compaction.lag.ms=600000"]
    for top in (tmp_path / "command", tmp_path / "job"):
        words = [word for name, value in CONFIG.items() for word in ("--config", f"{name}={value}")]
        kafkalog("compact", "--force", "--now", str(NOW), *words, *settings, str(top))
    assert b"t 0" in (tmp_path / "job/cleaner-offset-checkpoint").read_bytes()
    half = state(tmp_path / "job")
    by_job(spark, tmp_path / "job", shuffle="always")
    assert state(tmp_path / "job") == by_command(tmp_path / "command") != half


def test_a_log_that_begins_with_an_empty_segment(spark, tmp_path):
    """As a round leaves it that nothing of the first segment survives."""
    for name in ("command", "job"):
        log = min((logs(tmp_path / name, 5) / "t-0").glob("*.log"))
        for path in log.parent.glob(f"{log.stem}.*"):
            path.write_bytes(b"")
    by_job(spark, tmp_path / "job", shuffle="always")
    assert state(tmp_path / "job") == by_command(tmp_path / "command")


def test_damage_is_left_to_the_cleaner(spark, twins):
    command, job = twins
    for top in twins:
        log = sorted(top.glob("t-1/*.log"))[2]
        data = bytearray(log.read_bytes())
        data[-1] ^= 1  # a checksum
        log.write_bytes(data)
    words = [word for name, value in CONFIG.items() for word in ("--config", f"{name}={value}")]
    done = kafkalog("compact", "--force", "--clean-start", "--now", str(NOW), *words, str(command))
    assert done.status == 4, done.err
    rows = by_job(spark, job, memory=1 << 20, shuffle="always", clean_start=True)
    assert state(job) == state(command)
    said = [row.reason for row in rows if row.directory.endswith("t-1")]
    assert any("not by shuffle" in reason for reason in said)
    assert any("left as it is" in reason and "checksum" in reason for reason in said)
    assert [row.action for row in rows if row.directory.endswith("t-0")] == ["compacted"]


def killed_once(top, name):
    """The first attempt to come here is killed."""
    try:
        os.close(os.open(f"{top}/{name}", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


def keys_killed(step, segments, real=shuffling._key_batches):
    for batch in real(step, segments):
        yield batch
        killed_once(Path(step.plan.directory).parent.parent, f"keys-{Path(step.plan.directory).name}")


def write_killed(batches, step, tokens, real=shuffling._write):
    rows = list(real(batches, step, tokens))
    killed_once(Path(step.plan.directory).parent.parent, f"write-{Path(step.plan.directory).name}")
    yield from rows


def test_workers_that_are_killed_in_the_middle(spark, twins, monkeypatch):
    command, job = twins
    monkeypatch.setattr(shuffling, "_key_batches", keys_killed)
    monkeypatch.setattr(shuffling, "_write", write_killed)
    by_job(spark, job)
    assert {path.name for path in job.parent.glob("*-t-?")} == {"keys-t-0", "keys-t-1", "write-t-0", "write-t-1"}
    assert state(job) == by_command(command)
    assert not list(job.glob(f"*/{STAGING}"))


def test_partitions_that_fail_change_nothing_and_the_next_job_completes(spark, twins, monkeypatch):
    """What failed is said of each of them; other log dirs are compacted, and clean as they were."""
    command, job = twins
    other = job.parent / "other"
    shutil.copytree(job, other)
    for path in other.glob("t-*"):
        path.rename(path.with_name(path.name.replace("t-", "u-")))
    for top in (job, other):
        (top / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=x\n")
        (top / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":1}')
    logs_before = {name: data for name, data in state(job).items() if name.endswith(("log", "index"))}

    def write(batches, step, tokens, real=shuffling._write):
        if "/job/" in step.directory:
            os.kill(os.getpid(), signal.SIGKILL)
        yield from real(batches, step, tokens)

    options = CompactionOptions(force=True, dedupe_buffer_size=TINY)
    with monkeypatch.context() as patched:
        patched.setattr(shuffling, "_write", write)
        rows = compact(spark, str(job), str(other), config=CONFIG, options=options, now=NOW).collect()
    assert {name: data for name, data in state(job).items() if name.endswith(("log", "index"))} == logs_before
    said = sorted((Path(row.directory).name, row.action, bool(row.exitStatus)) for row in rows)
    assert said == [("t-0", "failed", True), ("t-1", "failed", True), ("u-0", "compacted", False), ("u-1", "compacted", False)]
    assert (other / ".kafka_cleanshutdown").exists()
    assert not (job / ".kafka_cleanshutdown").exists()
    assert not list(job.parent.glob(f"*/*/{STAGING}"))
    by_job(spark, job)
    wanted = {name: data for name, data in by_command(command).items() if not name.startswith("recovery-point")}
    assert {name: state(job)[name] for name in wanted} == wanted


DRIVER = """
import sys, time
from pathlib import Path
from kafkalog_spark.jobs import compact as job
from kafkalog_spark.session import session
from tests.spark.conftest import QUICK_TO_START
from tests.spark.test_shuffled_compaction import by_job

def stands_still(*_):
    Path(sys.argv[2]).touch()
    time.sleep(600)

job.run_here = stands_still
with session("local[2]", (("spark.driver.extraJavaOptions", QUICK_TO_START),)) as spark:
    by_job(spark, Path(sys.argv[1]))
"""


@LAZILY
def test_a_driver_that_is_killed_before_the_commit(spark, twins):
    command, job = twins
    flag = job.parent / "written"
    root = Path(__file__).resolve().parents[2]
    with subprocess.Popen([sys.executable, "-c", DRIVER, str(job), str(flag)], start_new_session=True, cwd=root,
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as driver:  # fmt: skip
        until = time.monotonic() + 180
        while not flag.exists():
            assert driver.poll() is None
            assert time.monotonic() < until
            time.sleep(0.2)
        os.killpg(driver.pid, signal.SIGKILL)
    assert list(job.glob(f"t-0/{STAGING}/*/*/*.cleaned"))
    assert not list(job.glob("t-0/*.cleaned"))
    by_job(spark, job)
    assert state(job) == by_command(command)
    assert not list(job.glob(f"*/{STAGING}"))


def test_what_can_not_be_cleared_up_is_a_warning(spark, twins, monkeypatch, caplog):
    command, job = twins

    def stands(files, top, **how):
        if top.endswith(STAGING) and files.exists(top):
            raise UnwritableFile(f"{top}: Directory not empty")
        return remove_tree(files, top, **how)

    with monkeypatch.context() as patched:
        patched.setattr("kafkalog_spark.jobs.compact.remove_tree", stands)
        rows = by_job(spark, job)
    assert {row.action for row in rows} == {"recovered", "compacted"}
    assert "is left behind" in caplog.text
    assert {name: data for name, data in state(job).items() if STAGING not in name} == by_command(command)
    by_job(spark, job)
    assert not list(job.glob(f"*/{STAGING}"))


def test_a_log_of_metadata_is_refused_as_by_the_command(spark, tmp_path):
    logs(tmp_path / "d", 3)
    target = tmp_path / "d" / "__cluster_metadata-0"
    (tmp_path / "d" / "t-0").rename(target)
    [row] = compact(spark, str(target), config=CONFIG, options=CompactionOptions(force=True), now=NOW).collect()
    done = kafkalog("compact", "--force", "--format", "json", str(target))
    assert row.action == "refused"
    assert row.reason in done.out.decode()


def test_tasks_whose_job_has_ended_do_nothing(tmp_path):
    def over():
        raise JobIsOver("the job has ended")

    step = shuffling.Step(None, (1, 2), 1000, str(tmp_path), over)
    segment = SegmentToClean(0, 1, 1, 0, ())
    [row] = shuffling._event_rows(step, [segment])
    assert "has ended" in row["problem"]
    assert problem_of_keys(step, segment) == "the job that one of its tasks belongs to has ended"
    with pytest.raises(JobIsOver):
        shuffling._write_group(step, [segment], None, None)
    assert not list(tmp_path.iterdir())


def problem_of_keys(step, segment):
    """What the third step says of a problem that a task of the second one met, whichever way offsets take."""
    digests = pa.Table.from_batches(shuffling._key_batches(step, [(segment, None)])).combine_chunks()
    [last] = digests.select(["at"]).to_batches()
    plan = SimpleNamespace(groups=[[segment]], first_uncleanable_offset=1)
    said = set()
    for found in (shuffling._survivors(last), shuffling._of_column(shuffling._as_column(shuffling._survivors(last)))):
        rows = shuffling._bits([found], plan, [7], 1 << 20)
        [told] = shuffling._write(rows, step._replace(plan=plan), [7])
        said.add(told["problem"])
    [problem] = said
    return problem


def test_problems_of_tasks_that_read_keys_are_told_as_what_they_are(tmp_path):
    write_keyed_log(tmp_path / "t-0", 1, now=NOW)
    log = open_log(Files(), str(tmp_path / "t-0"), LogConfig.of(CONFIG), now=NOW, clean_shutdown=False)
    plan = plan_round(log, 0, log.segments.active_segment.base_offset)
    log.close()
    step = shuffling.Step(plan, (1, 2), 1000, str(tmp_path), lambda: None)
    segment = plan.segments[0]
    assert "have changed since" in problem_of_keys(step, segment._replace(size=segment.size - 1))
    assert "damaged, out of order" in problem_of_keys(step, segment._replace(end_offset=1))


def test_a_wrong_way_is_named(spark, tmp_path):
    with pytest.raises(OptionError, match="shuffle is 'often'"):
        compact(spark, str(tmp_path), shuffle="often")


def test_the_command_takes_memory_and_way(spark, twins):
    command, job = twins
    words = [word for name, value in CONFIG.items() for word in ("--config", f"{name}={value}")]
    arguments = ["spark", "compact", "--force", "--now", str(NOW), *words, "--dedupe-buffer-size", str(TINY), str(job)]
    done = CliRunner().invoke(cli, arguments, standalone_mode=False)
    assert (done.return_value, done.stdout.count(": compacted ")) == (0, 2), done.output
    assert state(job) == by_command(command)
    shutil.rmtree(job)
    logs(job, 3, 4)
    done = CliRunner().invoke(cli, [*arguments, "--shuffle", "never"], standalone_mode=False)
    assert done.stdout.count(": compacted ") > 2
