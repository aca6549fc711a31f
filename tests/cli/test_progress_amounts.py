"""How far the work is: what a bar would show, where there is a terminal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.files import ReadOnlyFiles
from engine.log.logdir.log_dirs import find_log_dirs
from kafkalog_cli import progress
from kafkalog_cli.progress import Progress


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
        chosen = [replace(log_dir, places=log_dir.places[:1])]
        bar.expect(chosen, lambda _: files, passes=2)
        assert shown(bar) == (600, 0), "both passes over what was chosen"


def test_little_work_and_no_terminal_show_nothing(log_dirs):
    files = ReadOnlyFiles()
    for is_shown in (True, False):
        with Progress() as bar:
            bar.is_shown = is_shown
            bar.expect(log_dirs, lambda _: files)
            bar.advance(40)
            assert bar._bar is None
