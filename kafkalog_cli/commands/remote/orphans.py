"""kafkalog remote orphans."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from engine.amounts import count_of, size_text
from kafkalog_cli.engine_options import quarantine_options
from kafkalog_cli.help import Example, Section
from kafkalog_cli.options import Duration, Whole, yes_option
from kafkalog_cli.partitions import DECLINED, agreed
from kafkalog_cli.remote_output import OUTPUT, WHICH, RemoteCommand, log_dirs_and_settings, remote_options
from kafkalog_cli.remote_store import STORE, required_store, store_options
from kafkalog_cli.show import show
from kafkalog_cli.table import columns_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.remote.access import StoreOptions
    from engine.remote.orphans import Orphan
    from kafkalog_cli.show import Output

_SECTIONS = (
    WHICH._replace(options=(*WHICH.options, "--metadata-partitions")), STORE,
    Section("What is deleted", ("--delete", "--older-than", "--dry-run", "--quarantine", "--no-quarantine", "--yes")), OUTPUT,
)  # fmt: skip
_EXAMPLES = (
    Example("List the orphans:", "kafkalog remote orphans --store s3://kafka-tiered /var/lib/kafka/data"),
    Example("Delete those older than a week, and keep a copy:",
            "kafkalog remote orphans --delete --older-than 7d --quarantine /backups/orphans --store s3://kafka-tiered "
            "/var/lib/kafka/data"),
)  # fmt: skip
_WORDS = ("partition", "why", "segment")


@click.command("remote-orphans", cls=RemoteCommand, examples=_EXAMPLES, sections=_SECTIONS,
               main_options=("--store", "--delete", "--older-than", "--dry-run"))
@remote_options
@click.option("--metadata-partitions", "metadata_count", type=Whole(1, 1_000_000), metavar="N",
              help="Number of partitions of __remote_log_metadata, if no log dir has the cluster's metadata.")
@store_options
@click.option("--delete", "deletes", is_flag=True, help="Delete the orphans; needs --older-than.")
@click.option("--older-than", "older_than_ms", type=Duration(), metavar="AGE",
              help="Only objects that were written longer ago than this, such as 30d, 12h, 90m or 45s.")
@click.option("--dry-run", "-n", is_flag=True, help="Change nothing; show what would be deleted.")
@quarantine_options
@yes_option
def command(
    paths: tuple[str, ...], topics: tuple[str, ...], config_file: str | None, form: str, metadata_count: int | None,
    deletes: bool, older_than_ms: int | None, **values: Any,
) -> int:
    """List objects in a store that no broker will delete, and delete them.

    An object is an orphan if __remote_log_metadata says that its segment was deleted (deleted), if its topic was deleted
    (topic-gone), or if its copy did not finish and other segments have its records (not-finished). An object that no record
    names is an orphan if its upload is incomplete (cut-off) or if other segments have its records (copied-again).

    The command also lists objects that it never deletes: complete segments that no record names and that exist nowhere else
    (only-copy), topics that no record names (unknown-topic), and files that do not belong to the layout (foreign).

    PATHS are log dirs with the logs of all partitions of __remote_log_metadata, and with the cluster's metadata. --delete is
    refused if one of them is missing or damaged. Objects are copied into the quarantine before they are deleted;
    `kafkalog restore` puts them back. The command can be stopped and run again; brokers may run.
    """
    options = required_store(values, config_file)
    if deletes and older_than_ms is None:
        raise click.UsageError("--delete needs --older-than: objects of a running upload may have no record yet")
    if values["quarantine"] is not None and (values["no_quarantine"] or not deletes):
        raise click.UsageError("--quarantine needs --delete, and excludes --no-quarantine")
    named, _settings = log_dirs_and_settings(paths, config_file)
    work = _Work(options, named, topics, metadata_count, older_than_ms)
    status = show(form, lambda output: work.run(output, values if deletes else None))
    return status or work.status


class _Work:
    """Finds, prints and deletes orphans. `status`: the exit status if the user declined."""

    def __init__(
        self, options: StoreOptions, named: Sequence[str], topics: Sequence[str], metadata_count: int | None,
        older_than_ms: int | None,
    ) -> None:  # fmt: skip
        self._options, self._named, self._topics, self._count = options, named, topics, metadata_count
        self._age = older_than_ms or 0
        self.status = 0

    def run(self, output: Output, deletion: dict[str, Any] | None) -> None:
        """Print the orphans, and delete them with the options `deletion`; None: delete nothing."""
        from engine.discovery.choice import is_chosen_topic
        from engine.files import Files, now_ms
        from engine.log.logdir.log_dirs import find_log_dirs
        from engine.log.logdir.startup import survey
        from engine.remote.metadata import RemoteLogMetadata
        from engine.remote.metadata_log import MetadataLogs
        from engine.remote.orphans import DELETABLE, find_orphans, refuse_doubtful

        files, now, damaged = Files(), now_ms(), []
        store = self._options.open_writable(files)
        layout = self._options.layout_of(store)

        def report(finding: Any) -> None:
            damaged.append(finding)
            output.outcome.finding(finding)

        cluster = survey(files, find_log_dirs(files, self._named)).metadata
        cluster = None if cluster is None or cluster.findings else cluster
        logs = MetadataLogs(files, self._named, report)
        found = find_orphans(layout, logs, RemoteLogMetadata(), cluster)
        shown = [one for one in found.orphans if now - one.modified_ms >= self._age
                 and is_chosen_topic("" if one.partition is None else one.partition.topic, self._topics)]  # fmt: skip
        chosen = [one for one in shown if one.why in DELETABLE]
        if deletion is None or deletion["dry_run"]:
            _show(shown, output, "would be deleted" if deletion else None)
        if deletion is not None:
            refuse_doubtful(logs, cluster, self._count, found, len(damaged), store.name)
            if not deletion["dry_run"] and chosen:
                self._delete(store, chosen, output, deletion, now)

    def _delete(self, store: Any, chosen: Sequence[Orphan], output: Output, deletion: dict[str, Any], now: int) -> None:
        from engine.errors import UsageError, argument
        from engine.files import Files
        from engine.log.quarantine.trusted_files import quarantine_beside
        from engine.remote.orphans import KeptObjects, delete

        files, kept = Files(), None
        size = sum(one.size for one in chosen)
        if not deletion["no_quarantine"]:
            directory = deletion["quarantine"]
            if directory is None and "://" in self._options.store:
                do = "name a directory with room for them: --quarantine DIR; or --no-quarantine"
                raise UsageError(f"{size_text(size)} of objects must be copied before they are deleted", do)
            directory = directory or quarantine_beside(files, self._options.store.rstrip("/"), now)
            kept = KeptObjects(files, directory)
        objects = count_of(sum(len(one.objects) for one in chosen), "object")
        what = f"remote orphans: deletes {objects}, {size_text(size)}, in {store.name}"
        if not deletion["yes"] and not agreed(what + ("" if kept else "; this cannot be undone")):
            self.status = DECLINED
            return
        if kept is not None:
            kept.begin(store, now)
        done: list[Orphan] = []
        try:
            done.extend(delete(store, chosen, kept))
        finally:
            _show(done, output, "deleted")
            if kept is not None and output.stream is None:
                output.line(f"kept in {kept.directory}; undo with: kafkalog restore {argument(kept.directory)}")


def _show(orphans: Sequence[Orphan], output: Output, what: str | None) -> None:
    """Print orphans. `what`: what happens to those that may be deleted; None: nothing."""
    from engine.remote.orphans import DELETABLE

    if output.stream is not None:
        for one in orphans:
            fields: dict[str, object] = {"topic": None, "partition": None, "topic_id": None}
            if one.partition is not None:
                fields = one.partition._asdict()
            output.stream.put("remote-orphan", {
                **fields, "why": one.why.value, "id": one.segment_id, "start_offset": one.base_offset, "size": one.size,
                "modified": one.modified_ms, "keys": [key.key for key in one.objects], "is_deleted": what == "deleted",
            })  # fmt: skip
        return
    rows = [
        (str(one.partition or one.objects[0].key), "" if one.base_offset is None else str(one.base_offset), size_text(one.size),
         str(len(one.objects)), one.why.value, one.segment_id or "") for one in orphans
    ]  # fmt: skip
    if rows:
        headings = ("partition", "first", "size", "objects", "why", "segment")
        output.table(columns_of(headings, _WORDS), rows)
    due = [one for one in orphans if one.why in DELETABLE]
    amount = f"{count_of(sum(len(one.objects) for one in due), 'object')}, {size_text(sum(one.size for one in due))}"
    if what is not None:
        output.line(f"{what}: {amount}")
    elif not orphans:
        output.line("no orphans")
    else:
        rest = f"; never deletes {len(orphans) - len(due)} of them" if len(orphans) > len(due) else ""
        output.line(f"{count_of(len(orphans), 'orphan')}; --delete removes {amount}{rest}")
