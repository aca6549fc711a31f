"""The owner of a log dir exchanges directories for symbolic links while root works there: nothing elsewhere changes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time

import pytest

from engine.errors import KafkalogError, UnwritableFile
from engine.files import Files, acting_as, owner_of, remove_tree
from engine.log.quarantine.kept import prune
from engine.log.quarantine.quarantining_files import QuarantiningFiles
from tests.support.run import kafkalog
from tests.support.users import USER, as_root, give, public_directory, state

NOW = "1764000000000"


@pytest.fixture
def top():
    with public_directory() as path:
        yield path


@pytest.fixture
def victim(top):
    """A directory of root's with what an attacker would like to have, or to see gone."""
    (top / "victim/files").mkdir(parents=True)
    for name in ("shadow", "files/000001-x", "00000000000000000079.log", "00000000000000000079.index", "manifest.jsonl"):
        (top / "victim" / name).write_bytes(b"of root's")
    return top / "victim"


@pytest.fixture
def log_dir(own_corpus, top):
    """A log dir of another user's, in a directory of that user's."""
    shutil.copytree(own_corpus / "kafka-4.3.1/logs/unclean/d0", top / "home/d0")
    (top / "home/d0/u-rolls-0/00000000000000000000.index").write_bytes(b"")
    give(top / "home")
    return top / "home/d0"


def exchange(path, target):
    """What an attacker does in an instant."""
    os.rename(path, f"{path}.away")
    os.symlink(target, path)


# ---- one moment each


class AtTheWorstMoment(Files):
    """Something happens right after a method that was called with `path`."""

    def __init__(self, method, path, happen):
        self._method, self._path, self._happen = method, str(path), happen

    def _then(self, method, path, result):
        if method == self._method and path == self._path and self._happen is not None:
            happen, self._happen = self._happen, None
            happen()
        return result

    def list(self, directory):
        return self._then("list", directory, super().list(directory))

    def info(self, path):
        return self._then("info", path, super().info(path))

    def make_directory(self, path):
        return self._then("make_directory", path, super().make_directory(path))

    def make_own_directory(self, path):
        return self._then("make_own_directory", path, super().make_own_directory(path))


@pytest.mark.parametrize(("method", "path"), [
    ("list", "t-0.x-delete"), ("info", "t-0.x-delete/below"), ("list", "t-0.x-delete/below"),
])  # fmt: skip
@pytest.mark.parametrize("exchanged", ["t-0.x-delete", "t-0.x-delete/below"])
def test_remove_tree_removes_nothing_elsewhere(tmp_path, method, path, exchanged):
    """Whoever it runs as: nothing is reached through a name that could lead elsewhere by now."""
    (tmp_path / "victim/below").mkdir(parents=True)
    for name in ("victim/file", "victim/below/file"):
        (tmp_path / name).write_bytes(b"of somebody else")
    (tmp_path / "t-0.x-delete/below").mkdir(parents=True)
    for name in ("file", "below/file"):
        (tmp_path / "t-0.x-delete" / name).write_bytes(b"to go")
    before = state(tmp_path / "victim")
    attacked = AtTheWorstMoment(method, tmp_path / path, lambda: exchange(tmp_path / exchanged, tmp_path / "victim"))
    with pytest.raises(KafkalogError):
        remove_tree(attacked, str(tmp_path / "t-0.x-delete"))
    assert state(tmp_path / "victim") == before


def test_remove_tree_does_not_follow_links(tmp_path):
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim/file").write_bytes(b"of somebody else")
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/link").symlink_to(tmp_path / "victim")
    (tmp_path / "link").symlink_to(tmp_path / "victim")
    with pytest.raises(UnwritableFile):
        remove_tree(Files(), str(tmp_path / "link"))
    remove_tree(Files(), str(tmp_path / "tree"))
    assert not (tmp_path / "tree").exists()
    assert (tmp_path / "victim/file").exists()


def test_remove_tree_has_an_end(tmp_path):
    deep = tmp_path / "tree"
    for _ in range(200):
        deep /= "d"
    deep.mkdir(parents=True)
    with pytest.raises(UnwritableFile, match="nested directories"):
        remove_tree(Files(), str(tmp_path / "tree"))


class Before(Files):
    """Something happens before the call with this number, of all that ask for or change something."""

    def __init__(self, number, happen):
        self._left, self._happen = number, happen

    def __getattribute__(self, name):
        found = super().__getattribute__(name)
        if not name.startswith("_") and callable(found):
            self._left -= 1
            if self._left == 0:
                self._happen()
        return found


def quarantine_of(log_dir, kept):
    files = QuarantiningFiles(Files(), str(kept), command="recover", now=1, log_dirs=(str(log_dir),))
    files.make()
    for name in ("00000000000000000079.index", "00000000000000000079.timeindex"):
        files.remove(f"{log_dir}/u-rolls-0/{name}")
    files.finish()


@pytest.mark.parametrize("exchanged", ["q", "q/etc", "q/etc/files"])
@pytest.mark.parametrize("whose", ["mine", pytest.param("theirs", marks=as_root)])
def test_a_quarantine_to_be_deleted_is_exchanged(log_dir, victim, exchanged, whose):
    """At every moment, for what is no quarantine, and for one of root's."""
    home, moment, is_deleted = log_dir.parent, 0, False
    shutil.copytree(log_dir, home / "d1")
    (home / "own").mkdir()
    quarantine_of(home / "d1", home / "own/etc")
    quarantine_of(log_dir, victim / "etc")
    (victim / "etc/files/below").mkdir()
    before = state(victim)
    while not is_deleted:
        moment += 1
        shutil.rmtree(home / "q", ignore_errors=True)
        shutil.copytree(home / "own", home / "q")
        if whose == "theirs":
            give(home / "q")
        target = victim / "etc" if exchanged == "q/etc" else victim / "etc/files" if exchanged.endswith("files") else victim
        done = []

        def happen(path=home / exchanged, target=target, done=done):
            if path.exists():
                exchange(path, target)
                done.append(path)

        try:
            prune(Before(moment, happen), str(home / "q/etc"), 2)
        except KafkalogError:
            assert done, "it is deleted if nobody is in the way"
        assert state(victim) == before, moment
        is_deleted = not done and not (home / "q/etc").exists()
        if (home / exchanged).is_symlink():
            (home / exchanged).unlink()
        shutil.rmtree(home / f"{exchanged}.away", ignore_errors=True)
    assert moment > 20


@as_root
def test_a_lock_is_never_made_where_a_manifest_says(log_dir, victim, top):
    """A manifest without its last line: its command may still run, in whatever directory it names."""
    for log_dir_named, status in ((victim, 8), (log_dir, 0)):
        (top / "home/kept/files").mkdir(parents=True)
        header = {"quarantine": 1, "command": "recover", "created_ms": 1, "log_dirs": [str(log_dir_named)]}
        (top / "home/kept/manifest.jsonl").write_text(json.dumps(header) + "\n")
        give(top / "home/kept")
        done = kafkalog("restore", "--prune", "--older-than", "1d", "--yes", str(top / "home/kept"))
        assert done.status == status, done.err
        assert not (log_dir_named / ".lock").exists()
        assert (top / "home/kept").exists() == bool(status)
        assert ("error[not-pruned]" in done.err) == bool(status)
        shutil.rmtree(top / "home/kept", ignore_errors=True)


@as_root
def test_a_directory_that_is_not_as_it_should_be_does_not_stay(top, monkeypatch):
    """Where what was just made fails its check, nobody is left with an empty directory of root's."""
    from engine.files import own_directory

    def refuse(*_arguments):
        raise UnwritableFile("exchanged")

    (top / "theirs").mkdir()
    give(top / "theirs")
    monkeypatch.setattr(own_directory, "_check_new", refuse)
    for parent in (top, top / "theirs"):
        with acting_as(owner_of(str(top / "theirs"))), pytest.raises(UnwritableFile):
            Files().make_own_directory(str(parent / "kept"))
        assert not (parent / "kept").exists()


@as_root
@pytest.mark.parametrize("around", ["roots", "theirs"])
def test_a_quarantine_of_somebody_else_is_deleted_with_the_rights_of_its_owner(log_dir, top, around):
    parent = top if around == "roots" else log_dir.parent
    quarantine_of(log_dir, parent / "kept")
    give(parent / "kept")
    users = set()

    class Watching(Files):
        def remove(self, path):
            users.add(os.geteuid())
            super().remove(path)

    assert prune(Watching(), str(parent / "kept"), 2) > 0
    assert users == {USER}
    assert not (parent / "kept").exists()
    assert os.geteuid() == 0


@as_root
@pytest.mark.parametrize("moment", ["make_own_directory", "make_directory"])
def test_a_new_quarantine_is_exchanged(log_dir, victim, moment):
    """Before it was given away by its name: whatever had that name then, the attacker had."""
    kept = log_dir.parent / "kept"
    path = kept if moment == "make_own_directory" else kept / "files"
    before = state(victim)
    attacked = AtTheWorstMoment(moment, path, lambda: exchange(kept, victim))
    with acting_as(owner_of(str(log_dir)), [str(log_dir)]):
        files = QuarantiningFiles(attacked, str(kept), command="recover", now=1)
        with pytest.raises(KafkalogError):
            files.make()
            files.remove(f"{log_dir}/u-rolls-0/00000000000000000079.index")
    assert state(victim) == before


@as_root
@pytest.mark.parametrize("by", ["link", "directory"])
def test_a_directory_is_exchanged_before_it_is_given_away(top, victim, by, monkeypatch):
    """In a directory of root's only root can do that: it is checked all the same."""
    before, real, copy = state(victim), os.mkdir, top / "copy"
    shutil.copytree(victim, copy)

    def mkdir(path, *arguments, **settings):
        real(path, *arguments, **settings)
        os.rename(top / "kept", top / "kept.away")
        os.symlink(victim, top / "kept") if by == "link" else os.rename(copy, top / "kept")

    (top / "theirs").mkdir()
    give(top / "theirs")
    with acting_as(owner_of(str(top / "theirs"))):
        monkeypatch.setattr(os, "mkdir", mkdir)
        with pytest.raises(UnwritableFile):
            Files().make_own_directory(str(top / "kept"))
    assert state(victim) == before
    assert (top / "kept").lstat().st_uid == 0


@as_root
@pytest.mark.parametrize("command", [("recover",), ("truncate", "--to", "5"), ("verify", "--rebuild"), ("roll",)])
def test_a_partition_is_exchanged_for_a_link_to_roots_directory(command, log_dir, victim, monkeypatch):
    """In the last moment before the log is opened: after everything was looked at."""
    from engine.files import locks

    before, real = state(victim), locks.take_lock

    def take_lock(path):
        lock = real(path)
        exchange(log_dir / "u-rolls-0", victim)
        return lock

    monkeypatch.setattr("engine.files.interface.take_lock", take_lock)
    kafkalog(*command, str(log_dir / "u-rolls-0"))
    assert state(victim) == before


@as_root
def test_the_directory_of_a_deleted_topic_is_exchanged(log_dir, victim, monkeypatch):
    """`retain` removes such directories with all that is in them."""
    deleted = log_dir / "gone-0.0123456789abcdef0123456789abcdef-delete"
    (deleted / "below").mkdir(parents=True)
    (deleted / "below/file").write_bytes(b"")
    give(deleted)
    before, real = state(victim), Files.list

    def attacked(self, directory):
        names = real(self, directory)
        if directory == f"{deleted}/below" and not (deleted / "below").is_symlink():
            exchange(deleted / "below", victim)
        return names

    monkeypatch.setattr(Files, "list", attacked)
    kafkalog("retain", "--now", NOW, str(log_dir))
    assert state(victim) == before


# ---- a real race

ROUNDS = int(os.environ.get("KAFKALOG_RACES", "0"))  # runs of each command; 0: of two commands, as many as there is time for
OF_PARTITIONS = ("truncate --to 100", "delete-records --before 100", "append --input /dev/null")
RACED = ["recover", "retain", "recover --salvage", "verify --rebuild", "roll", "compact --force", *OF_PARTITIONS]

EXCHANGES = """
import os, random, sys, time
victim, user, deleted, *paths = sys.argv[1:]
paths += [deleted]
os.setgroups([]); os.setgid(int(user)); os.setuid(int(user))
print("at work", flush=True)
def names():
    for path in paths:
        yield path
        try:
            yield from (f"{path}/{name}" for name in os.listdir(path) if "." in name or name.endswith("-0"))
        except OSError:
            pass
while True:
    try:
        os.makedirs(f"{deleted}/below", exist_ok=True)
        open(f"{deleted}/below/file", "w").close()
        open(f"{paths[1]}/00000000000000000000.index", "w").close()  # there is something to repair again
    except OSError:
        pass
    for path in random.choices(list(names()), k=3):
        time.sleep(random.uniform(0, 0.05))  # else every command fails at its first look
        try:
            os.rename(path, path + "~")
            os.symlink(victim, path)
            time.sleep(random.choice((0, 0, 0.003)))
            os.unlink(path)
            os.rename(path + "~", path)
        except OSError:
            pass
"""


@as_root
@pytest.mark.parametrize("command", RACED if ROUNDS else RACED[:2])
def test_links_all_the_time(command, log_dir, victim):
    before = state(victim)
    deleted = log_dir / "gone-0.0123456789abcdef0123456789abcdef-delete"
    words = [sys.executable, "-c", EXCHANGES, str(victim), str(USER), str(deleted), str(log_dir.parent), str(log_dir / "u-rolls-0")]
    statuses = []
    with subprocess.Popen(words, stdout=subprocess.PIPE) as attacker:
        try:
            assert attacker.stdout.readline() == b"at work\n"
            until = time.monotonic() + (0 if ROUNDS else 4)
            while time.monotonic() < until or len(statuses) < (ROUNDS or 3):
                place = f"{log_dir}/u-rolls-0" if command in OF_PARTITIONS else str(log_dir)
                statuses.append(kafkalog(*command.split(), place).status)
        finally:
            attacker.kill()
    assert set(statuses) <= {0, 1, 2, 4, 8}
    assert set(statuses) != {8}, "no run came as far as its work: the test shows nothing"
    assert state(victim) == before
    assert os.geteuid() == 0


def test_nothing_is_ever_given_away_by_its_name():
    """The one place that gives something away has a descriptor of what it made."""
    from pathlib import Path

    root = Path(__file__).parents[2]
    found = [
        (str(path.relative_to(root)), line.strip())
        for package in ("engine", "kafkalog_cli", "kafkalog_spark") for path in (root / package).rglob("*.py")
        for line in path.read_text().splitlines() if "chown(" in line
    ]  # fmt: skip
    assert found == [("engine/files/own_directory.py", "os.fchown(made, now.owner.user, now.owner.group)")]
