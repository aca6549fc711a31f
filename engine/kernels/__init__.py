"""Kernels: bytes ↔ columns ↔ text. No I/O, no objects; compiled where a C compiler was at hand, else interpreted."""

from engine.kernels import scan as _scan

BUILD = "interpreted" if _scan.__file__.endswith(".py") else "compiled"
