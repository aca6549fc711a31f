"""Random records for each of the decoders: sound ones of every type and version, odd ones, damaged ones."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from engine.schema import tables
from tests.support.schema_bytes import Generator, mutate, varint

if TYPE_CHECKING:
    import random

    from engine.schema.notation import Catalogue, Message

CATALOGUES = {
    "offsets": tables.offsets,
    "transaction-log": tables.transactions,
    "share-group-state": tables.share_group_state,
    "cluster-metadata": tables.cluster_metadata,
    "remote-log-metadata": tables.remote_log_metadata,
}
Pair = tuple[bytes | None, bytes | None]


def messages(catalogue: Catalogue, *roles: str) -> list[Message]:
    """The messages with one of these roles."""
    return [message for message in map(catalogue.message, catalogue.names()) if message.role in roles]


def sound_record(name: str, rng: random.Random, message: Message, version: int, *, text: bool = True) -> Pair:
    """(key, value) of a record for the decoder `name`, its value that message in that version."""
    catalogue = CATALOGUES[name]()
    generator = Generator(catalogue, rng, text=text)
    body = generator.message(message, version)
    if message.role == "record":
        return None, varint(1) + varint(message.id) + varint(version) + body
    key = catalogue.find("key", message.id)
    assert key is not None
    return struct.pack(">h", message.id) + generator.message(key, 0), struct.pack(">h", version) + body


def random_record(name: str, rng: random.Random, *, damaged: bool) -> Pair:
    """Mostly a sound record; sometimes a tombstone, an unknown type or version; `damaged` ones mostly broken."""
    message = rng.choice(messages(CATALOGUES[name](), "value", "record"))
    key, value = sound_record(name, rng, message, rng.randint(*message.versions), text=rng.random() < 0.7)
    assert value is not None
    odd = rng.random()
    if odd < 0.03:
        return key, None
    if odd < 0.06 and key is not None:
        key = struct.pack(">h", rng.randint(-40, 40)) + key[2:]
    elif odd < 0.09 and key is not None:
        value = struct.pack(">h", rng.randint(-10, 10)) + value[2:]
    elif odd < 0.2 and key is None:
        value = varint(rng.choice((1, 1, 1, 0, 2))) + varint(rng.randint(0, 40)) + varint(rng.randint(0, 9)) + value[3:]
    if damaged and rng.random() < 0.8:
        value = mutate(rng, value)
    if damaged and key is not None and rng.random() < 0.1:
        key = mutate(rng, key)
    return key, value
