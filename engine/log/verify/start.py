"""What a broker would trip over when it starts on log dirs, as findings beside those about partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.discovery.names import FileKind, parent_of
from engine.discovery.paths import is_brokers_log_dir
from engine.errors import UnreadableFile, UsageError
from engine.findings import Finding, Where
from engine.log.logdir.log_dirs import find_log_dirs
from engine.log.logdir.startup import Effect, foresee, survey_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from engine.files import ReadOnlyFiles
    from engine.log.logdir.log_dirs import LogDir
    from engine.log.logdir.startup import Cluster, Trouble

_CODES = {
    Effect.STOPS: "broker-stops",
    Effect.OFFLINE: "log-dir-offline",
    Effect.STRAYS: "partition-stray",
    Effect.LOSES_TOPICS: "metadata-loss",
    Effect.WARNS: "broker-warns",
}


def survey_start(files: ReadOnlyFiles, paths: Iterable[str], report: Callable[[Finding], None]) -> list[Cluster]:
    """What the log dirs around `paths` say, for each broker that they belong to. Reports what it trips over when it starts.

    Only log dirs that `paths` name as a whole, or hold, are judged together as a start judges them. Raises UnreadableFile.
    """
    log_dirs: dict[str, LogDir] = {}
    for path in paths:
        try:
            found = find_log_dirs(files, [path if files.info(path).is_directory else parent_of(files.absolute(path))])
        except (UsageError, UnreadableFile):
            continue  # no place of Kafka's; who looks for partitions there reports what cannot be read
        if not files.info(path).is_directory:
            found = [one for one in found if not one.is_whole]  # a file of the log dir itself says nothing of the others
        for one in found:
            known = log_dirs.get(one.path)
            log_dirs[one.path] = one if known is None or not known.is_whole else known
    clusters = survey_all(files, list(log_dirs.values()))
    for cluster in clusters:
        if all(one.is_whole for one in cluster.log_dirs):
            _report_start(files, cluster, report)
    return clusters


def _report_start(files: ReadOnlyFiles, cluster: Cluster, report: Callable[[Finding], None]) -> None:
    is_a_brokers = cluster.metadata_dir is not None or any(is_brokers_log_dir(files, one.path) for one in cluster.log_dirs)
    if not is_a_brokers:
        return  # partitions were copied there
    for trouble in foresee(files, cluster):
        if trouble.effect is not Effect.WARNS or trouble.kind is not FileKind.PRODUCER_SNAPSHOT:  # told with its partition
            report(Finding(_CODES[trouble.effect], Where(trouble.path), _text(trouble)))


def _text(trouble: Trouble) -> str:
    return trouble.what if trouble.said is None else f"{trouble.what}; a broker says: {trouble.said}"
