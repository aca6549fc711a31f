"""A group coordinator with a clock that tests set, and clients in threads."""

from __future__ import annotations

from threading import Condition, Thread
from typing import NamedTuple

from engine.serve.group_common import Client, Limits
from engine.serve.groups import GroupCoordinator

PATIENCE = 60  # seconds until a test gives up waiting for a thread


class FakeTopic(NamedTuple):
    name: str
    id: str
    partitions: list[int]


class FakeTopics:
    def __init__(self, **counts):
        self.topics = {name: FakeTopic(name, f"id-of-{name}", list(range(count))) for name, count in counts.items()}

    @classmethod
    def of(cls, described):
        topics = cls()
        topics.topics = {name: FakeTopic(name, one["id"], one["partitions"]) for name, one in described.items()}
        return topics

    def by_id(self, topic_id):
        return next((one for one in self.topics.values() if one.id == topic_id), None)


class Bench:
    """A coordinator whose time stands still, and the requests that wait in threads."""

    def __init__(self, topics=None, stored=(), **limits):
        self.now = 1_000_000
        self._changed, self._waiting = Condition(), 0
        self.seconds = None  # for which the last request wants to wait
        topics = FakeTopics(a=4, b=2) if topics is None else topics
        self.coordinator = GroupCoordinator(topics, lambda: self.now, stored, limits=Limits(**limits), wait=self._wait)

    def _wait(self, condition, seconds):
        with self._changed:
            self._waiting += 1
            self.seconds = seconds
            self._changed.notify_all()
        assert condition.wait(PATIENCE)
        with self._changed:
            self._waiting -= 1

    def until_waiting(self, count):
        """Wait until so many requests wait."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._waiting == count, PATIENCE)

    def pass_time(self, ms):
        """Let time pass, and run what is due, as a request that waits would."""
        self.now += ms
        self.coordinator.answer("ListGroups", {}, Client("clock", "/", 5))

    def ask(self, api, version, body, client="c"):
        return self.coordinator.answer(api, body, Client(client, "/127.0.0.1", version))

    def start(self, api, version, body, client="c"):
        """Ask in a thread; returns what waits for the answer."""
        answers = []
        thread = Thread(target=lambda: answers.append(self.ask(api, version, body, client)), daemon=True)
        thread.start()

        def result():
            thread.join(PATIENCE)
            assert answers, "the request still waits"
            return answers[0]

        return result
