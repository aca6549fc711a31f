"""The options and columns of the sink: those of Spark's Kafka sink, with its error messages, and our own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.arrow.incoming import RowRefused
from engine.arrow.staged import WriteOptions, check_topic
from engine.config.topic import LogConfig
from engine.errors import UsageError
from engine.formats import INT_MAX
from engine.producer.config import batch_spec
from engine.producer.failures import ProducerError
from engine.record.packing import BATCH_SIZE
from kafkalog_spark.errors import OptionError
from kafkalog_spark.table.options import flag_option, number_option
from kafkalog_spark.table.places import local_path

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.types import StructType

_OWN_OPTIONS = ("path", "topic", "numPartitions", "keepTimestamps", "keepOffsets", "includeHeaders")
_KNOWN = {name.lower() for name in _OWN_OPTIONS}
_SETTING = "topic."
_REFUSED = {
    f"kafka.{one}.serializer":
        f"Kafka option '{one}.serializer' is not supported as {one}s are serialized with ByteArraySerializer."
    for one in ("key", "value")
}
_HEADERS = "array<struct<key:string,value:binary>>"
_TYPES = {
    "topic": ("string",), "key": ("string", "binary"), "value": ("string", "binary"), "headers": (_HEADERS,),
    "partition": ("int",), "timestamp": ("timestamp",), "offset": ("bigint",),
}  # fmt: skip


def read_sink_options(given: Mapping[str, str]) -> WriteOptions:
    """Check the options of a write; names are not case-sensitive. Raises OptionError."""
    options = {name.lower(): str(value) for name, value in given.items()}
    settings = {}
    for name, value in options.items():
        if name in _REFUSED:
            raise OptionError(_REFUSED[name])
        if name.startswith(_SETTING):
            settings[name.removeprefix(_SETTING)] = value
        elif name not in _KNOWN and not name.startswith("kafka."):
            patterns = "kafka.compression.type", "kafka.batch.size", "topic.<setting of a topic>"
            known = ", ".join(sorted((*_OWN_OPTIONS, *patterns)))
            raise OptionError(f"unknown option '{name}': the options are {known}")
    if not options.get("path"):
        raise OptionError("no path: give save() the directory for the partition directories")
    topic = options.get("topic")
    if topic is not None:
        try:
            check_topic(topic)
        except RowRefused as error:
            raise OptionError(str(error)) from None
    try:
        config = LogConfig.of(settings)
        spec = batch_spec({name.removeprefix("kafka."): value for name, value in options.items()})
    except ProducerError as error:
        raise OptionError(error.text) from None
    except UsageError as error:
        raise OptionError(str(error)) from None
    return WriteOptions(
        path=local_path(options["path"]).rstrip("/") or "/", topic=topic,
        partitions=number_option(options, "numPartitions", int, INT_MAX),
        keep_timestamps=flag_option(options, "keepTimestamps", default=False),
        keep_offsets=flag_option(options, "keepOffsets", default=False), codec=spec.codec, level=spec.level,
        batch_size=number_option(options, "kafka.batch.size", int, INT_MAX) or BATCH_SIZE,
        settings=tuple(sorted(settings.items())), config=config,
    )  # fmt: skip


def check_columns(schema: StructType, options: WriteOptions) -> tuple[str, ...]:
    """Return the columns that the sink uses. Raises OptionError with the messages of Spark's Kafka sink."""
    kinds = {field.name: field.dataType.simpleString() for field in schema.fields}
    if "topic" not in kinds and options.topic is None:
        raise OptionError(
            "topic option required when no 'topic' attribute is present. Use the topic option for setting a topic."
        )
    wanted = ["value"] if "value" in kinds else []
    if not wanted:
        raise OptionError("Required attribute 'value' not found.")
    for name, asked in (("offset", options.keep_offsets), ("timestamp", options.keep_timestamps)):
        if asked and name not in kinds:
            raise OptionError(f"Required attribute '{name}' not found: keep{name.capitalize()}s keeps what it says")
        wanted += [name] if asked else []
    if "partition" not in kinds and options.partitions is None:
        what = "it says how many partitions there are"
        raise OptionError(f"numPartitions option required when no 'partition' attribute is present: {what}")
    wanted += [name for name in ("partition", "key", "headers") if name in kinds]
    wanted += ["topic"] if options.topic is None else []  # the option overrides the column
    for name in wanted:
        if kinds[name] not in _TYPES[name]:
            what = f"{name} attribute unsupported type {kinds[name]}. {name} must be a(n) {' or '.join(_TYPES[name])}"
            raise OptionError(what)
    return tuple(wanted)
