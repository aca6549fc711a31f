"""The files of an export: written aside and renamed when complete, never in a log dir, never over a file of someone else.

A directory has a journal of its files. A later run reads from it which of them are complete, and up to which offset.
"""

from __future__ import annotations

import json
from contextlib import contextmanager, suppress
from threading import Lock as ThreadLock
from typing import TYPE_CHECKING, Any, NamedTuple

from engine.amounts import count_of
from engine.discovery.names import parent_of
from engine.discovery.paths import DirectoryKind, directory_kind, is_brokers_log_dir
from engine.discovery.patterns import expand
from engine.errors import KafkalogError, LogDirLocked, OversizedFile, UnreadableFile, UsageError, argument
from engine.files import look
from engine.log.logdir.log_dirs import find_log_dirs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from engine.files import Buffer, Files, ReadOnlyFiles

JOURNAL = "_kafkalog-export.jsonl"  # Spark and others ignore names that begin with _
_LOCK = "_kafkalog-export.lock"
_FORMAT = 1  # of the journal
_LARGEST_JOURNAL = 64 << 20


class ExportTaken(KafkalogError):
    """A file of an export already exists, and is not one that this export may replace."""

    code = "export-taken"


def refuse_log_dirs(files: ReadOnlyFiles, to: str, log_dirs: Iterable[str] = ()) -> None:
    """Raise UsageError if `to` is a log dir or a partition, or in one. Raises UnreadableFile."""
    around = log_dir_around(files, to, log_dirs)
    if around is not None:
        raise UsageError(f"{to}: is in {around}, which holds logs: name a directory outside of it", path=to)


def refuse_table_over_logs(files: ReadOnlyFiles, to: str, sources: Iterable[str], *, appends: bool, overwrites: bool) -> None:
    """Raise UsageError if a table in the directory `to` would damage logs. `overwrites`: its writer deletes what is there.

    sources  the paths to read, including patterns
    Raises UnreadableFile for a directory that cannot be read.
    """
    path = files.absolute(to.rstrip("/") or "/")
    if files.exists(path):
        path = files.resolve(path)
        if not files.info(path).is_directory:
            raise UsageError(f"{to}: a file; name the directory for the table")
        logs = _logs_in(files, path)
        if overwrites and logs:
            raise UsageError(f"{to}: it contains logs ({logs[0]}), which overwriting would delete: name another directory")
        if appends and path in logs:
            raise UsageError(f"{to}: it contains logs: name another directory")
        for source in (one for pattern in sources for one in expand(files, pattern)) if overwrites else ():
            if f"{files.resolve(source)}/".startswith(f"{path.rstrip('/')}/"):
                raise UsageError(f"{to}: {source} is in it, and overwriting would delete it: name another directory")
    around = log_dir_around(files, parent_of(path))
    if around is not None:
        raise UsageError(f"{to}: is in {around}, a log dir of a broker: name another directory")


def _logs_in(files: ReadOnlyFiles, path: str) -> list[str]:
    """Return the log dirs in `path`, of those without files of a broker the first partition. Raises UnreadableFile."""
    try:
        found = find_log_dirs(files, [path])
    except UsageError:  # there is none
        return []
    whole = [one.path for one in found if one.is_whole]
    first = [one.directories[0].path for one in found if not one.is_whole]
    known = (one for one in first if files.info(one).is_directory)  # others have only names that look like partitions
    return whole + [one for one in known if directory_kind(files.list(one)) is DirectoryKind.PARTITION]


@contextmanager
def held_directory(files: ReadOnlyFiles, to: str) -> Iterator[None]:
    """Hold the directory of `to`, which need not exist: root writes there only, also if another user replaces it meanwhile.

    Raises NotAllowed for a symbolic link of a user whose directory it does not lead to, UnreadableFile.
    """
    directory = files.absolute(to.rstrip("/") or "/")
    while not (files.exists(directory) and files.info(directory).is_directory):
        directory = parent_of(directory)
    with files.held([directory]):
        yield


def log_dir_around(files: ReadOnlyFiles, to: str, log_dirs: Iterable[str] = ()) -> str | None:
    """Return the partition or log dir that `to`, which need not exist, is in or is, through links too; None: there is none.

    log_dirs  that are known; those of a broker are found without it
    Raises UnreadableFile.
    """
    path = files.absolute(to.rstrip("/") or "/")
    while not files.exists(path):
        path = parent_of(path)
    path, known = files.resolve(path), {_resolved(files, one) for one in log_dirs}
    while True:
        if path in known:
            return path
        if files.info(path).is_directory and (is_brokers_log_dir(files, path) or _is_partition(files, path)):
            return path
        if path == "/":
            return None
        path = parent_of(path)


def _resolved(files: ReadOnlyFiles, path: str) -> str:
    try:
        return files.resolve(path)
    except UnreadableFile:  # a log dir that is missing: nothing is in it
        return path


def _is_partition(files: ReadOnlyFiles, path: str) -> bool:
    try:
        return directory_kind(files.list(path)) is DirectoryKind.PARTITION
    except UnreadableFile:  # a directory on the way, which may be entered but not listed
        return False


class Destination:
    """What pyarrow and TextBuffer write to: a new file `path`, under the name `aside` until it is complete.

    owns_aside  a file that lies there is an unfinished one of ours
    Raises ExportTaken, UnwritableFile.
    """

    closed = False

    def __init__(self, files: Files, path: str, aside: str, *, owns_aside: bool = False) -> None:
        if not owns_aside and look(files, aside) is not None:
            what = f"{aside}: an unfinished export, or one that is still being written"
            raise ExportTaken(what, f"rm {argument(aside)}    # if no other export is running", path=aside)
        self._files, self.path, self._aside = files, path, aside
        self.size = 0
        self._is_given_up = False
        self._file = files.open_writable(aside, create=True)
        self._file.truncate(0)

    def write(self, data: Buffer) -> int:
        """Append bytes. Raises UnwritableFile."""
        count = len(memoryview(data).cast("B"))
        if not self._is_given_up:
            self._file.write_at(self.size, data)
        self.size += count
        return count

    def take_over(self, former: str) -> None:
        """Append the content of the file `former`. Raises UnreadableFile, UnwritableFile."""
        with self._files.open(former) as file:
            size = file.size()
            self._files.copy(file, 0, size, self._file, self.size)
        self.size += size

    def tell(self) -> int:
        """Return the number of bytes written."""
        return self.size

    def flush(self) -> None:
        """Do nothing: no bytes are kept back."""

    def close(self) -> None:
        """Do nothing: see `commit`."""

    def sync(self) -> None:
        """Wait until the bytes are on the disk. Raises UnwritableFile."""
        self._file.sync()

    def commit(self, *, replaces: bool = False) -> None:
        """Give the file its name. `replaces`: a file of the same export may be there. Raises UnwritableFile."""
        self._file.close()
        self._files.rename(self._aside, self.path, replaces=replaces)
        self._files.sync_directory(parent_of(self._files.absolute(self.path)))

    def give_up(self) -> None:
        """Drop what is still written."""
        self._is_given_up = True

    def remove(self) -> None:
        """Remove the unfinished file. Never raises."""
        self.give_up()
        with suppress(KafkalogError):
            self._file.close()
            self._files.remove(self._aside)


class Part(NamedTuple):
    """A complete file of a directory: the offsets of the partition in it, from `first` on, before `next`.

    size  bytes    problems  findings other than harmless ones when it was written
    """

    first: int
    next: int
    records: int
    size: int
    problems: int = 0


class ExportDirectory:
    """A directory of one file for each partition, with its journal; locked until `close`.

    settings  what decides on the content of the files; a later run must have the same
    Raises UsageError, ExportTaken, UnreadableFile, UnwritableFile.
    """

    def __init__(self, files: Files, path: str, settings: Mapping[str, object], *, resume: bool) -> None:
        self._files, self.path = files, path.rstrip("/") or "/"
        if look(files, self.path) is None:
            files.make_directory(self.path)
        try:
            self._held = files.lock(f"{self.path}/{_LOCK}")
        except LogDirLocked:
            raise ExportTaken(f"{path}: another export is writing to it", "wait until it is done", path=path) from None
        self._parts: dict[str, list[Part]] = {}
        self._threads = ThreadLock()
        try:
            self._begin(settings, resume=resume)
        except BaseException:
            self._held.release()
            raise

    def _begin(self, settings: Mapping[str, object], *, resume: bool) -> None:
        journal = f"{self.path}/{JOURNAL}"
        known = look(self._files, journal)
        if known is not None and known.size and not resume:
            what = f"{self.path}: holds an export already"
            raise ExportTaken(what, "add --resume to continue it, or name another directory", path=self.path)
        self._size = self._read(journal, settings) if known is not None and known.size else 0
        self._journal = self._files.open_writable(journal, create=True)
        if self._size:
            self._journal.truncate(self._size)  # without a line that was cut off
        else:
            self._append({"kafkalog_export": _FORMAT, "settings": dict(settings)})
            self._files.sync_directory(self.path)

    def close(self) -> None:
        """Release the directory. The lock file stays: a process that waits for it must not hold one without a name."""
        self._journal.close()
        self._held.release()

    def part(self, name: str) -> Part | None:
        """Return the complete file `name`; None: there is none. Raises ExportTaken for a file that is not as it was written."""
        path = f"{self.path}/{name}"
        there = look(self._files, path)
        if there is None:
            return None
        for part in reversed(self._parts.get(name, ())):  # the last one may not have got its name
            if there.size == part.size:
                return part
        what = f"{path}: not a file of this export, or changed since"
        raise ExportTaken(what, f"mv {argument(path)} elsewhere, and run the command again", path=path)

    def destination(self, name: str) -> Destination:
        """Return a new file that will be `name`. Raises UnwritableFile."""
        return Destination(self._files, f"{self.path}/{name}", f"{self.path}/.{name}.part", owns_aside=True)

    def commit(self, name: str, destination: Destination, part: Part, *, replaces: bool) -> None:
        """Complete a file: note it in the journal, then give it its name. Raises UnwritableFile."""
        destination.sync()
        with self._threads:
            self._append({"file": name, **part._asdict()})
            self._parts.setdefault(name, []).append(part)
        destination.commit(replaces=replaces)

    def _append(self, line: dict[str, object]) -> None:
        data = json.dumps(line).encode() + b"\n"
        self._journal.write_at(self._size, data)
        self._journal.sync()
        self._size += len(data)

    def _read(self, journal: str, settings: Mapping[str, object]) -> int:
        """Read the journal; returns the size of its whole lines."""
        try:
            data = self._files.read(journal, _LARGEST_JOURNAL)
            whole = data[: data.rfind(b"\n") + 1]
            head, *lines = [json.loads(line) for line in whole.splitlines()]
            former: dict[str, Any] = head["settings"] if head["kafkalog_export"] == _FORMAT else {}
            for line in lines:
                part = Part(*(int(line[field]) for field in Part._fields))
                self._parts.setdefault(str(line["file"]), []).append(part)
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError, OversizedFile):
            raise ExportTaken(f"{journal}: not the journal of an export of kafkalog", path=journal) from None
        others = sorted(name for name in {*former, *settings} if former.get(name) != settings.get(name))
        if others:
            shown = ", ".join(f"--{name} {_shown(former.get(name))}" for name in others)
            what = f"{self.path}: its files were written with {count_of(len(others), 'other option')}: {shown}"
            raise UsageError(what, "use the same options, or name another directory", path=self.path)
        return len(whole)


def _shown(value: object) -> str:
    return "not given" if value is None else value if isinstance(value, str) else json.dumps(value)
