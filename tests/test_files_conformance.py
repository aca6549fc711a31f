"""One suite over every implementation of the writing seam: the real one, and the doubles that other tests use."""

from __future__ import annotations

import errno
import os
from types import SimpleNamespace

import pytest

import engine.files.interface
from engine.errors import KafkalogError, LogDirLocked, UnreadableFile, UnwritableFile
from engine.files import Files, OpenFile, ReadOnlyFiles, WritableFile, remove_tree, replace
from engine.files.layered import UnchangedFiles
from engine.overlay import OverlayFiles
from tests.support.crash_files import CrashFiles, PowerCut, StartProblem, WritableCrashFile, cut, run
from tests.support.disk_model import Disk, Keep
from tests.support.shifted_files import ShiftedFiles


def make(name, tmp_path):
    if name == "crash":
        return CrashFiles(Disk({}, frozenset({"top"}))), "/top"
    if name == "overlay":
        return OverlayFiles(Files(), now=0), str(tmp_path)
    if name == "overlay-crash":
        return OverlayFiles(CrashFiles(Disk({}, frozenset({"top"}))), now=0), "/top"
    if name == "released":
        files = UnchangedFiles(Files())
        files.release()
        return files, str(tmp_path)
    return {"real": Files, "shifted": ShiftedFiles}[name](), str(tmp_path)


@pytest.fixture(params=["real", "crash", "shifted", "overlay", "overlay-crash", "released"])
def seam(request, tmp_path):
    """(files, an empty directory)."""
    return make(request.param, tmp_path)


def contents(files, path):
    return files.read(path, 1 << 20)


def put(files, path, data):
    with files.open_writable(path, create=True) as file:
        file.write_at(0, data)


def test_the_room_of_a_disk(seam):
    files, top = seam
    assert files.space(top).free >= 0
    with pytest.raises(UnreadableFile, match="nothing"):
        files.space(f"{top}/nothing")


def test_the_room_is_what_is_left_for_users(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "statvfs", lambda _path: SimpleNamespace(f_frsize=512, f_bavail=3, f_bfree=9, f_blocks=20, f_bsize=4096, f_flag=1))
    for name in ("real", "overlay", "released"):
        files, top = make(name, tmp_path)
        assert files.space(top) == (os.stat(top).st_dev, 1536, 10240, True)


def test_what_is_written_can_be_read(seam):
    files, top = seam
    with files.open_writable(f"{top}/a", create=True) as file:
        assert file.size() == 0
        file.write_at(0, b"one", b"", memoryview(b"two"), bytearray(b"3"))
        file.write_at(10, b"x")
        assert file.read(0, 20) == b"onetwo3\0\0\0x"
        file.write_at(1, b"NE")
        file.write_at(5)
        file.sync()
        assert file.size() == 11
    assert contents(files, f"{top}/a") == b"oNEtwo3\0\0\0x"
    assert files.info(f"{top}/a")[:3] == (True, False, 11)
    with files.open_writable(f"{top}/a", create=True) as file:
        assert file.read(0, 3) == b"oNE"


def test_plain_files_of_a_directory(seam):
    files, top = seam
    for name in ("c", "a", "gone"):
        put(files, f"{top}/{name}", b"x")
    files.make_directory(f"{top}/directory")
    files.rename(f"{top}/c", f"{top}/b")
    files.remove(f"{top}/gone")
    assert files.plain(top) == ["a", "b"]
    assert files.plain(f"{top}/directory") == []
    with pytest.raises(UnreadableFile, match="No such file"):
        files.plain(f"{top}/missing")
    with pytest.raises(UnreadableFile, match="Not a directory"):
        files.plain(f"{top}/a")


@pytest.mark.parametrize("make_seam", [Files, lambda: OverlayFiles(Files(), now=0)])
def test_links_are_plain_where_they_lead_to_a_file(tmp_path, make_seam):
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "directory").mkdir()
    for name, to in {"link": "file", "nowhere": "missing", "circle": "circle", "to-directory": "directory"}.items():
        (tmp_path / name).symlink_to(to)
    os.mkfifo(tmp_path / "fifo")
    files = make_seam()
    assert files.plain(str(tmp_path)) == ["file", "link"]
    files.rename(f"{tmp_path}/link", f"{tmp_path}/renamed")
    assert files.plain(str(tmp_path)) == ["file", "renamed"]


def test_truncate_cuts_and_lengthens_with_zeros(seam):
    files, top = seam
    with files.open_writable(f"{top}/a", create=True) as file:
        file.write_at(0, b"123456")
        file.truncate(2)
        assert (file.size(), file.read(0, 9)) == (2, b"12")
        file.truncate(5)
        assert (file.size(), file.read(0, 9)) == (5, b"12\0\0\0")
        for wrong in (-1, -(2**40)):
            with pytest.raises(UnwritableFile, match="Invalid argument"):
                file.truncate(wrong)
            with pytest.raises(UnwritableFile, match="Invalid argument"):
                file.write_at(wrong, b"x")
            with pytest.raises(UnreadableFile, match="Invalid argument"):
                file.read_into(memoryview(bytearray(1)), wrong)


def test_many_parts_at_once(seam):
    files, top = seam
    parts = [bytes([number % 256]) * (number % 3) for number in range(5000)]
    put(files, f"{top}/a", b"")
    with files.open_writable(f"{top}/a") as file:
        file.write_at(3, *parts)
    assert contents(files, f"{top}/a") == b"\0\0\0" + b"".join(parts)


def test_rename_replaces_files_and_moves_directories(seam):
    files, top = seam
    put(files, f"{top}/a", b"a")
    put(files, f"{top}/b", b"b")
    with files.open(f"{top}/b") as held:
        with pytest.raises(UnwritableFile, match="already exists"):
            files.rename(f"{top}/a", f"{top}/b")
        assert (files.list(top), contents(files, f"{top}/b")) == (["a", "b"], b"b")
        files.rename(f"{top}/a", f"{top}/b", replaces=True)
        assert held.read(0, 9) == b"b"
    assert files.list(top) == ["b"]
    assert contents(files, f"{top}/b") == b"a"
    files.rename(f"{top}/b", f"{top}/b")
    assert files.list(top) == ["b"]
    files.make_directory(f"{top}/from")
    files.make_directory(f"{top}/to")
    put(files, f"{top}/from/x", b"x")
    files.rename(f"{top}/from", f"{top}/to")
    files.rename(f"{top}/to/x", f"{top}/y")
    assert files.list(top) == ["b", "to", "y"]
    assert files.list(f"{top}/to") == []


@pytest.mark.parametrize(
    ("call", "arguments", "word"),
    [
        ("rename", ("none", "x"), "No such file"),
        ("rename", ("file", "dir"), "Is a directory"),
        ("rename", ("dir", "file"), "Not a directory"),
        ("rename", ("file", "none/x"), "No such file"),
        ("rename", ("empty", "dir"), "not empty"),
        ("open_writable", ("none",), "No such file"),
        ("open_writable", ("dir",), "irectory"),
        ("open_writable", ("none/x",), "No such file"),
        ("open_writable", ("file/x",), "Not a directory"),
        ("open_writable", ("nul\0byte",), "null byte"),
        ("make_directory", ("none/x",), "No such file"),
        ("make_directory", ("file",), "File exists"),
        ("remove_directory", ("none",), "No such file"),
        ("remove_directory", ("dir",), "not empty"),
        ("remove_directory", ("file",), "Not a directory"),
        ("remove", ("dir",), "Is a directory"),
        ("remove", ("file/x",), "Not a directory"),
        ("sync_directory", ("none",), "No such file"),
        ("sync_directory", ("file",), "Not a directory"),
        ("set_modified", ("none", 1), "No such file"),
        ("lock", ("none/.lock",), "No such file"),
    ],
)
def test_what_can_not_be_done(seam, call, arguments, word):
    files, top = seam
    overlay = isinstance(files, OverlayFiles)
    if overlay and (call == "lock" or arguments == ("file/x",)):
        return  # it locks nothing, and takes what lies below a file for missing
    files.make_directory(f"{top}/dir")
    files.make_directory(f"{top}/empty")
    put(files, f"{top}/file", b"file")
    put(files, f"{top}/dir/inside", b"inside")
    before = files.list(top)
    with pytest.raises(UnwritableFile, match=None if overlay else word) as caught:
        getattr(files, call)(*(f"{top}/{word}" if isinstance(word, str) else word for word in arguments))
    assert f"{top}/{arguments[0]}" in str(caught.value)
    assert files.list(top) == before


def test_remove_and_make_twice(seam):
    files, top = seam
    put(files, f"{top}/a", b"a")
    files.make_directory(f"{top}/d")
    files.make_directory(f"{top}/d")
    with files.open(f"{top}/a") as held:
        files.remove(f"{top}/a")
        assert held.read(0, 9) == b"a"
    files.remove(f"{top}/a")
    files.remove(f"{top}/none/a")
    assert files.list(top) == ["d"]
    files.remove_directory(f"{top}/d")
    files.sync_directory(top)
    assert files.list(top) == []


def test_trees_are_removed(seam):
    files, top = seam
    for path in ("tree", "tree/below", "tree/below/deeper"):
        files.make_directory(f"{top}/{path}")
    for name in ("tree/one", "tree/last", "tree/below/two", "beside"):
        put(files, f"{top}/{name}", b"xyz")
    assert remove_tree(files, f"{top}/tree", but="last") == 6
    assert files.list(f"{top}/tree") == ["last"]
    assert remove_tree(files, f"{top}/tree") == 3
    assert files.list(top) == ["beside"]
    assert remove_tree(files, f"{top}/tree") == 0


@pytest.mark.parametrize("make_seam", [Files, lambda: OverlayFiles(Files(), now=0)])
def test_of_links_in_a_tree_only_the_links_go(tmp_path, make_seam):
    for directory in ("tree", "other"):
        (tmp_path / directory).mkdir()
    (tmp_path / "other/file").write_bytes(b"x")
    for name, to in {"link": "../other/file", "directory": "../other", "nowhere": "missing"}.items():
        (tmp_path / "tree" / name).symlink_to(to)
    files = make_seam()
    assert remove_tree(files, f"{tmp_path}/tree") == 0
    assert not files.exists(f"{tmp_path}/tree")
    assert files.list(f"{tmp_path}/other") == ["file"]


def test_times_and_copies(seam):
    files, top = seam
    put(files, f"{top}/a", bytes(range(200)))
    files.set_modified(f"{top}/a", 1_234_567_890_123_456_789)
    assert files.info(f"{top}/a").modified_ns == 1_234_567_890_123_456_789
    with files.open(f"{top}/a") as file, files.open_writable(f"{top}/b", create=True) as to:
        files.copy(file, 10, 20, to, 2)
        files.copy(file, 10, 10, to, 99)
        with pytest.raises(KafkalogError, match="became shorter"):
            files.copy(file, 195, 205, to, 0)
    assert contents(files, f"{top}/b")[2:12] == bytes(range(10, 20))


def test_a_lock_can_be_taken_again(seam):
    files, top = seam
    lock = files.lock(f"{top}/.lock")
    assert files.exists(f"{top}/.lock") != isinstance(files, OverlayFiles)  # which locks nothing
    lock.release()
    lock.release()
    files.lock(f"{top}/.lock").release()


def test_a_lock_that_another_process_holds(tmp_path):
    import subprocess
    import sys

    path = str(tmp_path / ".lock")
    program = "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.lockf(f, fcntl.LOCK_EX); print('held', flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", program, path], stdin=-1, stdout=-1) as other:
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(LogDirLocked):
            Files().lock(path)
        with pytest.raises(LogDirLocked):
            CrashFiles(Disk({"t/.lock": b""}), held=("/t/.lock",)).lock("/t/.lock")
        other.stdin.close()
    Files().lock(path).release()


def test_symbolic_links_are_not_written_through(tmp_path):
    (tmp_path / "far").write_bytes(b"far")
    (tmp_path / "link").symlink_to(tmp_path / "far")
    with pytest.raises(UnwritableFile):
        Files().open_writable(str(tmp_path / "link"), create=True)
    assert (tmp_path / "far").read_bytes() == b"far"


def test_fifos_do_not_block(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for call in (Files().open, Files().open_writable):
        with pytest.raises(KafkalogError, match=r"a FIFO, not a file|No such device"):
            call(str(tmp_path / "fifo"))


@pytest.mark.parametrize(
    ("double", "real", "composed"),
    [
        (CrashFiles, (Files, ReadOnlyFiles), {"read", "copy", "make_own_directory", "root", "keeps", "needs_requests"}),
        (WritableCrashFile, (WritableFile, OpenFile), {"needs_requests", "next_data", "read", "read_exactly", "send", "path"}),
    ],
)
def test_the_double_knows_every_method(double, real, composed):
    """What the double does not define itself would reach the operating system; `composed` are made of other methods, or constant."""
    names = {name for cls in real for name in vars(cls) if not name.startswith("_")}
    assert names - composed <= {name for cls in double.__mro__ if cls.__module__ == CrashFiles.__module__ for name in vars(cls)}


def test_what_is_open_for_reading_can_not_be_written(seam):
    files, top = seam
    put(files, f"{top}/a", b"a")
    with files.open(f"{top}/a") as file, files.open_writable(f"{top}/a") as writable:
        assert isinstance(file, OpenFile)
        assert not isinstance(file, WritableFile)
        assert isinstance(writable, WritableFile)


# the system calls under the real seam


def test_short_reads_and_writes_are_continued(tmp_path, monkeypatch):
    pwritev, preadv = os.pwritev, os.preadv
    monkeypatch.setattr(engine.files.interface.os, "pwritev", lambda fd, views, at: pwritev(fd, [views[0][:3]], at))
    monkeypatch.setattr(engine.files.interface.os, "preadv", lambda fd, views, at: preadv(fd, [views[0][:2]], at))
    put(Files(), str(tmp_path / "a"), b"0123456789")
    with Files().open_writable(str(tmp_path / "a")) as file:
        file.write_at(10, b"ab", b"cdefg", b"h")
    assert contents(Files(), str(tmp_path / "a")) == b"0123456789abcdefgh"


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EINTR, errno.EDQUOT])
@pytest.mark.parametrize(
    ("name", "work"),
    [
        ("pwritev", lambda at: at.file.write_at(0, b"x")),
        ("ftruncate", lambda at: at.file.truncate(1)),
        ("fsync", lambda at: at.file.sync()),
        ("preadv", lambda at: at.file.read_into(memoryview(bytearray(1)), 0)),
        ("open", lambda at: at.files.open(f"{at.top}/a")),
        ("open", lambda at: at.files.open_writable(f"{at.top}/a")),
        ("open", lambda at: at.files.lock(f"{at.top}/a")),
        ("fsync", lambda at: at.files.sync_directory(at.top)),
        ("rename", lambda at: at.files.rename(f"{at.top}/a", f"{at.top}/b")),
        ("unlink", lambda at: at.files.remove(f"{at.top}/a")),
        ("mkdir", lambda at: at.files.make_directory(f"{at.top}/d")),
        ("rmdir", lambda at: at.files.remove_directory(f"{at.top}/d")),
        ("utime", lambda at: at.files.set_modified(f"{at.top}/a", 5)),
        ("listdir", lambda at: at.files.list(at.top)),
        ("stat", lambda at: at.files.info(f"{at.top}/a")),
        ("stat", lambda at: at.files.exists(f"{at.top}/a")),
    ],
)
def test_errors_of_the_operating_system_are_told(tmp_path, monkeypatch, name, work, error):
    top = str(tmp_path)
    put(Files(), f"{top}/a", b"a")
    with Files().open_writable(f"{top}/a") as file:

        def fails(*_args, **_named):
            raise OSError(error, os.strerror(error))

        with monkeypatch.context() as patch:
            patch.setattr(engine.files.interface.os, name, fails)
            with pytest.raises(KafkalogError, match=os.strerror(error)) as caught:
                work(SimpleNamespace(files=Files(), file=file, top=top))
    assert top in str(caught.value)


# the model itself: a double that promises too much would prove nothing


def losses(files):
    return [disk.contents for disk in files.power_losses(drawn=40)]


def test_unsynced_bytes_may_be_lost_and_torn_at_sectors():
    def work(files):
        with files.open_writable("/t/a") as file:
            file.write_at(300, b"n" * 1500)

    kept = {disk["t/a"] for disk in losses(run(work, Disk({"t/a": b"o" * 1024})))}
    assert b"o" * 1024 in kept
    assert b"o" * 300 + b"n" * 212 + b"o" * 512 in kept
    assert b"o" * 1024 + bytes(776) in kept
    assert any(data.startswith(b"o" * 512 + b"n") for data in kept)


def test_synced_bytes_are_never_lost_but_a_new_name_is():
    def work(files):
        with files.open_writable("/t/a", create=True) as file:
            file.write_at(0, b"new")
            file.sync()

    files = run(work, Disk({}, frozenset({"t"})))
    assert {disk.get("t/a") for disk in losses(files)} == {None}
    files.sync_directory("/t")
    assert losses(files) == []


def test_renames_in_two_directories_come_in_any_order():
    def work(files):
        files.rename("/t/a", "/t/b")
        files.rename("/u/a", "/u/b")
        files.rename("/t/b", "/u/c")

    kept = {tuple(sorted(disk)) for disk in losses(run(work, Disk({"t/a": b"1", "u/a": b"2"})))}
    assert {("t/a", "u/a"), ("t/a", "u/b"), ("t/b", "u/a"), ("t/b", "u/b"), ("u/a", "u/c")} == kept
    assert ("u/b", "u/c") not in kept  # that is what a kill leaves; a file that is moved is in one place


def test_a_name_is_not_reused_before_it_is_free():
    def work(files):
        files.rename("/t/a", "/t/b")
        files.rename("/t/c", "/t/a")

    for disk in losses(run(work, Disk({"t/a": b"1", "t/c": b"3"}))):
        assert sorted(disk.values()) == [b"1", b"3"]


def test_removal_may_be_undone():
    kept = losses(run(lambda files: files.remove("/t/a"), Disk({"t/a": b"1"})))
    assert kept == [{"t/a": b"1"}]


def test_after_a_power_cut_nothing_works():
    files = CrashFiles(Disk({"t/a": b"1"}), stop_at=1)
    with files.open_writable("/t/a") as file:
        file.write_at(0, b"2")
        for call in (
            file.sync,
            file.size,
            lambda: files.list("/t"),
            lambda: files.remove("/t/a"),
            lambda: file.write_at(0, b"3"),
        ):
            with pytest.raises(PowerCut):
                call()
    assert files.disk().contents == {"t/a": b"2"}


def test_a_failed_sync_is_no_sync_ever_after():
    files = CrashFiles(Disk({"t/a": b"1"}), problem=StartProblem(2))
    with files.open_writable("/t/a") as file:
        file.write_at(0, b"2")
        with pytest.raises(UnwritableFile, match="Input/output error"):
            file.sync()
        file.sync()
    assert {"t/a": b"1"} in losses(files)


def test_a_write_may_be_done_in_part():
    files = CrashFiles(Disk({"t/a": b"----"}), problem=StartProblem(1, errno.ENOSPC, part=0.5))
    with files.open_writable("/t/a") as file, pytest.raises(UnwritableFile, match="No space left"):
        file.write_at(0, b"1234")
    assert files.disk().contents == {"t/a": b"12--"}


def test_real_directories_there_and_back(tmp_path):
    (tmp_path / "in" / "sub").mkdir(parents=True)
    (tmp_path / "in" / "sub" / "x").write_bytes(b"x")
    disk = Disk.load(tmp_path / "in", "data")
    assert CrashFiles(disk).read("/data/sub/x", 9) == b"x"
    disk.save(tmp_path / "out")
    again = Disk.load(tmp_path / "out")
    assert (again.contents, again.directories) == (disk.contents, disk.directories)


# replace()


def replaces(files):
    replace(files, "/t/a", [b"new" * 300, b"!"])


OLD, NEW = b"old" * 700, b"new" * 300 + b"!"


@pytest.mark.parametrize("aside", [None, b"left over" * 200])
def test_replace_leaves_one_of_both_files_whole(aside):
    disk = Disk({"t/a": OLD} | ({"t/a.tmp": aside} if aside else {}))
    total = run(replaces, disk).changes
    assert total == 6 - (aside is not None)
    for number in range(total + 1):
        for what, after in cut(replaces, disk, number):
            allowed = (NEW,) if number == total else (OLD, NEW)
            assert after.contents["t/a"] in allowed, what
            again = run(replaces, after)
            assert [disk.contents for disk in again.power_losses()] == []
            assert again.disk().contents == {"t/a": NEW}


@pytest.mark.parametrize("kind", ["sync", "sync-directory"])
def test_replace_needs_each_of_its_syncs(kind):
    disk = Disk({"t/a": OLD})
    whole = run(replaces, disk)
    (site,) = (operation.site for operation in whole.operations if operation.kind == kind)
    bad = [
        what
        for number in range(whole.changes + 1)
        for what, after in cut(replaces, disk, number, left_out=(site[0], range(site[1], site[1] + 1)))
        if after.contents["t/a"] not in ((NEW,) if number == whole.changes else (OLD, NEW))
    ]
    assert bad
    assert site[0] == "engine/files/interface.py"


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EINTR])
def test_replace_tells_every_failure_and_leaves_the_old_file(error):
    disk = Disk({"t/a": OLD})
    for number in range(len(run(replaces, disk).operations)):
        files = CrashFiles(disk, problem=StartProblem(number, error, part=0.5))
        with pytest.raises(UnwritableFile, match=os.strerror(error)):
            replaces(files)
        assert files.disk().contents["t/a"] in (OLD, NEW)
        replace(CrashFiles(files.disk()), "/t/a", [b"again"])


def test_keeping_everything_is_what_a_kill_leaves():
    files = run(replaces, Disk({"t/a": OLD}), stop_at=4)
    assert Disk.of(files.root, Keep(data=True, names=True, sizes=True)) == files.disk()
