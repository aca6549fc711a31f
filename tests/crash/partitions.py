"""Partitions for the cases, and the state that is read when one is opened: batches, producers, epochs, valid indexes."""

from __future__ import annotations

from typing import NamedTuple

from engine.config.topic import LogConfig
from engine.formats import Codec, ControlType
from engine.record.batch import read_batches
from engine.record.builder import NewRecord, build_batch, end_txn_batch
from tests.support.crash_files import CrashFiles
from tests.support.disk_model import Disk
from tests.support.logs import open_log

NOW = 1_700_000_100_000
TOPIC = "d/t-0"
DIRECTORY = f"/{TOPIC}"
CONFIG = LogConfig.of({"segment.index.bytes": "600", "index.interval.bytes": "150", "segment.bytes": "1600"})
IDEMPOTENT, COMMITTED, ABORTED, GONE = 11, 12, 13, 14  # producer ids


class Seen(NamedTuple):
    """The state of a partition, as readers see it."""

    batches: dict[int, bytes]  # by base offset
    start: int
    end: int
    producers: dict[int, tuple]
    epochs: list[tuple[int, int]]


def plain(offset, *, count=3, size=90, epoch=0, **settings):
    records = [
        NewRecord(offset + n, 1_700_000_000_000 + 10 * (offset + n), b"k%d" % (offset + n), bytes([97 + offset % 26]) * size)
        for n in range(count)
    ]
    return build_batch(records, partition_leader_epoch=epoch, **settings)


def marker(offset, kind, producer_id, *, epoch=0):
    return end_txn_batch(
        kind, 1, base_offset=offset, timestamp=1_700_000_000_000 + 10 * offset, producer_id=producer_id, producer_epoch=0,
        partition_leader_epoch=epoch,
    )  # fmt: skip


def transactional(offset, producer_id, sequence, *, epoch=0):
    return plain(
        offset, count=2, epoch=epoch, producer_id=producer_id, producer_epoch=0, base_sequence=sequence, transactional=True
    )


def segments():
    """Return (base offset, batches) of four segments with all kinds of producers, three leader epochs, an aborted transaction."""
    return [
        (0, [plain(0, producer_id=GONE, producer_epoch=0, base_sequence=0), plain(3), plain(6, codec=Codec.GZIP), plain(9)]),
        (12, [plain(12, epoch=1), transactional(15, COMMITTED, 0, epoch=1), transactional(17, ABORTED, 0, epoch=1),
              marker(19, ControlType.COMMIT, COMMITTED, epoch=1), plain(20, epoch=1)]),
        (23, [marker(23, ControlType.ABORT, ABORTED, epoch=1), plain(24, epoch=3),
              plain(27, epoch=3, producer_id=IDEMPOTENT, producer_epoch=0, base_sequence=0), plain(30, epoch=3)]),
        (33, [plain(33, epoch=3, producer_id=IDEMPOTENT, producer_epoch=0, base_sequence=3), plain(36, epoch=3)]),
    ]  # fmt: skip


def batches_of(parts):
    return {int.from_bytes(batch[:8], "big"): batch for _, batches in parts for batch in batches}


def name(base_offset, suffix=".log"):
    return f"{TOPIC}/{base_offset:020}{suffix}"


def raw(parts, **extra):
    """Return a disk with only the logs."""
    contents = {name(base): b"".join(batches) for base, batches in parts}
    return Disk(contents | extra, frozenset({"d", TOPIC}))


def closed(parts, config=CONFIG):
    """Return a disk after a clean stop."""
    files = CrashFiles(raw(parts))
    open_log(files, DIRECTORY, config, now=NOW, clean_shutdown=False).close()
    return files.disk()


def see(disk, *, config=CONFIG, clean=False, recovery_point=0, log_start_offset=0):
    """Open the partition as a broker would, read its state, close; then open it cleanly and check that the state is the same."""
    seen, left = visit(disk, config, clean, recovery_point, log_start_offset)
    assert visit(left, config, True, 0, log_start_offset)[0] == seen
    return seen


MOST_VISITS = 1000  # that are remembered
_VISITS: dict[tuple, tuple[Seen, Disk]] = {}


def visit(disk, config, clean, recovery_point, log_start_offset):
    """Open the partition, read its state, close → (state, disk afterwards). Results are cached by disk.

    Power cuts leave many different disks that are equal after the first opening.
    """
    key = (identity(disk), config, clean, recovery_point, log_start_offset)
    if key not in _VISITS:
        files = CrashFiles(disk)
        log = open_log(
            files, DIRECTORY, config, now=NOW, clean_shutdown=clean, recovery_point=recovery_point,
            log_start_offset=log_start_offset,
        )  # fmt: skip
        seen = look(files, log)
        log.close()
        if len(_VISITS) >= MOST_VISITS:
            _VISITS.clear()
        _VISITS[key] = seen, files.disk()
    return _VISITS[key]


def identity(disk):
    """Return a key that is equal only for identical disks."""
    return frozenset(disk.contents.items()), disk.directories, frozenset(disk.modified_ns.items()), disk.unsynced


def look(files, log):
    batches = {}
    for segment in log.segments:
        found = _sound_batches(files, segment)
        assert batches.keys().isdisjoint(found), "the same batches twice"
        batches |= found
    producers = {
        entry.producer_id: (entry.producer_epoch, entry.last_seq, entry.current_txn_first_offset)
        for entry in log.producer_state.producers.values()
    }
    epochs = [tuple(entry) for entry in log.leader_epoch_cache.entries]
    return Seen(batches, log.log_start_offset, log.log_end_offset, producers, epochs)


def _sound_batches(files, segment):
    """Return the batches of a segment, after checking its indexes."""
    problems, places, found = [], {}, {}
    size = segment.size
    with files.open(segment.log_path) as file:
        for batch in read_batches(file, problems.append):
            places[batch.position] = batch
            found[batch.base_offset] = file.read_exactly(batch.position, batch.size_in_bytes)
        assert file.size() == size
    assert problems == [], problems
    for number in range(segment.offset_index.entries):
        entry = segment.offset_index.entry(number)
        assert entry.position in places, f"{segment.offset_index.path}: no batch begins at {entry}"
        assert places[entry.position].last_offset == entry.offset, segment.offset_index.path
    last = -1
    for number in range(segment.time_index.entries):
        entry = segment.time_index.entry(number)
        assert last < entry.timestamp, segment.time_index.path
        assert any(batch.last_offset == entry.offset for batch in places.values()), f"{segment.time_index.path}: {entry}"
        last = entry.timestamp
    for batch in places.values():
        assert segment.translate_offset(batch.base_offset).position == batch.position
    return found
