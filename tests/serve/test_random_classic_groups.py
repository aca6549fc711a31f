"""Random lives of classic groups: no request is forgotten, and whoever is left comes to rest in one generation."""

import random

import pytest

from engine.protocol.error_codes import Error, RefusedError
from engine.serve.classic_groups import ClassicGroup, GroupState
from engine.serve.group_common import Answer, Client, Limits, Timers

SESSION = 10_000


class Life:
    """A consumer that follows the protocol, one request at a time."""

    def __init__(self, group, name, rng, instance_id=None):
        self.group, self.name, self.rng, self.instance_id = group, name, rng, instance_id
        self.version = rng.choice([3, 5, 9])
        self.protocols = [(protocol, name.encode()) for protocol in rng.sample(["range", "sticky", "cooperative"], 3)]
        self.id, self.generation, self.leader, self.members, self.assignment = "", -1, None, [], None
        self.waits_for, self.answer, self.is_synced = None, None, False

    def _send(self, kind, call):
        answer = Answer()
        try:
            call(answer)
        except RefusedError as refused:
            self._refused(refused.error)
            return
        self.waits_for, self.answer = kind, answer
        self.receive()

    def _refused(self, error):
        self.is_synced = False
        if error in (Error.UNKNOWN_MEMBER_ID, Error.FENCED_INSTANCE_ID):
            self.id = ""
        assert error in (Error.UNKNOWN_MEMBER_ID, Error.ILLEGAL_GENERATION, Error.REBALANCE_IN_PROGRESS,
                         Error.FENCED_INSTANCE_ID), error  # fmt: skip
        self.generation = -1

    def receive(self):
        """Take the answer over, if it is there."""
        if self.waits_for is None or self.answer.body is None:
            return
        kind, body, self.waits_for = self.waits_for, self.answer.body, None
        if body["errorCode"] == Error.MEMBER_ID_REQUIRED:
            self.id = body["memberId"]
        elif body["errorCode"]:
            self._refused(Error(body["errorCode"]))
        elif kind == "join":
            self.id, self.generation, self.leader = body["memberId"], body["generationId"], body["leader"]
            self.members, self.is_synced = body["members"], False
        else:
            self.assignment, self.is_synced = body["assignment"], True

    def acts(self):
        """Send the next request, unless one waits."""
        self.receive()
        if self.waits_for is not None:
            return
        if self.generation < 0:
            body = {
                "groupId": "g", "sessionTimeoutMs": SESSION, "rebalanceTimeoutMs": 30_000, "memberId": self.id,
                "groupInstanceId": self.instance_id, "protocolType": "consumer",
                "protocols": [{"name": name, "metadata": data} for name, data in self.protocols],
            }  # fmt: skip
            self._send("join", lambda answer: self.group.join(body, Client(self.name, "/", self.version), answer))
        elif not self.is_synced:
            given = [{"memberId": one["memberId"], "assignment": one["memberId"].encode()} for one in self.members]
            body = self._named() | {"assignments": given if self.leader == self.id else []}
            self._send("sync", lambda answer: self.group.sync_group(body, answer))
        else:
            try:
                error = self.group.heartbeat(self._named())
            except RefusedError as refused:
                self._refused(refused.error)
            else:
                self.generation = -1 if error else self.generation

    def _named(self):
        return {"memberId": self.id, "groupInstanceId": self.instance_id, "generationId": self.generation}


@pytest.mark.parametrize("seed", range(60))
def test_random_lives(seed):
    rng = random.Random(seed)
    timers = Timers(0)
    group = ClassicGroup("g", timers, Limits(initial_rebalance_delay_ms=rng.choice([0, 3_000])))
    lives, count = [], 0
    for _ in range(300):
        draw = rng.random()
        if draw < 0.05 and len(lives) < 5:
            count += 1
            lives.append(Life(group, f"c{count}", rng))
        elif draw < 0.08 and len(lives) < 5:
            number = rng.randrange(3)  # a static member starts; its predecessor is gone
            lives = [one for one in lives if one.instance_id != f"static-{number}"]
            lives.append(Life(group, f"s{number}", rng, f"static-{number}"))
        elif draw < 0.1 and lives:
            gone = lives.pop(rng.randrange(len(lives)))  # dies, or leaves
            if rng.random() < 0.5 and gone.waits_for is None and gone.id:
                group.leave([{"memberId": gone.id, "groupInstanceId": gone.instance_id}])
        elif draw < 0.2:
            timers.expire(timers.now_ms + rng.choice([1, 1_000, 3_000, SESSION]))
        elif lives:
            rng.choice(lives).acts()
        timers.expire(timers.now_ms)
        for one in lives:
            one.receive()
            known = group.members.get(one.id) or next((m for m in group.members.values() if one.answer in (m.join, m.syncing)), None)
            assert one.waits_for is None or (known is not None and one.answer in (known.join, known.syncing)), "a request is forgotten"
        assert group.leader is None or group.leader in group.members
        assert bool(group.members) or group.state in (GroupState.EMPTY, GroupState.PREPARING_REBALANCE)
    for _ in range(40):
        for one in lives:
            one.acts()
        timers.expire(timers.now_ms + 3_000)
    for one in lives:
        one.receive()
    if not lives:
        return
    assert group.state is GroupState.STABLE
    assert set(group.members) == {one.id for one in lives}
    assert {(one.generation, one.is_synced) for one in lives} == {(group.generation, True)}
    assert all(group.members[one.id].assignment == one.assignment for one in lives)
    assert [one.id for one in lives if one.id == group.leader]
