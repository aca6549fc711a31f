"""What groups of both protocols share: requests that wait, timers, limits."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Mapping

Body = dict[str, Any]  # a request or response with the names of Kafka's JSON
UNKNOWN_OPERATIONS = -(1 << 31)  # of ACLs: not asked for


class Client(NamedTuple):
    """The sender of a request: its client id, its address as Kafka writes it (`/127.0.0.1`), and the version of the request."""

    id: str
    host: str
    version: int


class TopicLike(Protocol):
    """A topic: `id` as in Kafka's JSON; iterating `partitions` yields their indexes in order."""

    @property
    def name(self) -> str: ...  # noqa: D102  # see the class
    @property
    def id(self) -> str: ...  # noqa: D102  # see the class
    @property
    def partitions(self) -> Collection[int]: ...  # noqa: D102  # see the class


class Topics(Protocol):
    """The topics that are served (see `catalogue`)."""

    @property
    def topics(self) -> Mapping[str, TopicLike]: ...  # noqa: D102  # see the class
    def by_id(self, topic_id: str, /) -> TopicLike | None: ...  # noqa: D102  # see the class


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Settings of the coordinator, with Kafka's defaults unless noted; and bounds on what clients can make it keep.

    initial_rebalance_delay_ms  group.initial.rebalance.delay.ms: wait for more members of a new group. Kafka's own
        server.properties has 0
    new_member_join_ms  how long a new member may wait in its first JoinGroup
    groups, members     groups that have members, and members of each; not bounded in Kafka
    idle_groups         groups in memory without members
    member_bytes, bytes metadata of a member, and of all members or all offsets; not bounded in Kafka
    """

    initial_rebalance_delay_ms: int = 0
    new_member_join_ms: int = 300_000
    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    consumer_session_timeout_ms: int = 45_000
    consumer_heartbeat_interval_ms: int = 5_000
    offset_metadata_characters: int = 4_096
    groups: int = 100
    members: int = 100
    idle_groups: int = 1_000
    member_bytes: int = 256 << 10
    bytes: int = 64 << 20


class Answer:
    """The answer to a request that may wait for other members. `body` is None until it is known."""

    __slots__ = ("body",)

    def __init__(self) -> None:
        self.body: Body | None = None


class Timers:
    """Actions at a later time, by key. They run in the order of their deadlines, each as if at its deadline.

    now_ms  the time: that of the clock, or during an action its deadline
    """

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self._actions: dict[Hashable, tuple[int, int, Callable[[], None]]] = {}
        self._queue: list[tuple[int, int, Hashable]] = []
        self._count = 0

    def schedule(self, key: Hashable, delay_ms: int, action: Callable[[], None]) -> None:
        """Run `action` after `delay_ms`, instead of an earlier action with the same key."""
        deadline = self.now_ms + max(0, delay_ms)
        self._count += 1
        self._actions[key] = (deadline, self._count, action)
        heappush(self._queue, (deadline, self._count, key))
        if len(self._queue) > 2 * len(self._actions) + 64:
            self._queue = [(due, count, key) for key, (due, count, _) in self._actions.items()]
            heapify(self._queue)

    def cancel(self, key: Hashable) -> None:
        """Forget the action."""
        self._actions.pop(key, None)

    def next_ms(self) -> int | None:
        """Return the earliest deadline; None: nothing is scheduled."""
        while self._queue:
            deadline, count, key = self._queue[0]
            if key in self._actions and self._actions[key][1] == count:
                return deadline
            heappop(self._queue)
        return None

    def expire(self, now_ms: int) -> bool:
        """Run what is due. Returns whether anything ran."""
        ran = False
        while (deadline := self.next_ms()) is not None and deadline <= now_ms:
            _, _, key = heappop(self._queue)
            self.now_ms = max(self.now_ms, deadline)
            self._actions.pop(key)[2]()
            ran = True
        self.now_ms = max(self.now_ms, now_ms)
        return ran
