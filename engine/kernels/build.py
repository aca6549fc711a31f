"""Which kernels are compiled, and from what. setup.py runs this file by itself: it imports nothing of ours."""

from __future__ import annotations

KERNELS = (
    "checksum",
    "words",
    "scan",
    "decode",
    "text",
    "select",
    "legacy",
    "encode",
    "json_strings",
    "ndjson",
    "placement",
    "recovery",
    "producers",
    "verify",
    "blocks",
    "frames",
    "admission",
    "digest",
    "offset_map",
    "cleaning",
    "survivors",
    "settling",
    "mapping",
    "transactions",
    "verdicts",
    "lines",
    "json_unescape",
    "json_lines",
    "gather",
    "rows",
)
SHARED = "_shared"  # what all kernels need of Cython, compiled once
STAMP = "_stamp"  # says SOURCES, what `sources_digest` gave when they were compiled

NOT_COMPILED = "the kernels of kafkalog are not compiled: run `make build` in the checkout, or pip install kafkalog again"


def sources_digest(sources: dict[str, bytes]) -> str:
    """One word for what kernels are compiled from. `sources`: the files of this package by name; others do not count."""
    from hashlib import sha256  # a start of the program does without

    compiled = {f"{name}.py" for name in KERNELS}
    word = sha256()
    for name in sorted(sources):
        if name in compiled or name.endswith(".pxd"):
            word.update(b"%b %d\n%b" % (name.encode(), len(sources[name]), sources[name]))
    return word.hexdigest()
