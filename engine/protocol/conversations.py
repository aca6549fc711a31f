"""The messages of a file: frames one after the other, or a packet capture with the connections of many clients."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple

from engine.amounts import count_of
from engine.findings import Finding, Severity, Where
from engine.protocol.capture import Ahead, Direction, begins_connection, is_capture, packets, tcp_segment
from engine.protocol.exchange import Exchange, Message, looks_like_request
from engine.protocol.frames import FrameReader
from engine.protocol.messages import catalogue
from engine.schema.wire import SchemaError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.files import OpenFile
    from engine.protocol.capture import Chunk, Packet, Segment

    Report = Callable[[Finding], None]

_MOST_CONNECTIONS = 10_000
_MOST_KEPT = 256 << 20  # bytes of incomplete frames and of segments that wait for lost ones, in all connections


class CapturedMessage(NamedTuple):
    """A message and, in a capture, `client>server` of its connection and the time in ms of the packet that completes it.

    The position of the message's frame is that of its size in a file of frames, and that of this packet in a capture.
    """

    message: Message
    connection: str | None = None
    at_ms: float | None = None


def read_messages(file: OpenFile, report: Report) -> Iterator[CapturedMessage]:
    """Yield the messages of a file, in its order, each as soon as it is read. Raises UnreadableFile.

    file    is read from its start to its end: may be a Stream
    report  receives why a part of the file was not read
    """
    ahead = Ahead(file)
    if is_capture(ahead.peek(4)):
        yield from _Capture(ahead, report).messages()
        return
    reader, exchange = FrameReader(), Exchange()
    try:
        for piece in ahead.pieces():
            for frame in reader.feed(piece):
                yield CapturedMessage(exchange.take(frame))
        reader.end()
    except SchemaError as error:
        report(Finding("frame-invalid", Where(file.path, error.at), f"{error}; the rest of the file is not read"))


def finding_about(message: Message, path: str) -> Finding | None:
    """Return why a message could not be decoded, or only in part; None if it was decoded."""
    where = Where(path, message.frame.position)
    if message.problem is None:
        if not message.unread:
            return None
        what = f"{message.name}: {count_of(message.unread, 'byte')} after the body"
        return Finding("frame-invalid", where, what, milder=Severity.WARNING)
    header = message.header
    if header is None:
        code = "frame-undecoded" if message.is_request is False else "frame-invalid"
        return Finding(code, where, f"a frame of {count_of(len(message.frame.data), 'byte')}: {message.problem}")
    request = catalogue().find("request", header.api_key)
    is_known = request is not None and header.api_version in request.versions
    return Finding("frame-invalid" if is_known else "frame-undecoded", where, str(message.problem))


class _Side:
    """One direction of a connection. `reader` is None while it is not known where a frame begins."""

    def __init__(self) -> None:
        self.direction = Direction()
        self.reader: FrameReader | None = None
        self.kept = 0  # as counted in the sum of all

    def count(self) -> int:
        """Return by how many bytes what is kept has grown since the last call."""
        before, self.kept = self.kept, self.direction.kept + (0 if self.reader is None else self.reader.kept)
        return self.kept - before


class _Connection:
    """`client` is None until a segment shows which side it is."""

    def __init__(self) -> None:
        self.client: str | None = None
        self.exchange = Exchange()
        self.sides: dict[str, _Side] = {}
        self.is_kafka: bool | None = None  # None: it sent nothing yet


class _Capture:
    def __init__(self, file: Ahead, report: Report) -> None:
        self._file = file
        self._report = report
        self._connections: OrderedDict[tuple[str, ...], _Connection] = OrderedDict()
        self._kept = 0  # bytes in all connections
        self._others = 0  # connections of other protocols
        self._cut = 0  # packets that were not captured whole

    def messages(self) -> Iterator[CapturedMessage]:
        """Yield the messages of all connections, in the order of the packets that complete them."""
        packet: Packet | None = None
        try:
            for packet in packets(self._file):
                segment = tcp_segment(packet)
                if segment is not None:
                    self._cut += packet.is_cut
                    yield from self._take(segment, packet)
        except SchemaError as error:
            self._incomplete(error.at, f"{error}; the rest of the capture is not read")
        if packet is not None:
            for connection in self._connections.values():
                for source, side in connection.sides.items():
                    for chunk in side.direction.end():
                        yield from self._chunk(connection, source, chunk, packet)
        if self._cut:
            self._incomplete(None, f"{count_of(self._cut, 'packet')} shorter than on the network: capture with snaplen 0")
        if self._others:
            what = f"{count_of(self._others, 'connection')} of other protocols, or encrypted"
            self._incomplete(None, what, Severity.INFO)

    def _incomplete(self, position: int | None, what: str, milder: Severity | None = None) -> None:
        self._report(Finding("capture-incomplete", Where(self._file.path, position), what, milder=milder))

    def _take(self, segment: Segment, packet: Packet) -> Iterator[CapturedMessage]:
        key = tuple(sorted((segment.source, segment.target)))
        connection = self._connections.get(key)
        client = begins_connection(segment)
        if connection is None:
            connection = self._connections[key] = _Connection()
            connection.sides = {segment.source: _Side(), segment.target: _Side()}
        self._connections.move_to_end(key)
        side = connection.sides[segment.source]
        if client is not None:
            connection.client, connection.is_kafka, side.reader = client, None, FrameReader()
            if client == segment.source:
                connection.exchange = Exchange()
        for chunk in side.direction.take(segment):
            yield from self._chunk(connection, segment.source, chunk, packet)
        self._kept += side.count()
        while len(self._connections) > 1 and (len(self._connections) > _MOST_CONNECTIONS or self._kept > _MOST_KEPT):
            _, idle = self._connections.popitem(last=False)  # if it continues, its next message is found as after a loss
            self._kept -= sum(one.kept for one in idle.sides.values())

    def _chunk(self, connection: _Connection, source: str, chunk: Chunk, packet: Packet) -> Iterator[CapturedMessage]:
        side = connection.sides[source]
        if chunk.lost and connection.is_kafka:
            where = " > ".join((source, *(one for one in connection.sides if one != source)))
            self._incomplete(packet.position, f"{where}: {count_of(chunk.lost, 'byte')} missing")
        if chunk.lost:
            side.reader = None
        if not self._is_synchronised(connection, source, chunk):
            return
        assert side.reader is not None
        server = next(one for one in connection.sides if one != connection.client)
        try:
            for frame in side.reader.feed(chunk.data):
                placed = frame._replace(position=packet.position)
                take = connection.exchange.request if source == connection.client else connection.exchange.response
                yield CapturedMessage(take(placed), f"{connection.client}>{server}", packet.at_ms)
        except SchemaError as error:
            side.reader = None
            self._report(Finding("frame-invalid", Where(self._file.path, packet.position), f"{source}: {error}"))

    def _is_synchronised(self, connection: _Connection, source: str, chunk: Chunk) -> bool:
        """Return whether a frame begins, or continues, at the start of the chunk; prepares the reader."""
        side = connection.sides[source]
        is_first = connection.is_kafka is None
        if connection.is_kafka is False or (is_first and connection.client not in {None, source}):
            return False  # a server that speaks first is not Kafka's
        if side.reader is not None and not is_first:
            return True
        if source != connection.client and connection.client is not None:
            begins = connection.exchange.is_open(int.from_bytes(chunk.data[4:8], signed=True))
        else:
            begins = looks_like_request(chunk.data)
        if begins and is_first:
            connection.client, connection.is_kafka = source, True
        elif is_first and side.direction.from_the_start:
            connection.is_kafka = False
            self._others += 1
        if begins and side.reader is None:
            side.reader = FrameReader()
        return begins
