"""Requests and responses of a captured stream: which frame is which, and which response answers which request.

Frames have no direction. `Exchange.take` accepts frames of both in one stream, as in a file of frames; `request` and `response`
accept those whose direction is known, as in a packet capture.
"""

from __future__ import annotations

from collections import OrderedDict
from struct import Struct
from typing import TYPE_CHECKING, Any, NamedTuple

from engine.protocol.frames import LARGEST_FRAME, Frame, RequestHeader, decode_request_header, decode_response
from engine.protocol.layout import ZERO_ID
from engine.protocol.messages import Api, api_head, api_message, decode
from engine.schema.readers import length_reader
from engine.schema.wire import SchemaError

if TYPE_CHECKING:
    from engine.protocol.layout import Value

_MOST_OPEN = 10_000  # requests without a response: a file may have no responses at all
_ACKS = (-1, 0, 1)
_ACKS_AND_TIMEOUT = Struct(">hi")
_TOPICS = {"topics", "topicData", "responses"}  # arrays with a topic's `name`
_NAMES, _NESTED = {"topic", "topicName", "topicId"}, (list, dict)


class Message(NamedTuple):
    """A frame that was decoded as far as possible.

    is_request  None: it is neither a request nor a response to one before
    header      of the request, also in its response; None if the frame has none, or the request is not known
    version     of the body
    body        None if it could not be decoded; `problem` is the reason
    request     of a response: the position of the request
    unread      the number of bytes after the body
    """

    frame: Frame
    is_request: bool | None
    header: RequestHeader | None = None
    version: int = -1
    body: Value | None = None
    problem: SchemaError | None = None
    request: int | None = None
    unread: int = 0

    @property
    def name(self) -> str:
        """Return the name of the message that `body` is a value of."""
        assert self.header is not None
        return api_message("request" if self.is_request else "response", self.header.api_key).name


class Exchange:
    """Pairs the requests and responses of one stream; only the headers of open requests are kept."""

    def __init__(self) -> None:
        # by correlation id, API and version: positions and headers, the oldest first
        self._open: OrderedDict[int, dict[tuple[int, int], list[tuple[int, RequestHeader]]]] = OrderedDict()
        self._count = 0

    def take(self, frame: Frame) -> Message:
        """Decode a frame of unknown direction.

        It answers an open request with its correlation id if it is a whole response of that API and version, the oldest one if
        there are several. Else it is a request.
        """
        as_response = self._answered(frame, whole=True)
        if as_response is not None:
            return as_response
        as_request = _read_request(frame)
        if as_request.body is not None and not as_request.unread:
            return self._opened(as_request)
        if as_request.header is None or not _is_plausible(as_request.header):
            return self._answered(frame, whole=False) or Message(frame, None, problem=as_request.problem)
        return self._opened(as_request)

    def request(self, frame: Frame) -> Message:
        """Decode a request."""
        message = _read_request(frame)
        return self._opened(message) if message.header is not None else message

    def response(self, frame: Frame) -> Message:
        """Decode a response."""
        found = self._answered(frame, whole=False)
        if found is None:
            problem = SchemaError("no request before it has its correlation id")
            return Message(frame, is_request=False, problem=problem)
        return found

    def is_open(self, correlation_id: int) -> bool:
        """Return whether a request with that correlation id has no response yet."""
        return correlation_id in self._open

    def _opened(self, message: Message) -> Message:
        header, body = message.header, message.body
        assert header is not None
        if header.api_key == Api.PRODUCE and body is not None and body["acks"] == 0:
            return message  # is not answered
        kind = header.api_key, header.api_version
        self._open.setdefault(header.correlation_id, {}).setdefault(kind, []).append((message.frame.position, header))
        self._count += 1
        if self._count > _MOST_OPEN:
            oldest, waiting = next(iter(self._open.items()))
            self._forget(oldest, next(iter(waiting)))
        return message

    def _forget(self, correlation_id: int, kind: tuple[int, int]) -> None:
        """Remove the oldest open request of a kind."""
        waiting = self._open[correlation_id]
        waiting[kind].pop(0)
        self._count -= 1
        if not waiting[kind]:
            del waiting[kind]
        if not waiting:
            del self._open[correlation_id]

    def _answered(self, frame: Frame, *, whole: bool) -> Message | None:
        """Return the frame as the response to an open request, which is closed; None if it is not one.

        whole  only if all of its bytes can be decoded
        """
        correlation_id = int.from_bytes(frame.data[:4], signed=True)
        waiting = self._open.get(correlation_id) if len(frame.data) >= 4 else None
        for kind, requests in (waiting or {}).items():
            position, header = requests[0]
            try:
                found = decode_response(header, frame.data)
            except SchemaError as error:
                message = Message(frame, False, header, header.api_version, problem=_without_frames(error), request=position)
            else:
                unread = len(frame.data) - found.end
                message = Message(frame, False, header, found.version, found.body, request=position, unread=unread)
            if not whole or (message.body is not None and not message.unread):
                self._forget(correlation_id, kind)
                return message
        return None


def _without_frames(error: SchemaError) -> SchemaError:
    """Return the error without its traceback, which would keep the bytes of the message until garbage is collected."""
    error.__context__ = None
    return error.with_traceback(None)


def _read_request(frame: Frame) -> Message:
    """Return the frame as a request; `header` is None if it does not even have a header."""
    try:
        header, at = decode_request_header(frame.data)
    except SchemaError as error:
        return Message(frame, is_request=True, problem=_without_frames(error))
    try:
        body, end = decode(api_message("request", header.api_key).name, header.api_version, frame.data, at)
    except SchemaError as error:
        return Message(frame, True, header, header.api_version, problem=_without_frames(error))
    return Message(frame, True, header, header.api_version, body, unread=len(frame.data) - end)


def _is_plausible(header: RequestHeader) -> bool:
    """Return whether this is a request header, although its body cannot be decoded: other bytes may look like one."""
    client = header.client_id or ""
    return 0 <= header.api_version < 100 and header.correlation_id >= 0 and client.isprintable()


def looks_like_request(data: memoryview) -> bool:
    """Return whether a request with its size may begin at the start of `data`, which may end inside it.

    Responses begin much like requests to Produce: such a request must be whole, or `data` must end inside its records. A
    request that is not whole needs a client id.
    """
    size = int.from_bytes(data[:4], signed=True)
    if len(data) < 14 or not 8 <= size <= LARGEST_FRAME:
        return False
    message = _read_request(Frame(0, data[4 : 4 + size]))
    header = message.header
    if header is None or not _is_plausible(header):
        return False
    if len(data) - 4 >= size:
        return header.api_key != Api.PRODUCE or _is_produce(message)
    return bool(header.client_id) and (header.api_key != Api.PRODUCE or _begins_produce(message, size))


def _is_produce(message: Message) -> bool:
    body = message.body
    return body is not None and not message.unread and body["acks"] in _ACKS and body["timeoutMs"] > 0


def _begins_produce(message: Message, size: int) -> bool:
    """Return whether the frame can be the beginning of a request to Produce of `size` bytes, up to a place in its records."""
    frame, problem = message.frame.data, message.problem
    if problem is None or problem.at is None or "records" not in problem.path:
        return False
    header, at = decode_request_header(frame)
    is_flexible = header.api_version in (api_head(Api.PRODUCE).flexible or ())
    length, at = length_reader("string", is_flexible)(frame, at)
    acks, timeout = _ACKS_AND_TIMEOUT.unpack_from(frame, at + max(0, length))
    try:
        length, at = length_reader("records", is_flexible)(frame, problem.at)
    except SchemaError:  # the frame ends inside it
        return False
    return acks in _ACKS and timeout > 0 and length <= size - at


def names_in(value: Any) -> set[str]:
    """Return the topics, by name or id, that a body has in `topic`, `topicName`, `topicId`, and in `name` below topics."""
    found: set[str] = set()
    waiting: list[tuple[str, Any]] = [("", value)]
    while waiting:
        parent, one = waiting.pop()
        if isinstance(one, list):
            waiting += [(parent, each) for each in one if isinstance(each, dict)]
        elif isinstance(one, dict):
            for key, each in one.items():
                if isinstance(each, str):
                    if key in _NAMES or (key == "name" and parent in _TOPICS):
                        found.add(each)
                elif isinstance(each, _NESTED):
                    waiting.append((key, each))
    return found - {"", ZERO_ID}
