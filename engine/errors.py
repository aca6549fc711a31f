"""Errors for operations that fail. Bad bytes are findings, not exceptions (see `findings`)."""

from __future__ import annotations


class KafkalogError(Exception):
    """Work that cannot be done: ends a command with status 8. The message is one complete line.

    `do` is what the user can do about it: a sentence or a command that works when pasted. `path` is the file or
    directory that it is about, as it was named; None: nothing in particular.
    """

    code = "failed"
    exit_status = 8

    def __init__(self, message: str, do: str | None = None, *, path: str | None = None) -> None:
        super().__init__(message)
        self.do = do
        self.path = path


EMPTY_PATH = "an empty path: perhaps a shell variable is not set"  # else "" would mean the root of the file system


class UsageError(KafkalogError):
    """Arguments that make no sense: ends a command with status 2."""

    code = "usage"
    exit_status = 2


class UnreadableFile(KafkalogError):
    """A file that the operating system does not let us read: missing, no permission, I/O error, not a plain file."""

    code = "unreadable-file"


class OversizedFile(UnreadableFile):
    """A file larger than any of its kind: it was not read. `what` says so without the path."""

    code = "file-too-large"

    def __init__(self, path: str, size: int, limit: int) -> None:
        self.what = f"{size} bytes, more than the {limit} allowed for such a file"
        super().__init__(f"{path}: {self.what}", path=path)


class UnwritableFile(KafkalogError):
    """A change that the operating system refused: no permission, no space, read-only, I/O error, not a plain file."""

    code = "unwritable-file"


class LogDirLocked(KafkalogError):
    """Another process holds `.lock` of a log directory (LogManager.lockLogDirs)."""

    code = "log-dir-locked"


class OutOfMemory(KafkalogError):
    """One of several logs that the process has not memory enough for: the others go on."""

    code = "out-of-memory"


class FileChangedWhileReading(KafkalogError):
    """A file became shorter than it was when its reading began."""

    code = "file-changed"


def too_little_memory(path: str) -> OutOfMemory:
    """The error for a log that memory did not suffice for."""
    what = f"{path}: not enough memory to read it"
    return OutOfMemory(what, do="use --jobs 1, or give the process more memory", path=path)


def became_shorter(path: str, size: int) -> FileChangedWhileReading:
    """The error to raise where fewer bytes came than the `size` that the file at `path` had when its reading began."""
    what = f"{path}: became shorter than {size} bytes while it was read"
    return FileChangedWhileReading(what, do="run the command again, or on a copy", path=path)


def argument(path: str) -> str:
    r"""`path` as a shell takes it for one argument, and no command for an option.

    What is not printable, bytes that are not UTF-8 among it, is escaped as `$'\x0a'`, which bash and zsh understand.
    """
    from shlex import quote  # few programs have any advice to give

    if path.startswith("-"):
        path = f"./{path}"
    if path.isprintable():
        return quote(path)
    return f"$'{''.join(map(_escaped, path))}'"


def _escaped(character: str) -> str:
    if character in "\\'":
        return f"\\{character}"
    if character.isprintable():
        return character
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogateescape"))
