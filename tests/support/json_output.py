"""The JSON output of commands: every test that reads it also checks it against the schema."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator

from tests.support.console import ROOT

SCHEMA = json.loads((ROOT / "kafkalog_cli/schema.json").read_text())
_CHECKED = 20  # objects of a type: checking is slow, and the same code writes the others
_last: list[Any] = []  # the output that was read last, and its objects


@cache
def validator(kind: str) -> Draft202012Validator:
    """What checks objects of a type, or a `document`."""
    return Draft202012Validator({"$ref": f"#/$defs/{kind}", "$defs": SCHEMA["$defs"]})


def objects_of(out: bytes | str) -> list[dict[str, Any]]:
    """The objects of an output, as a document or one a line, between `begin` and `end`."""
    return all_objects(out)[1:-1]


def all_objects(out: bytes | str) -> list[dict[str, Any]]:
    """All objects of an output, from `begin` to `end`. `kafkalog` of run.py has checked an output before a test reads it."""
    if not _last or _last[0] is not out:
        _last[:] = out, _checked_objects(out)
    return [dict(one) for one in _last[1]]


def _checked_objects(out: bytes | str) -> list[dict[str, Any]]:
    text = out.decode() if isinstance(out, bytes) else out
    if text.startswith('{"schema":'):
        document = json.loads(text)
        assert (document.keys(), document["schema"]) == ({"schema", "objects"}, "kafkalog/1")
        found = document["objects"]
    else:
        found = [json.loads(line) for line in text.removesuffix("\n").split("\n")]
    counts: Counter[str] = Counter()
    for one in found:
        counts[one["type"]] += 1
        if counts[one["type"]] <= _CHECKED:
            validator(one["type"]).validate(one)
    assert (found[0]["type"], found[-1]["type"], counts["begin"], counts["end"]) == ("begin", "end", 1, 1)
    is_whole = {**found[-1]["objects"], "begin": 1, "end": 1} == counts
    assert is_whole or counts["error"], "an error may stop a log between two of its records"
    return found


def of_type(objects: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    """Those of `objects` with this type."""
    return [one for one in objects if one["type"] == kind]


def reports_of(out: bytes | str) -> list[dict[str, Any]]:
    """The reports among the objects of an output."""
    return of_type(objects_of(out), "report")
