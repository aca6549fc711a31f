"""Names of decoders on the command line → functions from bytes to bytes to print; --decode and --schema."""

from __future__ import annotations

import os
import sys
from binascii import hexlify
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from engine.amounts import count_of
from engine.errors import KafkalogError
from kafkalog_cli.options import PATH_OR_URL, files_for

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from engine.dump.topic_decoders import TopicDecoders

DECODING = ("--decode", "--schema")  # the options of `decode_options`
_PACKAGES = ("org.apache.kafka.tools.api.", "kafka.serializer.")


def payload_decoder(name: str | None) -> Callable[[bytes], bytes] | None:
    """Return the decoder `name`; None: text, as the kernels print it.

    `name`: a decoder class of Kafka's tools, or `module:function` of a Python function from bytes to bytes or anything that
    str() accepts. Raises click.UsageError.
    """
    if name is None:
        return None
    short = name
    for package in _PACKAGES:
        short = short.removeprefix(package)
    if short in _KAFKA_DECODERS:
        return _KAFKA_DECODERS[short]
    module, colon, function = name.partition(":")
    if not colon:
        raise click.UsageError(f"unknown decoder {name}: use {', '.join(_KAFKA_DECODERS)}, or your own as module:function")
    with suppress(OSError):  # the directory may be deleted
        if os.getcwd() not in sys.path:
            sys.path.append(os.getcwd())  # a user's decoder is often in the working directory
    try:
        chosen = getattr(import_module(module), function)
    except MemoryError:
        raise
    except (Exception, SystemExit) as error:  # a user's module may raise anything
        raise click.UsageError(f"cannot load decoder {name}: {type(error).__name__}: {error}") from error
    if not callable(chosen):
        raise click.UsageError(f"decoder {name} is not a function")
    return lambda data: _as_bytes(chosen(data))


def _as_bytes(value: object) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "replace")


def _number(size: int) -> Callable[[bytes], bytes]:
    def decode(data: bytes) -> bytes:
        if len(data) < size:
            raise ValueError(f"{count_of(len(data), 'byte')}, a number needs {size}")
        return str(int.from_bytes(data[:size], "big", signed=True)).encode()

    return decode


_KAFKA_DECODERS: dict[str, Callable[[bytes], bytes] | None] = {
    "StringDecoder": None,
    "IntegerDecoder": _number(4),
    "LongDecoder": _number(8),
    "DefaultDecoder": hexlify,
}


class DecoderClass(click.ParamType[str]):
    """The name of a decoder. Completion offers `suggestions`; `module:function` is valid, too."""

    name = "class"
    suggestions = (*_KAFKA_DECODERS, *(_PACKAGES[0] + name for name in _KAFKA_DECODERS))

    def convert(self, value: Any, _param: click.Parameter | None, _ctx: click.Context | None) -> str:
        """Return the name unchanged; `payload_decoder` resolves it."""
        return str(value)


def decode_options(what: str) -> Callable[[Any], Any]:
    """Return a decorator that adds --decode and --schema. what: what is done with decoded records, for the help."""
    decode = click.option(
        "--decode", type=click.Choice(["auto"]),
        help=f"{what} decoded records: those of internal topics, and those with a schema of a schema registry (Avro, Protobuf, "
             "JSON Schema). The registry's topic _schemas is read from the same log dir, or from another one of PATHS.",
    )  # fmt: skip
    schema = click.option(
        "--schema", type=PATH_OR_URL, metavar="FILE",
        help="Decode values with this schema if _schemas does not have theirs: an .avsc, a .proto, or a FileDescriptorSet of "
             "protoc. FILE#MESSAGE names another message than the first. Implies --decode auto.",
    )  # fmt: skip
    return lambda command: decode(schema(command))


def topic_decoders(values: dict[str, Any], paths: Sequence[str]) -> TopicDecoders | None:
    """Return what --decode and --schema ask for; None: records stay as they are. Raises click.UsageError for a bad schema."""
    if values["decode"] is None and values["schema"] is None:
        return None
    from engine.dump.topic_decoders import TopicDecoders
    from engine.schema.registry import schema_of_file

    try:
        given = None if values["schema"] is None else schema_of_file(files_for([values["schema"]]), values["schema"])
    except KafkalogError as error:
        raise click.UsageError(f"{error}: {error.do}" if error.do else str(error)) from error
    return TopicDecoders(files_for(paths), paths, given)
