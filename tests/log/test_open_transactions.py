"""Transactions that are open at the end of a dead broker's log: what they hold back, and how a reader goes on behind them."""

from __future__ import annotations

import json

import pytest

from engine.files import ReadOnlyFiles
from engine.log.fetch.open_transactions import held_back
from engine.log.fetch.view import PartitionView
from tests.support.open_transactions import (
    COMPLETE_COMMIT,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    append,
    in_transaction,
    of_cluster,
    transaction_state,
    with_open_transactions,
)
from tests.support.other_process import lock_held
from tests.support.run import kafkalog

COMMITTED = ("--isolation", "read_committed")


@pytest.fixture
def partition(tmp_path):
    return with_open_transactions(tmp_path / "d0" / "t-0")


def fetched(partition, *words, status):
    done = kafkalog("fetch", *COMMITTED, *words, str(partition))
    assert done.status == status, done.err
    return done.out.decode().splitlines(), done.err


def test_what_is_held_back_is_reported(partition):
    shown, err = fetched(partition, status=4)
    assert shown == ["7a", "7b"]
    assert ("offset 3: producer 8 has an open transaction since 2023-11-14T22:13:20.000Z (1700000000000 ms); "
            "8 records held back from offset 3 on, 3 of them its own") in err
    assert "offset 8: producer 6 has an open transaction since 2023-11-14T22:13:20.000Z (1700000000000 ms); it has 1 record" in err
    assert fetched(partition, "--open-transactions", "wait", status=4) == (shown, err)
    found = [one for one in map(json.loads, fetched(partition, "--format", "jsonl", status=4)[0]) if one["type"] == "finding"]
    assert [(one["code"], one["offset"]) for one in found] == [("open-transaction", 3), ("open-transaction", 8)]


@pytest.mark.parametrize(("words", "is_reported"), [
    (("--limit", "2"), False), (("--offset", "5"), True), (("--max-bytes", "1"), False), (("--high-watermark", "3"), False),
    (("--high-watermark", "6"), True),
])  # fmt: skip
def test_it_is_reported_by_who_gets_there(partition, words, is_reported):
    _, err = fetched(partition, *words, status=4 if is_reported else 0)
    assert ("open-transaction" in err) is is_reported
    assert "producer 6" not in err or "--high-watermark" not in words


def test_nothing_is_reported_of_others(partition):
    done = kafkalog("fetch", str(partition))
    assert (done.status, done.err) == (0, "")
    append(partition, [], *in_transaction(8, "abort"))
    append(partition, [], *in_transaction(6, "commit"))
    shown, err = fetched(partition, status=0)
    assert shown == ["7a", "7b", "plain", "6a", "7c", "end"]
    assert err == ""


def test_open_ones_are_read_as_their_coordinator_ends_them(partition):
    shown, err = fetched(partition, "--open-transactions", "abort", status=0)
    assert shown == ["7a", "7b", "plain", "7c", "end"]
    assert "info[open-transaction-ended]" in err
    assert "its 3 records skipped, as aborted; no __transaction_state in the log dirs that were read has its state" in err
    for producer in (8, 6):
        append(partition, [], *in_transaction(producer, "abort"))
    assert fetched(partition, status=0)[0] == shown, "as after the markers"


@pytest.mark.parametrize("start", range(13))
def test_wherever_reading_begins(partition, start):
    everything, _ = fetched(partition, "--open-transactions", "abort", "-f", "%o\\n", status=0)
    shown, _ = fetched(partition, "--open-transactions", "abort", "-f", "%o\\n", "--offset", str(start), status=0)
    assert shown == [one for one in everything if int(one) >= start]


def test_a_decided_commit_is_read(partition):
    """Its producer was told that it is committed: PREPARE_COMMIT is all that it takes."""
    transaction_state(partition.parent, (b"other", 8, PREPARE_ABORT, [0]), (b"six", 6, ONGOING, [0]), (b"eight", 8, ONGOING, [0]),
                      (b"eight", 8, PREPARE_COMMIT, [1, 0]), (b"other", 1, ONGOING, [0]))
    shown, err = fetched(partition, "--open-transactions", "abort", status=0)
    assert shown == ["7a", "7b", "8a", "8b", "plain", "8c", "7c", "end"]
    assert "its 3 records read, because __transaction_state says that it is committed" in err
    assert "its 1 record skipped, as aborted\n" in err


@pytest.mark.parametrize("state", [(PREPARE_COMMIT, [1]), (PREPARE_ABORT, [0]), (COMPLETE_COMMIT, [0]), (ONGOING, [0])])
def test_another_state_or_partition_decides_nothing(partition, state):
    transaction_state(partition.parent, (b"eight", 8, *state))
    assert fetched(partition, "--open-transactions", "abort", status=0)[0] == ["7a", "7b", "plain", "7c", "end"]


@pytest.mark.parametrize(("ours", "theirs", "status"), [("one", "one", 0), (None, "one", 0), ("one", None, 0), ("one", "two", 2)])
def test_states_in_other_log_dirs_that_are_named(partition, tmp_path, ours, theirs, status):
    of_cluster(partition.parent, ours)
    other = of_cluster(tmp_path / "d1", theirs)
    transaction_state(other, (b"eight", 8, PREPARE_COMMIT, [0]))
    plain = fetched(partition, "--open-transactions", "abort", status=0)
    assert plain[0] == ["7a", "7b", "plain", "7c", "end"]
    assert "no __transaction_state in the log dirs that were read has its state" in plain[1]
    shown, err = fetched(partition, "--open-transactions", "abort", "--log-dir", str(tmp_path / "d1"), status=status)
    if status:
        assert f"{tmp_path}/d1 belongs to cluster two, {partition.parent} to cluster one" in err
        return
    assert shown == ["7a", "7b", "8a", "8b", "plain", "8c", "7c", "end"]
    assert "its 3 records read, because __transaction_state says that it is committed" in err


@pytest.mark.parametrize("newest", ["d0", "d1", "d2"])
def test_of_several_copies_of_a_state_the_latest_counts(partition, tmp_path, newest):
    """A follower that fell behind still has the commit as decided, which was completed and followed by another transaction."""
    words = []
    for name in ("d0", "d1", "d2"):
        states = [(b"eight", 8, PREPARE_COMMIT, [0])] + [(b"eight", 8, ONGOING, [0])] * (name == newest)
        transaction_state(of_cluster(tmp_path / name, None), *states)
        words += [] if name == "d0" else ["--log-dir", str(tmp_path / name)]
    shown, _ = fetched(partition, "--open-transactions", "abort", *words, status=0)
    assert shown == ["7a", "7b", "plain", "7c", "end"]


def test_a_log_dir_is_for_open_transactions_alone(partition, tmp_path):
    assert kafkalog("fetch", *COMMITTED, "--log-dir", str(tmp_path), str(partition)).status == 2
    _, err = fetched(partition, "--open-transactions", "abort", "--log-dir", str(tmp_path / "no"), status=8)
    assert str(tmp_path / "no") in err


def test_beside_a_running_broker_it_is_nothing_to_report(partition):
    with lock_held(partition.parent / ".lock"):
        shown, err = fetched(partition, status=0)
    assert (shown, err) == (["7a", "7b"], "")


def test_options_that_do_not_fit(partition):
    assert kafkalog("fetch", "--open-transactions", "abort", str(partition)).status == 2
    assert kafkalog("fetch", *COMMITTED, "--open-transactions", "abort", "--follow", str(partition)).status == 2


def test_raw_batches_go_on_too(partition):
    done = kafkalog("fetch", *COMMITTED, "--raw", "--open-transactions", "abort", str(partition))
    assert done.out == (partition / "00000000000000000000.log").read_bytes()
    done = kafkalog("fetch", *COMMITTED, "--raw", str(partition))
    assert "open-transaction" in done.err


def test_nothing_open_nothing_held(partition):
    for producer in (6, 8):
        append(partition, [], *in_transaction(producer, "commit"))
    view = PartitionView(ReadOnlyFiles(), str(partition), lambda _finding: None)
    assert held_back(view) is None
    view.close()
