"""Tables of Delta and Iceberg written without Spark hold what the engine reads."""

from __future__ import annotations

import shutil
from importlib.util import find_spec

import deltalake
import pyarrow as pa
import pytest

from kafkalog_spark import lake
from kafkalog_spark.errors import LogDirError, OptionError
from kafkalog_spark.lake import batches, write_delta, write_iceberg
from kafkalog_spark.table.columns import EXPORTED

needs_pyiceberg = pytest.mark.skipif(find_spec("pyiceberg") is None, reason="this needs pyiceberg: not found")


@pytest.fixture
def top(own_corpus):
    return str(own_corpus / "kafka-4.3.1/logs/clean")


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


@pytest.fixture
def iceberg(tmp_path):
    """Properties of a catalog of its own, and the rows of a table in it."""
    (tmp_path / "catalog").mkdir()
    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog/of.db", "warehouse": f"file://{tmp_path}/warehouse"}

    def rows(name):
        from pyiceberg.catalog import load_catalog

        return load_catalog("test", **properties).load_table(name)

    return {"catalog": "test", "properties": properties}, rows


@needs_pyiceberg
def test_an_iceberg_table(top, iceberg, monkeypatch):
    names = ["topic", "partition", "offset", "timestamp", "timestampType", "key", "value", "headers"]
    where, table = iceberg
    options = {"subscribe": "bulk,edge-keys_and.headers,multi"}
    wanted = in_order(batches(top, **options).read_all().select(names))
    assert wanted.num_rows > 3000
    monkeypatch.setattr(lake, "_AT_ONCE", 100_000)  # several appends
    write_iceberg(top, to="kafka.records", **where, **options)
    written = table("kafka.records")
    assert [field.name for field in written.spec().fields] == ["topic"]
    assert len(written.snapshots()) > 1
    rows = in_order(written.scan().to_arrow().select(names))
    assert rows.drop_columns("headers").cast(wanted.drop_columns("headers").schema).equals(wanted.drop_columns("headers"))
    assert rows["headers"].to_pylist() == [headers or [] for headers in wanted["headers"].to_pylist()]  # pyiceberg has no others
    with pytest.raises(OptionError, match=r"kafka\.records: there is a table already"):
        write_iceberg(top, to="kafka.records", **where, **options)
    write_iceberg(top, to="kafka.records", mode="append", **where, **options)
    assert table("kafka.records").scan().to_arrow().num_rows == 2 * wanted.num_rows
    write_iceberg(top, to="kafka.records", mode="overwrite", subscribe="bulk", extraColumns="producerEpoch", **where)
    rows = table("kafka.records").scan().to_arrow()
    assert rows.num_rows == batches(top, subscribe="bulk").read_all().num_rows
    assert rows.schema.names == [*EXPORTED, "producerEpoch"]


@needs_pyiceberg
def test_an_iceberg_table_is_written_whole_or_not(top, iceberg, tmp_path, monkeypatch):
    where, table = iceberg
    shutil.copytree(next((tmp_path.parent / top).glob("*/small_segments-0")), tmp_path / "logs" / "small_segments-0")
    write_iceberg(str(tmp_path / "logs"), to="kafka.records", **where)
    before = table("kafka.records").scan().to_arrow().num_rows
    log = max((tmp_path / "logs" / "small_segments-0").glob("*.log"))
    data = bytearray(log.read_bytes())
    data[70] ^= 1
    log.write_bytes(data)
    monkeypatch.setattr(lake, "_AT_ONCE", 1)
    for mode in ("append", "overwrite"):
        with pytest.raises(LogDirError, match="crc-mismatch"):
            write_iceberg(str(tmp_path / "logs"), to="kafka.records", mode=mode, **where)
        assert table("kafka.records").scan().to_arrow().num_rows == before > 0
    with pytest.raises(LogDirError, match="crc-mismatch"):
        write_iceberg(str(tmp_path / "logs"), to="kafka.other", **where)
    from pyiceberg.exceptions import NoSuchTableError

    with pytest.raises(NoSuchTableError):
        table("kafka.other")


@needs_pyiceberg
@pytest.mark.parametrize(("given", "what"), [
    ({"to": "records"}, "to is 'records', which is no namespace and name of a table"),
    ({"to": "a.b", "mode": "ignore"}, "mode is 'ignore'"),
    ({"to": "a.b", "catalog": "nowhere"}, "catalog 'nowhere': URI missing"),
    ({"to": "a.b", "properties": {"type": "no"}}, "catalog 'default': 'no' is not a valid CatalogType"),
])  # fmt: skip
def test_what_is_wrong_with_an_iceberg_table(top, given, what, monkeypatch, tmp_path):
    monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path))
    with pytest.raises(OptionError) as caught:
        write_iceberg(top, **given)
    assert what in str(caught.value)


def test_without_pyiceberg_it_says_so(top, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyiceberg.catalog", None)
    with pytest.raises(OptionError, match="pyiceberg is not installed: pip install 'kafkalog\\[iceberg\\]'"):
        write_iceberg(top, to="a.b")
