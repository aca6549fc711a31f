"""Ctrl-C while Python imports: one line and status 130, never a traceback. Each import is interrupted once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# one child for each import that the program makes, up to the child that makes fewer
INTERRUPT_EACH_IMPORT = """
import os, signal, sys
import kafkalog_cli.start

class Interrupting:
    def __init__(self, number):
        self.left = number
    def find_spec(self, name, path=None, target=None):
        self.left -= 1
        if not self.left:
            print("interrupted in", name, flush=True)
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.{before})
sys.argv = ["kafkalog", "dump-log", {path!r}]
for number in range(1, 1000, {step}):
    child = os.fork()
    if not child:
        sys.meta_path.insert(0, Interrupting(number))
        kafkalog_cli.start.main()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print("status", status, flush=True)
    if not status:
        break
"""


def interrupted(path, before="default_int_handler", step=1):
    """(lines on stdout, stderr) of all the children."""
    code = INTERRUPT_EACH_IMPORT.format(path=str(path), before=before, step=step)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), done.stderr


def an_empty_log(directory):
    path = directory / "00000000000000000000.log"
    path.write_bytes(b"")
    return path


def test_every_import_can_be_interrupted(tmp_path):
    said, err = interrupted(an_empty_log(tmp_path), step=3)
    statuses = [line for line in said if line.startswith("status")]
    assert len(statuses) > 20
    assert statuses == ["status 130"] * (len(statuses) - 1) + ["status 0"]
    assert err == "interrupted\n" * (len(statuses) - 1)
    assert any(line.startswith("interrupted in click") for line in said)
    assert any(line.startswith("interrupted in engine.dump") for line in said), "imports of the command, too"


def test_a_signal_that_is_ignored_stays_ignored(tmp_path):
    """A shell script's `kafkalog … &`."""
    said, err = interrupted(an_empty_log(tmp_path), before="SIG_IGN", step=7)
    assert said[0].startswith("interrupted in ")
    assert said[-1] == "status 0"
    assert len([line for line in said if line.startswith("status")]) == 1
    assert err == ""


def test_the_module_runs_as_the_program():
    done = subprocess.run([sys.executable, "-m", "kafkalog_cli", "--version"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("kafkalog ")


@pytest.mark.parametrize(("before", "status"), [("default_int_handler", -signal.SIGINT), ("SIG_IGN", 0)])
def test_its_first_statement_settles_what_an_interrupt_does(before, status):
    code = f"""
import os, signal
signal.signal(signal.SIGINT, signal.{before})
import kafkalog_cli.start
os.kill(os.getpid(), signal.SIGINT)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (status, "")


def test_a_thread_may_import_it():
    code = """
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
with ThreadPoolExecutor() as pool:
    pool.submit(import_module, "kafkalog_cli.start").result()
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_interrupt_at_the_end_does_not_show_either(tmp_path):
    code = f"""
import atexit, os, signal, sys, threading
from kafkalog_cli.start import main
threading._register_atexit(lambda: os.kill(os.getpid(), signal.SIGINT))
sys.argv = ["kafkalog", "dump-log", {str(an_empty_log(tmp_path))!r}]
main()
"""
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (128 + signal.SIGINT, "interrupted\n")


def test_another_package_named_engine_is_one_clear_sentence(tmp_path):
    """Both the program and the Python API; nothing is printed that looks like a defect of kafkalog."""
    (tmp_path / "engine.py").write_text("")
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    words = [sys.executable, "-P", "-c", "from kafkalog_cli.start import main; main()", "--version"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    sentence = f"{tmp_path}/engine.py hides kafkalog's package engine: install kafkalog in an environment of its own, for example with pipx"
    assert (done.stdout, done.stderr, done.returncode) == ("", f"error[foreign-engine] {sentence}\n", 8)
    words = [sys.executable, "-P", "-c", "import kafkalog; kafkalog.ls('x')"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == f"ImportError: {sentence}"
