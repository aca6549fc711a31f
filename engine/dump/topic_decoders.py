"""Decoders of logs: for Kafka's internal topics by their names, for others by the schemas of a registry in the same cluster.

They stand alone because they read logs, which `engine.schema` cannot.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING

from engine.discovery.names import parent_of
from engine.errors import KafkalogError, UnreadableFile
from engine.files import look
from engine.findings import Finding, Where
from engine.log.fetch.coordinator_logs import coordinator_logs, coordinator_records
from engine.log.logdir.log_dirs import find_log_dirs
from engine.log.logdir.startup import cluster_id
from engine.schema.decode import SchemaError, decoder, internal_topic_decoder
from engine.schema.registry import SCHEMAS_TOPIC, RegistryDecoder, SchemaRegistry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from engine.discovery.names import PartitionDir
    from engine.files import ReadOnlyFiles
    from engine.schema.decode import RecordDecoder
    from engine.schema.registry import GivenSchema


class TopicDecoders:
    """Chooses the decoder for the records of a log.

    paths   partitions, log dirs, trees of them: those of the cluster of a log are searched for its registry
    given   a schema of values; None: there is none
    report  receives damage in the registry's log, and records there that are not a registry's
    """

    def __init__(self, files: ReadOnlyFiles, paths: Iterable[str], given: GivenSchema | None = None) -> None:
        self._files, self._paths, self._given = files, tuple(paths), given
        self.report: Callable[[Finding], None] = lambda _finding: None
        self._registries: dict[str, SchemaRegistry] = {}  # by log dir
        self._reading = Lock()  # several threads may work on partitions

    def of(self, path: str, partition: PartitionDir | None) -> RecordDecoder | None:
        """Return the decoder of the log at `path`; None: its records stay as they are. Raises UnreadableFile."""
        chosen = None if partition is None else internal_topic_decoder(partition.topic)
        if chosen is None and path.endswith(".checkpoint"):
            return decoder("cluster-metadata")
        if chosen is not None or partition is None or partition.topic == SCHEMAS_TOPIC:
            return chosen
        with self._reading:
            registry = self._registry(parent_of(parent_of(self._files.absolute(path))))
        return RegistryDecoder(registry, partition.topic, self._given) if registry or self._given else None

    @cached_property
    def _log_dirs(self) -> list[str]:
        """The log dirs around and below the paths."""
        found: dict[str, None] = {}
        for path in self._paths:
            with suppress(KafkalogError):  # reading the path reports it
                info = look(self._files, path)
                around = path if info is None or info.is_directory else parent_of(self._files.absolute(path))
                found |= dict.fromkeys(one.path for one in find_log_dirs(self._files, [around]))
        return list(found)

    def _registry(self, own: str) -> SchemaRegistry:
        if own not in self._registries:
            cluster = cluster_id(self._files, own)
            same = [other for other in self._log_dirs if cluster is not None and cluster_id(self._files, other) == cluster]
            registry = SchemaRegistry()
            for directory in self._logs(dict.fromkeys((own, *same))):
                for record in coordinator_records(self._files, directory, self.report):
                    try:
                        if not record.batch.is_control:
                            registry.add(record.key, record.value)
                    except SchemaError as error:
                        where = Where(directory, record.batch.position, record.offset)
                        self.report(Finding("record-undecodable", where, str(error)))
            self._registries.update(dict.fromkeys((own, *same), registry))
        return self._registries[own]

    def _logs(self, log_dirs: Iterable[str]) -> Iterable[str]:
        try:
            return coordinator_logs(self._files, log_dirs, SCHEMAS_TOPIC).values()
        except UnreadableFile:  # what is around a partition need not be readable
            return ()
