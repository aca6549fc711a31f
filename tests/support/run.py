"""Run the program in this process, as a shell would: words in, bytes and an exit status out."""

from __future__ import annotations

import io
import os
import re
import sys
from itertools import pairwise
from multiprocessing import get_context
from typing import NamedTuple


class Done(NamedTuple):
    out: bytes
    err: str
    status: int


def kafkalog(*words: str, cwd: str | os.PathLike[str] | None = None) -> Done:
    """What `kafkalog WORDS…` prints and returns. Exceptions come through: they are tracebacks to a user."""
    from kafkalog_cli.main import main

    out, err = io.BytesIO(), io.BytesIO()
    before, streams = os.getcwd(), (sys.stdout, sys.stderr)
    status = 0
    try:
        if cwd is not None:
            os.chdir(cwd)
        sys.stdout = io.TextIOWrapper(out, encoding="utf-8", errors="surrogateescape")
        sys.stderr = io.TextIOWrapper(err, encoding="utf-8", errors="surrogateescape")
        try:
            main(list(words))
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 1
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        printed = out.getvalue(), err.getvalue()
    finally:
        sys.stdout, sys.stderr = streams
        os.chdir(before)
    if printed[0] and any(one in ("json", "jsonl") and before != "--as" for before, one in pairwise(("", *words))):
        from tests.support.json_output import all_objects

        end = all_objects(printed[0])[-1]
        assert end["exit_status"] == status, (words, end, status)
    return Done(printed[0], printed[1].decode("utf-8", "replace"), status)


def kafkalog_apart(*words: object, limit: float = 60) -> Done:
    """As `kafkalog`, in a fork of this process that ends after `limit` seconds with TimeoutError: it starts no Python."""
    with get_context("fork").Pool(1) as pool:
        return pool.apply_async(kafkalog, [str(word) for word in words]).get(limit)


_VERBS = {
    "kept": "keep", "recovered": "recover", "truncated": "truncate", "removed": "remove", "marked": "mark",
    "rebuilt": "rebuild", "renamed": "rename", "created": "create", "split": "split", "compacted": "compact",
    "moved": "move", "salvaged": "salvage", "refused": "refuse",
}  # fmt: skip
_VERDICT = re.compile(r"(?<=[;:] )(done in part|not done|repaired|problems are left)")
_VERDICTS = {
    "done in part": "would be done in part", "not done": "would not be done", "repaired": "would be repaired",
    "problems are left": "problems would be left",
}  # fmt: skip


def as_planned(text: str) -> list[str]:
    """The lines of a report as its dry run must have said them."""
    lines = []
    for line in text.splitlines():
        verb, _, rest = line.strip().partition(" ")
        if line.startswith("  ") and verb in _VERBS:
            lines.append(f"  would {_VERBS[verb]} {rest}")
            continue
        lines.append(_VERDICT.sub(lambda found: _VERDICTS[found[0]], line).replace("brought up to date", "would be brought up to date"))
    return lines
