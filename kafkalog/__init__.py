"""kafkalog for Python programs: read, check and repair the log directories of Apache Kafka. See docs/api.md.

The names below are public. Each one is loaded on first use, so that the import itself is cheap. The modules of
`engine` and `kafkalog_cli` may change from release to release.
"""

from __future__ import annotations

import sys
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
    from engine.log.report import Action as Action
    from engine.log.report import Event as Event
    from engine.log.report import Report as Report
    from engine.log.starting.outcome import Start as Start
    from engine.log.starting.outcome import Verdict as Verdict
    from engine.log.verify.partition import Verification as Verification
    from engine.log.verify.partition import verify_partition as verify_partition
    from engine.overview.brokers import Shutdown as Shutdown
    from engine.overview.partition_state import Flag as Flag
    from engine.overview.partition_state import PartitionState as PartitionState
    from engine.record.batch import Record as Record
    from engine.record.batch import RecordBatch as RecordBatch
    from engine.record.batch import read_batches as read_batches
    from engine.record.batch import read_records as read_records
    from engine.record.columns import BatchColumns as BatchColumns
    from engine.record.columns import RecordColumns as RecordColumns
    from kafkalog.log_dirs import ListedLogDir as ListedLogDir
    from kafkalog.log_dirs import Verified as Verified
    from kafkalog.log_dirs import ls as ls
    from kafkalog.log_dirs import plan_recovery as plan_recovery
    from kafkalog.log_dirs import predict_starts as predict_starts
    from kafkalog.log_dirs import verify as verify
    from kafkalog.partition import Partition as Partition

_NAMES = {  # module → its public names
    "engine.config.topic": ("LogConfig",),
    "engine.dump.run": ("Dump",),
    "engine.errors": ("KafkalogError",),
    "engine.files": ("Files", "ReadOnlyFiles"),
    "engine.findings": ("Finding", "Severity", "Where"),
    "engine.index.sparse": ("OffsetIndex", "TimeIndex"),
    "engine.index.transaction": ("TransactionIndex",),
    "engine.log.fetch.reading": ("FetchIsolation",),
    "engine.log.fetch.records": ("RecordFetcher",),
    "engine.log.fetch.view": ("PartitionView",),
    "engine.log.loading.loader": ("open_log",),
    "engine.log.logdir.log_manager": ("LogManager",),
    "engine.log.partition.unified_log": ("UnifiedLog",),
    "engine.log.report": ("Action", "Event", "Report"),
    "engine.log.starting.outcome": ("Start", "Verdict"),
    "engine.log.verify.partition": ("Verification", "verify_partition"),
    "engine.overview.brokers": ("Shutdown",),
    "engine.overview.partition_state": ("Flag", "PartitionState"),
    "engine.record.batch": ("Record", "RecordBatch", "read_batches", "read_records"),
    "engine.record.columns": ("BatchColumns", "RecordColumns"),
    "kafkalog.log_dirs": ("ListedLogDir", "Verified", "ls", "plan_recovery", "predict_starts", "verify"),
    "kafkalog.partition": ("Partition",),
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names}
__all__ = sorted(_HOMES)  # noqa: PLE0605  # the table is the list


def foreign_engine(error: ModuleNotFoundError) -> str | None:
    """Return what to do if a module was not found because another package has the name `engine`; None: for another reason."""
    if not (error.name or "").startswith("engine"):
        return None
    place = getattr(sys.modules.get("engine"), "__file__", None)
    what = "kafkalog's package engine is not installed" if place is None else f"{place} hides kafkalog's package engine"
    return f"{what}: install kafkalog in an environment of its own, for example with pipx"


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'kafkalog' has no attribute {name!r}")
    try:
        found = globals()[name] = getattr(import_module(_HOMES[name]), name)
    except ModuleNotFoundError as error:
        what = foreign_engine(error)
        if what is None:
            raise
        raise ImportError(what, name="engine") from None
    return found


def __dir__() -> list[str]:
    return __all__
