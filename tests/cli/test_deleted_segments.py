"""Batches that only a file holds which a start deletes, and a path with a segment's name that is no file: neither is passed over."""

from __future__ import annotations

import os
import shutil
import socket
import struct

import pytest

from tests.support.keyed_logs import write_keyed_log
from tests.support.run import kafkalog

NOW = "1764000000000"
WORK = {
    "retain": ("retain", "--config", "retention.ms=-1", "--config", "retention.bytes=7000"),
    "truncate": ("truncate", "--to", "70"),
    "roll": ("roll",),
    "delete-records": ("delete-records", "--before", "70"),
}


CLEANUP = {"unknown": (), "delete": ("--config", "cleanup.policy=delete"), "compact": ("--config", "cleanup.policy=compact")}


@pytest.fixture
def rolls(own_corpus, tmp_path):
    """A partition alone: segments 0, 79, 173, 263; it ends at 338."""
    return shutil.copytree(own_corpus / "kafka-4.3.1/logs/unclean/d0/u-rolls-0", tmp_path / "u-rolls-0")


@pytest.fixture
def small(own_corpus, tmp_path):
    """A partition alone: segments 0, 22, 42, 63, 83; it ends at 89."""
    return shutil.copytree(own_corpus / "kafka-4.3.1/logs/clean/d1/small_segments-0", tmp_path / "small_segments-0")


def log(partition, base, suffix=""):
    return partition / f"{base:020}.log{suffix}"


def run(*words):
    return kafkalog(*words[:1], "--now", NOW, *map(str, words[1:]))


def begin_deletion(partition, *bases):
    for base in bases:
        log(partition, base).rename(log(partition, base, ".deleted"))


@pytest.mark.parametrize(
    ("bases", "lost"), [((79,), ["offsets 79 to 172"]), ((79, 173), ["offsets 79 to 172", "offsets 173 to 262"])]
)
def test_recover_reports_the_only_copy_that_it_removes(rolls, bases, lost):
    begin_deletion(rolls, *bases)
    done = run("recover", "--no-quarantine", rolls)
    assert done.status == 4
    told = [line for line in done.out.decode().splitlines() if line.strip().startswith("missing")]
    assert len(told) == len(lost)
    assert all(offsets in line and "--salvage" in line for offsets, line in zip(lost, told, strict=True))
    assert not log(rolls, 79, ".deleted").exists()


@pytest.mark.parametrize("work", WORK)
def test_others_refuse_to_remove_the_only_copy(rolls, work):
    begin_deletion(rolls, 79)
    before = looks(rolls)
    done = run(*WORK[work], "--no-quarantine", rolls) if work in ("truncate", "delete-records") else run(*WORK[work], rolls)
    assert done.status == 4, done
    assert "log.deleted" in done.out.decode() + done.err
    assert looks(rolls) == before


def test_salvage_puts_the_only_copy_back(rolls):
    whole = {path.name: path.read_bytes() for path in rolls.glob("*.log")}
    begin_deletion(rolls, 79, 173)
    done = run("recover", "--salvage", "--no-quarantine", rolls)
    assert (done.status, "missing" in done.out.decode()) == (1, False), done
    assert {path.name: path.read_bytes() for path in rolls.glob("*.log*")} == whole
    assert kafkalog("verify", str(rolls)).status == 0


@pytest.mark.parametrize("words", [(), ("--salvage",)])
@pytest.mark.parametrize("case", ["oldest", "replaced", "copy", "below the start", "empty", "compacted"])
def test_what_is_left_of_a_deletion_is_no_loss(rolls, case, words):
    """As retention, truncation and compaction leave it."""
    if case == "oldest":
        begin_deletion(rolls, 0, 79)
    elif case == "replaced":  # by one that is longer
        log(rolls, 0).write_bytes(log(rolls, 0).read_bytes() + log(rolls, 79).read_bytes())
        begin_deletion(rolls, 79)
    elif case == "copy":
        shutil.copy(log(rolls, 79), log(rolls, 79, ".deleted"))
    elif case == "below the start":
        begin_deletion(rolls, 79)
        words = (*words, "--log-start-offset", "180")
    elif case == "empty":
        log(rolls, 80, ".deleted").touch()
    else:
        begin_deletion(rolls, 79)
        words = (*words, "--config", "cleanup.policy=compact")
    done = run("recover", "--no-quarantine", *words, rolls)
    gap_is_known = case in ("below the start", "compacted")  # what was read shows it, whatever stood there
    assert "missing" not in done.out.decode() or gap_is_known, done
    assert "has these offsets" not in done.out.decode()
    assert "restored as the segment" not in done.out.decode()
    assert not list(rolls.glob("*.deleted"))


def after_the_end(partition, mark):
    """A log dir whose broker was killed after it had truncated the log at offset 173; `mark`: its high watermark."""
    begin_deletion(partition, 173, 263)
    for base in (173, 263):
        for index in partition.glob(f"{base:020}.*"):
            if not index.name.endswith(".deleted"):
                index.unlink()
    for snapshot in partition.glob("*.snapshot"):
        snapshot.unlink()
    (partition.parent / "recovery-point-offset-checkpoint").write_text("0\n1\nu-rolls 0 173\n")
    (partition.parent / "replication-offset-checkpoint").write_text(f"0\n1\nu-rolls 0 {mark}\n" if mark is not None else "0\n0\n")


@pytest.mark.parametrize("policy", ["unknown", "delete", "compact"])
def test_committed_records_after_the_log_end_are_a_loss(rolls, policy):
    """The high watermark says that they were committed: no broker truncates such records on purpose."""
    words, whole = CLEANUP[policy], {path.name: path.read_bytes() for path in rolls.glob("*.log")}
    after_the_end(rolls, 338)
    verified = kafkalog("verify", *words, str(rolls))
    assert (verified.status, verified.err.count("leftover-only-copy")) == (4, 2), verified.err
    before = looks(rolls)
    for work in (("roll",), ("retain",)):
        assert run(*work, *words, rolls).status == 4
        assert looks(rolls) == before
    done = run("recover", "-n", "--no-quarantine", *words, rolls)
    told = [line for line in done.out.decode().splitlines() if line.strip().startswith("missing") and "log.deleted" in line]
    assert (done.status, len(told)) == (4, 2), done
    done = run("recover", "--salvage", "--no-quarantine", *words, rolls)
    assert done.status in (0, 1), done
    assert {path.name: path.read_bytes() for path in rolls.glob("*.log*")} == whole


@pytest.mark.parametrize("mark", [100, 173, None])
def test_records_after_the_log_end_and_the_high_watermark_may_be_lost(rolls, mark):
    after_the_end(rolls, mark)
    verified = kafkalog("verify", str(rolls))
    assert (verified.status, verified.err.count("leftover-after-end")) == (4, 2), verified.err
    before = looks(rolls)
    done = run("roll", rolls)
    assert (done.status, looks(rolls)) == (4, before)
    assert "on purpose or after damage" in done.err
    done = run("recover", rolls)
    told = [line for line in done.out.decode().splitlines() if line.strip().startswith("missing")]
    assert (done.status, len(told)) == (4, 2), done
    assert "offsets 173 to 262" in told[0]
    assert "on purpose or after damage" in told[0]
    [kept] = rolls.parent.parent.glob(f"{rolls.parent.name}.quarantine*")
    assert kafkalog("restore", str(kept)).status == 0
    assert {name: look[1:] for name, look in looks(rolls).items()} == {name: look[1:] for name, look in before.items()}


def test_records_after_the_log_end_that_were_written_again_are_no_loss(rolls):
    for base in (173, 263):
        shutil.copy(log(rolls, base), log(rolls, base, ".deleted"))
    assert "leftover" not in kafkalog("verify", str(rolls)).err
    assert "missing" not in run("recover", "--no-quarantine", rolls).out.decode()


def leave(partition, how):
    """Leave batches of the segment 79 only in a file that a start deletes → name of that file, and these offsets."""
    path = log(partition, 79)
    whole = path.read_bytes()
    cut = starts(whole)[2]
    first = struct.unpack_from(">q", whole, cut)[0]
    if how == "cleaned":
        path.rename(log(partition, 79, ".cleaned"))
    elif how == "cleaned, torn":
        path.rename(log(partition, 79, ".cleaned"))
        with log(partition, 79, ".cleaned").open("ab") as file:
            file.write(whole[:100])
    elif how == "cleaned beside a torn segment":
        shutil.copy(path, log(partition, 79, ".cleaned"))
        path.write_bytes(whole[: cut + 20])
        return log(partition, 79, ".cleaned"), f"offsets {first} to 172"
    elif how == "swap of a split that did not end":
        path.rename(log(partition, 79, ".swap"))
        log(partition, 79, ".cleaned").touch()
        return log(partition, 79, ".swap"), "offsets 79 to 172"
    else:
        shutil.copy(path, log(partition, 79, ".deleted"))
        path.write_bytes(whole[: cut + 20])
        return log(partition, 79, ".deleted"), f"offsets {first} to 172"
    return log(partition, 79, ".cleaned"), "offsets 79 to 172"


def starts(data):
    found = [0]
    while found[-1] < len(data):
        found.append(found[-1] + 12 + struct.unpack_from(">i", data, found[-1] + 8)[0])
    return found[:-1]


LEFT = ["cleaned", "cleaned, torn", "cleaned beside a torn segment", "swap of a split that did not end",
        "deleted beside a torn segment"]  # fmt: skip


@pytest.mark.parametrize(("how", "policy"), [
    (how, policy) for how in LEFT for policy in CLEANUP
    if not (how.startswith("deleted") and policy == "compact")  # the cleaner may have taken it
])  # fmt: skip
def test_what_only_a_file_holds_that_a_start_deletes_is_kept_or_reported(rolls, tmp_path, how, policy):
    words = CLEANUP[policy]
    whole = b"".join(path.read_bytes() for path in sorted(rolls.glob("*.log")))
    left, offsets = leave(rolls, how)
    verified = kafkalog("verify", *words, str(rolls))
    assert verified.status == 4
    assert "leftover-only-copy" in verified.err + verified.out.decode()
    before = looks(rolls)
    for work in (("roll",), ("truncate", "--no-quarantine", "--to", "70"), ("delete-records", "--no-quarantine", "--before", "70")):
        assert run(*work, *words, rolls).status == 4
        assert looks(rolls) == before
    other = shutil.copytree(rolls, tmp_path / "other/u-rolls-0")
    done = run("recover", "--no-quarantine", *words, other)
    told = [line for line in done.out.decode().splitlines() if line.strip().startswith("missing") and left.name in line]
    assert (done.status, len(told)) == (4, 1), done
    assert offsets in told[0]
    assert "--salvage" in told[0]
    removed = [line for line in done.out.decode().splitlines() if line.strip().startswith("removed") and left.name in line]
    assert len(removed) == 1
    assert "offsets 79 to 172" in removed[0], "what the file held is counted"
    assert not (other / left.name).exists()
    done = run("recover", "--salvage", "--no-quarantine", *words, rolls)
    assert done.status in (0, 1), done
    assert not [line for line in done.out.decode().splitlines() if line.strip().startswith("missing")]
    assert b"".join(path.read_bytes() for path in sorted(rolls.glob("*.log*"))) == whole
    assert kafkalog("verify", *words, str(rolls)).status == 0


@pytest.mark.parametrize("suffix", [".cleaned", ".deleted"])
def test_where_no_segment_is_left_the_only_copy_is_kept_or_reported(rolls, tmp_path, suffix):
    whole = b"".join(path.read_bytes() for path in sorted(rolls.glob("*.log")))
    for path in rolls.glob("0*"):
        path.unlink()
    left = log(rolls, 0, suffix)
    left.write_bytes(whole)
    verified = kafkalog("verify", str(rolls))
    assert verified.status == 4
    assert "leftover-only-copy" in verified.err + verified.out.decode()
    other = shutil.copytree(rolls, tmp_path / "other/u-rolls-0")
    done = run("recover", "--no-quarantine", other)
    told = [line for line in done.out.decode().splitlines() if line.strip().startswith("missing") and left.name in line]
    assert (done.status, len(told)) == (4, 1), done
    assert "offsets 0 to 337" in told[0]
    assert run("recover", "--salvage", "--no-quarantine", rolls).status == 1
    assert b"".join(path.read_bytes() for path in sorted(rolls.glob("*.log*"))) == whole


@pytest.mark.parametrize("words", [(), ("--salvage",)])
@pytest.mark.parametrize("how", ["copy", "torn copy", "below the start", "without sound batches"])
def test_a_cleaned_file_that_holds_nothing_of_its_own_is_counted_and_deleted(rolls, how, words):
    whole = {path.name: path.read_bytes() for path in rolls.glob("*.log")}
    left = log(rolls, 79, ".cleaned")
    data = log(rolls, 79).read_bytes()
    if how == "copy":
        left.write_bytes(data)
    elif how == "torn copy":
        left.write_bytes(data[:-10])
    elif how == "without sound batches":
        left.write_bytes(bytes(100))
    else:
        log(rolls, 0).rename(log(rolls, 0, ".cleaned"))
        (rolls / "leader-epoch-checkpoint").write_text("0\n1\n0 79\n")
        for index in rolls.glob(f"{0:020}.*index"):
            index.unlink()
        del whole[log(rolls, 0).name]
        left, words = log(rolls, 0, ".cleaned"), (*words, "--log-start-offset", "79")
    done = run("recover", "--no-quarantine", *words, rolls)
    assert done.status == 1, done
    [told] = [line for line in done.out.decode().splitlines() if left.name in line]
    assert ("records" in told) == (how != "without sound batches")
    assert {path.name: path.read_bytes() for path in rolls.glob("*.log*")} == whole


def test_a_gap_between_its_batches_is_nothing_that_a_cleaned_file_holds(tmp_path):
    partition = tmp_path / "data/t-0"
    partition.parent.mkdir()
    write_keyed_log(partition, 41, now=1_700_000_100_000, batches=120)
    first = min(partition.glob("*.log"))
    shutil.copy(first, f"{first}.cleaned")
    done = run("recover", "--no-quarantine", "--config", "cleanup.policy=compact", partition)
    assert (done.status, b"only" in done.out) == (1, False), done.out


def looks(partition):
    stats = {path.name: path.stat() for path in partition.iterdir()}
    return {name: (stat.st_ino, stat.st_mode, stat.st_size, stat.st_mtime_ns) for name, stat in stats.items()}


def stand_in(path, kind):
    path.unlink()
    if kind == "directory":
        path.mkdir()
    elif kind == "FIFO":
        os.mkfifo(path)
    else:
        here = os.open(".", os.O_RDONLY)
        os.chdir(path.parent)  # the address of a socket is short
        try:
            with socket.socket(socket.AF_UNIX) as one:
                one.bind(path.name)
        finally:
            os.chdir(here)
            os.close(here)


@pytest.mark.parametrize("kind", ["directory", "FIFO", "socket"])
@pytest.mark.parametrize("work", ["recover", "salvage", "clean", *WORK])
def test_what_is_no_file_is_not_passed_over(small, work, kind):
    stand_in(log(small, 42), kind)
    before = looks(small)
    words = {
        "recover": ("recover",),
        "salvage": ("recover", "--full", "--salvage"),
        "clean": ("recover", "--clean-start"),
    } | WORK
    done = run(*words[work], small)
    assert done.status == 8, done
    assert f"{log(small, 42)}: a {kind.lower() if kind == 'directory' else ''}" in done.err
    assert "ls -ld" in done.err
    assert looks(small) == before


def test_a_truncation_that_was_stopped_is_no_doubt_for_the_next_one(rolls):
    after_the_end(rolls, 173)
    done = run("truncate", "--to", "100", rolls)
    assert (done.status, "missing" in done.out.decode()) == (1, False), done
