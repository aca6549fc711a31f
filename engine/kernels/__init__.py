"""Kernels: bytes ↔ columns ↔ text. No I/O, no objects; compiled where a C compiler was at hand, else interpreted.

Interpreted, a module is its own source, except for what `reference` has a faster twin of: the module takes it from
there. So everybody imports a kernel by the name of its module, whatever the build.
"""

import sys

try:
    from engine.kernels import scan as _scan
except ModuleNotFoundError as _missing:
    if _missing.name != "cython":
        raise
    from engine.kernels import shadow as _shadow

    sys.modules["cython"] = _shadow  # Cython is needed to build only
    from engine.kernels import scan as _scan

BUILD = "interpreted" if _scan.__file__.endswith(".py") else "compiled"
