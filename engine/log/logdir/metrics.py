"""Write metrics of a run, under the names of Kafka's own metrics, to a file for the node exporter's textfile collector.

The names are those of the JMX exporter for kafka.log:type=Log, type=LogManager and type=LogFlushStats; those of the cleaner are
in engine.log.operations.compact.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine.discovery.names import PartitionKind, parse_partition_dir
from engine.errors import UnwritableFile, UsageError
from engine.files import Files, WritableFile, look, replace
from engine.log.report import Action

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import ModuleType

    from engine.files import Buffer
    from engine.log.logdir.log_manager import LogManager
    from engine.log.report import Report

_ELSEWHERE = "the directory of --metrics-textfile FILE must exist and be writable"
_LOG = ("kafka_log_log_numlogsegments", "kafka_log_log_logstartoffset", "kafka_log_log_logendoffset", "kafka_log_log_size")


class FlushStats:
    """Number and duration (seconds) of syncs of logs (LogFlushStats)."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.count, self.seconds = 0, 0.0

    def measure(self, sync: Callable[[], object]) -> None:
        """Call `sync` and count it."""
        start = self._clock()
        sync()
        self.count += 1
        self.seconds += self._clock() - start


class _MeasuredFile(WritableFile):
    """A .log whose syncs are counted."""

    __slots__ = ("_below", "_stats")

    def __init__(self, below: WritableFile, stats: FlushStats) -> None:
        super().__init__(below.path, -1)
        self._below, self._stats = below, stats

    def close(self) -> None:
        self._below.close()

    def size(self) -> int:
        return self._below.size()

    def read_into(self, buffer: memoryview, position: int) -> int:
        return self._below.read_into(buffer, position)

    def write_at(self, position: int, *parts: Buffer) -> None:
        self._below.write_at(position, *parts)

    def truncate(self, size: int) -> None:
        self._below.truncate(size)

    def sync(self) -> None:
        self._stats.measure(self._below.sync)


class MeasuringFiles(Files):
    """The file system, with .log files whose syncs are counted in `stats`."""

    def __init__(self, stats: FlushStats) -> None:
        self._stats = stats

    def open_writable(self, path: str, *, create: bool = False, mode: int | None = None) -> WritableFile:
        """See Files."""
        file = super().open_writable(path, create=create, mode=mode)
        return _MeasuredFile(file, self._stats) if path.endswith(".log") else file


def check_textfile(files: Files, path: str) -> None:
    """Raise now what `write_textfile` would raise at the end: UsageError without prometheus-client, UnwritableFile."""
    _client()
    info, aside = look(files, path), path + ".tmp"  # the name that `replace` uses
    if info is not None and not info.is_file:
        raise UnwritableFile(f"{path}: not a file", do=_ELSEWHERE)
    try:
        files.open_writable(aside, create=True).close()
        files.remove(aside)
    except UnwritableFile as error:
        raise UnwritableFile(f"{error}: the metrics of this run could not be written there", do=_ELSEWHERE) from error


def _client() -> ModuleType:
    """The package that writes the format. Raises UsageError if it is not installed."""
    try:
        import prometheus_client
    except ImportError as error:
        what = "metrics need the package prometheus-client"
        raise UsageError(what, "pip install 'kafkalog[metrics]'") from error
    return prometheus_client


def write_textfile(
    files: Files, path: str, manager: LogManager, reports: Iterable[Report], errors: int, flushes: FlushStats,
    more: Iterable[tuple[str, str, dict[str, str], float]] = (),
) -> None:
    """Write the metrics to a temporary file and rename it to `path`, so that a collector never reads an incomplete file.

    more  of an operation: (name, description, labels, value). Raises UnwritableFile.
    """
    client = _client()
    Gauge, registry = client.Gauge, client.CollectorRegistry()  # noqa: N806  # a class
    labels = ("topic", "partition")
    about = ("segments of the log", "first offset that consumers see", "offset of the next record", "bytes of all segments")
    gauges = [Gauge(name, text, labels, registry=registry) for name, text in zip(_LOG, about, strict=True)]
    counts = {action: Gauge(f"kafkalog_{action.value}_bytes", f"bytes {action.value} in this run", labels,
                            registry=registry) for action in (Action.REMOVED, Action.TRUNCATED)}  # fmt: skip
    for report in reports:
        name = parse_partition_dir(report.directory.rpartition("/")[2])
        if name is None or name.kind is not PartitionKind.PLAIN or report.segments is None:
            continue
        of = (name.topic, str(name.partition))
        values = (report.segments, report.log_start_offset, report.log_end_offset, report.size)
        for gauge, value in zip(gauges, values, strict=True):
            gauge.labels(*of).set(value or 0)
        for action, gauge in counts.items():
            gauge.labels(*of).set(sum(event.size or 0 for event in report.find(action)))
    own: list[tuple[str, str, float]] = [
        ("kafka_log_logflushstats_logflushrateandtimems_count", "syncs of logs in this run", flushes.count),
        ("kafka_log_logflushstats_logflushrateandtimems_sum", "duration of these syncs in ms", flushes.seconds * 1000),
        ("kafka_log_logmanager_offlinelogdirectorycount", "log dirs that failed", _offline(manager)),
        ("kafkalog_errors", "errors in this run", errors),
        ("kafkalog_last_run_timestamp_seconds", "time of the last run", manager.now / 1000),
    ]
    for metric, text, number in own:
        Gauge(metric, text, registry=registry).set(number)
    _set_gauges(client, registry, more)
    replace(files, path, [client.generate_latest(registry)])


def write_gauges(files: Files, path: str, rows: Iterable[tuple[str, str, dict[str, str], float]]) -> None:
    """As `write_textfile`, but only with `rows`: (name, description, labels, value)."""
    client = _client()
    registry = client.CollectorRegistry()
    _set_gauges(client, registry, rows)
    replace(files, path, [client.generate_latest(registry)])


def _set_gauges(client: ModuleType, registry: Any, rows: Iterable[tuple[str, str, dict[str, str], float]]) -> None:
    families: dict[str, Any] = {}
    for metric, text, tags, number in rows:
        if metric not in families:
            families[metric] = client.Gauge(metric, text, tuple(tags), registry=registry)
        (families[metric].labels(**tags) if tags else families[metric]).set(number)


def _offline(manager: LogManager) -> int:
    """Number of log dirs that cannot be listed any more."""
    return sum(not manager.files_of(log_dir.path).exists(log_dir.path) for log_dir in manager.cluster.log_dirs)
