"""What nine clients and Kafka's tools sent to a broker's group coordinator: ours gives the broker's answers."""

import json
from base64 import b64decode

from engine.files import ReadOnlyFiles
from engine.log.fetch.stored_groups import read_groups
from tests.support.corpus import groups_directory
from tests.support.group_bench import Bench, FakeTopics

BYTES = {"JoinGroup": ("metadata",), "SyncGroup": ("assignment",), "DescribeGroups": ("memberMetadata", "memberAssignment")}


def with_bytes(value, names):
    """Return a body with bytes in place of Kafka's base64."""
    if isinstance(value, list):
        return [with_bytes(one, names) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        name: b64decode(one) if name in names and isinstance(one, str) else with_bytes(one, names) for name, one in value.items()
    }  # fmt: skip


def renamed(value, names):
    if isinstance(value, list):
        return [renamed(one, names) for one in value]
    if isinstance(value, dict):
        return {name: renamed(one, names) for name, one in value.items()}
    return names.get(value, value) if isinstance(value, str) else value


def in_any_order(value):
    """Return a body whose lists can be compared: a broker's order follows hashes."""
    if isinstance(value, dict):
        return {name: in_any_order(one) for name, one in value.items()}
    return sorted(map(in_any_order, value), key=repr) if isinstance(value, list) else value


def as_in(answer, recorded):
    """Return our answer without the fields that the recorded version does not have."""
    if isinstance(answer, dict) and isinstance(recorded, dict):
        return {name: as_in(one, recorded[name]) for name, one in answer.items() if name in recorded}
    if isinstance(answer, list) and isinstance(recorded, list) and recorded:
        return [as_in(one, recorded[0]) for one in answer]
    return answer


def test_every_recorded_answer():
    top = groups_directory()
    stored = read_groups(ReadOnlyFiles(), [str(top / "wire/d0"), str(top / "wire/d1")], lambda _finding: None)
    topics = FakeTopics.of(json.loads((top / "topics.json").read_text())["wire"])
    bench = Bench(topics, stored.values(), consumer_heartbeat_interval_ms=500)
    rows = [json.loads(line) for line in (top / "sessions.jsonl").read_text().splitlines()]
    rows.sort(key=lambda row: row["session"].startswith("tool-groups"))  # these came last
    names = {}  # ids of members: recorded → ours
    for row in rows:
        fields = BYTES.get(row["api"], ())
        answer = bench.ask(row["api"], row["version"], renamed(with_bytes(row["request"], fields), names), row["client"])
        recorded = with_bytes(row["answer"], fields)
        if row["api"] == "JoinGroup":
            names[recorded["memberId"]] = answer["memberId"]
        assert in_any_order(as_in(answer, recorded)) == in_any_order(renamed(recorded, names)), row
    assert len(rows) == 120
    assert len(names) > 8
