"""What commands keep in quarantines, and one `restore` for all of them; what can be listed and deleted."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from engine.files import ReadOnlyFiles
from engine.files.owner import rights_of
from tests.support.file_work import tree
from tests.support.json_output import objects_of
from tests.support.run import kafkalog
from tests.support.users import GROUP, USER, as_root, public_directory

NOW = "1700003600000"
POLICY = ("--config", "cleanup.policy=compact", "--config", "min.cleanable.dirty.ratio=0")


@pytest.fixture(autouse=True)
def _exact_sizes(monkeypatch):
    for command in ("RECOVER", "RESTORE", "RETAIN", "TRUNCATE", "VERIFY", "COMPACT", "DELETE_RECORDS", "ROLL"):
        monkeypatch.setenv(f"KAFKALOG_{command}_BYTES", "1")


@pytest.fixture
def log_dir(tmp_path):
    """A log dir with a partition of several segments, without a clean stop."""
    data = tmp_path / "data"
    data.mkdir()
    source = tmp_path / "in"
    source.write_text("".join(f"k{number % 3}:v{number}\n" for number in range(24)))
    made = kafkalog("append", "--create", "--now", NOW, "--input-format", "text", "--batch-size", "120", "--input", str(source),
                    "--config", "segment.bytes=400", str(data / "t-0"))  # fmt: skip
    assert made.status == 0, made.err
    source.unlink()
    return data


def files_of(directory):
    return {name: data for name, data in tree(ReadOnlyFiles(), str(directory)).items() if name != ".lock"}


def size_of(directory):
    return sum(path.stat().st_blocks * 512 for path in Path(directory).rglob("*") if path.is_file())


def damage(partition, at):
    last = max(partition.glob("*.log"))
    data = bytearray(last.read_bytes())
    data[at] ^= 1
    last.write_bytes(data)


COMMANDS = {
    "truncate": ("truncate", "--to", "9"),
    "truncate-fully": ("truncate", "--fully", "--to", "5000"),
    "delete-records": ("delete-records", "--before", "15"),
    "retain": ("retain", "--config", "retention.bytes=300", "--config", "retention.ms=-1"),
    "compact": ("compact", "--force", *POLICY),
    "append": ("append", "--input-format", "text"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_undone_byte_for_byte(log_dir, name, tmp_path):
    (tmp_path / "more").write_text("a\nb\n")
    kept = tmp_path / "kept"
    words = [*COMMANDS[name], "--now", NOW, "--quarantine", str(kept), str(log_dir / "t-0")]
    if name == "append":
        words[1:1] = ["--input", str(tmp_path / "more")]
    before = files_of(log_dir)
    planned = kafkalog(*words, "--dry-run")
    assert files_of(log_dir) == before
    assert not kept.exists()
    done = kafkalog(*words)
    assert done.status in (0, 1), done.err
    assert files_of(log_dir) != before
    line = done.out.decode().splitlines()[-1]
    assert line.startswith("kept in quarantine: "), "and in the dry run the same number, and the place"
    assert line.endswith(f"; undo with: kafkalog restore {kept}")
    size = line.split()[3]
    assert f"would keep in quarantine: {size} bytes, in {kept}" in planned.out.decode().splitlines()
    restored = kafkalog("restore", str(kept))
    assert (restored.status, restored.err) == (0, "")
    assert files_of(log_dir) == before
    shutil.rmtree(kept)
    for dry_run in (True, False):
        words_of_run = [*words, "--format", "jsonl", *(["--dry-run"] if dry_run else [])]
        [said] = [one for one in objects_of(kafkalog(*words_of_run).out) if one["type"] == "kept"]
        undo = None if dry_run else f"kafkalog restore {kept}"
        assert (said["path"], said["bytes"], said["undo"], said["dry_run"]) == (str(kept), int(size), undo, dry_run)
    assert ".deleted" not in restored.out.decode(), "names of a moment are no matter"


@pytest.mark.parametrize("words", [("truncate", "--to", "9"), ("delete-records", "--before", "15")], ids=lambda words: words[0])
def test_these_keep_by_default(log_dir, words):
    before = files_of(log_dir)
    done = kafkalog(*words, "--now", NOW, str(log_dir / "t-0"))
    assert done.status == 0, done.err
    quarantine = f"{log_dir}.quarantine-20231114T231320Z"
    assert f"undo with: kafkalog restore {quarantine}" in done.out.decode()
    assert kafkalog("restore", quarantine).status == 0
    assert files_of(log_dir) == before
    shutil.rmtree(quarantine)
    done = kafkalog(*words, "--now", NOW, "--no-quarantine", str(log_dir / "t-0"))
    assert done.status == 0
    assert b"quarantine" not in done.out
    assert sorted(path.name for path in log_dir.parent.iterdir()) == ["data"]


def test_rebuild_keeps_what_it_replaces(log_dir):
    partition = log_dir / "t-0"
    for index in sorted(partition.glob("*.timeindex"))[:2]:
        index.write_bytes(b"x" * 13)
    before = files_of(log_dir)
    dry = kafkalog("verify", "--rebuild", "--dry-run", "--now", NOW, str(log_dir))
    assert (files_of(log_dir), list(log_dir.parent.iterdir())) == (before, [log_dir])
    done = kafkalog("verify", "--rebuild", "--now", NOW, str(log_dir))
    assert (done.status, dry.status) == (1, 1), done.err
    quarantine = f"{log_dir}.quarantine-20231114T231320Z"
    kept = f"kept in quarantine: 26 bytes; undo with: kafkalog restore {quarantine}"
    assert done.out.decode().splitlines()[-1] == kept
    assert dry.out.decode().splitlines()[-2] == f"would keep in quarantine: 26 bytes, in {quarantine}"
    assert kafkalog("restore", quarantine).status == 0
    assert files_of(log_dir) == before
    shutil.rmtree(quarantine)
    objects = objects_of(kafkalog("verify", "--rebuild", "--now", NOW, "--format", "jsonl", str(log_dir)).out)
    assert [one["path"] for one in objects if one["type"] == "kept"] == [quarantine]
    assert kafkalog("restore", quarantine).status == 0
    done = kafkalog("verify", "--rebuild", "--no-quarantine", "--now", NOW, str(log_dir))
    assert (done.status, b"quarantine" in done.out) == (1, False)


def test_append_goes_on_where_damage_begins_if_that_is_kept(log_dir, tmp_path):
    (tmp_path / "more").write_text('{"value":"a"}\n')
    damage(log_dir / "t-0", 80)  # in the first of several batches
    before = files_of(log_dir)
    words = ("append", "--now", NOW, "--recovery-point", "0", "--input", str(tmp_path / "more"))
    refused = kafkalog(*words, str(log_dir / "t-0"))
    assert refused.status == 4
    assert "error[log-damaged]" in refused.err
    assert files_of(log_dir) == before
    done = kafkalog(*words, "--quarantine", str(tmp_path / "kept"), str(log_dir / "t-0"))
    assert done.status == 1, done.err
    assert "truncated" in done.out.decode()
    assert kafkalog("verify", str(log_dir)).status == 0
    assert kafkalog("restore", str(tmp_path / "kept")).status == 0
    assert files_of(log_dir) == before


def test_append_keeps_a_damaged_end_that_a_broker_would_drop(log_dir, tmp_path):
    (tmp_path / "more").write_text('{"value":"a"}\n')
    damage(log_dir / "t-0", -3)
    before = files_of(log_dir)
    words = ("append", "--now", NOW, "--recovery-point", "0", "--input", str(tmp_path / "more"))
    done = kafkalog(*words, "--quarantine", str(tmp_path / "kept"), str(log_dir / "t-0"))
    assert done.status == 1, done.err
    assert kafkalog("restore", str(tmp_path / "kept")).status == 0
    assert files_of(log_dir) == before


def test_space_is_not_freed_by_moving_it(log_dir, tmp_path):
    before = files_of(log_dir)
    done = kafkalog("retain", "--free", "1TiB", "--quarantine", str(tmp_path / "kept"), str(log_dir))
    assert done.status == 2
    assert "moving files there frees no space" in done.err
    assert files_of(log_dir) == before


# ---- what there is


def test_list_and_prune(log_dir, tmp_path):
    partition = str(log_dir / "t-0")
    kafkalog("truncate", "--to", "20", "--now", NOW, partition)
    kafkalog("truncate", "--to", "9", partition)
    old = f"{log_dir}.quarantine-20231114T231320Z"
    for place in (log_dir, tmp_path):  # beside a log dir, and below a directory
        listed = kafkalog("restore", "--list", "--format", "json", str(place))
        rows = objects_of(listed.out)
        assert [(row["command"], row["state"], row["log_dirs"]) for row in rows] == [("truncate", "whole", [str(log_dir)])] * 2
        assert [row["created_ms"] == int(NOW) for row in rows].count(True) == 1
        assert all(row["bytes"] == size_of(row["path"]) for row in rows)
    assert f"{old}: truncate of {log_dir}, 2023-11-14T23:13:20.000Z" in kafkalog("restore", "--list", str(tmp_path)).out.decode()
    dry = kafkalog("restore", "--prune", "--older-than", "30d", "--dry-run", str(log_dir))
    assert f"would delete {old}: " in dry.out.decode()
    assert dry.out.decode().splitlines()[-2:] == [f"would delete {size_of(old)} bytes", "dry run: nothing was changed"]
    assert Path(old).exists()
    done = kafkalog("restore", "--prune", "--older-than", "30d", str(log_dir))
    assert done.status == 0, done.err
    left = sorted(path.name for path in tmp_path.iterdir())
    assert len(left) == 2
    assert not Path(old).exists()
    assert kafkalog("restore", "--prune", "--older-than", "30d", str(log_dir)).out == b"deleted 0 bytes\n"


def test_list_of_a_partition_shows_what_holds_something_of_it(log_dir, tmp_path):
    shutil.copytree(log_dir / "t-0", log_dir / "t-01")
    shutil.copytree(log_dir / "t-0", log_dir / "u-0")
    shutil.copytree(log_dir, tmp_path / "data-2")  # a log dir with a name as a partition has it
    for name in ("t-0", "t-01"):
        assert kafkalog("truncate", "--to", "9", "--now", NOW, str(log_dir / name)).status == 0
    of_t, of_t01 = f"{log_dir}.quarantine-20231114T231320Z", f"{log_dir}.quarantine-20231114T231320Z-2"
    assert kafkalog("truncate", "--to", "9", "--now", NOW, str(tmp_path / "data-2/t-0")).status == 0

    def listed(*words, **options):
        done = kafkalog("restore", "--list", "--format", "json", *words, **options)
        assert done.status == 0, done.err
        return [one["path"] for one in objects_of(done.out)]

    assert listed(str(log_dir / "t-0")) == [of_t]
    assert listed("data/t-0/", cwd=tmp_path) == [of_t]
    assert listed(str(log_dir / "t-01")) == [of_t01]
    assert listed(str(log_dir / "u-0")) == []
    assert listed(str(tmp_path / "data-2")) == [f"{tmp_path}/data-2.quarantine-20231114T231320Z"]
    (tmp_path / "link").symlink_to(log_dir)
    assert listed(str(tmp_path / "link/t-0")) == [of_t]
    shutil.rmtree(log_dir / "t-0")
    assert listed(str(log_dir / "t-0")) == [of_t], "also where it is not there any more"
    pruned = kafkalog("restore", "--prune", "--older-than", "1s", "--yes", str(log_dir / "t-0"))
    assert (pruned.status, "a partition" in pruned.err, Path(of_t).exists()) == (2, True, True)


def test_sizes_are_what_is_taken_on_the_disk(log_dir):
    index = min((log_dir / "t-0").glob("*.index"))
    with index.open("r+b") as file:
        file.truncate(50 << 20)
    assert kafkalog("truncate", "--fully", "--to", "5000", "--now", NOW, str(log_dir / "t-0")).status == 0
    [row] = objects_of(kafkalog("restore", "--list", "--format", "json", str(log_dir)).out)
    assert row["bytes"] < 1 << 20


def test_prune_says_what_a_link_is(log_dir, tmp_path):
    kafkalog("truncate", "--to", "9", "--now", NOW, str(log_dir / "t-0"))
    [kept] = tmp_path.glob("data.quarantine-*")
    os.symlink(tmp_path, kept / "files" / "000001-out")
    done = kafkalog("restore", "--prune", "--older-than", "1s", str(log_dir))
    assert "files/000001-out is a symbolic link\n" in done.err
    assert "0 more" not in done.err


def test_who_pipes_the_output_away_learns_where_it_is_kept(log_dir):
    words = [sys.executable, "-m", "kafkalog_cli", "truncate", "--to", "9", "--now", NOW, str(log_dir / "t-0")]
    for shell in ("{} | head -n 1", "{} | true", "{} > /dev/null"):
        before = files_of(log_dir)
        done = subprocess.run(shell.format(" ".join(words)), shell=True, capture_output=True, text=True, check=False)
        kept = re.findall("undo with: kafkalog restore (.*)", done.stderr)
        assert len(kept) == 1, done
        assert kafkalog("restore", kept[0]).status == 0
        assert files_of(log_dir) == before


def test_prune_deletes_nothing_of_others(log_dir, tmp_path):
    kafkalog("truncate", "--to", "9", "--now", NOW, str(log_dir / "t-0"))
    [kept] = tmp_path.glob("data.quarantine-*")
    (kept / "files" / "notes.txt").write_text("mine")
    lookalike = tmp_path / "data.quarantine-20200101T000000Z"
    lookalike.mkdir()
    (lookalike / "manifest.jsonl").write_text('{"ours": false}\n')
    linked = tmp_path / "data.quarantine-20210101T000000Z"
    linked.symlink_to(kept)
    done = kafkalog("restore", "--prune", "--older-than", "1s", str(log_dir))
    assert done.status == 8
    assert "error[not-pruned]" in done.err
    assert f"{kept}: not deleted, because it contains files that kafkalog did not write: files/notes.txt is not a file name of a quarantine" in done.err
    assert [path.exists() for path in (kept / "manifest.jsonl", lookalike, linked)] == [True] * 3
    (kept / "files" / "notes.txt").unlink()
    os.symlink(tmp_path, kept / "files" / "000001-out")
    assert kafkalog("restore", "--prune", "--older-than", "1s", str(log_dir)).status == 8
    (kept / "files" / "000001-out").unlink()
    assert kafkalog("restore", "--prune", "--older-than", "1s", str(log_dir)).status == 0
    assert not kept.exists()
    assert lookalike.exists()


def test_a_quarantine_that_is_needed_stays(log_dir, tmp_path):
    kafkalog("truncate", "--to", "9", "--now", NOW, str(log_dir / "t-0"))
    [kept] = tmp_path.glob("data.quarantine-*")
    (kept / "restored").write_bytes(b"+\n.\n" + b" " * 100)
    done = kafkalog("restore", "--prune", "--older-than", "1s", str(log_dir))
    assert (done.status, done.out) == (0, b"deleted 0 bytes\n")
    assert "restore was started but did not finish" in kafkalog("restore", "--list", str(log_dir)).out.decode()


def test_what_was_not_put_back_whole_stays(log_dir, tmp_path):
    """The rest of it is nowhere else, though all that can be done is done."""
    partition = log_dir / "t-0"
    kafkalog("truncate", "--to", "9", "--now", NOW, str(partition))
    [kept] = tmp_path.glob("data.quarantine-*")
    assert kept.stat().st_mode & 0o777 == 0o700, "nobody else may read what is kept"
    stored = max((kept / "files").iterdir(), key=lambda path: path.stat().st_size)
    stored.write_bytes(b"X" + stored.read_bytes()[1:])
    assert kafkalog("restore", "--salvage", str(kept)).status == 4
    rows = objects_of(kafkalog("restore", "--list", "--format", "json", str(log_dir)).out)
    assert [(row["path"], row["state"]) for row in rows] == [
        (str(kept), "incomplete"), (f"{kept}.forced", "whole")], "the second keeps what the first could not replace"
    assert kafkalog("restore", "--prune", "--older-than", "1s", str(kept)).out == b"deleted 0 bytes\n"
    assert stored.exists()


@as_root
def test_a_directory_that_nobody_may_enter_hides_no_quarantine():
    with public_directory() as top:
        (top / "k/closed").mkdir(parents=True)
        (top / "k/lost+found").mkdir()  # of the file system
        for name in ("closed", "lost+found"):
            (top / "k" / name).chmod(0o700)
        (top / "k/kept/files").mkdir(parents=True)
        header = {"quarantine": 1, "command": "recover", "created_ms": 1, "log_dirs": [f"{top}/k"]}
        (top / "k/kept/manifest.jsonl").write_text(f"{json.dumps(header)}\n")
        with rights_of(USER, GROUP):
            done = kafkalog("restore", "--list", str(top / "k"))
        assert f"{top}/k/kept: recover" in done.out.decode()
        assert (done.status, "path-unreadable" in done.err, f"{top}/k/closed" in done.err) == (8, True, True)
        assert "lost+found" not in done.err


def test_wrong_usage(tmp_path):
    for words in (("--prune",), ("--older-than", "3d"), ("--list", "--prune", "--older-than", "3d"), ("--list", "--force"), (),
                  ("--prune", "--older-than", "3 moons")):  # fmt: skip
        assert kafkalog("restore", *words, cwd=tmp_path).status == 2, words


# ---- an incomplete restore stays one


def test_what_could_not_be_put_back_is_told_again(log_dir, tmp_path):
    kafkalog("truncate", "--to", "9", "--now", NOW, str(log_dir / "t-0"))
    [kept] = tmp_path.glob("data.quarantine-*")
    victim = next(path for path in sorted((kept / "files").iterdir()) if path.name.endswith(".log.deleted"))
    victim.unlink()
    assert kafkalog("restore", str(kept)).status == 8
    first = kafkalog("restore", "--salvage", str(kept))
    assert first.status == 4
    again = kafkalog("restore", str(kept))
    assert again.status == 4
    assert "already been restored" not in again.out.decode()
    assert "the files are not as before `truncate`" in again.out.decode()
    assert objects_of(kafkalog("restore", "--format", "json", str(kept)).out)[-1]["as_before"] is False


# ---- log dirs of several brokers


def test_log_dirs_of_several_brokers_are_named_one_by_one(log_dir, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(log_dir, other)
    (other / "t-0").rename(other / "u-0")
    (log_dir / "meta.properties").write_text("version=1\ncluster.id=AAAAAAAAAAAAAAAAAAAAAQ\nnode.id=1\n")
    shutil.copy(log_dir / "meta.properties", other)
    assert kafkalog("retain", "--now", NOW, str(tmp_path)).status == 0, "of one broker"
    (other / "meta.properties").write_text("version=1\ncluster.id=AAAAAAAAAAAAAAAAAAAAAg\nnode.id=1\n")
    for words in (("recover",), ("recover", "--dry-run"), ("retain",), ("verify", "--rebuild")):
        before = files_of(tmp_path)
        done = kafkalog(*words, str(tmp_path))
        assert done.status in (2, 4), "and what verifying found"
        assert f"if you mean all of them, name the log dirs one by one: {log_dir} {other}" in done.err
        assert files_of(tmp_path) == before
    assert kafkalog("verify", str(tmp_path)).status == 4, "who only reads may read all"
    assert kafkalog("retain", "--now", NOW, str(log_dir), str(other)).status == 0
    for number in range(9):
        shutil.copytree(other, tmp_path / f"p{number}")
    done = kafkalog("recover", str(tmp_path))
    assert done.err.endswith(f" {tmp_path}/p7 … (11 log dirs)\n"), "no more than ten are named"
    for number in range(9):
        shutil.rmtree(tmp_path / f"p{number}")
    (other / "meta.properties").write_text("version=1\nnode.id=2\n")
    err = kafkalog("recover", str(tmp_path)).err
    assert "belongs to node 2 of an unknown cluster" in err
    assert "None" not in err
    (other / "meta.properties").write_text("version=1\n")
    assert "has no meta.properties that names its broker" in kafkalog("recover", str(tmp_path)).err
    (other / "meta.properties").unlink()
    (other / ".lock").touch()
    for words in (("recover",), ("retain",)):
        done = kafkalog(*words, str(tmp_path))
        assert done.status == 2
        assert f"{other} has no meta.properties that names its broker" in done.err
        assert "partitions done" not in done.err


# ---- a question at a terminal


def at_terminal(answer, *words):
    """(what is printed, exit status) of a process whose streams are one terminal."""
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "kafkalog_cli.main", *map(str, words)], stdin=theirs, stdout=theirs, stderr=theirs,
        env={**os.environ, "TERM": "dumb"}, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    os.close(theirs)
    os.write(ours, answer)
    said = b""
    try:
        while piece := os.read(ours, 1 << 16):
            said += piece
    except OSError:
        pass
    os.close(ours)
    return said.decode(), process.wait()


def test_what_cannot_be_undone_is_asked_for(log_dir):
    before = files_of(log_dir)
    words = ("truncate", "--no-quarantine", "--now", NOW, "--to", "9", log_dir / "t-0")
    cut = sum(event["bytes"] for event in objects_of(kafkalog(*map(str, words), "--dry-run", "--format", "json").out)[0]["events"]
              if event["action"] in ("truncated", "removed") and "bytes" in event)  # fmt: skip
    said, status = at_terminal(b"n\n", *words)
    assert status == 4
    assert f"truncate: 1 log dir ({log_dir}), 1 partition, deletes {cut} bytes; this cannot be undone" in said
    assert "Continue? [y/N]" in said
    assert files_of(log_dir) == before
    said, status = at_terminal(b"", *words, "--yes")
    assert ("Continue?" in said, status) == (False, 0)
    assert files_of(log_dir) != before


def test_yes_is_yes_and_what_can_be_undone_is_not_asked_for(log_dir):
    said, status = at_terminal(b"", "truncate", "--now", NOW, "--to", "19", log_dir / "t-0")
    assert ("Continue?" in said, status) == (False, 0)
    said, status = at_terminal(b"y\n", "truncate", "--no-quarantine", "--now", NOW, "--to", "9", log_dir / "t-0")
    assert ("Continue?" in said, status) == (True, 0)
    said, status = at_terminal(b"", "retain", "--explain", "--config", "retention.ms=-1", log_dir)
    assert ("Continue?" in said, status) == (False, 0)


def test_several_log_dirs_are_asked_for(log_dir, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(log_dir, other)
    (other / "t-0").rename(other / "u-0")
    size = sum(path.stat().st_size for place in (log_dir / "t-0", other / "u-0") for path in place.iterdir())
    said, status = at_terminal(b"\n", "recover", log_dir, other)
    assert status == 4
    assert f"recover: 2 log dirs ({log_dir}, {other}), 2 partitions, deletes or replaces at most {size} bytes (" in said
    assert not list(tmp_path.glob("*.quarantine*"))


def test_the_question_before_a_rebuild_says_what_and_where(log_dir):
    for path in (log_dir / "t-0").glob("*.timeindex"):
        path.write_bytes(b"x" * 13)
    size = sum(path.stat().st_size for path in (log_dir / "t-0").iterdir() if path.suffix != ".log")
    said, status = at_terminal(b"n\n", "verify", "--rebuild", "--no-quarantine", log_dir)
    assert f"verify --rebuild: 1 log dir ({log_dir}), 1 partition, deletes or replaces at most {size} bytes (--dry-run shows how much)" in said
    assert status == 4


def test_a_journal_of_any_size_is_listed_in_little_memory(log_dir):
    job = log_dir / ".kafkalog-staging/job"
    job.mkdir(parents=True)
    (job / "commit.json").write_bytes(b'{"version": 1, "commit": "c", "ends": {"' + b"x" * (40 << 20) + b'": ')
    (log_dir / ".kafkalog-sink.json").write_text('{"version": 1, "last": "c"}')
    tracemalloc.start()
    assert kafkalog("restore", "--list", str(log_dir)).out == b"nothing to undo\n"
    assert tracemalloc.get_traced_memory()[1] < 20 << 20
    tracemalloc.stop()
    (log_dir / ".kafkalog-sink.json").write_text('{"version": 1, "last": "b"}')
    assert b"the commit was stopped" in kafkalog("restore", "--list", str(log_dir)).out


def test_spark_undo_begins_no_other_log_dir_after_a_signal(monkeypatch):
    from types import SimpleNamespace

    from kafkalog_cli.app import Outcome
    from kafkalog_cli.commands.spark import undo

    begun, stop = [], SimpleNamespace(status=0)

    def undo_commits(_files, path, _outcome):
        begun.append(path)
        stop.status = 130
        return 130

    monkeypatch.setattr(undo, "INTERRUPTION", stop)
    monkeypatch.setattr(undo, "undo_commit", undo_commits)
    assert undo.undo(("a/", "b"), Outcome()) == 130
    assert begun == ["a"]


@pytest.mark.parametrize("change", ["flipped", "shorter", "gone"])
def test_force_does_not_vouch_for_the_beginning_of_a_file_of_which_only_the_end_was_kept(log_dir, change):
    log = log_dir / "t-0" / f"{0:020}.log"
    before = log.read_bytes()
    kept = truncated(log_dir, 9)
    size = log.stat().st_size
    assert 0 < size < len(before)
    match change:
        case "flipped":
            log.write_bytes(bytes([before[0] ^ 1]) + log.read_bytes()[1:])
        case "shorter":
            os.truncate(log, 5)
        case "gone":
            log.unlink()
    done = kafkalog("restore", "--force", kept)
    out = done.out.decode()
    assert (done.status, log.stat().st_size) == (4, len(before))
    assert f"differs: {log} - its start ({size} bytes) may differ" in out
    assert "not as before `truncate`: 1 file differs" in out
    assert b"everything possible was undone already, but the files are not as before" in kafkalog("restore", kept).out


def truncated(log_dir, offset, at=0):
    """The quarantine of a truncation. `at`: seconds after the first one."""
    done = kafkalog("truncate", "--to", str(offset), "--now", str(1_700_003_600_000 + at * 1000), str(log_dir / "t-0"))
    assert done.status == 0, done.err
    return done.out.decode().splitlines()[-1].split("kafkalog restore ")[1]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2)])
@pytest.mark.parametrize("apart", [1, 0], ids=["apart", "in-one-moment"])
def test_stacked_operations_are_undone_newest_first_in_whatever_order_they_are_named(log_dir, order, apart):
    states, kept = [files_of(log_dir)], []
    for number, offset in enumerate((19, 9, 4)):
        kept.append(truncated(log_dir, offset, number * apart))
        states.append(files_of(log_dir))
    paths = [kept[number] for number in order]
    planned = kafkalog("restore", "--dry-run", *paths)
    assert (planned.status, planned.err, files_of(log_dir)) == (0, "", states[-1])
    done = kafkalog("restore", *paths)
    assert (done.status, done.err) == (0, "")
    assert files_of(log_dir) == states[min(order)]


def test_an_older_operation_alone_is_refused_with_the_command_that_undoes_both(log_dir):
    before = files_of(log_dir)
    older, newer = truncated(log_dir, 19), truncated(log_dir, 9, 1)
    after = files_of(log_dir)
    done = kafkalog("restore", older)
    assert (done.status, done.out, files_of(log_dir)) == (8, b"", after)
    command = f"kafkalog restore {newer} {older}"
    assert f"  do   {command}    # later operations are undone first" in done.err
    assert kafkalog(*command.split()[1:]).status == 0
    assert files_of(log_dir) == before


def test_an_older_operation_is_left_alone_where_the_later_one_was_not_undone(log_dir):
    older, newer = truncated(log_dir, 19), truncated(log_dir, 9, 1)
    with (log_dir / "t-0/leader-epoch-checkpoint").open("a") as file:
        file.write("of later\n")
    after = files_of(log_dir)
    done = kafkalog("restore", older, newer)
    assert (done.status, done.out, files_of(log_dir)) == (8, b"", after)
    assert f"{older}: not undone: {newer} is of a later operation on the same log dir" in done.err
