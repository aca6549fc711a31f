"""Names of decoders on the command line → functions from bytes to what is printed."""

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
    """The decoder of that name; None: text, as the kernels print it.

    `name`: a decoder class of Kafka's tools, or `module:function` of a Python function from bytes to bytes or anything
    that str() prints. Raises click.UsageError.
    """
    if name is None:
        return None
    short = name
    for package in _PACKAGES:
        short = short.removeprefix(package)
    if short in _KAFKAS:
        return _KAFKAS[short]
    module, colon, function = name.partition(":")
    if not colon:
        raise click.UsageError(f"unknown decoder {name}: use {', '.join(_KAFKAS)}, or your own as module:function")
    with suppress(OSError):  # the directory may be deleted
        if os.getcwd() not in sys.path:
            sys.path.append(os.getcwd())  # a decoder of one's own often lies where one stands
    try:
        chosen = getattr(import_module(module), function)
    except MemoryError:
        raise
    except (Exception, SystemExit) as error:  # whatever a module of the user's own raises
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


_KAFKAS: dict[str, Callable[[bytes], bytes] | None] = {
    "StringDecoder": None,
    "IntegerDecoder": _number(4),
    "LongDecoder": _number(8),
    "DefaultDecoder": hexlify,
}


class DecoderClass(click.ParamType[str]):
    """The name of a decoder. `suggestions` are offered by completion; `module:function` is taken as well."""

    name = "class"
    suggestions = (*_KAFKAS, *(_PACKAGES[0] + name for name in _KAFKAS))

    def convert(self, value: Any, _param: click.Parameter | None, _ctx: click.Context | None) -> str:
        """The name as it is; `payload_decoder` looks it up."""
        return str(value)
