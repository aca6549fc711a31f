"""The one seam to the operating system: the engine reads and changes files through nothing else.

`ReadOnlyFiles` has no method that could change a byte; `Files` adds those that do. Reading is by `pread`: a mapped
file that another process truncates would kill us with SIGBUS. Tests put a seam of their own in its place, which
stops, tears or fails any single operation.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import struct
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, Self

from engine.errors import LogDirLocked, UnreadableFile, UnwritableFile, became_shorter

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    Buffer = bytes | bytearray | memoryview

LINK = "a symbolic link"  # in what `special` tells
_KINDS = (
    (stat.S_ISDIR, "a directory"), (stat.S_ISLNK, LINK), (stat.S_ISFIFO, "a FIFO"), (stat.S_ISSOCK, "a socket"),
)  # fmt: skip
_FLOCK = "hhqqi0q"  # struct flock: type, whence, start, length, process
_COPY = 1 << 20  # bytes at a time
_IOV_MAX = 1024  # buffers that one call takes
_SENT_AT_ONCE = 1 << 24  # bytes: Ctrl-C is heard in between
_CAN_NOT_SEND = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSOCK)  # e.g. a file opened for appending


class FileInfo(NamedTuple):
    """What the operating system says of a path. `size` in bytes, `modified_ms` since the epoch."""

    is_file: bool
    is_directory: bool
    size: int
    modified_ms: int


class OpenFile:
    """A file open for reading. Close it, or use it in a `with` statement."""

    __slots__ = ("_descriptor", "path")

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the descriptor. A second call does nothing."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)

    def size(self) -> int:
        """Bytes in the file at this moment."""
        return os.fstat(self._descriptor).st_size

    def read_into(self, buffer: memoryview, position: int) -> int:
        """Fill `buffer` from byte `position`; returns how many bytes came, fewer only at the end of the file.

        Raises UnreadableFile on I/O errors.
        """
        if position < 0:  # to Linux, −1 is the place where the last read or write ended
            raise UnreadableFile(f"{self.path}: Invalid argument: position {position}")
        done, rest = 0, buffer
        while rest:
            try:
                count = os.preadv(self._descriptor, [rest], position + done)
            except OSError as error:
                raise unreadable(self.path, error) from error
            done += count
            if count == 0 or done == len(buffer):
                break
            rest = buffer[done:]
        return done

    def read(self, position: int, size: int) -> bytes:
        """Up to `size` bytes from byte `position`. Raises UnreadableFile on I/O errors."""
        buffer = bytearray(min(size, max(0, self.size() - position)))
        count = self.read_into(memoryview(buffer), position)
        return bytes(memoryview(buffer)[:count])

    def read_exactly(self, position: int, size: int) -> bytes:
        """`size` bytes from byte `position`. Raises UnreadableFile, and FileChangedWhileReading where there are fewer."""
        data = self.read(position, size)
        if len(data) < size:
            raise became_shorter(self.path, position + size)
        return data

    def send(self, descriptor: int, position: int, size: int) -> None:
        """Hand `size` bytes from byte `position` to an open file, pipe or socket, as far as possible without a copy.

        Raises UnreadableFile, FileChangedWhileReading where there are fewer, OSError where the other side refuses them.
        """
        end = position + size
        if self._descriptor >= 0:  # not one that stands for another file
            position += _send_file(descriptor, self._descriptor, position, size)
        while position < end:
            data = memoryview(self.read_exactly(position, min(_COPY, end - position)))
            position += len(data)
            while data:
                data = data[os.write(descriptor, data) :]


def _send_file(to: int, descriptor: int, position: int, size: int) -> int:
    """Let the operating system move bytes from file to file → how many went before it would not."""
    done = 0
    while done < size:
        try:
            count = os.sendfile(to, descriptor, position + done, min(size - done, _SENT_AT_ONCE))
        except OSError as error:
            if error.errno in _CAN_NOT_SEND:
                break
            raise
        if count == 0:
            break
        done += count
    return done


class WritableFile(OpenFile):
    """A file open for reading and writing. What was written is on the disk only after `sync`."""

    __slots__ = ()

    def write_at(self, position: int, *parts: Buffer) -> None:
        """Write all of `parts`, one behind the other, from byte `position` on. Raises UnwritableFile."""
        if position < 0:  # to Linux, −1 is the place where the last read or write ended
            raise UnwritableFile(f"{self.path}: Invalid argument: position {position}")
        views = [memoryview(part).cast("B") for part in parts if len(part)]
        while views:
            try:
                count = os.pwritev(self._descriptor, views[:_IOV_MAX], position)
            except OSError as error:
                raise unwritable(self.path, error) from error
            position += count
            views = _behind(views, count)

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes, or lengthen it with zeros that take no space. Raises UnwritableFile."""
        try:
            os.ftruncate(self._descriptor, size)
        except OSError as error:
            raise unwritable(self.path, error) from error

    def sync(self) -> None:
        """Wait until the file's bytes and size are on the disk (FileChannel.force). Raises UnwritableFile."""
        try:
            os.fsync(self._descriptor)
        except OSError as error:
            raise unwritable(self.path, error) from error


def _behind(views: list[memoryview], count: int) -> list[memoryview]:
    """What is left of `views` when their first `count` bytes are gone."""
    for number, view in enumerate(views):
        if count < len(view):
            return [view[count:], *views[number + 1 :]]
        count -= len(view)
    return []


class Lock:
    """A lock on a file, held until `release`. Another process sees it; one of the same process must not ask for it."""

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    def release(self) -> None:
        """Let go. A second call does nothing."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)


class ReadOnlyFiles:
    """The operating system, as far as looking goes. Paths are str, relative ones to the working directory.

    _opened  what `open` makes
    """

    _opened: type[OpenFile] = OpenFile

    def info(self, path: str) -> FileInfo:
        """What stands at `path`, symbolic links followed. Raises UnreadableFile."""
        try:
            status = os.stat(path)
        except (OSError, ValueError) as error:
            raise unreadable(path, error) from error
        mode = status.st_mode
        return FileInfo(stat.S_ISREG(mode), stat.S_ISDIR(mode), status.st_size, status.st_mtime_ns // 1_000_000)

    def exists(self, path: str) -> bool:
        """Is there anything at `path`, symbolic links followed?

        Raises UnreadableFile where nobody can tell (no permission on the way, I/O error): who takes what he may not see
        for missing would make it anew, or remove what belongs to it.
        """
        try:
            os.stat(path)
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return False
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENAMETOOLONG):
                return False
            raise unreadable(path, error) from error
        return True

    def plain(self, directory: str) -> list[str]:
        """Names of the plain files in `directory`, sorted, symbolic links followed; links that lead nowhere are none.

        As `list` and `info` of each, but the directory itself mostly tells what stands in it. Raises UnreadableFile.
        """
        try:
            with os.scandir(directory) as entries:
                found = [(entry.name, entry.is_symlink(), entry.is_file(follow_symlinks=False)) for entry in entries]
        except (OSError, ValueError) as error:
            raise unreadable(directory, error) from error
        return sorted(name for name, is_link, is_file in found if is_file or (is_link and self._leads_to_file(directory, name)))

    def list(self, directory: str) -> list[str]:
        """Names in `directory`, sorted. Raises UnreadableFile."""
        try:
            return sorted(os.listdir(directory))
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
            with os.scandir(directory) as entries:
                for entry in entries:
                    if not entry.is_file(follow_symlinks=False) and not entry.is_dir(follow_symlinks=False):
                        found[entry.name] = _kind_of(entry.stat(follow_symlinks=False).st_mode)
        except (OSError, ValueError) as error:
            raise unreadable(directory, error) from error
        return found

    def resolve(self, path: str) -> str:
        """`path` with every symbolic link followed, absolute. Raises UnreadableFile, also for links in a circle."""
        try:
            return os.path.realpath(path, strict=True)
        except (OSError, ValueError) as error:
            raise unreadable(path, error) from error

    def open(self, path: str) -> OpenFile:
        """Open a plain file for reading; never blocks on a FIFO or device. Raises UnreadableFile."""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except (OSError, ValueError) as error:
            raise unreadable(path, error) from error
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            os.close(descriptor)
            raise UnreadableFile(f"{path}: {_kind_of(mode)}, not a file", path=path)
        return self._opened(path, descriptor)

    def read(self, path: str, limit: int) -> bytes:
        """The whole of a small file. Raises UnreadableFile, also where it has more than `limit` bytes."""
        with self.open(path) as file:
            size = file.size()
            if size > limit:
                what = f"{path}: {size} bytes, more than the {limit} that such a file may have"
                raise UnreadableFile(what, path=path)
            return file.read(0, size)

    def absolute(self, path: str) -> str:
        """`path` with the working directory in front, not normalised (java.io.File.getAbsolutePath)."""
        return path if path.startswith("/") else os.getcwd() + "/" + path


class Files(ReadOnlyFiles):
    """The operating system, with what changes it. Every method raises UnwritableFile where it is refused.

    A new name, a renamed or removed one is on the disk only after `sync_directory` of its directory.
    _opened_writable  what `open_writable` makes
    """

    _opened_writable: type[WritableFile] = WritableFile

    def open_writable(self, path: str, *, create: bool = False) -> WritableFile:
        """Open a plain file for reading and writing; `create`: an empty one is made where there is none.

        A symbolic link is not followed: what it leads to may lie outside the log dir.
        """
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | (os.O_CREAT if create else 0)
        try:
            descriptor = os.open(path, flags, 0o644)
        except (OSError, ValueError) as error:
            raise unwritable(path, error) from error
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            os.close(descriptor)
            raise UnwritableFile(f"{path}: {_kind_of(mode)}, not a file")
        return self._opened_writable(path, descriptor)

    def rename(self, path: str, to: str) -> None:
        """Give the file or directory at `path` the name `to`; a file of that name is replaced."""
        try:
            os.rename(path, to)
        except (OSError, ValueError) as error:
            raise unwritable(f"{path} -> {to}", error) from error

    def remove(self, path: str) -> None:
        """Remove the file at `path`; that there is none is no error (Files.deleteIfExists)."""
        try:
            os.unlink(path)
        except FileNotFoundError:
            return
        except (OSError, ValueError) as error:
            raise unwritable(path, error) from error

    def make_directory(self, path: str) -> None:
        """Make the directory at `path`; that there is one is no error."""
        try:
            os.mkdir(path)
        except (OSError, ValueError) as error:
            if not os.path.isdir(path):
                raise unwritable(path, error) from error

    def remove_directory(self, path: str) -> None:
        """Remove the empty directory at `path`."""
        try:
            os.rmdir(path)
        except (OSError, ValueError) as error:
            raise unwritable(path, error) from error

    def sync_directory(self, path: str) -> None:
        """Wait until the names in the directory at `path` are on the disk (Utils.flushDir)."""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except (OSError, ValueError) as error:
            raise unwritable(path, error) from error

    def set_modified(self, path: str, modified_ms: int) -> None:
        """Set the time of the last change of the file at `path`, ms since the epoch."""
        try:
            os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))
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

        A POSIX record lock: closing any other descriptor of the file in this process would drop it, so it is opened
        here and nowhere else. Raises LogDirLocked where another process holds it.
        """
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        except (OSError, ValueError) as error:
            raise unwritable(path, error) from error
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            if isinstance(error, (BlockingIOError, PermissionError)):
                what = f"{path}: another process holds this lock, most likely a running broker"
                raise LogDirLocked(what, do="stop the broker, or work on a copy") from error
            raise unwritable(path, error) from error
        return Lock(path, descriptor)


def nameless_file() -> WritableFile:
    """A new file among the temporary ones that no name leads to: it is gone once it is closed, or its process killed.

    Raises UnwritableFile.
    """
    from tempfile import TemporaryFile, gettempdir

    where = "a temporary file"
    try:
        where = f"{where} in {gettempdir()}"
        with TemporaryFile(prefix="kafkalog-", buffering=0) as file:
            return WritableFile(where, os.dup(file.fileno()))
    except OSError as error:
        raise unwritable(where, error) from error


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


def replace(files: Files, path: str, parts: Iterable[Buffer]) -> None:
    """Write aside (`path`.tmp), sync, rename over `path`, sync the directory: after a power cut either file is whole.

    Raises UnwritableFile; the file aside is then left behind, `path` is as it was.
    Mirrors CheckpointFile.write.
    """
    aside = path + ".tmp"
    with files.open_writable(aside, create=True) as file:
        file.truncate(0)
        pieces: Sequence[Buffer] = list(parts)
        file.write_at(0, *pieces)
        file.sync()
    files.rename(aside, path)
    files.sync_directory(path.rpartition("/")[0] or ".")


def look(files: ReadOnlyFiles, path: str) -> FileInfo | None:
    """What stands at `path`, None where nothing does: one question where there is something. Raises UnreadableFile."""
    try:
        return files.info(path)
    except UnreadableFile:
        if files.exists(path):
            raise
        return None


def is_locked(path: str) -> bool:
    """Does another process hold the lock on the file at `path`? Takes none, and changes nothing.

    False where the operating system does not tell. Not to be asked while this process holds the lock: it would lose it.
    """
    if sys.platform != "linux":
        return False
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except (OSError, ValueError):
        return False
    try:
        answer = fcntl.fcntl(descriptor, fcntl.F_GETLK, struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return bool(struct.unpack(_FLOCK, answer)[0] != fcntl.F_UNLCK)


def now_ms() -> int:
    """The clock: milliseconds since the epoch. Only commands ask it; the engine takes times as arguments."""
    return time.time_ns() // 1_000_000


def unreadable(path: str, error: OSError | ValueError) -> UnreadableFile:
    """The error to raise for what the operating system said about `path`."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return UnreadableFile(f"{path}: {reason}", path=path)


def unwritable(path: str, error: OSError | ValueError | OverflowError) -> UnwritableFile:
    """The error to raise where the operating system refused to change `path`."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return UnwritableFile(f"{path}: {reason}")


def _kind_of(mode: int) -> str:
    for test, word in _KINDS:
        if test(mode):
            return word
    return "a device"
