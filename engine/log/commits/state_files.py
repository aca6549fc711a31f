"""The state files of commits: JSON objects with a version and typed fields."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin, get_type_hints

from engine.discovery.paths import MAX_KEPT_SIZE
from engine.errors import KafkalogError, UnwritableFile
from engine.files import replace

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from engine.files import Files, ReadOnlyFiles

_VERSION = 1
_ADVICE = "write here with the version of kafkalog that wrote the file"


class UnknownFormat(KafkalogError):
    """A state file that this version cannot interpret."""

    code = "unknown-format"


@dataclass
class Manifest:
    """The last commit.

    last      name of the last commit

    The other fields describe the last commit that changed partitions, so that it can be undone (see undoing):
    at_ms     time of the commit
    written   by partition directory: log end offset before (−1: it did not exist), log end offset after, and CRC-32 of the
              header of its last batch
    replaced  partition directories that were removed
    undoing   undoing has begun
    """

    last: str = ""
    at_ms: int = 0
    written: dict[str, list[int]] = field(default_factory=dict)
    replaced: list[str] = field(default_factory=list)
    undoing: bool = False


@dataclass
class Journal:
    """The changes of a commit. Partitions are named by their directories.

    commit    name of the commit
    ends      log end offset before, of each partition that is appended to
    new       partitions that are added, including those that replace others
    replaced  partitions that are removed
    own       previous content of the log dir's own files in base64; None: the file did not exist
    settings  topic settings of the job
    """

    commit: str
    ends: dict[str, int]
    new: list[str]
    replaced: list[str]
    own: dict[str, str | None]
    settings: dict[str, str] = field(default_factory=dict)


T = TypeVar("T", bound="DataclassInstance")


def write_kept(files: Files, path: str, content: DataclassInstance) -> None:
    """Write `content` to `path` in one replacement; its first field follows the version (see half_commit).

    Raises UnwritableFile.
    """
    data = json.dumps({"version": _VERSION, **vars(content)}).encode()
    if len(data) > MAX_KEPT_SIZE:  # `read_kept` would refuse it
        raise UnwritableFile(f"{path}: {len(data)} bytes, more than {MAX_KEPT_SIZE}", do="write fewer partitions in one commit")
    replace(files, path, [data])


def read_kept(files: ReadOnlyFiles, path: str, kind: type[T]) -> T | None:
    """Read a file of `write_kept`; None: it does not exist. Raises UnknownFormat, KafkalogError."""
    if not files.exists(path):
        return None
    try:
        found = json.loads(files.read(path, MAX_KEPT_SIZE))
    except (ValueError, RecursionError):
        raise UnknownFormat(f"{path}: not JSON, but the sink writes nothing else there: {_ADVICE}", path=path) from None
    if not isinstance(found, dict):
        raise UnknownFormat(f"{path}: not a JSON object, but the sink writes nothing else there: {_ADVICE}", path=path)
    version = found.pop("version", None)
    if version != _VERSION:
        shown = json.dumps(version)
        raise UnknownFormat(f"{path}: version {shown}, and version {_VERSION} is known here: {_ADVICE}", path=path)
    types = get_type_hints(kind)
    if names := ", ".join(sorted(found.keys() ^ {one.name for one in fields(kind)})):
        raise UnknownFormat(f"{path}: {names}: unknown or missing fields: {_ADVICE}", path=path)
    for name, value in found.items():
        if not _fits(value, types[name]):
            raise UnknownFormat(f"{path}: {name} is not what this version writes: {_ADVICE}", path=path)
    return kind(**found)


def _fits(value: Any, hint: Any) -> bool:
    """Does a JSON value have the type of a field?"""
    of = get_args(hint)
    if get_origin(hint) is dict:
        return isinstance(value, dict) and all(_fits(one, of[1]) for one in value.values())
    if get_origin(hint) is list:
        return isinstance(value, list) and all(_fits(one, of[0]) for one in value)
    return any(_fits(value, one) for one in of) if of else type(value) is hint
