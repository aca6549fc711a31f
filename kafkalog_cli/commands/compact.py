"""kafkalog compact."""

from __future__ import annotations

import time
from secrets import randbits
from threading import Lock
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from engine.errors import UsageError
from engine.log.cleaner.compaction import CompactionOptions
from engine.log.operations.compact import Compact
from engine.log.operations.operation import operate
from kafkalog_cli.engine_options import OPENING, OUTPUT, SETTINGS, WHICH, engine_options, quarantine_option
from kafkalog_cli.help import DocumentedCommand, Example, Section
from kafkalog_cli.interruption import INTERRUPTION
from kafkalog_cli.options import Ratio, Whole, size_option
from kafkalog_cli.partitions import run as on_logs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.log.report import Report
    from engine.log.session import Session
    from kafkalog_cli.progress import Progress


_SECTIONS = (
    WHICH,
    Section("Action", (
        "--first-dirty-offset", "--min-dirty-ratio", "--force", "--rounds", "--keep-deleted", "--quarantine", "--explain",
    )),
    Section("Memory and speed", (
        "--dedupe-buffer-size", "--io-buffer-size", "--max-io-buffer-size", "--max-bytes-per-second",
    )),
    OPENING, SETTINGS, OUTPUT,
)  # fmt: skip
_MAIN = ("--explain", "--force", "--config", "--config-file", "--quarantine", "--dry-run")
_EXAMPLES = (
    Example("Compact a partition now, however little there is to gain:",
            "kafkalog compact --force --config cleanup.policy=compact data/users-3"),
    Example("What would the broker's cleaner do next?",
            "kafkalog compact --dry-run --config-file server.properties"),
    Example("What would be deleted, and why not more:",
            "kafkalog compact --explain --config cleanup.policy=compact data/users-3"),
)


@click.command("compact", cls=DocumentedCommand, examples=_EXAMPLES, sections=_SECTIONS, main_options=_MAIN, writes=True)
@engine_options
@quarantine_option
@click.option("--first-dirty-offset", type=Whole(0), metavar="N",
              help="Treat the log below this offset as clean. If it is not, deleted values can reappear. Default: from "
              "cleaner-offset-checkpoint, else the log's start.")
@click.option("--min-dirty-ratio", type=Ratio(), metavar="RATIO",
              help="Skip logs whose dirty ratio is not above this, 0 to 1. Default: min.cleanable.dirty.ratio.")
@click.option("--force", is_flag=True, help="Compact at any dirty ratio.")
@click.option("--rounds", type=Whole(1), metavar="N", help="At most this many rounds. Default: until all is clean.")
@click.option("--explain", is_flag=True, help="Change nothing; show what would be deleted, and why not more.")
@size_option("--dedupe-buffer-size", default=128 << 20,
             help="Memory for the keys of a round, 24 bytes each, shared by all --jobs. Default: "
             "log.cleaner.dedupe.buffer.size of --config-file.")
@size_option("--io-buffer-size", default=512 << 10,
             help="Ignored; accepted for compatibility with "
             "log.cleaner.io.buffer.size.")
@size_option("--max-io-buffer-size", default=1 << 20,
             help="Ignored; accepted for compatibility. Larger batches are compacted too.")
@size_option("--max-bytes-per-second", default=None, least=1,
             help="Limit reads of all --jobs together. Reads that open a log after an unclean stop are not "
             "limited.")
def command(**values: Any) -> int:
    """Delete records whose key has a later value, as the broker's log cleaner does.

    Run it while the broker is stopped: after its cleaner died or gave up a partition (--explain shows why), when the disk is
    nearly full, or before a directory is copied. On the log dir of a running broker only --dry-run and --explain work.

    In a log dir, compact cleans the logs of compacted topics that are due, the dirtiest first, up to the offset that all
    replicas have (replication-offset-checkpoint). A log that PATHS name directly is cleaned if it is dirty enough, or with
    --force. Which topics are compacted is read from the metadata log (name its log dir too, or give a --config-file whose log
    dirs have it) or --config; the default in --config-file is not enough without the metadata log, except for logs of brokers
    with ZooKeeper. Topics with cleanup.policy=compact,delete are compacted like others; run retain to apply their retention.

    compact never changes the active segment (roll begins a new one), records of open transactions, or records younger than
    min.compaction.lag.ms. It deletes records without a key. It deletes a tombstone, or the marker of a transaction, in a round
    that runs at least delete.retention.ms after the first round that read it; that first round writes the time into its batch.

    The result is the files that the broker's cleaner would write, and the broker's cleaner continues from the checkpoint.
    Memory: 100 MB, plus 27 bytes for each key of a round, up to --dedupe-buffer-size; 128 MiB hold 5 million keys. More keys
    take more rounds, and each round reads the clean part again. A million producers or aborted transactions take 100 MB more.
    Disk: room for one new segment for each of --jobs, up to segment.bytes. With less room use --jobs 1 and a smaller
    --config segment.bytes=N. If the disk gets full, the segments in work are left unchanged.

    New segments are written beside the old ones and replace them when they are complete. You can stop compact at any moment
    without loss and run it again. A log with an unreadable batch is left unchanged: run recover first. A log whose transaction
    index lacks an aborted transaction is left unchanged too: run verify --rebuild first. A batch that decompresses to more
    than 256 MiB, or more than max.message.bytes if that is larger, is refused; raise the limit with --config
    max.message.bytes=N.
    """
    return run(values)


_NAP = 0.2  # seconds between checks for Ctrl-C
_CREDIT = 0.3  # seconds without reads that later reads may use, as in Kafka's Throttler


def run(values: dict[str, Any]) -> int:
    """Compact the logs of PATHS; of log dirs those that are due, the dirtiest first. Returns the exit status."""
    throttle = Throttle(values["max_bytes_per_second"])
    asked = CompactionOptions(
        first_dirty_offset=values["first_dirty_offset"],
        min_dirty_ratio=values["min_dirty_ratio"],
        force=values["force"],
        rounds=values["rounds"],
        dedupe_buffer_size=values["dedupe_buffer_size"],
        secret=(randbits(64), randbits(64)),
        keep_deleted=values["keep_deleted"],
    )
    compactor = Compact(asked, explain=values["explain"], on_bytes=throttle, clock=time.perf_counter)

    def work(logs: Session, progress: Progress) -> Iterator[Report]:
        whole = [log_dir.path for log_dir in logs.log_dirs if log_dir.is_whole]
        if whole and values["first_dirty_offset"] is not None:
            what = f"{whole[0]}: a log dir; --first-dirty-offset needs partitions, named one by one"
            raise UsageError(what)
        source = click.get_current_context().get_parameter_source("dedupe_buffer_size")
        noted = logs.options.settings.server.dedupe_buffer_size if source is ParameterSource.DEFAULT else None
        yield from compactor.choose(logs.manager, logs.options.jobs, noted)
        progress.expect_shares(
            logs.log_dirs, logs.manager.files_of, "explaining logs" if values["explain"] else "compacting logs",
            values["max_bytes_per_second"],
        )
        compactor.on_share = progress.share
        yield from operate(logs.manager, logs.options, compactor)

    whole = {**values, "dry_run": values["dry_run"] or values["explain"]}
    return on_logs("compact", whole, work, gauges=compactor.metrics.gauges)


class Throttle:
    """Limits the reads of all threads together to `bytes_per_second`; None: no limit."""

    def __init__(self, bytes_per_second: int | None) -> None:
        self._rate = bytes_per_second
        self._free = time.monotonic()  # the time at which the limit permits the reads so far
        self._lock = Lock()

    def __call__(self, size: int) -> None:
        """Count `size` bytes as read, and wait until the limit permits them."""
        if self._rate:
            with self._lock:
                now = time.monotonic()
                self._free = max(self._free, now - _CREDIT) + size / self._rate
                ahead = self._free - now
            while ahead > 0:
                time.sleep(min(ahead, _NAP))
                INTERRUPTION.check()
                ahead -= _NAP
