"""Groups of the consumer protocol (KIP-848): members that heartbeat, with a clock that stands still until a test moves it."""

import random

import pytest

from engine.protocol.error_codes import Error
from engine.serve.assignors import Subscriber, assign_ranges, assign_uniformly
from tests.support.group_bench import Bench, FakeTopics

A, B = "id-of-a", "id-of-b"


class Member:
    """A consumer: it owns what it was assigned until it revokes that, which it says with its next heartbeat."""

    def __init__(self, bench, member_id, topics=("a", "b"), *, instance_id=None, assignor=None, pattern=None):
        self.bench, self.id, self.topics, self.instance_id = bench, member_id, topics, instance_id
        self.assignor, self.pattern = assignor, pattern
        self.epoch, self.owned, self.answer = 0, set(), {}

    def request(self, **changes):
        body = {
            "groupId": "g", "memberId": self.id, "memberEpoch": self.epoch, "instanceId": self.instance_id, "rackId": None,
            "rebalanceTimeoutMs": -1, "subscribedTopicNames": None, "subscribedTopicRegex": None, "serverAssignor": None,
            "topicPartitions": None,
        }  # fmt: skip
        self.answer = self.bench.ask("ConsumerGroupHeartbeat", 1, body | changes, self.id)
        return self.answer

    def beats(self, *, subscribes=None, says_what_it_owns=True):
        """Send a heartbeat and take over the answer; a full request when joining."""
        owned = sorted({topic for topic, _ in self.owned})
        changes = {"topicPartitions": [{"topicId": one, "partitions": sorted(n for t, n in self.owned if t == one)} for one in owned]}
        if not says_what_it_owns:
            changes = {}
        if subscribes is not None:
            self.topics = subscribes
        if not self.epoch or subscribes is not None:
            changes |= {"subscribedTopicNames": list(self.topics), "subscribedTopicRegex": self.pattern}
        if not self.epoch:
            changes |= {"rebalanceTimeoutMs": 60_000, "serverAssignor": self.assignor}
        answer = self.request(**changes)
        assert answer["errorCode"] == 0, answer
        self.epoch = answer["memberEpoch"]
        if answer["assignment"] is not None:
            given = answer["assignment"]["topicPartitions"]
            self.owned = {(one["topicId"], number) for one in given for number in one["partitions"]}
        return self

    def leaves(self, epoch=-1):
        return self.request(memberEpoch=epoch)


def group_of(bench):
    (group,) = bench.ask("ConsumerGroupDescribe", 1, {"groupIds": ["g"], "includeAuthorizedOperations": False})["groups"]
    return group


def settle(*members, rounds=6):
    for _ in range(rounds):
        for member in members:
            member.beats()


def error_of(answer):
    return Error(answer["errorCode"])


ALL = {(A, number) for number in range(4)} | {(B, number) for number in range(2)}


def test_three_members_come_and_each_partition_changes_hands_only_after_its_owner_revoked_it(bench):
    first = Member(bench, "one").beats()
    assert (first.owned, first.epoch) == (ALL, 2)
    second = Member(bench, "two").beats()
    assert (second.owned, second.epoch) == (set(), 3)
    assert group_of(bench)["groupState"] == "Reconciling"
    first.beats()  # the answer takes three partitions away
    assert (len(first.owned), first.epoch) == (3, 2)
    assert second.beats().owned == set()  # not revoked yet
    first.beats()  # revoked
    assert first.epoch == 3
    second.beats()
    assert first.owned | second.owned == ALL
    assert not first.owned & second.owned
    assert group_of(bench)["groupState"] == "Stable"
    third = Member(bench, "three").beats()
    assert third.owned == set()
    settle(first, second, third)
    assert sorted(map(len, (first.owned, second.owned, third.owned))) == [2, 2, 2]
    assert first.owned | second.owned | third.owned == ALL
    group = group_of(bench)
    assert (group["groupState"], group["groupEpoch"], group["assignmentEpoch"], group["assignorName"]) == ("Stable", 4, 4, "uniform")
    for member in group["members"]:
        assert member["assignment"] == member["targetAssignment"]
        assert (member["memberEpoch"], member["memberType"], member["subscribedTopicNames"]) == (4, 1, ["a", "b"])


def test_a_member_leaves_and_the_others_get_its_partitions(bench):
    first, second = Member(bench, "one").beats(), Member(bench, "two").beats()
    settle(first, second)
    answer = second.leaves()
    assert (answer["errorCode"], answer["memberEpoch"], answer["memberId"]) == (0, -1, "two")
    assert first.beats().owned == ALL
    first.leaves()
    bench.pass_time(100_000)
    group = group_of(bench)
    assert (group["groupState"], group["members"], group["groupEpoch"]) == ("Empty", [], 5)
    assert bench.ask("ListGroups", 5, {"statesFilter": ["empty"], "typesFilter": ["Consumer"]})["groups"] == [
        {"groupId": "g", "protocolType": "consumer", "groupState": "Empty", "groupType": "consumer"}
    ]


def test_a_member_without_heartbeat_is_fenced(bench):
    first, second = Member(bench, "one").beats(), Member(bench, "two").beats()
    settle(first, second)
    bench.now += 44_999
    first.beats()
    bench.now += 1
    assert first.beats().owned == ALL
    assert error_of(second.request()) is Error.UNKNOWN_MEMBER_ID
    assert second.answer["errorMessage"] == "Member two is not a member of group g."
    second.epoch, second.owned = 0, set()
    second.beats()
    settle(first, second)
    assert (len(first.owned), len(second.owned)) == (3, 3)


def test_a_member_that_does_not_revoke_in_time_is_fenced(bench):
    first, second = Member(bench, "one").beats(), Member(bench, "two").beats()
    owned = first.owned
    first.beats()
    for _ in range(2):
        bench.pass_time(30_000)
        second.beats()
        first.owned = owned  # it still processes them
        if _ == 0:
            first.beats()
            assert first.epoch == 2
    assert second.beats().owned == ALL
    assert error_of(first.request()) is Error.UNKNOWN_MEMBER_ID


def test_a_lost_answer_may_be_asked_for_again(bench):
    first, second = Member(bench, "one").beats(), Member(bench, "two").beats()
    first.beats().beats()
    assert first.epoch == 3
    first.epoch = 2
    assert first.beats().epoch == 3
    first.epoch, first.owned = 2, first.owned | {(A, 99)}
    assert error_of(first.request(topicPartitions=[{"topicId": A, "partitions": [99]}])) is Error.FENCED_MEMBER_EPOCH
    assert first.answer["errorMessage"] == (
        "The consumer group member has a smaller member epoch (2) than the one known by the group coordinator (3). "
        "The member must abandon all its partitions and rejoin."
    )
    first.epoch = 4
    assert error_of(first.request()) is Error.FENCED_MEMBER_EPOCH
    assert second.beats().epoch == 3


def test_a_member_that_joins_again_gets_what_it_had(bench):
    first, second = Member(bench, "one").beats(), Member(bench, "two").beats()
    settle(first, second)
    owned, first.epoch, first.owned = first.owned, 0, set()
    assert first.beats().owned == owned
    assert group_of(bench)["groupEpoch"] == 3


def test_a_heartbeat_without_news_has_no_assignment(bench):
    first = Member(bench, "one").beats()
    assert first.beats().answer["assignment"] is None
    first.request(rebalanceTimeoutMs=60_000, subscribedTopicNames=["a", "b"], topicPartitions=[])
    assert first.answer["assignment"] is not None


def test_before_version_1_the_coordinator_gives_member_ids(bench):
    body = {"groupId": "g", "memberId": "", "memberEpoch": 0, "instanceId": None, "rackId": None, "rebalanceTimeoutMs": 1,
            "subscribedTopicNames": ["a"], "serverAssignor": None, "topicPartitions": []}  # fmt: skip
    answers = [bench.ask("ConsumerGroupHeartbeat", 0, body) for _ in range(2)]
    ids = [one["memberId"] for one in answers]
    assert [len(one) for one in ids] == [22, 22]
    assert {one["memberId"] for one in group_of(bench)["members"]} == set(ids)


def test_other_topics(bench):
    first = Member(bench, "one", ["a"]).beats()
    assert first.owned == {(A, number) for number in range(4)}
    first.beats(subscribes=["b", "unknown"])
    assert first.epoch == 2  # it must revoke first
    first.beats()
    assert (first.owned, first.epoch) == ({(B, 0), (B, 1)}, 3)
    assert first.beats(subscribes=[]).beats().owned == set()


# ---- static members


def test_a_static_member_is_away_for_a_while(bench):
    first, second = Member(bench, "one", instance_id="s").beats(), Member(bench, "two").beats()
    settle(first, second)
    owned = first.owned
    assert first.leaves(-2)["memberEpoch"] == -2
    assert second.beats().owned == ALL - owned
    again = Member(bench, "three", instance_id="s").beats()
    assert again.owned == owned
    assert group_of(bench)["groupEpoch"] == 3
    assert error_of(first.request()) is Error.FENCED_INSTANCE_ID
    assert first.answer["errorMessage"] == "Static member one with instance id s was fenced by member three."


def test_a_static_member_that_stays_away_loses_its_partitions(bench):
    first, second = Member(bench, "one", instance_id="s").beats(), Member(bench, "two").beats()
    settle(first, second)
    first.leaves(-2)
    bench.pass_time(44_000)
    second.beats()
    bench.pass_time(1_000)
    assert second.beats().owned == ALL


def test_an_instance_id_in_use_is_not_given_to_another_member(bench):
    Member(bench, "one", instance_id="s").beats()
    other = Member(bench, "two", instance_id="s")
    answer = other.request(rebalanceTimeoutMs=1, subscribedTopicNames=["a"], topicPartitions=[])
    assert error_of(answer) is Error.UNRELEASED_INSTANCE_ID
    other.epoch = 5
    assert error_of(other.request()) is Error.FENCED_INSTANCE_ID
    assert error_of(other.request(instanceId="unknown")) is Error.UNKNOWN_MEMBER_ID


# ---- refused requests


@pytest.mark.parametrize(("changes", "error", "message"), [
    ({"memberId": ""}, Error.INVALID_REQUEST, "MemberId can't be empty."),
    ({"groupId": " "}, Error.INVALID_REQUEST, "GroupId can't be empty."),
    ({"instanceId": ""}, Error.INVALID_REQUEST, "InstanceId can't be empty."),
    ({"rackId": ""}, Error.INVALID_REQUEST, "RackId can't be empty."),
    ({"rebalanceTimeoutMs": -1}, Error.INVALID_REQUEST, "RebalanceTimeoutMs must be provided in first request."),
    ({"topicPartitions": None}, Error.INVALID_REQUEST, "TopicPartitions must be empty when (re-)joining."),
    ({"topicPartitions": [{"topicId": A, "partitions": [0]}]}, Error.INVALID_REQUEST,
     "TopicPartitions must be empty when (re-)joining."),
    ({"subscribedTopicNames": None}, Error.INVALID_REQUEST,
     "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."),
    ({"memberEpoch": -2}, Error.INVALID_REQUEST, "InstanceId can't be null."),
    ({"memberEpoch": -3}, Error.INVALID_REQUEST, "MemberEpoch is invalid."),
    ({"memberEpoch": 1}, Error.GROUP_ID_NOT_FOUND, "Consumer group g not found."),
    ({"memberEpoch": -1}, Error.GROUP_ID_NOT_FOUND, "Group g not found."),
    ({"serverAssignor": "sticky"}, Error.UNSUPPORTED_ASSIGNOR,
     "ServerAssignor sticky is not supported. Supported assignors: uniform, range."),
    ({"subscribedTopicRegex": "(a"}, Error.INVALID_REGULAR_EXPRESSION,
     "SubscribedTopicRegex `(a` is not a valid regular expression: missing closing )."),
])  # fmt: skip
def test_refused_first_requests(bench, changes, error, message):
    first = {"rebalanceTimeoutMs": 1, "subscribedTopicNames": ["a"], "topicPartitions": []}
    answer = Member(bench, "one").request(**first | changes)
    assert (error_of(answer), answer["errorMessage"]) == (error, message)
    assert bench.ask("ListGroups", 5, {})["groups"] == []


def test_groups_of_one_protocol_take_no_members_of_the_other(bench):
    member = Member(bench, "one").beats()
    classic = {"groupId": "g", "sessionTimeoutMs": 10_000, "rebalanceTimeoutMs": 1, "memberId": "", "protocolType": "consumer",
               "protocols": [{"name": "range", "metadata": b""}]}  # fmt: skip
    assert error_of(bench.ask("JoinGroup", 3, classic)) is Error.INCONSISTENT_GROUP_PROTOCOL
    member.leaves()
    joined = bench.ask("JoinGroup", 3, classic)
    assert joined["errorCode"] == 0
    answer = Member(bench, "two").request(rebalanceTimeoutMs=1, subscribedTopicNames=["a"], topicPartitions=[])
    assert error_of(answer) is Error.GROUP_ID_NOT_FOUND
    assert error_of(member.request()) is Error.GROUP_ID_NOT_FOUND
    described = bench.ask("ConsumerGroupDescribe", 1, {"groupIds": ["g", "", "none"], "includeAuthorizedOperations": True})
    assert [(one["errorCode"], one["errorMessage"]) for one in described["groups"]] == [
        (69, "Group g is not a consumer group."), (24, None), (69, "Group none not found.")
    ]  # fmt: skip
    bench.ask("LeaveGroup", 1, {"groupId": "g", "memberId": joined["memberId"]})
    assert Member(bench, "two").beats().owned == ALL


def test_an_admin_removes_members(bench):
    first, second = Member(bench, "one", instance_id="s").beats(), Member(bench, "two").beats()
    members = [{"memberId": "", "groupInstanceId": "s"}, {"memberId": "none", "groupInstanceId": None}]
    answer = bench.ask("LeaveGroup", 5, {"groupId": "g", "members": members})
    assert [one["errorCode"] for one in answer["members"]] == [0, 25]
    assert second.beats().owned == ALL
    assert error_of(first.request()) is Error.UNKNOWN_MEMBER_ID


def test_groups_are_bounded():
    bench = Bench(members=1, member_bytes=5_000)
    Member(bench, "one").beats()
    first = {"rebalanceTimeoutMs": 1, "topicPartitions": []}
    answer = Member(bench, "two").request(**first, subscribedTopicNames=["a"])
    assert error_of(answer) is Error.GROUP_MAX_SIZE_REACHED
    assert answer["errorMessage"] == "The consumer group has reached its maximum capacity of 1 members."
    many = [f"topic-{number}" for number in range(100)]
    answer = Member(bench, "one").request(**first, subscribedTopicNames=many)
    assert error_of(answer) is Error.GROUP_MAX_SIZE_REACHED
    assert Member(bench, "one").beats().owned == ALL


def test_a_closed_coordinator_answers_no_heartbeat(bench):
    member = Member(bench, "one").beats()
    bench.coordinator.close()
    assert error_of(member.request()) is Error.COORDINATOR_NOT_AVAILABLE


# ---- patterns and assignors


def test_a_pattern_as_subscription():
    bench = Bench(FakeTopics(orders=2, orders_eu=1, ledger=1))
    member = Member(bench, "one", [], pattern="orders.*").beats()
    assert member.owned == {("id-of-orders", 0), ("id-of-orders", 1), ("id-of-orders_eu", 0)}
    member.pattern = "(ledger|orders)"
    member.beats(subscribes=[]).beats()
    assert member.owned == {("id-of-orders", 0), ("id-of-orders", 1), ("id-of-ledger", 0)}
    (described,) = group_of(bench)["members"]
    assert described["subscribedTopicRegex"] == "(ledger|orders)"
    member.pattern = ""
    assert member.beats(subscribes=["ledger"]).beats().owned == {("id-of-ledger", 0)}


def test_the_assignor_that_most_members_want():
    bench = Bench(FakeTopics(a=3, b=3))
    first, second = Member(bench, "one", assignor="range").beats(), Member(bench, "two", assignor="range").beats()
    settle(first, second)
    assert first.owned == {(A, 0), (A, 1), (B, 0), (B, 1)}
    assert second.owned == {(A, 2), (B, 2)}
    assert group_of(bench)["assignorName"] == "range"


def test_range_orders_static_members_by_their_instance_id():
    members = {"x": Subscriber(None, frozenset([A]), {}), "a": Subscriber("i2", frozenset([A]), {}),
               "b": Subscriber("i1", frozenset([A, B]), {})}  # fmt: skip
    assert assign_ranges(members, {A: [0, 1, 2, 3], B: [5]}) == {"b": {A: {0, 1}, B: {5}}, "a": {A: {2}}, "x": {A: {3}}}


@pytest.mark.parametrize("seed", range(60))
def test_uniform_is_balanced_and_keeps_what_it_can(seed):
    rng = random.Random(seed)
    topics = {f"t{number}": list(range(rng.randrange(1, 9))) for number in range(rng.randrange(1, 5))}
    is_equal = seed % 2 == 0
    members, target = {}, {}
    for step in range(6):
        wanted = frozenset(topics) if is_equal else frozenset(rng.sample(sorted(topics), rng.randrange(1, len(topics) + 1)))
        members[f"m{step}"] = wanted
        if step > 1 and rng.random() < 0.4:
            members.pop(rng.choice(sorted(members)))
        known = {name: Subscriber(None, wanted, target.get(name, {})) for name, wanted in members.items()}
        before, target = target, assign_uniformly(known, topics)
        given = [(topic, number) for own in target.values() for topic, numbers in own.items() for number in numbers]
        subscribed = {topic for wanted in members.values() for topic in wanted}
        assert sorted(given) == sorted((topic, number) for topic in subscribed for number in topics[topic])
        assert all(set(own) <= members[name] for name, own in target.items())
        loads = {name: sum(map(len, target[name].values())) for name in members}
        for topic in subscribed:  # no partition could move to a member that has two fewer
            subscribers = [name for name in members if topic in members[name]]
            least = min(loads[name] for name in subscribers)
            assert all(loads[name] - least <= 1 for name in subscribers if target[name].get(topic)), (loads, topic)
        if is_equal:
            share, extra = divmod(len(given), len(members))
            held = {name: {(t, n) for t, ns in before.get(name, {}).items() for n in ns} for name in members}
            kept = sum(len(held[name] & {(t, n) for t, ns in target[name].items() for n in ns}) for name in members)
            sizes = sorted((len(one) for one in held.values()), reverse=True)
            assert kept == sum(min(size, share + (place < extra)) for place, size in enumerate(sizes))


@pytest.mark.parametrize("seed", range(30))
def test_random_members_never_share_a_partition_and_come_to_rest(seed):
    rng = random.Random(seed)
    bench = Bench(FakeTopics(a=5, b=3, c=1))
    members, count = [], 0
    for _ in range(80):
        draw = rng.random()
        if draw < 0.15 and len(members) < 6:
            count += 1
            members.append(Member(bench, f"m{count}", rng.sample("abc", rng.randrange(1, 4))).beats())
        elif draw < 0.22 and members:
            members.pop(rng.randrange(len(members))).leaves()
        elif draw < 0.3 and members:
            rng.choice(members).beats(subscribes=rng.sample("abc", rng.randrange(1, 4)))
        elif members:
            rng.choice(members).beats(says_what_it_owns=rng.random() < 0.7)
        owned = [place for member in members for place in member.owned]
        assert len(owned) == len(set(owned)), "two members own a partition"
    settle(*members, rounds=10)
    if members:
        assert group_of(bench)["groupState"] == "Stable"
        subscribed = {name for member in members for name in member.topics}
        assert {topic for member in members for topic, _ in member.owned} == {f"id-of-{name}" for name in subscribed}
