"""An overlay behaves like the disk, and the disk keeps what it had."""

from __future__ import annotations

import inspect
import tempfile
from pathlib import Path

import pytest
from hypothesis import given

from engine.errors import UnreadableFile, UnwritableFile
from engine.files import Files, OpenFile, ReadOnlyFiles, WritableFile
from engine.overlay import Operation, OverlayFile, OverlayFiles
from tests.support.file_work import do_work, make_tree, tree, works

NOW = 1_700_000_000_000


@pytest.fixture
def overlay(tmp_path):
    make_tree(tmp_path)
    return OverlayFiles(ReadOnlyFiles(), NOW), str(tmp_path)


@given(works)
def test_an_overlay_does_what_the_disk_does(steps):
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        make_tree(Path(first))
        make_tree(Path(second))
        before = tree(ReadOnlyFiles(), second)
        overlay = OverlayFiles(ReadOnlyFiles(), NOW)
        assert do_work(overlay, second, steps) == do_work(Files(), first, steps)
        assert tree(overlay, second) == tree(ReadOnlyFiles(), first)
        assert tree(ReadOnlyFiles(), second) == before


def test_nothing_of_the_seam_gets_past_the_overlay():
    for ours, theirs in ((OverlayFiles, Files), (OverlayFile, WritableFile)):
        passed = {
            name
            for base in (theirs, *theirs.__mro__)
            for name, _method in inspect.getmembers(base, inspect.isfunction)
            if not name.startswith("_") and getattr(ours, name) is getattr(theirs, name)
        }
        assert passed <= {"duplicate", "needs_requests", "next_data", "read", "read_exactly", "send"}  # no file or holes, or made of `size`, `read_into`


def test_cutting_and_zeros_take_no_memory(overlay):
    files, top = overlay
    with files.open_writable(f"{top}/a") as file:
        file.truncate(1 << 50)
        file.write_at((1 << 50) - 1, b"z")
        assert file.size() == 1 << 50
        assert file.read(95, 10) == b"56789" + bytes(5)
        assert file.read((1 << 50) - 3, 10) == b"\0\0z"
        file.truncate(20)
        assert file.read(0, 100) == b"01234567890123456789"


def test_a_copy_refers_to_the_source(overlay):
    files, top = overlay
    with files.open(f"{top}/a") as source, files.open_writable(f"{top}/c", create=True) as target:
        files.copy(source, 10, 95, target, 5)
        with pytest.raises(UnreadableFile, match="became shorter"):
            files.copy(source, 50, 101, target, 0)
    files.remove(f"{top}/a")
    assert files.read(f"{top}/c", 1000) == bytes(5) + b"0123456789" * 8 + b"01234"
    assert (Path(top) / "a").read_bytes() == b"0123456789" * 10


def test_a_directory_takes_its_files_along(overlay):
    files, top = overlay
    files.open_writable(f"{top}/d/new", create=True).close()
    files.rename(f"{top}/d", f"{top}/d.1-stray")
    assert files.list(top) == ["a", "b", "d.1-stray"]
    assert files.list(f"{top}/d.1-stray") == ["a", "b", "e", "new"]
    assert files.read(f"{top}/d.1-stray/e/f", 10) == b"deep"
    assert not files.exists(f"{top}/d/e/f")
    assert files.resolve(f"{top}/d.1-stray/e/f") == f"{top}/d.1-stray/e/f"
    with pytest.raises(UnreadableFile, match="No such file"):
        files.open(f"{top}/d/a")


def test_operations_are_kept_and_long_writes_are_one(overlay):
    files, top = overlay
    with files.open_writable(f"{top}/b") as file:
        for at in range(0, 1000, 10):
            file.write_at(at, b"0123456789")
        file.sync()
        file.write_at(1000, b"x")
    files.rename(f"{top}/b", f"{top}/c")
    assert files.operations == [
        Operation("write", f"{top}/b", position=0, size=1000),
        Operation("sync", f"{top}/b"),
        Operation("write", f"{top}/b", position=1000, size=1),
        Operation("rename", f"{top}/b", f"{top}/c"),
    ]


def test_times(overlay):
    files, top = overlay
    before = ReadOnlyFiles().info(f"{top}/a").modified_ms
    files.rename(f"{top}/a", f"{top}/c")
    assert files.info(f"{top}/c").modified_ms == before
    with files.open_writable(f"{top}/c") as file:
        file.truncate(1)
    assert files.info(f"{top}/c").modified_ms == NOW
    files.set_modified(f"{top}/d/a", 5)
    assert files.info(f"{top}/d/a")[:4] == (True, False, 5000, 5)


def test_links_and_handles_for_reading_are_not_written_through(overlay):
    files, top = overlay
    (Path(top) / "link").symlink_to("a")
    with pytest.raises(UnwritableFile, match="symbolic links"):
        files.open_writable(f"{top}/link")
    assert files.read(f"{top}/link", 1000) == b"0123456789" * 10
    with files.open(f"{top}/a") as file:
        assert isinstance(file, OpenFile)
        with pytest.raises(UnwritableFile, match="Bad file descriptor"):
            file.write_at(0, b"x")


def test_an_open_file_outlives_its_name(overlay):
    files, top = overlay
    with files.open(f"{top}/a") as file:
        files.remove(f"{top}/a")
        files.open_writable(f"{top}/a", create=True).close()
        assert file.read(0, 4) == b"0123"
        assert files.read(f"{top}/a", 10) == b""


def test_no_lock_is_taken(overlay):
    files, top = overlay
    files.lock(f"{top}/.lock").release()
    assert not Path(top, ".lock").exists()
