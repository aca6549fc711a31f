"""Segments that were read and found sound, and when, so that each of many runs reads a part of the log dirs.

A segment counts as proven while its file is unchanged (inode, size, modification time) and the proof is young enough. The last
segment of a log is always read: a broker appends to it. The module stands alone: its file format is a contract between runs.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from engine.discovery.names import is_log_file_name, parent_of
from engine.errors import UsageError, argument
from engine.files import look, replace

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.files import Files, ReadOnlyFiles

_VERSION = 1
_MAX_SIZE = 1 << 30  # bytes: some millions of segments


class _Proof(NamedTuple):
    """The attributes of a .log when it was proven, at `ms` since 1970."""

    inode: int
    size: int
    modified_ns: int
    ms: int


class ProvenSegments:
    """The proofs in a state file.

    now      ms since 1970; proofs of this run get this time
    max_age  ms: older proofs do not count
    Several threads may work on different partitions.
    """

    def __init__(self, files: ReadOnlyFiles, now: int, max_age: int) -> None:
        self._files, self._now, self._oldest = files, now, now - max_age
        self._proofs: dict[str, _Proof] = {}  # by absolute path of the .log

    def load(self, path: str) -> None:
        """Read the state file at `path`, if there is one. Raises UsageError if it is none, UnreadableFile."""
        if not self._files.exists(path):
            return
        try:
            state = json.loads(self._files.read(path, _MAX_SIZE))
            segments = {_VERSION: state["segments"]}[state["version"]]
            self._proofs = {name: _Proof(*map(int, proof)) for name, proof in segments.items()}
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            what = f"{path}: not a state file of this version of check"
            raise UsageError(what, do=f"rm {argument(path)}    # the next runs read everything again", path=path) from error

    def save(self, disk: Files, path: str) -> None:
        """Write the state file at `path`, without segments that no longer exist. Raises UnwritableFile, UnreadableFile."""
        kept = {name: proof for name, proof in sorted(self._proofs.items()) if look(self._files, name) is not None}
        replace(disk, path, [json.dumps({"version": _VERSION, "segments": kept}, separators=(",\n", ":")).encode() + b"\n"])

    def by_age(self, directories: Iterable[str]) -> list[str]:
        """The partition directories, those with the oldest proof first, and before them those with a segment without one."""
        ages = {directory: self._age(directory) for directory in directories}
        return sorted(ages, key=lambda directory: ages[directory])

    def _age(self, directory: str) -> int:
        names = sorted(name for name in self._files.plain(directory) if is_log_file_name(name))
        return min((proof.ms if (proof := self._valid(f"{directory}/{name}")) else 0 for name in names[:-1]), default=self._now)

    def is_due(self, path: str) -> bool:
        """Is the .log at `path` to be read?"""
        names = [name for name in self._files.plain(parent_of(path)) if is_log_file_name(name)]
        return self._valid(path) is None or path.endswith(max(names, default=""))

    def _valid(self, path: str) -> _Proof | None:
        info, proof = look(self._files, path), self._proofs.get(self._files.absolute(path))
        if info is None or proof is None or proof.ms < self._oldest:
            return None
        return proof if proof[:3] == (info.inode, info.size, info.modified_ns) else None

    def note(self, path: str) -> None:
        """Remember that the .log at `path` is sound."""
        info = look(self._files, path)
        if info is not None:
            self._proofs[self._files.absolute(path)] = _Proof(info.inode, info.size, info.modified_ns, self._now)
