"""Open log dirs for a change: lock them, survey them, and write to the disk, to memory (dry run) or with a quarantine."""

from __future__ import annotations

from contextlib import ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from engine.config.server import Settings
from engine.discovery.names import parent_of
from engine.errors import KafkalogError, UnwritableFile, UsageError
from engine.files import acting_as_root, may_write, nameless_file, now_ms
from engine.log.logdir.log_dirs import locked
from engine.log.logdir.log_manager import LogManager
from engine.log.logdir.startup import by_broker, survey

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

    from engine.files import Files
    from engine.log.logdir.log_dirs import LogDir
    from engine.log.logdir.startup import Cluster
    from engine.log.quarantine.quarantining_files import QuarantiningFiles
    from engine.log.report import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenOptions:
    """How logs are opened and closed.

    settings       settings of topics        now  ms since 1970
    clean_start    open as after a clean shutdown: only segments without an index are recovered
    recovery_point, log_start_offset   for every log; None: from the checkpoints of its log dir
    high_watermark None: from the checkpoint, else the log end offset
    keep_deleted   rename deleted files to .deleted instead of removing them
    jobs           number of logs that are processed at the same time
    dry_run        change nothing on the disk: all changes are made in memory
    """

    settings: Settings = field(default_factory=Settings)
    now: int = field(default_factory=now_ms)
    clean_start: bool = False
    recovery_point: int | None = None
    log_start_offset: int | None = None
    high_watermark: int | None = None
    keep_deleted: bool = False
    jobs: int = 1
    dry_run: bool = False


class Quarantines:
    """One quarantine for each log dir that a command changes.

    command  recorded in the quarantine     directory  path of the quarantine; None: beside each log dir
    of       the part of the log dir that the command works on, used in the name of the quarantine; "": the whole log dir
    unless   advice for errors: how the user can choose another directory
    """

    def __init__(
        self, command: str, now: int, directory: str | None = None, *, of: str = "", unless: str | None = None,
        dry_run: bool = False,
    ) -> None:
        self._command, self._now, self._chosen, self._of, self._unless = command, now, directory, of, unless
        self._dry_run = dry_run
        self.made: list[QuarantiningFiles] = []

    def begin(self, files: Files, log_dir: str) -> Files:
        """Return a file system over `files` that keeps what is changed in a log dir. Raises UsageError, UnwritableFile."""
        from engine.log.quarantine.quarantining_files import QuarantiningFiles  # most commands keep nothing

        made = QuarantiningFiles(
            files, self._directory(files, log_dir), command=self._command, now=self._now, log_dirs=(files.resolve(log_dir),),
            is_rehearsal=self._dry_run,
        )
        self.made.append(made)
        if not self._dry_run:
            try:
                made.make()  # create it now, so that an error comes before the work begins
            except UnwritableFile as error:
                raise UnwritableFile(f"{error}: the quarantine would be written there", do=self._unless) from error
        return made

    def finish(self) -> list[KafkalogError]:
        """Write the final state into every quarantine. Returns the errors; an error in one does not stop the others."""
        errors: list[KafkalogError] = []
        for made in self.made:
            if self._dry_run and not may_write(parent_of(made.directory)):
                what = f"{made.directory}: without --dry-run it could not be created, and the command would stop here"
                errors.append(UnwritableFile(what, do=self._unless))
            try:
                made.finish()
            except KafkalogError as error:
                errors.append(error)
        return errors

    @property
    def is_used(self) -> bool:
        """Was anything changed?"""
        return any(made.is_used for made in self.made)

    def _directory(self, files: Files, log_dir: str) -> str:
        """The path of the quarantine for `log_dir`. Raises UsageError if the chosen path is inside the log dir."""
        from engine.log.quarantine.trusted_files import quarantine_beside

        if self._chosen is None:
            directory = quarantine_beside(files, log_dir, self._now, self._of)
        else:
            used = {made.directory for made in self.made}
            directory = files.absolute(self._chosen.rstrip("/"))
            if directory in used or any(other.startswith(directory + "-") for other in used):
                directory = f"{directory}-{len(used) + 1}"
        real, inside = files.resolve(log_dir), directory
        while inside != "/":
            inside = parent_of(inside)
            if files.exists(inside) and files.resolve(inside) == real:
                what = (f"{directory} is inside the log dir {log_dir}: a broker does not start with a directory that is not "
                        "Kafka's")
                raise UsageError(what, do="choose a place outside with --quarantine DIR")
        return directory


class OpenDirs:
    """Log dirs that are locked for a change; see `open_dirs`.

    disk         the real file system      files  the same, or memory in a dry run: use it to read what was changed
    quarantines  None: removed bytes are not kept
    errors       after `finish`: why a quarantine could not be finished
    """

    def __init__(self, disk: Files, files: Files, log_dirs: Sequence[str], quarantines: Quarantines | None) -> None:
        self.disk, self.files, self.quarantines = disk, files, quarantines
        self._log_dirs, self._is_finished = log_dirs, False
        self._kept: dict[str, Files] = {}
        self.errors: list[KafkalogError] = []

    def files_of(self, log_dir: str) -> Files:
        """The file system through which to change `log_dir`. After `begin` it keeps what is changed in the quarantine."""
        return self._kept.get(log_dir, self.files)

    def begin(self) -> None:
        """Create the quarantines. Raises UsageError, UnwritableFile."""
        if self.quarantines is not None:
            with acting_as_root():  # the owner of a log dir may lack the right to create files beside it
                self._kept = {log_dir: self.quarantines.begin(self.files, log_dir) for log_dir in self._log_dirs}

    def finish(self) -> None:
        """Finish the quarantines, once; `open_dirs` calls it at the end."""
        if self.quarantines is not None and not self._is_finished:
            self._is_finished = True
            self.errors += self.quarantines.finish()


@contextmanager
def open_dirs(
    disk: Files, log_dirs: Sequence[str], partitions: Sequence[str], quarantines: Quarantines | None = None, *, now: int,
    dry_run: bool = False,
) -> Iterator[OpenDirs]:
    """Lock the `partitions` of log dirs for work. At the end finish the quarantines, then release the locks.

    Root acts with the rights of the log dirs' owner; in a dry run it keeps its own rights, because it only reads.
    Raises LogDirLocked, UnwritableFile, UnreadableFile.
    """
    with ExitStack() as stack:
        files = disk
        if dry_run:
            from engine.overlay import OverlayFiles
            from engine.overlay.tree import Spill

            files = OverlayFiles(disk, now, stack.enter_context(closing(Spill(nameless_file))))
        stack.enter_context(locked(files, log_dirs, partitions))
        stack.enter_context(acting_as_root() if dry_run else nullcontext())
        opened = OpenDirs(disk, files, log_dirs, quarantines)
        stack.callback(opened.finish)
        yield opened


class Session:
    """Log dirs that are open for a change, with the manager that opens their logs; see `session`.

    clusters  what is known of each broker, if the log dirs belong to several: then the manager is for counts only
    """

    def __init__(
        self, dirs: OpenDirs, manager: LogManager, options: OpenOptions, clusters: Sequence[Cluster] = ()
    ) -> None:
        self.dirs, self.manager, self.options, self._clusters = dirs, manager, options, clusters

    @property
    def log_dirs(self) -> tuple[LogDir, ...]:
        """The log dirs, each with the partitions to work on."""
        return self.manager.cluster.log_dirs

    def run(self, work: Callable[[Session], Iterator[Report]]) -> Generator[Report, None, None]:
        """Create the quarantines, then do the work, for one broker after the other."""
        self.dirs.begin()
        for one in self._of_brokers(self.dirs) if self._clusters else (self,):
            yield from work(one)

    def rehearse(self, work: Callable[[Session], Iterator[Report]]) -> Iterator[Report]:
        """Do the work in memory and discard its changes."""
        from engine.overlay import OverlayFiles

        overlay = OverlayFiles(self.dirs.files, self.options.now)
        for one in self._of_brokers(OpenDirs(self.dirs.disk, overlay, (), None)):
            yield from work(one)

    def _of_brokers(self, dirs: OpenDirs) -> Iterator[Session]:
        for cluster in self._clusters or (self.manager.cluster,):
            manager = LogManager(dirs.files_of, cluster, self.options.settings, self.options.now)
            yield Session(dirs, manager, self.options)


@contextmanager
def session(
    disk: Files, log_dirs: Sequence[LogDir], options: OpenOptions, quarantines: Quarantines | None = None, *,
    around: Iterable[LogDir] | None = None,
) -> Iterator[Session]:
    """Lock the log dirs, as `open_dirs` does, and survey them.

    around  the log dirs to survey, if they are more than the log dirs to work on
    Raises LogDirLocked, UnwritableFile, UnreadableFile, UsageError.
    """
    named = [log_dir.path for log_dir in log_dirs]
    directories = [partition.path for log_dir in log_dirs for partition in log_dir.directories]
    with open_dirs(disk, named, directories, quarantines, now=options.now, dry_run=options.dry_run) as dirs:
        groups = by_broker(dirs.files, list(log_dirs if around is None else around)) or [[]]
        clusters = [_cluster_of(dirs.files, group, log_dirs) for group in groups]
        whole = replace(clusters[0], log_dirs=tuple(log_dirs))
        manager = LogManager(dirs.files_of, whole, options.settings, options.now)
        yield Session(dirs, manager, options, [one for one in clusters if one.log_dirs] if clusters[1:] else ())


def _cluster_of(files: Files, group: list[LogDir], log_dirs: Sequence[LogDir]) -> Cluster:
    """Survey the log dirs of a broker; those of `log_dirs` among them are to be worked on."""
    paths = {log_dir.path for log_dir in group}
    return replace(survey(files, group), log_dirs=tuple(log_dir for log_dir in log_dirs if log_dir.path in paths))
