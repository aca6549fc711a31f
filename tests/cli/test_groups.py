"""`kafkalog groups` says what Kafka's own tools said of the groups, now and before."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
from pathlib import Path

import pytest

from engine.log.fetch.coordinator_logs import coordinator_partition
from tests.support.cluster import table_rows, told_states
from tests.support.json_output import all_objects, of_type
from tests.support.run import kafkalog

OFFSETS = "__consumer_offsets"
Key = tuple[str, str, int]


def groups(*words: str, statuses: tuple[int, ...] = (0,)) -> list[dict]:
    done = kafkalog("groups", "--format", "jsonl", *words)
    assert done.status in statuses, done.err
    return all_objects(done.out)


def committed(objects: list[dict]) -> dict[Key, tuple]:
    shares = {one["group"] for one in of_type(objects, "group") if one["group_type"] == "share"}  # they commit nothing
    return {
        (one["group"], one["topic"], one["partition"]): (one["offset"], one["leader_epoch"], one["metadata"], one["commit_time"])
        for one in of_type(objects, "group-offset") if one["offset"] is not None and one["group"] not in shares
    }  # fmt: skip


def states(top: Path) -> list[tuple[Path, Path]]:
    """(log dirs, what Kafka said) of states with logs of the topic."""
    found = [(state, truth) for state, truth in told_states(top) if list(state.glob(f"n*/d*/{OFFSETS}-*"))]
    assert found, "the corpus has no such state: nothing would be compared"
    return found


# ---- what Kafka said


def rebalancing(truth: Path) -> set[str]:
    """The groups that were between two generations when Kafka described them: only the coordinator's memory has that."""
    told = json.loads((truth / "admin.json").read_text())["groups"]
    return {name for name, one in told.items() if one["state"] in ("PreparingRebalance", "CompletingRebalance")}


def compare_groups(objects: list[dict], truth: Path) -> None:
    """Types, protocols, states, offsets with metadata and epochs, by the Admin client."""
    told = json.loads((truth / "admin.json").read_text())["groups"]
    found, between = {one["group"]: one for one in of_type(objects, "group")}, rebalancing(truth)
    assert {
        name: ("classic" if one["group_type"] == "simple" else one["group_type"], one["protocol"], name in between or one["state"])
        for name, one in found.items()
    } == {name: (one["type"].lower(), one["protocol"], name in between or one["state"]) for name, one in told.items()}
    offsets: dict[str, dict] = {name: {} for name in found}
    for (group, topic, number), (offset, epoch, metadata, _) in committed(objects).items():
        offsets[group][f"{topic}-{number}"] = {"offset": offset, "metadata": metadata, "leader_epoch": epoch}
    for name, one in told.items():
        if one["type"] != "Share":  # its offsets are in __share_group_state
            assert offsets[name] == one["offsets"], name


def compare_members(objects: list[dict], truth: Path) -> None:
    """Ids, instances, clients and assignments, by kafka-consumer-groups --members --verbose."""
    told = set()
    text = (truth / "consumer-groups-describe-all-groups-members-verbose.txt").read_text()
    for line in text.partition("--- stderr")[0].splitlines():
        match = re.fullmatch(r"(\S+)\s+(\S+)\s+(\S+ +)?(/\S+)\s+(\S+)\s+(\d+)\s+(\S+)\s+(\S+)\s+\S+\s+\S+\s*", line)
        if match is not None:
            group, member, instance, host, client, count, epoch, assigned = match.groups()
            told.add((group, member, (instance or "").strip() or None, host, client, int(count), None if epoch == "-" else int(epoch),
                      frozenset(assigned.split(";"))))  # fmt: skip
    found, between = set(), rebalancing(truth)
    for one in of_type(objects, "group"):
        for member in one["members"] if one["group_type"] in ("classic", "consumer") else ():
            owned = {f"{each['topic']}:{','.join(map(str, each['partitions']))}" for each in member["owned"]}
            found.add((one["group"], member["member_id"], member["instance_id"], member["host"], member["client_id"],
                       sum(len(each["partitions"]) for each in member["owned"]), member["epoch"], frozenset(owned)))  # fmt: skip
    assert {one for one in found if one[0] not in between} == {one for one in told if one[0] not in between}


def test_types_states_and_offsets_are_those_that_kafka_described(cluster_corpus):
    seen = 0
    for state, truth in states(cluster_corpus):
        compare_groups(groups(str(state)), truth)
        seen += 1
    assert seen


def test_offsets_of_share_groups_are_those_of_kafka_share_groups(cluster_corpus):
    seen = 0
    for state, truth in states(cluster_corpus):
        said = {(one["GROUP"], one["TOPIC"], int(one["PARTITION"])): (int(one["START-OFFSET"]), int(one["LAG"]))
                for one in table_rows((truth / "share-groups-describe-all-groups.txt").read_text()) if one["START-OFFSET"] != "-"}
        if not list(state.glob("n*/d*/__share_group_state-*")):
            continue
        objects = groups(str(state))
        shares = {one["group"] for one in of_type(objects, "group") if one["group_type"] == "share"}
        assert {(one["group"], one["topic"], one["partition"]): (one["offset"], one["lag"])
                for one in of_type(objects, "group-offset") if one["group"] in shares} == said  # fmt: skip
        seen += len(said)
    assert seen


def test_expiring_offsets_are_those_that_brokers_removed(own_cluster_corpus):
    """The brokers of the second state ran with a retention of one minute from then on."""
    before, after = (own_cluster_corpus / "ops" / name for name in ("1-stopped", "2-prepared"))
    stopped = max(one["commit_time"] for one in of_type(groups(str(before)), "group-offset") if one["commit_time"])
    removed = {
        (one["group"], one["topic"], one["partition"]) for one in of_type(groups("--history", str(after)), "offset-change")
        if one["event"] == "removed" and one["time"] > stopped
    }  # fmt: skip
    config = ("--config-file", str(after / "n1/server.properties"))
    found = of_type(groups("--expiring", "1m", "--now", "2026-11-23T09:00Z", *config, str(before)), "group-offset")
    expiring = {(one["group"], one["topic"], one["partition"]) for one in found}
    assert expiring == {one for one in removed if one[0] not in ("g-classic", "g-doomed") or one[1] == "orders"} - {
        ("g-classic", "orders", 2)}, "g-classic had members"  # fmt: skip
    assert all(one["expires"] == one["commit_time"] + 60_000 for one in found)
    assert of_type(groups("--expiring", "1m", "--now", "2026-11-23T09:00Z", str(before)), "group-offset") == [], "seven days"


def test_none_expiring_is_said_with_the_setting(own_cluster_corpus):
    done = kafkalog("groups", "--expiring", "1m", "--now", "2026-11-23T09:00Z", str(own_cluster_corpus / "ops/1-stopped"))
    count = len(of_type(groups(str(own_cluster_corpus / "ops/1-stopped")), "group"))
    assert done.out.decode() == f"0 of {count} groups expire within 60.0 s (offsets.retention.minutes 10080, the default)\n"


@pytest.mark.parametrize("size", [0, 700])
def test_a_log_that_lost_its_end_is_reported(own_cluster_corpus, tmp_path, size):
    shutil.copytree(own_cluster_corpus / "ops/1-stopped/n1", tmp_path / "n1")
    [log] = (tmp_path / "n1").glob(f"d*/{OFFSETS}-0/*.log")
    with log.open("r+b") as file:
        file.truncate(size)
    found = groups(str(tmp_path / "n1"), statuses=(4,))
    assert "checkpoint-beyond-log" in {one["code"] for one in of_type(found, "finding")}


def test_every_replica_of_the_logs_says_the_same(cluster_corpus):
    for state, truth in states(cluster_corpus):
        for node in state.glob("n*"):
            if len(list(node.glob(f"d*/{OFFSETS}-*"))) > 1:
                compare_groups(groups(str(node)), truth)


def test_lags_and_owners_are_those_of_kafka_consumer_groups(cluster_corpus):
    seen = 0
    for state, truth in states(cluster_corpus):
        told = {
            (one["GROUP"], one["TOPIC"], int(one["PARTITION"])): (one["CURRENT-OFFSET"], one["LOG-END-OFFSET"], one["LAG"], one["CONSUMER-ID"])
            for one in table_rows((truth / "consumer-groups-describe-all-groups.txt").read_text())
        }
        objects, between = groups(str(state)), rebalancing(truth)
        kinds = {one["group"]: one["group_type"] for one in of_type(objects, "group")}
        found = {
            (one["group"], one["topic"], one["partition"]): tuple(
                "-" if cell is None else str(cell) for cell in (one["offset"], one["log_end"], one["lag"], one["member"])
            ) for one in of_type(objects, "group-offset")
            if kinds[one["group"]] not in ("share", "streams") and (one["offset"] is not None or one["member"] is not None)
        }  # fmt: skip
        assert {key for key in found if key[0] not in between} == {key for key in told if key[0] not in between}
        for key, cells in ((key, cells) for key, cells in found.items() if key[0] not in between):
            is_here = cells[1] != "-"  # a log of the partition was kept
            assert cells == (told[key] if is_here else (told[key][0], "-", "-", told[key][3])), key
            seen += is_here
    assert seen > 5


def test_members_are_those_that_kafka_described(cluster_corpus):
    for state, truth in states(cluster_corpus):
        compare_members(groups(str(state)), truth)


def test_strategies_are_those_that_kafka_described(cluster_corpus):
    for state, truth in states(cluster_corpus):
        told = {one["GROUP"]: one for one in table_rows((truth / "consumer-groups-describe-all-groups-state.txt").read_text())}
        for one in of_type(groups(str(state)), "group"):
            if one["group_type"] in ("classic", "simple") and one["group"] not in rebalancing(truth):
                row = told[one["group"]]
                assert (one["assignor"] or "-", str(len(one["members"]))) == (row["ASSIGNMENT-STRATEGY"], row["#MEMBERS"])


def test_at_a_time_are_the_groups_that_kafka_described_then(cluster_corpus):
    """While the brokers ran, Kafka described the groups, and then its quorum with the time of the last fetch."""
    seen = 0
    for state, _ in states(cluster_corpus):
        truth = state.parent / "truth" / state.name.replace("stopped", "running")
        if truth.name == state.name or not (truth / "admin.json").exists():
            continue
        then = max(map(int, re.findall(r"lastFetchTimestamp=OptionalLong\[(\d+)\]", (truth / "admin.json").read_text())))
        objects = groups("--at", str(then), str(state))
        compare_groups(objects, truth)
        compare_members(objects, truth)
        assert all(one["log_end"] is None for one in of_type(objects, "group-offset"))
        seen += 1
    assert seen


def test_a_group_is_in_the_log_that_its_name_says(cluster_corpus):
    for state, _ in states(cluster_corpus):
        [partitions] = {one["partitions"] for one in of_type(groups(str(state)), "group-log")}
        changes = of_type(groups("--history", str(state)), "offset-change")
        for one in changes:
            assert one["log"].endswith(f"{OFFSETS}-{coordinator_partition(one['group'], partitions)}")


def test_surrogates_and_the_least_hash():
    """Java's "polygenelubricants".hashCode() is the least number, whose absolute value does not exist."""
    assert coordinator_partition("polygenelubricants", 50) == 0
    assert coordinator_partition("😀", 1 << 30) == 1772899  # "😀".hashCode(): 31 × 0xd83d + 0xde00


# ---- laws


def folded(changes: list[dict], until: int) -> dict[Key, tuple]:
    """The offsets after the changes up to a time."""
    found: dict[Key, tuple] = {}
    for one in changes:
        key = (one["group"], one["topic"], one["partition"])
        if one["time"] > until or one["event"] in ("pending", "aborted"):
            continue
        if one["event"] == "removed":
            found.pop(key, None)
        else:
            found[key] = (one["offset"], one["leader_epoch"], one["metadata"], one["commit_time"])
    return found


def test_the_history_leads_to_the_offsets_of_every_time(cluster_corpus):
    for state, _ in states(cluster_corpus):
        changes = of_type(groups("--history", str(state)), "offset-change")
        times = sorted({one["time"] for one in changes})
        assert {one["event"] for one in changes} >= {"committed"}
        for then in [times[0] - 1, *times[:: max(1, len(times) // 10)], times[-1]]:
            assert committed(groups("--at", str(then), str(state))) == folded(changes, then)
            before = of_type(groups("--history", "--at", str(then), str(state)), "offset-change")
            assert before == [one for one in changes if one["time"] <= then]
        assert committed(groups(str(state))) == folded(changes, times[-1])


def test_transactions_in_the_history(own_cluster_corpus):
    changes = of_type(groups("--history", "--group", "g-tx", str(own_cluster_corpus / "ops/1-stopped/n1")), "offset-change")
    assert [(one["event"], one["topic"], one["offset"], one["producer_id"]) for one in changes[-3:]] == [
        ("pending", "orders", 11, 2), ("aborted", "orders", 11, 2), ("pending", "orders", 3, 6),
    ]  # fmt: skip
    [row] = [one for one in of_type(groups("-g", "g-tx", str(own_cluster_corpus / "ops/1-stopped/n1")), "group-offset") if one["pending"]]
    assert (row["partition"], row["offset"], row["pending"][0]["producer_id"], row["pending"][0]["offset"]) == (1, None, 6, 3)


def test_after_compaction_what_is_shown_of_an_earlier_time_is_right(own_cluster_corpus, tmp_path):
    shutil.copytree(own_cluster_corpus / "ops/1-stopped/n1", tmp_path / "n")
    node = str(tmp_path / "n")
    changes = of_type(groups("--history", node), "offset-change")
    words = ("--now", "2027-01-01T00:00Z", "--topic", OFFSETS, f"{node}/d0", f"{node}/d1")
    assert kafkalog("roll", *words).status == 0
    assert kafkalog("compact", "--force", *words).status == 0
    after = of_type(groups("--history", node), "offset-change")
    assert len(after) < len(changes)
    since = {Path(one["path"]).name: one["complete_since"] for one in of_type(groups(node), "group-log")}
    assert any(since.values())  # a log with an open transaction is not cleaned
    seen = 0
    for then in sorted({one["time"] for one in changes}):
        objects = groups("--at", str(then), node)
        exact, found = folded(changes, then), committed(objects)
        assert found.items() <= exact.items()
        warned = {Path(one["file"]).name for one in of_type(objects, "finding") if one["code"] == "offsets-compacted"}
        assert warned == {name for name, time in since.items() if then < time}
        seen += found != exact
        for key in exact.keys() - found.keys():
            assert f"{OFFSETS}-{coordinator_partition(key[0], 2)}" in warned
    assert seen
    assert committed(groups(node)) == folded(changes, 1 << 60)


# ---- selection and formats


def test_names_and_patterns_choose_groups_and_topics(own_cluster_corpus):
    node = str(own_cluster_corpus / "ops/1-stopped/n1")
    chosen = groups("-g", "g-s*", "-g", "g-tx", node)
    assert [one["group"] for one in of_type(chosen, "group")] == ["g-share", "g-simple", "g-streams", "g-tx"]
    of_topic = groups("-t", "altered", "-t", "stream-*", node)
    assert [(one["group"], one["offsets"]) for one in of_type(of_topic, "group")] == [("g-simple", 1), ("g-streams", 2)]
    assert {one["topic"] for one in of_type(of_topic, "group-offset")} == {"altered", "stream-in"}


def test_csv_has_the_same_offsets(own_cluster_corpus):
    node = str(own_cluster_corpus / "ops/1-stopped/n1")
    rows = list(csv.DictReader(io.StringIO(kafkalog("groups", "--format", "csv", node).out.decode(), newline="")))
    told = of_type(groups(node), "group-offset")
    assert len(rows) == len(told)
    for row, one in zip(rows, told, strict=True):
        assert all(row[name] == ("" if one[name] is None else str(one[name])) for name in row.keys() - {"type", "state"})


def test_commands_are_a_file_for_kafkas_tool(own_cluster_corpus):
    node = str(own_cluster_corpus / "ops/1-stopped/n1")
    done = kafkalog("groups", "--commands", node)
    truth = json.loads((own_cluster_corpus / "ops/truth/1-stopped/admin.json").read_text())["groups"]
    lines = {
        f"{name},{place.rpartition('-')[0]},{place.rpartition('-')[2]},{offset['offset']}"
        for name, one in truth.items() if one["type"] != "Share" for place, offset in one["offsets"].items()
    }  # fmt: skip
    assert sorted(done.out.decode().splitlines()) == sorted(lines)
    assert [line.partition(" ")[0] for line in done.err.splitlines()] == ["kafka-consumer-groups.sh", "kafka-streams-groups.sh"]
    assert done.err.splitlines()[1].endswith("--from-file FILE --group g-streams")


def test_text_is_for_people(own_cluster_corpus):
    out = kafkalog("groups", "-g", "g-new", str(own_cluster_corpus / "ops/1-stopped/n1")).out.decode()
    assert '"größe\\n{' not in out
    assert "größe\\n{" in out
    assert "66" in out.splitlines()[2]


# ---- errors


def test_a_group_that_is_not_here(own_cluster_corpus, tmp_path):
    shutil.copytree(own_cluster_corpus / "ops/1-stopped/n1", tmp_path / "n")
    done = kafkalog("groups", "-g", "nobody", str(tmp_path / "n"))
    assert (done.status, "no group nobody" in done.err, "lists the groups" in done.err) == (2, True, True)
    number = coordinator_partition("g-new", 2)
    shutil.rmtree(tmp_path / f"n/d1/{OFFSETS}-{number}")
    done = kafkalog("groups", "-g", "g-new", str(tmp_path / "n"))
    assert (done.status, f"{OFFSETS}-{number}" in done.err) == (2, True)


@pytest.mark.parametrize(("words", "what"), [
    (("ops/1-stopped/n1/d0",), "no log of __consumer_offsets"),
    (("ops/1-stopped/n1", "forks/1-forked/n1"), "several clusters"),
    (("--history", "--commands", "ops/1-stopped/n1"), "--commands"),
    (("--history", "--format", "csv", "ops/1-stopped/n1"), "--history"),
    (("--commands", "--format", "jsonl", "ops/1-stopped/n1"), "--format"),
])  # fmt: skip
def test_what_cannot_be_answered(own_cluster_corpus, words, what):
    done = kafkalog("groups", *words, cwd=own_cluster_corpus)
    assert (done.status, what in done.err) == (2, True), done.err


def test_without_the_cleaners_checkpoint_the_past_is_not_known(own_cluster_corpus, tmp_path):
    shutil.copytree(own_cluster_corpus / f"ops/1-stopped/n1/d1/{OFFSETS}-0", tmp_path / f"{OFFSETS}-0")
    assert [one["complete_since"] for one in of_type(groups(str(tmp_path)), "group-log")] == [None]
    codes = {one["code"] for one in of_type(groups("--history", str(tmp_path)), "finding")}
    assert codes == {"offsets-compacted"}
