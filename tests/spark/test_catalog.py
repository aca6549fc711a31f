"""Tables in a catalog read a log dir, also when nobody says where it is any more; and no statement of SQL removes a file of it."""

from __future__ import annotations

import shutil

import pytest


@pytest.fixture
def logs(own_corpus, tmp_path):
    shutil.copytree(next((own_corpus / "kafka-4.3.1/logs/clean").glob("*/codec.lz4-0")), tmp_path / "logs" / "codec.lz4-0")
    return tmp_path / "logs"


@pytest.fixture
def made(spark):
    """Creates a table with the rest of a statement, which is dropped at the end → its name."""
    names = []

    def create(rest):
        names.append(f"made_{len(names)}")
        spark.sql(f"CREATE TABLE {names[-1]} {rest}")
        return names[-1]

    yield create
    for name in names:
        spark.sql(f"DROP TABLE IF EXISTS {name}")


def content(logs):
    return {path: path.read_bytes() for path in sorted(logs.rglob("*")) if path.is_file()}


def test_a_table_has_the_rows_and_columns_of_its_log_dir(spark, made, logs):
    source = spark.read.format("kafkalog").load(str(logs))
    tables = [
        made(f"USING kafkalog OPTIONS (path '{logs}')"), made(f"USING kafkalog LOCATION '{logs}'"),
        made(f"USING kafkalog OPTIONS (columns 'topic,offset', endingOffsets '{{\"codec.lz4\":{{\"0\":9}}}}') LOCATION '{logs}'"),
    ]  # fmt: skip
    for name in tables[:2]:
        assert spark.table(name).schema.simpleString() == source.schema.simpleString()
        assert spark.table(name).exceptAll(source).count() == source.exceptAll(spark.table(name)).count() == 0
        assert [row.col_name for row in spark.sql(f"DESCRIBE {name}").collect()] == source.columns
    assert spark.sql(f"SELECT * FROM {tables[2]} ORDER BY offset").collect() == [("codec.lz4", offset) for offset in range(9)]
    few = spark.read.option("endingOffsets", '{"codec.lz4":{"0":5}}').table(tables[0])
    assert few.count() == 5  # options of the query are added to those of the table


def test_the_catalog_of_python_and_views_as_well(spark, logs):
    wanted = spark.read.format("kafkalog").load(str(logs)).count()
    spark.catalog.createTable("made_here", path=str(logs), source="kafkalog")
    spark.catalog.createTable("some_columns", source="kafkalog", path=str(logs), columns="topic,offset")
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW seen USING kafkalog OPTIONS (path '{logs}')")
    spark.read.format("kafkalog").load(str(logs)).createOrReplaceTempView("seen_too")
    try:
        assert {spark.table(name).count() for name in ("made_here", "some_columns", "seen", "seen_too")} == {wanted}
        assert spark.table("some_columns").columns == ["topic", "offset"]
        assert spark.readStream.table("made_here").isStreaming
    finally:
        for name in ("made_here", "some_columns"):
            spark.sql(f"DROP TABLE {name}")
        for name in ("seen", "seen_too"):
            spark.catalog.dropTempView(name)


def test_no_statement_removes_a_file(spark, made, logs):
    before = content(logs)
    tables = made(f"USING kafkalog OPTIONS (path '{logs}')"), made(f"USING kafkalog LOCATION '{logs}'")
    spark.catalog.createTable("made_here", path=str(logs), source="kafkalog")
    for name in (*tables, "made_here"):
        for statement in (f"TRUNCATE TABLE {name}", f"INSERT OVERWRITE {name} SELECT * FROM {name}", f"DELETE FROM {name}"):
            with pytest.raises(Exception, match=r"does not support|no path: give save\(\)"):
                spark.sql(statement)
        spark.sql(f"DROP TABLE {name} PURGE")
        assert content(logs) == before


def test_what_spark_does_not_allow_is_said_with_the_way_around(spark, made, logs):
    with_columns = made(f"(topic STRING, offset BIGINT) USING kafkalog OPTIONS (path '{logs}')")
    with pytest.raises(Exception, match="create a table in a catalog without a list of columns, and choose columns with the option"):
        spark.table(with_columns).count()
    with pytest.raises(Exception, match="UNSUPPORTED_DATASOURCE_FOR_DIRECT_QUERY"):
        spark.sql(f"SELECT * FROM kafkalog.`{logs}`")
    for where in ("", "OPTIONS (path '/no/such')"):
        with pytest.raises(Exception, match=r"kafkalog: (no path|/no/such: No such file)"):
            made(f"USING kafkalog {where}")
