"""What a wrong path gets: one error and a command that works; and dry runs of what is not permitted."""

from __future__ import annotations

import errno
import shutil
import subprocess

import pytest

from engine.files import ReadOnlyFiles, unwritable
from tests.support.permissions import without_permission
from tests.support.run import kafkalog
from tests.support.users import USER, as_root, give

PARTITION = "multi-2"


@pytest.fixture
def top(own_corpus, tmp_path):
    """A log dir, named in relative paths."""
    shutil.copytree(own_corpus / "kafka-4.3.1/logs/clean/d0", tmp_path / "d0")
    return tmp_path


def advised(done):
    """The only advice."""
    [line] = [line for line in done.err.splitlines() if line.startswith("  do   ")]
    return line.removeprefix("  do   ").partition("    # ")[0]


@pytest.mark.parametrize("path", ["none", "d0/none", f"d0/{PARTITION}/none/0.log", "d0/meta.properties", f"d0/{PARTITION}/00000000000000000000.log"])
@pytest.mark.parametrize("words", [("recover",), ("recover", "--dry-run"), ("retain",), ("truncate", "--to", "5"), ("fetch",),
                                   ("verify",), ("roll",), ("delete-records", "--before", "3")], ids=lambda words: words[0])
def test_a_wrong_path_gets_a_command_that_works(words, path, top, monkeypatch):
    monkeypatch.chdir(top)
    (top / "d0/.lock").touch()
    if words[0] in ("fetch", "verify") and path.endswith("0.log") and "none" not in path:
        return  # they take files
    done = kafkalog(*words, path)
    assert done.status in (2, 8), done.err
    assert "partitions done" not in done.err
    command = advised(done)
    if command.startswith("kafkalog "):
        assert kafkalog(*command.split()[1:]).status == 0
    else:
        subprocess.run(command, shell=True, check=True, capture_output=True)


READERS = (("ls",), ("check",), ("du",), ("verify",), ("groups",), ("txn", "list"), ("grep", "x"), ("fetch", "-t", PARTITION[:-2]),
           ("export", "-t", PARTITION[:-2], "--as", "jsonl", "--to", "-"), ("undelete", "--list"), ("dump-log",))  # fmt: skip


@as_root
@pytest.mark.parametrize("words", READERS, ids=lambda words: words[0])
def test_without_permission_the_owner_is_named(words, top, monkeypatch):
    monkeypatch.chdir(top)
    give(top / "d0")
    for closed in ("d0", f"d0/{PARTITION}", f"d0/{PARTITION}/00000000000000000000.log"):
        with without_permission(top / closed, 0o700):
            done = kafkalog(*words, "d0")
        if words[0] in ("du", "groups", "txn", "undelete") and closed.endswith(".log"):
            continue  # they do not open this file
        assert done.status == 8
        assert f"  do   sudo -u '#{USER}' kafkalog …    # the same command as the owner of " in done.err, (closed, done.err)


@as_root
def test_a_mode_that_excludes_its_owner_is_changed_by_the_owner(top, monkeypatch):
    monkeypatch.chdir(top)
    give(top / "d0")
    with without_permission(top / f"d0/{PARTITION}"):
        assert advised(kafkalog("ls", "d0")) == f"sudo -u '#{USER}' chmod u+rX d0/{PARTITION}"


def test_the_owner_opens_the_mode(top, monkeypatch):
    monkeypatch.chdir(top)
    with without_permission(top / "d0"):
        done = kafkalog("ls", "d0")
        assert done.status == 8
        subprocess.run(advised(done), shell=True, check=True)
    (top / "d0").chmod(0)
    subprocess.run(advised(done), shell=True, check=True)
    assert kafkalog("ls", "d0").status == 0


@pytest.mark.parametrize("words", [("truncate", "--to", "5"), ("delete-records", "--before", "5")])
def test_a_usage_error_has_no_totals(words, top):
    done = kafkalog(*words, str(top / "d0"))
    assert done.status == 2
    assert "partitions done" not in done.err
    subprocess.run(advised(done), shell=True, check=True, capture_output=True)


def test_a_file_that_is_not_of_a_partition_gets_one_error(top):
    (top / "d0/meta.properties").unlink()
    done = kafkalog("verify", str(top / "d0/recovery-point-offset-checkpoint"))
    assert done.status == 2
    assert [line.partition("]")[0] for line in done.err.splitlines() if "[" in line] == ["error[usage"]


@pytest.mark.parametrize("words", [("recover",), ("truncate", "--to", "5"), ("verify", "--rebuild")])
@pytest.mark.parametrize("closed", ["", "d0", f"d0/{PARTITION}"])
def test_a_dry_run_says_what_is_not_permitted(words, closed, top):
    partition = top / "d0" / PARTITION
    (partition / "00000000000000000000.timeindex").write_bytes(b"")
    with without_permission(top / closed, 0o555):
        planned = kafkalog(*words, "--dry-run", str(partition))
    assert planned.status == 8, planned.out
    assert "without --dry-run" in planned.err
    assert "dry run: nothing was changed" in planned.out.decode()


def test_a_dry_run_of_what_is_permitted_ends_as_before(top):
    assert kafkalog("recover", "--dry-run", str(top / "d0" / PARTITION)).status == 0


@pytest.mark.parametrize("words", [("recover",), ("truncate", "--to", "5"), ("verify", "--rebuild")])
def test_a_dry_run_on_a_volume_that_is_mounted_read_only_says_so(words, top, monkeypatch):
    """Not the user is wrong there, but the mount."""
    (top / "d0" / PARTITION / "00000000000000000000.timeindex").write_bytes(b"")
    space = ReadOnlyFiles.space
    monkeypatch.setattr("engine.log.logdir.log_dirs.may_write", lambda _path: False)
    monkeypatch.setattr(ReadOnlyFiles, "space", lambda files, path: space(files, path)._replace(is_read_only=True))
    planned = kafkalog(*words, "--dry-run", str(top / "d0" / PARTITION))
    assert planned.status == 8
    assert f"{top}/d0: its file system is mounted read-only: without --dry-run the command would fail" in planned.err
    assert f"  do   findmnt -T {top}/d0    # shows the mount; " in planned.err
    assert "as that user" not in planned.err


def test_a_refused_change_on_such_a_volume_says_so_too():
    error = unwritable("/ro/d0/.lock", OSError(errno.EROFS, "Read-only file system"))
    assert str(error) == "/ro/d0/.lock: Read-only file system"
    assert error.do is not None
    assert error.do.startswith("findmnt -T /ro/d0 ")
