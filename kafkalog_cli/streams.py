"""The standard streams: a shell may have closed them, and writing may fail, for example on a full disk."""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper
from typing import Any, TextIO


def prepare_streams() -> None:
    """Set text to UTF-8 whatever the locale, and ignore failed writes to stderr.

    A closed stdout is an error, a closed stderr is not.
    """
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  # open until the process ends
    if sys.stdout is None:
        print("error[output-failed] stdout is closed", file=sys.stderr)  # noqa: T201  # click would look for stdout
        sys.exit(8)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper) and stream.encoding.lower() not in ("utf-8", "utf8"):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    sys.stderr = TolerantStream(sys.stderr)


class TolerantStream:
    """A text stream that drops output once writing fails or its reader ended.

    failure  the error of the failed write
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.failure: OSError | None = None

    def write(self, text: str) -> int:
        """Write `text`, or drop it."""
        try:
            return self._stream.write(text)
        except OSError as error:
            self.give_up(error)
            return len(text)

    def flush(self) -> None:
        """Flush, or do nothing."""
        try:
            self._stream.flush()
        except OSError as error:
            self.give_up(error)

    def give_up(self, error: OSError) -> None:
        """Drop output from here on, because of `error`."""
        if not isinstance(error, BrokenPipeError):
            self.failure = error
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def colour_choice() -> bool | None:
    """Return click's `color`: False if the user wants no colours, True if they are requested, None: on a terminal only.

    NO_COLOR (no-color.org) and FORCE_COLOR (force-color.org) count if they are not empty, the first one with priority; a
    terminal named dumb has no colours.
    """
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return False if os.environ.get("TERM") == "dumb" else None
