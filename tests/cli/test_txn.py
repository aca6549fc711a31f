"""`kafkalog txn` says what Kafka's own tools said of transactions, and calls hanging what these call hanging."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

from engine.log.fetch.coordinator_logs import coordinator_partition
from tests.support.cluster import told_states
from tests.support.json_output import all_objects, of_type
from tests.support.open_transactions import (
    COMPLETE_COMMIT,
    ONGOING,
    PREPARE_ABORT,
    append,
    in_transaction,
    transaction_state,
    with_open_transactions,
)
from tests.support.run import kafkalog

if TYPE_CHECKING:
    from pathlib import Path

STATE = "__transaction_state"
LATER = ("--now", "2027-01-01T00:00Z")


def txn(*words: str, statuses: tuple[int, ...] = (0,)) -> list[dict]:
    done = kafkalog("txn", words[0], "--format", "jsonl", *LATER, *words[1:])
    assert done.status in statuses, done.err
    return all_objects(done.out)


def verdicts(objects: list[dict]) -> dict[str, str]:
    return {f"{one['topic']}-{one['partition']}@{one['start_offset']}": one["verdict"] for one in of_type(objects, "open-transaction")}


def tabbed(text: str) -> list[dict[str, str]]:
    """The rows that kafka-transactions printed, by their headings."""
    lines = [line.split("\t") for line in text.splitlines() if not line.startswith("$")]
    return [dict(zip(map(str.strip, lines[0]), map(str.strip, line), strict=True)) for line in lines[1:]]


def with_states(top: Path) -> list[tuple[Path, Path]]:
    """(log dirs, what Kafka said) of states with all logs of __transaction_state."""
    found = [(state, truth) for state, truth in told_states(top) if len({path.name for path in state.glob(f"n*/d*/{STATE}-*")}) == 2]
    assert found, "the corpus has no such state: nothing would be compared"
    return found


# ---- what Kafka said


def test_producers_are_those_that_kafka_described(cluster_corpus):
    seen = 0
    for state, truth in with_states(cluster_corpus):
        said = json.loads((truth / "admin.json").read_text())["producers"]
        found: dict[str, list] = {}
        for one in of_type(txn("producers", str(state)), "producer-state"):
            found.setdefault(f"{one['topic']}-{one['partition']}", []).append((
                one["producer_id"], one["producer_epoch"], -1 if one["last_sequence"] is None else one["last_sequence"],
                one["last_time"], one["coordinator_epoch"], one["start_offset"],
            ))  # fmt: skip
        for name, producers in said.items():
            if not list(state.glob(f"n*/d*/{name}")):
                continue
            assert found.get(name, []) == sorted(
                (one["producer_id"], one["producer_epoch"], one["last_sequence"], one["last_timestamp"], one["coordinator_epoch"],
                 one["current_txn_start_offset"]) for one in producers
            ), name  # fmt: skip
            seen += len(producers)
    assert seen


def test_a_state_chooses_transactional_ids(own_cluster_corpus):
    state = str(own_cluster_corpus / "ops/1-stopped")
    everything = txn("list", state)
    found = txn("list", "--state", "ongoing", "--state", "Empty", state)
    assert {one["state"] for one in of_type(found, "transaction")} == {"Ongoing", "Empty"}
    assert len(of_type(found, "open-transaction")) == 3
    assert len(of_type(everything, "open-transaction")) == 4
    assert "--state belongs to" in kafkalog("txn", "hanging", "--state", "Empty", state).err


def test_transactional_ids_are_those_that_kafka_listed(cluster_corpus):
    seen = 0
    for state, truth in with_states(cluster_corpus):
        told = {
            name: (one["state"], one["producer_id"], one["producer_epoch"], one["timeout_ms"], one["start_time_ms"], sorted(one["partitions"]))
            for name, one in json.loads((truth / "admin.json").read_text())["transactions"].items()
        }
        found = {
            one["transactional_id"]: (
                one["state"], one["producer_id"], one["producer_epoch"], one["timeout_ms"], one["start_time"],
                sorted(f"{each['topic']}-{each['partition']}" for each in one["partitions"]),
            ) for one in of_type(txn("list", str(state)), "transaction")
        }  # fmt: skip
        assert found == told
        seen += len(found)
    assert seen > 3


def test_open_transactions_are_those_of_kafkas_producers(cluster_corpus):
    seen = 0
    for state, truth in with_states(cluster_corpus):
        here = {path.parent.name for path in state.glob("n*/d*/*/*.log")}
        told = {
            (partition, one["producer_id"], one["producer_epoch"], one["current_txn_start_offset"], one["last_timestamp"])
            for partition, producers in json.loads((truth / "admin.json").read_text())["producers"].items() if partition in here
            for one in producers if one["current_txn_start_offset"] is not None
        }  # fmt: skip
        found = {
            (f"{one['topic']}-{one['partition']}", one["producer_id"], one["producer_epoch"], one["start_offset"], one["last_time"])
            for one in of_type(txn("list", str(state)), "open-transaction")
        }
        assert found == told
        seen += len(found)
    assert seen > 1


def test_hanging_is_what_kafka_finds(cluster_corpus):
    seen = 0
    for state, truth in with_states(cluster_corpus):
        files = sorted(truth.glob("transactions-find-hanging-*-max-transaction-timeout-15.txt"))
        told = {
            (one["Topic"], *(int(one[name]) for name in ("Partition", "ProducerId", "ProducerEpoch", "StartOffset", "LastTimestamp")))
            for file in files for one in tabbed(file.read_text())
        }  # fmt: skip
        objects = txn("hanging", str(state), statuses=(0, 4))
        found = {
            (one["topic"], one["partition"], one["producer_id"], one["producer_epoch"], one["start_offset"], one["last_time"])
            for one in of_type(objects, "open-transaction")
        }
        if files:
            assert found == told
            assert objects[-1]["exit_status"] == (4 if told else 0)
            seen += len(found)
    assert seen


def test_prepared_is_not_hanging(own_cluster_corpus):
    """Kafka committed it when its coordinator was back."""
    after = json.loads((own_cluster_corpus / "ops/truth/2-prepared/after-restart.json").read_text())
    [described] = tabbed(after["prepared-0"]["out"])
    assert described["TransactionState"] == "CompleteCommit"
    state = str(own_cluster_corpus / "ops/2-prepared")
    found = verdicts(txn("list", state))
    assert {name: verdict for name, verdict in found.items() if name.startswith("pending")} == {"pending-0@2": "prepared", "pending-1@0": "prepared"}
    assert verdicts(txn("hanging", state, statuses=(4,))) == {"ledger-1@13": "hanging"}
    [last] = of_type(txn("show", "prepared-0", state), "transaction")[-1:]
    assert (last["state"], last["producer_epoch"]) == ("PrepareCommit", int(described["ProducerEpoch"]))


def test_a_replica_that_lags_does_not_count(own_cluster_corpus):
    """One of the three still has Ongoing: its broker was stopped before."""
    state = own_cluster_corpus / "ops/2-prepared"
    last = {
        of_type(txn("show", "prepared-0", str(node)), "transaction")[-1]["state"]
        for node in state.glob("n*") if any(name.name == f"{STATE}-{coordinator_partition('prepared-0', 2)}" for name in node.glob("d*/*"))
    }  # fmt: skip
    assert last == {"Ongoing", "PrepareCommit"}
    assert of_type(txn("show", "prepared-0", str(state)), "transaction")[-1]["state"] == "PrepareCommit"


def test_committed_without_a_marker(own_cluster_corpus):
    """Kafka's coordinator skipped the marker: after all brokers were back, the transaction was still open."""
    after = json.loads((own_cluster_corpus / "ops-second/truth/marker-skipped/after-restart.json").read_text())
    [state], [producer] = tabbed(after["prepared-1"]["out"]), tabbed(after["producers"]["out"])
    [one] = of_type(txn("hanging", "--topic", "prep_ared", str(own_cluster_corpus / "ops-second/marker-skipped"), statuses=(4,)), "open-transaction")
    assert state["TransactionState"] == "CompleteCommit"
    assert (str(one["producer_id"]), str(one["producer_epoch"]), str(one["start_offset"]), str(one["last_time"])) == (
        producer["ProducerId"], producer["ProducerEpoch"], producer["CurrentTransactionStartOffset"], producer["LastTimestamp"],
    )  # fmt: skip
    assert (one["verdict"], one["transactional_id"]) == ("hanging-committed", "prepared-1")
    lines = kafkalog("txn", "hanging", "--commands", "-t", "prep_ared", str(own_cluster_corpus / "ops-second/marker-skipped")).out.decode().splitlines()
    aborts = [line for line in lines if "abort --topic" in line]
    assert aborts
    assert all(line.startswith("#") for line in aborts)


COMPLETE_ABORT = 5


@pytest.mark.parametrize(("states", "verdict"), [
    (((b"a", 8, ONGOING, [0]),), "ongoing"),
    (((b"a", 8, ONGOING, [1]),), "hanging"),
    (((b"a", 8, 0, []),), "hanging"),
    (((b"a", 8, PREPARE_ABORT, [0]),), "prepared"),
    (((b"a", 8, PREPARE_ABORT, [1]),), "hanging-aborted"),
    (((b"a", 8, COMPLETE_COMMIT, []),), "hanging-committed"),
    (((b"a", 8, PREPARE_ABORT, [0]), (b"a", 8, COMPLETE_ABORT, [])), "hanging-aborted"),
    (((b"a", 8, PREPARE_ABORT, [0]), (b"a", 8, ONGOING, [1])), "hanging-aborted"),
    (((b"a", 8, ONGOING, [0]), (b"b", 9, ONGOING, [0])), "ongoing"),
    (((b"b", 9, ONGOING, [0]),), "unknown"),
    (((b"a", 8, 99, [0]),), "unknown"),
])  # fmt: skip
def test_the_state_decides(tmp_path, states, verdict):
    """The rules of TransactionsCommand, and what the coordinator had decided before."""
    with_open_transactions(tmp_path / "d0/t-0")
    transaction_state(tmp_path / "d0", *states)
    assert verdicts(txn("list", str(tmp_path / "d0")))["t-0@3"] == verdict


# ---- what is not known, and errors


def test_without_the_states_nothing_hangs(own_cluster_corpus, tmp_path):
    shutil.copytree(own_cluster_corpus / "ops/1-stopped", tmp_path / "s")
    for path in (tmp_path / "s").glob(f"n*/d*/{STATE}-0"):
        shutil.rmtree(path)
    found = txn("list", str(tmp_path / "s"))
    assert verdicts(found)["ledger-1@13"] == "unknown"
    assert verdicts(found)["ledger-0@13"] == "ongoing"
    alone = txn("list", *map(str, (tmp_path / "s").glob("n*/d*/ledger-1")))
    assert set(verdicts(alone).values()) == {"unknown"}


def text(log: Path) -> None:
    log.write_text("no log\n" * 200)


def cut(log: Path, size: int = 0) -> None:
    with log.open("r+b") as file:
        file.truncate(size)


def change(log: Path, position: int) -> None:
    data = bytearray(log.read_bytes())
    data[position] ^= 0x55
    log.write_bytes(data)


@pytest.mark.parametrize("spoil", [
    cut, lambda log: cut(log, 700), lambda log: cut(log, 669), text, lambda log: change(log, 100), lambda log: change(log, 4100),
    lambda log: log.unlink(),
])  # fmt: skip
def test_a_damaged_log_of_states_hangs_nothing(own_cluster_corpus, tmp_path, spoil):
    """669 is the end of a batch: only other files say that the log was longer."""
    shutil.copytree(own_cluster_corpus / "ops/1-stopped/n1", tmp_path / "n1")
    [log] = (tmp_path / "n1").glob(f"d*/{STATE}-{coordinator_partition('open-long', 2)}/*.log")
    spoil(log)
    done = kafkalog("txn", "hanging", "--commands", "--topic", "ledger", *LATER, str(tmp_path / "n1"))
    assert (done.status, done.out) == (4, b"")
    assert f"{STATE}-1 is damaged or has lost records" in done.err
    found = txn("hanging", "--topic", "ledger", str(tmp_path / "n1"), statuses=(4,))
    codes = [one["code"] for one in of_type(found, "finding")]
    assert (verdicts(found), codes.count("open-transaction-unjudged"), len(codes) > 2) == ({}, 2, True)


def test_another_replica_proves_that_the_best_one_lost_records(own_cluster_corpus, tmp_path):
    """All three logs lost the same batches; only the high watermark beside the second one says so."""
    shutil.copytree(own_cluster_corpus / "ops/1-stopped", tmp_path / "s")
    logs = sorted((tmp_path / "s").glob(f"n*/d*/{STATE}-{coordinator_partition('open-long', 2)}/*.log"))
    assert [log.relative_to(tmp_path).parts[1] for log in logs] == ["n1", "n2", "n3"]
    for log in logs:
        cut(log, 669)
        for path in (*log.parent.glob("*.*index"), *log.parent.glob("*.snapshot"), *log.parent.parent.glob("recovery-point*")):
            path.unlink()
        if "n2" not in log.parts:
            (log.parent.parent / "replication-offset-checkpoint").unlink()
    found = txn("hanging", "--topic", "ledger", str(tmp_path / "s"), statuses=(4,))
    [loss] = [one for one in of_type(found, "finding") if one["code"] == "checkpoint-beyond-log" and STATE in one["what"]]
    assert "/n2/" in loss["file"]
    assert verdicts(found) == {}
    alone = txn("hanging", "--topic", "ledger", str(tmp_path / "s/n1"), statuses=(4,))
    assert all(STATE not in one["what"] or one["code"] != "checkpoint-beyond-log" for one in of_type(alone, "finding"))


@pytest.mark.parametrize("with_snapshot", [False, True])
def test_a_producer_is_not_taken_from_a_damaged_batch(own_cluster_corpus, tmp_path, with_snapshot):
    """The changed byte is in the producer id of the batch that opens the transaction at offset 13."""
    shutil.copytree(own_cluster_corpus / "ops/1-stopped/n1", tmp_path / "n1")
    [ledger] = (tmp_path / "n1").glob("d*/ledger-0")
    if not with_snapshot:
        (ledger / "00000000000000000019.snapshot").unlink()
    change(ledger / "00000000000000000004.log", 541)
    one = ("--topic", "ledger", "--partition", "0", str(tmp_path / "n1"))
    producers = {each["producer_id"] for each in of_type(txn("producers", *one, statuses=(0, 4)), "producer-state")}
    assert producers == {3, 1000, *([6] if with_snapshot else [])}
    done = kafkalog("txn", "hanging", "--commands", *LATER, *one)
    assert (done.status, done.out, "crc-mismatch" in done.err) == (4, b"", True)


def test_a_marker_that_is_damaged_or_lost_hangs_nothing(tmp_path):
    """Producer 6 committed: without its marker it would hang, as its transactional id does not list the partition."""
    for number, spoil in enumerate((lambda log: change(log, log.stat().st_size - 1), lambda log: cut(log, log.stat().st_size - 1))):
        log_dir = tmp_path / f"d{number}"
        partition = with_open_transactions(log_dir / "t-0")
        transaction_state(log_dir, (b"b", 6, ONGOING, [1]))
        append(partition, [], *in_transaction(6, "commit"))
        for snapshot in partition.glob("*.snapshot"):
            snapshot.unlink()
        spoil(max(partition.glob("*.log")))
        assert verdicts(txn("list", str(log_dir), statuses=(4,))) == {"t-0@3": "unknown", "t-0@8": "unknown"}


def test_without_any_log_of_states_it_is_said(own_cluster_corpus, tmp_path):
    shutil.copytree(own_cluster_corpus / "ops/1-stopped", tmp_path / "s")
    for path in (tmp_path / "s").glob(f"n*/d*/{STATE}-*"):
        shutil.rmtree(path)
    done = kafkalog("txn", "hanging", *LATER, str(tmp_path / "s"))
    first, *others = done.out.decode().splitlines()
    assert (done.status, first) == (4, f"4 open transactions, which cannot be judged without {STATE}")
    assert f"kafkalog ls --topic {STATE} PATH" in others[-1]


def test_a_young_transaction_is_not_hanging(own_cluster_corpus):
    state = str(own_cluster_corpus / "ops/1-stopped")
    assert verdicts(txn("list", "--older-than", "9999d", state))["ledger-1@13"] == "unknown"
    assert verdicts(txn("hanging", "--older-than", "9999d", state)) == {}


def test_the_command_ends_the_hanging_one(own_cluster_corpus):
    done = kafkalog("txn", "hanging", "--commands", *LATER, str(own_cluster_corpus / "ops/1-stopped"))
    abort = "kafka-transactions.sh --bootstrap-server HOST:9092 abort --topic ledger --partition 1 --start-offset 13"
    assert (done.out.decode().splitlines(), done.status) == ([abort], 4)


def test_the_last_state_shown_is_the_one_listed(cluster_corpus):
    for state, _ in with_states(cluster_corpus):
        for one in of_type(txn("list", str(state)), "transaction"):
            assert of_type(txn("show", one["transactional_id"], str(state)), "transaction")[-1] == one


@pytest.mark.parametrize(("words", "what"), [
    (("show", "nobody", "ops/1-stopped"), "no record of transactional id nobody"),
    (("show",), "name a transactional id"),
    (("list", "--commands", "ops/1-stopped"), "--commands"),
    (("list", "ops/1-stopped", "forks/1-forked"), "several clusters"),
])  # fmt: skip
def test_what_cannot_be_answered(own_cluster_corpus, words, what):
    done = kafkalog("txn", *words, cwd=own_cluster_corpus)
    assert (done.status, what in done.err) == (2, True), done.err


def test_the_log_that_is_missing_is_named(own_cluster_corpus, tmp_path):
    shutil.copytree(own_cluster_corpus / "ops/1-stopped/n1", tmp_path / "n")
    number = coordinator_partition("open-long", 2)
    for path in (tmp_path / "n").glob(f"d*/{STATE}-{number}"):
        shutil.rmtree(path)
    done = kafkalog("txn", "show", "open-long", str(tmp_path / "n"))
    assert (done.status, f"{STATE}-{number}" in done.err) == (2, True)


def test_partitions_that_are_here_are_counted_in_the_right_number(own_cluster_corpus):
    base = str(own_cluster_corpus / "preflight/base/n1")
    out = kafkalog("txn", "list", base).out.decode()
    assert "__transaction_state: 1 of 1 partition here\n" in out
    assert "__consumer_offsets: 1 of 1 partition here\n" in kafkalog("groups", base).out.decode()
    assert "no transaction is open\n" in out
    assert "no transaction is hanging\n" in kafkalog("txn", "hanging", base).out.decode()
