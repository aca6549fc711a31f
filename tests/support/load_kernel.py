"""A kernel in both of its builds: compiled, and the same source interpreted."""

from __future__ import annotations

import importlib
import importlib.util
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from types import ModuleType

BUILDS = ("compiled", "interpreted")
KERNELS = Path(__file__).resolve().parents[2] / "engine" / "kernels"


def load_kernel(name: str, build: str) -> ModuleType:
    """The kernel's module. A compiled one that does not exist skips the test; in CI (CI=true), if wanted, fails it."""
    if build == "compiled":
        module = importlib.import_module(f"engine.kernels.{name}")
        if module.__file__ is None or module.__file__.endswith(".py"):
            reason = f"kernel {name} is not compiled"
            wanted = "interpreted" not in (os.environ.get("KAFKALOG_KERNELS"), os.environ.get("KAFKALOG_TEST_KERNELS"))
            if os.environ.get("CI") == "true" and wanted:
                pytest.fail(reason)
            pytest.skip(reason)
        return module
    spec = importlib.util.spec_from_file_location(f"interpreted_{name}", KERNELS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
