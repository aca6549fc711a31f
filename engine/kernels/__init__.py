"""Kernels: bytes ↔ columns ↔ text. No I/O, no objects; compiled where a C compiler was at hand, else interpreted.

Interpreted, a module is its own source, except for what `reference` has a faster twin of: the module takes it from
there. So everybody imports a kernel by the name of its module, whatever the build.
"""

import sys
from importlib.util import find_spec

from engine.kernels.build import KERNELS

try:
    from engine.kernels import scan as _scan
except ModuleNotFoundError as _missing:
    if _missing.name != "cython":
        raise
    from engine.kernels import shadow as _shadow

    sys.modules["cython"] = _shadow  # Cython is needed to build only
    from engine.kernels import scan as _scan

BUILD = "interpreted" if _scan.__file__.endswith(".py") else "compiled"
for _name in KERNELS:  # compiled ones call each other in C: all are compiled or none
    _spec = find_spec(f"{__name__}.{_name}")
    if _spec is None or not _spec.origin or _spec.origin.endswith(".py") != (BUILD == "interpreted"):
        raise ImportError(f"engine.kernels.{_name} is not {BUILD}, as engine.kernels.scan is", name=f"{__name__}.{_name}")
