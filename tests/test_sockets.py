"""Bytes of a file go to a socket completely and once, whichever calls the operating system refuses."""

from __future__ import annotations

import errno
import os
import random
import socket
from threading import Thread

import pytest

from engine.errors import FileChangedWhileReading
from engine.files import ReadOnlyFiles, open_file

SIZE = (2 << 20) + 4321


@pytest.fixture(scope="module")
def content():
    return random.Random(3).randbytes(SIZE)


@pytest.fixture
def file(tmp_path, content):
    (tmp_path / "log").write_bytes(content)
    with ReadOnlyFiles().open(str(tmp_path / "log")) as file:
        yield file


def received(file, position, size, family=socket.AF_INET):
    """What comes out of a socket; `error`: what the sender raised."""
    if family == socket.AF_INET:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            reader = socket.create_connection(listening.getsockname())
            writer = listening.accept()[0]
    else:
        reader, writer = socket.socketpair()
    error = []

    def send():
        try:
            file.send(writer.fileno(), position, size)
        except FileChangedWhileReading as found:
            error.append(found)
        finally:
            writer.close()

    thread = Thread(target=send)
    thread.start()
    with reader, reader.makefile("rb") as stream:
        data = stream.read()
    thread.join()
    return data, error


def descriptors():
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_UNIX])
@pytest.mark.parametrize(("position", "size"), [
    (0, SIZE), (1, 1), (7, open_file._PIPE - 1), (7, open_file._PIPE), (4095, open_file._PIPE + 1), (123, SIZE - 123),
])  # fmt: skip
def test_all_bytes_arrive(file, content, position, size, family):
    before = descriptors()
    assert received(file, position, size, family) == (content[position : position + size], [])
    assert descriptors() == before


def test_a_file_that_became_shorter_is_an_error(file, content):
    data, [error] = received(file, 100, SIZE)
    assert (data, error.code) == (content[100:], FileChangedWhileReading.code)


def refused(call, number):
    """An operation of the operating system that is refused from one of its calls on."""
    calls = iter(range(1 << 30))

    def refusing(*words, **named):
        if next(calls) >= number:
            raise OSError(errno.EINVAL, "Invalid argument")
        return call(*words, **named)

    return refusing


@pytest.mark.parametrize("number", range(8))
def test_what_a_pipe_did_not_pass_is_sent_without_it(file, content, monkeypatch, number):
    monkeypatch.setattr(os, "splice", refused(os.splice, number))
    assert received(file, 5, SIZE - 5) == (content[5:], [])
    monkeypatch.setattr(os, "sendfile", refused(os.sendfile, 0))
    assert received(file, 5, SIZE - 5) == (content[5:], [])


@pytest.mark.parametrize(("call", "error"), [("pipe", errno.EMFILE), ("fcntl", errno.EPERM)])
def test_a_user_who_may_have_no_pipe_gets_all_bytes(file, content, monkeypatch, call, error):
    def refuse(*_words):
        raise OSError(error, "not now")

    monkeypatch.setattr(os if call == "pipe" else open_file.fcntl, call, refuse)
    monkeypatch.setattr(os, "splice", None)
    before = descriptors()
    assert received(file, 0, SIZE) == (content, [])
    assert descriptors() == before


def test_a_reader_that_leaves_ends_it(file):
    reader, writer = socket.socketpair()
    before = descriptors()
    reader.close()
    with writer, pytest.raises(BrokenPipeError):
        file.send(writer.fileno(), 0, SIZE)
    assert descriptors() == before - 2
