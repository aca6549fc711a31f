"""Kinds of damage to one partition, which disks, copies, backups, interrupted work or operators really cause.

A damage changes the files of a `Target`. It raises LookupError, ValueError or OSError if it does not apply to them. Its name is
that of its function; `truth.json` and `allowed.json` have the same names, with hyphens.
"""

from __future__ import annotations

import gzip
import os
import shutil
import struct
from pathlib import Path
from typing import TYPE_CHECKING

from tests.damage.evidence import CHECKPOINTS
from tests.damage.targets import INDEXES, cut_out, read_checkpoint, write_checkpoint

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.damage.targets import Log, Target

_BLOCK = 512
DAMAGES: dict[str, Callable[[Target], object]] = {}


def damage(change: Callable[[Target], object]) -> Callable[[Target], object]:
    DAMAGES[change.__name__.replace("_", "-")] = change
    return change


def damage_of(choose: Callable[[Target], Log]) -> Callable[[Callable[[Log], object]], Callable[[Log], object]]:
    """Make a damage from a function on one .log."""

    def note(change: Callable[[Log], object]) -> Callable[[Log], object]:
        DAMAGES[change.__name__.replace("_", "-")] = lambda target: change(choose(target))
        return change

    return note


middle, active = damage_of(lambda target: target.middle), damage_of(lambda target: target.active)


# ---- blocks and bytes of a log


@middle
def zero_block_in_middle_segment(log):
    at = _BLOCK * log.random.randrange(1, max(2, len(log.data) // _BLOCK))
    log.put(at, bytes(min(_BLOCK, len(log.data) - at)))


@active
def zeros_in_active_segment(log):
    place = log.inner()
    log.put(place.start + 30, bytes(place.end - place.start))


@middle
def zero_head_of_middle_segment(log):
    log.put(0, bytes(_BLOCK))


@middle
def zero_middle_segment(log):
    log.write(bytes(len(log.data)))


@active
def torn_active_segment(log):
    log.write(log.data[:-17])


@middle
def torn_middle_segment(log):
    log.write(log.data[: log.inner().start + 40])


@middle
def middle_segment_cut_at_batch(log):
    log.write(log.data[: log.inner().start])


@active
def last_batch_missing(log):
    log.write(log.data[: log.batches[-1].start])


@middle
def empty_middle_log(log):
    log.write()


@active
def empty_active_log(log):
    log.write()


@middle
def swapped_blocks(log):
    first, second = log.data[_BLOCK : 2 * _BLOCK], log.data[2 * _BLOCK : 3 * _BLOCK]
    log.replace(_BLOCK, 3 * _BLOCK, second + first)


@middle
def swapped_batches(log):
    one = log.random.choice(log.batches[:-1])
    other = log.batches[log.batches.index(one) + 1]
    log.replace(one.start, other.end, log.bytes_of(other) + log.bytes_of(one))


@middle
def bit_flip_in_middle_record(log):
    log.flip(log.inner().end - 6, 0x10)


@active
def bit_flip_in_active_record(log):
    bit_flip_in_middle_record(log)


@damage
def bit_flips_in_two_segments(target):
    bit_flip_in_middle_record(target.middle)
    bit_flip_in_middle_record(target.active)


@middle
def bit_flip_in_base_offset(log):
    log.flip(log.inner().start + 7, 0x20)


@damage
def any_bit_flip_in_any_base_offset(target):
    log = target.random.choice(target.logs)
    bit = target.random.randrange(64)
    log.flip(log.any().start + 7 - bit // 8, 1 << bit % 8)


@active
def bit_flip_in_active_leader_epoch(log):
    log.flip(log.batches[0].start + 15, 0x40)


@middle
def leader_epoch_changed_in_middle_batch(log):
    log.put(log.inner().start + 12, struct.pack(">i", 7))


@middle
def magic_byte_changed(log):
    log.put(log.inner().start + 16, b"\1")


@middle
def size_field_off_by_one(log):
    log.flip(log.inner().start + 11, 1)


@middle
def line_ends_converted(log):
    log.write(log.data.replace(b"\n", b"\r\n"))


@middle
def byte_inserted(log):
    at = log.inner().start + 70
    log.replace(at, at, b"\0")


@middle
def byte_removed(log):
    at = log.inner().start + 70
    log.replace(at, at + 1)


@middle
def log_gzipped_in_place(log):
    log.write(gzip.compress(log.data, mtime=0))


# ---- bytes after the end of a log


@active
def zeros_after_active_segment(log):
    log.append(bytes(4096))


@middle
def zeros_after_middle_segment(log):
    log.append(bytes(4096))


@active
def hole_after_active_segment(log):
    os.truncate(log.path, len(log.data) + 65536)


@damage
def stale_block_after_active_segment(target):
    target.active.append(target.middle.data[:500])


@damage
def stale_batches_after_active_segment(target):
    stale = target.middle
    target.active.append(stale.data[: stale.inner().start])


@damage
def stale_tail_after_active_segment(target):
    stale = target.middle
    target.active.append(stale.data[stale.inner().start + 33 :])


@active
def last_batch_twice(log):
    log.append(log.bytes_of(log.batches[-1]))


@active
def last_batches_twice(log):
    log.append(*map(log.bytes_of, log.batches[-3:]))


def _foreign_batch(target: Target) -> bytes:
    log = target.log(min(target.other.glob("*.log")))
    return log.bytes_of(log.batches[1])


@damage
def foreign_batch_with_lower_offset_at_end(target):
    target.active.append(_foreign_batch(target))


@damage
def foreign_batch_with_higher_offset_at_end(target):
    target.active.append(struct.pack(">q", target.end + 50), _foreign_batch(target)[8:])


@damage
def next_segments_batches_after_middle_segment(target):
    log = target.middle
    following = next(one for one in target.logs if one.path > log.path)
    log.append(following.data[: following.any().start] or following.data)


# ---- batches that are missing


@active
def batch_cut_out_of_active_segment(log):
    place = log.inner()
    log.replace(place.start, place.end)


@middle
def batch_cut_out_indexes_fitting(log):
    cut_out(log, [log.inner()])


@middle
def batches_cut_out_indexes_fitting(log):
    first, second = sorted(log.random.sample(log.batches[1:-1], 2))
    cut_out(log, [first, second])


@damage
def marker_cut_out(target):
    found = [(log, place) for log in target.logs for place in log.batches if log.data[place.start + 22] & 0x20]
    log, place = target.random.choice(found)
    cut_out(log, [place])


# ---- files of other partitions and earlier times


@damage
def middle_log_of_other_partition(target):
    target.middle.write(target.middle_of_other.data)


@damage
def foreign_segment_added(target):
    foreign = target.middle_of_other
    path = target.segment(int(foreign.path.stem))
    foreign.copy_to(target.segment(int(path.stem) + 1) if path.exists() else path)


@damage
def middle_segment_of_other_partition(target):
    target.middle_of_other.copy_to(target.middle.path)


@middle
def middle_segment_twice_under_higher_name(log):
    log.copy_to(log.path.with_name(f"{int(log.path.stem) + 5:020d}.log"))


@damage
def first_segment_twice_behind_end(target):
    target.logs[0].copy_to(target.segment(target.end + 10))


@damage
def two_partitions_merged(target):
    for path in sorted(target.other.glob("*.log")):
        if not (target.directory / path.name).exists():
            target.log(path).copy_to(target.directory / path.name)


@active
def active_log_older_than_indexes(log):
    log.write(log.data[: log.batches[max(1, len(log.batches) // 2)].start])


@active
def active_log_half_copied(log):
    log.write(log.data[: len(log.data) // 2])


@damage
def partition_restored_from_older_backup(target):
    target.go_back(target.directory)


@damage
def older_segments_over_newer(target):
    backup = target.directory.with_name("backup")
    shutil.copytree(target.directory, backup)
    try:
        target.go_back(backup)
        last = target.log(max(backup.glob("*.log")))
        last.copy_to(target.directory / last.path.name)
    finally:
        shutil.rmtree(backup)


@damage
def last_segments_missing(target):
    for log in target.logs[-2:]:
        log.remove(".log", *INDEXES, ".snapshot")
    target.found("*.snapshot")[-1].unlink()


@middle
def rsync_name_instead_of_middle_log(log):
    log.path.rename(log.path.with_name(f".{log.path.name}.Xa3kd9"))


@middle
def middle_log_missing(log):
    log.remove(".log")


@middle
def middle_segment_missing(log):
    log.remove()


@damage
def first_segment_missing(target):
    target.logs[0].remove()


def _rename_by(log: Log, offsets: int) -> None:
    log.rename_to(log.path.with_name(f"{int(log.path.stem) + offsets:020d}.log"))


@middle
def middle_segment_named_one_higher(log):
    _rename_by(log, 1)


@middle
def middle_segment_named_two_lower(log):
    _rename_by(log, -2)


# ---- names of interrupted work


@middle
def middle_log_marked_deleted(log):
    log.path.rename(f"{log.path}.deleted")


@middle
def cleaned_beside_segment(log):
    shutil.copyfile(log.path, f"{log.path}.cleaned")


@middle
def swap_beside_segment(log):
    for path in log.files(".log", ".index", ".timeindex"):
        shutil.copyfile(path, f"{path}.swap")


@middle
def torn_swap_beside_segment(log):
    Path(f"{log.path}.swap").write_bytes(log.data[: log.inner().start + 30])


@middle
def short_swap_beside_segment(log):
    Path(f"{log.path}.swap").write_bytes(log.data[: log.inner().start])


# ---- indexes


@middle
def index_half(log):
    path = log.index(".index")
    os.truncate(path, path.stat().st_size // 16 * 8)


@middle
def index_zeros(log):
    path = log.index(".index")
    path.write_bytes(bytes(path.stat().st_size))


@middle
def timeindex_zeros(log):
    path = log.index(".timeindex")
    path.write_bytes(bytes(path.stat().st_size))


@middle
def index_odd_size(log):
    path = log.index(".index")
    path.write_bytes(path.read_bytes() + b"\1\2\3")


@middle
def timeindex_cut(log):
    path = log.index(".timeindex")
    path.write_bytes(path.read_bytes()[:-5])


@damage
def index_of_other_partition(target):
    shutil.copyfile(target.middle_of_other.index(".index"), target.middle.index(".index"))


@damage
def timeindex_of_other_segment(target):
    shutil.copyfile(target.logs[0].index(".timeindex"), target.middle.index(".timeindex"))


@damage
def txnindex_of_other_segment(target):
    filled = target.found("*.txnindex", filled=True)
    shutil.copyfile(filled[0], filled[-1] if len(filled) > 1 else target.active.index(".txnindex"))


@damage
def txnindex_of_other_partition(target):
    foreign = [path for path in sorted(target.other.glob("*.txnindex")) if path.stat().st_size]
    shutil.copyfile(foreign[-1], target.found("*.txnindex", filled=True)[0])


def _remove_all(paths: list[Path]) -> None:
    if not paths:
        raise LookupError
    for path in paths:
        path.unlink()


@damage
def txnindexes_missing(target):
    _remove_all(target.found("*.txnindex"))


@active
def indexes_of_active_segment_missing(log):
    _remove_all(log.files(".index", ".timeindex"))


@damage
def all_indexes_missing(target):
    _remove_all([path for suffix in INDEXES for path in target.found(f"*{suffix}")])


# ---- producer snapshots, leader epochs, topic ids, checkpoints


@damage
def snapshots_missing(target):
    _remove_all(target.found("*.snapshot"))


@damage
def last_snapshot_of_other_partition(target):
    shutil.copyfile(max(target.other.glob("*.snapshot")), target.found("*.snapshot")[-1])


@damage
def last_snapshot_cut(target):
    path = target.found("*.snapshot")[-1]
    path.write_bytes(path.read_bytes()[:-40])


@damage
def last_snapshot_old(target):
    shutil.copyfile(target.found("*.snapshot")[0], target.found("*.snapshot")[-1])


def _epochs(target: Target, lines: list[str]) -> None:
    (target.directory / "leader-epoch-checkpoint").write_text("".join(f"{line}\n" for line in ["0", str(len(lines)), *lines]))


@damage
def leader_epochs_wrong(target):
    _epochs(target, ["0 0", "5 7"])


@damage
def leader_epoch_begins_a_second_time(target):
    lines = (target.directory / "leader-epoch-checkpoint").read_text().splitlines()[2:]
    _epochs(target, [*lines, f"{lines[0].split()[0]} {target.end - 1}"])


@damage
def leader_epochs_missing(target):
    (target.directory / "leader-epoch-checkpoint").unlink()


@damage
def partition_metadata_missing(target):
    (target.directory / "partition.metadata").unlink()


@damage
def partition_metadata_of_other_topic(target):
    shutil.copyfile(target.other / "partition.metadata", target.directory / "partition.metadata")


def _checkpoint(target: Target, kind: str, offset: int) -> None:
    path = target.directory.parent / CHECKPOINTS[kind]
    key = " ".join(target.directory.name.rsplit("-", 1))
    write_checkpoint(path, read_checkpoint(path) | {key: str(offset)})


@damage
def log_start_behind_end(target):
    _checkpoint(target, "log_start", target.end + 7)


@damage
def log_start_at_end(target):
    _checkpoint(target, "log_start", target.end)


@damage
def log_start_inside_log(target):
    _checkpoint(target, "log_start", target.middle.inner().first)


@damage
def recovery_point_behind_end(target):
    _checkpoint(target, "recovery_point", target.end + 20)
