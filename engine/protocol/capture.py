"""Packet captures (pcap, pcapng): the payload of TCP connections, in order.

`packets` reads the file, `Direction` puts the segments of one direction of a connection in order. Both trust no byte: lengths
are bounded, and no more than a few MiB of segments wait for a missing one.
"""

from __future__ import annotations

from functools import lru_cache
from ipaddress import ip_address
from struct import Struct, error
from typing import TYPE_CHECKING, NamedTuple

from engine.schema.wire import SchemaError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.files import OpenFile

PCAP_MAGICS = {
    b"\xd4\xc3\xb2\xa1": ("<", 1_000_000), b"\xa1\xb2\xc3\xd4": (">", 1_000_000),
    b"\x4d\x3c\xb2\xa1": ("<", 1_000_000_000), b"\xa1\xb2\x3c\x4d": (">", 1_000_000_000),
}
PCAPNG_MAGIC = b"\x0a\x0d\x0d\x0a"
_READ_AT_ONCE = 1 << 20
_LARGEST_PACKET = 1 << 20
_LARGEST_BLOCK = 16 << 20  # options, name tables
_MOST_WAITING, _MOST_SEGMENTS = 4 << 20, 1000  # bytes, segments of a direction that wait for a lost one
_SECTION, _INTERFACE, _SIMPLE, _ENHANCED = 0x0A0D0D0A, 1, 3, 6
_TIME_RESOLUTION = 9  # option if_tsresol
_SYN, _ACK = 2, 16
_TCP = Struct(">HHIIBB")
_ETHERTYPES = {0x0800: 4, 0x86DD: 6}
# link types: where the network header begins, and where its EtherType is; None: the first byte of IP says the version
_ETHERNET, _LOOPBACK, _SLL, _SLL2 = 1, 0, 113, 276
_RAW_IP = {12, 14, 101, 228, 229}


class Packet(NamedTuple):
    """A packet: its position in the file, its time in ms (None: not recorded), its link type, the bytes captured of it."""

    position: int
    at_ms: float | None
    link: int
    data: memoryview
    is_cut: bool  # the capture has only its beginning


class Segment(NamedTuple):
    """A TCP segment; `source` and `target` are address:port."""

    source: str
    target: str
    sequence: int
    flags: int
    payload: memoryview


class Ahead:
    """Reads a file from its start to its end, in large pieces. `position`: the number of bytes that were taken."""

    def __init__(self, file: OpenFile) -> None:
        self._file, self._buffer, self._is_over = file, bytearray(), False
        self.position = 0
        self.path = file.path

    def _fill(self, size: int) -> int:
        """Read until `size` bytes wait, or the file ends; returns the number of waiting bytes, at most `size`."""
        while len(self._buffer) < size and not self._is_over:
            piece = self._file.read(self.position + len(self._buffer), _READ_AT_ONCE)
            self._buffer += piece
            self._is_over = not piece
        return min(size, len(self._buffer))

    def peek(self, size: int) -> bytes:
        """Return the next bytes, fewer than `size` only at the end. Raises UnreadableFile."""
        found = self._fill(size)
        return bytes(memoryview(self._buffer)[:found])

    def take(self, size: int) -> bytes:
        """Return the next bytes, and go on after them. Raises UnreadableFile, SchemaError if the file ends before."""
        data = self.peek(size)
        if len(data) < size:
            raise SchemaError("the capture ends in the middle of a packet", at=self.position)
        del self._buffer[:size]
        self.position += size
        return data

    def pieces(self) -> Iterator[bytes]:
        """Yield the rest of the file in pieces, each as soon as it is there. Raises UnreadableFile."""
        piece, self._buffer = bytes(self._buffer), bytearray()
        while piece or (not self._is_over and (piece := self._file.read(self.position, _READ_AT_ONCE))):
            self.position += len(piece)
            yield piece
            piece = b""


def is_capture(magic: bytes) -> bool:
    """Return whether a file that begins with these four bytes is a packet capture."""
    return magic in PCAP_MAGICS or magic == PCAPNG_MAGIC


def packets(file: Ahead) -> Iterator[Packet]:
    """Yield the packets of a capture. Raises SchemaError where the file is damaged, UnreadableFile if it cannot be read."""
    magic = file.peek(4)
    return _pcapng(file) if magic == PCAPNG_MAGIC else _pcap(file, *PCAP_MAGICS[magic])


def _pcap(file: Ahead, order: str, resolution: int) -> Iterator[Packet]:
    link: int = Struct(order + "I").unpack_from(file.take(24), 20)[0] & 0x0FFFFFFF
    head = Struct(order + "IIII")
    while file.peek(1):
        at = file.position
        seconds, fraction, size, original = head.unpack(file.take(head.size))
        if size > _LARGEST_PACKET:
            raise SchemaError(f"a packet of {size} bytes is too large", at=at)
        yield Packet(at, (seconds + fraction / resolution) * 1000, link, memoryview(file.take(size)), size < original)


def _pcapng(file: Ahead) -> Iterator[Packet]:
    order = "<"
    interfaces: list[tuple[int, float]] = []  # link type, units of time in a second
    while file.peek(1):
        at, head = file.position, file.take(12)
        if head[:4] == PCAPNG_MAGIC:
            order = ">" if head[8:12] == b"\x1a\x2b\x3c\x4d" else "<"
            interfaces = []
        kind, size = Struct(order + "II").unpack_from(head)
        if size < 12 or size % 4 or size > _LARGEST_BLOCK:
            raise SchemaError(f"a block of {size} bytes is not valid", at=at)
        body = memoryview(head + file.take(size - 12))[8:-4]
        try:
            if kind == _INTERFACE:
                interfaces.append(_interface(body, order))
            elif kind in {_ENHANCED, _SIMPLE}:
                yield _pcapng_packet(body, order, kind, at, interfaces)
        except (error, IndexError):
            raise SchemaError(f"a block of {size} bytes is too short for its type {kind}", at=at) from None


def _interface(body: memoryview, order: str) -> tuple[int, float]:
    link: int = Struct(order + "H").unpack_from(body)[0]
    option, at, units = Struct(order + "HH"), 8, 1e6
    while at + 4 <= len(body):
        code, size = option.unpack_from(body, at)
        if code == _TIME_RESOLUTION:
            value = body[at + 4]
            units = 2.0 ** (value & 0x7F) if value & 0x80 else 10.0**value
        at += 4 + (size + 3) // 4 * 4
    return link, units


def _pcapng_packet(
    body: memoryview, order: str, kind: int, at: int, interfaces: list[tuple[int, float]],
) -> Packet:
    if kind == _SIMPLE:
        original: int = Struct(order + "I").unpack_from(body)[0]
        data = body[4 : 4 + original]
        return Packet(at, None, interfaces[0][0], data, len(data) < original)
    number, high, low, size, original = Struct(order + "IIIII").unpack_from(body)
    link, units = interfaces[number]
    data = body[20 : 20 + size]
    if len(data) < size:
        raise IndexError
    return Packet(at, ((high << 32) + low) / units * 1000, link, data, size < original)


def tcp_segment(packet: Packet) -> Segment | None:
    """Return the TCP segment in a packet; None if there is none, or if the packet is a fragment or damaged."""
    data = _network_layer(packet.link, packet.data)
    if data is None or len(data) < 20:
        return None
    if data[0] >> 4 == 4:
        at, end = (data[0] & 15) * 4, int.from_bytes(data[2:4]) or len(data)  # 0: a segment that the network card will split
        if data[9] != 6 or int.from_bytes(data[6:8]) & 0x3FFF:
            return None
        source, target = (_address(bytes(data[start : start + 4])) for start in (12, 16))
    elif data[0] >> 4 == 6 and len(data) >= 40:
        at, end = _after_extensions(data), int.from_bytes(data[4:6]) + 40
        end = len(data) if end == 40 else end
        source, target = (f"[{_address(bytes(data[start : start + 16]))}]" for start in (8, 24))
    else:
        return None
    data = data[:end]
    if at < 20 or len(data) - at < 20:
        return None
    from_port, to_port, sequence, _, size, flags = _TCP.unpack_from(data, at)
    payload = data[at + (size >> 4) * 4 :] if size >> 4 >= 5 else data[:0]
    return Segment(f"{source}:{from_port}", f"{target}:{to_port}", sequence, flags, payload)


@lru_cache(1024)
def _address(raw: bytes) -> str:
    return ip_address(raw).compressed


def _network_layer(link: int, data: memoryview) -> memoryview | None:
    """Return the IP packet in a frame of a link type."""
    if link in _RAW_IP:
        return data
    if link == _LOOPBACK:
        return data[4:]
    at = {_ETHERNET: 12, _SLL: 14, _SLL2: 0}.get(link)
    if at is None:
        raise SchemaError(f"link type {link} is not supported: capture on Ethernet, loopback, or `any`")
    kind = int.from_bytes(data[at : at + 2])
    while link == _ETHERNET and kind in {0x8100, 0x88A8}:  # VLAN tags
        at += 4
        kind = int.from_bytes(data[at : at + 2])
    start = 20 if link == _SLL2 else at + 2
    return data[start:] if kind in _ETHERTYPES else None


def _after_extensions(data: memoryview) -> int:
    """Return where TCP begins in an IPv6 packet, 0 if nowhere."""
    kind, at = data[6], 40
    while kind in {0, 43, 60} and at + 8 <= len(data):  # hop-by-hop, routing, destination options
        kind, at = data[at], at + (data[at + 1] + 1) * 8
    return at if kind == 6 else 0


class Chunk(NamedTuple):
    """Payload of one direction, in order; `lost` bytes before it are missing."""

    data: memoryview
    lost: int = 0


class Direction:
    """Puts the segments of one direction of a connection in order."""

    def __init__(self) -> None:
        self.from_the_start = False  # the first byte of the connection was captured
        self._next: int | None = None
        self._waiting: dict[int, memoryview] = {}  # by sequence number
        self.kept = 0  # bytes of segments that wait for a lost one

    def take(self, segment: Segment) -> Iterator[Chunk]:
        """Yield the payload that is complete with this segment."""
        sequence = segment.sequence
        if segment.flags & _SYN:
            yield from self.end()
            self._next, self.from_the_start = (sequence + 1) & 0xFFFFFFFF, True
            sequence = self._next
        if not segment.payload:
            return
        if self._next is None:
            self._next = sequence
        self._keep(sequence, segment.payload)
        yield from self._ready()
        while self.kept > _MOST_WAITING or len(self._waiting) > _MOST_SEGMENTS:
            yield from self._skip()

    def end(self) -> Iterator[Chunk]:
        """Yield what still waits for lost segments."""
        while self._waiting:
            yield from self._skip()

    def _keep(self, sequence: int, payload: memoryview) -> None:
        kept = self._waiting.get(sequence)
        if kept is None or len(kept) < len(payload):
            self.kept += len(payload) - (0 if kept is None else len(kept))
            self._waiting[sequence] = payload

    def _ready(self, lost: int = 0) -> Iterator[Chunk]:
        """Yield what follows without a gap. Bytes that were sent twice are yielded once."""
        assert self._next is not None
        while self._waiting:
            near = min(self._waiting, key=self._distance)
            repeated = -self._distance(near)
            if repeated < 0:
                return
            payload = self._waiting.pop(near)
            self.kept -= len(payload)
            if repeated < len(payload):
                self._next = (self._next + len(payload) - repeated) & 0xFFFFFFFF
                yield Chunk(payload[repeated:], lost)
                lost = 0

    def _skip(self) -> Iterator[Chunk]:
        """Continue after a gap."""
        assert self._next is not None
        near = min(self._waiting, key=self._distance)
        lost = max(0, self._distance(near))
        self._next = (self._next + lost) & 0xFFFFFFFF
        yield from self._ready(lost)

    def _distance(self, sequence: int) -> int:
        """Return how far a sequence number is after the next one; negative before it."""
        assert self._next is not None
        return ((sequence - self._next + 0x80000000) & 0xFFFFFFFF) - 0x80000000


def begins_connection(segment: Segment) -> str | None:
    """Return the client's address if the segment opens a connection, or accepts one; else None."""
    if not segment.flags & _SYN:
        return None
    return segment.target if segment.flags & _ACK else segment.source
