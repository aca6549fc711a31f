"""Errors for operations that fail. Bad bytes are findings, not exceptions (see `findings`)."""

from __future__ import annotations


class KafkalogError(Exception):
    """An operation that failed: a command ends with status 8. The message is one complete line.

    `do` is what the user can do: a sentence, or a command to paste. `path` is the file or directory concerned, as the user
    gave it; None: no particular one. `broker_says` is what a broker prints in the same place; None: about the message.
    """

    code = "failed"
    exit_status = 8
    broker_says: str | None = None

    def __init__(self, message: str, do: str | None = None, *, path: str | None = None) -> None:
        super().__init__(message)
        self.do = do
        self.path = path


EMPTY_PATH = "an empty path: perhaps a shell variable is not set"  # else "" would mean the root of the file system


class UsageError(KafkalogError):
    """Invalid arguments: a command ends with status 2."""

    code = "usage"
    exit_status = 2


class UnreadableFile(KafkalogError):
    """A file that cannot be read: missing, no permission, I/O error, not a plain file."""

    code = "unreadable-file"


class OversizedFile(UnreadableFile):
    """A file larger than the limit for its kind; it was not read. `what` is the message without the path."""

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
    """Memory does not suffice for one of several logs; the others are processed."""

    code = "out-of-memory"


class FileChangedWhileReading(KafkalogError):
    """A file became shorter while it was read."""

    code = "file-changed"


def too_little_memory(path: str) -> OutOfMemory:
    """Return the error for a log that does not fit into memory."""
    what = f"{path}: not enough memory to read it"
    return OutOfMemory(what, do="use --jobs 1, or give the process more memory", path=path)


def became_shorter(path: str, size: int) -> FileChangedWhileReading:
    """Return the error for a file that had `size` bytes when reading began, and now has fewer."""
    what = f"{path}: became shorter than {size} bytes while it was read"
    return FileChangedWhileReading(what, do="run the command again, or on a copy", path=path)


def argument(path: str) -> str:
    r"""Return `path` quoted for a shell, as one argument that no command takes for an option.

    Unprintable characters and bytes that are not UTF-8 are escaped as `$'\x0a'`, which bash and zsh understand.
    """
    from shlex import quote  # slow to import, and rarely needed

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
