"""What reading through needs besides a log: the store of its remote segments, and the metadata that names them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from engine.config.topic import LogConfig
from engine.discovery.names import parent_of
from engine.errors import KafkalogError, UsageError, argument
from engine.log.logdir.startup import of_one_cluster
from engine.log.logdir.topics import remote_log_start
from engine.log.tiering import Tiering
from engine.remote.aiven_layout import AivenLayout
from engine.remote.layouts import recognise
from engine.remote.local_layout import LocalLayout
from engine.remote.metadata_log import MetadataLogs
from engine.remote.reading import TieredView
from engine.remote.storage import FolderStore, WritableFolderStore
from engine.remote.tiered_log import TieredLog

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from engine.files import Files, ReadOnlyFiles
    from engine.findings import Finding
    from engine.log.fetch.view import PartitionView
    from engine.remote.layouts import Layout
    from engine.remote.metadata import RemoteLogMetadata
    from engine.remote.object_store import ObjectStore
    from engine.remote.storage import Store, WritableStore

Settings = tuple[tuple[str, str], ...]  # names and values

_URL = re.compile(r"([a-z][a-z0-9+.-]*)://(.*)", re.DOTALL)
_SCHEMES = ("s3", "gs", "az", "http", "https", "file")


def open_store(files: ReadOnlyFiles, name: str, client: Settings = ()) -> Store:
    """The store that a URL or the path of a folder names. `client`: see StoreOptions. Raises UsageError, UnreadableFile."""
    folder = _folder(files, name)
    return _object_store(name, client) if folder is None else FolderStore(files, folder)


def open_writable_store(files: Files, name: str, client: Settings = ()) -> WritableStore:
    """The same, to be changed."""
    folder = _folder(files, name)
    return _object_store(name, client) if folder is None else WritableFolderStore(files, folder)


def _folder(files: ReadOnlyFiles, name: str) -> str | None:
    """The folder that is named; None: a URL names something else. Raises UsageError, UnreadableFile."""
    match = _URL.fullmatch(name)
    if match is None or match[1] == "file":
        folder = name if match is None else "/" + match[2].lstrip("/")
        if not files.info(folder).is_directory:
            raise UsageError(f"{folder}: not a folder, which a store is", path=folder)
        return folder
    if match[1] not in _SCHEMES:
        raise UsageError(f"{name}: unknown scheme {match[1]}", f"use {'://, '.join(_SCHEMES)}:// or a folder")
    return None


def _object_store(name: str, client: Settings) -> ObjectStore:
    from engine.remote.object_store import ObjectStore

    return ObjectStore(name, client=dict(client))


def open_layout(store: Store, name: str, prefix: str | None, private_keys: dict[str, str]) -> Layout:
    """The layout called `name`, or the one that is recognised by `auto`.

    prefix        of all keys; None: as it is recognised
    private_keys  files with PEM keys by their ids, of Aiven's encryption
    Raises UsageError, UnreadableFile.
    """
    if name == "auto" or prefix is None:
        found = recognise(store, prefix or "")
        name, prefix = found.name if name == "auto" else name, found.prefix if prefix is None else prefix
    if name == "local":
        return LocalLayout(store, prefix)
    return AivenLayout(store, prefix, private_keys)


class StoreOptions(NamedTuple):
    """Where remote segments are. See `open_layout`.

    client  settings of the client of an object store (endpoint, region, credentials), which override the environment
    """

    store: str
    layout: str = "auto"
    prefix: str | None = None
    private_keys: Settings = ()
    client: Settings = ()

    def open(self, files: ReadOnlyFiles) -> Layout:
        """The store's layout. Raises UsageError, UnreadableFile."""
        return self.layout_of(open_store(files, self.store, self.client))

    def open_writable(self, files: Files) -> WritableStore:
        """The store, to be changed. Raises UsageError, UnreadableFile."""
        return open_writable_store(files, self.store, self.client)

    def layout_of(self, store: Store) -> Layout:
        """The layout of the store, which was opened. Raises UsageError, UnreadableFile."""
        return open_layout(store, self.layout, self.prefix, dict(self.private_keys))


class RemoteAccess:
    """Remote segments of any partition. `log_dirs`: where logs of __remote_log_metadata are looked for, besides beside it.

    find_store  names the store; it is called when a partition has remote segments, and the store is opened then
    """

    def __init__(
        self, files: ReadOnlyFiles, find_store: Callable[[], StoreOptions], log_dirs: Sequence[str],
        report: Callable[[Finding], None],
    ) -> None:  # fmt: skip
        self._files, self._find_store, self._log_dirs, self._report = files, find_store, log_dirs, report
        self._layout: Layout | KafkalogError | None = None
        self._metadata: dict[str, RemoteLogMetadata] = {}  # by the log dir of a partition

    @property
    def layout(self) -> Layout:
        """The layout of the store. Raises UsageError, UnreadableFile, the same one each time: the store is opened once."""
        if self._layout is None:
            try:
                self._layout = self._find_store().open(self._files)
            except KafkalogError as error:
                self._layout = error
        if isinstance(self._layout, KafkalogError):
            raise self._layout
        return self._layout

    def open(self, view: PartitionView, log_start_offset: int | None = None) -> TieredView | None:
        """The log of `view` for reading, as `log` finds it."""
        log = self.log(view, log_start_offset)
        return None if log is None else TieredView(log, self.layout, self._report)

    def log(self, view: PartitionView, log_start_offset: int | None = None) -> TieredLog | None:
        """The log of `view`, which stays its opener's, with its remote segments; None: all of it is local.

        log_start_offset  None: as the log dir's checkpoint says
        """
        start = remote_log_start(self._files, view.directory) if log_start_offset is None else log_start_offset
        if start is None or start >= view.log_start_offset:
            return None
        _ = self.layout  # a store that cannot be read is the error before any other
        own = parent_of(self._files.absolute(view.directory))
        if own not in self._metadata:
            log_dirs = of_one_cluster(self._files, own, self._log_dirs)
            self._metadata[own] = MetadataLogs(self._files, log_dirs, self._report).read()
        log = TieredLog(self._files, view, LogConfig(), Tiering.TIERED, self._metadata[own], log_start_offset=start)
        if log.remote is None:
            what = f"{view.directory}: the logs of __remote_log_metadata that were read have no record of it"
            do = f"name the log dirs with the other partitions of that topic: --log-dir DIR {argument(view.directory)}"
            raise UsageError(what, do, path=view.directory)
        return log
