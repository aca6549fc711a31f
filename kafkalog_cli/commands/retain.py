"""kafkalog retain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from engine.log.operations.retain import RetainOptions, retain
from kafkalog_cli.engine_options import OPENING, OUTPUT, SETTINGS, WHICH, engine_options, quarantine_option
from kafkalog_cli.help import DocumentedCommand, Example, Section
from kafkalog_cli.options import PATH, Size
from kafkalog_cli.partitions import run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.log.report import Report
    from engine.log.session import Session
    from kafkalog_cli.progress import Progress


_DONE = Section("Action", ("--explain", "--log-dir", "--free", "--as-much-as-possible", "--keep-deleted", "--quarantine"))
_SECTIONS = (WHICH, _DONE, OPENING, SETTINGS, OUTPUT)
_MAIN = ("--explain", "--free", "--config", "--config-file", "--dry-run")
_EXAMPLES = (
    Example("Delete what is older than a day:", "kafkalog retain --config retention.ms=86400000 data/orders-7"),
    Example("What would be deleted now, and when will the rest be?", "kafkalog retain --explain data/orders-7"),
    Example("The disk is full: delete the oldest records until ten gigabytes are free:", "kafkalog retain --free 10GiB data"),
    Example("Keep about a gigabyte:",
            "kafkalog retain --config retention.bytes=1073741824 --config retention.ms=-1 data/orders-7"),
)


@click.command("retain", cls=DocumentedCommand, examples=_EXAMPLES, sections=_SECTIONS, main_options=_MAIN, writes=True)
@engine_options
@quarantine_option
@click.option("--explain", is_flag=True, help="Change nothing; show for each segment why it would be deleted or kept, and "
                                              "when it will be deleted.")
@click.option("--log-dir", "log_dirs", type=PATH, multiple=True, metavar="DIR",
              help="With --explain: a log dir of another broker with logs of __remote_log_metadata, for the remote segments of "
              "topics with remote storage; may be repeated.")
@click.option("--free", "wanted", type=Size(), metavar="BYTES",
              help="For emergencies: ignore retention; delete leftover files and then the oldest segments of all logs, "
              "until the disk of each log dir has BYTES free. Segments of compacted and internal topics, of topics whose "
              "cleanup.policy is not known, and of topics with remote storage are kept. If BYTES cannot be freed, nothing is "
              "deleted.")
@click.option("--as-much-as-possible", is_flag=True, help="With --free: delete as much as allowed even if BYTES cannot be "
                                                          "freed.")
def command(
    wanted: int | None, explain: bool, as_much_as_possible: bool, log_dirs: tuple[str, ...], **values: Any
) -> int:
    """Delete the segments that retention allows: by log start offset, by size, by time.

    retain deletes what a broker deletes at its next check: whole segments from the oldest on, none above the high watermark. In
    log dirs it also removes the directories of deleted topics.

    Nothing is deleted by a setting that is not known. The settings of topics are in the metadata log: name its log dir too, or
    give --config-file, whose log dirs are searched for it. Topics without their own value use the broker's, which is in
    --config-file. Copied partitions need --config retention.ms=N, logs of brokers with ZooKeeper --config-file or --config. A
    log whose segments only a default would delete is left unchanged, with exit status 4. --free needs only cleanup.policy.

    Remote segments are never deleted here. With --explain, the command shows which ones the next leader of a partition deletes,
    and why, by the logs of __remote_log_metadata in the log dirs. Exit status 4 means that the leader would delete segments
    which can be read now, because leader-epoch-checkpoint is incomplete.

    The segments are gone for good. With --quarantine DIR they are moved to DIR instead, and `kafkalog restore` puts them back;
    that frees space only if DIR is on another file system.
    """
    if as_much_as_possible and wanted is None:
        raise click.UsageError("--as-much-as-possible needs --free")
    if log_dirs and not explain:
        raise click.UsageError("--log-dir needs --explain")
    values["dry_run"] = values["dry_run"] or explain

    def work(logs: Session, progress: Progress) -> Iterator[Report]:
        done = retain(logs.manager, logs.options, RetainOptions(wanted, as_much_as_possible, explain, values["quarantine"]))
        if not explain or wanted is not None:
            return done
        from engine.remote.expiration import RemoteRetention

        return RemoteRetention(logs, log_dirs, lambda finding: progress.say(str(finding))).explained(done)

    return run("retain", values, work)
