"""Transactions that are open at the end of a dead broker's log, without a session."""

from __future__ import annotations

import pytest

from kafkalog_spark.errors import OptionError
from kafkalog_spark.table.columns import level_schema
from kafkalog_spark.table.levels import read_level
from kafkalog_spark.table.options import Bounds, read_options
from kafkalog_spark.table.planning import plan
from tests.support.open_transactions import with_open_transactions


@pytest.fixture
def partition(tmp_path):
    return with_open_transactions(tmp_path / "d0" / "t-0")


def values(partition, **options):
    given = {"path": str(partition.parent), "columns": "offset,value", "kafka.isolation.level": "read_committed", "subscribe": "t"}
    wanted = read_options({**given, **options})
    return [value.decode() for split in plan(wanted, Bounds()) for batch in read_level(split, level_schema("records", ["offset", "value"]), wanted)
            for value in batch.column(1).to_pylist()]


@pytest.mark.parametrize("size", ["1", "1g"])
def test_what_is_held_back_is_logged_and_can_be_read(partition, caplog, size):
    assert values(partition, splitBytes=size) == ["7a", "7b"]
    assert "8 records held back from offset 3 on, 3 of them its own" in caplog.text
    assert values(partition, openTransactions="abort", splitBytes=size) == ["7a", "7b", "plain", "7c", "end"]
    assert "its 3 records skipped, as aborted" in caplog.text
    caplog.clear()
    assert values(partition, endingOffsets='{"t":{"0":2}}', splitBytes=size) == ["7a", "7b"]
    assert caplog.text == ""


@pytest.mark.parametrize(("options", "streaming"), [({"kafka.isolation.level": "read_uncommitted"}, False), ({}, True)])
def test_options_that_do_not_fit(options, streaming):
    with pytest.raises(OptionError, match=r"openTransactions is 'abort'"):
        read_options({"path": "/x", "kafka.isolation.level": "read_committed", "openTransactions": "abort", **options},
                     streaming=streaming)
