"""docs/formats.md and docs/findings.md say what the source says."""

from __future__ import annotations

import pytest

from engine.findings import KINDS
from kafkalog_cli.reference import fields, layouts
from tests.support.console import ROOT


@pytest.mark.parametrize("name", sorted(layouts()))
def test_the_positions_in_the_comments_are_right(name):
    layout = layouts()[name]
    assert {field: position for position, field, _kind, _meaning in fields(layout)} == layout.positions


@pytest.mark.parametrize("name", sorted(layouts()))
def test_every_layout_is_described(name):
    assert f"<!-- layout {name} -->" in (ROOT / "docs/formats.md").read_text()


def test_every_code_is_described():
    text = (ROOT / "docs/findings.md").read_text()
    assert [code for code in KINDS if f"| `{code}` |" not in text] == []


def test_every_code_is_used_somewhere():
    source = "".join(path.read_text() for path in (ROOT / "engine").rglob("*.py") if path.name != "findings.py")
    assert [code for code in KINDS if f'"{code}"' not in source] == []
