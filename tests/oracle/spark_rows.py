"""What Spark's Kafka source reads from a broker, beside what kafkalog reads from its log dirs, as JSON. A process of its own.

    python -m tests.oracle.spark_rows JARS BROKER LOG_DIRS OUT
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, NamedTuple

import kafkalog_spark
from kafkalog_cli.spark_session import session
from tests.spark.conftest import QUICK_TO_START

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

SETTINGS = (
    ("spark.driver.extraJavaOptions", QUICK_TO_START), ("spark.sql.shuffle.partitions", "2"), ("spark.log.level", "OFF"),
    ("spark.sql.session.timeZone", "UTC"),
)  # fmt: skip
ISOLATIONS = ("read_uncommitted", "read_committed")
COLUMNS = ("key", "value", "topic", "partition", "offset", "unix_micros(timestamp) as micros", "timestampType", "headers")
ADDED = 40  # records that are sent to the broker between two runs of a stream


class Sources(NamedTuple):
    """Both sources: the same records of one broker."""

    spark: SparkSession
    broker: str
    path: str

    def theirs(self, **options: str) -> DataFrame:
        """The table of Spark's Kafka source."""
        asked = {"kafka.bootstrap.servers": self.broker, "startingOffsets": "earliest", "includeHeaders": "true", **options}
        if {"startingTimestamp", "startingOffsetsByTimestamp"} & asked.keys():
            del asked["startingOffsets"]
        return self.spark.read.format("kafka").options(**asked).load()

    def ours(self, **options: str) -> DataFrame:
        """The table of the format kafkalog."""
        return self.spark.read.format("kafkalog").options(includeHeaders="true", **options).load(self.path)

    def mapped(self, **options: str) -> DataFrame:
        """The table of kafkalog_spark.read."""
        return kafkalog_spark.read(self.spark, self.path, includeHeaders=True, **options)

    def stream(self, kind: str, out: str, **options: str) -> list[Row]:
        """What the table has after one more run of a stream that writes everything that is there."""
        own = {"kafka.bootstrap.servers": self.broker} if kind == "kafka" else {"path": self.path}
        reader = self.spark.readStream.format(kind).options(includeHeaders="true", startingOffsets="earliest", **own, **options)
        rows = reader.load().selectExpr(*COLUMNS)
        writer = rows.writeStream.format("parquet").option("path", out).option("checkpointLocation", f"{out}-state")
        writer.trigger(availableNow=True).start().awaitTermination()
        return in_order(self.spark.read.parquet(out))


def plain(frame: DataFrame) -> list[Row]:
    """The rows, with times that Python's calendar may not have."""
    return in_order(frame.selectExpr(*COLUMNS))


def in_order(frame: DataFrame) -> list[Row]:
    """The rows by topic, partition and offset."""
    return sorted(frame.collect(), key=lambda row: (row.topic, row.partition, row.offset))


def differences(ours: list[Row], theirs: list[Row]) -> list[str]:
    """The first rows that differ; how many there are, if one has more."""
    found = [f"{one} is not {other}" for one, other in zip(ours, theirs, strict=False) if one != other][:3]
    return found if len(ours) == len(theirs) else [*found, f"{len(ours)} rows and not {len(theirs)}"]


def options_of(rows: list[Row]) -> dict[str, dict[str, str]]:
    """Options that take a part of the topic with the most partitions and records."""
    topics = {row.topic for row in rows}
    of_topic = {topic: [row for row in rows if row.topic == topic] for topic in topics}
    topic = max(topics, key=lambda one: (len({row.partition for row in of_topic[one]}), len(of_topic[one])))
    partitions = sorted({row.partition for row in of_topic[topic]})
    offsets = {one: [row.offset for row in of_topic[topic] if row.partition == one] for one in partitions}
    middle = sorted(row.micros // 1000 for row in of_topic[topic])[len(of_topic[topic]) // 2]

    def by_partition(at: int) -> str:
        return json.dumps({topic: {str(one): offsets[one][at] for one in partitions}})

    by_time = json.dumps({topic: {str(one): middle for one in partitions}})
    assigned = json.dumps({topic: partitions[1:]})
    return {
        "offsets": {"subscribe": topic, "startingOffsets": by_partition(2), "endingOffsets": by_partition(-2)},
        "from a time": {"subscribe": topic, "startingTimestamp": str(middle), "startingOffsetsByTimestampStrategy": "latest"},
        "times": {"subscribe": topic, "startingTimestamp": "0", "endingOffsetsByTimestamp": by_time},
        "assigned": {"assign": assigned, "minPartitions": "5", "maxRecordsPerPartition": "7"},
    }


def overflown(sources: Sources, topic: str) -> bool:
    """Does Spark's Kafka source fail at a timestamp that does not fit?"""
    try:
        sources.theirs(subscribe=topic).count()
        plain(sources.theirs(subscribe=topic))
    except Exception as error:  # noqa: BLE001  # Spark has a class for each place of a failure
        return "overflow" in str(error)
    return False


def compared(sources: Sources, out: str) -> dict[str, object]:
    """Batch and stream, both isolations, a part by each kind of option; what differs, by name."""
    every = plain(sources.ours(subscribePattern="."))
    beyond = sorted({row.topic for row in every if row.micros is None})
    options = {"subscribePattern": f"^(?!({'|'.join(beyond)})$)"} if beyond else {"subscribePattern": "."}
    answer: dict[str, object] = {"beyond": {topic: overflown(sources, topic) for topic in beyond}}
    found: dict[str, list[str]] = {}
    counts: dict[str, int] = {}
    for isolation in ISOLATIONS:
        asked = {**options, "kafka.isolation.level": isolation}
        theirs = plain(sources.theirs(**asked))
        counts[isolation] = len(theirs)
        found[f"format, {isolation}"] = differences(plain(sources.ours(**asked)), theirs)
        found[f"read, {isolation}"] = differences(plain(sources.mapped(**asked)), theirs)
        for name, part in options_of(theirs).items():
            some = plain(sources.theirs(**part, **{"kafka.isolation.level": isolation}))
            counts[f"{name}, {isolation}"] = len(some)
            found[f"{name}, {isolation}"] = differences(plain(sources.ours(**part, **{"kafka.isolation.level": isolation})), some)
    answer["schema"] = [sources.ours().schema == sources.theirs(**options).schema, sources.mapped().schema == sources.theirs(**options).schema]
    topic = options_of(every)["offsets"]["subscribe"]
    for number in range(2):
        if number:
            sent = sources.spark.range(ADDED).selectExpr("cast(id as string) as key", "cast(id as string) as value")
            sent.write.format("kafka").option("kafka.bootstrap.servers", sources.broker).option("topic", topic).save()
        for isolation in ISOLATIONS:
            asked = {**options, "kafka.isolation.level": isolation}
            ours, theirs = (sources.stream(kind, f"{out}/{kind}-{isolation}", **asked) for kind in ("kafkalog", "kafka"))
            counts[f"stream {number}, {isolation}"] = len(theirs)
            found[f"stream {number}, {isolation}"] = differences(ours, theirs)
    return {**answer, "counts": counts, "differences": {name: said for name, said in found.items() if said}}


def main() -> None:
    """Compare, and print."""
    jars, broker, path, out = sys.argv[1:]
    with session("local[2]", (*SETTINGS, ("spark.jars", jars))) as spark:
        print(json.dumps(compared(Sources(spark, broker, path), out)))


if __name__ == "__main__":
    main()
