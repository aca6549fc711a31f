"""The sockets of the endpoint: a thread for each connection, one request at a time, limits on everything that clients send.

A slow or silent client holds its own thread only. Records go from file to socket by sendfile. Mirrors SocketServer.
"""

from __future__ import annotations

import secrets
import socket
import struct
from collections import Counter
from contextlib import suppress
from ipaddress import ip_address
from threading import Condition, Lock, Thread
from typing import TYPE_CHECKING, Any, NamedTuple

from engine.errors import KafkalogError
from engine.files import now_ms
from engine.findings import Finding, Where
from engine.protocol.frames import FrameReader
from engine.schema.wire import SchemaError
from engine.serve.apis import Apis, Refused
from engine.serve.cluster import Address

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from engine.log.fetch.stored_groups import StoredGroup
    from engine.serve.catalogue import Catalogue
    from engine.serve.leading import Leader

_IDLE_MS = 600_000  # connections.max.idle.ms
_REQUEST_MS = 60_000  # from the first bytes of a request to its last
_SEND_MS = 60_000  # in which the client accepts no byte
_MAX_REQUEST, _MAX_PRODUCE = 1 << 20, 2 << 20  # bytes of a frame; the second one if producers may write
_MAX_CONNECTIONS = 500
_RECEIVED_AT_ONCE = 64 << 10
_LOCAL_BUFFER = 212_992  # bytes of SO_SNDBUF for a client on this machine: less waits, so caches still have it when it is read


class Counts(NamedTuple):
    """What one connection did so far: requests, bytes of answers, and the last API."""

    client: str = ""
    requests: int = 0
    sent: int = 0
    last: str = ""


class Totals(NamedTuple):
    """What the server did so far: connections, requests by API, bytes of answers, and the time since its start in ms.

    refused  connections that were closed at once because there were too many
    """

    connections: int
    refused: int
    requests: Counter[str]
    sent: int
    ms: int


class CannotListen(KafkalogError):
    """The address cannot be listened on."""

    code = "cannot-listen"
    exit_status = 8


class ConnectionFailed(KafkalogError):
    """A request failed in the server: an error in kafkalog, not in the request."""

    code = "connection-failed"
    exit_status = 8


def open_to_all(address: Address) -> Finding | None:
    """Return the warning about an IP address that other machines reach."""
    if ip_address(address.host).is_loopback:
        return None
    return Finding("open-to-all", Where(str(address)), "there is no authentication")


def _listening(address: Address) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        return socket.create_server(address, family=family, backlog=_MAX_CONNECTIONS)
    except OSError as error:
        why = (error.strerror or str(error)).partition(" (while")[0]  # Python adds the address as a tuple
        what = f"{address}: {why}"
        raise CannotListen(what, "choose another address; --listen 127.0.0.1:0 selects a free port") from error


class Connection:
    """A client's connection. `run` answers its requests until it ends.

    counts  what it did so far
    """

    def __init__(self, server: Server, client: socket.socket, peer: tuple[str, int]) -> None:
        self._server, self._socket = server, client
        self.peer = peer
        self.counts = Counts()
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if ip_address(peer[0]).is_loopback:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _LOCAL_BUFFER)
        self._limit(socket.SO_RCVTIMEO, _IDLE_MS)
        self._limit(socket.SO_SNDTIMEO, _SEND_MS)

    def run(self) -> None:
        """Answer requests until the client leaves, is idle for ten minutes, or sends bytes that are not a request."""
        host, port = self._socket.getsockname()[:2]
        address = self._server.advertised or Address(host, port)
        try:
            for frame in self._frames():
                answer = self._server.apis.answer(frame, address, self.peer[0])
                if answer is None:
                    continue
                self._send(answer.pieces)
                self.counts = Counts(answer.client_id, self.counts.requests + 1, self.counts.sent + answer.size, answer.api)
                self._server.count(answer.api, answer.size)
        except (OSError, Refused):
            return  # a client that left, was too slow, or does not speak Kafka's protocol
        except KafkalogError as error:  # such as a file that became shorter after the size of the answer was sent
            self._server.note(error)
        finally:
            self.close()

    def close(self) -> None:
        """End the connection; a thread that waits on it continues."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _frames(self) -> Iterator[memoryview]:
        """Receive requests until the client ends the connection.

        The memory grows with the bytes that arrive, not with the size that a client announces. Raises Refused for a size that
        no request has, and for a request that takes more than a minute to arrive.
        """
        reader, begun = FrameReader(self._server.largest_request), now_ms()
        is_hurried = False
        try:
            while received := self._socket.recv(_RECEIVED_AT_ONCE):
                if not reader.kept:
                    begun = now_ms()
                for frame in reader.feed(received):
                    yield frame.data
                    begun = now_ms()
                left = begun + _REQUEST_MS - now_ms()
                if reader.kept and left <= 0:
                    raise Refused("a request that does not end")
                if reader.kept or is_hurried:
                    is_hurried = bool(reader.kept)
                    self._limit(socket.SO_RCVTIMEO, left if is_hurried else _IDLE_MS)
        except SchemaError as error:
            raise Refused(str(error)) from error

    def _limit(self, option: int, ms: int) -> None:
        """Let waits for the client end with an OSError after this time."""
        self._socket.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", ms // 1000, ms % 1000 * 1000))

    def _send(self, pieces: list[Any]) -> None:
        try:
            full = [piece for piece in pieces if len(piece)]  # an empty last one would leave the rest waiting for more
            for number, piece in enumerate(full):
                if isinstance(piece, bytes | bytearray | memoryview):
                    self._socket.sendall(piece, socket.MSG_MORE if number + 1 < len(full) else 0)
                else:
                    piece.send(self._socket.fileno())
        finally:
            for piece in pieces:
                if not isinstance(piece, bytes | bytearray | memoryview):
                    piece.close()


class Server:
    """Listens and serves. `start`, then `wait` in the main thread, `close` at the end.

    advertised  the address that clients get for this broker; None: the one to which they connected
    groups      on the disk, with the offsets that they committed
    leader      of logs that are open for producers; None: the server is read-only
    Raises CannotListen.
    """

    def __init__(
        self, catalogue: Catalogue, listen: Address, *, advertised: Address | None = None, groups: Iterable[StoredGroup] = (),
        leader: Leader | None = None,
    ) -> None:  # fmt: skip
        self.advertised, self._catalogue = advertised, catalogue
        self.largest_request = _MAX_REQUEST if leader is None else _MAX_PRODUCE
        self.connections: set[Connection] = set()
        self._ended = Condition()
        self._is_closed = self._is_full = False
        self._lock = Lock()
        self._accepted, self._refused, self._requests, self._sent, self._begun = 0, 0, Counter[str](), 0, now_ms()
        self.apis = Apis(catalogue, now_ms, self._wait, lambda: secrets.randbelow(0x7FFFFFFE) + 1, groups=groups, leader=leader)
        self._socket = _listening(listen)
        self.address = Address(*self._socket.getsockname()[:2])
        self._thread = Thread(target=self._accept, name="kafkalog-accept", daemon=True)

    def start(self) -> None:
        """Begin to serve."""
        self._thread.start()

    @property
    def totals(self) -> Totals:
        """What the server did so far."""
        with self._lock:
            return Totals(self._accepted, self._refused, self._requests.copy(), self._sent, now_ms() - self._begun)

    def count(self, api: str, size: int) -> None:
        """Count an answer of `size` bytes."""
        with self._lock:
            self._requests[api] += 1
            self._sent += size

    def _wait(self, milliseconds: int) -> None:
        """Wait in a request; ends early when the server ends."""
        with self._ended:
            if not self._is_closed:
                self._ended.wait(milliseconds / 1000)

    def _accept(self) -> None:
        while not self._is_closed:
            try:
                client, peer = self._socket.accept()
            except OSError:
                self._wait(50)  # the end, or too many open files
                continue
            if len(self.connections) >= _MAX_CONNECTIONS:
                client.close()
                self._note_refused(peer[0])
                continue
            self._accepted += 1
            self._is_full = False
            try:
                connection = Connection(self, client, peer[:2])
            except OSError:
                client.close()  # the client left already
                continue
            self.connections.add(connection)
            try:
                Thread(target=self._run, args=(connection,), name=f"kafkalog-{peer[1]}", daemon=True).start()
            except RuntimeError as error:  # no more threads
                self.connections.discard(connection)
                connection.close()
                self.note(ConnectionFailed(str(error)))

    def note(self, error: KafkalogError) -> None:
        """Report why a connection was ended; the same reason only once."""
        self._catalogue.note(error)

    def _note_refused(self, host: str) -> None:
        """Count a connection that was closed because there are too many; report the first one since one was accepted."""
        self._refused += 1
        if not self._is_full:
            self._is_full = True
            what = f"{_MAX_CONNECTIONS} connections are open; one from {host} was closed"
            self._catalogue.report(Finding("too-many-connections", Where(str(self.address)), what))

    def _run(self, connection: Connection) -> None:
        try:
            connection.run()
        except Exception as error:  # noqa: BLE001  # an error of ours must not print a traceback, nor end other connections
            host, port = connection.peer
            after = f", after {connection.counts.last}" if connection.counts.last else ""
            what = f"{host}:{port}: the connection was closed{after}: internal error {error!r}"
            self.note(ConnectionFailed(what, "report it: this is an error in kafkalog"))
        finally:
            self.connections.discard(connection)

    def close(self) -> None:
        """End all connections."""
        with self._ended:
            self._is_closed = True
            self._ended.notify_all()
        self.apis.close()
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts; without it, the port would stay open
        self._socket.close()
        for connection in self.connections.copy():
            connection.close()
