"""Tables fit the terminal: 80 columns and 40; piped they are whole, without colours and bars."""

from __future__ import annotations

import re

import pytest

from kafkalog_cli.table import Column, bar, table_lines
from tests.support.terminal import on_terminal

_CODES = re.compile(r"\x1b\[[0-9;]*m")


@pytest.mark.parametrize("columns", [80, 40])
@pytest.mark.parametrize("words", [("ls",), ("ls", "--long"), ("ls", "--topics"), ("du",), ("du", "--by", "codec")], ids=" ".join)
def test_rows_fit_and_keep_what_matters(own_cluster_corpus, columns, words):
    lines = [_CODES.sub("", line) for line in on_terminal(columns, *words, str(own_cluster_corpus / "preflight/base/n1"))]
    table = [line for line in lines if line.startswith("  ")]
    assert max(map(len, table)) <= columns
    assert any(block in line for line in table for block in "▏▎▍▌▋▊▉█") or columns == 40
    if words[0] == "ls":
        assert any("all files" in line and "flags" in line for line in table)
        assert any("future" in line for line in table)
        assert any("208 bytes" in line for line in table)


def test_colours_are_off_if_the_user_says_so(own_cluster_corpus):
    words = ("ls", str(own_cluster_corpus / "preflight/base/n1"))
    assert any("\x1b[" in line for line in on_terminal(100, *words))
    assert not any("\x1b[" in line for line in on_terminal(100, *words, NO_COLOR="1"))


def test_without_a_terminal_every_column_is_there():
    columns = (Column("name", is_text=True, shrinks="-"), Column("a", 2), Column("b", 1), Column("flags", is_text=True, shrinks="+", colour="yellow"))
    rows = [("long-name-of-a-topic-17", "1", "22", "deleted"), ("x", "333", "4", "")]
    assert list(table_lines(columns, rows, None)) == [
        "name                       a   b  flags", "long-name-of-a-topic-17    1  22  deleted", "x                        333   4",
    ]  # fmt: skip
    narrow = list(table_lines(columns, rows, 30))
    assert max(len(_CODES.sub("", line)) for line in narrow) <= 30
    assert "a" not in narrow[0].split()
    assert _CODES.sub("", narrow[1]).split()[0].endswith("topic-17")


def test_a_hostile_name_stays_text():
    [_, line] = table_lines((Column("name", is_text=True),), [("a\x1b[2J\nb",)], None)
    assert line == r"a\x1b[2J\nb"


@pytest.mark.parametrize(("amount", "most", "shown"), [(0, 10, ""), (10, 10, "█" * 8), (5, 10, "█" * 4), (1, 1000, "▏"), (0, 0, "")])
def test_bars(amount, most, shown):
    assert bar(amount, most) == shown


@pytest.mark.parametrize("columns", [80, 40])
@pytest.mark.parametrize("words", [("groups",), ("txn", "list"), ("txn", "show", "open-long")], ids=" ".join)
def test_rows_of_groups_and_transactions_fit(own_cluster_corpus, columns, words):
    lines = [_CODES.sub("", line) for line in on_terminal(columns, *words, str(own_cluster_corpus / "ops/1-stopped/n1"))]
    table = [line for line in lines if line.startswith("  ")]
    assert len(table) > 3
    assert max(map(len, table)) <= columns


def test_csv_on_a_terminal_is_printable(own_cluster_corpus):
    """Metadata of a commit is any text."""
    lines = on_terminal(80, "groups", "--format", "csv", "-g", "g-new", str(own_cluster_corpus / "ops/1-stopped/n1"))
    assert len(lines) == 5
    assert sum("größe\\n" in line for line in lines) == 3
