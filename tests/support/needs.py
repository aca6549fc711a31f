"""What a test needs of the machine: without it the test is skipped, and says so; never in CI, which installs all of it."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def lacking(reason: str) -> NoReturn:
    """Something is not on this machine: skip the test, in CI (CI=true) fail it."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
