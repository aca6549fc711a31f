"""Signals within `kafkalog spark`: one line, the usual status, nobody left behind, nothing half done to be seen.

Nothing here waits for a time: a task says through a pipe that it runs, and waits for an answer that never comes.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path
from types import SimpleNamespace

import pytest

from engine.discovery.paths import STAGING
from kafkalog_cli import spark_session
from kafkalog_spark.errors import OptionError
from tests.spark.conftest import QUICK_TO_START, missing
from tests.support.needs import lacking

pytestmark = pytest.mark.xdist_group("spark elsewhere")  # processes of their own: beside the session of the others
ROOT = Path(__file__).resolve().parents[2]
LIMIT = 600  # seconds that a machine which does much else may take
MARK = "KAFKALOG_TEST_MARK"
PROGRAM = """
import os, signal, sys, time
from pathlib import Path
import pyspark.java_gateway
from kafkalog_cli.commands.spark import stats, verify
from kafkalog_cli.start import main

begun, never, where = sys.argv[1:4]

def stands_still(batches, staged=None):
    for batch in batches:
        yield batch
        while staged is not None and not list(Path(staged).glob(".kafkalog-staging/*/[0-9]*-*")):
            time.sleep(0.1)  # the sink's task begins beside this one
        with open(begun, "w") as pipe:
            pipe.write("x")
        with open(never) as pipe:
            pipe.read()

def reads(session, outcome, values):
    rows = session.range(0, 4, 1, 2).mapInArrow(stands_still, "id long")
    return len(rows.collect())

def writes(session, outcome, values):
    rows = session.range(0, 4, 1, 2).selectExpr("cast(id as string) value", "'t' topic", "0 partition")
    slow = rows.mapInArrow(lambda batches: stands_still(batches, values["paths"][0]), rows.schema)
    slow.write.format("kafkalog").mode("append").save(values["paths"][0])

launch = pyspark.java_gateway.launch_gateway

def launched(*arguments):
    made = launch(*arguments)
    if where == "start":
        os.kill(os.getpid(), signal.SIGINT)
    return made

pyspark.java_gateway.launch_gateway = launched
stats.work, verify.work = reads, writes
sys.argv = ["kafkalog", "spark", *sys.argv[4:]]
main()
"""

DIES_ONCE = """
import os, signal, sys
from pathlib import Path
from kafkalog_cli.commands.spark import stats
from kafkalog_cli.start import main

was_here = Path(sys.argv[1])

def dies_once(batches):
    if not was_here.exists():
        was_here.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    yield from batches

stats.work = lambda session, *given: len(session.range(0, 4, 1, 1).mapInArrow(dies_once, "id long").collect())
sys.argv = ["kafkalog", "spark", "stats", "."]
main()
"""


def test_a_worker_that_was_killed_is_done_again(tmp_path):
    """By the system, for want of memory, say: of ten thousand partitions it must not end the work on all others."""
    if gone := missing():
        lacking(f"this needs {', '.join(gone)}: not found")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "SPARK_SUBMIT_OPTS": QUICK_TO_START}
    environment.pop("PYSPARK_GATEWAY_PORT", None)
    done = subprocess.run(
        [sys.executable, "-c", DIES_ONCE, str(tmp_path / "was-here")], cwd=tmp_path, env=environment, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (4, "", "")
    assert (tmp_path / "was-here").exists()


@pytest.fixture
def begin(tmp_path):
    """begin(job, where) → (the process, once a task of it stands still, and its mark)."""
    if gone := missing():
        lacking(f"this needs {', '.join(gone)}: not found")
    mark = uuid.uuid4().hex
    environment = {**os.environ, "PYTHONPATH": str(ROOT), MARK: mark, "SPARK_SUBMIT_OPTS": QUICK_TO_START}
    environment.pop("PYSPARK_GATEWAY_PORT", None)
    for name in ("begun", "never"):
        os.mkfifo(tmp_path / name)
    (tmp_path / "logs").mkdir()

    def begin(job, where="task"):
        pipes = [str(tmp_path / "begun"), str(tmp_path / "never")]
        command = [sys.executable, "-c", PROGRAM, *pipes, where, job, str(tmp_path / "logs"), "--master", "local[2]"]
        process = subprocess.Popen(
            command, cwd=tmp_path, env=environment, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        if where == "task":
            with (tmp_path / "begun").open() as pipe:  # waits until a task opens it too
                assert pipe.read(1) == "x"
        return process

    yield begin, mark
    for one in alive(mark):
        os.kill(one, signal.SIGKILL)


def alive(mark):
    """The processes that were started with it in their environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"{MARK}={mark}".encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


needs_proc = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks for processes in /proc")


@needs_proc
def test_a_job_that_is_terminated_says_so_and_no_more(begin):
    start, mark = begin
    process = start("stats")
    assert len(alive(mark)) > 1
    os.kill(process.pid, signal.SIGTERM)  # as `kill` does
    out, err = process.communicate(timeout=LIMIT)
    assert (process.returncode, out, err) == (143, "", "interrupted by SIGTERM: stats was cancelled\n")
    assert alive(mark) == []


@needs_proc
def test_a_sink_that_is_interrupted_leaves_nothing(begin, tmp_path):
    start, mark = begin
    process = start("verify")
    assert len(alive(mark)) > 1
    assert list((tmp_path / "logs").glob(f"{STAGING}/*/*"))
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    out, err = process.communicate(timeout=LIMIT)
    assert (process.returncode, out, err) == (130, "", "interrupted by SIGINT: verify was cancelled\n")
    assert alive(mark) == []
    assert [path.name for path in (tmp_path / "logs").iterdir()] in ([], [".lock"])


@needs_proc
def test_an_interrupt_while_java_starts(begin):
    start, mark = begin
    process = start("stats", "start")
    out, err = process.communicate(timeout=LIMIT)
    assert (process.returncode, out, err) == (130, "", "interrupted by SIGINT: stats was cancelled\n")
    while alive(mark):  # Java sees that nobody can ask any more; here the limit is that of the test run
        pass


@pytest.mark.parametrize(("status", "said"), [
    (53, "no Spark session: none of its scratch directories is writable"), (None, "no Spark session: Connection refused"),
])  # fmt: skip
def test_java_that_ends_at_once_says_why_by_its_status(status, said, monkeypatch):
    """Spark leaves without a word where it can write in no `spark.local.dir`."""
    handed_on = []
    java = SimpleNamespace(exit_status=lambda: status, forward=lambda: handed_on.append(1))

    def fail(_master, _settings, started):
        started.append(java)
        raise ConnectionRefusedError("Connection refused")

    monkeypatch.setattr(spark_session, "known_session", lambda: None)
    monkeypatch.setattr(spark_session, "_open", fail)
    with pytest.raises(OptionError, match=said), spark_session.session("local[1]"):
        pass
    assert bool(handed_on) is (status is None), "what it warned of is none of the user's business"
