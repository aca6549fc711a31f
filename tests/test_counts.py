"""The counts of tests/counts.py stay within their aims."""

from __future__ import annotations

import subprocess
import sys

from tests import counts


def test_the_codebase_keeps_its_aims():
    done = subprocess.run([sys.executable, counts.__file__], capture_output=True, text=True, check=False)  # with imports of its own
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(" at most ") == 7
