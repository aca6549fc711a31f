"""What a terminal gets to see: a pseudo-terminal, read to its end."""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
import sys
import termios

from tests.support.console import ROOT


def on_terminal(columns: int, *words: str, status: int = 0, **environment: str) -> list[str]:
    """The lines that a terminal of so many columns shows."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("hhhh", 24, columns, 0, 0))
    clean = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR", "FORCE_COLOR", "TERM")}
    with subprocess.Popen(
        [sys.executable, "-m", "kafkalog_cli.main", *words], stdout=theirs, cwd=ROOT, env={**clean, "TERM": "xterm", **environment},
    ) as running:
        os.close(theirs)
        shown = all_said(ours)
    assert running.returncode == status
    return shown.decode().replace("\r\n", "\n").splitlines()


def all_said(ours: int) -> bytes:
    """All that comes to our end of a pseudo-terminal until nobody has the other end open; ours is closed then.

    One read is not enough: the system hands what was written on later, piece by piece, be the writer gone or not.
    """
    said = b""
    try:
        while piece := os.read(ours, 1 << 16):
            said += piece
    except OSError:  # Linux's way to say that the other end is closed
        pass
    finally:
        os.close(ours)
    return said
