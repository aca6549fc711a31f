"""A Delta table written without Spark holds what the engine reads."""

from __future__ import annotations

import deltalake
import pyarrow as pa
import pytest

from kafkalog_spark.lake import batches, write_delta


@pytest.fixture
def top(corpus):
    return str(corpus / "kafka-4.3.1/logs/clean")


def in_order(table):
    return table.sort_by([("topic", "ascending"), ("partition", "ascending"), ("offset", "ascending")])


def test_a_delta_table(top, tmp_path):
    names = ["topic", "partition", "offset", "timestamp", "timestampType", "key", "value", "headers"]
    options = {"subscribe": "bulk,edge-keys_and.headers"}
    wanted = in_order(batches(top, **options).read_all().select(names))
    assert wanted.num_rows > 3000
    target = str(tmp_path / "lake")
    write_delta(top, to=target, **options)
    table = deltalake.DeltaTable(target)
    assert table.metadata().partition_columns == ["topic"]
    assert in_order(pa.table(table.to_pyarrow_table()).select(names)).cast(wanted.schema).equals(wanted)
    with pytest.raises(ValueError, match="there is a table already"):
        write_delta(top, to=target, **options)
    write_delta(top, to=target, mode="append", **options)
    assert deltalake.DeltaTable(target).to_pyarrow_table().num_rows == 2 * wanted.num_rows
    write_delta(top, to=target, mode="overwrite", subscribe="bulk", columns="topic,offset,value")
    assert deltalake.DeltaTable(target).to_pyarrow_table().num_rows < wanted.num_rows


def test_what_is_wrong(top, tmp_path):
    with pytest.raises(ValueError, match="mode is 'no'"):
        write_delta(top, to=str(tmp_path / "x"), mode="no")
    with pytest.raises(ValueError, match="nowhere"):
        write_delta(f"{tmp_path}/nowhere", to=str(tmp_path / "x"))
