"""The manifest of a quarantine: one line for each intended change, with what is needed to undo it.

A line is written before its change is made, so that after a crash at most the last lines describe changes that were not made.
Undoing starts with the last line, and every step can be repeated.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import asdict, dataclass
from enum import Enum
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from engine.amounts import count_of
from engine.errors import KafkalogError, UnreadableFile, UnwritableFile, argument
from engine.formats import INT_MAX, LONG_MAX
from engine.log.quarantine.stamps import Stamp

if TYPE_CHECKING:
    from hashlib import _Hash

    from engine.files import Files, OpenFile, ReadOnlyFiles, WritableFile

MANIFEST = "manifest.jsonl"
STORED = "files"  # directory in the quarantine: the kept files
PROGRESS = "restored"  # file in the quarantine: steps that were undone, see `restore`; before that only spaces
LOCK = "lock"  # file in a quarantine: locked while it is restored from or deleted
STORED_NAME = re.compile(r"[0-9]{6,}-.+", re.DOTALL)  # of a file in STORED
VERSION = 1
MAX_MANIFEST_SIZE = 1 << 30  # bytes
MAX_KEPT_SIZE = INT_MAX  # bytes of a file that is copied. Kafka's files are not larger; a larger one is renamed, never copied
_MAX_HEADER_SIZE = 1 << 20  # bytes of the first line
_CHUNK = 1 << 20  # bytes at a time
_BEGIN_OF_LAST = b'{"left": '
_END_OF_LAST = re.compile(rb'"sha256": "([0-9a-f]{64})"}\n')
_SHOWN = 40  # characters of an invalid value that an error shows
_SPARE = 4096  # bytes by which PROGRESS grows
_STEP = 2  # bytes of a step in it


class QuarantineDamaged(KafkalogError):
    """The quarantine itself is damaged: nothing is restored from it."""

    code = "quarantine-damaged"


class Do(Enum):
    """The kind of an intended change."""

    CREATE = "create"  # a new file
    GROW = "grow"  # lengthen a file of `size` bytes
    CUT = "cut"  # change or remove the bytes from `position` to the end; these `size` bytes are stored
    RENAME = "rename"  # from `path` to `to`; a file that is replaced is stored
    REMOVE = "remove"  # a file, which is stored
    TIME = "time"  # set the modification time, which was `modified_ns`
    MAKE_DIRECTORY = "make-directory"
    REMOVE_DIRECTORY = "remove-directory"
    REFUSED = "refused"  # the operating system refused entry number `position`, from 0
    LIST = "list"  # not a change: `files` in the directory at `path`, before the first change there


# all other lines must be synced before the change, or it could not be undone
UNIMPORTANT = frozenset((Do.TIME, Do.REFUSED, Do.LIST))

_KEPT = frozenset(("size", "stored", "sha256", "modified_ns", "mode"))  # fields that describe stored bytes
_FIELDS = {  # exact fields of a line, besides `do` and `path`
    Do.CREATE: (frozenset(),), Do.GROW: (frozenset(("size", "modified_ns")),), Do.CUT: (_KEPT | {"position"},),
    Do.RENAME: (frozenset(("to",)), _KEPT | {"to"}), Do.REMOVE: (_KEPT,), Do.TIME: (frozenset(("modified_ns",)),),
    Do.MAKE_DIRECTORY: (frozenset(),), Do.REMOVE_DIRECTORY: (frozenset(),), Do.REFUSED: (frozenset(("position",)),),
    Do.LIST: (frozenset(("files",)),),
}  # fmt: skip
_LONGEST_NS = LONG_MAX * 1_000_000_000  # the largest time of a file system
_BOUNDS = {  # highest values of numeric fields
    "position": (0, LONG_MAX), "size": (0, LONG_MAX), "modified_ns": (-_LONGEST_NS, _LONGEST_NS), "mode": (0, 0o777),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Entry:
    """A line. Paths are absolute. `stored` is a name in STORED, `sha256` the digest of its bytes. Sizes in bytes.

    A removed file of more than MAX_KEPT_SIZE bytes has an empty `sha256`: it was renamed without being read.

    files  of a directory, by name: see Stamp
    """

    do: Do
    path: str
    to: str | None = None
    position: int | None = None
    size: int | None = None
    stored: str | None = None
    sha256: str | None = None
    modified_ns: int | None = None
    mode: int | None = None
    files: dict[str, Stamp] | None = None


@dataclass(frozen=True, slots=True)
class Manifest:
    """A manifest that was read.

    log_dirs  whose files were changed
    entries   None: undoes nothing, because it was refused, lists a directory, or cannot be parsed
    before    by path: the files of the directories in which something was changed
    left      by path: size, time and mode of the files in these directories, and of changed files elsewhere, when the command
              ended; None: the last line is missing
    faults    problems of lines, in order
    """

    command: str
    created_ms: int
    log_dirs: tuple[str, ...]
    entries: tuple[Entry | None, ...]
    before: dict[str, dict[str, Stamp]]
    left: dict[str, Stamp] | None
    faults: tuple[str, ...] = ()


class Summary(NamedTuple):
    """The summary of a manifest for a list of quarantines. Only the first line is decoded.

    entries      number of lines between the first and the last one
    is_finished  there is a last line, with the state of the files when the command ended
    is_whole     the lines are unchanged, according to their SHA-256
    """

    command: str
    created_ms: int
    log_dirs: tuple[str, ...]
    entries: int
    is_finished: bool
    is_whole: bool


class ManifestWriter:
    """Appends lines to a new manifest.

    Also allocates the bytes of PROGRESS, so that undoing can record its steps on a full disk.
    """

    def __init__(self, files: Files, directory: str, command: str, now: int, log_dirs: tuple[str, ...]) -> None:
        self._files, self._progress = files, f"{directory}/{PROGRESS}"
        self._position = self._count = self._spare = 0
        self._written = sha256()
        self._reserve()
        self._file: WritableFile = files.open_writable(f"{directory}/{MANIFEST}", create=True)
        self._line({"quarantine": VERSION, "command": command, "created_ms": now, "log_dirs": list(log_dirs)})
        self._header = (self._position, self._written.copy())
        self._file.sync()

    def append(self, entry: Entry) -> int:
        """Write a line, and sync it unless only a time will change. Returns its number."""
        fields = {name: value for name, value in asdict(entry).items() if value is not None}
        self._reserve()
        self._line({**fields, "do": entry.do.value})
        self._count += 1  # the line is in the file, even if the sync fails
        if entry.do not in UNIMPORTANT:
            self._file.sync()
        return self._count - 1

    def forget(self) -> None:
        """Remove every entry and close. If the removal of the quarantine is interrupted, its rest then undoes nothing."""
        self._position, self._written = self._header
        try:
            self._file.truncate(self._position)
            self._file.sync()
            self._line({"left": {}, "sha256": self._written.hexdigest()})
        finally:
            self._file.close()

    def close(self, left: dict[str, Stamp] | None) -> None:
        """Write the last line, if the command has finished, and close."""
        try:
            if left is not None:
                self._line({"left": left, "sha256": self._written.hexdigest()})
                self._file.sync()
        finally:
            self._file.close()

    def _reserve(self) -> None:
        """Allocate space in PROGRESS: a step for each entry and the next one, and its first and last line."""
        while (self._count + 3) * _STEP > self._spare:
            with self._files.open_writable(self._progress, create=True) as file:
                file.write_at(self._spare, b" " * _SPARE)
            self._spare += _SPARE

    def _line(self, fields: dict[str, object]) -> None:
        data = json.dumps(fields).encode() + b"\n"
        try:
            self._file.write_at(self._position, data)
        except UnwritableFile:
            with suppress(UnwritableFile):  # an incomplete line would precede the next one
                self._file.truncate(self._position)
            raise
        self._position += len(data)
        self._written.update(data)


def read_manifest(files: ReadOnlyFiles, directory: str, *, salvage: bool = False) -> Manifest:
    """Read the manifest of the quarantine `directory`. Raises UnreadableFile, QuarantineDamaged.

    An incomplete last line describes a change that was not made, unless more lines are missing. It is a fault if its SHA-256
    is not that of the lines before it.
    salvage  lines that cannot be parsed are added to `faults` instead of raising an error
    """
    path = f"{directory}/{MANIFEST}"
    if not files.exists(path) and files.info(directory).is_directory:
        _refuse_without_header(files, directory)
        what = f"{directory}: not a quarantine: it contains no {MANIFEST}"
        do = "kafkalog restore --list DIR shows the quarantines in DIR, and beside it"
        if not files.list(directory):
            do += "; a command leaves an empty one if it is stopped before it changed anything"
        raise UnreadableFile(what, do=do, path=directory)
    lines = files.read(path, MAX_MANIFEST_SIZE).split(b"\n")
    faults = [f"line {len(lines)} is cut off"] if lines[-1] else []
    lines.pop()  # the empty rest after the last line end
    if lines and b"\0" in lines[-1]:
        faults = [f"line {len(lines)} is incomplete"]  # a sector of it never reached the disk
        lines.pop()
    if not lines:
        _refuse_without_header(files, directory)
        raise QuarantineDamaged(f"{path}: no header: not a manifest of kafkalog, or it was lost")
    command, created_ms, log_dirs = _header(_object(lines[0], path, 1), path)
    entries: list[Entry | None] = []
    before: dict[str, dict[str, Stamp]] = {}
    left = None
    for number, line in enumerate(lines[1:], 2):
        try:
            fields = _object(line, path, number)
            if "left" in fields:
                left = _stamps(fields["left"], path, number)
                if not faults and "sha256" in fields and fields["sha256"] != _sha256(lines[: number - 1]):
                    faults.append("the lines were changed: their SHA-256 does not match the last line")
                continue
            entry = _entry(fields, path, number)
            if entry.do is Do.REFUSED:
                entries[_refused(entry, len(entries), path, number)] = None
        except QuarantineDamaged as error:
            if not salvage:
                raise
            faults.append(str(error).removeprefix(f"{path}: "))
            entries.append(None)
            continue
        if entry.do is Do.LIST:
            before[entry.path] = entry.files or {}
        entries.append(None if entry.do in (Do.REFUSED, Do.LIST) else entry)
    return Manifest(command, created_ms, log_dirs, tuple(entries), before, left, tuple(faults))


def _refuse_without_header(files: ReadOnlyFiles, directory: str) -> None:
    """Raise for a quarantine whose manifest has no line. The first line is written before anything is changed.

    Raises UnreadableFile if it keeps nothing, QuarantineDamaged if its manifest was lost. Returns if it is not a quarantine.
    """
    if keeps_nothing(files, directory):
        what = f"{directory}: it keeps nothing: its command was stopped before it changed anything, or had put everything back"
        raise UnreadableFile(what, do=f"rm -r {argument(directory)}", path=directory)
    kept = kept_names(files, directory)
    if kept:
        stored = f"{directory}/{STORED}"
        what = f"{directory}: the manifest is lost: it keeps {count_of(len(kept), 'file')}, and nothing says where they were"
        do = f"ls -l {argument(stored)}    # each name ends with the partition and the old file name: copy back what you need"
        raise QuarantineDamaged(what, do=do)


def keeps_nothing(files: ReadOnlyFiles, directory: str) -> bool:
    """Has the quarantine no line in its manifest, and no kept file?"""
    names, stored, path = set(files.list(directory)), f"{directory}/{STORED}", f"{directory}/{MANIFEST}"
    if not names or names - {MANIFEST, PROGRESS, STORED, LOCK} or (STORED in names and files.list(stored)):
        return False
    if MANIFEST not in names:
        return True
    with files.open(path) as file:
        return file.size() < _MAX_HEADER_SIZE and b"\n" not in file.read(0, _MAX_HEADER_SIZE)


def kept_names(files: ReadOnlyFiles, directory: str) -> list[str]:
    """The names of the files that the quarantine `directory` keeps; empty if there are files that kafkalog did not write."""
    stored = f"{directory}/{STORED}"
    names = files.list(stored) if files.exists(stored) and files.info(stored).is_directory else []
    return names if all(map(STORED_NAME.fullmatch, names)) else []


def read_summary(files: ReadOnlyFiles, directory: str) -> Summary:
    """Read the summary, in little memory for any size of the manifest. Raises UnreadableFile, QuarantineDamaged."""
    path = f"{directory}/{MANIFEST}"
    with files.open(path) as file:
        size = file.size()
        first, newline, _ = file.read(0, _MAX_HEADER_SIZE).partition(b"\n")
        if not newline or size > MAX_MANIFEST_SIZE:
            raise QuarantineDamaged(f"{path}: not a manifest: its first line is incomplete, or it is too large")
        header = _header(_object(first, path, 1), path)
        lines = _scan(file, size)
        begin = file.read(lines.last, len(_BEGIN_OF_LAST))
        end = _END_OF_LAST.search(file.read(max(lines.last, lines.end - _SHOWN * 4), lines.end - lines.last))
    is_finished = begin == _BEGIN_OF_LAST and not lines.has_zeros
    is_whole = is_finished and lines.end == size and end is not None and end[1].decode() == lines.sha256
    return Summary(*header, lines.number - 1 - is_finished, is_finished, is_whole)


class _Lines(NamedTuple):
    """The complete lines of a file. `last`, `end`: start and end of the last one; `sha256`: of the lines before it.

    has_zeros  a sector of the file was never written to the disk
    """

    number: int
    last: int
    end: int
    sha256: str
    has_zeros: bool


def _scan(file: OpenFile, size: int) -> _Lines:
    position = count = last = end = 0
    digest = sha256()
    before: _Hash = digest.copy()
    until_end: _Hash = digest.copy()
    has_zeros = False
    while position < size and (chunk := file.read(position, min(_CHUNK, size - position))):
        has_zeros = has_zeros or b"\0" in chunk
        count += chunk.count(b"\n")
        done = 0
        for at in (chunk.rfind(b"\n", 0, max(0, chunk.rfind(b"\n"))), chunk.rfind(b"\n")):
            if at >= done:
                before, last = until_end, end
                digest.update(memoryview(chunk)[done : at + 1])
                done = at + 1
                until_end, end = digest.copy(), position + done
        digest.update(memoryview(chunk)[done:])
        position += len(chunk)
    return _Lines(count, last, end, before.hexdigest(), has_zeros)


def _sha256(lines: list[bytes]) -> str:
    digest = sha256()
    for line in lines:
        digest.update(line)
        digest.update(b"\n")
    return digest.hexdigest()


def _header(fields: dict[str, Any], path: str) -> tuple[str, int, tuple[str, ...]]:
    """The command, when it began (ms), and its log dirs. Raises QuarantineDamaged."""
    command, created_ms, log_dirs = fields.get("command"), fields.get("created_ms"), fields.get("log_dirs")
    if fields.get("quarantine") != VERSION or not isinstance(log_dirs, list):
        raise QuarantineDamaged(f"{path}: not a manifest of version {VERSION}")
    if not isinstance(command, str) or not _is_number(created_ms, "size") or not all(isinstance(one, str) for one in log_dirs):
        raise QuarantineDamaged(f"{path}: line 1 is invalid: it does not name the command and the log dirs")
    assert isinstance(created_ms, int)
    return command, created_ms, tuple(log_dirs)


def _stamps(values: object, path: str, number: int) -> dict[str, Stamp]:
    """Sizes and times by name. Raises QuarantineDamaged."""
    if not isinstance(values, dict):
        raise QuarantineDamaged(f"{path}: line {number} is invalid: it lists no files")
    found: dict[str, Stamp] = {}
    fields = Stamp._fields
    for name, stamp in values.items():
        if not (isinstance(stamp, list) and len(stamp) == len(fields) and all(map(_is_number, stamp, fields))):
            raise QuarantineDamaged(f"{path}: line {number} is invalid: {name!r} has no size, time and mode")
        found[name] = Stamp(*stamp)
    return found


def _is_number(value: object, name: str) -> bool:
    """Is it an integer in the range of the field `name`?"""
    least, most = _BOUNDS[name]
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _refused(entry: Entry, count: int, path: str, number: int) -> int:
    if entry.position is None or not 0 <= entry.position < count:
        raise QuarantineDamaged(f"{path}: line {number} does not refer to an earlier line")
    return entry.position


def _object(line: bytes, path: str, number: int) -> dict[str, Any]:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise QuarantineDamaged(f"{path}: line {number} is not JSON: {error}") from error
    if not isinstance(fields, dict):
        raise QuarantineDamaged(f"{path}: line {number} is not a JSON object")
    return fields


def _entry(fields: dict[str, Any], path: str, number: int) -> Entry:
    """Parse a line; it must have exactly the fields of its `do`, with their types. Raises QuarantineDamaged."""
    try:
        do = Do(fields.get("do"))
    except ValueError as error:
        raise QuarantineDamaged(f"{path}: line {number} is invalid: {error}") from error
    if not any(fields.keys() == wanted | {"do", "path"} for wanted in _FIELDS[do]):
        wanted = ", ".join(sorted(_FIELDS[do][-1] | {"path"}))
        raise QuarantineDamaged(f"{path}: line {number} is invalid: {do.value} has {wanted}")
    values = {**fields, "do": do}
    for name, value in fields.items():
        if name == "files":
            values[name] = _stamps(value, path, number)
        elif not (_is_number(value, name) if name in _BOUNDS else isinstance(value, str)):
            raise QuarantineDamaged(f"{path}: line {number} is invalid: {name} cannot be {str(value)[:_SHOWN]!r}")
    entry = Entry(**values)
    if entry.stored is not None and ("/" in entry.stored or entry.stored in ("", ".", "..")):
        raise QuarantineDamaged(f"{path}: line {number} leads out of the quarantine")
    return entry
