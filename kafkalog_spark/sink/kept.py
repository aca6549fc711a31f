"""Small files in which the sink keeps what it must find again: a version, and fields with their types."""

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
_LATER = {"later": True}  # of fields that files of the same version may lack
_ADVICE = "write here with the version of kafkalog that wrote the file"


class UnknownFormat(KafkalogError):
    """A file of the sink's that says what this version does not understand. Nothing is guessed from it."""

    code = "unknown-format"


@dataclass
class Manifest:
    """What was committed last, and of every stream the last batch.

    Of the last commit that changed partitions, so that it can be undone (see undoing):
    at_ms     when it was
    written   by partition directory: its log end before (−1: it did not exist) and now, and what identifies its last batch
    replaced  partition directories that were removed
    batch     of a stream, by its query
    undoing   undoing it was begun
    """

    last: str = ""
    streams: dict[str, int] = field(default_factory=dict)
    at_ms: int = field(default=0, metadata=_LATER)
    written: dict[str, list[int]] = field(default_factory=dict, metadata=_LATER)
    replaced: list[str] = field(default_factory=list, metadata=_LATER)
    batch: dict[str, int] = field(default_factory=dict, metadata=_LATER)
    undoing: bool = field(default=False, metadata=_LATER)


@dataclass
class Journal:
    """What a commit changes: partition directories by name.

    ends      of those that records are appended to: where they ended
    new       that come, those that come in the place of others included        replaced  that go
    own       files of the log dir itself: what they held, in base64; None of those that were not there
    settings  of topics, as the job had them
    """

    commit: str
    ends: dict[str, int]
    new: list[str]
    replaced: list[str]
    own: dict[str, str | None]
    settings: dict[str, str] = field(default_factory=dict)


T = TypeVar("T", bound="DataclassInstance")


def write_kept(files: Files, path: str, content: DataclassInstance) -> None:
    """Put it at `path`, whole; its first field is the second one there (see sink_commits). Raises UnwritableFile."""
    data = json.dumps({"version": _VERSION, **vars(content)}).encode()
    if len(data) > MAX_KEPT_SIZE:  # nobody could read it
        raise UnwritableFile(f"{path}: {len(data)} bytes, more than {MAX_KEPT_SIZE}", do="write fewer partitions in one commit")
    replace(files, path, [data])


def read_kept(files: ReadOnlyFiles, path: str, kind: type[T]) -> T | None:
    """What `write_kept` wrote; None: there is no such file. Raises UnknownFormat, KafkalogError."""
    if not files.exists(path):
        return None
    try:
        found = json.loads(files.read(path, MAX_KEPT_SIZE))
    except (ValueError, RecursionError):
        raise UnknownFormat(f"{path}: no JSON, but the sink writes nothing else there: {_ADVICE}", path=path) from None
    if not isinstance(found, dict):
        raise UnknownFormat(f"{path}: no object of JSON, but the sink writes nothing else there: {_ADVICE}", path=path)
    version = found.pop("version", None)
    if version != _VERSION:
        said = json.dumps(version)
        raise UnknownFormat(f"{path}: version {said}, and version {_VERSION} is known here: {_ADVICE}", path=path)
    types = get_type_hints(kind)
    needed = {one.name for one in fields(kind) if one.metadata != _LATER}
    if names := ", ".join(sorted((needed - found.keys()) | (found.keys() - types.keys()))):
        raise UnknownFormat(f"{path}: {names}: unknown or missing fields: {_ADVICE}", path=path)
    for name, value in found.items():
        if not _fits(value, types[name]):
            raise UnknownFormat(f"{path}: {name} is not what this version writes: {_ADVICE}", path=path)
    return kind(**found)


def _fits(value: Any, hint: Any) -> bool:
    """Has a value out of JSON the type that one of our fields has?"""
    of = get_args(hint)
    if get_origin(hint) is dict:
        return isinstance(value, dict) and all(_fits(one, of[1]) for one in value.values())
    if get_origin(hint) is list:
        return isinstance(value, list) and all(_fits(one, of[0]) for one in value)
    return any(_fits(value, one) for one in of) if of else type(value) is hint
