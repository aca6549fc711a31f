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
