"""OffsetCommit, OffsetFetch, and the descriptions of groups in memory and on the disk."""

import json

import pytest

from engine.files import ReadOnlyFiles
from engine.log.fetch.stored_groups import read_groups
from engine.protocol.error_codes import Error
from tests.serve.test_classic_groups import Member, join_body
from tests.serve.test_consumer_groups import A, error_of
from tests.serve.test_consumer_groups import Member as Consumer
from tests.support.corpus import groups_directory
from tests.support.group_bench import Bench, FakeTopics


def commit_body(offsets, **other):
    topics = {}
    for (topic, partition), offset in offsets.items():
        one = {"partitionIndex": partition, "committedOffset": offset, "committedLeaderEpoch": 3, "committedMetadata": f"at {offset}"}
        topics.setdefault(topic, []).append(one)
    named = [{"name": topic, "topicId": f"id-of-{topic}", "partitions": partitions} for topic, partitions in topics.items()]
    return {"groupId": "g", "generationIdOrMemberEpoch": -1, "memberId": "", "groupInstanceId": None, "topics": named} | other


def commit(bench, offsets, version=9, **other):
    """Commit; return the errors by topic (name or id) and partition."""
    answer = bench.ask("OffsetCommit", version, commit_body(offsets, **other))
    key = "topicId" if version >= 10 else "name"
    return {(topic[key], one["partitionIndex"]): one["errorCode"] for topic in answer["topics"] for one in topic["partitions"]}


def fetch(bench, wanted, version=9, **other):
    """Fetch the offsets of a group: topic → partitions, or None for all."""
    key = "topicId" if version >= 10 else "name"
    topics = None if wanted is None else [{key: name, "partitionIndexes": numbers} for name, numbers in wanted.items()]
    body = {"groupId": "g", "topics": topics} | other
    answer = bench.ask("OffsetFetch", version, {"groups": [body]} if version >= 8 else body)
    (group,) = answer["groups"] if version >= 8 else [answer]
    if group["errorCode"]:
        assert group["topics"] == []
        return Error(group["errorCode"])
    return {
        (topic[key], one["partitionIndex"]): (one["committedOffset"], one["committedLeaderEpoch"], one["metadata"], one["errorCode"])
        for topic in group["topics"] for one in topic["partitions"]
    }  # fmt: skip


NONE = (-1, -1, "", 0)


@pytest.mark.parametrize("version", [2, 8, 9])
def test_a_simple_group_commits_and_fetches(bench, version):
    assert commit(bench, {("a", 0): 5, ("b", 1): 7}, version) == {("a", 0): 0, ("b", 1): 0}
    assert commit(bench, {("a", 0): 6}, version) == {("a", 0): 0}
    assert fetch(bench, {"a": [0, 1], "unknown": [0]}, version) == {("a", 0): (6, 3, "at 6", 0), ("a", 1): NONE, ("unknown", 0): NONE}
    assert fetch(bench, None, version) == {("a", 0): (6, 3, "at 6", 0), ("b", 1): (7, 3, "at 7", 0)}
    assert bench.ask("ListGroups", 5, {})["groups"] == [
        {"groupId": "g", "protocolType": "", "groupState": "Empty", "groupType": "classic"}
    ]
    assert fetch(bench, {"a": [0]}, version, groupId="other") == {("a", 0): NONE}
    assert fetch(bench, None, version, groupId="other") == {}


def test_topic_ids(bench):
    unknown = {"topicId": "id-of-x", "partitions": [{"partitionIndex": 0, "committedOffset": 1, "committedMetadata": None}]}
    body = commit_body({("a", 0): 5, ("a", 4): 5})
    answer = bench.ask("OffsetCommit", 10, body | {"topics": [*body["topics"], unknown]})
    assert answer["topics"] == [
        {"topicId": "id-of-a", "partitions": [{"partitionIndex": 0, "errorCode": 0}, {"partitionIndex": 4, "errorCode": 3}]},
        {"topicId": "id-of-x", "partitions": [{"partitionIndex": 0, "errorCode": 100}]},
    ]
    assert fetch(bench, {A: [0, 4], "id-of-x": [0]}, 10) == {
        (A, 0): (5, 3, "at 5", 0), (A, 4): NONE, ("id-of-x", 0): (-1, -1, "", 100)
    }  # fmt: skip
    assert fetch(bench, None, 10) == {(A, 0): (5, 3, "at 5", 0)}


def test_commits_that_are_refused_in_part(bench):
    assert commit(bench, {("a", 0): 1, ("a", 4): 1, ("x", 0): 1}) == {("a", 0): 0, ("a", 4): 3, ("x", 0): 3}
    body = commit_body({("a", 1): 1, ("a", 2): 2})
    body["topics"][0]["partitions"][0]["committedMetadata"] = "x" * 4_097
    body["topics"][0]["partitions"][1]["committedMetadata"] = "ö" * 4_096
    answer = bench.ask("OffsetCommit", 9, body)
    assert [one["errorCode"] for one in answer["topics"][0]["partitions"]] == [Error.OFFSET_METADATA_TOO_LARGE, 0]
    assert fetch(bench, None) == {("a", 0): (1, 3, "at 1", 0), ("a", 2): (2, 3, "ö" * 4_096, 0)}


def test_several_groups_in_one_request(bench):
    commit(bench, {("a", 0): 5})
    commit(bench, {("a", 0): 8}, groupId="h")
    topics = [{"name": "a", "partitionIndexes": [0]}]
    answer = bench.ask("OffsetFetch", 8, {"groups": [{"groupId": "h", "topics": topics}, {"groupId": "g", "topics": topics}]})
    found = [(one["groupId"], one["topics"][0]["partitions"][0]["committedOffset"]) for one in answer["groups"]]
    assert found == [("h", 8), ("g", 5)]


def test_commits_of_members_of_classic_groups(bench):
    member = Member(bench, "m").joins()
    own = {"memberId": member.id, "generationIdOrMemberEpoch": 1}
    place = {("a", 0): 5}
    assert commit(bench, place, **own) == {("a", 0): Error.REBALANCE_IN_PROGRESS}
    member.syncs({})
    assert commit(bench, place, **own) == {("a", 0): 0}
    assert commit(bench, place) == {("a", 0): Error.UNKNOWN_MEMBER_ID}
    assert commit(bench, place, **own | {"generationIdOrMemberEpoch": 2}) == {("a", 0): Error.ILLEGAL_GENERATION}
    assert commit(bench, place, **own | {"memberId": "other"}) == {("a", 0): Error.UNKNOWN_MEMBER_ID}
    assert commit(bench, place, groupId="other", **own) == {("a", 0): Error.GROUP_ID_NOT_FOUND}
    assert commit(bench, place, 8, groupId="other", **own) == {("a", 0): Error.ILLEGAL_GENERATION}
    assert commit(bench, {("x", 0): 5}, groupId="other", **own) == {("x", 0): Error.UNKNOWN_TOPIC_OR_PARTITION}
    bench.pass_time(9_000)
    commit(bench, place, **own)  # a commit counts as a heartbeat
    bench.pass_time(9_000)
    assert member.beats() is Error.NONE
    member.leaves()
    assert commit(bench, {("a", 0): 9}) == {("a", 0): 0}


def test_commits_and_fetches_of_members_of_consumer_groups(bench):
    member, other = Consumer(bench, "one").beats(), Consumer(bench, "two").beats()
    own = {"memberId": "one", "generationIdOrMemberEpoch": 2}
    assert set(commit(bench, {("a", number): 5 for number in range(4)}, **own).values()) == {0}
    member.beats()
    kept, given_up = next(iter(member.owned)), next(iter({(A, n) for n in range(4)} - member.owned))
    member.beats()
    assert member.epoch == 3
    for (topic, number), error in ((kept, 0), (given_up, Error.STALE_MEMBER_EPOCH)):
        name = topic.removeprefix("id-of-")
        assert commit(bench, {(name, number): 6}, **own) == {(name, number): error}
    assert commit(bench, {("a", 0): 5}, **own | {"generationIdOrMemberEpoch": 4}) == {("a", 0): Error.STALE_MEMBER_EPOCH}
    assert commit(bench, {("a", 0): 5}, 8, **own) == {("a", 0): Error.UNSUPPORTED_VERSION}
    assert commit(bench, {("a", 0): 5}) == {("a", 0): Error.UNKNOWN_MEMBER_ID}
    assert fetch(bench, {"a": [3]}, memberId="one", memberEpoch=3)
    assert fetch(bench, {"a": [3]}, memberId="one", memberEpoch=2) is Error.STALE_MEMBER_EPOCH
    assert fetch(bench, {"a": [3]}, memberId="x", memberEpoch=2) is Error.UNKNOWN_MEMBER_ID
    assert fetch(bench, {"a": [3]}, memberId=None, memberEpoch=-1)
    other.leaves()


def test_committed_offsets_are_bounded():
    bench = Bench(bytes=10_000)
    errors = [commit(bench, {("a", number % 4): number}, groupId=f"g{number // 4}")[("a", number % 4)] for number in range(100)]
    assert errors == sorted(errors)
    assert set(errors) == {0, Error.GROUP_MAX_SIZE_REACHED}
    assert commit(bench, {("a", 0): 1}, groupId="g0") == {("a", 0): Error.GROUP_MAX_SIZE_REACHED}


def test_a_group_that_a_request_repeats_is_answered_once(bench):
    commit(bench, {("a", 0): 5})
    answer = bench.ask("OffsetFetch", 8, {"groups": [{"groupId": "g", "topics": None}] * 1_000})
    assert len(answer["groups"]) == 1
    assert len(bench.ask("DescribeGroups", 6, {"groups": ["g", "h"] * 1_000})["groups"]) == 2
    assert len(bench.ask("ConsumerGroupDescribe", 1, {"groupIds": ["g", "h"] * 1_000})["groups"]) == 2


# ---- groups on the disk


@pytest.fixture
def on_disk():
    top = groups_directory()
    stored = read_groups(ReadOnlyFiles(), [str(top / "1-running/d1")], lambda _finding: None)
    made = Bench(FakeTopics.of(json.loads((top / "topics.json").read_text())["cluster"]), stored.values())
    yield made
    made.coordinator.close()


def test_lists_of_groups_on_the_disk(on_disk):
    def listed(**filters):
        return {one["groupId"] for one in on_disk.ask("ListGroups", 5, filters)["groups"]}

    truth = json.loads((groups_directory() / "truth-1-running.json").read_text())
    assert listed() == set(truth)
    assert listed(statesFilter=[" STABLE"]) == {name for name, one in truth.items() if one["state"] == "Stable"}
    assert listed(typesFilter=["Consumer", "share"]) == {"g-new", "g-share"}
    assert listed(typesFilter=["unknown"]) == listed(statesFilter=["nothing"]) == set()


def test_offsets_of_topics_that_are_not_served_are_shown_by_name_only(on_disk):
    del on_disk.coordinator._topics.topics["trimmed"]
    by_name = fetch(on_disk, None, groupId="g-new")
    assert {topic for topic, _ in by_name} == {"orders", "trimmed"}
    assert len(fetch(on_disk, None, 10, groupId="g-new")) == len(by_name) - 1


def test_descriptions_of_groups_on_the_disk(on_disk):
    rows = [line.split() for line in (groups_directory() / "members-1-running.txt").read_text().splitlines() if line.startswith("g-")]
    (group,) = on_disk.ask("ConsumerGroupDescribe", 1, {"groupIds": ["g-new"], "includeAuthorizedOperations": True})["groups"]
    assert (group["groupState"], group["groupEpoch"], group["assignmentEpoch"], group["assignorName"]) == ("Stable", 7, 7, "uniform")
    assert group["authorizedOperations"] == 3400

    def shown(assignment):
        named = [f"{one['topicName']}:{','.join(map(str, one['partitions']))}" for one in assignment["topicPartitions"]]
        return ";".join(sorted(named))

    ours = {
        (one["memberId"], one["clientHost"], one["clientId"], str(one["memberEpoch"]), shown(one["assignment"]),
         shown(one["targetAssignment"])) for one in group["members"]
    }  # fmt: skip
    assert ours == {(row[1], row[2], row[3], row[5], row[6], row[8]) for row in rows if row[0] == "g-new"}
    (group,) = on_disk.ask("DescribeGroups", 6, {"groups": ["g-classic"], "includeAuthorizedOperations": False})["groups"]
    assert (group["groupState"], group["protocolType"], group["protocolData"]) == ("Stable", "consumer", "cooperative-sticky")
    assert {(one["memberId"], one["clientId"], one["groupInstanceId"]) for one in group["members"]} == {
        (row[1], *((row[3], None) if len(row) == 9 else (row[4], row[2]))) for row in rows if row[0] == "g-classic"
    }  # fmt: skip
    assert all(b"orders" in one["memberAssignment"] and b"orders" in one["memberMetadata"] for one in group["members"])
    (group,) = on_disk.ask("DescribeGroups", 5, {"groups": ["g-share"], "includeAuthorizedOperations": False})["groups"]
    assert (group["groupState"], group["errorCode"]) == ("Dead", 0)
    (group,) = on_disk.ask("DescribeGroups", 6, {"groups": ["g-share"], "includeAuthorizedOperations": False})["groups"]
    assert (group["groupState"], group["errorMessage"]) == ("Dead", "Group g-share is not a classic group.")


def test_a_classic_group_on_the_disk_continues_with_the_next_generation(on_disk):
    stored = json.loads((groups_directory() / "truth-1-running.json").read_text())["g-classic"]["offsets"]
    ((place, known),) = stored.items()
    assert fetch(on_disk, {"orders": [2]}, groupId="g-classic")["orders", 2][0] == known["offset"]
    assert place == "orders-2"
    assert error_of(on_disk.ask("JoinGroup", 9, join_body("classic-a", groupId="g-classic"))) is Error.UNKNOWN_MEMBER_ID
    old = {"memberId": "classic-a", "generationIdOrMemberEpoch": 3}
    assert commit(on_disk, {("orders", 2): 44}, groupId="g-classic", **old) == {("orders", 2): Error.UNKNOWN_MEMBER_ID}
    joined = on_disk.ask("JoinGroup", 3, join_body(groupId="g-classic"))
    assert joined["errorCode"] == 0
    assert joined["generationId"] > 3
    assert len(joined["members"]) == 1


def test_a_consumer_group_on_the_disk_continues_with_the_next_epoch(on_disk):
    member = Consumer(on_disk, "new", ["orders"])
    member.epoch = 7
    assert error_of(member.request(groupId="g-new")) is Error.UNKNOWN_MEMBER_ID
    answer = member.request(groupId="g-new", memberEpoch=0, rebalanceTimeoutMs=1, subscribedTopicNames=["orders"], topicPartitions=[])
    assert (answer["errorCode"], answer["memberEpoch"]) == (0, 8)
    commit(on_disk, {("orders", 0): 99}, groupId="g-new", memberId="new", generationIdOrMemberEpoch=8)
    assert fetch(on_disk, {"orders": [0, 1]}, groupId="g-new")["orders", 0][0] == 99
    (group,) = on_disk.ask("ConsumerGroupDescribe", 1, {"groupIds": ["g-new"], "includeAuthorizedOperations": False})["groups"]
    assert [one["memberId"] for one in group["members"]] == ["new"]


def test_a_simple_commit_leaves_the_description_of_a_group_on_the_disk(on_disk):
    assert commit(on_disk, {("orders", 0): 50}, groupId="g-new") == {("orders", 0): 0}
    (group,) = on_disk.ask("ConsumerGroupDescribe", 1, {"groupIds": ["g-new"], "includeAuthorizedOperations": False})["groups"]
    assert len(group["members"]) == 2
    assert fetch(on_disk, {"orders": [0]}, groupId="g-new")["orders", 0][0] == 50
