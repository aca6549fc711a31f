"""Frames of Kafka's protocol: sizes, headers, requests and responses.

A frame is what follows the four bytes of its size. A server reads frames with `FrameReader`, then:

    request = decode_request(frame)                   # SchemaError: Kafka closes the connection
    pieces = encode_response(request.header, {"throttleTimeMs": 0, ...})

and a client encodes requests and decodes responses with the same header. Values: see `layout`; pieces: see `messages.encode`.
"""

from __future__ import annotations

from struct import Struct as Packed
from typing import TYPE_CHECKING, NamedTuple

from engine.protocol.error_codes import Error
from engine.protocol.layout import UNKNOWN_TAGS, Value
from engine.protocol.messages import MOST_STRUCTS, Api, api_head, api_message, decode, encode, join_pieces
from engine.schema.wire import SchemaError, underflow

if TYPE_CHECKING:
    from collections.abc import Iterator, Sized

LARGEST_FRAME = 100 << 20  # socket.request.max.bytes
_SIZE, _API = Packed(">i"), Packed(">hh")
_UNSUPPORTED_VERSION = Error.UNSUPPORTED_VERSION.to_bytes(2, "big")


class RequestHeader(NamedTuple):
    """The header of a request; `unknown_tags` as in `layout`. Responses need the header of their request, too."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None = None
    unknown_tags: tuple[tuple[int, bytes], ...] = ()


class Request(NamedTuple):
    """A decoded request. `end` is the position after the body: brokers ignore bytes after it."""

    header: RequestHeader
    body: Value
    end: int


class Response(NamedTuple):
    """A decoded response. `version` is that of the body: `request_header.api_version`, for ApiVersions perhaps 0."""

    correlation_id: int
    version: int
    body: Value
    end: int
    unknown_tags: tuple[tuple[int, bytes], ...] = ()


def decode_request_header(frame: bytes | memoryview) -> tuple[RequestHeader, int]:
    """Return the header of a request and the position of the body (RequestHeader.parse).

    The API need not be in the catalogue, and its version need not be known. Raises SchemaError if the frame is too short, or if
    Kafka 4.3.1 does not know the API.
    """
    if len(frame) < _API.size:
        raise underflow(frame, 0)
    api_key, api_version = _API.unpack_from(frame)
    value, at = decode("RequestHeader", _request_header_version(api_key, api_version), frame)
    tags = tuple(value.get(UNKNOWN_TAGS, ()))
    return RequestHeader(api_key, api_version, value["correlationId"], value["clientId"], tags), at


def decode_request(frame: bytes | memoryview, most_structs: int = MOST_STRUCTS) -> Request:
    """Decode a request. Raises SchemaError if its bytes are not a request that Kafka 4.3.1 knows.

    most_structs  see `messages.decode`
    """
    header, at = decode_request_header(frame)
    return Request(header, *decode_request_body(header, frame, at, most_structs))


def decode_request_body(
    header: RequestHeader, frame: bytes | memoryview, at: int, most_structs: int = MOST_STRUCTS
) -> tuple[Value, int]:
    """Return (body, position after it) of the request with that header, whose body begins at `at`. See decode_request."""
    return decode(api_message("request", header.api_key).name, header.api_version, frame, at, most_structs)


def encode_request(header: RequestHeader, body: Value) -> list[Sized]:
    """Return the pieces of a request, the size first. Raises SchemaError for values that do not follow the schema."""
    head: Value = {
        "requestApiKey": header.api_key, "requestApiVersion": header.api_version, "correlationId": header.correlation_id,
        "clientId": header.client_id, UNKNOWN_TAGS: header.unknown_tags,
    }
    name = api_message("request", header.api_key).name
    front = encode("RequestHeader", _request_header_version(header.api_key, header.api_version), head)
    return _framed(front + encode(name, header.api_version, body))


def decode_response(header: RequestHeader, frame: bytes | memoryview) -> Response:
    """Decode the response to the request with that header.

    A broker answers ApiVersions in a version that it does not know in version 0, with the error UNSUPPORTED_VERSION.
    """
    value, at = decode("ResponseHeader", _response_header_version(header), frame)
    name, version = api_message("response", header.api_key).name, response_version(header)
    try:
        body, end = decode(name, version, frame, at)
    except SchemaError:
        if header.api_key != Api.API_VERSIONS or frame[at : at + 2] != _UNSUPPORTED_VERSION:
            raise
        version = 0
        body, end = decode(name, version, frame, at)
    return Response(value["correlationId"], version, body, end, tuple(value.get(UNKNOWN_TAGS, ())))


def encode_response(
    header: RequestHeader, body: Value, unknown_tags: tuple[tuple[int, bytes], ...] = (), version: int | None = None,
) -> list[Sized]:
    """Return the pieces of the response to the request with that header, the size first.

    version  of the body; None: `response_version`
    """
    head: Value = {"correlationId": header.correlation_id, UNKNOWN_TAGS: unknown_tags}
    name = api_message("response", header.api_key).name
    front = encode("ResponseHeader", _response_header_version(header), head)
    return _framed(front + encode(name, response_version(header) if version is None else version, body))


def response_version(header: RequestHeader) -> int:
    """Return the version of the response's body: that of the request, but 0 for ApiVersions in an unknown version."""
    known = header.api_version in api_message("request", header.api_key).versions
    return 0 if header.api_key == Api.API_VERSIONS and not known else header.api_version


def _request_header_version(api_key: int, api_version: int) -> int:
    flexible = api_head(api_key).flexible
    return 2 if flexible is not None and api_version in flexible else 1


def _response_header_version(header: RequestHeader) -> int:
    if header.api_key == Api.API_VERSIONS:
        return 0  # the client does not know yet what the broker can read
    flexible = api_message("response", header.api_key).flexible
    return 1 if flexible is not None and header.api_version in flexible else 0


def _framed(pieces: list[Sized]) -> list[Sized]:
    size = sum(map(len, pieces))
    if size > 0x7FFFFFFF:
        raise SchemaError(f"a frame of {size} bytes is too large")
    return join_pieces([_SIZE.pack(size), *pieces])


class Frame(NamedTuple):
    """A frame; `position` is the byte position of its size in the stream."""

    position: int
    data: memoryview


class FrameReader:
    """Splits a stream into frames. `feed` takes chunks of any size; no more than one frame is kept.

    A frame that is whole in its chunk is a part of it: the chunk must not change.
    """

    def __init__(self, largest: int = LARGEST_FRAME) -> None:
        self._largest = largest
        self._buffer = bytearray()
        self._position = 0

    def feed(self, chunk: bytes | memoryview) -> Iterator[Frame]:
        """Yield the frames that the chunk completes. Raises SchemaError for a size that is negative or above the largest.

        The data of a frame stays valid. Exhaust the iterator before the next call.
        """
        left = memoryview(chunk).toreadonly()
        while left:
            if not self._buffer and (whole := self._whole(left)):
                yield Frame(self._position, left[_SIZE.size : whole])
                self._position += whole
                left = left[whole:]
                continue
            missing = self._missing()
            self._buffer += left[:missing]
            left = left[missing:]
            if self._missing() == 0 and len(self._buffer) >= _SIZE.size:
                data, self._buffer = self._buffer, bytearray()
                yield Frame(self._position, memoryview(data).toreadonly()[_SIZE.size :])
                self._position += len(data)

    def _whole(self, data: memoryview) -> int:
        """Return the size of the whole frame at the start of `data`, with its size field; 0: it is not whole, or not valid."""
        size: int = _SIZE.unpack_from(data)[0] if len(data) >= _SIZE.size else -1
        return _SIZE.size + size if 0 <= size <= min(self._largest, len(data) - _SIZE.size) else 0

    @property
    def kept(self) -> int:
        """Return the number of bytes of an incomplete frame."""
        return len(self._buffer)

    def end(self) -> None:
        """Check that the stream does not end inside a frame. Raises SchemaError."""
        if self._buffer:
            found, missing = len(self._buffer), self._missing()
            what = "the size of a frame" if found < _SIZE.size else "a frame"
            raise SchemaError(
                f"the stream ends inside {what}: {found} bytes from byte {self._position} on, {missing} are missing",
                at=self._position,
            )

    def _missing(self) -> int:
        """Return how many bytes the size, or the frame of that size, needs yet."""
        found = len(self._buffer)
        if found < _SIZE.size:
            return _SIZE.size - found
        size: int = _SIZE.unpack_from(self._buffer)[0]
        if not 0 <= size <= self._largest:
            raise SchemaError(f"a frame of {size} bytes; 0 to {self._largest} are allowed", at=self._position)
        return _SIZE.size + size - found
