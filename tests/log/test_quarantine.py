"""Whatever was done under a quarantine is undone byte for byte, also after a stop in the middle."""

from __future__ import annotations

import errno
import inspect
import json
import os
import tempfile
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given

from engine.errors import KafkalogError, UnwritableFile, UsageError
from engine.files import Files, ReadOnlyFiles, WritableFile, unwritable
from engine.files.layered import FilesAbove
from engine.log.quarantine.manifest import MANIFEST, STORED, QuarantineDamaged, read_manifest
from engine.log.quarantine.quarantining_files import QuarantinedFile, QuarantiningFiles
from engine.log.quarantine.restore import ChangedSince, restore
from tests.support.file_work import do_work, make_tree, tree, works
from tests.support.run import kafkalog

NOW = 1_700_000_000_000


@pytest.fixture
def dirs(tmp_path):
    """(directory of the files, path of the quarantine)."""
    (tmp_path / "data-0").mkdir()
    make_tree(tmp_path / "data-0")
    return str(tmp_path / "data-0"), str(tmp_path / "kept")


def quarantining(dirs):
    return QuarantiningFiles(Files(), dirs[1], command="test", now=NOW, log_dirs=(str(Path(dirs[0]).parent),))


def times(top):
    return {path: path.stat().st_mtime_ns for path in Path(top).rglob("*") if path.is_file()}


@given(works)
def test_everything_is_undone(steps):
    with tempfile.TemporaryDirectory() as top, tempfile.TemporaryDirectory() as other:
        data = Path(top) / "data-0"
        data.mkdir()
        make_tree(data)
        make_tree(Path(other))
        before, times_before = tree(ReadOnlyFiles(), str(data)), times(data)
        files = QuarantiningFiles(Files(), f"{top}/kept", command="test", now=NOW, log_dirs=(top,))
        assert do_work(files, str(data), steps) == do_work(Files(), other, steps)
        after = tree(ReadOnlyFiles(), str(data))
        if not any(step[0].endswith("kept") for step in steps):  # what is written to removed files is dropped
            assert after == tree(ReadOnlyFiles(), other)
        files.finish()
        if files.is_used:
            assert restore(Files(), f"{top}/kept").differences == []
            assert restore(Files(), f"{top}/kept").complete_before
        assert tree(ReadOnlyFiles(), str(data)) == before
        assert times(data) == times_before


LOOKS = {"absolute", "exists", "held", "info", "list", "needs_requests", "open", "plain", "read", "resolve", "root", "space", "special"}


@pytest.mark.parametrize(("ours", "above", "passes"), [
    (QuarantiningFiles, FilesAbove, LOOKS | {"held_open", "held_for_deletion", "lock", "make_own_directory", "sync_directory"}),
    (QuarantinedFile, WritableFile, {"duplicate", "read", "read_exactly", "send"}),  # made of `size` and `read_into`; it has no file
])  # fmt: skip
def test_nothing_of_the_seam_gets_past_the_quarantine(ours, above, passes):
    passed = {
        name
        for name, _method in inspect.getmembers(above, inspect.isfunction)
        if not name.startswith("_") and getattr(ours, name) is getattr(above, name)
    }
    assert passed == passes
    assert {name for name, _method in inspect.getmembers(ours, inspect.isfunction) if name in LOOKS} == passes & LOOKS


class FarFiles(Files):
    """The directory `far` is another file system."""

    def __init__(self, far):
        self.far = far + "/"

    def rename(self, path, to, *, replaces=False):
        if path.startswith(self.far) is not to.startswith(self.far):
            refusal = OSError(errno.EXDEV, os.strerror(errno.EXDEV))
            raise unwritable(path, refusal) from refusal
        super().rename(path, to, replaces=replaces)


@pytest.mark.parametrize("is_far", [False, True])
@pytest.mark.parametrize("is_copied", [False, True])
def test_a_removed_file_comes_back_with_its_time(dirs, is_far, is_copied):
    disk = FarFiles(dirs[1]) if is_far else Files()
    os.utime(f"{dirs[0]}/d/a", (1_000_000, 1_000_000))
    times_before = times(dirs[0])
    files = QuarantiningFiles(disk, dirs[1], command="test", now=NOW, log_dirs=(str(Path(dirs[0]).parent),))
    files.remove(f"{dirs[0]}/d/a")
    files.finish()
    [stored] = Path(dirs[1], STORED).iterdir()
    assert stored.stat().st_mtime == 1_000_000
    if is_copied:  # the quarantine was carried away and back
        os.utime(stored)
    assert restore(disk, dirs[1]).differences == []
    assert times(dirs[0]) == times_before


def test_only_what_is_cut_is_kept(dirs):
    files = quarantining(dirs)
    with files.open_writable(f"{dirs[0]}/d/a") as file:
        file.truncate(4900)
        file.write_at(4900, b"new")
        file.truncate(4000)
    files.finish()
    assert files.stored_size == 1000
    entries = [entry for entry in read_manifest(Files(), dirs[1]).entries if entry is not None]
    assert [(entry.do.value, entry.position, entry.size) for entry in entries] == [("cut", 4900, 100), ("cut", 4000, 900)]
    for entry in entries:
        assert sha256((Path(dirs[1]) / STORED / entry.stored).read_bytes()).hexdigest() == entry.sha256


def test_nothing_changed_leaves_no_quarantine(dirs):
    files = quarantining(dirs)
    with files.open_writable(f"{dirs[0]}/a") as file:
        file.truncate(file.size())
        assert file.read(0, 3) == b"012"
    files.finish()
    assert not files.is_used
    assert not Path(dirs[1]).exists()


def away_and_back(files, path, data):
    """As a marker: gone while somebody works, then written again."""
    files.remove(path)
    with files.open_writable(path + ".tmp", create=True) as file:
        file.write_at(0, data)
    files.rename(path + ".tmp", path, replaces=True)


class _GivesUp(Files):
    """Is interrupted behind its operation `at`, once."""

    def __init__(self, at):
        self.left = at

    def _count(self):
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt

    def make_directory(self, path):
        super().make_directory(path)
        self._count()

    def open_writable(self, path, *, create=False, mode=None):
        file = super().open_writable(path, create=create, mode=mode)
        self._count()
        return file


@pytest.mark.parametrize("at", [1, 2, 3])
def test_one_that_was_given_up_at_its_beginning_is_removed(dirs, at):
    files = QuarantiningFiles(_GivesUp(at), dirs[1], command="test", now=NOW, log_dirs=(str(Path(dirs[0]).parent),))
    with pytest.raises(KeyboardInterrupt):
        files.remove(str(next(path for path in Path(dirs[0]).iterdir() if path.is_file())))
    files.finish()
    assert not files.is_used
    assert not Path(dirs[1]).exists()


@pytest.mark.parametrize("name", ["b", "d/e/f"])
def test_what_is_as_it_was_leaves_no_quarantine(dirs, name):
    before, times_before, files = tree(ReadOnlyFiles(), dirs[0]), times(dirs[0]), quarantining(dirs)
    away_and_back(files, f"{dirs[0]}/{name}", before[name])
    files.finish()
    assert (files.is_used, files.stored_size, os.listdir(Path(dirs[1]).parent)) == (False, 0, ["data-0"])
    assert tree(ReadOnlyFiles(), dirs[0]) == before
    assert times(dirs[0]) == times_before


@pytest.mark.parametrize("change", [
    lambda files, top: away_and_back(files, f"{top}/d/e/f", b"deeq"),
    lambda files, top: files.open_writable(f"{top}/new", create=True).close(),
    lambda files, top: files.remove(f"{top}/b"),
    lambda files, top: (files.rename(f"{top}/b", f"{top}/c"), files.open_writable(f"{top}/b", create=True).close()),
    lambda files, top: (files.rename(f"{top}/a", f"{top}/c"), files.rename(f"{top}/d/a", f"{top}/a"),
                        files.rename(f"{top}/c", f"{top}/d/a")),
    lambda files, top: files.make_directory(f"{top}/new"),
    lambda files, top: files.set_modified(f"{top}/b", NOW),
])  # fmt: skip
def test_what_is_not_as_it_was_has_a_quarantine(dirs, change):
    before, files = tree(ReadOnlyFiles(), dirs[0]), quarantining(dirs)
    change(files, dirs[0])
    files.finish()
    assert files.is_used
    restore(Files(), dirs[1])
    assert tree(ReadOnlyFiles(), dirs[0]) == before
    assert sorted(path.name for path in Path(dirs[0]).rglob("*")) == ["a", "a", "b", "b", "d", "e", "f"]


def test_zeros_take_no_space(dirs):
    with open(f"{dirs[0]}/big", "wb") as file:
        file.truncate(50 << 20)
    files = quarantining(dirs)
    with files.open_writable(f"{dirs[0]}/big") as file:
        file.truncate(0)
    stored = next((Path(dirs[1]) / STORED).iterdir())
    assert stored.stat().st_size == 50 << 20
    assert stored.stat().st_blocks * 512 < 1 << 20


def test_a_directory_is_renamed_back_with_what_changed_in_it(dirs):
    before = tree(ReadOnlyFiles(), dirs[0])
    files = quarantining(dirs)
    with files.open_writable(f"{dirs[0]}/d/a") as file:
        file.truncate(10)
        files.rename(f"{dirs[0]}/d", f"{dirs[0]}/d.1-stray")
        file.truncate(5)
    files.remove(f"{dirs[0]}/d.1-stray/e/f")
    files.remove_directory(f"{dirs[0]}/d.1-stray/e")
    files.finish()
    restored = restore(Files(), dirs[1])
    assert tree(ReadOnlyFiles(), dirs[0]) == before
    assert restored.manifest.log_dirs == (str(Path(dirs[0]).parent),)


def test_an_existing_directory_is_no_quarantine(dirs):
    Path(dirs[1]).mkdir()
    with pytest.raises(UsageError):
        quarantining(dirs)


def work(files, top):
    """Something of everything."""
    with files.open_writable(f"{top}/a") as file:
        file.truncate(20)
        file.write_at(5, b"new")
    files.rename(f"{top}/a", f"{top}/d/b", replaces=True)
    files.remove(f"{top}/d/a")
    files.open_writable(f"{top}/d/a", create=True).close()
    files.rename(f"{top}/d/a", f"{top}/c")
    files.make_directory(f"{top}/a")


class Stop(Exception):
    pass


class StoppingFiles(Files):
    """Stops instead of the operation number `at`."""

    def __init__(self, at):
        self.at = at

    def tick(self):
        self.at -= 1
        if self.at < 0:
            raise Stop

    def open_writable(self, path, *, create=False, mode=None):
        self.tick()
        files = self
        below = super().open_writable(path, create=create, mode=mode)

        class File(WritableFile):
            def write_at(self, position, *parts):
                files.tick()
                super().write_at(position, *parts)

            def truncate(self, size):
                files.tick()
                super().truncate(size)

        file = File(path, below._descriptor)
        below._descriptor = -1
        return file


for name in ("rename", "remove", "make_directory", "remove_directory", "set_modified"):

    def method(self, *arguments, _name=name, **options):
        self.tick()
        getattr(Files, _name)(self, *arguments, **options)

    setattr(StoppingFiles, name, method)


@pytest.mark.parametrize("at", range(34))
def test_a_stop_of_the_command_loses_nothing(dirs, at):
    before = tree(ReadOnlyFiles(), dirs[0])
    files = QuarantiningFiles(StoppingFiles(at), dirs[1], command="test", now=NOW, log_dirs=(str(Path(dirs[0]).parent),))
    with pytest.raises(Stop):
        work(files, dirs[0])
        files.finish()
        raise Stop
    try:
        restore(Files(), dirs[1], salvage=True)
    except KafkalogError:  # nothing was noted, so nothing may have changed
        assert not Path(dirs[1], MANIFEST).exists() or not Path(dirs[1], MANIFEST).read_bytes()
    assert tree(ReadOnlyFiles(), dirs[0]) == before


@pytest.mark.parametrize("at", range(24))
def test_a_stop_while_a_quarantine_that_has_nothing_to_tell_is_removed_loses_nothing(dirs, at):
    before = tree(ReadOnlyFiles(), dirs[0])
    files = QuarantiningFiles(StoppingFiles(at), dirs[1], command="test", now=NOW, log_dirs=(str(Path(dirs[0]).parent),))
    with pytest.raises(Stop):
        away_and_back(files, f"{dirs[0]}/b", before["b"])
        files.finish()
        raise Stop
    if Path(dirs[1]).exists() and os.listdir(dirs[1]):
        done = kafkalog("restore", "--salvage", dirs[1])
        assert done.status == 0 or "it keeps nothing" in done.err, done.err
    assert tree(ReadOnlyFiles(), dirs[0]) == before


def test_salvage_keeps_what_it_removes_where_it_has_nothing_to_put_back(dirs):
    files = quarantining(dirs)
    away_and_back(files, f"{dirs[0]}/b", b"of the command")
    files.finish()
    after = tree(ReadOnlyFiles(), dirs[0])
    for path in Path(dirs[1], "files").iterdir():
        path.unlink()
    with pytest.raises(QuarantineDamaged, match="missing, but the manifest needs it"):
        restore(Files(), dirs[1])
    assert tree(ReadOnlyFiles(), dirs[0]) == after
    done = restore(Files(), dirs[1], salvage=True, now=NOW)
    assert not done.is_as_before
    assert tree(ReadOnlyFiles(), dirs[0]) != after
    assert restore(Files(), done.aside.directory).is_as_before
    assert tree(ReadOnlyFiles(), dirs[0]) == after


@pytest.mark.parametrize("at", range(40))
def test_a_stop_of_the_restoring_is_gone_on_with(dirs, at):
    before = tree(ReadOnlyFiles(), dirs[0])
    files = quarantining(dirs)
    work(files, dirs[0])
    files.finish()
    try:
        restore(StoppingFiles(at), dirs[1])
    except Stop:
        restore(Files(), dirs[1])
    assert tree(ReadOnlyFiles(), dirs[0]) == before


@pytest.mark.parametrize(("change", "at"), [*(("d/later", at) for at in (5, 14, 20, 26)), *(("b", at) for at in (5, 14, 20, 23)),
                                            *(("d/a", at) for at in (17, 20, 26))])  # fmt: skip
def test_what_came_while_the_restoring_stood_still_is_not_lost(dirs, change, at):
    """A broker starts meanwhile and writes: a new file, one that was about to be put back, one that is back already."""
    files = quarantining(dirs)
    with files.open_writable(f"{dirs[0]}/b") as file:  # undone last
        file.truncate(30)
    work(files, dirs[0])
    files.finish()
    with pytest.raises(Stop):
        restore(StoppingFiles(at), dirs[1])
    assert Path(dirs[1], "restored").read_bytes()
    with open(f"{dirs[0]}/{change}", "ab") as file:
        file.write(b"a broker went on")
    os.utime(f"{dirs[0]}/{change}", (4e9, 4e9))
    after = tree(ReadOnlyFiles(), dirs[0])
    with pytest.raises(ChangedSince, match=change):
        restore(Files(), dirs[1])
    assert tree(ReadOnlyFiles(), dirs[0]) == after
    done = restore(Files(), dirs[1], force=True)
    kept = () if done.aside is None else Path(done.aside.directory, STORED).iterdir()
    assert change in [one.path[len(dirs[0]) + 1 :] for one in done.differences] or after[change] in [one.read_bytes() for one in kept]


def test_damage_and_later_changes_are_met_before_anything_changes(dirs):
    files = quarantining(dirs)
    work(files, dirs[0])
    files.finish()
    after = tree(ReadOnlyFiles(), dirs[0])
    stored = min((Path(dirs[1]) / STORED).iterdir())
    data = stored.read_bytes()
    stored.write_bytes(data[:-1] + b"!")
    with pytest.raises(QuarantineDamaged, match="SHA-256"):
        restore(Files(), dirs[1])
    stored.unlink()
    with pytest.raises(QuarantineDamaged, match="missing"):
        restore(Files(), dirs[1])
    stored.write_bytes(data)
    with open(f"{dirs[0]}/d/b", "ab") as file:
        file.write(b"a broker went on")
    with pytest.raises(ChangedSince):
        restore(Files(), dirs[1])
    assert tree(ReadOnlyFiles(), dirs[0]) == {**after, "d/b": after["d/b"] + b"a broker went on"}
    restore(Files(), dirs[1], force=True)
    assert (Path(dirs[0]) / "a").read_bytes() == b"0123456789" * 10


@pytest.mark.parametrize("line", [b"{}", b"[1]", b"not JSON", b'{"do": "cut", "path": "/x", "stored": "../x"}', b'{"do": "eat"}'])
def test_a_damaged_manifest_is_refused(dirs, line):
    files = quarantining(dirs)
    work(files, dirs[0])
    files.finish()
    path = Path(dirs[1]) / MANIFEST
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([*lines[:2], line, *lines[2:]]))
    with pytest.raises(QuarantineDamaged):
        restore(Files(), dirs[1])


def test_the_manifest_is_text(dirs):
    written = times(dirs[0])[Path(dirs[0], "d/e/f")]
    files = quarantining(dirs)
    files.remove(f"{dirs[0]}/d/e/f")
    files.finish()
    lines = [json.loads(line) for line in (Path(dirs[1]) / MANIFEST).read_text().splitlines()]
    assert lines[0] == {"quarantine": 1, "command": "test", "created_ms": NOW, "log_dirs": [str(Path(dirs[0]).parent)]}
    assert lines[1] == {"do": "list", "path": f"{dirs[0]}/d/e", "files": {"f": [4, written, 0o644]}}
    assert lines[2]["do"] == "remove"
    assert lines[2]["path"] == f"{dirs[0]}/d/e/f"
    assert lines[2]["sha256"] == sha256(b"deep").hexdigest()
    assert lines[2]["stored"] == "000001-e-f"
    before = (Path(dirs[1]) / MANIFEST).read_bytes().rpartition(b'{"left"')[0]
    assert lines[3] == {"left": {}, "sha256": sha256(before).hexdigest()}


def test_a_refusal_goes_through(dirs):
    with pytest.raises(UnwritableFile):
        quarantining(dirs).open_writable(f"{dirs[0]}/none")


def worked(dirs):
    """What was there before, and what `work` left."""
    before = tree(ReadOnlyFiles(), dirs[0])
    files = quarantining(dirs)
    work(files, dirs[0])
    files.finish()
    return before, tree(ReadOnlyFiles(), dirs[0])


def later(top):
    """A broker goes on: a new file, one more that is changed, one that goes."""
    Path(top, "d/segment").write_bytes(b"a segment of later")
    Path(top, "c").write_bytes(b"written later")
    Path(top, "b").unlink()


def test_what_came_since_is_set_aside_and_comes_back(dirs):
    before, _ = worked(dirs)
    later(dirs[0])
    after, kept = tree(ReadOnlyFiles(), dirs[0]), tree(ReadOnlyFiles(), dirs[1])
    with pytest.raises(ChangedSince, match="more: ") as raised:
        restore(Files(), dirs[1])
    assert "d/segment" in str(raised.value)
    assert tree(ReadOnlyFiles(), dirs[0]) == after
    done = restore(Files(), dirs[1], force=True, now=NOW)
    assert [(one.path, one.what) for one in done.differences] == [(f"{dirs[0]}/b", "gone")]
    assert tree(ReadOnlyFiles(), dirs[0]) == {name: data for name, data in before.items() if name != "b"}
    assert done.aside.directory == f"{dirs[1]}.forced"
    again = restore(Files(), done.aside.directory)
    assert again.differences == []
    assert tree(ReadOnlyFiles(), dirs[0]) == after
    assert tree(ReadOnlyFiles(), dirs[1]) == kept, "the first quarantine can be used again"


@pytest.mark.parametrize("at", range(0, 60, 3))
def test_a_stop_of_a_forced_restoring_loses_nothing_either(dirs, at):
    before, _ = worked(dirs)
    Path(dirs[0], "d/segment").write_bytes(b"a segment of later")
    Path(dirs[0], "c").write_bytes(b"written later")
    after = tree(ReadOnlyFiles(), dirs[0])
    try:
        restore(StoppingFiles(at), dirs[1], force=True)
    except Stop:
        restore(Files(), dirs[1], force=True)
    assert tree(ReadOnlyFiles(), dirs[0]) == before
    for name in (".forced-2", ".forced"):
        if Path(dirs[1] + name, MANIFEST).exists() and Path(dirs[1] + name, MANIFEST).read_bytes():
            restore(Files(), dirs[1] + name, salvage=True, force=name == ".forced-2")
    assert tree(ReadOnlyFiles(), dirs[0]) == after


def test_a_manifest_that_was_cut_off_is_an_error(dirs):
    before, after = worked(dirs)
    path = Path(dirs[1], MANIFEST)
    lines = path.read_bytes().splitlines(keepends=True)
    half = [*lines[:4], lines[4][:20]]
    for cut, fault in ((lines[:-1], "its last line is missing"), (half, "line 5 is cut off"), (lines[:1], "0 changes can be undone")):
        path.write_bytes(b"".join(cut))
        with pytest.raises(QuarantineDamaged, match=fault) as raised:
            restore(Files(), dirs[1])
        assert "restore --salvage" in raised.value.do
        assert tree(ReadOnlyFiles(), dirs[0]) == after
    path.write_bytes(b"".join(lines[:-1]))
    done = restore(Files(), dirs[1], salvage=True)
    assert (done.differences, tree(ReadOnlyFiles(), dirs[0])) == ([], before)


def test_what_is_whole_is_put_back_from_a_damaged_quarantine(dirs):
    files = quarantining(dirs)
    for name in ("a", "b", "d/a", "d/b"):
        files.remove(f"{dirs[0]}/{name}")
    files.finish()
    path = Path(dirs[1], MANIFEST)
    lines = path.read_bytes().splitlines(keepends=True)
    at = next(number for number, line in enumerate(lines) if b"-a" in line)
    path.write_bytes(b"".join([*lines[:at], b"garbage\n", *lines[at + 1 :]]))
    stored = next(Path(dirs[1], STORED).glob("*-d-b"))
    stored.write_bytes(b"damaged")
    with pytest.raises(QuarantineDamaged):
        restore(Files(), dirs[1])
    done = restore(Files(), dirs[1], salvage=True)
    assert sorted(Path(one.path).name for one in done.differences) == ["a", "b"]
    assert len(done.skipped) == 2
    assert any(f"line {at + 1} is not JSON" in what for what in done.skipped)
    assert (Path(dirs[0]) / "b").exists()
    assert (Path(dirs[0]) / "d/a").exists()
