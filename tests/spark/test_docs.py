"""Every snippet of docs/spark does what the page says, on log dirs of this machine."""

from __future__ import annotations

import re
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest

import kafkalog_spark

DOCS = Path(__file__).parents[2] / "docs/spark"
PLACES = ("/var/lib/kafka/data", "/backups", "/lake", "/restored")
BLOCK = re.compile(r"^```(python|sql|)\n(.*?)^```", re.MULTILINE | re.DOTALL)
NEEDED = {"deltalake": "deltalake", "pyiceberg": "pyiceberg"}  # word of a snippet → the package that it needs
CONFIGURED = ("spark.sql.python.filterPushdown.enabled", "spark.sql.execution.pyspark.udf.hideTraceback.enabled")


@pytest.fixture
def placed(own_corpus, tmp_path):
    """Puts the paths of a text below a directory where two brokers have the topic `orders`."""
    source = next((own_corpus / "kafka-4.3.1/logs/clean").glob("*/multi-1"))
    for place in ("var/lib/kafka/data", "backups/broker-1", "backups/broker-2"):
        shutil.copytree(source, tmp_path / place / "orders-1")
    (tmp_path / "lake").mkdir()
    return lambda text: re.sub("|".join(map(re.escape, PLACES)), lambda found: f"{tmp_path}{found[0]}", text)


def snippets(page):
    """(kind, text) of each: python, sql, or what is typed at Python's prompt."""
    for kind, text in BLOCK.findall((DOCS / page).read_text()):
        typed = "".join(line[4:] + "\n" for line in text.splitlines() if line.startswith(">>> "))
        if kind or typed:
            yield kind or "python", text if kind else typed


@pytest.mark.parametrize("page", sorted(path.name for path in DOCS.glob("*.md")))
def test_every_snippet_runs(spark, placed, page, capsys):
    names = {"spark": spark, "kafkalog_spark": kafkalog_spark}
    count, missing = 0, set()
    try:
        for kind, text in snippets(page):
            here = placed(text)
            names["df"] = spark.range(5).selectExpr("cast(id as string) value", "cast(id as string) topic", "0 partition", "id offset")
            names["records"] = spark.readStream.format("kafkalog").option("startingOffsets", "earliest").load(placed("/backups/broker-1"))
            if gone := {package for word, package in NEEDED.items() if word in text and find_spec(package) is None}:
                missing |= gone
                continue
            if kind == "sql":
                for statement in filter(str.strip, here.split(";")):
                    spark.sql(statement).collect()
            else:
                exec(here, names)
            count += 1
        if page == "writing.md":
            names["query"].processAllAvailable()
            wanted = spark.read.format("kafkalog").load(placed("/backups/broker-1")).count()
            assert spark.read.parquet(placed("/lake/orders")).count() == wanted > 0
            assert spark.read.format("kafkalog").load(placed("/restored/data")).count() == 5
        elif page == "jobs.md":
            assert spark.read.format("kafkalog").load(placed("/restored/data")).count() == spark.read.parquet(placed("/lake/all")).count() > 0
            assert "records" in capsys.readouterr().out
    finally:
        if "query" in names:
            names["query"].stop()
        for name in ("orders", "everything"):
            spark.sql(f"DROP TABLE IF EXISTS {name}")
        spark.catalog.dropTempView("few")
        for setting in CONFIGURED:
            spark.conf.unset(setting)
        spark.sparkContext.setLogLevel("OFF")
    assert count >= 2
    if missing:
        pytest.skip(f"not run: snippets that need {', '.join(sorted(missing))}")
