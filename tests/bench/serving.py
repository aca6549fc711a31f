"""`kafkalog serve` beside a real broker with the same segments: bytes per second to clients, and processor time of the server."""

from __future__ import annotations

import os
import shutil
import socket
import statistics
import struct
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from engine.protocol.frames import RequestHeader, encode_request
from tests.bench import consuming
from tests.bench.measure import WrongRunError, run, same_output
from tests.bench.report import Result
from tests.support.corpus import own_corpus_directory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.bench.setting import Bench

_MIB = 1 << 20
_FETCH, _VERSION = 1, 4
_CLIENTS, _EACH = 100, 16 * _MIB
_PARTITIONS = 1000
_MEMORY = 80 * _MIB
_HEAD = struct.Struct(">qi")  # of a batch: base offset, bytes after these 12


class _Server(NamedTuple):
    port: int
    pid: int


class _Reading(NamedTuple):
    seconds: float
    cpu_seconds: float  # of the server
    size: int


def serve(bench: Bench) -> Iterator[Result]:
    """All rows."""
    source = bench.partition("none-0")
    copied = bench.home / f"serve/{consuming.TOPIC}-0"  # on the file system of the broker's copy: its page cache decides
    shutil.rmtree(copied.parent, ignore_errors=True)
    shutil.copytree(source, copied)
    log_dirs = own_corpus_directory() / "kafka-4.3.1/logs/clean"
    with consuming.broker_with(log_dirs, source, bench.home) as broker, _ours(bench, copied.parent) as ours:
        theirs = _Server(broker.port, broker.pid)
        _wait_for_leader(theirs)
        for limit, target in ((8 * _MIB, 1.0), (_MIB, 0.8)):
            yield from _read_through(theirs, ours, limit, target, bench.runs)
        yield _client(bench, theirs, ours)
        yield _at_once(ours)
    yield _started(bench, copied)
    shutil.rmtree(copied.parent)


@contextmanager
def _ours(bench: Bench, *paths: Path) -> Iterator[_Server]:
    with subprocess.Popen([*bench.kafkalog, "serve", "--listen", "127.0.0.1:0", *map(str, paths)], stdout=subprocess.PIPE,
                          text=True) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            first = process.stdout.readline()
            yield _Server(int(first.rpartition(" at ")[2].partition(",")[0].rpartition(":")[2]), process.pid)
        finally:
            process.terminate()


def _cpu(pid: int) -> float:
    """Processor time of a process, in seconds."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def _peak(pid: int) -> int:
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) << 10


class _Consumer:
    """A client that does as little as possible: it asks for the next offset, and looks at nothing but the batches' ends."""

    def __init__(self, port: int, limit: int) -> None:
        self._limit = limit
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = memoryview(bytearray(limit + 4096))

    def read(self, most: int) -> int:
        """Read from the start → the bytes of records: `most`, or up to the end of the log."""
        offset = total = 0
        while total < most:
            records = self._fetch(offset)
            at = 0
            while len(records) - at >= 61:
                base, size = _HEAD.unpack_from(records, at)
                if 12 + size > len(records) - at:
                    break
                offset = base + int.from_bytes(records[at + 23 : at + 27], "big") + 1
                at += 12 + size
            if not at:
                break
            total += at
        return total

    def _fetch(self, offset: int) -> memoryview:
        asked = {"partition": 0, "fetchOffset": offset, "partitionMaxBytes": self._limit}
        body = {"replicaId": -1, "maxWaitMs": 0, "minBytes": 0, "maxBytes": self._limit, "isolationLevel": 0,
                "topics": [{"topic": consuming.TOPIC, "partitions": [asked]}]}  # fmt: skip
        self._socket.sendall(b"".join(encode_request(RequestHeader(_FETCH, _VERSION, 1, "bench"), body)))
        size = struct.unpack(">i", self._receive(4))[0]
        frame = self._receive(size)
        at = 4 + 4 + 4 + 2 + len(consuming.TOPIC) + 4 + 4
        error, aborted = struct.unpack_from(">h", frame, at)[0], struct.unpack_from(">i", frame, at + 18)[0]
        if error or aborted > 0:
            raise WrongRunError(f"error {error} for offset {offset}")
        return frame[at + 26 :]

    def _receive(self, size: int) -> memoryview:
        if size > len(self._buffer):
            self._buffer = memoryview(bytearray(size))
        done = 0
        while done < size:
            count = self._socket.recv_into(self._buffer[done:size])
            if not count:
                raise WrongRunError("the server ended the connection")
            done += count
        return self._buffer[:size]

    def close(self) -> None:
        self._socket.close()


def _wait_for_leader(server: _Server) -> None:
    """A broker that has just started does not lead its partitions yet."""
    due = time.monotonic() + 60
    while True:
        client = _Consumer(server.port, _MIB)
        try:
            client.read(1)
        except WrongRunError:
            if time.monotonic() > due:
                raise
            time.sleep(0.5)
        else:
            return
        finally:
            client.close()


def _reading(server: _Server, limit: int) -> _Reading:
    client, begun, cpu = _Consumer(server.port, limit), time.perf_counter(), _cpu(server.pid)
    size = client.read(1 << 40)
    done = _Reading(time.perf_counter() - begun, _cpu(server.pid) - cpu, size)
    client.close()
    return done


def _read_through(theirs: _Server, ours: _Server, limit: int, target: float, runs: int) -> Iterator[Result]:
    """A partition read several times to its end, one connection: seconds, and processor time of the server."""
    readings: dict[_Server, list[_Reading]] = {theirs: [], ours: []}
    for server in readings:
        _reading(server, limit)
    for _ in range(max(9, runs)):
        for server, done in readings.items():
            done.append(_reading(server, limit))
    (first, *_), (second, *_) = readings.values()
    if first.size != second.size:
        raise WrongRunError(f"{first.size} bytes from the broker, {second.size} from kafkalog")
    seconds, cpu = ({server: statistics.median(getattr(one, name) for one in done) for server, done in readings.items()}
                    for name in ("seconds", "cpu_seconds"))  # fmt: skip
    cpu = {server: sum(one.cpu_seconds for one in done) / len(done) for server, done in readings.items()}
    name = f"Fetch, {limit >> 20} MiB at most"
    yield Result("uncompressed", f"serve: {name}", seconds[ours], seconds[theirs], target, _peak(ours.pid), _peak(theirs.pid), None,
                 _MEMORY, cpu[ours], cpu[theirs], "broker")  # fmt: skip
    if limit > _MIB:
        yield Result("uncompressed", f"serve: processor time, {name}", cpu[ours], cpu[theirs], 1 / 0.6, rival="broker")


def _client(bench: Bench, theirs: _Server, ours: _Server) -> Result:
    """kcat, which is librdkafka, as a whole process."""
    if shutil.which("kcat") is None:
        raise WrongRunError("there is no kcat: apt-get install kcat")
    done: dict[_Server, list[float]] = {theirs: [], ours: []}
    for _ in range(max(5, bench.runs)):
        for server, seconds in done.items():
            command = ["kcat", "-C", "-q", "-e", "-b", f"127.0.0.1:{server.port}", "-t", consuming.TOPIC, "-p", "0", "-o", "beginning",
                       "-X", f"fetch.message.max.bytes={8 * _MIB}", "-f", "%o %s\n"]  # fmt: skip
            seconds.append(run(command, bench.home, bench.out / f"kcat-{server.port}.out").seconds)
    same_output(bench.out / f"kcat-{ours.port}.out", bench.out / f"kcat-{theirs.port}.out", "serve")
    return Result("uncompressed", "serve: kcat reads a partition", statistics.median(done[ours]), statistics.median(done[theirs]), 1.0,
                  rival="broker")  # fmt: skip


def _at_once(ours: _Server) -> Result:
    """100 connections at once: the slowest one beside the mean."""
    clients = [_Consumer(ours.port, _MIB) for _ in range(_CLIENTS)]

    def timed(client: _Consumer) -> float:
        begun = time.perf_counter()
        client.read(_EACH)
        return time.perf_counter() - begun

    with ThreadPoolExecutor(_CLIENTS) as pool:
        seconds = list(pool.map(timed, clients))
    for client in clients:
        client.close()
    slowest, mean = max(seconds), statistics.mean(seconds)
    return Result("uncompressed", f"serve: {_CLIENTS} connections at once, the slowest", slowest, mean, 0.5, _peak(ours.pid),
                  peak_limit=_MEMORY + _CLIENTS * _MIB, rival="their mean")  # fmt: skip


def _started(bench: Bench, partition: Path) -> Result:
    """From the start of the process to the first byte of records, with 1,000 partitions."""
    top = bench.out / "many"
    segment = next(partition.glob("*.log"))
    with segment.open("rb") as file:
        size = 12 + _HEAD.unpack(file.read(12))[1]
    for number in range(_PARTITIONS):
        directory = top / f"{consuming.TOPIC}-{number}"
        directory.mkdir(parents=True)
        (directory / segment.name).write_bytes(segment.open("rb").read(size))
    seconds = []
    for _ in range(max(5, bench.runs)):
        begun = time.perf_counter()
        with _ours(bench, top) as server:
            client = _Consumer(server.port, _MIB)
            if not client.read(1):
                raise WrongRunError("no record came")
            seconds.append(time.perf_counter() - begun)
            client.close()
    return Result("1,000 partitions", "serve: first byte after the start of the process", statistics.median(seconds), None, None,
                  limit=0.3)  # fmt: skip
