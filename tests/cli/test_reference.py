"""docs/formats.md and docs/findings.md say what the source says."""

from __future__ import annotations

import pytest

from engine.checkpoint import checkpoints
from engine.dump import index_files, reports
from engine.findings import KINDS
from engine.index import transaction
from engine.log import finding_limits
from engine.log.continuity import header_gaps
from engine.record import legacy
from kafkalog_cli.manual import layouts
from tests.support.console import ROOT


@pytest.mark.parametrize("name", sorted(layouts()))
def test_the_positions_in_the_comments_are_right(name):
    layout = layouts()[name]
    assert {field: position for position, field, _kind, _meaning in layout.described()} == layout.positions


@pytest.mark.parametrize("name", sorted(layouts()))
def test_every_layout_is_described(name):
    assert f"<!-- layout {name} -->" in (ROOT / "docs/formats.md").read_text()


def test_every_code_is_described():
    text = (ROOT / "docs/findings.md").read_text()
    assert [code for code in KINDS if f"| `{code}` |" not in text] == []


CAPS = {
    "`index-offset-mismatch`": index_files._WRONG_KEPT, "`offset-gap`, and `offset-order`": header_gaps.KEPT,
    "`txnindex-invalid`": transaction.MAX_FINDINGS, "`file-malformed`": checkpoints.MAX_FINDINGS, "`record-invalid`": legacy._NAMED,
    "`verify`: anything of one code about one file": finding_limits.MAX_FINDINGS,
    "`verify`: anything of one code about one partition": finding_limits.MAX_OF_A_CODE, "a report on stderr": reports._LIMIT,
}  # fmt: skip


@pytest.mark.parametrize("what", CAPS)
def test_how_many_findings_there_are_at_most_is_said(what):
    rows = [row for row in (ROOT / "docs/findings.md").read_text().splitlines() if row.startswith(f"| {what}")]
    assert [row.split("|")[2].strip().replace(",", "") for row in rows][:1] == [str(CAPS[what])]


def test_every_code_is_used_somewhere():
    source = "".join(path.read_text() for path in (ROOT / "engine").rglob("*.py") if path.name != "findings.py")
    assert [code for code in KINDS if f'"{code}"' not in source] == []
