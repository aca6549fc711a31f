"""Logs of far more segments than the process may have files open, as `ulimit -n` says."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from shutil import copytree

import pytest

from engine.record.builder import NewRecord, build_batch
from tests.support.live_keys import lost_keys
from tests.support.run import kafkalog

ROOT = Path(__file__).parents[2]
NOW = 1_764_000_000_000
SEGMENTS, PARTITIONS, FILES = 150, 3, 64


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A log dir whose partitions have a segment for every record."""
    log_dir = tmp_path_factory.mktemp("few") / "d0"
    log_dir.mkdir()
    (log_dir / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=x\n")
    records = log_dir.parent / "records.jsonl"
    lines = [json.dumps({"key": str(at % 7), "value": "v" * 50, "timestamp": NOW - 10_000 + at}) for at in range(SEGMENTS)]
    records.write_text("\n".join(lines) + "\n")
    done = kafkalog("append", "--create", "--clean-start", "--now", str(NOW), "--input", str(records), "--batch-size", "1",
                    "--config", "segment.bytes=130", str(log_dir / "t-0"))
    assert done.status == 0, done.err
    (log_dir / "t-0/partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n")
    for number in range(1, PARTITIONS):
        copytree(log_dir / "t-0", log_dir / f"t-{number}")
    return log_dir


@pytest.fixture
def log_dir(made, tmp_path):
    return copytree(made, tmp_path / "d0")


def run(*words, hard=FILES, status=0, modules=ROOT):
    """The program, with so many files that it may have open at most."""
    done = subprocess.run(
        [sys.executable, "-m", "kafkalog_cli", *map(str, words)], env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{modules}"}, timeout=300,
        check=False, capture_output=True, text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, hard)),
    )
    assert done.returncode == status, done.stderr[-2000:]
    return done.stdout


def logs(directory):
    return {path.name: path.read_bytes() for path in directory.glob("*.log")}


@pytest.mark.parametrize("jobs", [1, 4])
def test_compacts(log_dir, jobs):
    before = {path.name: logs(path) for path in log_dir.glob("t-*")}
    assert len(before) == PARTITIONS
    assert {len(names) for names in before.values()} == {SEGMENTS}
    options = ("--force", "--clean-start", "--now", NOW, "--config", "cleanup.policy=compact", "--config", "segment.bytes=400")
    run("compact", "--dry-run", "--jobs", jobs, *options, log_dir)
    run("compact", "--explain", "--jobs", jobs, *options, log_dir)
    # in several rounds, each of which reads what is clean
    run("compact", "--dedupe-buffer-size", 24 * 6 * jobs, "--jobs", jobs, *options, log_dir)
    for name, data in before.items():
        assert lost_keys(data, logs(log_dir / name)) == []
        assert len(logs(log_dir / name)) < SEGMENTS / 2


@pytest.mark.parametrize("jobs", [1, 4])
def test_recovers(log_dir, jobs):
    before = {path: path.read_bytes() for path in log_dir.glob("t-*/*.log")}
    for path in (*log_dir.glob("t-0/*.index"), *log_dir.glob("t-1/*.index")):
        path.unlink()
    options = ("--recovery-point", 0, "--now", NOW, "--jobs", jobs)
    logs_named = [log_dir / f"t-{number}" for number in range(PARTITIONS)]
    run("recover", "--dry-run", *options, *logs_named, status=1)
    run("recover", "--salvage", *options, "--quarantine", log_dir.parent / "q", *logs_named, status=1)
    assert {path: path.read_bytes() for path in log_dir.glob("t-*/*.log")} == before
    assert len(list(log_dir.glob("t-*/*.index"))) == len(before)


def test_appends(log_dir):
    run("append", "--clean-start", "--now", NOW, "--batch-size", 1, "--config", "segment.bytes=130", "--input",
        write_records(log_dir), log_dir / "t-0")
    assert len(logs(log_dir / "t-0")) == 2 * SEGMENTS


def write_records(log_dir):
    path = log_dir / "more.jsonl"
    path.write_text("\n".join(json.dumps({"key": "k", "value": "v" * 50}) for _ in range(SEGMENTS)) + "\n")
    return path


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_fetches(log_dir, isolation):
    words = ("fetch", "--offset", 0, "--isolation", isolation, "-f", "%o\\n", log_dir / "t-0")
    assert len(run(*words).splitlines()) == SEGMENTS


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_fetches_by_way_of_indexes(tmp_path, isolation):
    (tmp_path / "d0").mkdir()
    run("append", "--create", "--clean-start", "--now", NOW, "--batch-size", 1, "--config", "segment.bytes=300", "--config",
        "index.interval.bytes=0", "--input", write_records(tmp_path), tmp_path / "d0/t-0")
    assert len([path for path in tmp_path.glob("d0/t-0/*.index") if path.stat().st_size]) > FILES
    words = ("fetch", "--offset", 0, "--isolation", isolation, "-f", "%o\\n", tmp_path / "d0/t-0")
    assert len(run(*words).splitlines()) == SEGMENTS


def test_looks_for_the_end_of_a_transaction_that_no_index_tells_of(tmp_path):
    partition = tmp_path / "t-0"
    partition.mkdir()
    of_producer = {"magic": 2, "producer_id": 5, "producer_epoch": 0, "transactional": True}
    for offset in range(SEGMENTS):
        what = {"magic": 2, "base_offset": offset, "last_offset": offset}
        record = NewRecord(offset, NOW, b"k", b"v", [])
        if offset == 0:
            what |= of_producer | {"base_sequence": 0}
        elif offset == SEGMENTS - 1:
            record, what = NewRecord(offset, NOW, b"\0\0\0\0", bytes(6), []), what | of_producer | {"control": True}
        (partition / f"{offset:020d}.log").write_bytes(build_batch([record], **what))
    told = run("fetch", "--offset", 0, "--isolation", "read_committed", "-f", "%o\\n", partition)
    assert told.split() == [str(offset) for offset in range(1, SEGMENTS - 1)]


def test_the_program_takes_what_the_system_would_give(log_dir):
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert hard == resource.RLIM_INFINITY or hard > FILES
    decoder = log_dir.parent / "limits.py"
    decoder.write_text("import resource\n\ndef show(_data):\n    return resource.getrlimit(resource.RLIMIT_NOFILE)\n")
    told = run("dump-log", "--print-data-log", "--value-decoder-class", "limits:show", log_dir / "t-0", hard=hard, modules=log_dir.parent)
    assert f"payload: ({hard}, {hard})" in told
