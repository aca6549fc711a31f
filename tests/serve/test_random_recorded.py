"""Random requests of several members to a broker, recorded with its answers: ours gives the same ones, after the same requests."""

import json
import re
from base64 import b64decode
from itertools import groupby

import pytest

from tests.serve.test_group_sessions import as_in, in_any_order
from tests.support.corpus import groups_directory
from tests.support.group_bench import Bench, FakeTopics

NEW_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}")


def runs(name):
    rows = [json.loads(line) for line in (groups_directory() / name).read_text().splitlines()]
    return [list(run) for _, run in groupby(rows, key=lambda row: row["seed"])]


def read(value, names):
    """Return a recorded body with our ids in place of their names, and with bytes."""
    if isinstance(value, list):
        return [read(one, names) for one in value]
    if not isinstance(value, dict):
        return names.get(value, value) if isinstance(value, str) else value
    return b64decode(value["$b"]) if "$b" in value else {key: read(one, names) for key, one in value.items()}


def shown(value):
    """Return our answer as answers were recorded: the partitions of an assignment are counted, ids not known yet have no name."""
    if isinstance(value, list):
        return [shown(one) for one in value]
    if isinstance(value, dict):
        if isinstance(value.get("topicPartitions"), list):
            return sum(len(one["partitions"]) for one in value["topicPartitions"])
        return {key: shown(one) for key, one in value.items() if key not in ("throttleTimeMs", "heartbeatIntervalMs")}
    return value


def anonymous(value, known):
    if isinstance(value, list):
        return [anonymous(one, known) for one in value]
    if isinstance(value, dict):
        return {key: anonymous(one, known) for key, one in value.items()}
    return NEW_ID.sub("UUID", value) if isinstance(value, str) and value not in known else value


@pytest.mark.parametrize("name", ["random-classic.jsonl", "random-consumer.jsonl"])
def test_answers_to_random_requests(name):
    topics = FakeTopics.of(json.loads((groups_directory() / "topics.json").read_text())["wire"])
    steps = 0
    for run in runs(name):
        bench, names, waiting = Bench(topics), {}, {}
        for row in run:
            steps += 1
            body = read(row["request"], names)
            waiting[row["member"]] = row["api"], bench.start(row["api"], row["version"], body, row["client"])
            answers = {}
            for member, recorded in row["answers"].items():
                api, result = waiting.pop(member)
                answers[member] = result()
                if api == "JoinGroup" and recorded["memberId"].startswith("<"):
                    names[recorded["memberId"]] = answers[member]["memberId"]
            for member, recorded in row["answers"].items():
                expected = read(recorded, names)
                ours = anonymous(as_in(shown(answers[member]), expected), set(names.values()))
                assert in_any_order(ours) == in_any_order(expected), (row["seed"], steps, row["api"], member)
            bench.until_waiting(len(waiting))
        bench.coordinator.close()
    assert steps >= 900
