"""Access to remote segments: the store that has their objects, and the metadata that lists them."""

from __future__ import annotations

from contextlib import suppress
from threading import RLock
from typing import TYPE_CHECKING, NamedTuple

from engine.config.topic import LogConfig
from engine.discovery.names import is_url, parent_of
from engine.errors import KafkalogError, UsageError, argument
from engine.log.logdir.log_dirs import find_log_dirs
from engine.log.logdir.startup import in_same_cluster, of_one_cluster
from engine.log.logdir.topics import remote_log_start
from engine.log.tiering import Tiering
from engine.remote.aiven_layout import AivenLayout, NewSegments
from engine.remote.layouts import recognise
from engine.remote.local_layout import LocalLayout
from engine.remote.metadata_log import MetadataLogs
from engine.remote.reading import TieredView
from engine.remote.storage import FolderStore, WritableFolderStore
from engine.remote.tiered_log import TieredLog
from engine.remote.urls import of_store, spelled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from engine.files import Files, ReadOnlyFiles
    from engine.findings import Finding
    from engine.log.fetch.view import PartitionView
    from engine.remote.layouts import Layout
    from engine.remote.metadata import RemoteLogMetadata
    from engine.remote.object_store import ObjectStore
    from engine.remote.storage import Store, WritableStore

Settings = tuple[tuple[str, str], ...]  # names and values


def open_store(files: ReadOnlyFiles, name: str, client: Settings = ()) -> Store:
    """Open a store by its URL or the path of its folder. `client`: see StoreOptions. Raises UsageError, UnreadableFile."""
    folder = _folder(files, name)
    return _object_store(name, client) if folder is None else FolderStore(files, folder)


def open_writable_store(files: Files, name: str, client: Settings = ()) -> WritableStore:
    """Open a store for reading and writing. See `open_store`."""
    folder = _folder(files, name)
    return _object_store(name, client) if folder is None else WritableFolderStore(files, folder)


def _folder(files: ReadOnlyFiles, name: str) -> str | None:
    """Return the folder of a path or a file URL; None for other URLs. Raises UsageError, UnreadableFile."""
    folder = spelled(name)
    if is_url(folder):
        return None
    if not files.info(folder).is_directory:
        raise UsageError(f"{folder}: not a folder; a store is a folder or a URL", path=folder)
    return folder


def _object_store(name: str, client: Settings) -> ObjectStore:
    from engine.remote.object_store import ObjectStore

    return ObjectStore(of_store(name), client=dict(client))


def open_layout(
    store: Store, name: str, prefix: str | None, private_keys: dict[str, str], new: NewSegments | None = None
) -> Layout:
    """Return the layout `name`; `auto`: the layout that the keys have.

    prefix        of all keys; None: recognised from the keys
    private_keys  PEM files by the id of their key pair, for Aiven's encryption
    new           see AivenLayout
    Raises UsageError, UnreadableFile.
    """
    if name == "auto" or prefix is None:
        found = recognise(store, prefix or "")
        name, prefix = found.name if name == "auto" else name, found.prefix if prefix is None else prefix
    if name == "local":
        return LocalLayout(store, prefix)
    return AivenLayout(store, prefix, private_keys, new)


class StoreOptions(NamedTuple):
    """The location of remote segments. See `open_layout`.

    client  settings of the object store's client (endpoint, region, credentials); they override the environment
    """

    store: str
    layout: str = "auto"
    prefix: str | None = None
    private_keys: Settings = ()
    client: Settings = ()
    new: NewSegments | None = None

    def open(self, files: ReadOnlyFiles) -> Layout:
        """Open the store, and return its layout. Raises UsageError, UnreadableFile."""
        return self.layout_of(open_store(files, self.store, self.client))

    def open_writable(self, files: Files) -> WritableStore:
        """Open the store for reading and writing. Raises UsageError, UnreadableFile."""
        return open_writable_store(files, self.store, self.client)

    def layout_of(self, store: Store) -> Layout:
        """Return the layout of an open store. Raises UsageError, UnreadableFile."""
        return open_layout(store, self.layout, self.prefix, dict(self.private_keys), self.new)


def _log_dirs_of(files: ReadOnlyFiles, paths: Iterable[str]) -> Iterator[str]:
    """The whole log dirs at or below `paths`. What is not one, or cannot be read, is left out."""
    for path in paths:
        with suppress(KafkalogError):
            yield from (files.absolute(one.path) for one in find_log_dirs(files, [path]) if one.is_whole)


def metadata_log_dirs(files: ReadOnlyFiles, own: str, log_dirs: Sequence[str], paths: Iterable[str]) -> Sequence[str]:
    """The log dirs whose logs of __remote_log_metadata are read for the partitions in the log dir `own`.

    log_dirs  named for that; all must be of the cluster of `own`
    paths     that the user named; log dirs of other clusters in them are left out
    Raises UsageError.
    """
    return of_one_cluster(files, own, (*log_dirs, *in_same_cluster(files, own, _log_dirs_of(files, paths))))


class RemoteAccess:
    """Opens logs with their remote segments. Safe for several threads.

    find_store  names the store; it is called if a partition has remote segments, and the store is opened then
    log_dirs    returns the log dirs whose logs of __remote_log_metadata are read for the partitions in a log dir, with this one
    report      receives problems of the metadata
    """

    def __init__(
        self, files: ReadOnlyFiles, find_store: Callable[[], StoreOptions], log_dirs: Callable[[str], Sequence[str]],
        report: Callable[[Finding], None],
    ) -> None:  # fmt: skip
        self._files, self._find_store, self._log_dirs, self._report = files, find_store, log_dirs, report
        self._layout: Layout | KafkalogError | None = None
        self._metadata: dict[str, RemoteLogMetadata] = {}  # by the log dir of a partition
        self._mutex = RLock()

    @property
    def layout(self) -> Layout:
        """The layout of the store. Raises UsageError, UnreadableFile, the same one each time: the store is opened once."""
        with self._mutex:
            if self._layout is None:
                try:
                    self._layout = self._find_store().open(self._files)
                except KafkalogError as error:
                    self._layout = error
        if isinstance(self._layout, KafkalogError):
            raise self._layout
        return self._layout

    def open(
        self, view: PartitionView, log_start_offset: int | None, report: Callable[[Finding], None]
    ) -> TieredView | None:
        """Open the log of `view` with its remote segments for reading; None: it has none. See `log`.

        report  receives problems of the remote segments
        """
        log = self.log(view, log_start_offset)
        return None if log is None else TieredView(log, self.layout, report)

    def log(self, view: PartitionView, log_start_offset: int | None = None) -> TieredLog | None:
        """Return the log of `view` with its remote segments; None: it has none. The caller closes `view`.

        log_start_offset  None: from the checkpoint of the log dir
        Raises UsageError if no record of the partition was read, UnreadableFile.
        """
        start = remote_log_start(self._files, view.directory) if log_start_offset is None else log_start_offset
        if start is None or start >= view.log_start_offset:
            return None
        _ = self.layout  # a store that cannot be read is the error before any other
        own = parent_of(self._files.absolute(view.directory))
        with self._mutex:
            if own not in self._metadata:
                self._metadata[own] = MetadataLogs(self._files, self._log_dirs(own), self._report).read()
        log = TieredLog(self._files, view, LogConfig(), Tiering.TIERED, self._metadata[own], log_start_offset=start)
        if log.remote is None:
            what = f"{view.directory}: the logs of __remote_log_metadata that were read have no record of it"
            do = f"name the log dirs with the other partitions of that topic: --log-dir DIR {argument(view.directory)}"
            raise UsageError(what, do, path=view.directory)
        return log
