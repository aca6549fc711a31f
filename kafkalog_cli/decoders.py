"""Names of decoders on the command line → functions from bytes to bytes to print."""

from __future__ import annotations

import os
import sys
from binascii import hexlify
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from engine.amounts import count_of

if TYPE_CHECKING:
    from collections.abc import Callable

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
