"""Sessions of damaged requests, sent to the APIs of a server: each is answered, or ends its connection, and costs little."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections import Counter
from contextlib import ExitStack, closing
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from engine.config.topic import LogConfig
from engine.files import Files, ReadOnlyFiles
from engine.log.fetch.stored_groups import read_groups
from engine.log.logdir.log_dirs import find_log_dirs
from engine.protocol.frames import decode_request, decode_request_header, decode_response, encode_request
from engine.protocol.messages import api_name, api_versions
from engine.schema.wire import SchemaError
from engine.serve.apis import Apis, Refused
from engine.serve.catalogue import Catalogue, Wanted
from engine.serve.cluster import Address
from engine.serve.leading import Leader
from tests.fuzz.mutate import repaired
from tests.serve.serving import copied_log_dirs
from tests.support.corpus import wire_corpus
from tests.support.logs import open_log
from tests.support.protocol_values import Values
from tests.support.schema_bytes import mutate
from tests.support.wire_frames import captured, sessions

if TYPE_CHECKING:
    from collections.abc import Iterator

_LONGEST = 6  # requests of a session
_LARGEST = 20_000  # bytes of a request
_LARGEST_ANSWER = 56 << 20  # bytes: fetch.max.bytes, and what else an answer has
_PATIENCE_MS = 10 * 60_000  # longer than anything that a request may wait for
NOW = 1795426000000


class Session(NamedTuple):
    """Requests of one client, without their sizes. `case`: the topic of a producer, to which it may write; None: read-only."""

    case: str | None
    frames: list[bytes]


@cache
def _recorded() -> list[Session]:
    found = []
    for folder in sessions(wire_corpus()):
        is_producer = folder.parent.name == "produce" and (folder / f"{folder.name}-0").is_dir()
        frames = [one.frame for one in captured(folder) if one.is_request and len(one.frame) <= _LARGEST]
        if frames:
            found.append(Session(folder.name if is_producer else None, frames))
    return found


@cache
def _known() -> tuple[list[str], list[str]]:
    """Names of topics and groups, and ids of topics, that a server knows."""
    found = [path.parent for path in (wire_corpus() / "consume/logs").rglob("partition.metadata")]
    ids = [(path / "partition.metadata").read_text().split("topic_id: ")[1].strip() for path in found]
    return sorted({path.name.rpartition("-")[0] for path in found} | {"g", ""}), sorted(ids)


class _KnownValues(Values):
    """Random values, with names and ids that a server knows."""

    def _single(self, field):
        names, ids = _known()
        if field.type == "string" and self.rng.random() < 0.7:
            return self.rng.choice(names)
        if field.type == "uuid" and self.rng.random() < 0.7:
            return self.rng.choice(ids)
        return super()._single(field)


def make_session(seed: int, number: int) -> Session:
    """Session `number` of a run: the same anywhere. At least one of its requests is damaged, or has random values."""
    rng = random.Random(f"requests {seed}:{number}")
    recorded = rng.choice(_recorded())
    first = rng.randrange(len(recorded.frames))
    frames = recorded.frames[first : first + rng.randrange(1, _LONGEST + 1)]
    if recorded.case is not None:  # what producers begin with
        frames = [one for one in recorded.frames[:first] if api_name(one[1]) == "InitProducerId"][:1] + frames
    for at in {rng.randrange(len(frames)) for _ in range(rng.randrange(1, 4))}:
        frames[at] = _random_request(rng) if rng.random() < 0.3 else _damaged(rng, frames[at])
    return Session(recorded.case, frames)


def _damaged(rng: random.Random, frame: bytes) -> bytes:
    """Damage a request; of one with records often only its fields, or only its records, whose checksums are then right."""
    header, _ = decode_request_header(frame)
    api = api_name(header.api_key)
    if api != "Produce" or header.api_version not in api_versions(header.api_key) or rng.random() < 0.3:
        return mutate(rng, frame)
    if rng.random() < 0.5:
        return mutate(rng, frame[:150]) + frame[150:]
    request = decode_request(frame)
    for topic in request.body["topicData"]:
        for one in topic["partitionData"]:
            one["records"] = repaired(mutate(rng, bytes(one["records"])))
    return b"".join(encode_request(header, request.body))[4:]


def _random_request(rng: random.Random) -> bytes:
    key = rng.choice(_KEYS)
    version = rng.randint(*api_versions(key))
    values = _KnownValues(f"{api_name(key)}Request", version, rng).value()
    header = decode_request_header(rng.choice(rng.choice(_recorded()).frames))[0]
    return b"".join(encode_request(header._replace(api_key=key, api_version=version), values))[4:]


class _Clock:
    """A clock that goes on when a request waits."""

    def __init__(self) -> None:
        self.ms = NOW

    def wait(self, milliseconds: float | None) -> None:
        self.ms += 1 if milliseconds is None else max(1, int(milliseconds))
        assert milliseconds is not None, "a request waits without a limit"
        assert self.ms < NOW + _PATIENCE_MS, "a request waits too long"


@cache
def _read_only():
    """The catalogue of a read-only server, and the groups on its disk."""
    directory = tempfile.TemporaryDirectory()
    files, paths = ReadOnlyFiles(), copied_log_dirs(Path(directory.name) / "logs")
    groups = list(read_groups(files, paths, lambda _finding: None).values())
    catalogue = Catalogue(files, find_log_dirs(files, paths), Wanted(is_internal=True), lambda _: None, failed=lambda _: None)
    return catalogue, groups, directory


def _writing(stack: ExitStack, case: str) -> tuple[Catalogue, Leader]:
    """A catalogue whose only log is empty, and open for producers."""
    top = stack.enter_context(tempfile.TemporaryDirectory())
    directory = f"{top}/{case}-0"
    shutil.copytree(wire_corpus() / f"produce/{case}/{case}-0", directory, ignore=lambda _top, names: set(names) - {"partition.metadata"})
    files = Files()
    catalogue = stack.enter_context(closing(
        Catalogue(files, find_log_dirs(files, [top]), Wanted(), lambda _: None, failed=lambda _: None, is_followed=True)
    ))  # fmt: skip
    log = stack.enter_context(open_log(files, directory, LogConfig.of({}), now=NOW, clean_shutdown=True))
    catalogue.open_logs = {directory: log}
    return catalogue, Leader(catalogue, iter(range(1000, 2**40)).__next__)


def check_session(session: Session) -> Counter[str]:
    """Send the requests; return how many were answered, refused, and want no answer. Other exceptions come through."""
    outcomes: Counter[str] = Counter()
    clock = _Clock()
    with ExitStack() as stack:
        if session.case is None:
            catalogue, groups, _ = _read_only()
            leader = None
        else:
            (catalogue, leader), groups = _writing(stack, session.case), ()
        apis = Apis(catalogue, lambda: clock.ms, clock.wait, iter(range(1, 2**31)).__next__, groups=groups, leader=leader)
        apis._groups._wait = lambda _condition, seconds: clock.wait(None if seconds is None else seconds * 1000)
        for frame in session.frames:
            outcomes[_outcome(apis, frame)] += 1
    return outcomes


def _outcome(apis: Apis, frame: bytes) -> str:
    try:
        answer = apis.answer(memoryview(frame), Address("127.0.0.1", 9092), "127.0.0.1")
    except Refused as refused:
        return "refused" if str(refused) else "refused without a reason"
    if answer is None:
        return "no answer"
    assert answer.size == sum(map(len, answer.pieces)) <= _LARGEST_ANSWER
    whole = b"".join(_bytes_of(answer.pieces))
    header = decode_request_header(frame)[0]
    if api_name(header.api_key) != "ApiVersions" or header.api_version in api_versions(header.api_key):
        decode_response(header, whole[4:])
    return "answered"


def _bytes_of(pieces) -> Iterator[bytes]:
    for piece in pieces:
        if isinstance(piece, bytes | bytearray | memoryview):
            yield bytes(piece)
        else:
            yield piece._file.read_exactly(piece.position, piece.size)
            piece.close()


def _is_known(key: int) -> bool:
    try:
        api_versions(key)
    except SchemaError:
        return False
    return True


_KEYS = [key for key in range(100) if _is_known(key)]
