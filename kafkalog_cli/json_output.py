"""The JSON that a command prints: its objects from `begin` to `end`. docs/json.md describes them, schema.json each one."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from engine.dump.json_stream import JsonStream
from engine.dump.text_buffer import TextBuffer

if TYPE_CHECKING:
    from collections.abc import Callable


class Lines(TextBuffer):
    """Hands every line to `say` as soon as it is complete: for commands whose output must not wait."""

    def __init__(self, say: Callable[[str], object] = click.echo) -> None:
        self._pieces: list[bytes] = []
        super().__init__(lambda view: self._pieces.append(bytes(view)), 1 << 12)
        self.say = say

    def put(self, text: bytes | str) -> None:
        """Append text; what a line break ends goes out."""
        super().put(text)
        if text[-1:] in ("\n", b"\n"):
            self.flush()
            line = b"".join(self._pieces).decode()
            self._pieces.clear()
            self.say(line[:-1])


def json_stream(form: str, out: TextBuffer, command: str | None = None) -> JsonStream | None:
    """A stream into `out`; None where `form` is text. `command`: None is the one that runs."""
    if form == "text":
        return None
    context = click.get_current_context(silent=True)
    name = command or (context.command_path.partition(" ")[2] if context else "")
    return JsonStream(out, name, array=form == "json", ascii=sys.stdout.isatty())
