"""Everything that the real kafka-dump-log 4.3.1 printed: stdout byte for byte, stderr report by report."""

import json

import pytest

from tests.support.corpus import corpus_directory, dump_runs, roots
from tests.support.dump_reports import differences
from tests.support.floors import saw_enough
from tests.support.run import kafkalog

RUNS = [run for root in roots() for run in dump_runs(root)]
ITERATING = {"--deep-iteration", "--print-data-log"}


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
        reported = run.err.read_text() if run.err.exists() else ""
        assert not differences(_placed(reported, run.logs), done.err, iterated=iterates(run.arguments))


def iterates(words):
    return any(word in ITERATING or word.endswith(("-decoder", "-decoder-class")) for word in words)


def _placed(text, logs):
    """Text of Kafka's with the directory that it ran in, which the corpus leaves open."""
    return text.replace("{cwd}", str(logs)).replace(":LOGS/", f":{logs}/").replace(" LOGS/", f" {logs}/")


def command_lines():
    for file in sorted(corpus_directory().glob("*/expected/cli.json")):
        for case in json.loads(file.read_text()):
            if case["exit"] == 0 and case["args"] != ["--version"]:
                yield pytest.param(file.parents[1] / "logs", case, id=" ".join(case["args"])[:80])


@pytest.mark.parametrize(("logs", "case"), list(command_lines()))
def test_same_command_line(logs, case):
    done = kafkalog("dump-log", *case["args"], cwd=logs)
    assert done.out == _placed(case["out"], logs).encode()
    assert not differences(_placed(case["err"], logs), done.err, iterated=iterates(case["args"]))


def test_there_is_a_corpus():
    assert RUNS
    saw_enough("runs of kafka-dump-log", len(RUNS), 1001)


def test_there_are_reports():
    said = [run.err.read_text() for run in RUNS if run.err.exists() and not run.died]
    for headline in ("Mismatches in", "Found timestamp mismatch", "Found out of order", "not found in", "Non-consecutive"):
        saw_enough(f"reports '{headline}'", sum(headline in text for text in said), 2)
