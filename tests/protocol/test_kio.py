"""kio, another implementation of the protocol, reads what we write: the same fields, and it writes the same bytes."""

from __future__ import annotations

import dataclasses
import datetime as dt
import importlib
import importlib.util
import io
import random
import re
import uuid
from enum import Enum

import pytest

from engine.protocol.layout import default_value
from engine.protocol.messages import catalogue, encode
from engine.schema.json_text import uuid_text
from tests.support.needs import lacking
from tests.support.protocol_values import Values, every_version

if importlib.util.find_spec("kio") is None:
    lacking("kio is not installed", of_module=True)

from kio.serial import entity_reader, entity_writer

VALUES = 10  # per message and version
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
MILLISECOND = dt.timedelta(milliseconds=1)


def snake(name):
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()


def entity(name, version):
    """The class of a message."""
    package, _, module = snake(name).rpartition("_")
    if module == "header":
        package = snake(name)
    return getattr(importlib.import_module(f"kio.schema.{package}.v{version}.{module}"), name)


def plain(theirs, struct, version):
    """A value of kio's types as one of ours. `struct` has the fields of the values in it, if they have any."""
    if isinstance(theirs, tuple):
        return [plain(each, struct, version) for each in theirs]
    if hasattr(theirs, "__version__"):
        names = [each.name for each in dataclasses.fields(theirs)]
        stored = [each for each in struct.fields if version in each.versions]
        assert all(snake(each.name).startswith(name) for each, name in zip(stored, names, strict=True)), (stored, names)
        value = {each.name: default_value(each) for each in struct.fields}
        for each, name in zip(stored, names, strict=True):
            if each.nullable or getattr(theirs, name) is not None:  # its None is the UUID of zeros, or the time -1
                value[each.name] = plain(getattr(theirs, name), each.struct, version)
        return value
    if isinstance(theirs, Enum):
        return theirs.value
    if isinstance(theirs, dt.timedelta):
        return theirs // MILLISECOND
    if isinstance(theirs, dt.datetime):
        return (theirs - EPOCH) // MILLISECOND
    return uuid_text(theirs.bytes) if isinstance(theirs, uuid.UUID) else theirs


@pytest.mark.parametrize(("name", "version"), every_version())
def test_kio_reads_the_same_and_writes_the_same_bytes(name, version):
    kind = entity(name, version)
    body = catalogue().message(name).body
    values = Values(name, version, random.Random(f"kio {name} {version}"), tame=True)
    for _ in range(VALUES):
        value = values.value()
        data = b"".join(encode(name, version, value))
        theirs, size = entity_reader(kind)(data, 0)
        assert size == len(data)
        assert plain(theirs, body, version) == value
        written = io.BytesIO()
        entity_writer(kind)(written, theirs)
        assert written.getvalue() == data
