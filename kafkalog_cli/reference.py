"""The generated parts of docs/: tables of layouts and findings between markers, the prose around them is written by hand.

A document holds `<!-- layout BatchHeader -->` or `<!-- findings -->`, the table, and `<!-- end -->`.
"""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any

from engine import formats
from engine.findings import KINDS
from engine.formats import Layout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

DOCUMENTS = ("docs/formats.md", "docs/findings.md")
_MARKED = re.compile(r"(<!-- (layout|findings)(?: (\w+))? -->\n).*?(<!-- end -->)", re.DOTALL)
_FIELD = re.compile(r"^ {4}(\w+): (\w+)  # +(\d+) *(.*)$", re.MULTILINE)
_SIZES = {"b": "int8", "h": "int16", "i": "int32", "q": "int64", "B": "uint8", "I": "uint32"}


def layouts() -> dict[str, Layout[Any]]:
    """Every layout of engine.formats by the name of its tuple."""
    return {value.kind.__name__: value for value in vars(formats).values() if isinstance(value, Layout)}


def fields(layout: Layout[Any]) -> Iterator[tuple[int, str, str, str]]:
    """(position that its comment names, field, wire type, meaning), from the source."""
    for name, kind, position, meaning in _FIELD.findall(inspect.getsource(layout.kind)):
        yield int(position), name, _SIZES[getattr(formats, kind).__metadata__[0]], meaning


def layout_table(name: str) -> str:
    """A layout for docs/formats.md. Raises KeyError for a name that is none."""
    layout = layouts()[name]
    summary = " ".join((inspect.getdoc(layout.kind) or "").split())
    rows = [f"| {position} | `{field}` | {kind} | {meaning} |" for position, field, kind, meaning in fields(layout)]
    return "\n".join([f"{summary} Fixed part: {layout.size} bytes.", "", "| at | field | type | meaning |",
                      "|---|---|---|---|", *rows, ""])  # fmt: skip


def findings_table(_name: str = "") -> str:
    """Every code for docs/findings.md."""
    rows = [
        f"| `{code}` | {kind.severity.value} | {_sentence(kind.why)} | {_sentence(kind.do)} |"
        for code, kind in sorted(KINDS.items())
    ]
    return "\n".join(["| code | severity | why | what to do |", "|---|---|---|---|", *rows, ""])


def _sentence(text: str) -> str:
    if text.startswith("kafkalog "):
        return f"`{text.replace('{path}', 'FILE').replace('{directory}', 'DIRECTORY')}`"
    return text[0].upper() + text[1:]


_TABLES: dict[str, Callable[[str], str]] = {"layout": layout_table, "findings": findings_table}


def filled(text: str) -> str:
    """A document with every generated part as it should be."""
    return _MARKED.sub(lambda found: f"{found[1]}{_TABLES[found[2]](found[3] or '')}{found[4]}", text)


def documents(root: Path) -> dict[str, str]:
    """Path below `root` → content, of every document with generated parts."""
    return {path: filled((root / path).read_text(encoding="utf-8")) for path in DOCUMENTS}
