"""A server over copies of log dirs, and sessions of real clients that are sent to it again."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import struct
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from engine.files import ReadOnlyFiles
from engine.log.fetch.stored_groups import read_groups
from engine.log.fetch.view import PartitionView
from engine.log.logdir.log_dirs import find_log_dirs
from engine.protocol.frames import decode_request_header, decode_response
from engine.protocol.messages import to_json
from engine.record.builder import NewRecord, build_batch
from engine.serve.catalogue import Catalogue, Wanted
from engine.serve.cluster import Address
from engine.serve.server import Server
from tests.support.corpus import wire_corpus

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

CONSUME = wire_corpus() / "consume"
OWN_ONLY = pytest.mark.skipif("KAFKALOG_WIRE_CORPUS" in os.environ, reason="has offsets of the project's own corpus")
SESSIONS = sorted(path.name for path in (CONSUME / "sessions").iterdir())


class Exchange(NamedTuple):
    """A request of a session, and the answer to it; None: there was none."""

    connection: int
    request: bytes
    answer: bytes | None


def exchanges(session: str) -> list[Exchange]:
    """Return what a client and the broker sent each other, in the order of the requests."""
    folder = CONSUME / "sessions" / session
    data = (folder / "frames.bin").read_bytes()
    lines = [one for one in map(json.loads, (folder / "frames.jsonl").read_text().splitlines()) if "n" in one]
    frames = {one["n"]: data[one["at"] : one["at"] + one["size"]] for one in lines}
    answers = {one["request"]: frames[one["n"]] for one in lines if one["direction"] == "response"}
    return [Exchange(one["connection"], frames[one["n"]], answers.get(one["n"])) for one in lines if one["direction"] == "request"]


@contextmanager
def serving(paths: list[str], wanted: Wanted = Wanted(), **options: Any) -> Iterator[Server]:  # noqa: B008  # it does not change
    """Serve the log dirs at `paths` on a free port."""
    files = ReadOnlyFiles()
    catalogue = Catalogue(files, find_log_dirs(files, paths), wanted, print, failed=print, **options)
    groups = read_groups(files, [one.path for one in catalogue.log_dirs], print).values()
    server = Server(catalogue, Address("127.0.0.1", 0), groups=groups)
    server.start()
    try:
        yield server
    finally:
        server.close()
        catalogue.close()


def copied_log_dirs(target: Path) -> list[str]:
    """Copy the log dirs that the sessions were recorded on."""
    shutil.copytree(CONSUME / "logs", target)
    for path in [target, *target.rglob("*")]:
        path.chmod(path.stat().st_mode | 0o200)
    for topic, partitions in epochs_of_the_run().items():
        for index, epoch in partitions.items():
            raise_epoch(next(target.glob(f"d?/{topic}-{index}")), epoch)
    return sorted(str(path) for path in target.glob("d?"))


@contextmanager
def unchanged(paths: list[str]) -> Iterator[None]:
    """Forbid to write below `paths`, and check afterwards that every file is as it was."""
    before = digests(paths)
    everything = [one for path in paths for one in [Path(path), *Path(path).rglob("*")]]
    for one in everything:
        one.chmod(one.stat().st_mode & ~0o222)
    try:
        yield
        assert digests(paths) == before
    finally:
        for one in everything:
            one.chmod(one.stat().st_mode | 0o200)


def digests(paths: list[str]) -> dict[Path, tuple[bytes, int]]:
    """Return the content and the time of change of every file below `paths`."""
    files = sorted(path for one in paths for path in Path(one).rglob("*") if path.is_file())
    return {path: (hashlib.sha256(path.read_bytes()).digest(), path.stat().st_mtime_ns) for path in files}


def large_partition(directory: Path) -> Path:
    """Make a partition of 24 MiB: more than the buffers of a connection."""
    partition = directory / "large-0"
    partition.mkdir()
    with (partition / "00000000000000000000.log").open("wb") as log:
        for offset in range(24):
            log.write(build_batch([NewRecord(offset, 1, None, bytes(1 << 20), [])], base_offset=offset))
    return partition


def epochs_of_the_run() -> dict[str, dict[int, int]]:
    """Return the leader epochs while the sessions were recorded: each start of a broker raises them."""
    described = [json.loads(line) for line in (CONSUME / "sessions/tool-topics-describe/frames.jsonl").read_text().splitlines()]
    topics = next(one["body"]["topics"] for one in described
                  if one.get("api") == "DescribeTopicPartitions" and one["direction"] == "response")  # fmt: skip
    return {topic["name"]: {one["partitionIndex"]: one["leaderEpoch"] for one in topic["partitions"]} for topic in topics}


def raise_epoch(directory: Path, epoch: int) -> None:
    """Begin a leader epoch at the end of a log, as a starting leader does."""
    view = PartitionView(ReadOnlyFiles(), str(directory), print)
    end = view.log_end_offset
    view.close()
    path = directory / "leader-epoch-checkpoint"
    entries = [line for line in path.read_text().splitlines()[2:] if int(line.split()[0]) < epoch and int(line.split()[1]) < end] if path.exists() else []
    entries.append(f"{epoch} {end}")
    path.write_text("\n".join(["0", str(len(entries)), *entries]) + "\n")


def received(client: socket.socket) -> bytes | None:
    """Receive a frame with its size; None: the server ended the connection."""
    data = b""
    while len(data) < 4 or len(data) < 4 + struct.unpack(">i", data[:4])[0]:
        more = client.recv(1 << 18)
        if not more:
            return None
        data += more
    return data


def body_of(request: bytes, answer: bytes) -> dict[str, Any]:
    """Return the body of an answer as Kafka's JSON, with the bytes of records."""
    header, _ = decode_request_header(memoryview(request)[4:])
    response = decode_response(header, memoryview(answer)[4:])
    from engine.protocol.messages import api_message

    body = to_json(api_message("response", header.api_key).name, response.version, response.body)
    return {"api": header.api_key, **without_living_topics(body), "records": list(_records(response.body))}


def without_living_topics(value: Any) -> Any:
    """Leave out offsets of the topics that groups and transactions went on writing while the sessions were recorded."""
    if isinstance(value, list):
        return [without_living_topics(one) for one in value if not (_is_living(one) and "topicId" not in one)]
    return {name: without_living_topics(each) for name, each in value.items()} if isinstance(value, dict) else value


def _is_living(one: Any) -> bool:
    return isinstance(one, dict) and str(one.get("name", one.get("topic", ""))).startswith("__")


def _records(value: Any) -> Iterator[str]:
    if isinstance(value, dict) and not _is_living(value):
        for name, each in value.items():
            if name == "records" and isinstance(each, memoryview):
                yield bytes(each).hex()
            else:
                yield from _records(each)
    elif isinstance(value, list):
        for each in value:
            yield from _records(each)
