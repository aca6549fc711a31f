"""kafkalog remote upload."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kafkalog_cli.commands.remote.restore import ABSENT_OPTIONS
from kafkalog_cli.engine_options import config_file_option, quarantine_options
from kafkalog_cli.help import Example, Section
from kafkalog_cli.options import PATH, format_option, quiet_option, verbose_option, version_option
from kafkalog_cli.remote_output import WHICH, RemoteCommand, topic_option
from kafkalog_cli.remote_store import STORE, required_store, store_options

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.log.report import Report
    from engine.log.session import Session
    from kafkalog_cli.progress import Progress

_SECTIONS = (
    WHICH, STORE,
    Section("Output and work", ("--dry-run", "--quarantine", "--no-quarantine", "--quiet", "--verbose", "--format")),
)  # fmt: skip
_EXAMPLES = (
    Example("Show what would be copied:", "kafkalog remote upload -n --store s3://kafka-tiered /var/lib/kafka/data"),
    Example("Copy it:", "kafkalog remote upload --store s3://kafka-tiered /var/lib/kafka/data"),
)  # fmt: skip


@click.command("remote-upload", cls=RemoteCommand, examples=_EXAMPLES, sections=_SECTIONS, writes=True,
               main_options=("--store", "--topic", "--dry-run"))
@click.argument("paths", nargs=-1, type=PATH, required=True)
@topic_option
@config_file_option("settings of topics")
@store_options
@click.option("--dry-run", "-n", is_flag=True, help="Change nothing; show what would be copied.")
@quarantine_options
@format_option
@quiet_option
@verbose_option
@version_option
def command(topics: tuple[str, ...], **values: Any) -> int:
    """Copy the closed segments of a stopped broker into the store, as its next copy task would.

    PATHS are the broker's log dirs, with the logs of __remote_log_metadata or copies of them. The command copies the segments
    after the last remote offset, up to the last stable offset, without the active segment. It reads and checks each segment
    first. It records the start of a copy before the upload, and its end when all objects are in the store; brokers that start
    on these logs then read the segments. In the layout of Aiven's RemoteStorageManager it does not compress; it encrypts if the
    newest segment is encrypted, and needs the private key of its key pair.

    You can stop the command and run it again. An upload that was stopped leaves the same objects as a broker that dies during
    a copy; `kafkalog remote orphans` finds them.
    """
    options = required_store(values, values["config_file"])
    from kafkalog_cli.partitions import run

    def work(session: Session, progress: Progress) -> Iterator[Report]:
        from engine.remote.upload import Upload

        store = options.open_writable(session.dirs.disk)
        layout = options.layout_of(store)
        report = progress.say
        return Upload(store, layout, topics, lambda one: report(str(one)), dry_run=session.options.dry_run).work(session)

    return run("remote-upload", {**ABSENT_OPTIONS, **values}, work, makes_partitions=True)
