"""One case of the fuzz target: a mutant, and how it is dumped. The same seed and number give the same case anywhere."""

from __future__ import annotations

import random
from typing import NamedTuple

from engine.discovery.names import FileKind
from engine.dump.renderer import DumpOptions
from engine.dump.topic_decoders import TopicDecoders
from engine.record.patterns import Pattern
from engine.record.selection import FieldPattern, Selection
from engine.schema.decode import DECODERS, decoder
from tests.fuzz.mutate import mutate
from tests.fuzz.seeds import LOGS, by_kind
from tests.support.memory_files import MemoryFiles

LIMIT = 1 << 20  # --max-decompressed-bytes of every case
_WEIGHTS = {
    FileKind.LOG: 60, FileKind.KRAFT_SNAPSHOT: 4, FileKind.BOOTSTRAP_CHECKPOINT: 2, FileKind.LOG_07: 8,
    FileKind.OFFSET_INDEX: 6, FileKind.TIME_INDEX: 6, FileKind.TRANSACTION_INDEX: 3, FileKind.PRODUCER_SNAPSHOT: 4,
}
_DECODERS = TopicDecoders(MemoryFiles({}), ())
_TOPICS = ("__consumer_offsets-0", "__transaction_state-0", "__cluster_metadata-0", "__remote_log_metadata-0",
           "__share_group_state-0")


class Buffers(NamedTuple):
    """Sizes of the buffers that the engine works with: small ones make it go on in the middle of things."""

    batch_rows: int
    record_rows: int
    text: int
    window: int
    arena: int
    chunk: int


ROOMY = Buffers(64, 256, 1 << 16, 1 << 16, 1 << 16, 1 << 16)


class Case(NamedTuple):
    """`files` by path, `path` the mutant, `dump` what is dumped: the mutant or a file that is checked against it."""

    files: dict[str, bytes]
    path: str
    kind: FileKind
    dump: str
    options: DumpOptions
    buffers: Buffers
    shrink: tuple[int, int] | None
    selection: Selection | None
    form: str  # text, json or jsonl


def make_case(seed: int, number: int) -> Case:
    """Case `number` of a run."""
    rng = random.Random(f"{seed}:{number}")
    kinds = by_kind()
    choice = list(kinds)
    kind = rng.choices(choice, [_WEIGHTS.get(kind, 1) for kind in choice])[0]
    original = rng.choice(kinds[kind])
    data = mutate(rng, original, kinds[kind])
    path = original.path
    if kind in LOGS and rng.random() < 0.1:
        path = f"{rng.choice(_TOPICS)}/{path.rpartition('/')[2]}"
    files = {path: data, **original.beside}
    dump = path
    if original.beside and path == original.path and rng.random() < 0.3:
        dump = rng.choice(list(files))
    shrink = (rng.randrange(6), rng.randrange(len(data) + 1)) if rng.random() < 0.04 else None
    buffers = ROOMY
    if rng.random() < 0.25:
        buffers = Buffers(rng.randrange(1, 5), rng.randrange(1, 6), rng.choice((1, 100, 700, 3000)),
                          rng.choice((1, 17, 61, 100, 1000)), rng.choice((1, 50, 1000)), rng.choice((64, 100, 1000)))
    return Case(files, path, kind, dump, _options(rng), buffers, shrink, _selection(rng) if rng.random() < 0.12 else None,
                rng.choice(("text", "text", "jsonl", "json")))


def _options(rng: random.Random) -> DumpOptions:
    how = rng.random()
    values: dict[str, object] = {"max_decompressed_bytes": rng.choice((LIMIT, LIMIT, LIMIT, 0, 10, 1000))}
    if how < 0.3:
        values["print_data"] = True
    elif how < 0.4:
        values["deep"] = True
    elif how < 0.65:
        values |= {"print_data": True, "decoders": _DECODERS}
    elif how < 0.75:
        values |= {"print_data": True, "decoder": decoder(rng.choice(DECODERS))}
    elif how < 0.8:
        values |= {"print_data": True, "key_decoder": _hex, "value_decoder": _failing}
    if rng.random() < 0.15:
        values["skip_metadata"] = True
    if rng.random() < 0.3:
        values["escape"] = True
    if rng.random() < 0.2:
        values["continue_on_corruption"] = True
    if rng.random() < 0.05:
        values["max_bytes"] = rng.choice((0, 1, 60, 61, 100, 1000, 2**31 - 2))
    if rng.random() < 0.05:
        values["max_batch_bytes"] = rng.choice((0, 1, 61, 100, 500))
    if rng.random() < 0.1:
        values["max_message_size"] = rng.choice((0, 17, 61, 100))
    if rng.random() < 0.1:
        values["verify_only"] = True
    if rng.random() < 0.1:
        values["sanity_only"] = True
    return DumpOptions(**values)


def _selection(rng: random.Random) -> Selection:
    numbers = (-(2**63), -1, 0, 1, 5, 20, 2**31, 1_700_000_000_000, 2**63 - 1)
    values: dict[str, object] = {}
    for _ in range(rng.randrange(1, 4)):
        name = rng.choice(("first_offset", "end_offset", "from_ms", "to_ms", "producer_id", "leader_epoch", "limit", "tail",
                           "transactional", "keys", "patterns", "headers"))
        if name in ("limit", "tail"):
            values[name] = rng.choice((0, 1, 3, 2**40))
        elif name == "transactional":
            values[name] = True
        elif name == "keys":
            values[name] = (b"", b"k1", b"key-1")
        elif name == "patterns":
            text = rng.choice(("[k1]", "k", "value|^a", "e.*1", ""))
            where = rng.choice(({"in_keys": True}, {"in_values": True}, {"in_headers": True, "in_keys": True}, {"header": b"h"}))
            values[name] = (FieldPattern(Pattern(text, fixed=rng.random() < 0.3, ignore_case=rng.random() < 0.3), **where),)
        elif name == "headers":
            values[name] = ((rng.choice((b"", b"h", b"trace")), rng.choice((None, b"", b"1"))),)
        else:
            values[name] = rng.choice(numbers)
    return Selection(**values)


def _hex(data: bytes) -> bytes:
    return data.hex().encode()


def _failing(data: bytes) -> bytes:
    """A user's decoder that does not like everything."""
    return str(int(data)).encode() if data[:1] != b"a" else data[:3].decode("utf-8", "replace").encode()
