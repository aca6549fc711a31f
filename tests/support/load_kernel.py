"""A kernel in both of its builds: compiled, and the same source interpreted."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.interpreted import SourceKernels
from tests.support.needs import lacking

if TYPE_CHECKING:
    from collections.abc import Iterator
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
            if wanted:
                lacking(reason)
            pytest.skip(reason)
        return module
    spec = importlib.util.spec_from_file_location(f"interpreted_{name}", KERNELS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with _sources_only():
        spec.loader.exec_module(module)
    return module


@contextmanager
def _sources_only() -> Iterator[None]:
    """What an interpreted kernel imports of other kernels is interpreted too: as C, it has no names in Python."""
    package = importlib.import_module("engine.kernels")
    loaded = {name: sys.modules.pop(name) for name in list(sys.modules) if name.startswith("engine.kernels.")}
    finder = SourceKernels()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if name.startswith("engine.kernels.")]:
            del sys.modules[name]
        sys.modules.update(loaded)
        for name, module in loaded.items():
            setattr(package, name.rpartition(".")[2], module)
