"""The map of a damaged log: on a terminal only, no wider than it, in ASCII if the locale has nothing else."""

from __future__ import annotations

import shutil

import pytest

from kafkalog_cli import log_map
from tests.support.run import kafkalog
from tests.support.terminal import on_terminal

SEGMENT, DAMAGE = "00000000000000000173.log", 4000
FIRST, TRUNCATED, END = 0, 214, 338  # offsets of the log, from where a repair truncates it, and its end


@pytest.fixture
def damaged(own_corpus, tmp_path):
    """A partition of four segments with a wrong byte in the third."""
    partition = tmp_path / "u-rolls-0"
    shutil.copytree(own_corpus / "kafka-4.3.1/logs/unclean/d0/u-rolls-0", partition)
    data = bytearray((partition / SEGMENT).read_bytes())
    data[DAMAGE] ^= 1
    (partition / SEGMENT).write_bytes(data)
    return partition


UNREAD = 173  # offsets below the recovery point, which are not read


def maps(lines, cells="▇▁░"):
    return [line[2:] for line in lines if line.startswith("  ") and line[2:] and set(line[2:]) <= set(cells)]


@pytest.mark.parametrize(("columns", "width"), [(200, 60), (40, 38)])
def test_a_dry_run_of_recover_shows_the_offsets_that_would_be_lost(damaged, columns, width):
    sound = TRUNCATED * width // END
    [line] = maps(on_terminal(columns, "recover", "-n", str(damaged), status=1))
    assert line == "▇" * sound + "░" * (width - sound)
    [plain] = maps(on_terminal(columns, "recover", "-n", str(damaged), status=1, LC_ALL="C"), "#?.")
    assert plain == "#" * sound + "." * (width - sound)


def test_what_was_not_read_is_not_sound(damaged):
    """A recovery point beside it: what is below was not read."""
    (damaged.parent / "recovery-point-offset-checkpoint").write_text(f"0\n1\nu-rolls 0 {UNREAD}\n")
    kept, unread = TRUNCATED * 60 // END, (UNREAD - 1) * 60 // END + 1
    [line] = maps(on_terminal(200, "recover", "-n", str(damaged), status=1))
    assert line == "▁" * unread + "▇" * (kept - unread) + "░" * (60 - kept)
    [whole] = maps(on_terminal(200, "recover", "-n", "--full", str(damaged), status=1))
    assert whole == "▇" * kept + "░" * (60 - kept)


def test_check_shows_the_bytes_that_are_damaged(damaged):
    sizes = [path.stat().st_size for path in sorted(damaged.glob("*.log"))]
    before = sum(path.stat().st_size for path in damaged.glob("*.log") if path.name < SEGMENT)
    [line] = maps(on_terminal(80, "check", "--level", "full", str(damaged), status=4))
    assert len(line) == 60
    assert line[(before + DAMAGE) * 60 // sum(sizes)] == "░"
    assert line.count("░") <= 3, "one batch"
    assert maps(on_terminal(80, "check", str(damaged))) == [], "the bytes are not read"


def test_check_shows_the_offsets_that_a_start_removes(own_corpus, tmp_path):
    shutil.copytree(own_corpus / "kafka-4.3.1/logs/unclean/d0", tmp_path / "d0")
    data = bytearray((tmp_path / "d0/u-rolls-0" / SEGMENT).read_bytes())
    data[DAMAGE] ^= 1
    (tmp_path / "d0/u-rolls-0" / SEGMENT).write_bytes(data)
    [planned] = maps(on_terminal(80, "recover", "-n", str(tmp_path / "d0/u-rolls-0"), status=1))
    [line] = maps(on_terminal(80, "check", "--level", "start", str(tmp_path / "d0"), status=4))
    assert line == planned
    assert "░" not in kafkalog("check", str(tmp_path / "d0")).out.decode()


def test_a_torn_log_is_damaged_up_to_its_end(damaged):
    last = max(damaged.glob("*.log"))
    (damaged / SEGMENT).unlink()
    with last.open("r+b") as file:
        file.truncate(last.stat().st_size - 1)
    [line] = maps(on_terminal(80, "check", "--level", "full", str(damaged), status=4))
    assert line.endswith("░")
    assert line.startswith("▇" * 40)


def test_what_is_piped_has_no_map(damaged):
    for words in (("recover", "-n"), ("check", "--level", "full")):
        assert "░" not in kafkalog(*words, str(damaged)).out.decode()


@pytest.mark.parametrize(("lost", "first", "end", "shown"), [
    ([(2, 3)], 0, 6, "▇▇░▇▇▇"), ([(0, 1), (5, 6)], 0, 6, "░▇▇▇▇░"), ([(2, 9)], 0, 6, "▇▇░░░░"),
    ([(104, 105)], 100, 220, "▇▇░" + "▇" * 57), ([(2**62, 2**62 + 1)], 0, 2**63, "▇" * 30 + "░" + "▇" * 29),
])  # fmt: skip
def test_a_cell_is_sound_only_if_nothing_in_it_is_lost(monkeypatch, lost, first, end, shown):
    monkeypatch.setattr(log_map, "terminal_width", lambda: 100)
    assert log_map.map_line(lost, first, end) == f"  {shown}"
    monkeypatch.setattr(log_map, "terminal_width", lambda: None)
    assert log_map.map_line(lost, first, end) is None
