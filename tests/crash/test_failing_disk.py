"""Run each command on a failing disk: in each run another call of the operating system fails.

The command must report it and end with 8, never with a traceback; the log must open afterwards and be complete. Every write is
a short one. The suite fails some calls, `make crash` all of them with every error.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from engine.files import ReadOnlyFiles, interface, locks, open_file, own_directory, owner
from engine.record.batch import read_batches
from tests.support.run import kafkalog

pytestmark = pytest.mark.crash

FULL = os.environ.get("KAFKALOG_CRASH") == "full"
NOW = "1700681300000"
LOG = "data/u-rolls-0"
LOOKS = frozenset(("stat", "listdir", "scandir", "preadv", "pread", "fstat"))
CHANGES = frozenset(("pwritev", "ftruncate", "fsync", "rename", "unlink", "mkdir", "rmdir", "utime"))
ERRORS = {
    "look": (errno.EIO, errno.EACCES),
    "change": (errno.EIO, errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EINTR, errno.EDQUOT),
}
SLICE = 13  # calls of each command that the suite fails


class FailingOs:
    """The module os; its disk call number `fail_at` (from 0) fails with `error`."""

    def __init__(self, fail_at=None, error=errno.EIO):
        self.calls = []  # (what, is it a change, path or descriptor)
        self._fail_at, self._error = fail_at, error

    def __getattr__(self, name):
        real = getattr(os, name)
        if name not in LOOKS | CHANGES | {"open"}:
            return real

        def call(*arguments, **settings):
            flags = arguments[1] if name == "open" else 0
            self.calls.append((name, name in CHANGES or bool(flags & (os.O_RDWR | os.O_CREAT)), arguments[0]))
            if len(self.calls) - 1 == self._fail_at:
                raise OSError(self._error, os.strerror(self._error))
            if name == "pwritev":
                return self._short(*arguments)
            if name == "fsync":
                return None  # syncs are skipped: the test does not cut the power
            return real(*arguments, **settings)

        return call

    @staticmethod
    def _short(descriptor, parts, position):
        first = next(memoryview(part).cast("B") for part in parts if len(part))
        return os.pwritev(descriptor, [first[: max(1, len(first) // 2)]], position)


class Command(NamedTuple):
    words: tuple[str, ...]
    prepare: str = "sound"  # name of the directory it works on
    again: tuple[int, ...] = (0, 1)  # statuses of a second run without failures; empty: it is not repeated


COMMANDS = {
    "append": Command(("append", "--now", NOW, "--timestamp", NOW, "--input-format", "text", "--input", "lines",
                       "--flush-messages", "2", "--batch-size", "1", LOG), again=()),
    "append-create": Command(("append", "--create", "--now", NOW, "--timestamp", NOW, "--input-format", "text", "--input",
                              "lines", "--topic-id", "Ssx5VgobQZyBz3LWRQ0uyQ", "data/new-0"), again=()),
    "roll": Command(("roll", "--now", NOW, LOG)),
    "recover": Command(("recover", "--jobs", "1", "--no-quarantine", "--now", NOW, "data"), "damaged"),
    "recover-quarantine": Command(("recover", "--jobs", "1", "--quarantine", "kept", "--now", NOW, "data"), "damaged", ()),
    "recover-salvage": Command(("recover", "--jobs", "1", "--no-quarantine", "--salvage", "--mark-clean", "--now", NOW, "data"),
                               "damaged"),
    "retain": Command(("retain", "--now", NOW, "--config", "retention.bytes=1", LOG)),
    "restore": Command(("restore", "kept"), "quarantined"),
    "truncate": Command(("truncate", "--now", NOW, "--to", "100", LOG)),
    "delete-records": Command(("delete-records", "--now", NOW, "--before", "90", LOG)),
    "compact": Command(("compact", "--force", "--now", NOW, "--config", "cleanup.policy=compact", LOG)),
    "verify": Command(("verify", "--rebuild", "--jobs", "1", "--now", NOW, "data"), "broken"),
}  # fmt: skip


@pytest.fixture(scope="module")
def directories(own_corpus, tmp_path_factory):
    """The directories for the commands, by name. They are used at the same path, since manifests have absolute paths."""
    top = tmp_path_factory.mktemp("failing")
    work = top / "work"
    (work / "data").mkdir(parents=True)
    for name in ("d1/u-plain-0", "d0/u-rolls-0"):
        shutil.copytree(own_corpus / "kafka-4.3.1/logs/unclean" / name, work / "data" / name[3:])
    shutil.copy(own_corpus / "kafka-4.3.1/logs/unclean/d1/meta.properties", work / "data")
    (work / "lines").write_text("one\ntwo\nthree\nfour\nfive\n")
    damage(work / "data/u-rolls-0/00000000000000000000.log")
    shutil.copytree(work, top / "damaged")
    assert kafkalog("recover", "--quarantine", "kept", "--now", NOW, "data", cwd=work).status == 1
    shutil.copytree(work, top / "quarantined")
    shutil.rmtree(work / "kept")
    shutil.rmtree(work / "data/u-rolls-0")
    shutil.copytree(own_corpus / "kafka-4.3.1/logs/unclean/d0/u-rolls-0", work / "data/u-rolls-0")
    assert kafkalog("recover", "--no-quarantine", "--now", NOW, "data", cwd=work).status in (0, 1)
    shutil.copytree(work, top / "sound")
    for path in sorted(work.glob("data/*/*index"))[::2]:
        path.write_bytes(path.read_bytes()[:-1] + b"x" * 7)
    shutil.copytree(work, top / "broken")
    return top


def damage(log):
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(data)


def refuse(patch, failing):
    """Replace the module os in engine.files by `failing`."""
    for module in (interface, open_file, locks, own_directory, owner):
        patch.setattr(module, "os", failing)


def run(directories, command, fail_at=None, error=errno.EIO):
    """Run a command in `work` → (output, calls)."""
    work = directories / "work"
    shutil.rmtree(work)
    shutil.copytree(directories / command.prepare, work)
    failing = FailingOs(fail_at, error)
    with pytest.MonkeyPatch.context() as patch:
        refuse(patch, failing)
        done = kafkalog(*command.words, cwd=work)
    return done, failing.calls


def run_again(directories, *words):
    """Run the command in `work` again, without failures."""
    with pytest.MonkeyPatch.context() as patch:
        refuse(patch, FailingOs())
        return kafkalog(*words, cwd=directories / "work")


def batches(top):
    """Return (partition, last offset, bytes) of the valid batches in `top`."""
    found, files = set(), ReadOnlyFiles()
    for log in sorted(Path(top).glob("data/*/*.log")):
        with files.open(str(log)) as file:
            for batch in read_batches(file, lambda _finding: None):
                if batch.is_valid:
                    found.add((log.parent.name, batch.last_offset, file.read_exactly(batch.position, batch.size_in_bytes)))
    return found


def acknowledged(out):
    """Return the offset after the last record that was reported as appended."""
    return max((int(end) + 1 for end in re.findall(rb": offsets? (?:\d+ to )?(\d+) \(\d+ records?\)", out)), default=0)


def is_lossy(name):
    """Does the command delete records, so that the next run may find evidence of it (indexes, checkpoints, gaps) and end with 4?"""
    return name == "truncate" or COMMANDS[name].prepare == "damaged"


def problem(directories, name, number, error, final):
    """Return the problem when call `number` of a command fails, None: none."""
    command = COMMANDS[name]
    before = batches(directories / command.prepare)
    done, calls = run(directories, command, number, error)
    if number >= len(calls):
        return None
    work, is_change = directories / "work", calls[number][1]
    # where there is no room for a new index beside the old one, it is written over that: then all is done nevertheless
    is_done = error in (errno.ENOSPC, errno.EDQUOT) and done.status in (0, 1) and batches(work) == final
    if done.status != 8 and not is_done and (is_change or done.status not in (0, 1, 4)):
        return f"status {done.status}"
    if done.status == 8 and os.strerror(error) not in done.err + done.out.decode():
        return f"does not say why: {done.err}"
    if name not in ("restore", "recover-salvage"):  # which need the damage
        # of another topic the offsets that only .deleted files still have would be a loss
        policy = ("--config", "cleanup.policy=compact") if name == "compact" else ()
        again = run_again(directories, "recover", "--no-quarantine", "--now", NOW, *policy, "data")
        is_half_made = name == "append-create" and again.out.count(b"refused") == 1 and b"refused partition.metadata" in again.out
        opens = again.status in (0, 1) or (again.status == 4 and b"records are missing" in again.out and is_lossy(name))
        if not (opens or is_half_made) or (b"with loss" in again.out and command.prepare != "damaged"):
            return f"cannot be opened: {again.out} {again.err}"
    if command.again:
        again = run_again(directories, *command.words)
        if again.status not in ((*command.again, 4) if is_lossy(name) else command.again):
            return f"a second run ends with {again.status}: {again.out} {again.err}"
    left = batches(work)
    if command.again and left != final:
        return f"a second run does not come to the same end: {len(final - left)} missing, {len(left - final)} too many"
    if not before & final <= left <= before | final:
        return f"{len(before & final - left)} batches missing, {len(left - before - final)} too many"
    printed = acknowledged(done.out) if name.startswith("append") else 0
    if printed and max((last for _, last, _ in left - before), default=-1) + 1 < printed:
        return f"acknowledged up to {printed}, and not there"
    return None


@pytest.mark.parametrize("name", COMMANDS)
def test_a_call_that_fails(directories, name):
    done, calls = run(directories, COMMANDS[name])
    assert done.status in (0, 1), done.err
    final = batches(directories / "work")
    wrong = []
    step = 1 if FULL else max(1, len(calls) // SLICE)
    for number in range(0, len(calls), step):
        kind = "change" if calls[number][1] else "look"
        for error in ERRORS[kind] if FULL else ERRORS[kind][number // step % len(ERRORS[kind]) :][:1]:
            try:
                found = problem(directories, name, number, error, final)
            except Exception as trace:  # noqa: BLE001  # any error is a problem
                found = f"{type(trace).__name__}: {trace}"
            if found:
                wrong.append(f"{errno.errorcode[error]} at call {number} of {len(calls)} {calls[number]}: {found}")
    assert wrong == []


def contents(data):
    """Return path below `data` → bytes, without lock files."""
    return {path.relative_to(data): path.read_bytes() for path in sorted(data.rglob("*")) if path.is_file() and path.name != ".lock"}


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC], ids=errno.errorcode.get)
def test_what_a_failed_recovery_kept_comes_back(directories, error):
    """`restore` brings back every byte, whichever call failed, and whether or not the command continued after it."""
    command = COMMANDS["recover-quarantine"]
    before = contents(directories / command.prepare / "data")
    _, calls = run(directories, command)
    wrong = []
    for number in range(0, len(calls), 1 if FULL else len(calls) // SLICE):
        if error not in ERRORS["change" if calls[number][1] else "look"]:
            continue  # no call that only looks finds a full disk
        run(directories, command, number, error)
        if (directories / "work/kept/manifest.jsonl").exists():
            done = run_again(directories, "restore", "kept")
            if done.status == 8 and "its last line is missing" in done.err:  # then it advises this
                done = run_again(directories, "restore", "--salvage", "kept")
            if done.status not in (0, 1):
                wrong.append(f"call {number} {calls[number]}: restore ends with {done.status}: {done.err}")
        after = contents(directories / "work/data")
        if after != before:
            differ = sorted(str(path) for path in before.keys() | after.keys() if before.get(path) != after.get(path))
            wrong.append(f"call {number} {calls[number]}: {differ}")
    assert wrong == []
