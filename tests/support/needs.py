"""Skip tests that need something which is not installed; in CI, which installs everything, they fail instead."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def lacking(reason: str, *, of_module: bool = False) -> NoReturn:
    """Skip the test, or the module that calls it, because something is not installed; fail in CI (CI=true)."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason, allow_module_level=of_module)
