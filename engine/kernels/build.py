"""The names of the kernels and their generated sources. setup.py runs this file alone, so it imports no other module."""

from __future__ import annotations

KERNELS = (
    "checksum",
    "words",
    "scan",
    "decode",
    "decoded",
    "text",
    "select",
    "legacy",
    "encode",
    "json_strings",
    "ndjson",
    "csv_cells",
    "templates",
    "placement",
    "recovery",
    "producers",
    "verify",
    "blocks",
    "frames",
    "admission",
    "offset_map",
    "cleaning",
    "retained",
    "mapping",
    "transactions",
    "verdicts",
    "json_unescape",
    "lines",
    "gather",
    "rows",
    "remote",
    "accumulate",
    "search",
)
SHARED = "_shared"  # Cython's utility code for all kernels, compiled once
STAMP = "_stamp"  # has SOURCES, the `sources_digest` of the compiled sources

NUMBERS = ("fields", "walk", "tables")  # setup.py writes a .pxd for each, with its constants as literals
NOT_COMPILED = "the kernels of kafkalog are not compiled: run `make build` in the checkout, or pip install kafkalog again"


def sources_digest(sources: dict[str, bytes]) -> str:
    """Return a digest of the sources of the kernels. `sources`: the files of this package by name; other files are ignored."""
    from hashlib import sha256  # not needed at start-up

    compiled = {f"{name}.py" for name in KERNELS}
    word = sha256()
    for name in sorted(sources):
        if name in compiled or name.endswith(".pxd"):
            word.update(b"%b %d\n%b" % (name.encode(), len(sources[name]), sources[name]))
    return word.hexdigest()


def literals(name: str, declared: dict[str, object]) -> str:
    """Return the .pxd of a module of NUMBERS: its constants as literals, so that no kernel loads one at run time.

    declared  the names of the module. INT_MAX and larger ones get 64 bits, so that sums with them have 64 bits too.
    """
    constants = {word: int(value) for word, value in declared.items() if word.isupper() and isinstance(value, int)}
    wide = {word: value for word, value in constants.items() if not -(2**31) < value < 2**31 - 1}
    lines = [f"# Written by setup.py from {name}.py.", "", "cdef enum:"]
    lines += [f"    {word} = {value}" for word, value in constants.items() if word not in wide]
    if wide:
        lines += ["", "cdef extern from *:", *(f'    const long long {word} "{value}LL"' for word, value in wide.items())]
    return "\n".join(lines) + "\n"
