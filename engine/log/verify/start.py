"""What a broker would trip over when it starts on log dirs, as findings beside those about partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.errors import UsageError
from engine.findings import Finding, Where
from engine.layout import FileKind
from engine.log.logdir.log_dirs import find_log_dirs
from engine.log.logdir.startup import Effect, foresee, survey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from engine.files import ReadOnlyFiles
    from engine.log.logdir.log_dirs import LogDir
    from engine.log.logdir.startup import Trouble

_CODES = {
    Effect.STOPS: "broker-stops",
    Effect.OFFLINE: "log-dir-offline",
    Effect.STRAYS: "partition-stray",
    Effect.LOSES_TOPICS: "metadata-loss",
    Effect.WARNS: "broker-warns",
}
_KRAFT = 1  # version of meta.properties; brokers with ZooKeeper wrote 0


def verify_start(files: ReadOnlyFiles, paths: Iterable[str], report: Callable[[Finding], None]) -> None:
    """Report what a starting broker trips over in those of `paths` that are log dirs, or hold some.

    Log dirs of brokers with ZooKeeper are left out: those of today start on none of them. Raises UnreadableFile.
    """
    log_dirs: dict[str, LogDir] = {}
    for path in paths:
        if not files.info(path).is_directory:
            continue
        try:
            found = find_log_dirs(files, [path])
        except UsageError:
            continue  # no place of Kafka's
        log_dirs.update((one.path, one) for one in found if one.is_whole)
    if not log_dirs:
        return
    cluster = survey(files, list(log_dirs.values()))
    unreadable = [path for path in log_dirs if path not in cluster.identities
                  and files.exists(f"{path}/{FileKind.META_PROPERTIES.value}")]  # fmt: skip
    if cluster.metadata_dir is None and not unreadable and all(one.version != _KRAFT for one in cluster.identities.values()):
        return
    for trouble in foresee(files, cluster):
        if trouble.effect is not Effect.WARNS or trouble.kind is not FileKind.PRODUCER_SNAPSHOT:  # told with its partition
            report(Finding(_CODES[trouble.effect], Where(trouble.path), _text(trouble)))


def _text(trouble: Trouble) -> str:
    return trouble.what if trouble.said is None else f"{trouble.what}; a broker says: {trouble.said}"
