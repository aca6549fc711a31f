"""The commands that are killed: the log dir before, the command line, and what must exist afterwards.

A log dir has partitions of several segments, with transactions and every codec. A killed command must not lose anything that
exists both before it and after a complete run.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, NamedTuple

from engine.checkpoint.checkpoints import known_offsets
from engine.config.topic import LogConfig
from engine.files import Files
from engine.log.loading.loader import open_log
from engine.record.batch import read_batches, read_records
from tests.support.keyed_logs import write_keyed_log
from tests.support.live_keys import lost_keys
from tests.support.memory_files import MemoryFile

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.crash.killing import Program, Run

NOW = 1_700_000_100_000
SETTINGS = {"segment.index.bytes": "1200", "index.interval.bytes": "300", "segment.bytes": "3000", "retention.ms": "-1"}
CONFIG = [word for name, value in SETTINGS.items() for word in ("--config", f"{name}={value}")]
PARTITIONS = ("t-0", "t-1", "t-2")
POINTS = "recovery-point-offset-checkpoint"
UNFINISHED = (".swap", ".cleaned", ".deleted", ".kafkalog")
META = "node.id=1\ndirectory.id=GwU-VCmqfoM16VN-PhPllg\nversion=1\ncluster.id=kafkalogCorpusSeed42AA\n"
SENT = 200  # records

Batches = dict[int, bytes]  # by base offset
Logs = dict[str, Batches]  # by partition


class Command(NamedTuple):
    """A command that will be killed.

    prepare   makes `data`, the log dir, and other input of the command, in a directory
    words     command line, run in that directory; `again`: command line of the run that completes the work
    lost      (before, whole, found): returns what a broker lacks on the killed log dir. `before`: the logs without the command,
              `whole`: the logs after a complete run
    stdin     its input, a file in that directory
    restores  does the command write a quarantine `q`, from which the previous state can be restored at any moment?
    """

    name: str
    prepare: Callable[[Program, Path], None]
    words: list[str]
    again: list[str]
    lost: Callable[[Logs, Logs, Logs], list[str]]
    stdin: str | None = None
    restores: bool = False


# ---- what is in a log dir


def logs_in(data: Path) -> Logs:
    """Return every batch of every partition. All must be valid, and no log may have an offset twice."""
    found: Logs = {}
    for partition in sorted(data.glob("t-*")):
        batches: Batches = found.setdefault(partition.name, {})
        end = -1
        for path in sorted(partition.glob("*.log")):
            with Files().open(str(path)) as file:
                for batch in read_batches(file, _is_wrong):
                    assert batch.base_offset > end, f"{path}: offset {batch.base_offset} after {end}"
                    end = batch.last_offset
                    batches[batch.base_offset] = file.read_exactly(batch.position, batch.size_in_bytes)
    return found


def _is_wrong(finding: object) -> None:
    raise AssertionError(finding)


def recovery_points(data: Path) -> dict[str, int]:
    """Return the recovery points by partition: a broker does not read the logs below them."""
    known, wrong = known_offsets(Files(), str(data / POINTS))
    assert wrong is None, wrong
    return {f"{topic}-{partition}": offset for (topic, partition), offset in known.items()}


def unfinished(data: Path) -> list[str]:
    """Return the files that only a stopped command leaves."""
    return [f"left over: {path}" for path in sorted(data.rglob("*")) if path.name.endswith(UNFINISHED)]


def all_records(batches: Batches) -> list[tuple[int, bytes | None]]:
    """Return (offset, value) of every record."""
    data = b"".join(batches[base] for base in sorted(batches))
    return [(record.offset, record.value) for record in read_records(MemoryFile("log", data), _is_wrong)]


# ---- log dirs before


def stopped(_program: Program, top: Path, *, clean: bool = True) -> None:
    """Make the log dir of a broker that was stopped cleanly, or killed before it flushed anything."""
    data = top / "data"
    data.mkdir(parents=True)
    (data / "meta.properties").write_text(META)
    ends = {}
    for number, partition in enumerate(PARTITIONS):
        ends[partition] = write_keyed_log(data / partition, 40 + number, now=NOW, batches=120)
        open_log(Files(), str(data / partition), LogConfig.of(SETTINGS), now=NOW, clean_shutdown=False).close()
        (data / partition / "partition.metadata").write_text("version: 0\ntopic_id: Ssx5VgobQZyBz3LWRQ0uyQ")
    points = "".join(f"{name.replace('-', ' ')} {end}\n" for name, end in ends.items())
    (data / POINTS).write_text(f"0\n{len(ends)}\n{points}" if clean else "0\n0\n")
    if clean:
        (data / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":7}')


def damaged(program: Program, top: Path) -> None:
    """Make the log dir of a killed broker: an incomplete end, a flipped byte before valid segments, missing or wrong indexes."""
    stopped(program, top, clean=False)
    torn, flipped, others = (sorted((top / "data" / name).glob("*.log")) for name in PARTITIONS)
    os.truncate(torn[-1], torn[-1].stat().st_size - 7)
    data = bytearray(flipped[len(flipped) // 2].read_bytes())
    data[-5] ^= 1
    flipped[len(flipped) // 2].write_bytes(data)
    for number, path in enumerate(others[:6]):
        index = path.with_suffix((".index", ".timeindex")[number % 2])
        index.write_bytes(b"\x7f" * index.stat().st_size)
    others[-1].with_suffix(".index").unlink()


def salvaged(program: Program, top: Path) -> None:
    """Make a log dir after a salvage, with its quarantine."""
    damaged(program, top)
    done = program.run(["recover", "--salvage", "--quarantine", "q", *COMMON, "data"], top)
    assert done.status in (1, 4), done.stderr


def with_input(program: Program, top: Path) -> None:
    """Make a log dir, and records to append."""
    stopped(program, top)
    lines = [json.dumps({"key": f"key {number}", "value": f"value {number} " + "x" * (number * 37 % 300)}) for number in range(SENT)]
    (top / "input").write_text("\n".join(lines) + "\n")


# ---- what must exist afterwards


def batches_lost(before: Logs, whole: Logs, found: Logs) -> list[str]:
    """Check that every batch of both `before` and `whole` was found, and no other batch."""
    wrong = []
    for name, batches in before.items():
        has = found.get(name, {})
        lost = [base for base, batch in batches.items() if whole[name].get(base) == batch != has.get(base)]
        new = [base for base, batch in has.items() if batch not in (batches.get(base), whole[name].get(base))]
        wrong += [f"{name}: batches {what} at offsets {bases}" for what, bases in (("lost", lost), ("new", new)) if bases]
    return wrong


def keys_lost(before: Logs, _whole: Logs, found: Logs) -> list[str]:
    """Check that the last record of every key was found."""
    wrong = []
    for name in before:
        one, other = ({"log": b"".join(logs[name][base] for base in sorted(logs[name]))} for logs in (before, found))
        wrong += [f"{name}: {line}" for line in lost_keys(one, other)]
    return wrong


def records_lost(before: Logs, whole: Logs, found: Logs) -> list[str]:
    """Check that the previous records are unchanged, and followed by the sent records, from the first on."""
    old, wanted, has = (all_records(logs["t-0"]) for logs in (before, whole, found))
    others = [f"{name}: changed" for name in whole if name != "t-0" and whole[name] != found.get(name)]
    if has[: len(old)] == old and has == wanted[: len(has)]:
        return others
    return [*others, f"t-0: {len(has)} records that are not the first of {len(wanted)}"]


def acknowledged_end(done: Run) -> int:
    """Return the offset up to which `append` reported that records are on the disk; 0: none."""
    lines = [json.loads(line) for line in done.stdout.decode().splitlines(keepends=True) if line.endswith("\n")]
    return max((line["last_offset"] + 1 for line in lines if "last_offset" in line), default=0)


COMMON = ["--now", str(NOW), *CONFIG]
TRUNCATE = ["truncate", "--to", "400", *COMMON, *(f"data/{name}" for name in PARTITIONS)]
COMPACTED = ["--config", "cleanup.policy=compact", "--force"]
APPEND = ["append", "--format", "jsonl", "--flush-messages", "20", "--batch-size", "500", "--input", "input", *COMMON, "data/t-0"]

RECOVER = ["recover", *COMMON, "data", "--quarantine"]
SALVAGE = ["recover", "--salvage", *COMMON, "data", "--quarantine"]
COMPACT = ["compact", *COMPACTED, *COMMON, "data"]
RETAIN = ["retain", *COMMON, "--config", "retention.bytes=12000", "data"]
ROLL = ["roll", *COMMON, "data"]

COMMANDS = [
    Command("append", with_input, APPEND, APPEND, records_lost, stdin="input"),
    Command("recover", damaged, [*RECOVER, "q"], [*RECOVER, "q2"], batches_lost, restores=True),
    Command("salvage", damaged, [*SALVAGE, "q"], [*SALVAGE, "q2"], batches_lost, restores=True),
    Command("restore", salvaged, ["restore", "q"], ["restore", "q"], batches_lost),
    Command("compact", stopped, COMPACT, COMPACT, keys_lost),
    Command("retain", stopped, RETAIN, RETAIN, batches_lost),
    Command("truncate", stopped, TRUNCATE, TRUNCATE, batches_lost),
    Command("roll", stopped, ROLL, ROLL, batches_lost),
]
