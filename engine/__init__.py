"""kafkalog's engine: reads, checks and repairs Kafka's on-disk log directories. See docs/architecture.md.

The names below are public; each one is loaded on first use. All others may change from release to release: kafkalog's own
command line and Spark package use them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.config.topic import LogConfig as LogConfig
    from engine.dump.run import Dump as Dump
    from engine.errors import KafkalogError as KafkalogError
    from engine.files import Files as Files
    from engine.files import ReadOnlyFiles as ReadOnlyFiles
    from engine.findings import Finding as Finding
    from engine.findings import Severity as Severity
    from engine.findings import Where as Where
    from engine.index.sparse import OffsetIndex as OffsetIndex
    from engine.index.sparse import TimeIndex as TimeIndex
    from engine.index.transaction import TransactionIndex as TransactionIndex
    from engine.log.fetch.reading import FetchIsolation as FetchIsolation
    from engine.log.fetch.records import RecordFetcher as RecordFetcher
    from engine.log.fetch.view import PartitionView as PartitionView
    from engine.log.loading.loader import open_log as open_log
    from engine.log.logdir.log_manager import LogManager as LogManager
    from engine.log.partition.unified_log import UnifiedLog as UnifiedLog
    from engine.log.report import Report as Report
    from engine.log.verify.partition import verify_partition as verify_partition
    from engine.record.batch import Record as Record
    from engine.record.batch import RecordBatch as RecordBatch
    from engine.record.batch import read_batches as read_batches
    from engine.record.batch import read_records as read_records
    from engine.record.columns import BatchColumns as BatchColumns
    from engine.record.columns import RecordColumns as RecordColumns

_HOMES = {
    "KafkalogError": "engine.errors",
    "ReadOnlyFiles": "engine.files",
    "Finding": "engine.findings",
    "Severity": "engine.findings",
    "Where": "engine.findings",
    "OffsetIndex": "engine.index.sparse",
    "TimeIndex": "engine.index.sparse",
    "TransactionIndex": "engine.index.transaction",
    "Dump": "engine.dump.run",
    "Record": "engine.record.batch",
    "RecordBatch": "engine.record.batch",
    "read_batches": "engine.record.batch",
    "read_records": "engine.record.batch",
    "BatchColumns": "engine.record.columns",
    "RecordColumns": "engine.record.columns",
    "LogConfig": "engine.config.topic",
    "Files": "engine.files",
    "LogManager": "engine.log.logdir.log_manager",
    "PartitionView": "engine.log.fetch.view",
    "RecordFetcher": "engine.log.fetch.records",
    "FetchIsolation": "engine.log.fetch.reading",
    "UnifiedLog": "engine.log.partition.unified_log",
    "open_log": "engine.log.loading.loader",
    "verify_partition": "engine.log.verify.partition",
    "Report": "engine.log.report",
}
__all__ = sorted(_HOMES)  # noqa: PLE0605  # the table is the list


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'engine' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
