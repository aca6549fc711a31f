"""File system operations on paths: `ReadOnlyFiles` has no method that changes a byte, `Files` adds those that do.

Also allocation of memory (`zeros`) and the clock (`now_ms`).
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
from engine.files.open_file import (
    OPEN_DIRECTORY,
    OpenFile,
    WritableFile,
    at,
    kind_of,
    named_in,
    names_in,
    open_below,
    pinned,
    real_path,
    space_of,
    status_of,
    taken,
    unreadable,
    unwritable,
)
from engine.files.own_directory import PRIVATE, hold_for_owner, make_for_owner, remove_made
from engine.files.owner import ROOT, held_for_root

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from engine.files.locks import Lock
    from engine.files.open_file import Buffer

_COPY = 1 << 20  # bytes at a time
_BLOCK = 512  # bytes: the unit of st_blocks
_PERMISSIONS = stat.S_IRWXU | stat.S_IRWXG | stat.S_IRWXO
_DEEPEST = 32  # nested directories that are removed; Kafka's have none


class FileInfo(NamedTuple):
    """The attributes of a path.

    size, used   bytes of the file, and bytes on the disk, which are fewer if the file has holes
    modified_ns  time of the last change, ns since the epoch
    owner        user id
    mode         permission bits rwxrwxrwx, without others
    links        number of hard links
    inode        number of the file in its file system; 0: it has none
    changed_ns   time of the last change of its bytes, name or attributes, ns since the epoch; 0: not known
    """

    is_file: bool
    is_directory: bool
    size: int
    modified_ns: int
    owner: int = ROOT
    mode: int = 0o644
    links: int = 1
    used: int = 0
    inode: int = 0
    changed_ns: int = 0

    @property
    def modified_ms(self) -> int:
        """The time of the last change in ms, as Java returns it."""
        return self.modified_ns // 1_000_000


def may_write(path: str) -> bool:
    """Return whether the permissions allow this process to change the file at `path`."""
    name, descriptor = at(path)
    return os.access(name, os.W_OK, dir_fd=descriptor, effective_ids=True)


class DiskSpace(NamedTuple):
    """The file system of a path: its id, the bytes that a user other than root may still write, and its size in bytes.

    is_read_only  it is mounted for reading only
    """

    disk: int
    free: int
    total: int = 0
    is_read_only: bool = False


class ReadOnlyFiles:
    """The file system, for reading only. Paths are str, relative ones to the working directory.

    _opened  the class of the result of `open`
    """

    _opened: type[OpenFile] = OpenFile

    def needs_requests(self, _path: str) -> bool:
        """Return whether each read of the file is a request to a store. Few large reads are then faster than small ones."""
        return False

    def info(self, path: str) -> FileInfo:
        """Return the attributes of `path`, symbolic links followed. Raises UnreadableFile."""
        try:
            status = status_of(path)
        except (OSError, ValueError) as error:
            raise unreadable(path, error) from error
        mode = status.st_mode
        return FileInfo(
            stat.S_ISREG(mode), stat.S_ISDIR(mode), status.st_size, status.st_mtime_ns, status.st_uid, mode & _PERMISSIONS,
            status.st_nlink, status.st_blocks * _BLOCK, status.st_ino, status.st_ctime_ns,
        )  # fmt: skip

    def space(self, path: str) -> DiskSpace:
        """Return the free space at `path`, which must exist. Raises UnreadableFile."""
        try:
            status, number = space_of(path), status_of(path).st_dev
        except (OSError, ValueError) as error:
            raise unreadable(path, error) from error
        is_read_only = bool(status.f_flag & os.ST_RDONLY)
        return DiskSpace(number, status.f_bavail * status.f_frsize, status.f_blocks * status.f_frsize, is_read_only)

    def exists(self, path: str) -> bool:
        """Return whether `path` exists, symbolic links followed.

        Raises UnreadableFile if that is unknown (no permission on the way, I/O error): a caller that took the path for missing
        would create it again, or remove what belongs to it.
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
        """Return the names of the plain files in `directory`, sorted, symbolic links followed, dangling links left out.

        The same as `list` and `info` of each, but mostly from the directory alone. Raises UnreadableFile.
        """
        try:
            with _entries(directory) as entries:
                found = [(entry.name, entry.is_symlink(), entry.is_file(follow_symlinks=False)) for entry in entries]
        except (OSError, ValueError) as error:
            raise unreadable(directory, error) from error
        return sorted(name for name, is_link, is_file in found if is_file or (is_link and self._leads_to_file(directory, name)))

    def list(self, directory: str) -> list[str]:
        """Return the names in `directory`, sorted. Raises UnreadableFile."""
        try:
            return sorted(names_in(directory))
        except (OSError, ValueError) as error:
            raise unreadable(directory, error) from error

    def _leads_to_file(self, directory: str, name: str) -> bool:
        info = look(self, f"{directory}/{name}")
        return info is not None and info.is_file

    def special(self, directory: str) -> dict[str, str]:
        """Return the names in `directory` that are neither plain files nor directories, and what each of them is.

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
        """Return `path` absolute, with every symbolic link followed. Raises UnreadableFile, also for a cycle of links."""
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
        """Return the content of a small file. Raises UnreadableFile, OversizedFile for more than `limit` bytes."""
        with self.open(path) as file:
            size = file.size()
            if size > limit:
                raise OversizedFile(path, size, limit)
            return file.read(0, size)

    def held(self, directories: Iterable[str]) -> AbstractContextManager[None]:
        """Let root work on directories, and on no others that users bring to their paths (`owner.held_for_root`).

        Raises NotAllowed, UnreadableFile.
        """
        return held_for_root(directories)

    def root(self, path: str) -> str:
        """Return the start of `path` that is not a name in a directory: `/`, or nothing."""
        return "/" if path.startswith("/") else ""

    def absolute(self, path: str) -> str:
        """Return `path` after the working directory, not normalised (java.io.File.getAbsolutePath)."""
        return path if path.startswith("/") else os.getcwd() + "/" + path


class Files(ReadOnlyFiles):
    """The file system, with changes. Every method raises UnwritableFile if the system refuses the change.

    New, renamed and removed names are on the disk only after `sync_directory` of their directory.
    _opened_writable  the class of the result of `open_writable`
    """

    _opened_writable: type[WritableFile] = WritableFile

    @property
    def keeps(self) -> bool:
        """Can what is removed or replaced be put back?"""
        return False

    def open_writable(self, path: str, *, create: bool = False, mode: int | None = None) -> WritableFile:
        """Open a plain file for reading and writing; `create`: make an empty one if there is none.

        mode  of a new file, see FileInfo. None: for `X.tmp` and `X.kafkalog`, which will replace `X`, the mode of `X`;
              otherwise rw-r--r-- less the user's umask
        A symbolic link is not followed: its target may be outside the log dir.
        """
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            try:
                descriptor = open_below(path, flags)
            except FileNotFoundError:
                if not create:
                    raise
                return self._opened_writable(path, _made(path, flags, mode))
        except (OSError, ValueError) as error:
            raise unwritable(path, error) from error
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            os.close(descriptor)
            raise UnwritableFile(f"{path}: {kind_of(mode)}, not a file")
        return self._opened_writable(path, descriptor)

    def rename(self, path: str, to: str, *, replaces: bool = False) -> None:
        """Give the file or directory at `path` the name `to`.

        replaces  the caller knows the content of the file at `to` and means to replace it; otherwise an existing file there is
                  an error, and nothing is changed
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
        """Remove the file at `path`; it may be missing (Files.deleteIfExists)."""
        try:
            name, descriptor = at(path)
            os.unlink(name, dir_fd=descriptor)
        except FileNotFoundError:
            return
        except (OSError, ValueError) as error:
            raise unwritable(path, error) from error

    def make_directory(self, path: str) -> None:
        """Make the directory at `path`; it may exist already."""
        try:
            name, descriptor = at(path)
            os.mkdir(name, dir_fd=descriptor)
        except (OSError, ValueError) as error:
            if not _is_directory(path):
                raise unwritable(path, error) from error

    def make_own_directory(self, path: str) -> bool:
        """Make the directory at `path`, which is outside of a log dir, such as a quarantine.

        If root has a user's rights, the directory is a new one and belongs to that user. Returns whether its name is on the
        disk.
        """
        if make_for_owner(path):
            return True
        try:
            name, descriptor = at(path)
            os.mkdir(name, PRIVATE, dir_fd=descriptor)  # the directory may hold content that only the owner may read
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
        """Set the time of the last change of the file at `path`, ns since the epoch; of a link, the link's own."""
        try:
            name, descriptor = at(path)
            os.utime(name, ns=(modified_ns, modified_ns), dir_fd=descriptor, follow_symlinks=False)
        except (OSError, ValueError, OverflowError) as error:
            raise unwritable(path, error) from error

    def copy(self, file: OpenFile, start: int, end: int, to: WritableFile, position: int) -> None:
        """Copy the bytes [start, end) of `file` to `to`, starting at byte `position`."""
        while start < end:
            data = file.read_exactly(start, min(_COPY, end - start))
            to.write_at(position, data)
            start += len(data)
            position += len(data)

    def lock(self, path: str) -> Lock:
        """Lock the file at `path` as Java's FileChannel.tryLock does. Makes the file if there is none.

        Raises LogDirLocked if another process holds it.
        """
        return take_lock(path)

    @contextmanager
    def held_open(self, directory: str) -> Iterator[None]:
        """Access the content of `directory` through a descriptor, whatever its path name leads to meanwhile.

        Raises UnwritableFile if it is not a directory: a symbolic link is not followed.
        """
        try:
            descriptor = open_below(directory, OPEN_DIRECTORY | os.O_NOFOLLOW)
        except (OSError, ValueError) as error:
            raise unwritable(directory, error) from error
        with pinned(directory, descriptor):
            yield

    @contextmanager
    def held_for_deletion(self, directory: str) -> Iterator[None]:
        """As `held_open`; `remove_directory` then removes the directory from its parent as held now.

        The counterpart of `make_own_directory`: `directory` is absolute, without links, and outside of a log dir. If root has a
        user's rights, the directory must belong to that user.
        """
        if hold_for_owner(directory):
            yield
            return
        with self.held_open(directory.rpartition("/")[0] or "/"), self.held_open(directory):
            yield


@contextmanager
def _entries(directory: str) -> Iterator[Iterable[os.DirEntry[str]]]:
    """Return the entries of a directory (os.scandir). Raises OSError, ValueError."""
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
    """Make a plain file, and return its descriptor; see `Files.open_writable`. Raises OSError, ValueError: nothing was made."""
    wanted = _mode_of_namesake(path) if mode is None else mode
    descriptor = open_below(path, flags | os.O_CREAT | os.O_EXCL, 0o644 if wanted is None else wanted)
    try:
        if wanted is not None and stat.S_IMODE(os.fstat(descriptor).st_mode) != wanted:  # the umask removed some bits
            os.fchmod(descriptor, wanted)
    except BaseException:
        os.close(descriptor)
        name, below = at(path)
        os.unlink(name, dir_fd=below)
        raise
    return descriptor


def _mode_of_namesake(path: str) -> int | None:
    """Return the mode of the plain file that `path` is named after, without the last suffix; None: there is none."""
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
    """Return whether a file or link other than the one at `path` exists at `to`."""
    try:
        there = status_of(to, follow=False)
    except (FileNotFoundError, NotADirectoryError):
        return False
    ours = status_of(path, follow=False)
    return not (stat.S_ISDIR(there.st_mode) or stat.S_ISDIR(ours.st_mode) or os.path.samestat(there, ours))


def replace(files: Files, path: str, parts: Iterable[Buffer], mode: int | None = None) -> None:
    """Write `path`.tmp, sync it, rename it to `path`, sync the directory: after a power cut one of the files is complete.

    mode  see `Files.open_writable`; None: that of the file at `path`
    Raises UnwritableFile; `path` is then unchanged, and the temporary file remains.
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
    """Return the attributes of `path`, None if it is missing; one system call if it exists. Raises UnreadableFile."""
    try:
        return files.info(path)
    except UnreadableFile:
        if files.exists(path):
            raise
        return None


def remove_tree(files: Files, top: str, *, but: str | None = None) -> int:
    """Remove the directory at `top` with its content, and return the bytes of its files. It may be missing.

    but  a name in `top` that is kept, and with it `top`
    Symbolic links in it are removed, never followed, even if a link replaces a directory meanwhile: each directory is accessed
    through its own descriptor. Raises UnreadableFile, UnwritableFile, also if `top` is a link; files removed before the error
    remain removed.
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
    """Return `size` zero bytes of memory, at least one. The system provides each page on first access, and frees all together.

    Asks for huge pages, which make random access faster, if the operating system has them.
    Raises MemoryError.
    """
    import mmap

    try:
        memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (OSError, OverflowError) as error:
        raise MemoryError(f"{size} bytes") from error
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a Linux kernel built without huge pages
            memory.madvise(mmap.MADV_HUGEPAGE)
    return memoryview(memory)


def environment_variable(name: str) -> str:
    """Return the value of an environment variable; "" if it is not set."""
    return os.environ.get(name, "")


def now_ms() -> int:
    """Return the current time in ms since the epoch. Only commands call it; the engine takes times as arguments."""
    return time.time_ns() // 1_000_000
