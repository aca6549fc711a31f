"""The sockets of the endpoint: one thread for each connection, one request at a time on each, bounds on everything.

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
from engine.serve.apis import Apis, Client, Refused
from engine.serve.cluster import Address

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.log.fetch.stored_groups import StoredGroup
    from engine.serve.catalogue import Catalogue
    from engine.serve.leading import Leader

_IDLE_SECONDS = 600  # connections.max.idle.ms
_SEND_SECONDS = 60  # without one byte taken by the client
_MAX_REQUEST = 2 << 20  # bytes of a frame
_MAX_CONNECTIONS = 500
_RECEIVED_AT_ONCE = 64 << 10


class Counts(NamedTuple):
    """What one connection did so far: requests, bytes of answers, and the last API."""

    client: str = ""
    requests: int = 0
    sent: int = 0
    last: str = ""


class Totals(NamedTuple):
    """What the server did so far: connections, requests by API, bytes of answers, and the time since its start in ms."""

    connections: int
    requests: Counter[str]
    sent: int
    ms: int


class CannotListen(KafkalogError):
    """The address cannot be listened on."""

    code = "cannot-listen"
    exit_status = 8


class ConnectionFailed(KafkalogError):
    """A request that the server cannot answer because of a fault of its own."""

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
        raise CannotListen(what, "name another address: --listen 127.0.0.1:0 takes a free port") from error


class Connection:
    """A client's connection. `run` answers its requests until it ends.

    counts  what it did so far
    """

    def __init__(self, server: Server, client: socket.socket, peer: tuple[str, int]) -> None:
        self._server, self._socket = server, client
        self.peer = peer
        self.counts = Counts()
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for option, seconds in ((socket.SO_RCVTIMEO, _IDLE_SECONDS), (socket.SO_SNDTIMEO, _SEND_SECONDS)):
            client.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", seconds, 0))

    def run(self) -> None:
        """Answer requests until the client leaves, is idle for ten minutes, or sends what no client sends."""
        host, port = self._socket.getsockname()[:2]
        client = Client(self._server.advertised or Address(host, port), self.peer[0])
        try:
            while (frame := self._frame()) is not None:
                answer = self._server.apis.answer(frame, client)
                if answer is None:
                    continue
                self._send(answer.pieces)
                self.counts = Counts(answer.client_id, self.counts.requests + 1, self.counts.sent + answer.size, answer.api)
                self._server.count(answer.api, answer.size)
        except (OSError, Refused):
            return  # a client that left, was too slow, or does not speak Kafka's protocol
        finally:
            self.close()

    def close(self) -> None:
        """End the connection; a thread that waits on it goes on."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _frame(self) -> memoryview | None:
        """Receive a request; None: the client ended the connection between two requests."""
        head = self._receive(4, is_first=True)
        if head is None:
            return None
        (size,) = struct.unpack(">i", head)
        if not 0 < size <= _MAX_REQUEST:
            raise Refused(f"a request of {size} bytes")
        return self._receive(size)

    def _receive(self, size: int, *, is_first: bool = False) -> memoryview | None:
        """Receive exactly `size` bytes. The memory grows with what arrives, not with what was announced."""
        data = bytearray()
        while len(data) < size:
            more = self._socket.recv(min(size - len(data), _RECEIVED_AT_ONCE))
            if not more:
                if is_first and not data:
                    return None
                raise Refused("the connection ended within a request")
            data += more
        return memoryview(data)

    def _send(self, pieces: list[Any]) -> None:
        try:
            for number, piece in enumerate(pieces):
                if isinstance(piece, bytes | bytearray | memoryview):
                    self._socket.sendall(piece, socket.MSG_MORE if number + 1 < len(pieces) else 0)
                else:
                    piece.send(self._socket.fileno())
        finally:
            for piece in pieces:
                if not isinstance(piece, bytes | bytearray | memoryview):
                    piece.close()


class Server:
    """Listens and serves. `start`, then `wait` in the main thread, `close` at the end.

    advertised  the address that clients are told; None: the one to which they connected
    groups      on the disk, with the offsets that they committed
    leader      of logs that are open for producers; None: the server is read-only
    Raises CannotListen.
    """

    def __init__(
        self, catalogue: Catalogue, listen: Address, *, advertised: Address | None = None, groups: Iterable[StoredGroup] = (),
        leader: Leader | None = None,
    ) -> None:  # fmt: skip
        self.advertised, self._catalogue = advertised, catalogue
        self.connections: set[Connection] = set()
        self._ended = Condition()
        self._is_closed = False
        self._lock = Lock()
        self._accepted, self._requests, self._sent, self._begun = 0, Counter[str](), 0, now_ms()
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
            return Totals(self._accepted, self._requests.copy(), self._sent, now_ms() - self._begun)

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
                continue
            self._accepted += 1
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
                self._catalogue.note(ConnectionFailed(str(error)))

    def _run(self, connection: Connection) -> None:
        try:
            connection.run()
        except Exception as error:  # noqa: BLE001  # a fault of ours must not print a traceback, nor end other connections
            host, port = connection.peer
            self._catalogue.note(ConnectionFailed(f"{host}:{port}, after {connection.counts.last or 'the start'}: {error!r}"))
        finally:
            self.connections.discard(connection)

    def close(self) -> None:
        """End all connections."""
        with self._ended:
            self._is_closed = True
            self._ended.notify_all()
        self.apis.close()
        self._socket.close()
        for connection in self.connections.copy():
            connection.close()
