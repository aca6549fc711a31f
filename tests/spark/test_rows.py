"""Rows that tasks give back: columns as Arrow's own, in UTF-8, without what would make workers large."""

from __future__ import annotations

import shutil
import subprocess
import sys
from random import Random

import pyarrow as pa
import pytest

from engine.arrow.rows import column, rows_as_batches
from kafkalog_spark.errors import LogDirError
from kafkalog_spark.jobs.upkeep import compact
from kafkalog_spark.table.columns import level_schema
from kafkalog_spark.table.levels import plan_level, read_level
from kafkalog_spark.table.options import Bounds, read_options
from kafkalog_spark.table.partitions import OpenPaths
from kafkalog_spark.tasks import options_of

RANDOM = Random(11)
LEAN = """
import sys
from kafkalog_spark.jobs import upkeep
from kafkalog_spark.jobs.verify import check_split, splits_of
from kafkalog_spark.tasks import options_of

asked = options_of([sys.argv[1]], {})
[split] = splits_of(asked)
print(sum(batch.num_rows for batch in check_split(asked, split)), "pandas" in sys.modules)
"""
OF_KIND = {
    pa.string(): lambda: RANDOM.choice(["", "a", "ключ", "\U0001f600"]), pa.binary(): lambda: RANDOM.randbytes(3),
    pa.int64(): lambda: RANDOM.randrange(-(1 << 63), 1 << 63), pa.int32(): lambda: RANDOM.randrange(-(1 << 31), 1 << 31),
    pa.bool_(): lambda: RANDOM.random() < 0.5, pa.timestamp("us", "UTC"): lambda: RANDOM.randrange(1 << 50),
}  # fmt: skip


@pytest.fixture
def partition(own_corpus, tmp_path):
    """A partition that something is wrong with."""
    model = next(own_corpus.glob("kafka-4.3.1/logs/clean/*/small_segments-0"))
    made = shutil.copytree(model, tmp_path / "d0" / "small_segments-0")
    (made / "00000000000000000000.index").write_bytes(b"\0" * 7)
    return made


@pytest.mark.parametrize("kind", OF_KIND, ids=str)
@pytest.mark.parametrize("count", [1, 7, 8, 9, 100])
@pytest.mark.parametrize("nulls", [0, 0.5, 1])
def test_columns_are_arrows(kind, count, nulls):
    values = [None if RANDOM.random() < nulls else OF_KIND[kind]() for _ in range(count)]
    made = column(values, kind)
    made.validate(full=True)
    assert made.equals(pa.array(values, kind))
    assert made.null_count == values.count(None)


def test_what_a_row_does_not_say_is_null():
    schema = pa.schema([("a", pa.string()), ("b", pa.int64())])
    batches = list(rows_as_batches(({"a": str(at)} if at % 2 else {"b": at} for at in range(25_000)), schema))
    assert [batch.num_rows for batch in batches] == [10_000, 10_000, 5_000]
    assert batches[2].slice(4_998).to_pylist() == [{"a": None, "b": 24_998}, {"a": "24999", "b": None}]


def test_workers_that_check_load_no_pandas(partition):
    pytest.importorskip("pandas")
    done = subprocess.run([sys.executable, "-c", LEAN, str(partition)], check=True, capture_output=True, text=True)
    found, loaded = done.stdout.split()
    assert int(found) > 0
    assert loaded == "False"


def test_a_path_that_is_no_utf_8_is_refused(partition):
    moved = partition.parent.rename(partition.parent.parent / "odd\udcff")
    for work in (lambda path: OpenPaths(read_options({"path": path})).partition_dirs(), lambda path: compact(None, path)):
        with pytest.raises(LogDirError, match=r"^kafkalog: .*/odd\\udcff.*: a path that is not UTF-8: "):
            work(str(moved))


@pytest.mark.parametrize("level", ["records", "batches", "segments", "indexes", "findings"])
def test_a_partition_whose_name_is_no_utf_8_is_told_with_its_bytes_escaped(partition, level):
    """It kept a whole tree from being read: what a column says must be text."""
    partition.rename(partition.parent / "caf\udce9-7")
    asked = options_of([str(partition.parent)], {"level": level, "columns": "topic,partition,directory", "subscribe": "caf\\udce9"})
    schema = level_schema(level, asked.columns)
    rows = pa.Table.from_batches(
        [batch for split in plan_level(asked, Bounds()) for batch in read_level(split, schema, asked)], schema
    ).to_pylist()
    assert rows
    assert all(row == {"topic": "caf\\udce9", "partition": 7, "directory": f"{partition.parent}/caf\\udce9-7"} for row in rows)


def test_large_rows_are_few_to_a_batch():
    made = 0

    def rows():
        nonlocal made
        for _ in range(40):
            made += 1
            yield {"a": b"x" * (1 << 20)}

    batches = rows_as_batches(rows(), pa.schema([("a", pa.binary())]))
    assert next(batches).num_rows == 8
    assert made == 8
    assert sum(batch.num_rows for batch in batches) == 32
