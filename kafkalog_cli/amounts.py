"""Sizes in the text of commands: for people, or exact with --bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click

from engine.amounts import count_of, size_text

if TYPE_CHECKING:
    from collections.abc import Callable

Command = TypeVar("Command", bound="Callable[..., Any] | click.Command")

_EXACT = "kafkalog.bytes"


def bytes_option(function: Command) -> Command:
    """--bytes of a command that prints sizes."""
    help_text = "In text, show exact sizes: 1288490188 bytes, not 1.2 GiB."
    return click.option("--bytes", is_flag=True, expose_value=False, callback=_remember, help=help_text)(function)


def shown_size(size: int) -> str:
    """1.2 GiB; 1288490188 bytes with --bytes, and in the texts of JSON."""
    context = click.get_current_context(silent=True)
    is_exact = context is not None and (context.meta.get(_EXACT, False) or context.params.get("form", "text") != "text")
    return count_of(size, "byte") if is_exact else size_text(size)


def _remember(context: click.Context, _parameter: click.Parameter, value: bool) -> None:
    context.meta[_EXACT] = value
