"""A bar on a terminal, with rate and time left, where much is read; nothing elsewhere."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest

from tests.support.terminal import all_said

_LARGE = 80 << 20  # bytes of zeros that take no space


@pytest.fixture
def partition(tmp_path):
    directory = tmp_path / "orders-0"
    directory.mkdir()
    with (directory / "00000000000000000000.log").open("wb") as log:
        log.truncate(_LARGE)
    return directory


def stderr_of(command, *, terminal):
    master, slave = pty.openpty()
    words = [sys.executable, "-m", "kafkalog_cli", *command]
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env={**os.environ, "TERM": "xterm"},
                               stderr=slave if terminal else subprocess.PIPE)  # fmt: skip
    os.close(slave)
    seen = all_said(master)  # of a process without the terminal nothing
    return (seen + (process.communicate()[1] or b"")).decode()


COMMANDS = (("verify",), ("recover", "--dry-run"))


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_a_terminal_shows_how_far_it_is(partition, command):
    said = stderr_of([*command, str(partition)], terminal=True)
    assert "reading logs" in said
    assert "MB/s" in said or "?" in said
    assert ":" in said.partition("reading logs")[2]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_a_file_shows_nothing_of_it(partition, command):
    assert "reading logs" not in stderr_of([*command, str(partition)], terminal=False)
