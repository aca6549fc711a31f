"""Load the kernels from their .py files although compiled ones lie beside them."""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from importlib.util import spec_from_file_location
from pathlib import Path

KERNELS = Path(__file__).parents[2] / "engine" / "kernels"


class SourceKernels(MetaPathFinder):
    """Finds engine.kernels.* as source only."""

    def find_spec(self, name, _path=None, _target=None):
        package, _, module = name.rpartition(".")
        source = KERNELS / f"{module}.py"
        if package != "engine.kernels" or not source.exists():
            return None
        return spec_from_file_location(name, source)


def install() -> None:
    """From now on kernels are imported interpreted. Nothing of the engine may be loaded yet."""
    assert not any(name.startswith("engine.kernels") for name in sys.modules)
    sys.meta_path.insert(0, SourceKernels())
