"""Paths that are URLs, read like those of this machine: the files of a bucket are its objects, its directories their prefixes.

Nothing is written. What a listing or a look-up said counts to the end: an object that changes afterwards is an error.
"""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING

from engine.discovery.names import file_name, parent_of, parse_file_name
from engine.errors import UnreadableFile
from engine.files import FileInfo, ReadOnlyFiles
from engine.remote.ranged_file import Pieces, RangedFile
from engine.remote.storage import Object
from engine.remote.urls import SERVERS, split

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from engine.files import DiskSpace, OpenFile
    from engine.remote.storage import Bucket

    Listing = Mapping[str, Object | str]  # names directly below a prefix

_LARGEST_KEPT = 64 << 10  # bytes of a piece that is kept: small files, beginnings and ends of logs
_KEPT = 16 << 20  # bytes of all of them
_MISSING = "No such file or directory"  # as the operating system says it
_NAMES, _LISTINGS = 200_000, 64  # kept of listings: so many names, and in any case so many listings
_MODE = 0o444
_SERVERS = tuple(f"{scheme}://" for scheme in SERVERS)  # they have no listings
_DIRECTORY = "a directory"  # in the place of an object


class UrlFiles(ReadOnlyFiles):
    """See ReadOnlyFiles: URLs as `urls.spelled` gives them, and paths of this machine. Several threads may ask.

    open_bucket  what gives the store of s3://BUCKET
    A directory costs one request for each 1,000 names, a file that was not listed one, once. There are no links.
    """

    def __init__(self, open_bucket: Callable[[str], Bucket] | None = None) -> None:
        from engine.remote import object_store

        self._open_bucket: Callable[[str], Bucket] = open_bucket or object_store.open_bucket
        self._buckets: dict[str, Bucket] = {}
        self._listings: OrderedDict[str, Listing] = OrderedDict()  # of directories, those that were asked for last
        self._single: dict[str, Object | None] = {}  # what was looked up by itself; None: there is nothing
        self._pieces = Pieces(_LARGEST_KEPT, _KEPT)
        self._mutex = Lock()

    # ---- what a path is

    def root(self, path: str) -> str:
        """s3://BUCKET/ of a URL."""
        place = split(path)
        return super().root(path) if place is None else f"{place[0]}/"

    def absolute(self, path: str) -> str:
        """A URL is."""
        return super().absolute(path) if split(path) is None else path

    def resolve(self, path: str) -> str:
        """A URL without doubled slashes."""
        if split(path) is None:
            return super().resolve(path)
        if self._find(path) is None:
            raise _missing(path)
        return _normal(path)

    def exists(self, path: str) -> bool:
        """Is there such an object, or one below that prefix?"""
        return super().exists(path) if split(path) is None else self._find(path) is not None

    def info(self, path: str) -> FileInfo:
        """Of an object: its size, and when it was written."""
        if split(path) is None:
            return super().info(path)
        found = self._find(path)
        if found is None:
            raise _missing(path)
        if isinstance(found, str):
            return FileInfo(False, True, 0, 0, mode=_MODE)
        return FileInfo(True, False, found.size, found.modified_ms * 1_000_000, mode=_MODE, used=found.size)

    def space(self, path: str) -> DiskSpace:
        """A store has no end that could be asked for."""
        if split(path) is None:
            return super().space(path)
        raise UnreadableFile(f"{path}: the room of a store is not known", path=path)

    # ---- what is in a directory

    def plain(self, directory: str) -> list[str]:
        """Those of objects."""
        if split(directory) is None:
            return super().plain(directory)
        return sorted(name for name, found in self._list(directory).items() if isinstance(found, Object))

    def list(self, directory: str) -> list[str]:
        """Names directly below a prefix, sorted."""
        return super().list(directory) if split(directory) is None else sorted(self._list(directory))

    def special(self, directory: str) -> dict[str, str]:
        """A store has nothing else."""
        if split(directory) is None:
            return super().special(directory)
        self._list(directory)
        return {}

    def _list(self, directory: str) -> Listing:
        found = self._find(directory)
        if isinstance(found, str):
            return self._listing(_normal(directory))
        raise UnreadableFile(f"{directory}: {_MISSING if found is None else 'Not a directory'}", path=directory)

    # ---- bytes

    def open(self, path: str) -> OpenFile:
        """Read it by ranges, as long as it is what was found."""
        if split(path) is None:
            return super().open(path)
        found = self._find(path)
        if not isinstance(found, Object):
            raise UnreadableFile(f"{path}: {_MISSING if found is None else 'a directory, not a file'}", path=path)
        bucket = self._bucket(_normal(path))

        def fetch(start: int, end: int) -> bytes | memoryview:
            return self._pieces.get(path, start, end, lambda: bucket.read(found, start, end))

        return RangedFile(path, found.size, fetch)

    # ---- requests

    def _find(self, path: str) -> Object | str | None:
        """The object at `path`; `_DIRECTORY`; None: nothing."""
        path = _normal(path)
        if path in self._listings or _is_bucket(path):
            return _DIRECTORY
        around = self._listings.get(parent_of(path))
        if around is not None:
            return around.get(file_name(path))
        if path not in self._single:
            found = self._look(path)
            if isinstance(found, str):
                return found
            self._single[path] = found
        return self._single[path]

    def _look(self, path: str) -> Object | str | None:
        """Ask the store: as a file first where the name is that of one."""
        bucket, key = self._bucket(path), _key(path)
        is_file = parse_file_name(file_name(path)) is not None
        if path.startswith(_SERVERS):
            if is_file:
                return bucket.find(key)
            what = f"{path}: not the name of a file of Kafka's, and servers have no listings of directories"
            raise UnreadableFile(what, "name one file; for a directory use s3://, gs://, az:// or a copy", path=path)
        found = bucket.find(key) if is_file else None
        if found is not None:
            return found
        if self._listing(path):
            return _DIRECTORY
        self._listings.pop(path, None)  # nothing is below it: no directory
        return None if is_file else bucket.find(key)

    def _listing(self, directory: str) -> Listing:
        """What is in a directory, listed once."""
        known = self._listings.get(directory)
        if known is None:
            key = _key(directory)
            folders, objects = self._bucket(directory).children(key)
            entries: dict[str, Object | str] = {file_name(one.key): one for one in objects if one.key != key}
            entries.update(dict.fromkeys(map(file_name, folders), _DIRECTORY))
            known = self._keep(directory, entries)
        return known

    def _keep(self, directory: str, entries: Listing) -> Listing:
        with self._mutex:
            self._listings[directory] = entries
            count = sum(map(len, self._listings.values()))
            while count > _NAMES and len(self._listings) > _LISTINGS:
                count -= len(self._listings.popitem(last=False)[1])
        return entries

    def _bucket(self, path: str) -> Bucket:
        """The store of a normal path."""
        place = split(path)
        assert place is not None  # it is a URL
        with self._mutex:
            if place[0] not in self._buckets:
                self._buckets[place[0]] = self._open_bucket(place[0])
            return self._buckets[place[0]]


def _normal(path: str) -> str:
    """A URL without empty names."""
    place = split(path)
    assert place is not None  # it is a URL
    return "/".join(filter(None, place))


def _key(path: str) -> str:
    place = split(path)
    return "" if place is None else place[1]


def _is_bucket(path: str) -> bool:
    return not path.startswith(_SERVERS) and not _key(path)


def _missing(path: str) -> UnreadableFile:
    return UnreadableFile(f"{path}: {_MISSING}", path=path)
