"""Compaction against Kafka's own Cleaner, on the same partitions: the same batches must be left. Several at a time; many keys.

Uncompressed and LZ4 batches must be the same bytes; libzstd makes other bytes of the same records from version to version.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import statistics
import subprocess
from itertools import zip_longest
from typing import TYPE_CHECKING

from engine.files import Files
from engine.formats import BATCH_HEADER, CODEC_MASK, BatchField, Codec
from engine.record.codecs.codecs import inflate
from engine.record.windows import LogWalk
from tests.bench.measure import Run, WrongRunError, median, run, seconds_side_by_side
from tests.bench.producing import shifted, transactions
from tests.bench.report import Result

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KEYS = 200_000
MAP = 128 << 20
NOW = "1700000500000"
CODECS = {"none": "uncompressed", "lz4": "lz4", "zstd": "zstd"}
TARGET = 3
_SMALL_TRANSACTION, _REPEATED = 5, 5  # records of a transaction; segments that hold the same
TWO_AT_ONCE = 1.7  # times as fast as one after the other
CURVE = (1_000_000, 10_000_000, 100_000_000)  # keys
_NOT_LINEAR = 2  # times as long per record as with the fewest keys: a map that no cache holds is slower, but no more than that
_BYTES_PER_KEY = 24 / 0.9
PEAK_LIMIT = MAP + (100 << 20)
SETTINGS = ("--config", "cleanup.policy=compact", "--config", "segment.bytes=200000000")


def compare_codec(java: list[str], kafkalog: list[str], home: Path, codec: str, records: int, runs: int) -> Result:
    """`compare` for one codec."""
    source = generated(java, home, codec, records, KEYS)
    return compare(java, kafkalog, home, source, (CODECS[codec], f"compact {records} records, {KEYS} keys"), runs)


def compare_transactions(java: list[str], kafkalog: list[str], home: Path, records: int, runs: int) -> Result:
    """`compare` where every transaction has few records, in one small batch, and a marker."""
    source = _transactional(kafkalog, home, records)
    work = (f"lz4, transactions of {_SMALL_TRANSACTION} records", f"compact {records} records, {KEYS} keys")
    return compare(java, kafkalog, home, source, work, runs)


def compare(java: list[str], kafkalog: list[str], home: Path, source: Path, work: tuple[str, str], runs: int) -> Result:
    """Both clean a copy each of the same partition, in turn, in whole processes. `work`: what it is, as the row says it."""
    ours, theirs = home / "compact-ours/topic-0", home / "compact-kafka/topic-0"
    our_runs: list[Run] = []
    their_runs: list[Run] = []
    for _ in range(runs):
        for target in (ours, theirs):
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(source, target)
        our_runs.append(run([*_command(kafkalog, MAP), str(ours)], home, home / "compact.out"))
        command = [*java, "kafkalog.oracle.Main", "compact", str(theirs), "--now", NOW, *SETTINGS, "--map-bytes", str(MAP)]
        their_runs.append(run(command, home, home / "compact.out"))
        same_logs(ours, theirs)
    our, their = median(our_runs), median(their_runs)
    for target in (ours, theirs):
        shutil.rmtree(target)
    return Result(*work, our.seconds, their.seconds, TARGET, our.peak_bytes, their.peak_bytes, None, PEAK_LIMIT,
                  our.cpu_seconds, their.cpu_seconds)  # fmt: skip


def two_at_once(java: list[str], kafkalog: list[str], home: Path, codec: str, records: int, runs: int) -> Result:
    """Two partitions side by side against the same two one after the other. One processor cannot show it.

    The row tells too what two whole processes gain, which share nothing: more than that no machine gives to threads.
    """
    source = generated(java, home, codec, records, KEYS)
    top = home / "compact-two"
    both = [top / f"topic-{number}" for number in range(2)]
    each = [top / f"d{number}/topic-0" for number in range(2)]  # a process locks its log dir
    alone: list[Run] = []
    together: list[Run] = []
    apart: list[float] = []
    for _ in range(runs):
        for jobs, into in ((1, alone), (2, together)):
            _copies(source, top, both)
            into.append(run([*_command(kafkalog, MAP), "--jobs", str(jobs), *map(str, both)], home, home / "compact.out"))
        _copies(source, top, each)
        apart.append(seconds_side_by_side([[*_command(kafkalog, MAP), str(target)] for target in each], home))
    shutil.rmtree(top)
    one, two = median(alone), median(together)
    target = TWO_AT_ONCE if (os.cpu_count() or 1) > 1 else None
    file = f"{CODECS[codec]}, two partitions (two whole processes: {one.seconds / statistics.median(apart):.2f}x)"
    return Result(file, "compact --jobs 2, against --jobs 1", two.seconds, one.seconds, target, two.peak_bytes, None, None,
                  PEAK_LIMIT, two.cpu_seconds, one.cpu_seconds)  # fmt: skip


def _copies(source: Path, top: Path, targets: list[Path]) -> None:
    """A copy at each of `targets`, on the disk, and nothing else below `top`: writing copies back is nobody's work."""
    shutil.rmtree(top, ignore_errors=True)
    for target in targets:
        shutil.copytree(source, target)
    os.sync()


def curve(java: list[str], kafkalog: list[str], home: Path, largest: int) -> list[Result]:
    """Ever more keys, up to `largest`: memory is the map's, time grows as the input does."""
    results: list[Result] = []
    per_record = 0.0
    for keys in (count for count in CURVE if count <= largest):
        records = keys + keys // 5
        source = generated(java, home, "none", records, keys, name=f"compact-{keys}-keys", value_size="8:8", batch=500)
        memory = int(keys * _BYTES_PER_KEY) + (1 << 20)
        target = home / "compact-curve/topic-0"
        shutil.rmtree(target.parent, ignore_errors=True)
        shutil.copytree(source, target)
        once = run([*_command(kafkalog, memory), str(target)], home, home / "compact.out")
        shutil.rmtree(target.parent)
        limit = _NOT_LINEAR * per_record * records if per_record else None
        per_record = per_record or once.seconds / records
        results.append(Result(f"{keys // 1_000_000} M keys", f"compact {records} records", once.seconds, None, None,
                              once.peak_bytes, None, limit, memory + (100 << 20), once.cpu_seconds))  # fmt: skip
    return results


def _command(kafkalog: list[str], memory: int) -> list[str]:
    options = ["--force", "--rounds", "1", "--dedupe-buffer-size", str(memory), "--clean-start"]
    return [*kafkalog, "compact", "--now", NOW, *SETTINGS, *options]


def same_logs(ours: Path, theirs: Path) -> None:
    """Raise WrongRunError where two partitions hold different batches."""
    names = [sorted(path.name for path in top.glob("*.log")) for top in (ours, theirs)]
    if names[0] != names[1] or any(not _same_batches(ours / name, theirs / name) for name in names[0]):
        raise WrongRunError(f"compact: kafkalog and Kafka leave different logs; see {ours} and {theirs}")


def _same_batches(ours: Path, theirs: Path) -> bool:
    """The same bytes; or the same headers but for size and checksum, around the same records."""
    if ours.read_bytes() == theirs.read_bytes():
        return True
    return all(one == other for one, other in zip_longest(_batches(ours), _batches(theirs)))


def _batches(path: Path) -> Iterator[tuple[bytes, bytes]]:
    length, crc = BATCH_HEADER.positions["batch_length"], BATCH_HEADER.positions["crc"]
    with Files().open(str(path)) as file:
        for window in LogWalk(file):
            table = window.batches.table
            for row in range(window.rows):
                at, codec = table[BatchField.POSITION, row], table[BatchField.ATTRIBUTES, row] & CODEC_MASK
                head = bytearray(window.data[at : at + BATCH_HEADER.size])
                head[length : length + 4] = head[crc : crc + 4] = bytes(4)
                body = window.data[table[BatchField.BODY, row] : table[BatchField.BODY_END, row]]
                if codec != Codec.ZSTD:
                    yield bytes(head), bytes(body)
                else:
                    yield bytes(head), bytes(inflate(codec, body, 1 << 30).data)


def _transactional(kafkalog: list[str], home: Path, records: int) -> Path:
    """A partition of small transactions in several segments, a fifth of them written once and repeated."""
    directory = home / f"compact-transactions-{records}/topic-0"
    if directory.exists():
        return directory
    fresh = directory.with_name("fresh-0")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    rng, count = random.Random(5), records // _REPEATED // _SMALL_TRANSACTION
    contents = ([(b"key%09d" % rng.randrange(KEYS), rng.randbytes(82)) for _ in range(_SMALL_TRANSACTION)] for _ in range(count))
    block = transactions(contents, Codec.LZ4)
    for number in range(_REPEATED):
        base = number * count * (_SMALL_TRANSACTION + 1)
        with (fresh / f"{base:020d}.log").open("wb") as out:
            out.writelines(shifted(block, base))
    run([*kafkalog, "recover", "--no-quarantine", "--now", NOW, "--recovery-point", "0", str(fresh)], home, home / "recover.out",
        (0, 1))  # fmt: skip
    fresh.rename(directory)
    return directory


def generated(
    java: list[str], home: Path, codec: str, records: int, keys: int, *, name: str | None = None, value_size: str = "62:102",
    batch: int = 100,
) -> Path:  # fmt: skip
    name = name or f"compact-{codec}"
    directory, done = home / f"{name}/topic-0", home / f"{name}.json"
    if done.exists() and json.loads(done.read_text())["records"] == records:
        return directory
    shutil.rmtree(directory, ignore_errors=True)
    print(f"Kafka writes {name}: {records} records", flush=True)
    command = [*java, "kafkalog.oracle.Main", "gen", str(directory), "--records", str(records), "--keys", str(keys),
               "--key-width", "12", "--value-size", value_size, "--batch", str(batch), "--codec", codec,
               "--config", f"segment.bytes={min(200_000_000, 8 * records)}"]  # fmt: skip
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode or "failed" in json.loads(answer.stdout):
        raise WrongRunError(f"the generator failed: {answer.stdout[:500]}{answer.stderr[-500:]}")
    done.write_text(json.dumps({"records": records}))
    return directory
