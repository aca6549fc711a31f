"""What `verify-index --rebuild` needs besides verifying: settings, locks, quarantines, a question."""

from __future__ import annotations

from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING

from engine.files import nameless_file
from engine.layout import file_name, parent_of, parse_partition_dir
from kafkalog_cli.asking import Declined, agreed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from engine.config import LogConfig
    from engine.errors import KafkalogError
    from engine.files import Files, ReadOnlyFiles
    from engine.findings import Finding
    from engine.log.logdir.log_manager import Settings
    from kafkalog_cli.quarantining import Quarantines


class Rebuild:
    """How broken files are rebuilt.

    settings  of topics, besides those of a metadata log        now  ms since 1970
    quarantines  None: what is replaced is not kept             asks  there may be a question
    """

    def __init__(self, settings: Settings, now: int, quarantines: Quarantines | None, *, dry_run: bool, asks: bool) -> None:
        self.settings, self.now, self.dry_run = settings, now, dry_run
        self._quarantines, self._asks = quarantines, asks

    def ask(self, files: ReadOnlyFiles, directories: list[str]) -> None:
        """Ask, where it cannot be undone or partitions lie in several log dirs. Raises Declined."""
        log_dirs = {parent_of(files.absolute(directory)) for directory in directories}
        is_final = self._quarantines is None
        if not self._asks or self.dry_run or not (is_final or len(log_dirs) > 1):
            return
        undo = "; it cannot be undone" if is_final else ""
        what = f"{len(log_dirs)} log dirs, {len(directories)} partitions, files that do not fit their logs are replaced"
        if not agreed(f"verify-index --rebuild: {what}{undo}"):
            raise Declined

    @contextmanager
    def begun(
        self, reader: ReadOnlyFiles, disk: Files | None, directories: list[str], errors: list[KafkalogError]
    ) -> Iterator[RebuilderOfLogDirs]:
        """Rebuild in here. `disk`: None in a dry run. Of quarantines that can not be closed it goes to `errors`."""
        from engine.overlay import OverlayFiles
        from engine.overlay.spill import Spill

        with ExitStack() as stack:
            files = OverlayFiles(reader, self.now, stack.enter_context(closing(Spill(nameless_file)))) if disk is None else disk
            config_of = _configs(reader, directories, self)
            try:
                yield RebuilderOfLogDirs(files, config_of, self.now, self._quarantines, stack, is_locking=disk is not None)
            finally:
                if self._quarantines is not None:
                    self._quarantines.finish(errors)

    def say(self) -> None:
        """Where it is kept."""
        if self._quarantines is not None:
            self._quarantines.say()


class RebuilderOfLogDirs:
    """Rebuilds partitions, the log dirs of which are locked from the first one on until `stack` ends."""

    def __init__(
        self, files: Files, config_of: Callable[[str], LogConfig], now: int, quarantines: Quarantines | None, stack: ExitStack,
        *, is_locking: bool,
    ) -> None:  # fmt: skip
        self._files, self._config_of, self._now, self._quarantines = files, config_of, now, quarantines
        self._stack, self.is_locking = stack, is_locking
        self._seams: dict[str, Files] = {}

    def files_of(self, directory: str) -> Files:
        """What keeps what is replaced in the partition at `directory`. Raises LogDirLocked, UnwritableFile."""
        from engine.log.logdir.locking import locked

        log_dir = self._files.resolve(parent_of(self._files.absolute(directory)))
        if log_dir not in self._seams:
            with ExitStack() as held:
                if self.is_locking:
                    held.enter_context(locked(self._files, [log_dir]))
                seam = self._files if self._quarantines is None else self._quarantines.around(self._files, log_dir)
                self._stack.push(held.pop_all())
            self._seams[log_dir] = seam
        return self._seams[log_dir]

    def rebuild(self, directory: str, findings: list[Finding]) -> list[str]:
        """Rebuild what `findings` are about → names of files. Raises KafkalogError."""
        from engine.log.verify.rebuild import Rebuilder

        return list(Rebuilder(self.files_of(directory), directory, self._config_of(directory), findings, self._now).run())


def _configs(files: ReadOnlyFiles, directories: Iterable[str], rebuild: Rebuild) -> Callable[[str], LogConfig]:
    """From a partition's directory to the settings of its topic: as other commands find them, in the metadata log as well."""
    from engine.log.logdir.log_dirs import list_log_dir
    from engine.log.logdir.log_manager import LogManager
    from engine.log.logdir.startup import survey
    from engine.overlay import OverlayFiles

    log_dirs = dict.fromkeys(parent_of(files.absolute(directory)) for directory in directories)
    cluster = survey(files, [list_log_dir(files, log_dir) for log_dir in log_dirs])
    manager = LogManager(lambda _log_dir: OverlayFiles(files, rebuild.now), cluster, rebuild.settings, rebuild.now)

    def config(directory: str) -> LogConfig:
        name = parse_partition_dir(file_name(files.absolute(directory)))
        return rebuild.settings.config if name is None else manager.config(name.topic)

    return config
