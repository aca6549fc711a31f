"""Loading a log: laws that hold for every directory, and what the report says."""

from __future__ import annotations

import shutil
import struct
import tracemalloc

import pytest

from engine.config.topic import LogConfig
from engine.errors import UnwritableFile
from engine.files import Files
from engine.files.layered import FilesAbove
from engine.findings import Severity
from engine.formats import BATCH_HEADER, Codec
from engine.log.report import Action, loses_records
from engine.record.builder import NewRecord, build_batch
from engine.record.windows import crc32c
from tests.crash.partitions import CONFIG, DIRECTORY, NOW, closed, name, segments
from tests.support.cases import case_named, cases
from tests.support.crash_files import CrashFiles
from tests.support.damage import batches
from tests.support.logs import open_log
from tests.support.small_logs import batch as small_batch

RECOVERED = cases(frozenset(("recover",)))


def find(name):
    return case_named(RECOVERED, name)


def opened(case, directory, *, clean=False, jobs=1, **changed):
    """Open and close the partition as `case` has it."""
    data = case.data
    settings = {"recovery_point": data.get("recoveryPoint", 0), "log_start_offset": data.get("start", 0), **changed}
    log = open_log(Files(), str(directory), LogConfig.of(case.settings()), now=data["now"], clean_shutdown=clean, jobs=jobs, **settings)
    log.close()
    return log


def contents(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}


# where the log starts at its end the last epoch begins there too, and goes at the next opening: in Kafka as well
TWICE = [case for case in RECOVERED if case.data.get("start", 0) != case.data["result"].get("logEndOffset", -1)]


@pytest.mark.parametrize("case", TWICE, ids=lambda case: case.name)
def test_a_second_recovery_changes_nothing(case, tmp_path):
    directory = case.stage(tmp_path)
    opened(case, directory)
    once = contents(directory)
    again = opened(case, directory)
    assert contents(directory) == once
    assert not [event for event in again.report.events if loses_records(event)]


@pytest.mark.parametrize("case", RECOVERED, ids=lambda case: case.name)
def test_segments_side_by_side_leave_the_same_files(case, tmp_path):
    directory = case.stage(tmp_path / "one")
    other = case.stage(tmp_path / "other")
    one, two = opened(case, directory), opened(case, other, jobs=3)
    assert contents(directory) == contents(other)
    assert [event._replace(reason=event.reason.replace(str(directory), str(other))) for event in one.report.events] == two.report.events


def test_what_was_cut_is_reported_in_offsets_records_and_bytes(tmp_path):
    case = find("recover-flip-middle-segment")
    log = opened(case, case.stage(tmp_path))
    (cut,) = log.report.find(Action.TRUNCATED)
    (gone,) = log.report.find(Action.REMOVED)[:1]
    assert (cut.first_offset, cut.end_offset, cut.records, cut.size) == (63, 88, 20, 1662)
    assert cut.severity is gone.severity is Severity.ERROR
    assert (gone.path, gone.first_offset, gone.size) == ("00000000000000000088.log", 88, 557)
    assert gone.records == gone.end_offset - gone.first_offset
    kept = sum(event.records for event in log.report.find(Action.RECOVERED))
    assert kept == log.log_end_offset == 63


def test_zeros_behind_the_log_are_no_loss(tmp_path):
    case = find("recover-zero-tail")
    log = opened(case, case.stage(tmp_path))
    assert [(event.size, event.severity) for event in log.report.find(Action.TRUNCATED)] == [(300, Severity.WARNING)]


def test_a_sound_log_is_reported_as_sound(tmp_path):
    case = find("recover-clean")
    log = opened(case, case.stage(tmp_path))
    assert log.report.worst is Severity.INFO
    assert {event.action for event in log.report.events} <= {Action.RECOVERED, Action.KEPT, Action.REMOVED}


def test_segments_below_the_recovery_point_are_reported_as_kept(tmp_path):
    case = find("recover-point-segment")
    log = opened(case, case.stage(tmp_path))
    kept, recovered = (log.report.find(action) for action in (Action.KEPT, Action.RECOVERED))
    assert kept
    assert [event.end_offset for event in kept][-1] == recovered[0].first_offset


def test_torn_bytes_stay_at_a_clean_start_and_are_told(tmp_path):
    case = find("recover-torn-last-byte")
    directory = case.stage(tmp_path)
    before = (directory / "00000000000000000000.log").read_bytes()
    log = opened(case, directory, clean=True)
    assert (directory / "00000000000000000000.log").read_bytes() == before
    assert log.report.has_problems_left
    assert [(event.size, event.severity) for event in log.report.find(Action.KEPT)] == [(231, Severity.WARNING)]


def test_a_corrupt_snapshot_is_told(tmp_path):
    case = find("recover-snapshot-corrupt")
    directory = case.stage(tmp_path)
    log = opened(case, directory)
    told = [event for event in log.report.find(Action.REMOVED) if event.severity is Severity.WARNING]
    assert [("crc" in event.reason.lower(), event.path.endswith(".snapshot")) for event in told] == [(True, True)]


class OrderedFiles(FilesAbove):
    """Notes what is removed and synced, in order."""

    def __init__(self):
        super().__init__(Files())
        self.steps = []

    def remove(self, path):
        self.steps.append(path.rpartition("/")[2])
        super().remove(path)

    def sync_directory(self, path):
        self.steps.append("sync")
        super().sync_directory(path)


def test_the_swap_of_an_unfinished_split_is_gone_before_its_cleaned_file(tmp_path):
    """A power cut between them would leave a `.swap` that looks whole: the next start would replace segments by it."""
    case = find("recover-clean")
    directory = case.stage(tmp_path)
    log = min(directory.glob("*.log"))
    swap, cleaned = (log.with_name(log.name + suffix) for suffix in (".swap", ".cleaned"))
    swap.write_bytes(log.read_bytes())
    cleaned.write_bytes(b"")
    files = OrderedFiles()
    open_log(files, str(directory), LogConfig.of(case.settings()), now=case.data["now"], clean_shutdown=False, recovery_point=0).close()
    assert files.steps[:3] == [swap.name, "sync", cleaned.name]


@pytest.mark.parametrize("name", ["abc.log", "x.index", "y.log.swap", "z.cleaned"])
def test_a_name_without_an_offset_stops_kafka_but_not_us(name, tmp_path):
    case = find("recover-clean")
    directory = case.stage(tmp_path)
    (directory / name).write_bytes(b"not ours")
    log = opened(case, directory)
    assert (directory / name).read_bytes() == b"not ours"
    assert [event.path for event in log.report.find(Action.KEPT) if event.severity is Severity.WARNING] == [name]


def test_garbage_behind_a_clean_log_is_recovered_as_kafka_would_not_start(tmp_path):
    case = find("recover-clean")
    directory = case.stage(tmp_path)
    end = opened(case, directory).log_end_offset
    last = max(directory.glob("*.log"))
    size = last.stat().st_size
    with last.open("ab") as file:
        file.write(bytes(100))
    log = opened(case, directory, clean=True, recovery_point=end)
    assert (log.log_end_offset, last.stat().st_size) == (end, size)
    assert log.report.worst is Severity.WARNING


def test_a_partition_that_is_no_directory_is_refused(tmp_path):
    (tmp_path / "topic-0").write_text("a file")
    with pytest.raises(UnwritableFile):
        open_log(Files(), str(tmp_path / "topic-0"), LogConfig(), now=0, clean_shutdown=True)


def test_the_smallest_epoch_is_found_again_in_the_batches(tmp_path):
    case = find("recover-epochs-garbage")
    directory = case.stage(tmp_path)
    good = case.stage(tmp_path / "good")
    (good / "leader-epoch-checkpoint").unlink()
    assert opened(case, directory).leader_epoch_cache.entries == opened(case, good).leader_epoch_cache.entries
    assert (directory / "leader-epoch-checkpoint").read_bytes() == (good / "leader-epoch-checkpoint").read_bytes()
    shutil.rmtree(good)


def test_a_marker_that_no_codec_can_read_is_cut(tmp_path):
    case = find("recover-transactions-interleaved")
    directory = case.stage(tmp_path)
    log = min(directory.glob("*.log"))
    data = bytearray(log.read_bytes())
    position = next(at for at, _ in batches(bytes(data)) if data[at + 22] & 0x20)
    size = dict(batches(bytes(data)))[position]
    data[position + 22] |= 1  # gzip
    struct.pack_into(">I", data, position + 17, crc32c(bytes(data[position + 21 : position + size])))
    log.write_bytes(data)
    base_offset = struct.unpack_from(">q", data, position)[0]
    recovered = opened(case, directory)
    assert (recovered.log_end_offset, log.stat().st_size) == (base_offset, position)
    assert "marker" in recovered.report.find(Action.TRUNCATED)[0].reason


@pytest.mark.parametrize("left", [0, 1])
def test_producers_without_number_take_little_memory(tmp_path, left):
    """Also where an older snapshot is left, and while the one at the end is made, and read again."""
    producers, batches_of_each = 50_000, 2
    model = bytearray(build_batch([NewRecord(0, 1000, None, b"v")], producer_id=0, producer_epoch=0, base_sequence=0))
    directory = tmp_path / "t-0"
    directory.mkdir()
    with (directory / "00000000000000000000.log").open("wb") as log:
        for offset in range(producers * batches_of_each):
            BATCH_HEADER.put("base_offset", model, 0, offset)
            BATCH_HEADER.put("producer_id", model, 0, offset % producers)
            BATCH_HEADER.put("base_sequence", model, 0, offset // producers)
            BATCH_HEADER.put("crc", model, 0, crc32c(memoryview(model)[BATCH_HEADER.positions["attributes"] :]))
            log.write(model)
    settings = {"now": 1000, "clean_shutdown": False, "for_snapshots": True}
    if left:
        open_log(Files(), str(directory), LogConfig(), **settings).close()
        (directory / f"{producers * batches_of_each:020}.snapshot").rename(directory / f"{producers:020}.snapshot")
        settings["clean_shutdown"] = True
    tracemalloc.start()
    try:
        opened = open_log(Files(), str(directory), LogConfig(), **settings)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(opened.producer_state.producers) == producers
    assert next(opened.producer_state.producers.values()).last_seq == 1
    assert peak < 200 * producers  # an object for each, and for each of its last batches, take 600 bytes and more
    opened.close()


def test_what_lies_behind_damage_is_told_where_the_recovery_begins_anew():
    """Damage below the recovery point stops the first attempt; what that would have cut away is a loss, and no left-over."""
    disk = closed(segments())
    damaged = {path: bytearray(data) for path, data in disk.contents.items() if not path.endswith(".snapshot")}
    damaged[name(0)][8:12] = b"\xff" * 4  # a size
    damaged[name(12)][-1] ^= 1
    files = CrashFiles(disk._replace(contents={path: bytes(data) for path, data in damaged.items()}))
    log = open_log(files, DIRECTORY, CONFIG, now=NOW, clean_shutdown=False, recovery_point=12)
    lost = {event.path: (event.first_offset, event.end_offset, event.records) for event in log.report.events if loses_records(event)}
    assert (log.report.unread_below, log.report.find(Action.KEPT)) == (None, []), "what the first attempt believed was read"
    assert len([event for event in log.report.events if "would not start" in event.reason]) == 1
    log.close()
    assert lost.pop(f"{0:020}.log")[0] == 0
    assert lost == {f"{12:020}.log": (12, 23, 8), f"{23:020}.log": (23, 33, 10), f"{33:020}.log": (33, 39, 6)}


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
@pytest.mark.parametrize("magic", [0, 1, 2])
def test_the_pieces_of_a_split_begin_at_their_first_record(magic, codec, tmp_path):
    """A compressed set of formats 0 and 1 has the offset of its last message: a piece named by it would begin behind others."""
    def puts(offset):
        return build_batch([NewRecord(offset + n, NOW, b"k", b"v") for n in range(3)], magic=magic, codec=codec)

    far = 2**31 + 9
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0/00000000000000000005.log").write_bytes(puts(5) + puts(far))
    (tmp_path / "t-0/00000000000000000005.log").chmod(0o600)
    log = open_log(Files(), str(tmp_path / "t-0"), LogConfig.of({}), now=NOW, clean_shutdown=False)
    log.close()
    assert (log.log_start_offset, log.log_end_offset) == (5, far + 3)
    assert [segment.base_offset for segment in log.segments] == [5, far]
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "t-0").iterdir() if path.suffix in (".log", ".index", ".timeindex")} == {0o600}, "as the log that was split"


def test_of_an_emptied_segment_all_records_are_told(tmp_path):
    """Kafka empties a segment whose offsets run backwards once an index refuses them."""
    (tmp_path / f"{0:020d}.log").write_bytes(small_batch(0) + small_batch(1, 3))
    backwards = small_batch(4, 2) + small_batch(8, 3) + small_batch(4)
    (tmp_path / f"{4:020d}.log").write_bytes(backwards)
    (tmp_path / f"{11:020d}.log").write_bytes(small_batch(11))
    for base in (0, 4, 11):
        (tmp_path / f"{base:020d}.index").write_bytes(b"")
    settings = LogConfig.of({"index.interval.bytes": "0"})
    log = open_log(Files(), str(tmp_path), settings, now=1, clean_shutdown=False)
    log.close()
    lost = [event for event in log.report.events if event.severity is Severity.ERROR]
    assert [(event.action, event.path, event.first_offset, event.end_offset, event.records, event.size) for event in lost] == [
        (Action.TRUNCATED, f"{4:020d}.log", 4, 11, 6, len(backwards)),
        (Action.REMOVED, f"{11:020d}.log", 11, 12, 1, len(small_batch(11))),
    ]  # fmt: skip


def test_offsets_that_were_cut_are_told_as_a_range_even_where_they_run_backwards(tmp_path):
    (tmp_path / f"{4:020d}.log").write_bytes(small_batch(4, 2) + small_batch(8, 3) + small_batch(4))
    log = open_log(Files(), str(tmp_path), LogConfig.of({"index.interval.bytes": "0"}), now=1, clean_shutdown=False)
    log.close()
    (cut,) = log.report.find(Action.TRUNCATED)
    assert (cut.first_offset, cut.end_offset, cut.records) == (4, 5, 1)


def test_a_piece_of_a_split_segment_may_go_behind_damage(tmp_path):
    """The segment that was split waits for its removal under the name that its first piece would get."""
    first = small_batch(0, 3) + small_batch(3) + small_batch(0)  # offsets that go back: an index refuses them, and the segment is emptied
    overflowed = small_batch(4, 1) + BATCH_HEADER.struct.pack(*BATCH_HEADER.read(small_batch(0))._replace(base_offset=2**31 + 9))
    overflowed += small_batch(0)[BATCH_HEADER.size :]
    (tmp_path / f"{0:020d}.log").write_bytes(first)
    (tmp_path / f"{0:020d}.index").write_bytes(b"")
    (tmp_path / f"{4:020d}.log").write_bytes(overflowed)  # without an index it is recovered, and split, before the other
    settings = LogConfig.of({"index.interval.bytes": "0"})
    log = open_log(Files(), str(tmp_path), settings, now=1, clean_shutdown=False)
    log.close()
    removed = [(event.path, event.records, event.size) for event in log.report.find(Action.REMOVED)]
    size = len(overflowed) // 2
    assert removed == [(f"{4:020d}.log", 1, size), (f"{2**31 + 9:020d}.log", 1, size)]
    assert [path.name for path in tmp_path.glob("*.log*")] == [f"{0:020d}.log"]
