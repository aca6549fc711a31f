"""Operations on paths: `ReadOnlyFiles` has no method that could change a byte, `Files` adds those that do.

Memory and the clock too: `zeros`, `now_ms`.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

from engine.errors import OversizedFile, UnreadableFile, UnwritableFile
from engine.files.locks import take_lock
from engine.files.open_file import OpenFile, WritableFile
from engine.files.own_directory import PRIVATE, hold_for_owner, make_for_owner, remove_made
from engine.files.owner import ROOT
from engine.files.pins import OPEN_DIRECTORY, at, named_in, names_in, open_below, pinned, real_path, space_of, status_of
from engine.files.refusals import kind_of, taken, unreadable, unwritable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from engine.files.locks import Lock
    from engine.files.open_file import Buffer

_COPY = 1 << 20  # bytes at a time
_BLOCK = 512  # bytes: the unit of st_blocks
_PERMISSIONS = stat.S_IRWXU | stat.S_IRWXG | stat.S_IRWXO
_DEEPEST = 32  # directories within one another that are removed; Kafka's have none


class FileInfo(NamedTuple):
    """What the operating system says of a path.

    size, used   in bytes: how long it is, and what it takes on the disk, which is less where it has holes
    modified_ns  time of the last change, ns since the epoch
    owner        a user's number
    mode         who may read and write it: rwxrwxrwx, without bits for other things
    links        names that lead to the file
    """

    is_file: bool
    is_directory: bool
    size: int
    modified_ns: int
    owner: int = ROOT
    mode: int = 0o644
    links: int = 1
    used: int = 0

    @property
    def modified_ms(self) -> int:
        """The same time in ms, as Java has it."""
        return self.modified_ns // 1_000_000


def may_write(path: str) -> bool:
    """Does the operating system let this process change what is at `path`, as far as permissions say?"""
    name, descriptor = at(path)
    return os.access(name, os.W_OK, dir_fd=descriptor, effective_ids=True)


class DiskSpace(NamedTuple):
    """Of the file system that a path lies on: a number of its own, bytes that a user who is not root may still write."""

    disk: int
    free: int


class ReadOnlyFiles:
    """The operating system, for reading only. Paths are str, relative ones to the working directory.

    _opened  what `open` makes
    """

    _opened: type[OpenFile] = OpenFile

    def info(self, path: str) -> FileInfo:
        """What is at `path`, symbolic links followed. Raises UnreadableFile."""
        try:
            status = status_of(path)
        except (OSError, ValueError) as error:
            raise unreadable(path, error) from error
        mode = status.st_mode
        return FileInfo(
            stat.S_ISREG(mode), stat.S_ISDIR(mode), status.st_size, status.st_mtime_ns, status.st_uid, mode & _PERMISSIONS,
            status.st_nlink, status.st_blocks * _BLOCK,
        )  # fmt: skip

    def space(self, path: str) -> DiskSpace:
        """The room where `path` lies, which is there. Raises UnreadableFile."""
        try:
            status, number = space_of(path), status_of(path).st_dev
        except (OSError, ValueError) as error:
            raise unreadable(path, error) from error
        return DiskSpace(number, status.f_bavail * status.f_frsize)

    def exists(self, path: str) -> bool:
        """Is there anything at `path`, symbolic links followed?

        Raises UnreadableFile if that cannot be found out (no permission on the way, I/O error): who takes what he may not see
        for missing would create it again, or remove what belongs to it.
        """
        try:
            status_of(path)
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return False
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENAMETOOLONG):
                return False
            raise unreadable(path, error) from error
        return True

    def plain(self, directory: str) -> list[str]:
        """Names of the plain files in `directory`, sorted, symbolic links followed; links that lead nowhere are none.

        As `list` and `info` of each, but mostly from the directory alone. Raises UnreadableFile.
        """
        try:
            with _entries(directory) as entries:
                found = [(entry.name, entry.is_symlink(), entry.is_file(follow_symlinks=False)) for entry in entries]
        except (OSError, ValueError) as error:
            raise unreadable(directory, error) from error
        return sorted(name for name, is_link, is_file in found if is_file or (is_link and self._leads_to_file(directory, name)))

    def list(self, directory: str) -> list[str]:
        """Names in `directory`, sorted. Raises UnreadableFile."""
        try:
            return sorted(names_in(directory))
        except (OSError, ValueError) as error:
            raise unreadable(directory, error) from error

    def _leads_to_file(self, directory: str, name: str) -> bool:
        info = look(self, f"{directory}/{name}")
        return info is not None and info.is_file

    def special(self, directory: str) -> dict[str, str]:
        """Names in `directory` that are neither plain files nor directories themselves, and what they are instead.

        Raises UnreadableFile.
        """
        found: dict[str, str] = {}
        try:
            with _entries(directory) as entries:
                for entry in entries:
                    if not entry.is_file(follow_symlinks=False) and not entry.is_dir(follow_symlinks=False):
                        found[entry.name] = kind_of(entry.stat(follow_symlinks=False).st_mode)
        except (OSError, ValueError) as error:
            raise unreadable(directory, error) from error
        return found

    def resolve(self, path: str) -> str:
        """`path` with every symbolic link followed, absolute. Raises UnreadableFile, also for links in a circle."""
        try:
            return real_path(path)
        except (OSError, ValueError) as error:
            raise unreadable(path, error) from error

    def open(self, path: str) -> OpenFile:
        """Open a plain file for reading; never blocks on a FIFO or device. Raises UnreadableFile."""
        try:
            descriptor = open_below(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except (OSError, ValueError) as error:
            raise unreadable(path, error) from error
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            os.close(descriptor)
            raise UnreadableFile(f"{path}: {kind_of(mode)}, not a file", path=path)
        return self._opened(path, descriptor)

    def read(self, path: str, limit: int) -> bytes:
        """The whole of a small file. Raises UnreadableFile, OversizedFile for more than `limit` bytes."""
        with self.open(path) as file:
            size = file.size()
            if size > limit:
                raise OversizedFile(path, size, limit)
            return file.read(0, size)

    def root(self, path: str) -> str:
        """What `path` begins with and is no name in a directory: `/`, or nothing."""
        return "/" if path.startswith("/") else ""

    def absolute(self, path: str) -> str:
        """`path` with the working directory in front, not normalised (java.io.File.getAbsolutePath)."""
        return path if path.startswith("/") else os.getcwd() + "/" + path


class Files(ReadOnlyFiles):
    """The operating system, with what changes it. Every method raises UnwritableFile where it is refused.

    A new name, a renamed or removed one is on the disk only after `sync_directory` of its directory.
    _opened_writable  what `open_writable` makes
    """

    _opened_writable: type[WritableFile] = WritableFile

    def open_writable(self, path: str, *, create: bool = False, mode: int | None = None) -> WritableFile:
        """Open a plain file for reading and writing; `create`: an empty one is made where there is none.

        mode  of a new file, see FileInfo. None: that of the file which it is named after, as `X.tmp` and `X.kafkalog` are
              after `X`, whose place it is going to take; otherwise what the user's umask leaves of rw-r--r--
        A symbolic link is not followed: what it leads to may lie outside the log dir.
        """
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            try:
                descriptor = open_below(path, flags)
            except FileNotFoundError:
                if not create:
                    raise
                descriptor = _made(path, flags, mode)
        except (OSError, ValueError) as error:
            raise unwritable(path, error) from error
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            os.close(descriptor)
            raise UnwritableFile(f"{path}: {kind_of(mode)}, not a file")
        return self._opened_writable(path, descriptor)

    def rename(self, path: str, to: str, *, replaces: bool = False) -> None:
        """Give the file or directory at `path` the name `to`.

        replaces  the caller knows what the file at `to` holds and means to replace it; otherwise a file that exists there
                  is an error, and nothing is changed
        """
        try:
            if replaces or not _would_replace(path, to):
                (old, source), (new, target) = at(path), at(to)
                os.rename(old, new, src_dir_fd=source, dst_dir_fd=target)
                return
        except (OSError, ValueError) as error:
            raise unwritable(f"{path} -> {to}", error) from error
        raise taken(f"{path} -> {to}")

    def remove(self, path: str) -> None:
        """Remove the file at `path`; that there is none is no error (Files.deleteIfExists)."""
        try:
            name, descriptor = at(path)
            os.unlink(name, dir_fd=descriptor)
        except FileNotFoundError:
            return
        except (OSError, ValueError) as error:
            raise unwritable(path, error) from error

    def make_directory(self, path: str) -> None:
        """Make the directory at `path`; that there is one is no error."""
        try:
            name, descriptor = at(path)
            os.mkdir(name, dir_fd=descriptor)
        except (OSError, ValueError) as error:
            if not _is_directory(path):
                raise unwritable(path, error) from error

    def make_own_directory(self, path: str) -> bool:
        """Make the directory at `path`, which is not a log dir's, as the quarantine of one.

        For the user whose rights root has taken it is a new one. True: its name is on the disk.
        """
        if make_for_owner(path):
            return True
        try:
            name, descriptor = at(path)
            os.mkdir(name, PRIVATE, dir_fd=descriptor)  # it may hold what only the owner may read
        except (OSError, ValueError) as error:
            raise unwritable(path, error) from error
        return False

    def remove_directory(self, path: str) -> None:
        """Remove the empty directory at `path`."""
        try:
            if remove_made(path):
                return
            name, descriptor = named_in(path)
            os.rmdir(name, dir_fd=descriptor)
        except (OSError, ValueError) as error:
            raise unwritable(path, error) from error

    def sync_directory(self, path: str) -> None:
        """Wait until the names in the directory at `path` are on the disk (Utils.flushDir)."""
        try:
            descriptor = open_below(path, OPEN_DIRECTORY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except (OSError, ValueError) as error:
            raise unwritable(path, error) from error

    def set_modified(self, path: str, modified_ns: int) -> None:
        """Set the time of the last change of the file at `path`, ns since the epoch; of a link, its own."""
        try:
            name, descriptor = at(path)
            os.utime(name, ns=(modified_ns, modified_ns), dir_fd=descriptor, follow_symlinks=False)
        except (OSError, ValueError, OverflowError) as error:
            raise unwritable(path, error) from error

    def copy(self, file: OpenFile, start: int, end: int, to: WritableFile, position: int) -> None:
        """Copy the bytes [start, end) of `file` to `to`, from byte `position` on."""
        while start < end:
            data = file.read_exactly(start, min(_COPY, end - start))
            to.write_at(position, data)
            start += len(data)
            position += len(data)

    def lock(self, path: str) -> Lock:
        """Lock the file at `path` as Java's FileChannel.tryLock does, making it where there is none.

        Raises LogDirLocked where another process holds it.
        """
        return take_lock(path)

    @contextmanager
    def held_open(self, directory: str) -> Iterator[None]:
        """Reach what is in `directory` through a descriptor of it, whatever its name leads to meanwhile.

        Raises UnwritableFile where it is not a directory itself: a symbolic link is not followed.
        """
        try:
            descriptor = open_below(directory, OPEN_DIRECTORY | os.O_NOFOLLOW)
        except (OSError, ValueError) as error:
            raise unwritable(directory, error) from error
        with pinned(directory, descriptor):
            yield

    @contextmanager
    def held_for_deletion(self, directory: str) -> Iterator[None]:
        """As `held_open`, and `remove_directory` removes the directory from the one that is around it now.

        The counterpart of `make_own_directory`: `directory`, absolute and without links, is not a log dir's. If root has the
        rights of a user, it must belong to that user.
        """
        if hold_for_owner(directory):
            yield
            return
        with self.held_open(directory.rpartition("/")[0] or "/"), self.held_open(directory):
            yield


@contextmanager
def _entries(directory: str) -> Iterator[Iterable[os.DirEntry[str]]]:
    """What os.scandir says of a directory. Raises OSError, ValueError."""
    name, below = at(directory)
    if below is None:
        with os.scandir(name) as entries:
            yield entries
        return
    descriptor = os.open(name, OPEN_DIRECTORY, dir_fd=below)
    try:
        with os.scandir(descriptor) as entries:
            yield entries
    finally:
        os.close(descriptor)


def _made(path: str, flags: int, mode: int | None) -> int:
    """Make a plain file → its descriptor; see `Files.open_writable`. Raises OSError, ValueError."""
    wanted = _mode_of_namesake(path) if mode is None else mode
    if wanted is None:
        return open_below(path, flags | os.O_CREAT, 0o644)
    descriptor = open_below(path, flags | os.O_CREAT, wanted)
    try:
        if stat.S_IMODE(os.fstat(descriptor).st_mode) != wanted:  # the umask took some of it
            os.fchmod(descriptor, wanted)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _mode_of_namesake(path: str) -> int | None:
    """The mode of the plain file whose name `path` has with one more word after a dot; None: there is none."""
    stem, dot, word = path.rpartition(".")
    if not dot or "/" in word or stem.endswith("/"):
        return None
    try:
        status = status_of(stem, follow=False)
    except OSError:
        return None
    return status.st_mode & _PERMISSIONS if stat.S_ISREG(status.st_mode) else None


def _is_directory(path: str) -> bool:
    try:
        return stat.S_ISDIR(status_of(path).st_mode)
    except (OSError, ValueError):
        return False


def _would_replace(path: str, to: str) -> bool:
    """Does a file, or a link, exist at `to` that is not the one at `path`?"""
    try:
        there = status_of(to, follow=False)
    except (FileNotFoundError, NotADirectoryError):
        return False
    ours = status_of(path, follow=False)
    return not (stat.S_ISDIR(there.st_mode) or stat.S_ISDIR(ours.st_mode) or os.path.samestat(there, ours))


def replace(files: Files, path: str, parts: Iterable[Buffer], mode: int | None = None) -> None:
    """Write aside (`path`.tmp), sync, rename over `path`, sync the directory: after a power cut either file is whole.

    mode  see `Files.open_writable`; None: that of the file at `path`
    Raises UnwritableFile; the file aside is then left behind, `path` is as it was.
    Mirrors CheckpointFile.write.
    """
    aside = path + ".tmp"
    with files.open_writable(aside, create=True, mode=mode) as file:
        file.truncate(0)
        pieces: Sequence[Buffer] = list(parts)
        file.write_at(0, *pieces)
        file.sync()
    files.rename(aside, path, replaces=True)
    files.sync_directory(path.rpartition("/")[0] or ".")


def look(files: ReadOnlyFiles, path: str) -> FileInfo | None:
    """What is at `path`, None for nothing: one system call if there is something. Raises UnreadableFile."""
    try:
        return files.info(path)
    except UnreadableFile:
        if files.exists(path):
            raise
        return None


def remove_tree(files: Files, top: str, *, but: str | None = None) -> int:
    """Remove the directory at `top` with everything in it → bytes of its files. That there is none is no error.

    but  a name in it that stays, and so the directory itself
    Symbolic links in it are removed, never followed, even if one takes the place of a directory meanwhile: each directory is
    reached through its own descriptor. Raises UnreadableFile, UnwritableFile, also if `top` is a link; what was removed until
    then is gone.
    """
    return _remove_tree(files, top, but, 0) if files.exists(top) else 0


def _remove_tree(files: Files, directory: str, but: str | None, depth: int) -> int:
    if depth == _DEEPEST:
        raise UnwritableFile(f"{directory}: more than {_DEEPEST} nested directories: remove it by hand")
    size = 0
    with files.held_open(directory):
        special = files.special(directory)
        for name in files.list(directory):
            if name == but:
                continue
            path = f"{directory}/{name}"
            info = None if name in special else look(files, path)
            if info is not None and info.is_directory:
                size += _remove_tree(files, path, None, depth + 1)
                continue
            size += 0 if info is None else info.size
            files.remove(path)
    if but is None:
        files.remove_directory(directory)
    return size


def zeros(size: int) -> memoryview:
    """`size` bytes of memory, all zero, at least one: each page is taken when it is touched, all are given back at once.

    Where the operating system has large pages they are asked for: access here and there finds its way sooner.
    Raises MemoryError.
    """
    import mmap

    try:
        memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (OSError, OverflowError) as error:
        raise MemoryError(f"{size} bytes") from error
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a kernel that was built without them
            memory.madvise(mmap.MADV_HUGEPAGE)
    return memoryview(memory)


def now_ms() -> int:
    """The clock: milliseconds since the epoch. Only commands ask it; the engine takes times as arguments."""
    return time.time_ns() // 1_000_000
