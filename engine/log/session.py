"""Log dirs opened for a change: locked, surveyed, and written on the disk, in memory (dry run) or beside a quarantine."""

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
from engine.log.logdir.startup import survey

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

    from engine.files import Files
    from engine.log.logdir.log_dirs import LogDir
    from engine.log.quarantine.seam import QuarantiningFiles
    from engine.log.report import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenOptions:
    """How logs are opened and closed.

    settings       of topics        now  ms since 1970
    clean_start    as after a clean stop: only segments without an index are recovered
    recovery_point, log_start_offset   of every log; None: as the checkpoints of its log dir say
    high_watermark None: as the checkpoint says, else the end of the log
    keep_deleted   rename deleted files to .deleted instead of removing them
    jobs           logs that are worked on at the same time
    dry_run        change nothing: all of it happens in memory
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
    """Keeps what a command changes, in one quarantine for each log dir.

    command  that they can undo        directory  where; None: beside each log dir
    of       what of the log dir they are for, part of the name beside it; "": all of it
    unless   how the user can choose otherwise, for errors
    """

    def __init__(
        self, command: str, now: int, directory: str | None = None, *, of: str = "", unless: str | None = None,
        dry_run: bool = False,
    ) -> None:
        self._command, self._now, self._chosen, self._of, self._unless = command, now, directory, of, unless
        self._dry_run = dry_run
        self.made: list[QuarantiningFiles] = []

    def begin(self, files: Files, log_dir: str) -> Files:
        """A file system over `files` that keeps what is changed in a log dir. Raises UsageError, UnwritableFile."""
        from engine.log.quarantine.seam import QuarantiningFiles  # most commands keep nothing

        made = QuarantiningFiles(
            files, self._directory(files, log_dir), command=self._command, now=self._now, log_dirs=(files.resolve(log_dir),),
            is_rehearsal=self._dry_run,
        )
        self.made.append(made)
        if not self._dry_run:
            try:
                made.make()  # now, not in the middle of the work
            except UnwritableFile as error:
                raise UnwritableFile(f"{error}: the quarantine is to be written there", do=self._unless) from error
        return made

    def finish(self) -> list[KafkalogError]:
        """Record how everything was left. Returns why a quarantine could not be finished; the others are."""
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
        """Where to keep what is taken out of `log_dir`. Raises UsageError for a place inside it."""
        from engine.log.quarantine.places import quarantine_beside

        if self._chosen is None:
            directory = quarantine_beside(files, log_dir, self._now, self._of)
        else:
            taken = {made.directory for made in self.made}
            directory = files.absolute(self._chosen.rstrip("/"))
            if directory in taken or any(place.startswith(directory + "-") for place in taken):
                directory = f"{directory}-{len(taken) + 1}"
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

    disk         what they are on        files  the same, or memory in a dry run: to read what was changed
    quarantines  None: nothing is kept
    errors       in the end: why a quarantine could not be finished
    """

    def __init__(self, disk: Files, files: Files, log_dirs: Sequence[str], quarantines: Quarantines | None) -> None:
        self.disk, self.files, self.quarantines = disk, files, quarantines
        self._log_dirs, self._is_finished = log_dirs, False
        self._kept: dict[str, Files] = {}
        self.errors: list[KafkalogError] = []

    def files_of(self, log_dir: str) -> Files:
        """The file system to change `log_dir` by: once `begin` was called, what is changed is kept."""
        return self._kept.get(log_dir, self.files)

    def begin(self) -> None:
        """Begin the quarantines. Raises UsageError, UnwritableFile."""
        if self.quarantines is not None:
            with acting_as_root():  # the owner of a log dir may not be allowed to make something beside it
                self._kept = {log_dir: self.quarantines.begin(self.files, log_dir) for log_dir in self._log_dirs}

    def finish(self) -> None:
        """Finish the quarantines, unless they are: `open_dirs` does it at the end."""
        if self.quarantines is not None and not self._is_finished:
            self._is_finished = True
            self.errors += self.quarantines.finish()


@contextmanager
def open_dirs(
    disk: Files, log_dirs: Sequence[str], partitions: Sequence[str], quarantines: Quarantines | None = None, *, now: int,
    dry_run: bool = False,
) -> Iterator[OpenDirs]:
    """Lock log dirs, of which `partitions` are worked on. At the end the quarantines are finished, then the locks are released.

    Root has the rights of the log dirs' owner meanwhile; in a dry run it keeps its own, and only reads.
    Raises LogDirLocked, UnwritableFile, UnreadableFile.
    """
    with ExitStack() as stack:
        files = disk
        if dry_run:
            from engine.overlay import OverlayFiles
            from engine.overlay.content import Spill

            files = OverlayFiles(disk, now, stack.enter_context(closing(Spill(nameless_file))))
        stack.enter_context(locked(files, log_dirs, partitions))
        stack.enter_context(acting_as_root() if dry_run else nullcontext())
        opened = OpenDirs(disk, files, log_dirs, quarantines)
        stack.callback(opened.finish)
        yield opened


class Session:
    """Log dirs that are open for a change, and what opens their logs; see `session`."""

    def __init__(self, dirs: OpenDirs, manager: LogManager, options: OpenOptions) -> None:
        self.dirs, self.manager, self.options = dirs, manager, options

    @property
    def log_dirs(self) -> tuple[LogDir, ...]:
        """The log dirs, with the partitions that are worked on."""
        return self.manager.cluster.log_dirs

    def run(self, work: Callable[[Session], Iterator[Report]]) -> Generator[Report, None, None]:
        """Begin the quarantines, then do the work."""
        self.dirs.begin()
        yield from work(self)

    def rehearse(self, work: Callable[[Session], Iterator[Report]]) -> Iterator[Report]:
        """Do the work in memory; nothing of it stays."""
        from engine.overlay import OverlayFiles

        overlay = OverlayFiles(self.dirs.files, self.options.now)
        manager = LogManager(lambda _path: overlay, self.manager.cluster, self.options.settings, self.options.now)
        return work(Session(OpenDirs(self.dirs.disk, overlay, (), None), manager, self.options))


@contextmanager
def session(
    disk: Files, log_dirs: Sequence[LogDir], options: OpenOptions, quarantines: Quarantines | None = None, *,
    around: Iterable[LogDir] | None = None,
) -> Iterator[Session]:
    """Lock the log dirs, as `open_dirs` does, and survey them.

    around  the log dirs that are surveyed, where it is more than those that are worked on
    Raises LogDirLocked, UnwritableFile, UnreadableFile, UsageError.
    """
    named, places = [log_dir.path for log_dir in log_dirs], [place.path for log_dir in log_dirs for place in log_dir.places]
    with open_dirs(disk, named, places, quarantines, now=options.now, dry_run=options.dry_run) as dirs:
        cluster = replace(survey(dirs.files, list(log_dirs if around is None else around)), log_dirs=tuple(log_dirs))
        yield Session(dirs, LogManager(dirs.files_of, cluster, options.settings, options.now), options)
