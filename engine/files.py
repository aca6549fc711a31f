"""The one seam to the operating system: the engine reads files through nothing else, and writes none yet.

`ReadOnlyFiles` has no method that could change a byte. Reading is by `pread`: a mapped file that another process
truncates would kill us with SIGBUS.
"""

from __future__ import annotations

import os
import stat
from typing import NamedTuple, Self

from engine.errors import UnreadableFile, became_shorter


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
        done = 0
        while done < len(buffer):
            try:
                count = os.preadv(self._descriptor, [buffer[done:]], position + done)
            except OSError as error:
                raise unreadable(self.path, error) from error
            if count == 0:
                break
            done += count
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


class ReadOnlyFiles:
    """The operating system, as far as looking goes. Paths are str, relative ones to the working directory."""

    def info(self, path: str) -> FileInfo:
        """What stands at `path`, symbolic links followed. Raises UnreadableFile."""
        try:
            status = os.stat(path)
        except (OSError, ValueError) as error:
            raise unreadable(path, error) from error
        mode = status.st_mode
        return FileInfo(stat.S_ISREG(mode), stat.S_ISDIR(mode), status.st_size, status.st_mtime_ns // 1_000_000)

    def exists(self, path: str) -> bool:
        """Is there anything that can be reached at `path`?"""
        try:
            return os.path.exists(path)
        except ValueError:
            return False

    def list(self, directory: str) -> list[str]:
        """Names in `directory`, sorted. Raises UnreadableFile."""
        try:
            return sorted(os.listdir(directory))
        except (OSError, ValueError) as error:
            raise unreadable(directory, error) from error

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
            raise UnreadableFile(f"{path}: {_kind_of(mode)}, not a file")
        return OpenFile(path, descriptor)

    def read(self, path: str, limit: int) -> bytes:
        """The whole of a small file. Raises UnreadableFile, also where it has more than `limit` bytes."""
        with self.open(path) as file:
            size = file.size()
            if size > limit:
                raise UnreadableFile(f"{path}: {size} bytes, more than the {limit} that such a file may have")
            return file.read(0, size)

    def absolute(self, path: str) -> str:
        """`path` with the working directory in front, not normalised (java.io.File.getAbsolutePath)."""
        return path if path.startswith("/") else os.getcwd() + "/" + path


def unreadable(path: str, error: OSError | ValueError) -> UnreadableFile:
    """The error to raise for what the operating system said about `path`."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return UnreadableFile(f"{path}: {reason}")


def _kind_of(mode: int) -> str:
    for test, word in ((stat.S_ISDIR, "a directory"), (stat.S_ISFIFO, "a FIFO"), (stat.S_ISSOCK, "a socket")):
        if test(mode):
            return word
    return "a device"
