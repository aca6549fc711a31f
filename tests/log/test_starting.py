"""The start of a broker is foreseen: verdict, words, and what it does, as a real broker did on the same log dirs."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from engine.config.server import Settings, server_config
from engine.discovery.names import PartitionKind, file_name, parse_partition_dir
from engine.files import ReadOnlyFiles
from engine.findings import Severity
from engine.log.starting.broker_start import predict_start, survey_broker
from engine.log.starting.brokers import configured_broker, named_brokers
from tests.support.corpus import cluster_corpus, tiered_corpus
from tests.support.file_work import tree
from tests.support.preflight import cases, materialize, server_properties

if TYPE_CHECKING:
    from pathlib import Path

    from engine.log.starting.outcome import Start

NOW = 1_796_000_000_000
CASES = cases(cluster_corpus() / "preflight")
FORETOLD = (  # warnings of brokers that start
    "Corruption found in segment", "marked stray and renamed", "Loaded stray log", "Deleting all segments because",
    "below high watermark", "Epoch from quorum store file",
)
VERDICTS = {"starts": "starts", "starts-degraded": "degraded", "loses-metadata": "starts", "refuses": "refuses"}


def foreseen(values: dict[str, str]) -> Start:
    files, server = ReadOnlyFiles(), server_config(values)
    broker = configured_broker(files, server)
    start = predict_start(files, broker, survey_broker(files, broker), Settings(server), NOW)
    assert start is not None
    return start


@contextmanager
def locked(path: Path | None):
    """Let another process hold the lock file at `path`."""
    if path is None:
        yield
        return
    words = f"import fcntl, sys; f = open({str(path)!r}, 'w'); fcntl.lockf(f, fcntl.LOCK_EX); print(1, flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", words], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        yield
        process.stdin.close()


def matches(says: str, lines: list[str]) -> bool:
    """Is `says`, with … for what only the broker knows, a part of one of the lines?"""
    pattern = re.compile(".*".join(map(re.escape, says.split("…"))))
    return any(pattern.search(line) for line in lines)


@pytest.mark.parametrize("name", CASES)
def test_a_start_is_foreseen_as_it_was(name, cluster_corpus, tmp_path):
    preflight = cluster_corpus / "preflight"
    case = json.loads((preflight / "cases" / name / "case.json").read_text())
    home = materialize(preflight, name, tmp_path / "n1")
    before = tree(ReadOnlyFiles(), str(home))
    lock = case["options"].get("lock")
    with locked(home / lock / ".lock" if lock else None):
        start = foreseen(server_properties(home, case["options"]))
    assert {name: data for name, data in tree(ReadOnlyFiles(), str(home)).items() if not name.endswith(".lock")} == before
    refuses, loud = not case["started"], [line for error in case["errors"] for line in (error["text"], *error["cause"])]
    is_degraded = case["started"] and any(error["logger"] == "LogDirFailureChannel" for error in case["errors"])
    wanted = "refuses" if refuses else "degraded" if is_degraded else "starts"
    assert VERDICTS[start.verdict.value] == wanted, (start.broker_says, start.problems)
    said = (start.broker_says or "").replace(str(home), "DIR")
    assert matches(said, loud if wanted != "starts" else [said]), (said, loud)
    if refuses:
        return  # what a start would do after that was not seen
    strays = sorted(re.sub(r"\.[0-9a-f]{32}-stray/$", "", one) for one in case["directories_new"] if one.endswith("-stray/"))
    renamed = sorted(action.path.removeprefix(f"{home}/") for action in start.actions if action.action == "rename-stray")
    assert renamed == strays
    warned = [one["text"] for one in case["warnings"]]
    for action in start.actions:
        if action.action in ("truncate", "rename-stray"):
            assert matches(action.broker_says.replace(str(home), "DIR"), warned)
    ours = [action.broker_says or "-" for action in start.actions] + [problem.message or "-" for problem in start.problems]
    ours += [finding.what.partition("says: ")[2] or "-" for finding in start.findings]
    for line in warned:
        if any(phrase in line for phrase in FORETOLD):
            assert any(one.replace(str(home), "DIR") in line for one in ours), line
    if not is_degraded:
        compare_logs(case, preflight, start, home, strays)


def compare_logs(case: dict, preflight: Path, start: Start, home: Path, strays: list[str]) -> None:
    """The logs are loaded with the start, end and number of segments that the broker printed."""
    control = json.loads((preflight / "cases/control/case.json").read_text())["loads"]
    seen = 0
    for log in start.logs:
        place = log.path.replace(str(home), "DIR")
        told = {**control, **case["loads"]}.get(place)
        if told is not None and place.removeprefix("DIR/") not in strays:
            assert (log.log_start_offset, log.log_end_offset, log.segments) == (
                told["log_start"], told["log_end"], told["segments"]), place  # fmt: skip
            seen += 1
    assert seen >= (3 if case["options"].get("dirs") == 1 or case["removed_from_base"] else 8)


def test_created_logs_are_those_that_appeared(cluster_corpus, tmp_path):
    """Replicas without a directory are created empty, also in the place of strays."""
    preflight = cluster_corpus / "preflight"
    for name in CASES:
        case = json.loads((preflight / "cases" / name / "case.json").read_text())
        is_whole = case["started"] and not any(error["logger"] == "LogDirFailureChannel" for error in case["errors"])
        created = {text.split(" in DIR/")[1].split(" with ")[0] for text in case["info"] if "Created log for partition" in text}
        if not (is_whole and created):
            continue
        home = materialize(preflight, name, tmp_path / name)
        start = foreseen(server_properties(home, case["options"]))
        foretold = {action.path.removeprefix(f"{home}/") for action in start.actions
                    if action.action == "create-empty" and parse_partition_dir(file_name(action.path))}
        assert created <= foretold, name
        lost = {finding.code for finding in start.findings if finding.severity is Severity.ERROR}
        strays = any(action.action == "rename-stray" for action in start.actions)
        assert strays or lost & {"replica-missing", "dir-lost-its-logs", "future-abandoned"}, name


def brokers_below(top: Path) -> list[Path]:
    """Directories with log dirs of sound brokers of a corpus."""
    return sorted({path.parents[1] for path in top.rglob("meta.properties") if "cases" not in path.parts and "damaged" not in path.parts})


def test_no_sound_broker_is_accused(cluster_corpus, corpus):
    files, seen = ReadOnlyFiles(), 0
    for home in [one for top in (cluster_corpus, corpus, tiered_corpus()) for one in brokers_below(top)]:
        brokers, _ = named_brokers(files, [str(home)])
        for broker in brokers:
            start = predict_start(files, broker, survey_broker(files, broker), Settings(), NOW)
            assert start is not None
            assert start.verdict.value == "starts", (home, start.broker_says)
            assert [one for one in start.findings if one.severity is not Severity.INFO] == [], home
            seen += 1
    assert seen >= 20


def test_brokers_of_a_tree_are_told_apart(cluster_corpus):
    """Each state of a cluster has three nodes; the same nodes occur in several states."""
    brokers, named = named_brokers(ReadOnlyFiles(), [str(cluster_corpus / "forks")])
    assert named == []
    homes = [{one.path.rpartition("/")[0] for one in broker.log_dirs} for broker in brokers]
    assert all(len(home) == 1 for home in homes)
    assert len(homes) == len({home for one in homes for home in one}) == len(list((cluster_corpus / "forks").glob("*/n?")))


def test_a_node_id_of_the_configuration_that_is_not_stored(cluster_corpus, tmp_path):
    home = materialize(cluster_corpus / "preflight", "control", tmp_path / "n1")
    start = foreseen({**server_properties(home, {}), "node.id": "7"})
    assert start.verdict.value == "refuses"
    assert start.broker_says.startswith("Stored node id 1 doesn't match previous node id 7 in ")


def test_a_broker_that_runs_is_no_problem(cluster_corpus, tmp_path):
    home = materialize(cluster_corpus / "preflight", "control", tmp_path / "n1")
    with locked(home / "d0/.lock"), locked(home / "d1/.lock"):
        start = foreseen(server_properties(home, {}))
    assert (start.verdict.value, start.is_running, start.logs) == ("starts", True, [])


def test_log_dirs_that_all_fail(cluster_corpus, tmp_path):
    home = materialize(cluster_corpus / "preflight", "control", tmp_path / "n1")
    values = {**server_properties(home, {}), "log.dirs": f"{home}/d1", "metadata.log.dir": f"{home}/d0"}
    shutil.rmtree(home / "d1")
    (home / "d1").write_bytes(b"")
    start = foreseen(values)
    assert start.verdict.value == "starts-degraded", "the metadata log's dir has logs too, and is alive"


def test_kinds_of_directories_are_loaded(cluster_corpus, tmp_path):
    home = materialize(cluster_corpus / "preflight", "name-stray-left", tmp_path / "n1")
    start = foreseen(server_properties(home, {}))
    kinds = {parse_partition_dir(file_name(log.path)).kind for log in start.logs}
    assert kinds == set(PartitionKind)
