"""How far the work is: what a bar would show, where there is a terminal."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console
from rich.progress import Progress as Bar

from engine.files import ReadOnlyFiles
from engine.log.logdir.log_dirs import find_log_dirs
from kafkalog_cli import progress
from kafkalog_cli.progress import Progress
from tests.support.keyed_logs import write_keyed_log
from tests.support.run import kafkalog


@pytest.fixture
def log_dirs(tmp_path):
    for partition, size in (("a-0", 300), ("b-0", 50)):
        (tmp_path / partition).mkdir()
        (tmp_path / partition / f"{0:020}.log").write_bytes(bytes(size))
    return find_log_dirs(ReadOnlyFiles(), [str(tmp_path)])


def shown(bar):
    (task,) = bar._bar.tasks
    return task.total, task.completed


def test_an_operation_that_knows_better_says_how_much_there_is(log_dirs, monkeypatch):
    monkeypatch.setattr(progress, "_WORTH_SHOWING", 1)
    files = ReadOnlyFiles()
    with Progress() as bar:
        bar.is_shown = True
        bar.expect(log_dirs, lambda _: files)
        assert shown(bar) == (350, 0)
        bar.advance(40)
        assert shown(bar) == (350, 40)
        (log_dir,) = log_dirs
        chosen = [replace(log_dir, directories=log_dir.directories[:1])]
        bar.expect(chosen, lambda _: files)
        assert shown(bar) == (300, 0)
        bar.advance(299)
        bar.advance(40)
        assert shown(bar) == (300, 300), "a file that grows, or is read twice, leads nowhere beyond the end"


def test_shares_of_the_work_on_each_log(log_dirs, monkeypatch):
    monkeypatch.setattr(progress, "_WORTH_SHOWING", 1)
    files = ReadOnlyFiles()
    (log_dir,) = log_dirs
    first, second = (place.path for place in log_dir.directories)
    with Progress() as bar:
        bar.is_shown = True
        bar.expect(log_dirs, lambda _: files)
        bar.expect_shares(log_dirs, lambda _: files, "compacting logs", None)
        assert shown(bar) == (350, 0)
        for _ in range(4):
            bar.advance(300, f"{first}/{0:020}.log")
        assert shown(bar) == (350, 75), "opening is a quarter of the work at most"
        bar.share(first, 0.5)
        assert shown(bar) == (350, 187)
        bar.share(first, 0.2)
        bar.advance(1 << 20, f"{first}/{0:020}.log")
        bar.advance(1 << 20, f"{log_dir.path}/elsewhere-0/{0:020}.log")
        assert shown(bar) == (350, 187), "it never goes back, and only shares count from now on"
        bar.share(second, 1.0)
        assert shown(bar) == (350, 237)
        bar.done_with(second)
        bar.done_with(first)
        assert shown(bar) == (350, 350), "what was left out is done too"


@pytest.mark.parametrize("width", [40, 69, 70, 80, 200])
def test_it_is_one_line_whatever_the_terminal_and_the_name(width):
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=True, color_system=None)
    bar = Bar(*progress._columns(width), console=console)
    bar.advance(bar.add_task(f"done: {'long.name' * 27}-123", total=123 << 40), 45 << 40)
    console.print(bar.get_renderable())
    [line] = out.getvalue().splitlines()
    assert "…" in line.partition("━")[0]
    assert "━" in line
    assert "-:--:--" in line, "how long it takes is not cut off"
    assert ("37%" in line) is (width < 70)
    assert ("49.5/135.2 TB" in line) is (width >= 70)


@pytest.mark.parametrize("kind", ["dumb", "unknown"])
def test_a_terminal_that_can_not_go_back_shows_nothing(kind, monkeypatch):
    monkeypatch.setattr("sys.stderr", type("Terminal", (io.StringIO,), {"isatty": lambda _: True})())
    assert Progress().is_shown
    monkeypatch.setenv("TERM", kind)
    assert not Progress().is_shown


@pytest.mark.parametrize(("rate", "is_worth_it"), [(None, False), (1000, False), (175, True), (1, True)])
def test_little_work_that_is_held_back_is_shown(rate, is_worth_it, log_dirs):
    with Progress() as bar:
        bar.is_shown = True
        bar.expect_shares(log_dirs, lambda _: ReadOnlyFiles(), "compacting logs", rate)
        assert (bar._bar is not None) is is_worth_it


@pytest.mark.parametrize("words", [(), ("--explain",), ("--dry-run",), ("--rounds", "2"), ("--jobs", "2")], ids="".join)
def test_many_rounds_go_forward_to_the_end(words, tmp_path, monkeypatch):
    monkeypatch.setattr(progress, "_WORTH_SHOWING", 1)
    now, told = 1_764_000_000_000, []
    ends = [write_keyed_log(tmp_path / f"t-{number}", number, now=now, once=0.5) for number in range(2)]

    def begin(bar):
        original(bar)
        bar.is_shown = True

    def move(bar, size):
        moved(bar, size)
        told.append(shown(bar))

    original, moved = Progress.__init__, Progress._move
    monkeypatch.setattr(Progress, "__init__", begin)
    monkeypatch.setattr(Progress, "_move", move)
    done = kafkalog("compact", "--force", "--config", "cleanup.policy=compact", "--dedupe-buffer-size", "2400", "--now", str(now),
                    *words, str(tmp_path / "t-0"), str(tmp_path / "t-1"))  # fmt: skip
    assert done.status <= 1, (done.err, ends)
    if not words:
        assert done.out.count(b"compacted (") > 6
    total = told[0][0]
    assert {one for one, _ in told} == {total}
    amounts = [amount for _, amount in told]
    assert amounts == sorted(amounts)
    assert amounts[-1] == total
    assert any(0.3 * total < amount < 0.7 * total for amount in amounts)


def test_little_work_and_no_terminal_show_nothing(log_dirs):
    files = ReadOnlyFiles()
    for is_shown in (True, False):
        with Progress() as bar:
            bar.is_shown = is_shown
            bar.expect(log_dirs, lambda _: files)
            bar.advance(40)
            assert bar._bar is None
