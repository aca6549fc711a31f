"""One suite over every implementation of the seam: the real one, and the doubles that other tests use."""

from __future__ import annotations

import pytest

from engine.errors import FileChangedWhileReading, LogDirLocked, UnreadableFile, UnwritableFile
from engine.files import Files, ReadOnlyFiles, nameless_file, zeros
from engine.overlay import OverlayFiles
from tests.support.crash_files import CrashFiles
from tests.support.disk_model import Disk
from tests.support.memory_files import MemoryFiles
from tests.support.other_process import is_held

CONTENTS = {"dir/a.log": b"0123456789", "dir/empty": b"", "dir/sub/b": b"x", "dir/ü\n": b"y"}


@pytest.fixture(params=["real", "memory", "crash", "overlay"])
def tree(request, tmp_path):
    """(files, directory that holds CONTENTS)."""
    top = str(tmp_path)
    if request.param == "crash":
        return CrashFiles(Disk({f"{top}/{path}".strip("/"): data for path, data in CONTENTS.items()})), top
    if request.param == "memory":
        return MemoryFiles({f"{top}/{path}": data for path, data in CONTENTS.items()}), top
    for path, data in CONTENTS.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(data)
    return OverlayFiles(ReadOnlyFiles(), now=0) if request.param == "overlay" else ReadOnlyFiles(), top


def test_info_and_list(tree):
    files, top = tree
    assert files.info(f"{top}/dir/a.log")[:3] == (True, False, 10)
    assert files.info(f"{top}/dir")[:2] == (False, True)
    assert files.info(f"{top}/dir/sub/")[:2] == (False, True)
    assert files.list(f"{top}/dir") == ["a.log", "empty", "sub", "ü\n"]
    assert files.resolve(f"{top}/dir/a.log") == f"{top}/dir/a.log"
    assert files.absolute("x/../y").endswith("/x/../y")
    assert files.absolute("/x/../y") == "/x/../y"
    assert files.exists(f"{top}/dir/empty")
    assert files.exists(f"{top}/dir")
    assert not files.exists(f"{top}/dir/none")
    assert not files.exists(f"{top}/nul\0byte")


@pytest.mark.parametrize("call", ["info", "list", "resolve", "open"])
@pytest.mark.parametrize("name", ["none", "none/below", "a.log/below", "nul\0byte", ""])
def test_what_is_not_there(tree, call, name):
    files, top = tree
    if call == "resolve" and not name:
        return  # os.path.realpath takes it for the working directory; everybody asks `info` before
    path = f"{top}/dir/{name}" if name else ""
    with pytest.raises(UnreadableFile) as caught:
        getattr(files, call)(path)
    assert path in str(caught.value)


def test_a_directory_is_no_file(tree):
    files, top = tree
    with pytest.raises(UnreadableFile, match="a directory, not a file"):
        files.open(f"{top}/dir")
    with pytest.raises(UnreadableFile, match="a directory, not a file"):
        files.read(f"{top}/dir", 10)


def test_reads_end_at_the_end(tree):
    files, top = tree
    with files.open(f"{top}/dir/a.log") as file:
        assert file.size() == 10
        assert file.read(0, 4) == b"0123"
        assert file.read(8, 100) == b"89"
        assert file.read(10, 1) == file.read(11, 5) == file.read(3, 0) == b""
        buffer = bytearray(b"--------")
        assert file.read_into(memoryview(buffer), 6) == 4
        assert buffer == b"6789----"
        assert file.read_into(memoryview(buffer), 2**40) == 0
        file.close()


def test_small_files_have_a_limit(tree):
    files, top = tree
    assert files.read(f"{top}/dir/a.log", 10) == b"0123456789"
    assert files.read(f"{top}/dir/empty", 0) == b""
    with pytest.raises(UnreadableFile, match="10 bytes, more than the 9"):
        files.read(f"{top}/dir/a.log", 9)


def test_bytes_go_to_another_file(tree, tmp_path):
    files, top = tree
    with files.open(f"{top}/dir/a.log") as file:
        if not hasattr(file, "send"):
            pytest.skip("a double for reading into memory")
        for flags in ("wb", "ab"):  # the operating system does not send to a file that is opened for appending
            with open(tmp_path / "out", flags) as out:
                file.send(out.fileno(), 2, 5)
                file.send(out.fileno(), 0, 0)
        with open(tmp_path / "out", "ab") as out, pytest.raises(FileChangedWhileReading):
            file.send(out.fileno(), 8, 5)
    assert (tmp_path / "out").read_bytes()[:10] == b"2345623456"


def test_a_file_without_a_name_takes_bytes_and_is_nowhere(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with nameless_file() as file:
        file.write_at(0, b"12", b"345")
        assert file.read(1, 3) == b"234"
        assert file.size() == 5
        assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(UnwritableFile, match=r"a temporary file in .*nowhere: No such file or directory"):
        nameless_file()


def test_zeros_are_memory_of_ones_own():
    memory = zeros(1 << 20)
    assert not any(memory)
    memory.cast("Q")[3] = 7
    assert sum(memory) == 7
    assert not any(zeros(1 << 20))
    with pytest.raises(MemoryError):
        zeros(1 << 62)


def test_a_lock_that_this_process_holds_is_locked_to_it_as_to_others(tmp_path):
    """POSIX's own locks know processes only, and the second one that is let go takes the first with it."""
    path = str(tmp_path / ".lock")
    first = Files().lock(path)
    for _ in range(2):
        with pytest.raises(LogDirLocked, match="this process already holds the lock"):
            Files().lock(path)
    assert is_held(path)
    first.release()
    first.release()
    second = Files().lock(path)
    assert is_held(path)
    second.release()
