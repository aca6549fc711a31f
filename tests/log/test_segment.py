"""LogSegment: its files, appends, reads, times, truncation and suffixes."""

from __future__ import annotations

import struct

import pytest

from engine.config.topic import LogConfig
from engine.errors import UnwritableFile
from engine.files import Files, WritableFile
from engine.formats import ControlType
from engine.log.epochs.leader_epoch_cache import LeaderEpochFileCache
from engine.log.errors import CorruptIndex, CorruptRecord, OffsetIndexMissing, SegmentOffsetOverflow, SegmentTooLarge
from engine.log.fetch.segment_view import SegmentView
from engine.log.producers.state_manager import ProducerStateManager
from engine.log.segment.log_segment import LogSegment, Partition, RollParams
from engine.record.builder import NewRecord, build_batch, end_txn_batch

CONFIG = LogConfig(index_interval=100, max_index_size=1200)
NOW = 5_000_000


def batch(offset, count=2, timestamp=1000, **options):
    records = [NewRecord(offset + i, timestamp + i if timestamp >= 0 else -1, b"k", b"v" * 20) for i in range(count)]
    return build_batch(records, **options)


def opened(directory, base=0, config=CONFIG, **options):
    return LogSegment(Partition(Files(), str(directory), config, NOW), base, **options)


def filled(directory, numbers=range(10), base=0, config=CONFIG):
    """Batch n has offsets base + 2n and base + 2n + 1, timestamps 1000 + 10n and one more."""
    segment = opened(directory, base, config)
    for number in numbers:
        segment.append(base + 2 * number + 1, batch(base + 2 * number, timestamp=1000 + 10 * number))
    return segment


SIZE = len(batch(0))


def files(directory):
    return {path.name.lstrip("0") or path.name: path.read_bytes() for path in directory.iterdir()}


def recover(segment, directory):
    manager = ProducerStateManager(Files(), str(directory))
    epochs = LeaderEpochFileCache(Files(), str(directory))
    return segment.recover(manager, epochs), manager, epochs


# ---- files -------------------------------------------------------------------------------------------


def test_the_log_is_made_at_once_and_indexes_when_they_are_used(tmp_path):
    segment = opened(tmp_path, 7)
    assert [path.name for path in tmp_path.iterdir()] == ["00000000000000000007.log"]
    assert segment.read_next_offset() == 7
    assert segment.paths[1].endswith("/00000000000000000007.index")
    segment.append(8, batch(7))
    segment.close()
    assert set(files(tmp_path)) == {"7.log", "7.index", "7.timeindex"}


def test_reading_only_makes_nothing(tmp_path):
    before = filled(tmp_path)
    before.close()
    (tmp_path / "00000000000000000000.index").unlink()
    kept = files(tmp_path)
    segment = opened(tmp_path, writable=False)
    assert segment.read(5, 1000, segment.size).base_offset == 4
    assert (segment.read_next_offset(), segment.largest_timestamp) == (20, 1091)
    segment.close()
    assert files(tmp_path) == kept


def test_a_log_above_two_gigabytes_is_refused(tmp_path):
    with open(tmp_path / "00000000000000000000.log", "wb") as file:
        file.truncate(2**31)
    with pytest.raises(SegmentTooLarge):
        opened(tmp_path)


def test_a_preallocated_log_is_trimmed(tmp_path):
    config = LogConfig(index_interval=100, max_index_size=1200, preallocate=True, segment_size=1 << 16)
    segment = opened(tmp_path, 0, config, file_already_exists=False)
    assert (segment.size, len(files(tmp_path)[".log"])) == (0, 1 << 16)
    segment.append(1, batch(0))
    assert (segment.size, len(files(tmp_path)[".log"])) == (SIZE, 1 << 16)
    assert segment.read_next_offset() == 2
    segment.close()
    assert len(files(tmp_path)[".log"]) == SIZE


def test_suffixes(tmp_path):
    segment = filled(tmp_path)
    segment.change_file_suffixes("", ".deleted")
    segment.append(21, batch(20))
    assert segment.read_next_offset() == 22
    with pytest.raises(ValueError, match="end with"):
        segment.change_file_suffixes("", ".swap")
    segment.close()
    assert set(files(tmp_path)) == {".log.deleted", ".index.deleted", ".timeindex.deleted"}
    again = opened(tmp_path, suffix=".deleted")
    again.change_file_suffixes(".deleted", "")  # indexes that nobody opened are renamed too
    again.close()
    assert set(files(tmp_path)) == {".log", ".index", ".timeindex"}
    again.delete_if_exists()
    again.delete_if_exists()
    assert files(tmp_path) == {}


# ---- appending ---------------------------------------------------------------------------------------


def entries(content, code):
    return list(struct.iter_unpack(code, content))


def test_entries_fall_on_batches_not_on_appends(tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir(), other.mkdir()
    filled(one).close()
    segment = opened(other)
    segment.append(19, b"".join(batch(2 * n, timestamp=1000 + 10 * n) for n in range(10)))
    segment.close()
    assert files(one) == files(other)
    step = -(-101 // SIZE)
    assert entries(files(one)[".index"], ">ii") == [(2 * n + 1, n * SIZE) for n in range(step, 10, step)]
    last = [] if (9 % step) == 0 else [(1091, 19)]
    assert entries(files(one)[".timeindex"], ">qi") == [(1001 + 10 * n, 2 * n + 1) for n in range(step, 10, step)] + last


def test_a_restart_counts_anew(tmp_path):
    segment = filled(tmp_path, range(1))
    segment.close()
    segment = opened(tmp_path)
    segment.resize_indexes(CONFIG.max_index_size)
    segment.append(3, batch(2))
    assert len(segment.offset_index) == 0  # in one life the second batch would have got an entry
    segment.append(5, batch(4))
    assert [entry.offset for entry in segment.offset_index] == [5]


def test_an_offset_that_does_not_fit_is_refused_before_anything_is_written(tmp_path):
    segment = filled(tmp_path)
    kept = files(tmp_path)
    for offset in (2**31, -1):
        with pytest.raises(SegmentOffsetOverflow) as error:
            segment.append(offset, batch(2**31 - 1))
        assert error.value.offset == offset
    assert files(tmp_path) == kept
    assert segment.can_convert_to_relative_offset(2**31 - 1)


def test_a_failed_write_leaves_no_half_batch(tmp_path, monkeypatch):
    segment = filled(tmp_path)
    write_at = WritableFile.write_at

    def tear(file, position, data):
        write_at(file, position, data[:30])
        raise UnwritableFile("no space left")

    monkeypatch.setattr(WritableFile, "write_at", tear)
    with pytest.raises(UnwritableFile):
        segment.append(21, batch(20))
    monkeypatch.undo()
    assert len(files(tmp_path)[".log"]) == segment.size == 10 * SIZE
    segment.append(21, batch(20))
    assert segment.read_next_offset() == 22


def test_when_it_rolls(tmp_path):
    segment = filled(tmp_path)

    def rolls(*, age=100, size=10_000, timestamp=1001, offset=20, messages=SIZE, now=NOW):
        return segment.should_roll(RollParams(age, size, timestamp, offset, messages, now))

    assert not rolls()
    assert not rolls(size=11 * SIZE)
    assert rolls(size=11 * SIZE - 1)
    assert not rolls(timestamp=1001 + 100)
    assert rolls(timestamp=1001 + 101)
    assert rolls(offset=2**31)
    segment.roll_jitter_ms = 40
    assert rolls(timestamp=1001 + 61)
    segment.roll_jitter_ms = 0
    fresh = opened(tmp_path, 100)
    assert not fresh.should_roll(RollParams(100, 10_000, 9999, 120, SIZE, NOW + 101))  # an empty one does not age
    fresh.append(101, batch(100, timestamp=-1))
    assert not fresh.should_roll(RollParams(100, 10_000, 9999, 120, SIZE, NOW + 100))
    assert fresh.should_roll(RollParams(100, 10_000, -1, 120, SIZE, NOW + 101))
    config = LogConfig(index_interval=0, max_index_size=240)
    full = filled(tmp_path, range(20), 200, config)
    assert (len(full.offset_index), full.time_index.is_full) == (19, True)
    assert full.should_roll(RollParams(10**9, 10**9, 1, 300, SIZE, NOW))
    assert not filled(tmp_path, range(19), 300, config).should_roll(RollParams(10**9, 10**9, 1, 400, SIZE, NOW))


def test_append_from_file_stops_where_an_offset_does_not_fit(tmp_path):
    source = tmp_path / "source.log"
    source.write_bytes(batch(0) + batch(2) + batch(2**31 + 5) + batch(2**31 + 7))
    first, second = opened(tmp_path, 0), opened(tmp_path, 2**31 + 5)
    with Files().open(str(source)) as file:
        taken = first.append_from_file(file, 0, file.size())
        assert taken == 2 * SIZE
        assert second.append_from_file(file, taken, file.size()) == 2 * SIZE
    assert (first.read_next_offset(), second.read_next_offset()) == (4, 2**31 + 9)


# ---- reading -----------------------------------------------------------------------------------------


def test_read(tmp_path):
    segment = filled(tmp_path)
    end = segment.size
    assert segment.read(0, 10_000, end) == (0, 0, end, False)
    assert segment.read(7, SIZE, end) == (6, 3 * SIZE, SIZE, False)
    assert segment.read(7, 10, end) == (6, 3 * SIZE, 10, True)
    assert segment.read(7, 10, end, min_one_message=True) == (6, 3 * SIZE, SIZE, False)
    assert segment.read(7, 0, end) == segment.read(7, 100, None) == (6, 3 * SIZE, 0, False)
    assert segment.read(7, 10_000, 4 * SIZE + 5) == (6, 3 * SIZE, SIZE + 5, False)
    assert segment.read(7, 10_000, SIZE).size == 0
    assert segment.read(20, 100, end) is None


def test_read_over_gaps(tmp_path):
    segment = opened(tmp_path, 10)
    for offset in (10, 20, 30):
        segment.append(offset + 1, batch(offset))
    assert [segment.translate_offset(offset).base_offset for offset in (3, 10, 11, 12, 20, 22, 31)] == [10, 10, 10, 20, 20, 30, 30]
    assert segment.translate_offset(32) is None
    assert segment.translate_offset(10, starting_position=1 * SIZE).base_offset == 20


def test_next_offset_and_a_torn_end(tmp_path):
    segment = filled(tmp_path)
    assert segment.read_next_offset() == 20
    with open(segment.log_path, "ab") as file:
        file.write(batch(20)[:-1])
    assert opened(tmp_path).read_next_offset() == 20
    with open(segment.log_path, "r+b") as file:
        file.truncate(10 * SIZE)
        file.seek(0, 2)
        file.write(bytes(30))
    with pytest.raises(CorruptRecord, match=f"byte {10 * SIZE}"):
        opened(tmp_path).read_next_offset()


@pytest.mark.parametrize("codec", [0, 4])
@pytest.mark.parametrize("magic", [1, 2])
def test_offset_for_timestamp(tmp_path, codec, magic):
    codec = min(codec, 3) if magic == 1 else codec
    segment = opened(tmp_path)
    for number in range(10):
        data = batch(2 * number, timestamp=1000 + 10 * number, codec=codec, magic=magic, **({"partition_leader_epoch": 3} if magic == 2 else {}))
        segment.append(2 * number + 1, data)
    epoch = 3 if magic == 2 else None
    assert segment.find_offset_by_timestamp(0, 0) == (1000, 0, epoch)
    assert segment.find_offset_by_timestamp(1051, 0) == (1051, 11, epoch)
    assert segment.find_offset_by_timestamp(1045, 0) == (1050, 10, epoch)
    assert segment.find_offset_by_timestamp(1045, 15) == (1071, 15, epoch)
    assert segment.find_offset_by_timestamp(1091, 0) == (1091, 19, epoch)
    assert segment.find_offset_by_timestamp(1092, 0) is None


# ---- times -------------------------------------------------------------------------------------------


def test_times(tmp_path):
    segment = filled(tmp_path)
    assert (segment.largest(), segment.rolling_based_timestamp, segment.first_batch_timestamp) == ((1091, 19), 1001, 1001)
    segment.append(21, batch(20, timestamp=500))
    assert (segment.largest(), segment.largest_record_timestamp) == ((1091, 19), 1091)
    empty = opened(tmp_path, 50)
    assert (empty.rolling_based_timestamp, empty.first_batch_timestamp, empty.largest_record_timestamp) == (None, 2**63 - 1, None)
    empty.set_last_modified(1_234_000)
    assert (empty.last_modified, empty.largest_timestamp) == (1_234_000, 1_234_000)


def test_a_reopened_segment_believes_its_time_index(tmp_path):
    filled(tmp_path).close()
    segment = opened(tmp_path)
    assert segment.largest() == (1091, 19)
    segment.close()
    kept = files(tmp_path)
    opened(tmp_path).close()  # nobody asked: nothing is added
    assert files(tmp_path) == kept


# ---- repairing ---------------------------------------------------------------------------------------


def test_recovering_gives_the_indexes_of_one_life(tmp_path):
    filled(tmp_path).close()
    kept = files(tmp_path)
    for name in (".index", ".timeindex"):
        (tmp_path / f"00000000000000000000{name}").write_bytes(b"nonsense" * 9)
    segment = opened(tmp_path)
    assert recover(segment, tmp_path)[0] == 0
    segment.close()
    assert {name: files(tmp_path)[name] for name in kept} == kept


def test_recovering_cuts_and_adds_epochs_and_producers(tmp_path):
    data = [
        batch(0, partition_leader_epoch=1, producer_id=5, producer_epoch=0, base_sequence=0, transactional=True),
        end_txn_batch(ControlType.ABORT, 4, base_offset=2, timestamp=9, producer_id=5, producer_epoch=0, partition_leader_epoch=3),
        batch(3, partition_leader_epoch=2),
        batch(5, partition_leader_epoch=4)[:-1] + b"?",
        batch(7, partition_leader_epoch=5),
    ]
    (tmp_path / "00000000000000000000.log").write_bytes(b"".join(data))
    segment = opened(tmp_path)
    cut, producers, epochs = recover(segment, tmp_path)
    segment.close()
    assert cut == len(data[3]) + len(data[4])
    assert files(tmp_path)[".log"] == b"".join(data[:3])
    assert [(entry.epoch, entry.start_offset) for entry in epochs.entries] == [(1, 0), (3, 2)]
    assert producers.map_end_offset == 5
    assert segment.collect_aborted_txns(0, 10).transactions == [(0, 5, 0, 2, 3)]
    assert segment.read_next_offset() == 5


def test_a_scan_done_before_is_applied(tmp_path):
    filled(tmp_path).close()
    kept = files(tmp_path)
    segment = opened(tmp_path)
    scan = segment.scan()
    assert (scan.batches, scan.records, scan.valid_size) == (10, 20, 10 * SIZE)
    segment.recover(ProducerStateManager(Files(), str(tmp_path)), LeaderEpochFileCache(Files(), str(tmp_path)), scan)
    segment.close()
    assert {name: files(tmp_path)[name] for name in kept} == kept


@pytest.mark.parametrize("offset", range(22))
def test_truncating(tmp_path, offset):
    segment = filled(tmp_path)
    left = min(offset // 2, 10)
    assert segment.truncate_to(offset, NOW + 5) == (10 - left) * SIZE
    assert segment.size == left * SIZE
    assert all(entry.offset < offset and entry.position < segment.size for entry in segment.offset_index)
    assert all(entry.offset < offset for entry in segment.time_index)
    assert segment.created == (NOW + 5 if left == 0 else NOW)
    assert segment.read_next_offset() == 2 * left
    if len(segment.time_index) or left == 10:
        assert segment.largest() == (1001 + 10 * (left - 1), 2 * left - 1)
    segment.append(2 * left + 1, batch(2 * left))
    segment.close()
    assert opened(tmp_path).read_next_offset() == 2 * left + 2


def test_sanity_check(tmp_path):
    segment = opened(tmp_path, 5)
    with pytest.raises(OffsetIndexMissing):
        segment.sanity_check(time_index_newly_created=False)
    (tmp_path / "00000000000000000005.index").write_bytes(b"")
    segment.sanity_check(time_index_newly_created=True)
    assert files(tmp_path)["5.timeindex"] == b""
    (tmp_path / "00000000000000000005.txnindex").write_bytes(struct.pack(">hqqqq", 0, 1, 0, 4, 5))
    with pytest.raises(CorruptIndex):
        opened(tmp_path, 5).sanity_check(time_index_newly_created=False)


def test_becoming_inactive_adds_the_closing_entry_and_trims(tmp_path):
    segment = filled(tmp_path)
    before = len(segment.time_index)
    segment.append(21, batch(20, timestamp=5000))
    segment.on_become_inactive_segment()
    assert segment.time_index.last_entry() == (5001, 21)
    assert len(files(tmp_path)[".timeindex"]) == 12 * len(segment.time_index) > 12 * before
    assert len(files(tmp_path)[".index"]) == 8 * len(segment.offset_index)


def test_closing_survives_a_time_index_out_of_order(tmp_path):
    filled(tmp_path).close()
    path = tmp_path / "00000000000000000000.timeindex"
    path.write_bytes(struct.pack(">qi", 1, 2**30))
    segment = opened(tmp_path)
    segment.append(21, batch(20, timestamp=9000))
    segment.close()
    assert path.read_bytes() == struct.pack(">qi", 1, 2**30)


def test_a_view_has_nothing_that_writes():
    changing = {"append", "append_from_file", "recover", "truncate_to", "resize_indexes", "flush", "sync_changes", "scan",
                "set_last_modified", "change_file_suffixes", "delete_if_exists", "on_become_inactive_segment"}  # fmt: skip
    assert changing <= set(dir(LogSegment))
    assert changing.isdisjoint(dir(SegmentView))
