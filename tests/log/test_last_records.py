"""The last batches of producers that the cleaner must not lose."""

from __future__ import annotations

import pickle
from random import Random

from engine.log.cleaner.transactions import LastRecords
from engine.log.producers.entry import BatchMetadata, ProducerStateEntry


def entry(producer_id, offset, epoch):
    made = ProducerStateEntry(producer_id, epoch)
    if offset >= 0:
        made.batches = (BatchMetadata(0, offset, 0, 0),)
    return made


def test_many_producers_are_found_among_more_than_one_run():
    random = Random(7)
    ids = random.sample(range(-5, 1 << 40), 40_000)
    model = {producer_id: (random.choice([-1, number]), number % 100) for number, producer_id in enumerate(ids)}
    records = LastRecords((entry(producer_id, *known) for producer_id, known in model.items()), 123_456)
    records = pickle.loads(pickle.dumps(records))  # tasks of other processes have them
    assert records.round_end == 123_456
    found = zip(*(column.tolist() for column in (records.ids, records.offsets, records.epochs)), strict=True)
    assert list(found) == [(producer_id, *known) for producer_id, known in sorted(model.items())]
