"""Two processes on one log dir: one works, the other is refused and changes nothing; what disappears meanwhile is said."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from engine.files import ReadOnlyFiles
from tests.support.file_work import tree
from tests.support.run import kafkalog

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
NOW = "1700681300000"

# recovers, and says so and waits when it has opened the first log
RECOVER_SLOWLY = """
import sys
from kafkalog_cli.main import main
from engine.log.loading import loader
import engine.log.logdir.log_manager as manager
open_log = manager.open_log

def waiting(*arguments, **settings):
    print("in work", flush=True)
    sys.stdin.readline()
    return open_log(*arguments, **settings)

manager.open_log = waiting
main(sys.argv[1:])
"""


def started(code, *words):
    return subprocess.Popen([sys.executable, *code, *words], env=ENVIRONMENT, text=True, stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip


@pytest.fixture
def log_dir(own_corpus, tmp_path):
    (tmp_path / "data").mkdir()
    for name in ("d0/u-rolls-0", "d1/u-plain-0"):
        shutil.copytree(own_corpus / "kafka-4.3.1/logs/unclean" / name, tmp_path / "data" / name[3:])
    shutil.copy(own_corpus / "kafka-4.3.1/logs/unclean/d1/meta.properties", tmp_path / "data")
    return tmp_path / "data"


OTHERS = {
    "append": ["append", "--input-format", "text", "--input", os.devnull],
    "recover": ["recover", "--now", NOW],
    "roll": ["roll"],
}


@pytest.mark.parametrize("other", OTHERS)
def test_recover_keeps_others_out(log_dir, other):
    partition = str(log_dir / "u-rolls-0")
    with started(["-c", RECOVER_SLOWLY], "recover", "--no-quarantine", "--now", NOW, "--jobs", "1", partition) as first:
        assert first.stdout.readline() == "in work\n"
        before = tree(ReadOnlyFiles(), str(log_dir))
        done = subprocess.run([sys.executable, "-m", "kafkalog_cli", *OTHERS[other], partition], env=ENVIRONMENT,
                              capture_output=True, text=True, check=False)  # fmt: skip
        assert (done.returncode, "error[log-dir-locked]" in done.stderr) == (8, True), done.stderr
        assert tree(ReadOnlyFiles(), str(log_dir)) == before
        first.communicate("\n" * 9)
    assert first.returncode in (0, 1)
    assert kafkalog(*OTHERS[other], partition).status in (0, 1)


@pytest.mark.parametrize("other", ["append", "recover"])
def test_append_keeps_others_out(tmp_path, other):
    words = ["append", "--create", "--input-format", "text", "--flush-messages", "1", "--batch-size", "1", str(tmp_path / "t-0")]
    with started(["-m", "kafkalog_cli"], *words) as first:
        first.stdin.write("a\n")
        first.stdin.flush()
        assert "offset 0 (" in first.stdout.readline()
        done = subprocess.run([sys.executable, "-m", "kafkalog_cli", *OTHERS[other], str(tmp_path / "t-0")], env=ENVIRONMENT,
                              capture_output=True, text=True, check=False)  # fmt: skip
        assert (done.returncode, "error[log-dir-locked]" in done.stderr) == (8, True), done.stderr
        out, _ = first.communicate("b\n")
    assert (first.returncode, "offsets 0 to 1 in" in out) == (0, True)


def test_a_partition_that_disappears_is_named_and_the_others_are_done(log_dir):
    with started(["-c", RECOVER_SLOWLY], "recover", "--no-quarantine", "--now", NOW, "--jobs", "1", str(log_dir)) as first:
        assert first.stdout.readline() == "in work\n"
        shutil.rmtree(log_dir / "u-plain-0")
        out, err = first.communicate("\n" * 9)
    assert first.returncode == 8, err
    assert "u-plain-0" in err
    assert "Traceback" not in err
    assert "u-rolls-0: offsets 0 to " in out
    assert "1 of 2 partitions done; not done: u-plain-0" in err
