"""bootstrap.checkpoint: the first records of a new cluster's metadata log. Mirrors BootstrapDirectory.

It stands alone: the format is Kafka's, whoever adds topics to it.

`kafka-storage format` writes it; the first controller whose metadata log is empty uses all its records. So a topic can be
created with an id that it had before, for which Kafka has no command.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from engine.errors import UnreadableFile
from engine.files import replace
from engine.log.append.log_end import move_in_memory
from engine.record.batch import read_batches
from engine.record.builder import NewRecord, build_batch
from engine.schema.json_text import uuid_bytes
from engine.schema.wire import encode_compact, encode_unsigned_varint

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from engine.files import Files
    from engine.findings import Finding

_MAX_SIZE = 64 << 20  # bytes
_TOPIC, _PARTITION, _CONFIG = b"\1\2\0", b"\1\3\1", b"\1\4\0"  # frame version, api key, version
_OF_TOPIC = b"\2"  # ConfigResource.Type
_INT, _NUMBERS = Struct(">i"), Struct(">iii")


class NewTopic(NamedTuple):
    """A topic, with the last leader epoch in the records of each partition. All replicas are on one broker.

    directory_id  of the log dir with the partitions
    """

    name: str
    topic_id: str
    leader_epochs: Mapping[int, int]
    settings: Mapping[str, str]
    node_id: int
    directory_id: str

    def records(self) -> Iterator[bytes]:
        """The values of its records: TopicRecord, PartitionRecord, ConfigRecord.

        The broker is recorded as the last leader: when it starts, the controller elects it again, with the next epoch.
        """
        topic_id = uuid_bytes(self.topic_id)
        yield _TOPIC + encode_compact(self.name.encode()) + topic_id + b"\0"
        one, none = encode_unsigned_varint(2), encode_unsigned_varint(1)  # array lengths: one element, no element
        replica = one + _INT.pack(self.node_id)
        for partition, epoch in sorted(self.leader_epochs.items()):
            assignment = _INT.pack(partition) + topic_id + replica + replica + none + none
            yield _PARTITION + assignment + _NUMBERS.pack(self.node_id, epoch, 0) + one + uuid_bytes(self.directory_id) + b"\0"
        for name, value in self.settings.items():
            yield _CONFIG + _OF_TOPIC + b"".join(encode_compact(text.encode()) for text in (self.name, name, value)) + b"\0"


def add_to_bootstrap(files: Files, path: str, topics: Iterable[NewTopic], now: int) -> None:
    """Add topics to the file at `path`, before its footer. Raises UnreadableFile if it is damaged."""
    findings: list[Finding] = []
    with files.open(path) as file:
        batches = list(read_batches(file, findings.append))
    if findings or not batches or not all(batch.is_valid for batch in batches):
        raise UnreadableFile(f"{path}: damaged: {findings[0].what if findings else 'it has no batch'}", path=path)
    data, last = files.read(path, _MAX_SIZE), batches[-1]
    has_footer = last.is_control and len(batches) > 1
    after = last.position if has_footer else len(data)
    first = last.base_offset if has_footer else last.last_offset + 1
    values = [value for topic in topics for value in topic.records()]
    added = build_batch(
        [NewRecord(first + number, now, None, value) for number, value in enumerate(values)], partition_leader_epoch=0
    )
    footer = bytearray(data[after:])
    move_in_memory(footer, len(values), 0)
    replace(files, path, [data[:after], added, bytes(footer)])
