"""Ctrl-C within a session of ours: one line and the usual status, whatever pyspark, py4j and Java make of it."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kafkalog_spark.session import _heed, _is_news
from tests.spark.conftest import missing

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 300  # seconds, on a machine that does much else
PROGRAM = """
import sys, time
from kafkalog_spark.session import session
signal = __import__("signal")
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # as the command line has it
try:
    with session("local[1]") as spark:
        def slow(batches):
            print("begun", flush=True)
            time.sleep(600)
            yield from batches
        print("begun", flush=True)
        spark.range(2).mapInArrow(slow, "id long").collect()
except KeyboardInterrupt:
    sys.stderr.write("interrupted")
    sys.exit(130)
"""


@pytest.mark.xdist_group("spark elsewhere")
def test_a_job_that_is_interrupted_says_so_and_no_more(tmp_path):
    if (gone := missing()) and os.environ.get("CI") != "true":
        pytest.skip(f"this needs {', '.join(gone)}: not found")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable}
    environment.pop("PYSPARK_GATEWAY_PORT", None)
    with (tmp_path / "err").open("w") as err:
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM], cwd=tmp_path, env=environment, start_new_session=True, stdout=subprocess.PIPE, stderr=err
        )
        assert process.stdout.readline() == b"begun\n"
        time.sleep(8)  # the job runs, or is about to
        os.killpg(process.pid, signal.SIGINT)
        process.stdout.close()
        assert process.wait(LIMIT) == 130
    said = (tmp_path / "err").read_text()
    assert "Traceback" not in said
    assert "Exception" not in said
    assert said.endswith("interrupted")


def test_the_handler_that_was_there_comes_back():
    before = signal.getsignal(signal.SIGINT)
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # as pyspark would, with one of its own
        _heed(before)
        assert signal.getsignal(signal.SIGINT) is before
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(("said", "is_told"), [("KeyboardInterrupt while sending command.", False), ("no space", True)])
def test_what_py4j_raises_as_well_is_not_logged(said, is_told):
    assert _is_news(logging.LogRecord("root", logging.ERROR, "", 1, said, None, None)) is is_told
