"""What `kafkalog recover` does around the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from engine.advice import argument
from engine.errors import UsageError
from kafkalog_cli.partitions import session

if TYPE_CHECKING:
    from collections.abc import Generator

    from engine.errors import KafkalogError
    from engine.log.logdir.log_manager import LogManager
    from engine.log.report import Report
    from kafkalog_cli.engine_options import Opening
    from kafkalog_cli.progress import Progress


def run(values: dict[str, Any]) -> int:
    """Recover what PATHS name → exit status."""
    if values["mark_clean"] and values["clean_start"]:
        raise click.UsageError("--mark-clean needs a full check, which --clean-start leaves out")
    if values["full"] and (values["clean_start"] or values["recovery_point"] is not None):
        raise click.UsageError("--full excludes --clean-start and --recovery-point")
    if values["full"]:
        values["recovery_point"] = 0

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
    return session("recover", values, perform, errors, with_metadata=True)
