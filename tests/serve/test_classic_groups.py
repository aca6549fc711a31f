"""Classic groups: members in threads, with a clock that stands still until a test moves it."""

import pytest

from engine.protocol.error_codes import Error
from tests.support.group_bench import Bench

SESSION, REBALANCE = 10_000, 60_000


def join_body(member_id="", protocols=(("range", b"topics"),), instance_id=None, **other):
    return {
        "groupId": "g", "sessionTimeoutMs": SESSION, "rebalanceTimeoutMs": REBALANCE, "memberId": member_id,
        "groupInstanceId": instance_id, "protocolType": "consumer",
        "protocols": [{"name": name, "metadata": metadata} for name, metadata in protocols], "reason": None,
    } | other  # fmt: skip


class Member:
    """A consumer of a classic group."""

    def __init__(self, bench, client="c", *, version=9, **options):
        self.bench, self.client, self.version, self.options = bench, client, version, options
        self.id, self.generation, self.joined = "", -1, None

    def starts_joining(self):
        if not self.id and self.version >= 4 and "instance_id" not in self.options:
            answer = self.bench.ask("JoinGroup", self.version, join_body(**self.options), self.client)
            assert answer["errorCode"] == Error.MEMBER_ID_REQUIRED
            self.id = answer["memberId"]
            assert self.id.startswith(f"{self.client}-")
        self._join = self.bench.start("JoinGroup", self.version, join_body(self.id, **self.options), self.client)
        return self

    def has_joined(self):
        self.joined = self._join()
        assert self.joined["errorCode"] == 0
        self.id, self.generation = self.joined["memberId"], self.joined["generationId"]
        return self

    def joins(self):
        return self.starts_joining().has_joined()

    @property
    def leads(self):
        return self.joined["leader"] == self.id

    def _sync_body(self, assignments):
        return {
            "groupId": "g", "generationId": self.generation, "memberId": self.id,
            "groupInstanceId": self.options.get("instance_id"), "protocolType": "consumer",
            "protocolName": self.joined["protocolName"],
            "assignments": [{"memberId": member.id, "assignment": data} for member, data in assignments.items()],
        }  # fmt: skip

    def starts_syncing(self, assignments=None):
        self._sync = self.bench.start("SyncGroup", 5, self._sync_body(assignments or {}), self.client)
        return self

    def syncs(self, assignments=None):
        return self.starts_syncing(assignments).has_synced()

    def has_synced(self):
        answer = self._sync()
        return answer["assignment"] if not answer["errorCode"] else Error(answer["errorCode"])

    def beats(self):
        body = {"groupId": "g", "generationId": self.generation, "memberId": self.id,
                "groupInstanceId": self.options.get("instance_id")}  # fmt: skip
        return Error(self.bench.ask("Heartbeat", 4, body)["errorCode"])

    def leaves(self):
        body = {"groupId": "g", "members": [{"memberId": self.id, "groupInstanceId": None, "reason": None}]}
        return self.bench.ask("LeaveGroup", 5, body)


def describe(bench):
    (group,) = bench.ask("DescribeGroups", 6, {"groups": ["g"], "includeAuthorizedOperations": False})["groups"]
    return group


@pytest.fixture
def stable(bench):
    """A group of two members, in generation 2."""
    first, second = Member(bench, "a").joins(), Member(bench, "b")
    assert first.syncs({first: b"all"}) == b"all"
    second.starts_joining()
    bench.until_waiting(1)
    assert first.beats() is Error.REBALANCE_IN_PROGRESS
    first.joins()
    second.has_joined()
    second.starts_syncing()
    bench.until_waiting(1)
    assert first.syncs({first: b"1", second: b"2"}) == b"1"
    assert second.has_synced() == b"2"
    return first, second


def test_two_members_join(bench, stable):
    first, second = stable
    assert (first.generation, second.generation) == (2, 2)
    assert first.leads
    assert not second.leads
    assert [one["memberId"] for one in first.joined["members"]] == [first.id, second.id]
    assert second.joined["members"] == []
    assert (first.beats(), second.beats()) == (Error.NONE, Error.NONE)
    group = describe(bench)
    assert (group["groupState"], group["protocolType"], group["protocolData"]) == ("Stable", "consumer", "range")
    assert [(one["clientId"], one["clientHost"], one["memberMetadata"], one["memberAssignment"]) for one in group["members"]] == [
        ("a", "/127.0.0.1", b"topics", b"1"), ("b", "/127.0.0.1", b"topics", b"2")
    ]  # fmt: skip


def test_one_leaves(bench, stable):
    first, second = stable
    answer = second.leaves()
    assert answer["members"] == [{"memberId": second.id, "groupInstanceId": None, "errorCode": 0}]
    assert second.beats() is Error.UNKNOWN_MEMBER_ID
    assert first.beats() is Error.REBALANCE_IN_PROGRESS
    first.joins()
    assert first.generation == 3
    assert [one["memberId"] for one in first.joined["members"]] == [first.id]
    assert second.leaves()["members"][0]["errorCode"] == Error.UNKNOWN_MEMBER_ID


def test_the_last_one_leaves_and_the_group_is_empty(bench):
    member = Member(bench).joins()
    member.syncs({member: b"x"})
    member.leaves()
    group = describe(bench)
    assert (group["groupState"], group["protocolType"], group["protocolData"], group["members"]) == ("Empty", "consumer", "", [])
    again = Member(bench).joins()
    assert again.generation == 3  # the empty group was generation 2


def test_the_others_are_answered_when_the_last_missing_member_leaves(bench, stable):
    first, second = stable
    first.starts_joining()
    bench.until_waiting(1)
    second.leaves()
    assert first.has_joined().generation == 3


def test_one_dies(bench, stable):
    first, second = stable
    bench.pass_time(SESSION - 1)
    assert first.beats() is Error.NONE
    bench.pass_time(1)
    assert describe(bench)["groupState"] == "PreparingRebalance"
    assert first.beats() is Error.REBALANCE_IN_PROGRESS
    assert second.beats() is Error.UNKNOWN_MEMBER_ID
    first.joins()
    assert (first.generation, len(first.joined["members"])) == (3, 1)


def test_a_leader_that_does_not_join_in_time_is_replaced(bench, stable):
    first, second = stable
    second.options["protocols"] = [("range", b"other topics")]
    second.starts_joining()
    bench.until_waiting(1)
    for _ in range(REBALANCE // SESSION):
        assert first.beats() is Error.REBALANCE_IN_PROGRESS
        bench.pass_time(SESSION - 1)
    assert first.beats() is Error.REBALANCE_IN_PROGRESS
    bench.pass_time(REBALANCE // SESSION)
    second.has_joined()
    assert second.leads
    assert second.generation == 3
    assert [(one["memberId"], one["metadata"]) for one in second.joined["members"]] == [(second.id, b"other topics")]
    assert first.beats() is Error.UNKNOWN_MEMBER_ID


def test_the_death_of_the_leader_makes_another_member_the_leader(bench, stable):
    first, second = stable
    bench.pass_time(SESSION - 1)
    second.beats()
    bench.pass_time(1)
    second.joins()
    assert second.leads
    assert first.beats() is Error.UNKNOWN_MEMBER_ID


def test_a_follower_that_joins_again_unchanged_gets_the_same_generation(stable):
    first, second = stable
    second.joins()
    assert (second.generation, second.joined["members"]) == (2, [])
    assert second.syncs() == b"2"
    assert first.beats() is Error.NONE


def test_the_leader_starts_a_rebalance_by_joining_again(bench, stable):
    """As in a cooperative rebalance: the second one gives out what the first one revoked."""
    first, second = stable
    for generation in (3, 4):
        first.starts_joining()
        bench.until_waiting(1)
        assert second.beats() is Error.REBALANCE_IN_PROGRESS
        second.joins()
        first.has_joined()
        assert (first.generation, second.generation, first.leads) == (generation, generation, True)
        second.starts_syncing()
        bench.until_waiting(1)
        assert first.syncs({first: b"a%d" % generation, second: b"b%d" % generation}) == b"a%d" % generation
        assert second.has_synced() == b"b%d" % generation


def test_a_rebalance_cancels_the_sync_of_the_one_before(bench):
    first, second, third = (Member(bench, name) for name in "abc")
    first.joins()
    first.syncs({})
    second.starts_joining()
    bench.until_waiting(1)
    first.joins()
    second.has_joined().starts_syncing()
    bench.until_waiting(1)
    third.starts_joining()
    assert second.has_synced() is Error.REBALANCE_IN_PROGRESS
    assert first.syncs({}) is Error.REBALANCE_IN_PROGRESS
    first.starts_joining()
    second.joins()
    assert [one.has_joined().generation for one in (first, third)] == [3, 3]


def test_members_that_do_not_sync_are_removed(bench, stable):
    first, second = stable
    second.leaves()
    third = Member(bench, "c").starts_joining()
    bench.until_waiting(1)
    first.joins()
    third.has_joined()
    for _ in range(REBALANCE // SESSION + 1):
        assert third.beats() in (Error.NONE, Error.REBALANCE_IN_PROGRESS, Error.UNKNOWN_MEMBER_ID)
        assert first.beats() in (Error.NONE, Error.UNKNOWN_MEMBER_ID)
        bench.pass_time(SESSION - 1)
    assert first.beats() is Error.UNKNOWN_MEMBER_ID
    assert third.beats() is Error.UNKNOWN_MEMBER_ID


def test_a_member_that_does_not_sync_is_removed_though_it_is_alive(bench, stable):
    first, second = stable
    first.starts_joining()
    bench.until_waiting(1)
    second.joins()
    first.has_joined()
    first.syncs({})
    for _ in range(REBALANCE // SESSION):
        assert (first.beats(), second.beats()) == (Error.NONE, Error.NONE)
        bench.pass_time(SESSION - 1)
    assert (first.beats(), second.beats()) == (Error.NONE, Error.NONE)
    bench.pass_time(REBALANCE // SESSION)
    assert (first.beats(), second.beats()) == (Error.REBALANCE_IN_PROGRESS, Error.UNKNOWN_MEMBER_ID)


# ---- static members


def static(bench, name, **options):
    return Member(bench, name, instance_id=f"static-{name}", **options)


@pytest.fixture
def static_pair(bench):
    first, second = static(bench, "a").joins(), static(bench, "b")
    first.syncs({first: b"all"})
    second.starts_joining()
    bench.until_waiting(1)
    first.joins()
    second.has_joined().starts_syncing()
    bench.until_waiting(1)
    first.syncs({first: b"1", second: b"2"})
    second.has_synced()
    return first, second


@pytest.mark.parametrize("version", [9, 8, 5])
def test_a_static_follower_restarts_without_a_rebalance(bench, static_pair, version):
    first, second = static_pair
    again = static(bench, "b", version=version).joins()
    assert again.id != second.id
    assert again.id.startswith("static-b-")
    assert (again.generation, again.joined["leader"], again.joined["skipAssignment"]) == (2, first.id, False)
    assert again.syncs() == b"2"
    assert second.beats() is Error.FENCED_INSTANCE_ID
    assert first.beats() is Error.NONE


def test_a_static_leader_that_restarts_skips_the_assignment(bench, static_pair):
    first, second = static_pair
    again = static(bench, "a").joins()
    assert again.leads
    assert again.joined["skipAssignment"] is True
    assert [one["groupInstanceId"] for one in again.joined["members"]] == ["static-b", "static-a"]
    assert again.syncs({}) == b"1"
    assert second.beats() is Error.NONE
    assert first.beats() is Error.FENCED_INSTANCE_ID
    again.starts_joining()
    bench.until_waiting(1)
    second.joins()
    assert again.has_joined().leads


def test_an_older_static_leader_that_restarts_is_told_the_old_leader(bench, static_pair):
    first, _ = static_pair
    again = static(bench, "a", version=8).joins()
    assert (again.joined["leader"], again.joined["members"]) == (first.id, [])
    assert again.syncs({}) == b"1"


def test_a_static_member_that_is_away_keeps_its_place_in_a_rebalance(bench, static_pair):
    first, second = static_pair
    third = Member(bench, "c").starts_joining()
    bench.until_waiting(1)
    first.starts_joining()
    bench.until_waiting(2)
    for _ in range(REBALANCE // SESSION):
        second.beats()
        bench.pass_time(SESSION - 1)
    second.beats()
    bench.pass_time(REBALANCE // SESSION)
    third.has_joined()
    first.has_joined()
    assert [one["memberId"] for one in first.joined["members"]] == [first.id, second.id, third.id]


def test_a_rebalance_that_no_member_joins_is_tried_again(bench, static_pair):
    first, second = static_pair
    third = Member(bench, "c").starts_joining()
    bench.until_waiting(1)
    bench.ask("LeaveGroup", 5, {"groupId": "g", "members": [{"memberId": third.id, "groupInstanceId": None}]})
    assert third._join()["errorCode"] == Error.UNKNOWN_MEMBER_ID
    for attempt in range(2):
        for _ in range(REBALANCE // SESSION):
            first.beats()
            second.beats()
            bench.pass_time(SESSION - 1)
        first.beats()
        second.beats()
        bench.pass_time(REBALANCE // SESSION)
        if not attempt:
            assert describe(bench)["groupState"] == "PreparingRebalance"
            first.starts_joining()
            bench.until_waiting(1)
    assert first.has_joined().generation == 3
    assert len(first.joined["members"]) == 2


def test_a_waiting_static_member_is_fenced_by_its_successor(bench, static_pair):
    first, second = static_pair
    third = Member(bench, "c").starts_joining()
    bench.until_waiting(1)
    second.starts_joining()
    bench.until_waiting(2)
    again = static(bench, "b").starts_joining()
    assert second._join()["errorCode"] == Error.FENCED_INSTANCE_ID
    for _ in range(3):  # members that wait need no heartbeats
        first.beats()
        bench.pass_time(SESSION - 1)
    first.joins()
    assert again.has_joined().generation == third.has_joined().generation == 3


def test_an_admin_removes_a_static_member(bench, static_pair):
    first, _ = static_pair
    members = [{"memberId": "", "groupInstanceId": "static-b"}, {"memberId": "", "groupInstanceId": "static-x"},
               {"memberId": "other", "groupInstanceId": "static-a"}]  # fmt: skip
    answer = bench.ask("LeaveGroup", 5, {"groupId": "g", "members": members})
    assert [one["errorCode"] for one in answer["members"]] == [0, 25, 82]
    assert first.beats() is Error.REBALANCE_IN_PROGRESS


# ---- protocols


def test_the_protocol_with_most_votes_is_chosen(bench):
    wishes = (("range", b"r"), ("sticky", b"s")), (("sticky", b"s"), ("range", b"r")), (("sticky", b"s"), ("range", b"r"), ("new", b""))
    first, second, third = (Member(bench, name, protocols=wish) for name, wish in zip("abc", wishes, strict=True))
    assert first.joins().joined["protocolName"] == "range"
    for count, one in enumerate((second, third), 1):
        one.starts_joining()
        bench.until_waiting(count)
    first.joins()
    assert second.has_joined().joined["protocolName"] == third.has_joined().joined["protocolName"] == "sticky"
    assert {one["metadata"] for one in first.joined["members"]} == {b"s"}
    stranger = join_body(protocols=(("new", b""),))
    assert bench.ask("JoinGroup", 9, stranger)["errorCode"] == Error.INCONSISTENT_GROUP_PROTOCOL
    connect = join_body(protocolType="connect")
    assert bench.ask("JoinGroup", 9, connect)["errorCode"] == Error.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize(("wishes", "protocol"), [
    (["range", "sticky"], "sticky"), (["sticky", "range"], "sticky"),
])  # fmt: skip
def test_between_protocols_with_equally_many_votes_kafka_takes_the_same(bench, wishes, protocol):
    """As a broker chose; its order is that of a HashMap."""
    both = {"range": b"r", "sticky": b"s"}
    first, second = (Member(bench, name, protocols=[(wish, both[wish]), *both.items()]) for name, wish in zip("ab", wishes, strict=True))
    first.joins()
    second.starts_joining()
    bench.until_waiting(1)
    first.syncs({})
    first.joins()
    assert second.has_joined().joined["protocolName"] == protocol


def test_refused_requests(bench, stable):
    first, second = stable
    for body, error in [
        (join_body(groupId=""), Error.INVALID_GROUP_ID),
        (join_body(sessionTimeoutMs=5_999), Error.INVALID_SESSION_TIMEOUT),
        (join_body(sessionTimeoutMs=1_800_001), Error.INVALID_SESSION_TIMEOUT),
        (join_body("nobody"), Error.UNKNOWN_MEMBER_ID),
        (join_body("nobody", groupId="other"), Error.UNKNOWN_MEMBER_ID),
        (join_body(protocols=(), groupId="other"), Error.INCONSISTENT_GROUP_PROTOCOL),
    ]:  # fmt: skip
        answer = bench.ask("JoinGroup", 9, body)
        assert (answer["errorCode"], answer["memberId"], answer["generationId"]) == (error, body["memberId"], -1)
    sync = first._sync_body({})
    for change, error in [
        ({"generationId": 1}, Error.ILLEGAL_GENERATION), ({"memberId": "nobody"}, Error.UNKNOWN_MEMBER_ID),
        ({"groupId": "none"}, Error.UNKNOWN_MEMBER_ID), ({"groupId": ""}, Error.INVALID_GROUP_ID),
        ({"protocolName": "sticky"}, Error.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocolType": None}, Error.INCONSISTENT_GROUP_PROTOCOL),
        ({"groupInstanceId": "static"}, Error.UNKNOWN_MEMBER_ID),
    ]:  # fmt: skip
        assert bench.ask("SyncGroup", 5, sync | change)["errorCode"] == error, change
    second.generation = 1
    assert second.beats() is Error.ILLEGAL_GENERATION
    assert bench.ask("Heartbeat", 4, {"groupId": "", "generationId": 1, "memberId": ""})["errorCode"] == Error.INVALID_GROUP_ID
    assert bench.ask("LeaveGroup", 5, {"groupId": "", "members": []})["errorCode"] == Error.INVALID_GROUP_ID
    assert bench.ask("LeaveGroup", 1, {"groupId": "none", "memberId": "x"}) == {"throttleTimeMs": 0, "errorCode": 25}


def test_protocol_names_are_not_null_before_version_7(bench):
    assert bench.ask("JoinGroup", 6, join_body())["protocolName"] == ""
    assert bench.ask("JoinGroup", 7, join_body())["protocolName"] is None


# ---- waiting


def test_an_id_that_is_not_used_expires(bench):
    """A member whose id was never used holds a rebalance up until its session timeout."""
    first = Member(bench, "a").joins()
    first.syncs({})
    assert bench.ask("JoinGroup", 9, join_body())["errorCode"] == Error.MEMBER_ID_REQUIRED
    first.starts_joining()
    bench.until_waiting(1)
    bench.pass_time(SESSION)
    assert first.has_joined().generation == 2


def test_a_new_group_waits_for_more_members():
    bench = Bench(initial_rebalance_delay_ms=3_000)
    first = Member(bench, "a").starts_joining()
    bench.until_waiting(1)
    assert bench.seconds == 3.0
    bench.pass_time(2_000)
    second = Member(bench, "b").starts_joining()
    bench.until_waiting(2)
    bench.pass_time(2_000)
    assert describe(bench)["groupState"] == "PreparingRebalance"
    bench.pass_time(2_000)
    assert first.has_joined().generation == second.has_joined().generation == 1
    assert len(first.joined["members"]) == 2


def test_a_new_member_does_not_wait_for_ever(bench):
    """The heartbeats of a member in a rebalance do not count, but a new one is removed after five minutes."""
    first = Member(bench, "a", rebalanceTimeoutMs=3_600_000).joins()
    first.syncs({})
    second = Member(bench, "b").starts_joining()
    bench.until_waiting(1)
    for _ in range(300_000 // SESSION):
        assert first.beats() is Error.REBALANCE_IN_PROGRESS
        bench.pass_time(SESSION - 1)
    first.beats()
    bench.pass_time(300_000 // SESSION)
    answer = second._join()
    assert (answer["errorCode"], answer["memberId"]) == (Error.UNKNOWN_MEMBER_ID, "")


def test_closing_answers_all_that_wait(bench, stable):
    first, second = stable
    first.starts_joining()
    bench.until_waiting(1)
    bench.coordinator.close()
    assert first._join()["errorCode"] == Error.COORDINATOR_NOT_AVAILABLE
    assert second.beats() is Error.COORDINATOR_NOT_AVAILABLE
    assert bench.ask("JoinGroup", 9, join_body())["errorCode"] == Error.COORDINATOR_NOT_AVAILABLE
    assert bench.ask("ListGroups", 5, {})["errorCode"] == Error.COORDINATOR_NOT_AVAILABLE
    assert describe(bench)["errorCode"] == Error.COORDINATOR_NOT_AVAILABLE


# ---- bounds


def test_a_group_has_at_most_so_many_members():
    bench = Bench(members=2)
    first = Member(bench, "a", version=3).joins()
    first.syncs({})
    second = Member(bench, "b", version=3).starts_joining()
    bench.until_waiting(1)
    first.joins()
    second.has_joined()
    answer = bench.ask("JoinGroup", 3, join_body())
    assert (answer["errorCode"], answer["memberId"]) == (Error.GROUP_MAX_SIZE_REACHED, "")


def test_in_a_rebalance_the_first_members_that_join_are_taken():
    """As in Kafka: a group that is full takes a new member in place of one that has not joined again yet."""
    bench = Bench(members=2)
    first, second, third = (Member(bench, name, version=3) for name in "abc")
    first.joins().syncs({})
    second.starts_joining()
    bench.until_waiting(1)
    first.joins()
    second.has_joined().starts_syncing()
    bench.until_waiting(1)
    first.syncs({})
    second.has_synced()
    first.starts_joining()
    bench.until_waiting(1)
    third.starts_joining()
    bench.until_waiting(2)
    assert bench.ask("JoinGroup", 3, join_body())["errorCode"] == Error.GROUP_MAX_SIZE_REACHED
    assert bench.ask("JoinGroup", 3, join_body(second.id))["errorCode"] == Error.GROUP_MAX_SIZE_REACHED
    bench.pass_time(REBALANCE)
    assert first.has_joined().generation == third.has_joined().generation == 3


def test_ids_for_new_members_are_bounded():
    bench = Bench(members=3)
    errors = [bench.ask("JoinGroup", 9, join_body())["errorCode"] for _ in range(5)]
    assert errors == [79, 79, 79, 81, 81]
    bench.pass_time(SESSION)
    assert bench.ask("JoinGroup", 9, join_body())["errorCode"] == 79


def test_groups_and_their_memory_are_bounded():
    bench = Bench(groups=2, idle_groups=3, member_bytes=10_000, bytes=25_000)
    large = (("range", bytes(9_000)),)
    answers = [bench.ask("JoinGroup", 3, join_body(groupId=name, protocols=large))["errorCode"] for name in ("x", "y", "z")]
    assert answers == [0, 0, 81]
    assert bench.ask("JoinGroup", 3, join_body(groupId="x", protocols=(("range", bytes(10_001)),)))["errorCode"] == 81
    assert bench.ask("JoinGroup", 3, join_body(groupId="x", protocols=large))["errorCode"] == 81
    bench.pass_time(SESSION)
    for number in range(20):
        bench.ask("JoinGroup", 3, join_body(groupId=f"group-{number}", protocols=()))
    assert len(bench.ask("ListGroups", 5, {})["groups"]) <= 4
