"""Another user leads root to a log dir of root's: with a symbolic link on the path of a log dir of that user's."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time

import pytest

from tests.support.run import kafkalog
from tests.support.users import USER, as_root, give, public_directory, state

pytestmark = as_root

NOW = "1764000000000"
COMMANDS = {
    "append": ("append", "--input-format", "text", "--input", os.devnull),
    "append --create": ("append", "--create", "--input-format", "text", "--input", os.devnull),
    "compact": ("compact", "--config", "cleanup.policy=compact", "--force"),
    "delete-records": ("delete-records", "--before", "5"),
    "recover": ("recover",),
    "recover --dry-run": ("recover", "--dry-run"),
    "retain": ("retain", "--config", "retention.ms=1"),
    "roll": ("roll",),
    "truncate": ("truncate", "--to", "5"),
    "verify": ("verify", "--rebuild"),
}
OTHER = USER + 1


@pytest.fixture
def top(own_corpus):
    """`roots`: a log dir of root's; `home/d0`: of USER, in a directory of USER's; with something to do in both."""
    with public_directory() as path:
        for log_dir in (path / "roots", path / "home/d0"):
            shutil.copytree(own_corpus / "kafka-4.3.1/logs/unclean/d0", log_dir)
            (log_dir / "u-rolls-0/00000000000000000000.index").unlink()
        give(path / "home")
        yield path


def lead(path, target, user):
    path.symlink_to(target)
    os.lchown(path, user, user)


def run(command, partition):
    words = [*COMMANDS[command], *(() if command == "verify" else ("--now", NOW))]
    return kafkalog(*words, str(partition))


def names(done):
    return done.out.decode() + done.err


@pytest.mark.parametrize("command", COMMANDS)
def test_a_link_to_a_log_dir_of_roots(command, top):
    lead(top / "home/link", top / "roots", USER)
    before = state(top)
    done = run(command, top / "home/link" / ("new-0" if "create" in command else "u-rolls-0"))
    assert done.status == 8
    assert f"{top}/home/link is a symbolic link that user {USER} can change, and it leads to {top}/roots" in names(done)
    assert "owner-not-allowed" in names(done)
    assert state(top) == before


@pytest.mark.parametrize("place", ["link", "link/", "link/.", "link/u-rolls-0", "link/u-rolls-0/.", "link/u-rolls-0/..", "up/link"])
@pytest.mark.parametrize("command", ["recover", "retain", "verify"])
def test_every_spelling_of_the_path(command, place, top):
    lead(top / "home/link", top / "roots", USER)
    lead(top / "home/up", "../home", USER)
    before = state(top)
    done = run(command, f"{top}/home/{place}")
    assert done.status == 8, names(done)
    assert "owner-not-allowed" in names(done)
    assert state(top) == before


@pytest.mark.parametrize(("around", "link", "target", "is_followed"), [
    (0, 0, 0, True), (0, 0, USER, True), (USER, 0, USER, True), (USER, USER, USER, True),
    (USER, 0, 0, False),  # moved, or a hard link to a link of root's
    (USER, USER, 0, False), (USER, USER, OTHER, False), (0, USER, OTHER, False), (0, OTHER, USER, False),
])  # fmt: skip
def test_whose_links_are_followed(around, link, target, is_followed, top):
    (top / "links").mkdir()
    os.chown(top / "links", around, around)
    give(top / "roots", target, target)
    lead(top / "links/link", top / "roots", link)
    before = state(top)
    done = run("retain", top / "links/link")
    assert (done.status in (0, 1, 4)) == is_followed, names(done)
    assert ("owner-not-allowed" in names(done)) == (not is_followed)
    assert (state(top) != before) == is_followed


@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_a_link_to_a_quarantine_of_roots(more, top):
    assert run("truncate", top / "roots/u-rolls-0").status in (0, 1)
    [kept] = [path for path in top.iterdir() if "quarantine" in path.name]
    lead(top / "home/kept", kept, USER)
    before = state(top)
    done = kafkalog("restore", *more, str(top / "home/kept"))
    assert done.status == 8, names(done)
    assert "owner-not-allowed" in names(done)
    assert state(top) == before


@pytest.mark.parametrize("more", [(), ("--dry-run",)])
@pytest.mark.parametrize("place", ["link", "around/link"])
def test_pruning_behind_a_link(place, more, top):
    assert run("truncate", top / "roots/u-rolls-0").status in (0, 1)
    (top / "home/around").mkdir()
    give(top / "home/around")
    lead(top / "home" / place, top / "roots" if place == "link" else top, USER)
    before = state(top)
    done = kafkalog("restore", "--prune", "--older-than", "0s", *more, str(top / "home" / place))
    assert done.status == 8, names(done)
    assert "owner-not-allowed" in names(done)
    assert state(top) == before


def test_a_link_around_a_new_quarantine(top):
    """Root makes no directory, not even the owner's, where only a link of the owner says so."""
    lead(top / "home/link", top / "roots", USER)
    before = state(top / "roots")
    done = kafkalog("truncate", "--to", "5", "--quarantine", f"{top}/home/link/kept", str(top / "home/d0/u-rolls-0"))
    assert done.status == 8, names(done)
    assert state(top / "roots") == before


def test_links_in_a_circle(top):
    lead(top / "home/link", top / "home/link", USER)
    assert run("retain", top / "home/link").status in (2, 8)


class Moments:
    """At the call with this number of the file system, of all calls, the log dir is exchanged for the link, or back."""

    def __init__(self, monkeypatch, log_dir, target):
        self.left, self._log_dir, self._target, self._is_at_it = 0, log_dir, target, False
        for name in ("open", "stat", "listdir", "scandir", "readlink", "mkdir", "rename", "unlink", "access", "getcwd"):
            monkeypatch.setattr(os, name, self._after(getattr(os, name)))

    def _after(self, real):
        def call(*words, **named):
            if not self._is_at_it:
                self.left -= 1
                if self.left == 0:
                    self.exchange()
            return real(*words, **named)

        return call

    def exchange(self):
        self._is_at_it = True
        rights, away = (os.geteuid(), os.getegid()), f"{self._log_dir}.away"
        os.seteuid(0)
        if os.path.islink(self._log_dir):
            os.unlink(self._log_dir)
            os.rename(away, self._log_dir)
        else:
            os.rename(self._log_dir, away)
            os.symlink(self._target, self._log_dir)
            os.lchown(self._log_dir, USER, USER)
        os.setegid(rights[1])
        os.seteuid(rights[0])
        self._is_at_it = False


@pytest.mark.parametrize("begins_as", ["link", "directory"])
@pytest.mark.parametrize("command", ["verify"])
def test_at_every_moment(command, begins_as, top, monkeypatch):
    log_dir = top / "home/d0"
    for partition in (*(top / "roots").glob("*-*/"), *log_dir.glob("*-*/")):
        if partition.name != "u-rolls-0":
            shutil.rmtree(partition)
    before = state(top / "roots")
    last = max((log_dir / "u-rolls-0").glob("*.log"))
    for path in set((log_dir / "u-rolls-0").glob("0*")) - {last}:  # one segment, without indexes: each more takes the same calls
        path.unlink()
    moments = Moments(monkeypatch, log_dir, top / "roots")
    number = 0
    while moments.left <= 0:
        number += 1
        moments.left = -1
        if log_dir.is_symlink() != (begins_as == "link"):
            moments.exchange()
        moments.left = number
        run(command, log_dir / "u-rolls-0")
        assert state(top / "roots") == before, number
        if number > 1000:
            break
    assert number > 50


EXCHANGES = """
import os, random, sys, time
path, target, user = sys.argv[1], sys.argv[2], int(sys.argv[3])
os.setgroups([]); os.setgid(user); os.setuid(user)
print("at work", flush=True)
while True:
    time.sleep(random.uniform(0, 0.02))
    os.rename(path, path + "~")
    os.symlink(target, path)
    time.sleep(random.uniform(0, 0.02))
    os.unlink(path)
    os.rename(path + "~", path)
"""


@pytest.mark.parametrize("command", ["retain", "verify"])
def test_a_real_race(command, top):
    before, log_dir = state(top / "roots"), top / "home/d0"
    statuses = set()
    words = [sys.executable, "-c", EXCHANGES, str(log_dir), str(top / "roots"), str(USER)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as attacker:
        try:
            assert attacker.stdout.readline() == b"at work\n"
            until = time.monotonic() + 4
            while time.monotonic() < until or len(statuses) < 2:
                statuses.add(run(command, log_dir).status)
                assert state(top / "roots") == before
        finally:
            attacker.kill()
    assert statuses <= {0, 1, 2, 4, 8}
