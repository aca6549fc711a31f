"""The streams that a process was given: a shell may have closed them, and a full disk may stand behind them."""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper
from typing import Any, TextIO


def prepare_streams() -> None:
    """Text is UTF-8 whatever the locale says, and what cannot be written to stderr ends nothing.

    Nothing to print to is an error, nobody to complain to is none.
    """
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  # for as long as the process lives
    if sys.stdout is None:
        print("error[output-failed] stdout is closed", file=sys.stderr)  # noqa: T201  # click would look for stdout
        sys.exit(8)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper) and stream.encoding.lower() not in ("utf-8", "utf8"):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    sys.stderr = Outliving(sys.stderr)


class Outliving:
    """A text stream that goes on into nothing when it cannot be written, or nobody reads it any more.

    failure  why it cannot be written
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.failure: OSError | None = None

    def write(self, text: str) -> int:
        """Write, or drop."""
        try:
            return self._stream.write(text)
        except OSError as error:
            self.give_up(error)
            return len(text)

    def flush(self) -> None:
        """Flush, or drop."""
        try:
            self._stream.flush()
        except OSError as error:
            self.give_up(error)

    def give_up(self, error: OSError) -> None:
        """Go on into nothing, because of `error`."""
        if not isinstance(error, BrokenPipeError):
            self.failure = error
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def colour_choice() -> bool | None:
    """For click's `color`: False if the user wants no colours, True if they are asked for, None: on a terminal only.

    NO_COLOR (no-color.org) and FORCE_COLOR (force-color.org) count where they are not empty, the first one before the other;
    a terminal that calls itself dumb knows no colours.
    """
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return False if os.environ.get("TERM") == "dumb" else None
