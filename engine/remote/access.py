"""What reading through needs besides a log: the store of its remote segments, and the metadata that names them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from engine.config.topic import LogConfig
from engine.discovery.names import parent_of
from engine.errors import UsageError, argument
from engine.log.logdir.tiered import remote_log_start
from engine.log.tiering import Tiering
from engine.remote.layouts import open_layout
from engine.remote.metadata_log import MetadataLogs
from engine.remote.reading import TieredView
from engine.remote.storage import open_store
from engine.remote.tiered_log import TieredLog

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from engine.files import ReadOnlyFiles
    from engine.findings import Finding
    from engine.log.fetch.view import PartitionView
    from engine.remote.metadata import RemoteLogMetadata


class StoreOptions(NamedTuple):
    """Where remote segments are. See `layouts.open_layout`."""

    store: str
    layout: str = "auto"
    prefix: str | None = None
    private_keys: tuple[tuple[str, str], ...] = ()


class RemoteAccess:
    """Remote segments of any partition. `log_dirs`: where logs of __remote_log_metadata are looked for, besides beside it.

    Raises UsageError, UnreadableFile.
    """

    def __init__(
        self, files: ReadOnlyFiles, options: StoreOptions, log_dirs: Sequence[str], report: Callable[[Finding], None]
    ) -> None:
        self._files, self._log_dirs, self._report = files, log_dirs, report
        store = open_store(files, options.store)
        self._layout = open_layout(store, options.layout, options.prefix, dict(options.private_keys))
        self._metadata: dict[str, RemoteLogMetadata] = {}  # by the log dir of a partition

    def open(self, view: PartitionView, log_start_offset: int | None = None) -> TieredView | None:
        """The log of `view`, which stays its opener's, with its remote segments; None: all of it is local.

        log_start_offset  None: as the log dir's checkpoint says
        """
        start = remote_log_start(self._files, view.directory) if log_start_offset is None else log_start_offset
        if start is None or start >= view.log_start_offset:
            return None
        own = parent_of(self._files.absolute(view.directory))
        if own not in self._metadata:
            self._metadata[own] = MetadataLogs(self._files, list(dict.fromkeys((own, *self._log_dirs))), self._report).read()
        log = TieredLog(self._files, view, LogConfig(), Tiering.TIERED, self._metadata[own], log_start_offset=start)
        if log.remote is None:
            what = f"{view.directory}: the logs of __remote_log_metadata that were read have no record of it"
            do = f"name the log dirs with the other partitions of that topic: --log-dir DIR {argument(view.directory)}"
            raise UsageError(what, do, path=view.directory)
        return TieredView(log, self._layout, self._report)
