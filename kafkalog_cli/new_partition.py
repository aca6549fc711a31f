"""The directory of a partition that `append --create` makes."""

from __future__ import annotations

from engine.errors import UsageError
from engine.files import Files
from engine.layout import file_name, parse_partition_dir
from engine.log.logdir.locking import rights_of_owner
from engine.log.logdir.log_dirs import find_log_dirs
from engine.log.logdir.log_manager import refuse_metadata_log, refuse_topic_name
from kafkalog_cli.imports import load_everything


def make_partition(path: str, *, create: bool, dry_run: bool) -> bool:
    """Make the partition directory if there is none and it is asked for: was it?

    Raises UsageError, NoLogOfBrokers for a name that none can have, MetadataLogRefused, UnwritableFile.
    """
    files, directory = Files(), path.rstrip("/") or path
    directory = files.resolve(directory) if file_name(directory) in (".", "..") else directory
    named = parse_partition_dir(file_name(files.absolute(directory)))
    if named is None:
        if files.exists(directory):
            find_log_dirs(files, [directory])  # which knows what to say of a place that is none of Kafka's
        raise UsageError(f"{directory}: no partition directory, which has a name such as orders-7")
    if files.exists(directory):
        return create and not files.list(directory)  # left by one that came no further
    if not create or dry_run:
        what = f"{directory}: there is no such partition directory"
        raise UsageError(what, "a dry run does not make it" if create else "--create makes it")
    refuse_topic_name(directory, named.topic)
    refuse_metadata_log(directory, named.topic)
    around = directory.rpartition("/")[0] or "."
    load_everything(files, [around])
    with rights_of_owner(files, [around]):
        files.make_directory(directory)
        files.sync_directory(around)
    return True
