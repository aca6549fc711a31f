"""Kernels: bytes ↔ columns ↔ text, compiled by setup.py. No I/O, no object per record."""

from importlib.util import find_spec

from engine.kernels.build import KERNELS, NOT_COMPILED

for _name in KERNELS:  # they call each other in C: all are compiled, or none can be used
    _spec = find_spec(f"{__name__}.{_name}")
    if _spec is None or not _spec.origin or _spec.origin.endswith(".py"):
        raise ImportError(NOT_COMPILED, name=f"{__name__}.{_name}")
