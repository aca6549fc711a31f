from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import UnwritableFile
from engine.files import Files
from engine.formats import ABORTED_TXN, AbortedTxn
from engine.index import transaction
from engine.index.transaction import TransactionIndex, aborted_txn_text, version_as_kafka_reads
from tests.support.full_disk import full_disk

longs = st.integers(-(2**63), 2**63 - 1)


def index(*txns, base=0, tail=b""):
    return TransactionIndex(b"".join(ABORTED_TXN.pack(AbortedTxn(*txn)) for txn in txns) + tail, base, "x.txnindex")


def test_kafka_reads_one_byte_of_the_version():
    seen = [version_as_kafka_reads(AbortedTxn(version, 0, 0, 0, 0)) for version in (0, 1, 255, 256, 257, -1, -32768)]
    assert seen == [0, 0, 0, 1, 1, -1, -128]
    assert aborted_txn_text(AbortedTxn(1, 7, 10, 20, 21)) == (
        "version: 0 producerId: 7 firstOffset: 10 lastOffset: 20 lastStableOffset: 21"
    )


def test_aborted_in_a_range():
    it = index((0, 1, 10, 20, 15), (0, 2, 15, 30, 31), (0, 3, 40, 50, 51))
    assert [txn.producer_id for txn in it.aborted_in(0, 100).transactions] == [1, 2, 3]
    assert not it.aborted_in(0, 100).is_complete
    assert [txn.producer_id for txn in it.aborted_in(21, 31).transactions] == [2]
    assert it.aborted_in(21, 31).is_complete
    assert [txn.producer_id for txn in it.aborted_in(20, 21).transactions] == [1, 2]
    assert it.aborted_in(51, 60).transactions == []


def test_errors_of_the_broker():
    it = index((0, 1, 10, 20, 21), (256, 2, 30, 40, 41))
    message = "Unexpected aborted transaction version 1 in transaction index /x, current version is 0"
    assert it.read_error("/x") == it.broker_error("/x") == message
    assert index((1, 1, 10, 20, 21)).broker_error("/x") is None
    assert index((0, 1, 10, 20, 21), base=21).broker_error("/x") == (
        "Last offset of aborted transaction AbortedTxn(version=0, producerId=1, firstOffset=10, lastOffset=20, "
        "lastStableOffset=21) in index /x is less than start offset 21"
    )


def test_findings():
    it = index(
        (1, 1, 10, 20, 21), (0, -1, 10, 21, 22), (0, 1, 30, 25, 26), (0, 1, 1, 21, 22), (0, 1, 1, 40, -1), tail=b"x"
    )
    found = [(finding.code, finding.where.position, finding.where.offset) for finding in it.sanity()]
    assert found == [
        ("index-size-invalid", 170, None), ("txnindex-invalid", 0, 20), ("txnindex-invalid", 34, 21),
        ("txnindex-invalid", 68, 25), ("txnindex-invalid", 102, 21), ("txnindex-invalid", 136, 40),
    ]


def test_findings_are_bounded():
    it = index(*[(0, 0, 0, 0, 0)] * 500)
    found = it.sanity()
    assert len(found) == transaction.MAX_FINDINGS + 1
    assert (found[-1].what, found[-1].occurrences) == ("399 more invalid entries", 399)


@given(st.binary(max_size=300), longs, longs)
def test_any_bytes_are_an_index(data, base, target):
    it = TransactionIndex(data, base, "x")
    assert len(list(it)) == len(it)
    it.aborted_in(base, target)
    it.sanity()
    it.read_error("x")
    it.broker_error("x")


def test_nothing_is_left_of_an_index_for_which_there_was_no_room(tmp_path):
    """A compaction that a full disk ended left an empty `.txnindex.cleaned` behind."""
    path = tmp_path / "00000000000000000000.txnindex.cleaned"
    index = TransactionIndex.open(Files(), str(path), 0)
    with full_disk(tmp_path, room=0):
        with pytest.raises(UnwritableFile):
            index.append(AbortedTxn(0, 7, 1, 2, 2))
            index.flush()
        index.delete_if_exists()
    assert not path.exists()
