"""`import kafkalog`: cheap, typed, reads what a consumer reads, plans what the commands do, and changes nothing."""

from __future__ import annotations

import base64
import gzip
import json
import os
import re
import shutil
import subprocess
import sys

import pytest
from mypy import api as mypy

import kafkalog
from tests.support.console import ROOT
from tests.support.run import kafkalog as program


@pytest.fixture
def logs(own_corpus, tmp_path):
    shutil.copytree(own_corpus / "kafka-4.3.1/logs", tmp_path / "logs")
    return tmp_path / "logs"


def in_new_process(*words):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run([sys.executable, *words], env=environment, capture_output=True, text=True, check=True).stdout


def test_the_import_loads_nothing_else_of_the_project():
    loaded = in_new_process("-c", "import sys, kafkalog; print(*(one.partition('.')[0] for one in sys.modules))").split()
    assert set(loaded) & {"kafkalog", "engine", "kafkalog_cli", "click", "pyarrow", "zstandard"} == {"kafkalog"}


def test_every_public_name_is_loaded_on_first_use():
    for name in kafkalog.__all__:
        assert getattr(kafkalog, name).__name__ == name
    assert dir(kafkalog) == kafkalog.__all__
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        kafkalog.nothing  # noqa: B018  # the access raises


def test_the_module_is_the_program():
    assert in_new_process("-m", "kafkalog", "--version") == in_new_process("-m", "kafkalog_cli", "--version")


def test_the_examples_have_types_that_mypy_accepts(tmp_path):
    """Strictly, as a program of a user: a name without types would be Any, which reveal_type shows."""
    page = (ROOT / "docs/api.md").read_text()
    examples = [*re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)]
    for number, text in enumerate(examples):
        (tmp_path / f"example_{number}.py").write_text(text)
    names = "".join(f"reveal_type(kafkalog.{name})\n" for name in kafkalog.__all__)
    (tmp_path / "names.py").write_text(f"import kafkalog\n{names}")
    out, err, _ = mypy.run(["--strict", "--config-file", str(ROOT / "pyproject.toml"), *map(str, sorted(tmp_path.glob("*.py")))])
    assert (err, [line for line in out.splitlines() if ": error:" in line]) == ("", [])
    revealed = re.findall(r'names\.py:\d+: note: Revealed type is "(.*)"', out)
    assert len(revealed) == len(kafkalog.__all__)
    assert [one for one in revealed if one in ("Any", "builtins.object")] == []


@pytest.mark.parametrize("committed", [False, True])
def test_records_are_those_that_a_consumer_reads(own_corpus, committed):
    root = own_corpus / "kafka-4.3.1"
    isolation = "read_committed" if committed else "read_uncommitted"
    with gzip.open(root / f"consumed/clean/{isolation}/tx-0.jsonl.gz", "rt") as lines:
        wanted = [json.loads(line) for line in lines]
    with kafkalog.Partition(str(root / "logs/clean/d0/tx-0")) as partition:
        if committed:  # the broker ended the last transaction after the directory was copied
            assert partition.last_stable_offset == 83
            wanted = [one for one in wanted if one["offset"] < 83]
        found = [(one.offset, one.timestamp, one.key) for one in partition.records(committed=committed)]
        rows = [row for batch in partition.arrow(["offset", "key"], committed=committed) for row in batch.to_pylist()]
    assert found == [(one["offset"], one["timestamp"], one["key"] and base64.b64decode(one["key"])) for one in wanted]
    assert [(row["offset"], row["key"]) for row in rows] == [(offset, key) for offset, _, key in found]


def test_offsets_limit_what_is_read(own_corpus):
    with kafkalog.Partition(str(own_corpus / "kafka-4.3.1/logs/clean/d1/small_segments-0")) as partition:
        every = [one.offset for one in partition.records()]
        assert [one.offset for one in partition.records(40, 43)] == [one for one in every if 40 <= one < 43] == [40, 41, 42]
        assert [one.offset for one in partition.records(limit=3)] == every[:3]
        assert partition.offset_at(2**62) is None
        with pytest.raises(kafkalog.KafkalogError):
            next(partition.records(partition.log_end_offset + 1))
        with pytest.raises(kafkalog.KafkalogError, match="'no' is not a column"):
            partition.arrow(["no"])


def test_batches_are_those_of_every_segment(own_corpus):
    with kafkalog.Partition(str(own_corpus / "kafka-4.3.1/logs/clean/d1/small_segments-0")) as partition:
        offsets = [offset for batch in partition.batches() for offset in range(batch.base_offset, batch.last_offset + 1)]
        assert offsets == list(range(partition.log_start_offset, partition.log_end_offset))
        assert partition.findings == []


def test_a_plan_is_what_the_command_then_does(logs):
    path = str(logs / "damaged/length-tiny-0")
    [plan] = kafkalog.plan_recovery(path, full=True)
    assert any(event.action is kafkalog.Action.TRUNCATED for event in plan.events)
    done = program("recover", "--full", "--yes", "--no-quarantine", "--format", "jsonl", path)
    [report] = [one for one in map(json.loads, done.out.splitlines()) if one["type"] == "report"]
    assert (plan.log_start_offset, plan.log_end_offset) == (report["log_start_offset"], report["log_end_offset"])
    assert [(one.action.value, one.path, one.reason) for one in plan.events] == [
        (one["action"], one["file"], one["reason"]) for one in report["events"]
    ]  # fmt: skip
    [after] = kafkalog.plan_recovery(path, full=True)
    assert not any(event.action is kafkalog.Action.TRUNCATED for event in after.events)


def state(directory):
    return {str(path): (path.lstat().st_mtime_ns, path.is_file() and path.read_bytes()) for path in sorted(directory.rglob("*"))}


def test_nothing_on_the_disk_is_changed(logs):
    before = state(logs)
    kafkalog.ls(str(logs))
    kafkalog.predict_starts(str(logs / "clean"), str(logs / "unclean"))
    assert len(list(kafkalog.verify(str(logs / "clean"), str(logs / "damaged")))) > 50
    assert len(list(kafkalog.plan_recovery(str(logs / "unclean"), salvage=True))) > 5
    for path in (logs / "clean/d1").glob("*-0"):
        with kafkalog.Partition(str(path)) as partition:
            list(partition.batches())
            list(partition.records())
    assert state(logs) == before


def test_a_partition_that_cannot_be_read_does_not_stop_the_others(logs):
    log_dir = logs / "clean/d1"
    for path in (log_dir / "bulk-0").glob("*.log"):
        path.unlink()
        path.mkdir()
    done = {one.path.rpartition("/")[2]: one for one in kafkalog.verify(str(log_dir))}
    assert (done["bulk-0"].verification, "bulk-0" in str(done["bulk-0"].error)) == (None, True)
    assert [name for name, one in done.items() if one.error is not None] == ["bulk-0"]
    assert len(done) > 20


@pytest.mark.parametrize("ask", [
    kafkalog.ls, kafkalog.predict_starts, kafkalog.Partition, lambda path: list(kafkalog.verify(path)),
    lambda path: list(kafkalog.plan_recovery(path)),
])  # fmt: skip
def test_a_path_without_logs_is_one_clear_sentence(tmp_path, ask):
    (tmp_path / "orders-0").write_text("no directory")
    for path in ("nothing", "orders-0"):
        with pytest.raises(kafkalog.KafkalogError) as raised:
            ask(str(tmp_path / path))
        assert path in str(raised.value)
        assert "\n" not in str(raised.value)
