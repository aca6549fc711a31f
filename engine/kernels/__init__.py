"""Kernels: bytes ↔ columns ↔ text, compiled by setup.py. No I/O, no object per record."""

from importlib.util import find_spec

from engine.kernels.build import KERNELS, NOT_COMPILED

for _name in KERNELS:  # kernels call each other in C, so all of them must be compiled
    _spec = find_spec(f"{__name__}.{_name}")
    if _spec is None or not _spec.origin or _spec.origin.endswith(".py"):
        raise ImportError(NOT_COMPILED, name=f"{__name__}.{_name}")
