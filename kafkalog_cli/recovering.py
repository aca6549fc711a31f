"""What `kafkalog recover` does around the engine: quarantines, and what is said at the end."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from engine.advice import argument
from engine.errors import UnwritableFile, UsageError
from engine.layout import parent_of
from kafkalog_cli.app import kept_in
from kafkalog_cli.output import say_at_any_rate
from kafkalog_cli.partitions import session

if TYPE_CHECKING:
    from collections.abc import Generator

    from engine.errors import KafkalogError
    from engine.files import Files
    from engine.log.logdir.log_dirs import LogDir
    from engine.log.logdir.log_manager import LogManager
    from engine.log.quarantine.seam import QuarantiningFiles
    from engine.log.report import Report
    from kafkalog_cli.engine_options import Opening
    from kafkalog_cli.progress import Progress


def run(values: dict[str, Any]) -> int:
    """Recover what PATHS name → exit status."""
    if values["quarantine"] is not None and values["no_quarantine"]:
        raise click.UsageError("--quarantine and --no-quarantine exclude each other")
    if values["mark_clean"] and values["clean_start"]:
        raise click.UsageError("--mark-clean needs a full check, which --clean-start leaves out")
    if values["full"] and (values["clean_start"] or values["recovery_point"] is not None):
        raise click.UsageError("--full excludes --clean-start and --recovery-point")
    if values["full"]:
        values["recovery_point"] = 0
    quarantines: list[QuarantiningFiles] = []

    def wrap(files: Files, log_dir: LogDir) -> Files:
        from engine.files import now_ms
        from engine.log.quarantine.seam import QuarantiningFiles

        now = now_ms() if values["now"] is None else values["now"]
        directory = _quarantine_of(files, log_dir, values["quarantine"], now, {one.directory for one in quarantines})
        quarantines.append(
            QuarantiningFiles(files, directory, command="recover", now=now, log_dirs=(files.resolve(log_dir.path),))
        )
        _check_writable(files, directory)
        return quarantines[-1]

    def perform(manager: LogManager, opening: Opening, progress: Progress) -> Generator[Report, None, None]:
        from engine.log.operations.recover import RecoverOptions, recover

        part = next((log_dir for log_dir in manager.cluster.log_dirs if not log_dir.is_whole), None)
        if part is not None and values["mark_clean"]:
            what = f"{part.places[0].path}: a partition; --mark-clean is said of a log dir, when all its logs are proven"
            raise UsageError(what, do=f"name the log dir: kafkalog recover --mark-clean {argument(part.path)}")
        options = RecoverOptions(
            opening.clean_start, opening.recovery_point, opening.log_start_offset, opening.keep_deleted, values["salvage"],
            values["accept_metadata_loss"], values["start_beyond_end"], values["mark_clean"], opening.jobs,
        )
        yield from recover(manager, options, errors, progress.done)

    errors: list[KafkalogError] = []
    try:
        return session(values, perform, errors, None if values["no_quarantine"] else wrap, with_metadata=True)
    finally:
        for quarantine in quarantines:
            if quarantine.is_used:
                say_at_any_rate(kept_in(quarantine), err=values["form"] == "json" or sys.exc_info()[0] is not None)


def _quarantine_of(files: Files, log_dir: LogDir, chosen: str | None, now: int, taken: set[str]) -> str:
    """Where to keep what is taken out of `log_dir`. Raises UsageError for a place inside a log dir."""
    from engine.log.quarantine.naming import quarantine_beside

    real = files.resolve(log_dir.path)
    if chosen is None:
        directory = quarantine_beside(files, log_dir.path, now)
    else:
        directory = files.absolute(chosen.rstrip("/"))
        if directory in taken or any(place.startswith(directory + "-") for place in taken):
            directory = f"{directory}-{len(taken) + 1}"
    inside = directory
    while inside != "/":
        inside = parent_of(inside)
        if files.exists(inside) and files.resolve(inside) == real:
            what = f"{directory} lies inside the log dir {log_dir.path}: a directory that is not Kafka's stops a broker"
            raise UsageError(what, do="choose a place outside with --quarantine DIR")
    return directory


def _check_writable(files: Files, directory: str) -> None:
    """Raise UnwritableFile if the quarantine can not be made at `directory`: before anything is changed, not in the middle."""
    try:
        files.make_directory(directory)
        files.remove_directory(directory)
    except UnwritableFile as error:
        do = "--quarantine DIR keeps it elsewhere, --no-quarantine does without"
        raise UnwritableFile(f"{error}: what is cut is to be kept there", do=do) from error
