"""A lock that another process holds, as a running broker does."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager

_HOLD = """
import fcntl, sys
file = open(sys.argv[1], "w")
fcntl.lockf(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def lock_held(path):
    """Another process holds the lock on the file at `path`."""
    with subprocess.Popen([sys.executable, "-c", _HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"held\n"
        try:
            yield
        finally:
            other.stdin.close()


_ASK = """
import fcntl, sys
with open(sys.argv[1], "r+") as file:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        print("held")
"""


def is_held(path):
    """Is the file at `path` locked, to another process?"""
    return subprocess.run([sys.executable, "-c", _ASK, str(path)], check=True, capture_output=True).stdout == b"held\n"
