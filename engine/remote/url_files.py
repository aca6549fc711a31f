"""Read URLs like paths of this machine: objects of a bucket are files, prefixes of keys are directories.

Nothing is written. Listings and lookups are cached; an object that changes afterwards is an error.
"""

from __future__ import annotations

from collections import OrderedDict
from itertools import islice
from threading import Lock
from typing import TYPE_CHECKING

from engine.discovery.names import file_name, parent_of, parse_file_name
from engine.errors import KafkalogError, UnreadableFile
from engine.files import FileInfo, ReadOnlyFiles
from engine.remote.ranged_file import Pieces, RangedFile
from engine.remote.storage import Object
from engine.remote.urls import SERVERS, split

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from engine.files import DiskSpace, OpenFile
    from engine.remote.storage import Bucket

    Listing = Mapping[str, Object | str]  # names directly below a prefix

_LARGEST_KEPT = 64 << 10  # bytes of a cached piece: small files, starts and ends of logs
_KEPT = 16 << 20  # bytes of all cached pieces
_MISSING = "No such file or directory"  # the text of the operating system
_NAMES, _LISTINGS = 200_000, 64  # the cache keeps listings up to this number of names, and always this number of listings
_AHEAD = 50_000  # objects that `list_ahead` lists at most
_MODE = 0o444
_SERVERS = tuple(f"{scheme}://" for scheme in SERVERS)  # without listings
_DIRECTORY = "a directory"  # in place of an Object


class UrlFiles(ReadOnlyFiles):
    """See ReadOnlyFiles. Reads URLs from `urls.spelled` and paths of this machine. Safe for several threads.

    open_bucket  opens the store of a URL such as s3://BUCKET
    A directory costs one request per 1,000 names; a file outside listed directories costs one request. There are no links.
    """

    def __init__(self, open_bucket: Callable[[str], Bucket] | None = None) -> None:
        from engine.remote import object_store

        self._open_bucket: Callable[[str], Bucket] = open_bucket or object_store.open_bucket
        self._buckets: dict[str, Bucket] = {}
        self._listings: OrderedDict[str, Listing] = OrderedDict()  # by directory, the last ones
        self._names = 0  # in all these listings
        self._single: dict[str, Object | None] = {}  # single lookups by path; None: does not exist
        self._failures: dict[str, KafkalogError] = {}  # by path: lookups that are not tried again
        self._pieces = Pieces(_LARGEST_KEPT, _KEPT)
        self._mutex = Lock()

    # ---- paths

    def needs_requests(self, path: str) -> bool:
        """See ReadOnlyFiles."""
        return split(path) is not None

    def root(self, path: str) -> str:
        """See ReadOnlyFiles. Returns s3://BUCKET/ for a URL."""
        parts = split(path)
        return super().root(path) if parts is None else f"{parts[0]}/"

    def absolute(self, path: str) -> str:
        """See ReadOnlyFiles. URLs are absolute."""
        return super().absolute(path) if split(path) is None else path

    def resolve(self, path: str) -> str:
        """See ReadOnlyFiles. Removes doubled slashes from a URL."""
        if split(path) is None:
            return super().resolve(path)
        if self._find(path) is None:
            raise _missing(path)
        return _normal(path)

    def exists(self, path: str) -> bool:
        """See ReadOnlyFiles. A directory exists if an object is below its prefix."""
        return super().exists(path) if split(path) is None else self._find(path) is not None

    def info(self, path: str) -> FileInfo:
        """See ReadOnlyFiles. The time is that of the last change of the object."""
        if split(path) is None:
            return super().info(path)
        found = self._find(path)
        if found is None:
            raise _missing(path)
        if isinstance(found, str):
            return FileInfo(False, True, 0, 0, mode=_MODE)
        return FileInfo(True, False, found.size, found.modified_ms * 1_000_000, mode=_MODE, used=found.size)

    def space(self, path: str) -> DiskSpace:
        """See ReadOnlyFiles. Raises UnreadableFile for URLs: stores do not report free space."""
        if split(path) is None:
            return super().space(path)
        raise UnreadableFile(f"{path}: the free space of a store is not known", path=path)

    # ---- directories

    def plain(self, directory: str) -> list[str]:
        """See ReadOnlyFiles. Returns the names of objects."""
        if split(directory) is None:
            return super().plain(directory)
        return sorted(name for name, found in self._list(directory).items() if isinstance(found, Object))

    def list(self, directory: str) -> list[str]:
        """See ReadOnlyFiles. Returns the names directly below a prefix, sorted."""
        return super().list(directory) if split(directory) is None else sorted(self._list(directory))

    def special(self, directory: str) -> dict[str, str]:
        """See ReadOnlyFiles. Stores have no special files."""
        if split(directory) is None:
            return super().special(directory)
        self._list(directory)
        return {}

    def _list(self, directory: str) -> Listing:
        found = self._find(directory)
        if isinstance(found, str):
            return self._listing(_normal(directory))
        raise UnreadableFile(f"{directory}: {_MISSING if found is None else 'Not a directory'}", path=directory)

    def list_ahead(self, directory: str) -> None:
        """List everything below a directory of a store with few requests, or a part of it if there are many names.

        An error is not reported: the next call for the same path meets it again.
        """
        if split(directory) is None or directory.startswith(_SERVERS):
            return
        top = _normal(directory)
        bucket, prefix = self._bucket(top), f"{_key(top)}/" if _key(top) else ""
        try:
            objects = list(islice(bucket.list(prefix), _AHEAD + 1))
        except UnreadableFile:
            return
        found: dict[str, dict[str, Object | str]] = {}
        for one in objects[:_AHEAD]:
            path = f"{top}/{one.key[len(prefix):]}"
            found.setdefault(parent_of(path), {})[file_name(path)] = one
            while (path := parent_of(path)) != top:
                found.setdefault(parent_of(path), {})[file_name(path)] = _DIRECTORY
        last = f"{top}/{objects[-1].key[len(prefix):]}" if len(objects) > _AHEAD else ""
        for path, entries in found.items():
            if not last.startswith(f"{path}/"):  # else the directory may have more entries
                self._keep(path, entries)

    def listings(self, directories: Iterable[str]) -> dict[str, Listing]:
        """Return what is known of the entries of directories, for `add_listings` in another process."""
        return {path: known for path in map(_normal, directories) if (known := self._listings.get(path)) is not None}

    def add_listings(self, listings: Mapping[str, Listing]) -> None:
        """Take over what another process knows. An object that changed since then is an error."""
        for path, entries in listings.items():
            self._keep(path, entries)

    # ---- content

    def open(self, path: str) -> OpenFile:
        """See ReadOnlyFiles. Reads by ranges; an object that changed since it was found is an error."""
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
        """Return the object at `path`; `_DIRECTORY` for a directory; None: does not exist."""
        path = _normal(path)
        if path in self._listings or _is_bucket(path):
            return _DIRECTORY
        parent = self._listings.get(parent_of(path))
        if parent is not None:
            return parent.get(file_name(path))
        if path in self._failures:
            raise self._failures[path]
        if path not in self._single:
            try:
                found = self._request(path)
            except KafkalogError as error:
                self._failures[path] = error
                raise
            if isinstance(found, str):
                return found
            self._single[path] = found
        return self._single[path]

    def _request(self, path: str) -> Object | str | None:
        """Look up a path in the store; first as a file if it has the name of one of Kafka's files."""
        bucket, key = self._bucket(path), _key(path)
        is_file = parse_file_name(file_name(path)) is not None
        if path.startswith(_SERVERS):
            if is_file:
                return bucket.find(key)
            what = f"{path}: not the name of one of Kafka's files, and HTTP servers have no listings of directories"
            raise UnreadableFile(what, "name one file; for a directory use s3://, gs://, az:// or a copy", path=path)
        found = bucket.find(key) if is_file else None
        if found is not None:
            return found
        if self._listing(path):
            return _DIRECTORY
        self._listings.pop(path, None)  # empty: not a directory
        return None if is_file else bucket.find(key)

    def _listing(self, directory: str) -> Listing:
        """Return the entries of a directory, from the cache or a listing."""
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
            self._names += len(entries) - len(self._listings.get(directory, ()))
            self._listings[directory] = entries
            while self._names > _NAMES and len(self._listings) > _LISTINGS:
                self._names -= len(self._listings.popitem(last=False)[1])
        return entries

    def _bucket(self, path: str) -> Bucket:
        """Return the store of a normal path."""
        parts = split(path)
        assert parts is not None  # it is a URL
        with self._mutex:
            if parts[0] not in self._buckets:
                self._buckets[parts[0]] = self._open_bucket(parts[0])
            return self._buckets[parts[0]]


def _normal(path: str) -> str:
    """Return a URL without empty path elements."""
    parts = split(path)
    assert parts is not None  # it is a URL
    return "/".join(filter(None, parts))


def _key(path: str) -> str:
    parts = split(path)
    return "" if parts is None else parts[1]


def _is_bucket(path: str) -> bool:
    return not path.startswith(_SERVERS) and not _key(path)


def _missing(path: str) -> UnreadableFile:
    return UnreadableFile(f"{path}: {_MISSING}", path=path)
