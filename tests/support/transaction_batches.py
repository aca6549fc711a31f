"""Windows of batches of transactions, as kernels of the cleaner take them."""

from __future__ import annotations

from engine.formats import ControlType
from engine.kernels.tables import TxnBatch
from engine.record.builder import NewRecord, build_batch, end_txn_batch
from engine.record.windows import LogWalk
from tests.support.memory_files import MemoryFile

NOW = 1_700_000_000_000


def window_of(*batches):
    (window,) = LogWalk(MemoryFile("x.log", b"".join(batches)))
    return window


def batch_of(kind, offset, producer_id, count=1):
    if kind == TxnBatch.DATA:
        records = [NewRecord(offset + n, NOW, b"k", b"v") for n in range(count)]
        return build_batch(records, transactional=True, producer_id=producer_id, producer_epoch=0, base_sequence=0)
    control = ControlType.COMMIT if kind == TxnBatch.COMMIT else ControlType.ABORT
    return end_txn_batch(control, 3, base_offset=offset, timestamp=NOW, producer_id=producer_id, producer_epoch=0)
