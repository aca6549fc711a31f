"""Open files: read at a position, write at a position, send bytes without a copy. Directories held open.

Files are read with `pread`: if another process truncated a mapped file, we would be killed with SIGBUS.
Also errors for calls that the operating system refused, and names for what is not a plain file.

The functions at the end hold directories open: paths below them are resolved from their descriptors, not from the path names
above. A path name can be replaced by a symbolic link during the work, a descriptor cannot. And a process that gave up root's
rights keeps access to a directory that only root can reach.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Self

from engine.errors import UnreadableFile, UnwritableFile, argument, became_shorter

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
LINK = "a symbolic link"  # in the result of `ReadOnlyFiles.special`
_KINDS = (
    (stat.S_ISDIR, "a directory"), (stat.S_ISLNK, LINK), (stat.S_ISFIFO, "a FIFO"), (stat.S_ISSOCK, "a socket"),
)  # fmt: skip


def unreadable(path: str, error: OSError | ValueError) -> UnreadableFile:
    """Return the error for a failed read of `path`."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    if isinstance(error, FileNotFoundError) and os.path.islink(path):
        reason = f"{reason}: {LINK} to a target that does not exist"
    if isinstance(error, OSError) and error.errno == errno.ENXIO:
        reason = "a socket or an absent device, not a file"
    return UnreadableFile(f"{path}: {reason}", owner_step(path, error, "rX"), path=path)


def owner_step(path: str, error: Exception, mode: str) -> str | None:
    """Return the next step if `error` is a refused permission: a command as the owner of `path` or of the directory above it.

    mode  that the owner needs, for chmod
    """
    if not isinstance(error, OSError) or error.errno != errno.EACCES:
        return None
    while True:
        with suppress(OSError, ValueError):
            there = os.stat(path)
            break
        if path in ("/", "."):
            return None
        path = os.path.dirname(path) or "."
    from pwd import getpwuid

    try:
        name = getpwuid(there.st_uid).pw_name
    except KeyError:  # in a container, for example
        name = f"'#{there.st_uid}'"
    sudo = "" if there.st_uid == os.geteuid() else f"sudo -u {name} "
    needed = (stat.S_IWUSR if "w" in mode else 0) | stat.S_IRUSR | (stat.S_IXUSR if stat.S_ISDIR(there.st_mode) else 0)
    if there.st_mode & needed != needed:
        return f"{sudo}chmod u+{mode} {argument(path)}    # its mode excludes its owner"
    if not sudo:
        return None  # something else than the mode refuses it
    return f"{sudo}kafkalog …    # the same command as the owner of {argument(path)}"


def unwritable(path: str, error: OSError | ValueError | OverflowError, do: str | None = None) -> UnwritableFile:
    """Return the error for a refused change of `path`."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    do = do or owner_step(path, error, "rwX")
    number, around = getattr(error, "errno", None), path.rpartition("/")[0] or ("/" if path.startswith("/") else ".")
    if do is None and number in _NO_ROOM:
        do = f"df -h {argument(around)}    # free some space there"
    if do is None and number == errno.EROFS:
        do = mount_step(around)
    return UnwritableFile(f"{path}: {reason}", do=do)


def mount_step(path: str) -> str:
    """Return the next step if the file system of `path`, which must exist, is mounted for reading only."""
    return f"findmnt -T {argument(path)}    # shows the mount; mount it for writing, or run kafkalog on a copy (cp -a)"


def taken(path: str) -> UnwritableFile:
    """Return the error for a step that would replace a file without meaning to; `path` names both files."""
    cause = FileExistsError(errno.EEXIST, "a file of this name already exists and would be replaced")
    error = unwritable(path, cause)
    error.__cause__ = cause
    return error


def is_full(error: UnwritableFile) -> bool:
    """Return whether a change was refused for lack of disk space or quota."""
    return getattr(error.__cause__, "errno", None) in _NO_ROOM


def kind_of(mode: int) -> str:
    """Return the kind of a path with the mode `mode` (stat.st_mode) that is not a plain file, with its article."""
    for test, word in _KINDS:
        if test(mode):
            return word
    return "a device"


Buffer = bytes | bytearray | memoryview  # types that can be written

_COPY = 1 << 20  # bytes at a time
_IOV_MAX = 1024  # buffers per call
_SENT_AT_ONCE = 1 << 24  # bytes: Ctrl-C is handled in between
_CANNOT_SEND = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSOCK)  # e.g. a file opened for appending
_PIPE, _MORE = 1 << 19, 4  # bytes in the pipe between a file and a socket; SPLICE_F_MORE


class OpenFile:
    """A file open for reading. Close it, or use it in a `with` statement.

    needs_requests  see ReadOnlyFiles
    """

    __slots__ = ("_descriptor", "path")

    needs_requests = False

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

    def duplicate(self) -> OpenFile | None:
        """Return another object for the same open file, which stays readable when this one is closed. Raises UnreadableFile.

        None: the object represents another file.
        """
        if self._descriptor < 0:
            return None
        try:
            return OpenFile(self.path, os.dup(self._descriptor))
        except OSError as error:
            raise unreadable(self.path, error) from error

    def size(self) -> int:
        """The current size in bytes."""
        return os.fstat(self._descriptor).st_size

    def read_into(self, buffer: memoryview, position: int) -> int:
        """Fill `buffer` from byte `position`; returns the number of bytes read, fewer only at the end of the file.

        Raises UnreadableFile on I/O errors.
        """
        if position < 0:  # Linux takes −1 for the current position of the file
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
        """Return up to `size` bytes from byte `position`. Raises UnreadableFile on I/O errors."""
        buffer = bytearray(min(size, max(0, self.size() - position)))
        count = self.read_into(memoryview(buffer), position)
        return bytes(memoryview(buffer)[:count])

    def read_exactly(self, position: int, size: int) -> bytes:
        """Return `size` bytes from byte `position`. Raises UnreadableFile, and FileChangedWhileReading if there are fewer."""
        data = self.read(position, size)
        if len(data) < size:
            raise became_shorter(self.path, position + size)
        return data

    def next_data(self, position: int, end: int) -> int:
        """Return the first position from `position` on that is not in a hole, whose bytes read as zeros; `end`: none before it.

        Returns `position` if the file system does not report holes, or if the object represents another file. Raises
        UnreadableFile.
        """
        if self._descriptor < 0 or position >= end:
            return position
        try:
            return min(os.lseek(self._descriptor, position, os.SEEK_DATA), end)
        except OSError as error:
            if error.errno == errno.ENXIO:  # only a hole
                return end
            if error.errno in (errno.EINVAL, errno.ENOTSUP):
                return position
            raise unreadable(self.path, error) from error

    def send(self, descriptor: int, position: int, size: int) -> None:
        """Write `size` bytes from byte `position` to an open file, pipe or socket, without a copy if possible.

        Raises UnreadableFile, FileChangedWhileReading if there are fewer, OSError if the other side refuses them.
        """
        end = position + size
        if self._descriptor >= 0:  # not an object that represents another file
            if size >= _PIPE and stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                position += _send_through_pipe(descriptor, self._descriptor, position, size)
            position += _send_file(descriptor, self._descriptor, position, end - position)
        while position < end:
            data = memoryview(self.read_exactly(position, min(_COPY, end - position)))
            position += len(data)
            hand_over(descriptor, data)


class Stream(OpenFile):
    """Bytes that are read once, from their start to their end: a pipe, or any other file. `position` of a read is ignored."""

    __slots__ = ()

    @property
    def is_live(self) -> bool:
        """Whether bytes may come later: it is a pipe, a socket or a terminal."""
        return not stat.S_ISREG(os.fstat(self._descriptor).st_mode)

    def duplicate(self) -> OpenFile | None:
        """Return None: nobody else can read the same bytes."""
        return None

    def read(self, position: int, size: int) -> bytes:  # noqa: ARG002  # of OpenFile
        """Return the next bytes, at most `size`, as soon as there are some; none at the end. Raises UnreadableFile."""
        try:
            return os.read(self._descriptor, size)
        except OSError as error:
            raise unreadable(self.path, error) from error


def open_stream(path: str) -> Stream:
    """Open a file or pipe for reading from its start to its end; `-` is standard input. Raises UnreadableFile."""
    try:
        descriptor = os.dup(0) if path == "-" else os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from error
    return Stream(path, descriptor)


def hand_over(descriptor: int, data: memoryview) -> None:
    """Write all of `data` to an open file, pipe or socket. Raises OSError where the other side refuses it."""
    while data:
        data = data[os.write(descriptor, data[:_COPY]) :]  # Ctrl-C is heard in between


def _send_file(to: int, descriptor: int, position: int, size: int) -> int:
    """Let the operating system copy bytes from file to file; returns the number of bytes copied before it refused."""
    done = 0
    while done < size:
        try:
            count = os.sendfile(to, descriptor, position + done, min(size - done, _SENT_AT_ONCE))
        except OSError as error:
            if error.errno in _CANNOT_SEND:
                break
            raise
        if count == 0:
            break
        done += count
    return done


def _send_through_pipe(to: int, descriptor: int, position: int, size: int) -> int:
    """Let the operating system pass bytes from a file to a socket through a pipe; returns the number of bytes that were passed.

    sendfile does the same through a pipe of 64 KiB, which takes half as much processor time again.
    """
    if not hasattr(os, "splice"):
        return 0
    try:
        source, target = os.pipe()
    except OSError:  # too many open files
        return 0
    done = 0
    try:
        fcntl.fcntl(target, fcntl.F_SETPIPE_SZ, _PIPE)
        while done < size and (waiting := os.splice(descriptor, target, min(size - done, _PIPE), offset_src=position + done)):
            while waiting:
                passed = os.splice(source, to, waiting, flags=_MORE if done + waiting < size else 0)
                done, waiting = done + passed, waiting - passed
    except OSError as error:
        if error.errno not in (*_CANNOT_SEND, errno.EPERM):  # EPERM: the user's pipes have too many bytes together
            raise
    finally:
        os.close(source)
        os.close(target)
    return done


class WritableFile(OpenFile):
    """A file open for reading and writing. Written bytes are on the disk only after `sync`."""

    __slots__ = ()

    def write_at(self, position: int, *parts: Buffer) -> None:
        """Write all `parts` in order, starting at byte `position`. Raises UnwritableFile."""
        if position < 0:  # Linux takes −1 for the current position of the file
            raise UnwritableFile(f"{self.path}: Invalid argument: position {position}")
        views = [memoryview(part).cast("B") for part in parts if len(part)]
        while views:
            try:
                count = os.pwritev(self._descriptor, views[:_IOV_MAX], position)
            except OSError as error:
                raise unwritable(self.path, error) from error
            position += count
            views = _rest(views, count)

    def truncate(self, size: int) -> None:
        """Set the size of the file to `size` bytes; new bytes are a hole that reads as zeros. Raises UnwritableFile."""
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


def _rest(views: list[memoryview], count: int) -> list[memoryview]:
    """Return the rest of `views` without their first `count` bytes."""
    for number, view in enumerate(views):
        if count < len(view):
            return [view[count:], *views[number + 1 :]]
        count -= len(view)
    return []


def nameless_file() -> WritableFile:
    """Make an unnamed temporary file: it is deleted when it is closed, or when the process is killed.

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


# ---- directories held open


OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_PINS: dict[str, int] = {}  # absolute path → descriptor
_ABOVE: dict[str, os.stat_result] = {}  # of directories around them that only root can reach


def at(path: str) -> tuple[str, int | None]:
    """Return `path` as (relative path, descriptor of its base directory) for calls of the operating system."""
    if not _PINS:
        return path, None
    head = full = spelled(path)
    while head:
        descriptor = _PINS.get(head)
        if descriptor is not None:
            return full[len(head) + 1 :] or ".", descriptor
        head = head.rpartition("/")[0]
    return path, None


def named_in(path: str) -> tuple[str, int | None]:
    """As `at`, for a call that changes the name of the directory at `path`, which may be held open itself."""
    around, _, name = spelled(path).rpartition("/")
    directory, descriptor = at(around or "/")
    return (path, None) if descriptor is None else (f"{directory}/{name}", descriptor)


def spelled(path: str) -> str:
    """Return `path` absolute, without empty and `.` parts."""
    full = path if path.startswith("/") else f"{os.getcwd()}/{path}"
    return "/" + "/".join(word for word in full.split("/") if word not in ("", "."))


@contextmanager
def pinned(path: str, descriptor: int, above: Mapping[str, os.stat_result] | None = None) -> Iterator[None]:
    """Resolve every path below `path` from `descriptor`, which is closed at the end.

    above  results of `status_of` for the directories around it, for a walk down to it step by step
    """
    name = spelled(path)
    before, known = _PINS.get(name), {} if above is None else above.keys() - _ABOVE.keys()
    _PINS[name] = descriptor
    _ABOVE.update({one: above[one] for one in known} if above else {})
    try:
        yield
    finally:
        for one in known:
            del _ABOVE[one]
        if before is None:
            del _PINS[name]
        else:
            _PINS[name] = before
        os.close(descriptor)


def open_below(path: str, flags: int, mode: int = 0o777) -> int:
    """As os.open. Raises OSError, ValueError."""
    name, descriptor = at(path)
    return os.open(name, flags, mode, dir_fd=descriptor)


def status_of(path: str, *, follow: bool = True) -> os.stat_result:
    """As os.stat. Raises OSError, ValueError."""
    name, descriptor = at(path)
    try:
        return os.stat(name, dir_fd=descriptor, follow_symlinks=follow)
    except PermissionError:
        if descriptor is not None or not _ABOVE or spelled(path) not in _ABOVE:
            raise
        return _ABOVE[spelled(path)]


def link_target(path: str) -> str | None:
    """Return the target of the symbolic link at `path`; None: it is not a link."""
    name, descriptor = at(path)
    try:
        return os.readlink(name, dir_fd=descriptor)
    except (OSError, ValueError):
        return None


def real_path(path: str) -> str:
    """Return `path` without symbolic links. Raises OSError, ValueError."""
    name, descriptor = at(path)
    if descriptor is None:
        return os.path.realpath(path, strict=True)
    if sys.platform != "linux":
        return spelled(path)
    found = os.open(name, os.O_PATH | os.O_CLOEXEC, dir_fd=descriptor)  # O_PATH needs no permission to search the path
    try:
        return path_of(found)
    finally:
        os.close(found)


def path_of(descriptor: int) -> str:
    """Return the path of an open directory, without symbolic links. Only on Linux. Raises OSError."""
    return os.readlink(f"/proc/self/fd/{descriptor}")


def names_in(directory: str) -> list[str]:
    """As os.listdir. Raises OSError, ValueError."""
    name, below = at(directory)
    if below is None:
        return os.listdir(name)
    descriptor = os.open(name, OPEN_DIRECTORY, dir_fd=below)
    try:
        return os.listdir(descriptor)
    finally:
        os.close(descriptor)


def space_of(path: str) -> os.statvfs_result:
    """As os.statvfs. Raises OSError, ValueError."""
    name, below = at(path)
    if below is None:
        return os.statvfs(name)
    descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=below)
    try:
        return os.fstatvfs(descriptor)
    finally:
        os.close(descriptor)
