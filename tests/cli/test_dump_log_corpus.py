"""Everything that the real kafka-dump-log 4.3.1 printed, byte for byte."""

import json

import pytest

from tests.support.corpus import corpus_directory, dump_runs, roots
from tests.support.run import kafkalog

RUNS = [run for root in roots() for run in dump_runs(root)]


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_same_text(run):
    wanted = run.out.read_bytes()
    done = kafkalog("dump-log", *run.arguments, cwd=run.logs)
    if run.died:
        assert done.out.startswith(wanted)
        # it died of something that we report, or of something that is no reason to stop
        assert done.status in {4, 8} or len(done.out) > len(wanted), done.err
    else:
        assert done.out == wanted


def command_lines():
    for file in sorted(corpus_directory().glob("*/expected/cli.json")):
        for case in json.loads(file.read_text()):
            if case["exit"] == 0 and case["args"] != ["--version"]:
                yield pytest.param(file.parents[1] / "logs", case, id=" ".join(case["args"])[:80])


@pytest.mark.parametrize(("logs", "case"), list(command_lines()))
def test_same_command_line(logs, case):
    assert kafkalog("dump-log", *case["args"], cwd=logs).out == case["out"].replace("{cwd}", str(logs)).encode()


def test_there_is_a_corpus():
    assert len(RUNS) > 1000
