"""Logs of idempotent and transactional producers, as Hypothesis draws them. Every log is one that brokers accept."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hypothesis import strategies as st

from engine.formats import ControlType
from engine.log.producers.entry import AppendOrigin
from engine.record.builder import NewRecord, build_batch, end_txn_batch

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.log.producers.state_manager import ProducerStateManager
    from engine.log.segment.producer_rows import ProducerRow

PRODUCERS = (0, 7, 2048, 2**40 + 5, 2**63 - 1)


class Event(NamedTuple):
    producer: int
    kind: str  # plain, transactional, commit, abort, anonymous, epoch
    records: int


events = st.lists(
    st.builds(
        Event,
        st.sampled_from(PRODUCERS),
        st.sampled_from(["plain", "plain", "plain", "transactional", "transactional", "commit", "abort", "anonymous", "epoch"]),
        st.integers(1, 3),
    ),
    max_size=60,
)


def take_one_by_one(state: ProducerStateManager, rows: Iterable[ProducerRow]) -> None:
    """Take batches into `state` as objects, each with what it completes: so the kernels are tested."""
    for row in rows:
        info = state.prepare_update(row.producer_id, AppendOrigin.REPLICATION)
        completed = info.append(row)
        state.update(info)
        if completed is not None:
            state.complete_txn(completed)


def build(log: list[Event], base_offset: int = 0) -> list[bytes]:
    """Batches, one for each event that makes sense where it stands. A plain one in a transaction becomes transactional."""
    offset, epochs, sequences, is_open = base_offset, {}, {}, set()
    made = []
    for number, (producer, kind, count) in enumerate(log):
        epoch = epochs.get(producer, 0)
        timestamp = 1000 + 7 * number
        if kind == "epoch":
            epochs[producer], sequences[producer] = epoch + 1, 0
            continue
        if kind in ("commit", "abort"):
            made.append(
                end_txn_batch(
                    ControlType[kind.upper()],
                    number,
                    base_offset=offset,
                    timestamp=timestamp,
                    producer_id=producer,
                    producer_epoch=epoch,
                    partition_leader_epoch=number // 10,
                )
            )
            is_open.discard(producer)
            offset += 1
            continue
        records = [NewRecord(offset + i, timestamp + i, b"k", b"value") for i in range(count)]
        options = {}
        if kind != "anonymous":
            sequence = sequences.get(producer, 0)
            sequences[producer] = sequence + count
            transactional = kind == "transactional" or producer in is_open
            if transactional:
                is_open.add(producer)
            options = {
                "producer_id": producer,
                "producer_epoch": epoch,
                "base_sequence": sequence,
                "transactional": transactional,
            }
        made.append(build_batch(records, partition_leader_epoch=number // 10, **options))
        offset += count
    return made
