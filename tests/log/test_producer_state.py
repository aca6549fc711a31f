from __future__ import annotations

import pytest

from engine.checkpoint.producer_snapshot import ProducerSnapshot
from engine.files import Files
from engine.formats import ABORTED_TXN, AbortedTxn, ControlType
from engine.log.append_errors import (
    IllegalArgument,
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequence,
    TransactionCoordinatorFenced,
)
from engine.log.producers.entry import AppendOrigin, CompletedTxn
from engine.log.producers.state_manager import ProducerStateManager
from engine.log.segment.producer_rows import ProducerRow, RowChunk, TxnMarker

INT_MAX = 2**31 - 1
NOW = 1_700_000_000_000


@pytest.fixture
def directory(tmp_path):
    path = tmp_path / "topic-0"
    path.mkdir()
    return path


@pytest.fixture
def state(directory):
    return ProducerStateManager(Files(), str(directory))


def data(offset, sequence, *, producer=7, epoch=0, count=1, transactional=False, timestamp=NOW):
    return ProducerRow(producer, epoch, sequence, offset, offset + count - 1, timestamp, transactional, is_control=False, marker=None)


def marker(offset, kind=ControlType.COMMIT, *, producer=7, epoch=0, coordinator_epoch=0):
    end = TxnMarker(kind, coordinator_epoch, NOW)
    return ProducerRow(producer, epoch, -1, offset, offset, NOW, is_transactional=True, is_control=True, marker=end)


def append(state, row, origin=AppendOrigin.CLIENT, version=0):
    info = state.prepare_update(row.producer_id, origin)
    completed = info.append(row, version)
    state.update(info)
    return completed


class TestSequences:
    def test_the_next_one_follows_the_last(self, state):
        append(state, data(0, 0, count=3))
        append(state, data(3, 3))
        with pytest.raises(OutOfOrderSequence, match=r"5 \(incoming seq. number\), 3 \(current end"):
            append(state, data(4, 5))

    def test_an_unknown_producer_begins_anywhere(self, state):
        append(state, data(0, 41))
        assert state.last_entry(7).last_seq == 41

    def test_a_new_epoch_begins_with_0(self, state):
        append(state, data(0, 0))
        with pytest.raises(OutOfOrderSequence, match="Invalid sequence number for new epoch"):
            append(state, data(1, 1, epoch=1))
        append(state, data(1, 0, epoch=1))
        assert len(state.last_entry(7).batches) == 1

    def test_an_old_epoch_is_fenced(self, state):
        append(state, data(0, 0, epoch=2))
        with pytest.raises(InvalidProducerEpoch, match="is 1, which is < the last seen epoch 2"):
            append(state, data(1, 1, epoch=1))

    def test_the_largest_is_followed_by_0(self, state):
        append(state, data(0, INT_MAX - 1, count=4))
        entry = state.last_entry(7)
        assert (entry.last_seq, entry.batches[-1].first_seq) == (1, INT_MAX - 1)
        append(state, data(4, INT_MAX, producer=8))
        append(state, data(5, 0, producer=8))

    def test_only_clients_are_held_to_them(self, state):
        append(state, data(0, 0), AppendOrigin.REPLICATION)
        append(state, data(1, 77), AppendOrigin.REPLICATION)
        append(state, data(2, 5, epoch=-1), AppendOrigin.REPLICATION)
        append(state, data(3, -1, producer=9), AppendOrigin.COORDINATOR)
        append(state, data(4, -1, producer=9), AppendOrigin.COORDINATOR)

    def test_the_last_five_batches_are_known_again(self, state):
        rows = [data(number, number) for number in range(6)]
        for row in rows:
            append(state, row)
        entry = state.last_entry(7)
        assert [entry.find_duplicate(row) is not None for row in rows] == [False] + [True] * 5
        assert entry.find_duplicate(data(9, 5)).first_offset == 5
        assert entry.find_duplicate(data(9, 5, epoch=1)) is None
        assert entry.find_duplicate(data(9, 4, count=2)) is None


class TestTransactions:
    def test_the_first_unstable_offset_waits_for_the_high_watermark(self, state):
        assert state.first_unstable_offset is None
        append(state, data(0, 0, transactional=True))
        append(state, data(1, 0, producer=8, transactional=True))
        assert state.first_unstable_offset == state.first_undecided_offset == 0
        done = append(state, marker(2), AppendOrigin.COORDINATOR)
        assert done == CompletedTxn(7, 0, 2, is_aborted=False)
        assert state.last_stable_offset(done) == 1
        state.complete_txn(done)
        assert (state.first_unstable_offset, state.first_undecided_offset) == (0, 1)
        state.on_high_watermark_updated(2)
        assert state.first_unstable_offset == 0
        state.on_high_watermark_updated(3)
        assert state.first_unstable_offset == 1

    def test_a_plain_batch_within_one_is_refused(self, state):
        append(state, data(0, 0, transactional=True))
        with pytest.raises(InvalidTxnState):
            append(state, data(1, 1))
        with pytest.raises(InvalidTxnState):
            state.update_recovered([RowChunk.of([data(1, 1)])])

    def test_a_marker_without_data_completes_nothing(self, state):
        assert append(state, marker(0, epoch=3, coordinator_epoch=5), AppendOrigin.COORDINATOR) is None
        entry = state.last_entry(7)
        assert (entry.producer_epoch, entry.coordinator_epoch, entry.is_empty) == (3, 5, True)

    def test_markers_are_fenced_by_epoch_and_coordinator(self, state):
        append(state, marker(0, epoch=3, coordinator_epoch=5), AppendOrigin.COORDINATOR)
        with pytest.raises(InvalidProducerEpoch):
            append(state, marker(1, epoch=2, coordinator_epoch=5), AppendOrigin.COORDINATOR)
        with pytest.raises(TransactionCoordinatorFenced):
            append(state, marker(1, epoch=3, coordinator_epoch=4), AppendOrigin.COORDINATOR)
        append(state, marker(1, epoch=2, coordinator_epoch=4), AppendOrigin.REPLICATION)

    def test_version_2_wants_a_larger_epoch_unless_repeated(self, state):
        append(state, marker(0, epoch=3), AppendOrigin.COORDINATOR, 2)
        append(state, marker(1, epoch=3), AppendOrigin.COORDINATOR, 2)  # the answer got lost
        append(state, data(2, 0, epoch=3, transactional=True))
        with pytest.raises(InvalidProducerEpoch, match=r"which is <= the last seen epoch 3 \(TV2\)"):
            append(state, marker(3, epoch=3), AppendOrigin.COORDINATOR, 2)
        append(state, marker(3, epoch=4), AppendOrigin.COORDINATOR, 2)

    def test_a_marker_needs_a_version_but_for_replication(self, state):
        with pytest.raises(IllegalArgument):
            append(state, marker(0), AppendOrigin.COORDINATOR, -1)
        append(state, marker(0), AppendOrigin.REPLICATION, -1)

    def test_recovered_aborts_go_into_the_transaction_index(self, state):
        rows = [
            data(0, 0, transactional=True), data(1, 0, producer=8, transactional=True), marker(2, ControlType.ABORT),
            data(3, 1, transactional=True), marker(4, ControlType.ABORT, producer=8), marker(5),
            marker(6, ControlType.ABORT), marker(7)._replace(marker=None),
        ]  # fmt: skip
        index = bytearray()
        state.update_recovered([RowChunk.of(rows[:3]), RowChunk.of(rows[3:])], index.extend)
        wanted = [AbortedTxn(0, 7, 0, 2, 1), AbortedTxn(0, 8, 1, 4, 3)]
        assert list(map(AbortedTxn._make, ABORTED_TXN.struct.iter_unpack(index))) == wanted
        assert state.first_undecided_offset is None

    def test_a_reload_takes_batches_together(self, state):
        state.load_batches([RowChunk.of([data(0, 0, transactional=True), marker(1), data(2, 1, transactional=True)])])
        assert (state.first_unstable_offset, state.first_undecided_offset) == (0, 2)
        assert state.last_entry(7).last_seq == 1

    def test_a_late_one_is_noticed(self, state):
        append(state, data(0, 0, transactional=True))
        assert not state.is_late(state.last_entry(7), NOW + 1_200_000)
        assert state.is_late(state.last_entry(7), NOW + 1_200_001)

    def test_completing_what_is_not_open(self, state):
        with pytest.raises(IllegalArgument):
            state.complete_txn(CompletedTxn(7, 0, 1, is_aborted=False))


class TestSnapshots:
    def names(self, directory):
        return sorted(path.name for path in directory.iterdir())

    def take(self, state, *offsets):
        for offset in offsets:
            state.update_map_end_offset(offset)
            state.take_snapshot()

    def test_state_survives(self, state, directory):
        append(state, data(0, 0, transactional=True))
        append(state, data(1, 1, transactional=True))
        append(state, marker(2, producer=9, epoch=4, coordinator_epoch=3), AppendOrigin.COORDINATOR)
        self.take(state, 3)
        again = ProducerStateManager(Files(), str(directory))
        again.truncate_and_reload(0, 3, NOW)
        assert again.map_end_offset == 3
        assert again.first_undecided_offset == 0
        assert [entry.to_snapshot() for entry in again.producers.values()] == [
            entry.to_snapshot() for entry in state.producers.values()
        ]
        assert [len(entry.batches) for entry in again.producers.values()] == [1, 0]

    def test_none_is_written_twice_or_at_0(self, state, directory):
        assert state.take_snapshot() is None
        self.take(state, 5, 5, 4)
        assert self.names(directory) == ["00000000000000000005.snapshot"]

    def test_a_longer_file_leaves_nothing_behind(self, state, directory):
        (directory / "00000000000000000005.snapshot").write_bytes(b"x" * 100)
        self.take(state, 5)
        assert ProducerSnapshot((directory / "00000000000000000005.snapshot").read_bytes(), "x").error() is None

    def test_reload_removes_those_out_of_range_and_the_corrupt(self, state, directory):
        append(state, data(0, 0))
        self.take(state, 2, 4, 6, 8)
        (directory / "00000000000000000006.snapshot").write_bytes(b"torn")
        again = ProducerStateManager(Files(), str(directory))
        again.truncate_and_reload(2, 7, NOW)
        assert self.names(directory) == ["00000000000000000004.snapshot"]
        assert (again.map_end_offset, len(again.producers)) == (4, 1)

    def test_without_any_the_log_start_offset_is_where_to_begin(self, state):
        state.truncate_and_reload(3, 9, NOW)
        assert state.map_end_offset == 3
        self_taken = state.take_snapshot()
        assert self_taken is None

    def test_reload_leaves_out_the_expired(self, state, directory):
        append(state, data(0, 0, timestamp=NOW - 86_400_000))
        append(state, data(1, 0, producer=8, timestamp=NOW - 86_399_999))
        append(state, data(2, 0, producer=9, timestamp=0, transactional=True))
        self.take(state, 3)
        again = ProducerStateManager(Files(), str(directory))
        again.truncate_and_reload(0, 3, NOW)
        assert list(again.producers) == [8, 9]

    def test_nothing_is_reloaded_where_it_stands_already(self, state):
        append(state, data(0, 0))
        self.take(state, 1)
        state.truncate_and_reload(0, 1, NOW + 10**12)
        assert len(state.producers) == 1

    def test_strays_go_but_for_the_largest_at_the_end(self, state, directory):
        self.take(state, 1, 2, 5, 7, 9)
        state.remove_stray_snapshots([0, 2, 5])
        assert self.names(directory) == [f"{offset:020}.snapshot" for offset in (2, 5, 9)]
        state.remove_stray_snapshots([2, 10])
        assert self.names(directory) == ["00000000000000000002.snapshot"]
        assert state.latest_snapshot_offset == 2

    def test_deletion_is_a_rename_first(self, state, directory):
        self.take(state, 4, 5)
        path = state.remove_and_mark_snapshot_for_deletion(4)
        assert path == str(directory / "00000000000000000004.snapshot.deleted")
        assert self.names(directory) == ["00000000000000000004.snapshot.deleted", "00000000000000000005.snapshot"]
        assert state.remove_and_mark_snapshot_for_deletion(4) is None

    def test_truncating_fully_forgets_all(self, state, directory):
        append(state, data(0, 0, transactional=True))
        self.take(state, 1)
        state.truncate_fully_and_start_at(9)
        assert (state.map_end_offset, state.is_empty, self.names(directory)) == (9, True, [])

    def test_odd_names(self, directory):
        for name in ("7.snapshot", "x.snapshot", "00000000000000000008.snapshot.deleted"):
            (directory / name).write_bytes(b"")
        (directory / "00000000000000000009.snapshot").mkdir()
        state = ProducerStateManager(Files(), str(directory))
        assert state.latest_snapshot_offset == 7
