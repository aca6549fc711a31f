"""What a test needs of the machine: without it the test is skipped, and says so; never in CI, which installs all of it."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def lacking(reason: str, *, of_module: bool = False) -> NoReturn:
    """Something is not on this machine: skip the test, or all of the module that calls it; in CI (CI=true) fail."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason, allow_module_level=of_module)
