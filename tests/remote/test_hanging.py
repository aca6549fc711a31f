"""Ctrl-C while a store does not answer: a server that takes connections, and says nothing."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys

import pytest

from engine.background import Request, answer, checked
from tests.remote.corpus import OWN_ONLY, TOP

LAYOUT = ("--store", "s3://bucket", "--layout", "local", "--key-prefix", "kafka-tiered-storage/")
D0, D1 = TOP / "clean/d0", TOP / "clean/d1"
COMMANDS = (
    ("fetch", "s3://bucket/x-0"), ("dump-log", "s3://bucket/x-0"), ("verify", "s3://bucket/x-0"), ("remote", "list", "s3://bucket/d0"),
    ("fetch", *LAYOUT, "--log-dir", D1, D0 / "plain-0"), ("verify", *LAYOUT, "--jobs", "2", "--log-dir", D1, D0),
    ("remote", "verify", "--store", "s3://bucket", D0, D1), ("remote", "upload", "--store", "s3://bucket", "LOGDIR"),
    ("remote", "restore", "plain", "--store", "s3://bucket", "--into", "LOGDIR"),
)  # fmt: skip


@OWN_ONLY
@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words[:2]))
def test_ctrl_c_ends_a_command_that_waits_for_a_store(words, tmp_path):
    pytest.importorskip("obstore")
    if "LOGDIR" in words:
        (tmp_path / "d").mkdir()
        for name in ("meta.properties", "bootstrap.checkpoint"):
            shutil.copy(D0 / name, tmp_path / "d")
        if "upload" in words:
            shutil.copytree(D0, tmp_path / "d", dirs_exist_ok=True)
    words = [str(tmp_path / "d") if word == "LOGDIR" else str(word) for word in words]
    with socket.create_server(("127.0.0.1", 0)) as server:
        environment = {
            **os.environ, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.getsockname()[1]}", "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "r",
        }  # fmt: skip
        program = [sys.executable, "-m", "kafkalog_cli", *words]
        with subprocess.Popen(program, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            try:
                server.settimeout(60)
                connection, _ = server.accept()  # it waits for an answer from now on
                with connection:
                    connection.recv(1)
                    process.send_signal(signal.SIGINT)
                    err = process.communicate(timeout=10)[1]  # the client gives up after 30 s, and tries again
            finally:
                process.kill()
    assert (process.returncode, "interrupted" in err, "Traceback" in err) == (130, True, False), err


def test_what_a_request_raises_is_raised_to_its_owner():
    with pytest.raises(ZeroDivisionError):
        answer(lambda: 1 // 0)
    assert answer(lambda: answer(lambda: 7)) == 7


def test_a_check_ends_the_wait():
    def check():
        raise InterruptedError

    reading, writing = os.pipe()
    try:
        with pytest.raises(InterruptedError), checked(check):
            answer(lambda: os.read(reading, 1))
        os.write(writing, b"xy")
        assert Request(lambda: os.read(reading, 1)).result() in (b"x", b"y")
    finally:
        os.close(writing)
