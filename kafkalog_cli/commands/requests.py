"""kafkalog requests."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import click

from engine.amounts import count_of, offsets_text, time_text
from kafkalog_cli.help import DocumentedCommand, Example, Section
from kafkalog_cli.options import PATH_OR_URL, Whole, files_for, format_option, size_option, version_option
from kafkalog_cli.show import show

if TYPE_CHECKING:
    from engine.files import OpenFile
    from engine.findings import Finding
    from engine.protocol.conversations import CapturedMessage
    from engine.protocol.exchange import Message
    from engine.protocol.sent_batches import SentBatch, SentBatches
    from kafkalog_cli.show import Output

_SECTIONS = (
    Section("Selection", ("--api", "--client", "--topic", "--producer-id")),
    Section("Limits", ("--max-message-bytes",)),
    Section("Output", ("--format",)),
)
_MAIN = ("--api", "--client", "--topic", "--producer-id", "--format")
_EXAMPLES = (
    Example("The requests and responses in a packet capture:", "kafkalog requests kafka.pcap"),
    Example("The batches that producers sent to one topic, and their problems:",
            "kafkalog requests --api Produce --topic orders kafka.pcap"),
    Example("What is sent now, piped from `tcpdump -i any -s 0 -U -w - port 9092`:", "kafkalog requests --api Produce -"),
    Example("Everything that one client sent, with all fields as JSON:",
            "kafkalog requests --client billing-7 --format jsonl kafka.pcapng"),
)


class ApiName(click.ParamType[str]):
    """The name of an API, such as Fetch, in any case."""

    name = "api"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return Kafka's spelling. Raises click.BadParameter."""
        from engine.protocol.messages import api_names

        for known in api_names():
            if known.lower() == value.lower():
                return known
        raise click.BadParameter(f"{value!r} is not the name of an API, such as Produce, Fetch or Metadata", ctx, param)


@click.command("requests", cls=DocumentedCommand, examples=_EXAMPLES, sections=_SECTIONS, main_options=_MAIN)
@click.argument("path", type=PATH_OR_URL, metavar="FILE")
@click.option("--api", "apis", type=ApiName(), multiple=True, metavar="NAME",
              help="Only this API, such as Produce; may be repeated.")
@click.option("--client", "clients", multiple=True, metavar="NAME",
              help="Only this client id, or those that match a quoted pattern; may be repeated.")
@click.option("--topic", "-t", "topics", multiple=True, metavar="NAME",
              help="Only messages about this topic: a name, a quoted pattern or a topic id; may be repeated.")
@click.option("--producer-id", "producers", type=Whole(0), multiple=True, metavar="ID",
              help="Only messages with batches of this producer; may be repeated.")
@size_option("--max-message-bytes", default=1_048_588,
             help="Report batches near or above this size: max.message.bytes of the topics.")
@format_option
@version_option
def command(path: str, form: str, max_message_bytes: int, **wanted: Any) -> int:
    """Decode captured requests and responses of Kafka's protocol, with the batches inside them.

    FILE is a packet capture (pcap or pcapng, from tcpdump or Wireshark), or a file of frames as they are sent over a
    connection: four bytes of size, then the message. A file of frames may have requests only, or requests and responses, of
    any number of connections. FILE may be a pipe; - is stdin.

    The text has a line for each message, and a line for each batch of Produce requests and Fetch responses. JSON has all
    fields, under Kafka's names.

    The command reports wrong checksums, batches that a broker refuses, gaps and repeats in the sequences of idempotent
    producers, batches near the size limit, and messages that cannot be decoded.

    Newer requests have only the id of a topic. The topic is shown by name if an earlier Metadata response has its id and name.
    """

    def work(output: Output) -> None:
        from engine.discovery.names import is_url
        from engine.files import open_stream
        from engine.protocol.sent_batches import SentBatches

        with files_for([path]).open(path) if is_url(path) else open_stream(path) as file:
            _Listing(output, path, SentBatches(path, max_message_bytes), wanted).run(file)

    return show(form, work)


class _Listing:
    """Prints the messages of one file. `wanted`: the values of the options under Selection."""

    def __init__(self, output: Output, path: str, batches: SentBatches, wanted: dict[str, tuple[Any, ...]]) -> None:
        self._output = output
        self._path = path
        self._batches = batches
        self._wanted = wanted

    def run(self, file: OpenFile) -> None:
        """Print all messages and findings."""
        from engine.files import Stream
        from engine.protocol.conversations import finding_about, read_messages

        is_live = isinstance(file, Stream) and file.is_live
        for captured in read_messages(file, self._report):
            message = captured.message
            batches, findings = self._batches.read(message)
            about = finding_about(message, self._path)
            if not self._is_wanted(message, batches):
                continue
            if message.header is not None:
                self._print(captured, batches)
            for finding in findings if about is None else [about, *findings]:
                self._report(finding)
            if is_live:
                self._output.flush()

    def _report(self, finding: Finding) -> None:
        if self._output.stream is None:
            self._output.flush()
        self._output.outcome.finding(finding)

    def _is_wanted(self, message: Message, batches: list[SentBatch]) -> bool:
        apis, clients, topics, producers = (self._wanted[name] for name in ("apis", "clients", "topics", "producers"))
        if not (apis or clients or topics or producers):
            return True
        header = message.header
        if header is None or (apis and _api(message) not in apis):
            return False
        if clients and not any(fnmatchcase(header.client_id or "", client) for client in clients):
            return False
        if topics and not any(fnmatchcase(name, topic) for name in self._topics(message) for topic in topics):
            return False
        return not producers or any(one.batch.producer_id in producers for one in batches)

    def _topics(self, message: Message) -> list[str]:
        """Return the topics of a message: names and ids, and the names of the ids if they are known."""
        from engine.protocol.exchange import names_in

        found = names_in(message.body)
        known = {self._batches.topic_of(one) or one for one in found}
        return sorted(found | known)

    def _print(self, captured: CapturedMessage, batches: list[SentBatch]) -> None:
        if self._output.stream is not None:
            kind = "request" if captured.message.is_request else "response"
            self._output.stream.put(kind, _fields(captured, batches))
            return
        message, header = captured.message, captured.message.header
        assert header is not None
        kind = "request" if message.is_request else f"response to {message.request}"
        client = "no client id" if header.client_id is None else f"client {header.client_id}"
        about = [f"correlation id {header.correlation_id}", client, count_of(len(message.frame.data), "byte")]
        about += [captured.connection] if captured.connection else []
        about += [time_text(captured.at_ms)] if captured.at_ms is not None else []
        named = [self._batches.topic_of(one) or one for one in self._topics(message)]
        topics = f": {', '.join(sorted(set(named)))}" if named else ""
        self._output.line(f"{message.frame.position} {kind}: {_api(message)} {message.version}, {', '.join(about)}{topics}")
        for one in batches:
            self._output.line(f"  {_batch_line(one)}")


def _api(message: Message) -> str:
    from engine.protocol.messages import api_name

    assert message.header is not None
    return api_name(message.header.api_key)


def _batch_line(one: SentBatch) -> str:
    batch = one.batch
    size = count_of(batch.size_in_bytes, "byte")
    text = f"{one.name}: {offsets_text(batch.base_offset, batch.last_offset + 1)}, {size}, {one.compression}"
    if batch.producer_id >= 0:
        sequences = f"sequences {batch.base_sequence} to {batch.last_sequence}"
        text += f", producer {batch.producer_id} epoch {batch.producer_epoch}, {sequences}"
    if batch.is_transactional:
        text += ", transactional"
    if batch.is_control:
        text += ", control"
    return text if batch.is_valid else f"{text}, wrong checksum"


def _fields(captured: CapturedMessage, batches: list[SentBatch]) -> dict[str, object]:
    from engine.protocol.messages import to_json

    message = captured.message
    header, body = message.header, message.body
    assert header is not None
    fields: dict[str, object] = {
        "position": message.frame.position, "connection": captured.connection,
        "timestamp": None if captured.at_ms is None else round(captured.at_ms), "size": len(message.frame.data),
        "api": _api(message), "api_key": header.api_key, "version": message.version,
        "correlation_id": header.correlation_id, "client_id": header.client_id,
    }
    if not message.is_request:
        fields["request"] = message.request
    fields["body"] = None if body is None else to_json(message.name, message.version, body)
    fields["batches"] = [_batch_fields(one) for one in batches]
    return fields


def _batch_fields(one: SentBatch) -> dict[str, object]:
    batch = one.batch
    return {
        "topic": one.topic, "topic_id": one.topic_id, "partition": one.partition, "size": batch.size_in_bytes,
        "magic": batch.magic, "base_offset": batch.base_offset, "last_offset": batch.last_offset,
        "count": batch.record_count, "compression": one.compression, "max_timestamp": batch.max_timestamp,
        "producer_id": batch.producer_id, "producer_epoch": batch.producer_epoch, "base_sequence": batch.base_sequence,
        "last_sequence": batch.last_sequence, "is_transactional": batch.is_transactional, "is_control": batch.is_control,
        "crc": batch.crc, "is_valid": batch.is_valid,
    }
