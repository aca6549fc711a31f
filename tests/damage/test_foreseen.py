"""Whether a broker starts on each damaged partition and log dir is foreseen, for each kind of start."""

from __future__ import annotations

import shutil

import pytest

from engine.config.server import Settings
from engine.files import ReadOnlyFiles
from engine.log.logdir.log_dirs import find_log_dirs
from engine.log.logdir.log_manager import LogManager
from engine.log.logdir.startup import survey
from engine.log.starting.broker_start import predict_start, survey_broker
from engine.log.starting.brokers import named_brokers
from engine.log.starting.loading import load_log
from engine.log.starting.outcome import Verdict
from engine.overlay import OverlayFiles
from tests.damage.truth import MODES, damage_corpus, truth

MARKER, POINTS = ".kafka_cleanshutdown", "recovery-point-offset-checkpoint"
DIRS = [(name, mode) for name, one in truth()["dirs"].items() for mode in MODES if mode in one]


@pytest.mark.parametrize("mode", MODES)
def test_what_stops_a_broker_at_a_damaged_partition(mode, tmp_path):
    top, files, wrong, seen = shutil.copytree(damage_corpus() / "before", tmp_path / "before"), ReadOnlyFiles(), [], 0
    for points in top.rglob(POINTS) if mode == "full" else ():
        points.unlink()
    for name, damage in truth()["damages"].items():
        if mode not in damage:
            continue
        log_dirs = find_log_dirs(files, [str(top / damage["partition"])])
        overlay = OverlayFiles(files, truth()["now_ms"])
        manager = LogManager(lambda _log_dir, over=overlay: over, survey(files, log_dirs), Settings(), truth()["now_ms"])
        log = load_log(manager, log_dirs[0].directories[0], is_clean=mode == "clean")
        seen += 1
        if (log.report.failure is None) != damage[mode]["started"]:
            wrong.append((name, log.report.failure, damage[mode]["words"]))
    assert (wrong, seen > 50) == ([], True)


@pytest.mark.parametrize(("name", "mode"), DIRS)
def test_whether_a_broker_starts_on_damaged_log_dirs(name, mode, tmp_path):
    top, files = shutil.copytree(damage_corpus() / "dirs" / name, tmp_path / name, symlinks=True), ReadOnlyFiles()
    for path in [*top.rglob(MARKER), *top.rglob(POINTS)]:
        if (path.name == MARKER and mode != "clean") or (path.name == POINTS and mode == "full"):
            path.unlink()
    [broker], _ = named_brokers(files, [str(top)])
    start = predict_start(files, broker, survey_broker(files, broker), Settings(), truth()["now_ms"])
    assert start is not None
    assert (start.verdict is not Verdict.REFUSES) == truth()["dirs"][name][mode]["started"], start.broker_says
