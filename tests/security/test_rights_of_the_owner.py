"""Root works on the log dirs of another user with that user's rights: what it makes is that user's, what is not stays alone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest

from engine.files import Files, NotAllowed, acting_as, acting_as_root, acting_owner, owner_of
from tests.support.needs import lacking
from tests.support.other_process import lock_held
from tests.support.run import kafkalog
from tests.support.users import GROUP, USER, as_root, give, state

pytestmark = as_root

NOW = "1764000000000"
COMMANDS = {
    "append": ("append", "--input-format", "text", "--input", os.devnull),
    "compact": ("compact", "--config", "cleanup.policy=compact", "--force"),
    "delete-records": ("delete-records", "--before", "5"),
    "recover": ("recover", "--salvage", "--jobs", "4"),
    "retain": ("retain", "--config", "retention.ms=1"),
    "roll": ("roll",),
    "truncate": ("truncate", "--to", "5"),
    "verify": ("verify", "--rebuild"),
}
KEEPING = ("delete-records", "recover", "truncate")  # with a quarantine, also if nobody asks for one


@pytest.fixture
def log_dir(damaged):
    """It belongs to another user, and lacks an index."""
    (damaged / "u-rolls-0/00000000000000000000.index").write_bytes(b"")
    give(damaged)
    return damaged


def not_theirs(top):
    return [path for path in (top, *top.rglob("*")) if (path.lstat().st_uid, path.lstat().st_gid) != (USER, GROUP)]


@pytest.mark.parametrize("command", COMMANDS)
def test_all_that_is_made_belongs_to_the_owner(command, log_dir, top):
    before, rights = state(log_dir), (os.geteuid(), os.getegid(), os.getgroups())
    partition = str(log_dir / "u-rolls-0")
    done = kafkalog(*COMMANDS[command], *(() if command == "verify" else ("--now", NOW)), partition)
    assert done.status in (0, 1, 4), done.err
    assert (os.geteuid(), os.getegid(), os.getgroups()) == rights
    assert acting_owner() is None
    assert not_theirs(log_dir) == []
    assert state(log_dir) != before
    kept = [path for path in top.iterdir() if "quarantine" in path.name]
    assert len(kept) == (command in KEEPING)
    for quarantine in kept:
        assert not_theirs(quarantine) == []
        assert kafkalog("restore", str(quarantine)).status == 0
        assert not_theirs(log_dir) == []
        after = state(log_dir)
        after.pop(".lock", None)
        before.pop(".lock", None)
        assert after == before


def test_the_whole_log_dir(log_dir):
    assert kafkalog("recover", "--now", NOW, str(log_dir)).status in (0, 1, 4)
    assert kafkalog("recover", "--now", NOW, "--mark-clean", str(log_dir)).status in (0, 1)
    assert not_theirs(log_dir) == []


def test_a_dry_run_changes_nothing(log_dir, top):
    before = state(top)
    assert kafkalog("recover", "--dry-run", "--now", NOW, str(log_dir)).status in (0, 1, 4)
    assert state(top) == before
    kafkalog("truncate", "--to", "5", "--now", NOW, str(log_dir / "u-rolls-0"))
    [kept] = [path for path in top.iterdir() if "quarantine" in path.name]
    before = state(top)
    assert kafkalog("restore", "--dry-run", str(kept)).status == 0
    assert {path: held for path, held in state(top).items() if path != f"{kept.name}/lock"} == before


def test_a_new_partition_belongs_to_the_owner(log_dir):
    done = kafkalog("append", "--create", "--input-format", "text", "--input", os.devnull, str(log_dir / "new-0"))
    assert done.status == 0, done.err
    assert not_theirs(log_dir) == []


def test_files_that_root_named_are_roots(log_dir, top):
    private = top / "private"
    private.mkdir(mode=0o700)
    (private / "server.properties").write_text("retention.ms=1\n")
    (private / "input").write_text("value\n")
    settings = ("--config-file", str(private / "server.properties"), "--metrics-textfile", str(private / "m.prom"))
    done = kafkalog("append", "--input-format", "text", "--input", str(private / "input"), "--now", NOW, *settings,
                    str(log_dir / "u-rolls-0"))  # fmt: skip
    assert done.status in (0, 1, 8), done.err
    done = kafkalog("recover", "--now", NOW, *settings, "--quarantine", str(private / "kept"), str(log_dir))
    assert done.status in (0, 1, 4), done.err
    assert (private / "m.prom").stat().st_uid == 0
    assert not_theirs(private / "kept") == []
    done = kafkalog("restore", str(private / "kept"))
    assert done.status == 0, done.err
    assert not_theirs(log_dir) == []


def test_a_quarantine_that_nobody_needs_goes(log_dir, top):
    for _ in range(2):
        assert kafkalog("recover", "--no-quarantine", "--now", NOW, str(log_dir)).status in (0, 1, 4)
    assert kafkalog("recover", "--now", NOW, str(log_dir)).status == 0
    assert [path.name for path in top.iterdir()] == ["d0"]


def test_relative_paths(log_dir, top):
    assert kafkalog("recover", "--now", NOW, "d0", cwd=top).status in (0, 1, 4)
    [kept] = [path.name for path in top.iterdir() if "quarantine" in path.name]
    assert kafkalog("restore", kept, cwd=top).status == 0
    assert not_theirs(log_dir) == []


def test_partitions_of_another_user_in_a_directory_of_roots(log_dir, top):
    (top / "copy").mkdir(mode=0o755)
    shutil.copytree(log_dir / "u-rolls-0", top / "copy/u-rolls-0")
    give(top / "copy/u-rolls-0")
    done = kafkalog("recover", "--salvage", "--now", NOW, str(top / "copy/u-rolls-0"))
    assert done.status in (0, 1, 4), done.err
    assert not_theirs(top / "copy/u-rolls-0") == []
    [kept] = [path for path in top.iterdir() if "quarantine" in path.name]
    done = kafkalog("restore", str(kept))
    assert done.status == 0, done.err
    assert not_theirs(top / "copy/u-rolls-0") == []


# ---- what the owner may not do, root does not do for the owner


def refused(top, *words):
    before = state(top)
    done = kafkalog(*words)
    assert done.status in (2, 8), done.err
    after = state(top)
    for path in [path for path in after if path.endswith(".lock") and path not in before]:
        del after[path]
    assert after == before
    assert "\n  do   " in done.err
    return done.err


@pytest.mark.parametrize("command", COMMANDS)
def test_files_of_roots_are_left_alone(command, log_dir, top):
    """Left by somebody, or hard links: a file has one owner, whatever it is called."""
    victim = top / "victim"
    victim.write_bytes((log_dir / "u-rolls-0/00000000000000000079.log").read_bytes())
    (log_dir / "u-rolls-0/00000000000000000079.log").unlink()
    (log_dir / "u-rolls-0/00000000000000000079.log").hardlink_to(victim)
    error = refused(top, *COMMANDS[command], str(log_dir / "u-rolls-0"))
    assert "error[owner-not-allowed]" in error
    assert "it is a hard link" in error
    assert "chown" not in error, "it would give away the file that is linked"
    assert f"do   find / -xdev -samefile {log_dir}/u-rolls-0/00000000000000000079.log" in error


@pytest.mark.parametrize("command", COMMANDS)
def test_a_link_into_roots_directory_is_left_alone(command, log_dir, top):
    shutil.copytree(log_dir / "u-rolls-0", top / "roots/u-rolls-0")
    shutil.rmtree(log_dir / "u-rolls-0")
    (log_dir / "u-rolls-0").symlink_to(top / "roots/u-rolls-0")
    error = refused(top, *COMMANDS[command], str(log_dir / "u-rolls-0"))
    assert "error[owner-not-allowed]" in error
    assert "a symbolic link to" in error
    assert "chown" not in error
    assert not (top / "roots/.lock").exists()


def test_behind_a_link_root_makes_nothing_but_takes_what_locks_there_are(log_dir, top):
    (top / "roots").mkdir()
    (log_dir / "u-rolls-0").rename(top / "roots/u-rolls-0")
    (log_dir / "u-rolls-0").symlink_to(top / "roots/u-rolls-0")
    assert kafkalog("recover", "--salvage", "--now", NOW, str(log_dir)).status in (0, 1, 4)
    assert [path.name for path in (top / "roots").iterdir()] == ["u-rolls-0"]
    (top / "roots/.lock").touch(mode=0o600)
    with lock_held(top / "roots/.lock"):
        assert "error[log-dir-locked]" in kafkalog("recover", str(log_dir)).err
    done = kafkalog("recover", str(log_dir))
    assert (done.status, done.err) == (4, "")  # the gap that the damage left is still reported


def test_what_the_owner_may_not_change_itself_is_left_alone(log_dir, top):
    (log_dir / "u-rolls-0").chmod(0o500)
    assert f"do   sudo -u '#{USER}' chmod -R u+rwX {log_dir}/u-rolls-0" in refused(top, "recover", str(log_dir))


def test_advice_gives_nothing_away_that_the_owner_linked_in(log_dir, top):
    """The owner may exchange the file before root runs the command: it has the rights of the owner."""
    log = log_dir / "u-rolls-0/00000000000000000079.log"
    os.chown(log, 0, 0)
    error = refused(top, "recover", str(log_dir))
    assert f"do   sudo -u '#{USER}' cp -p {log} {log}.own && sudo -u '#{USER}' mv {log}.own {log}    #" in error
    assert "chown" not in error
    if top.stat().st_mode & 0o005 == 0o005:  # where its owner can walk to
        subprocess.run(f"cp -p {log} {log}.own && mv {log}.own {log}", shell=True, check=True, user=USER, group=GROUP, extra_groups=[])
        assert kafkalog("recover", str(log_dir)).status in (0, 1, 4)
    os.chown(log, USER, GROUP)
    os.chown(log_dir / "u-rolls-0", 0, 0)
    assert f"do   chown -h {USER}:{GROUP} {log_dir}/u-rolls-0" in refused(top, "truncate", "--to", "3", str(log_dir / "u-rolls-0"))


def test_a_lock_that_is_a_link(log_dir, top):
    (log_dir / ".lock").unlink(missing_ok=True)
    for target in ("nowhere", "../elsewhere"):
        (top / "elsewhere").touch(mode=0o600)
        (log_dir / ".lock").symlink_to(target)
        error = refused(top, "recover", str(log_dir))
        assert f"{log_dir}/.lock: a symbolic link to {target}, not a file" in error
        assert f"do   stop the broker that uses this log dir, then: rm {log_dir}/.lock    #" in error
        (log_dir / ".lock").unlink()


def test_a_lock_of_roots(log_dir, top):
    (log_dir / ".lock").unlink(missing_ok=True)
    (log_dir / ".lock").touch(mode=0o600)
    error = refused(top, "recover", str(log_dir))
    assert f"do   sudo -u '#{USER}' rm {log_dir}/.lock    # if no broker runs there; it is created again" in error


def test_a_user_whom_a_namespace_does_not_map(log_dir):
    unshared = ["unshare", "-r", sys.executable, "-m", "kafkalog_cli", "recover", str(log_dir)]
    if subprocess.run(["unshare", "-r", "true"], capture_output=True, check=False).returncode:
        lacking("user namespaces")
    done = subprocess.run(unshared, capture_output=True, text=True, check=False)
    assert done.returncode == 8
    assert "this user namespace (a container, unshare) does not map that user" in done.stderr
    assert "sudo" not in done.stderr


def test_one_user_at_a_time(log_dir, top):
    shutil.copytree(log_dir, top / "d1")
    give(top / "d1", USER + 1)
    assert "one user at a time" in refused(top, "recover", str(log_dir), str(top / "d1"))
    os.lchown(top / "d1", USER, GROUP)
    assert "one user at a time" in refused(top, "recover", str(top / "d1"))


def test_a_system_that_refuses(log_dir, top, monkeypatch):
    def refuse(_groups):
        raise PermissionError(1, "Operation not permitted")

    rights = (os.geteuid(), os.getegid(), os.getgroups())
    for name in ("setgroups", "setegid"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, refuse if name == "setgroups" else lambda group: refuse(group) if group else None)
            error = refused(top, "recover", str(log_dir))
        assert "error[owner-not-allowed]" in error
        assert f"do   run the command as that user: sudo -u '#{USER}' kafkalog" in error
        assert (os.geteuid(), os.getegid(), os.getgroups()) == rights


def test_rights_are_given_back_whatever_happens(log_dir):
    rights = (os.geteuid(), os.getegid(), os.getgroups())
    with pytest.raises(KeyError), acting_as(owner_of(str(log_dir)), [str(log_dir)]):
        assert (os.geteuid(), os.getegid(), os.getgroups()) == (USER, GROUP, [GROUP])
        with acting_as_root():
            assert (os.geteuid(), os.getegid()) == rights[:2]
        assert (os.geteuid(), os.getegid()) == (USER, GROUP)
        raise KeyError
    assert (os.geteuid(), os.getegid(), os.getgroups()) == rights


def test_a_group_that_the_owner_does_not_belong_to_is_not_taken(tmp_path):
    os.chown(tmp_path, USER, 0)  # as in a directory whose group is inherited
    assert owner_of(str(tmp_path)).groups == (65534,)
    os.chown(tmp_path, 1, 0)  # a user whom the system knows
    owner = owner_of(str(tmp_path))
    assert 0 not in (owner.group, *owner.groups)


def test_a_directory_that_was_exchanged_for_another_users(tmp_path):
    (tmp_path / "theirs").mkdir()
    give(tmp_path / "theirs")
    owner = owner_of(str(tmp_path / "theirs"))
    give(tmp_path / "theirs", USER + 1)
    with pytest.raises(NotAllowed), acting_as(owner, [str(tmp_path / "theirs")]):
        pytest.fail("not reached")


SPY = """
import os, sys
from importlib.abc import MetaPathFinder

class Spy(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if os.geteuid() != 0:
            print("LATE", name)
        return None

sys.meta_path.insert(0, Spy())
from kafkalog_cli.main import main
main(sys.argv[1:])
"""


@pytest.mark.parametrize("words", [("recover", "--salvage"), ("verify", "--rebuild"), ("truncate", "--to", "3")])
def test_nothing_is_imported_with_the_rights_of_the_owner(words, log_dir):
    """Who may not read root's Python would fail in the middle."""
    done = subprocess.run([sys.executable, "-c", SPY, *words, str(log_dir / "u-rolls-0")], capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1, 4), done.stderr
    assert [line for line in done.stdout.splitlines() if line.startswith("LATE")] == []


@pytest.mark.parametrize("words", [("restore",), ("restore", "--prune", "--older-than", "0s", "--yes")])
def test_nothing_is_imported_with_the_rights_of_the_owner_of_a_quarantine(words, log_dir, top):
    assert kafkalog("truncate", "--to", "3", "--now", NOW, str(log_dir / "u-rolls-0")).status == 0
    [kept] = [path for path in top.iterdir() if "quarantine" in path.name]
    done = subprocess.run([sys.executable, "-c", SPY, *words, str(kept)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stdout.splitlines() if line.startswith("LATE")] == []


def test_nothing_is_imported_while_a_commit_is_undone(log_dir):
    """Of Spark's sink: a journal, and a job that is dead."""
    job = log_dir / ".kafkalog-staging/job"
    job.mkdir(parents=True)
    own = dict.fromkeys(("recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "replication-offset-checkpoint",
                         "cleaner-offset-checkpoint", ".kafka_cleanshutdown"))  # fmt: skip
    journal = {"version": 1, "commit": "c", "ends": {"u-rolls-0": 3}, "new": [], "replaced": [], "own": own, "settings": {}}
    (job / "commit.json").write_text(json.dumps(journal))
    give(log_dir / ".kafkalog-staging")
    words = [sys.executable, "-c", SPY, "restore", str(log_dir)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, "undone" in done.stdout) == (1, True), done.stdout + done.stderr
    assert [line for line in done.stdout.splitlines() if line.startswith("LATE")] == []


def test_files_below_a_pinned_directory_are_those_of_its_descriptor(tmp_path):
    """Every way to a file goes through it."""
    files, top = Files(), tmp_path / "top"
    (top / "below").mkdir(parents=True)
    (top / "below/file").write_bytes(b"right")
    with files.held_open(f"{top}"):
        top.rename(tmp_path / "moved")
        (top / "below").mkdir(parents=True)
        (top / "below/file").write_bytes(b"wrong one")
        path = f"{top}/below/file"
        assert files.read(path, 100) == b"right"
        assert files.info(path).size == 5
        assert files.list(f"{top}") == ["below"]
        assert files.plain(f"{top}/below") == ["file"]
        assert files.special(f"{top}/below") == {}
        assert files.exists(path)
        assert files.resolve(path) == str(tmp_path / "moved/below/file")
        assert files.space(path).free > 0
        with files.open_writable(f"{top}/below/new", create=True) as new:
            new.write_at(0, b"new")
        files.set_modified(f"{top}/below/new", 1_000_000_000)
        files.rename(f"{top}/below/new", f"{top}//below/./newer")
        files.make_directory(f"{top}/made")
        files.sync_directory(f"{top}/made")
        files.remove_directory(f"{top}/made")
        files.lock(f"{top}/.lock").release()
        files.remove(path)
    assert (tmp_path / "moved/below/newer").read_bytes() == b"new"
    assert (tmp_path / "moved/below/newer").stat().st_mtime == 1
    assert not (tmp_path / "moved/below/file").exists()
    assert (top / "below/file").read_bytes() == b"wrong one"
    assert sorted(path.name for path in top.rglob("*")) == ["below", "file"]
