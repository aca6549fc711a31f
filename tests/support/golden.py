"""Conversations in files: command lines and their output. A case is added by adding text.

    # a comment
    $ dump-log --max-bytes 1000 --files clean/d1/small_segments-0/00000000000000000000.log
    Dumping …
    2| a line of stderr
    => 4

`=> 0` is left out. A *.kafka file holds what the real kafka-dump-log 4.3.1 printed and is only ever written by it
(`pytest tests/oracle --rewrite`); a *.test file holds our own words (`pytest tests/golden --rewrite`, then read the
diff). Commands run in the logs of the packed corpus; {cwd} stands for that directory.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Turn(NamedTuple):
    """One command of a conversation. `before`: the comments above it."""

    before: list[str]
    command: str
    said: list[str]

    @property
    def words(self) -> list[str]:
        return shlex.split(self.command)


def read(path: Path) -> list[Turn]:
    """The turns of a file."""
    turns: list[Turn] = []
    comments: list[str] = []
    for line in path.read_text(encoding="utf-8").split("\n")[:-1]:
        if line.startswith("#"):
            comments.append(line)
        elif line.startswith("$ "):
            turns.append(Turn(comments, line[2:], []))
            comments = []
        else:
            turns[-1].said.append(line)
    return turns


def write(path: Path, turns: list[Turn]) -> None:
    """Store turns again."""
    lines = [line for turn in turns for line in (*turn.before, f"$ {turn.command}", *turn.said)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def spoken(out: bytes, err: str, status: int, cwd: Path) -> list[str]:
    """Format the output of a command as in a file."""
    text = out.decode("utf-8")
    lines = text.removesuffix("\n").split("\n") if text else []
    lines += [f"2| {line}" for line in err.splitlines()]
    if status:
        lines.append(f"=> {status}")
    return [line.replace(str(cwd), "{cwd}") for line in lines]


def check(path: Path, speak: Callable[[list[str]], list[str]], *, rewrite: bool) -> None:
    """Compare every turn of a file with the current output, or store this output."""
    turns = read(path)
    assert turns
    now = [Turn(turn.before, turn.command, speak(turn.words)) for turn in turns]
    if rewrite:
        write(path, now)
    else:
        assert [turn.said for turn in now] == [turn.said for turn in turns]
