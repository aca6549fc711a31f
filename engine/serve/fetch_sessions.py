"""Incremental fetch sessions: a client names only the partitions that changed. Mirrors FetchSession and FetchManager."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any

from engine.protocol.error_codes import Error

if TYPE_CHECKING:
    from collections.abc import Callable

_MOST_SESSIONS = 200  # Kafka: max.incremental.fetch.session.cache.slots
_MOST_PARTITIONS = 100_000  # of all sessions
_LAST_EPOCH = 0x7FFFFFFF  # of a session; 1 follows


class Session:
    """The partitions of an incremental fetch session, in the order in which they are answered. Mirrors FetchSession."""

    def __init__(self, number: int) -> None:
        self.number, self.epoch = number, 1
        self.asked: dict[tuple[str, int], dict[str, Any]] = {}
        self.sent: dict[tuple[str, int], tuple[int, int]] = {}  # high watermark, log start offset; missing: none yet

    def is_news(self, key: tuple[str, int], answer: dict[str, Any]) -> bool:
        """Return whether the answer of a partition has news for the client; note it as sent (maybeUpdateResponseData)."""
        marks = answer["highWatermark"], answer["logStartOffset"]
        if answer["errorCode"]:
            self.sent.pop(key, None)
            return True
        is_news = len(answer["records"]) > 0 or self.sent.get(key) != marks or "divergingEpoch" in answer
        self.sent[key] = marks
        return is_news

    def put_last(self, key: tuple[str, int]) -> None:
        """Answer a partition that had data last the next time, so that every partition gets its turn."""
        fields = self.asked.pop(key, None)
        if fields is not None:  # else another connection of the client has removed it meanwhile
            self.asked[key] = fields


class FetchSessions:
    """The sessions of all connections. If there are too many, the oldest ones end: their clients begin new ones."""

    def __init__(self, random: Callable[[], int]) -> None:
        self._random = random  # a positive int32
        self._sessions: dict[int, Session] = {}
        self._lock = Lock()

    def begin(self) -> Session:
        """Begin a session."""
        with self._lock:
            number = self._random()
            while number in self._sessions:
                number = self._random()
            while len(self._sessions) >= _MOST_SESSIONS:
                del self._sessions[next(iter(self._sessions))]
            session = self._sessions[number] = Session(number)
            return session

    def find(self, number: int, epoch: int) -> Session | Error:
        """Return the session for its next request."""
        with self._lock:
            session = self._sessions.get(number)
            if session is None:
                return Error.FETCH_SESSION_ID_NOT_FOUND
            if epoch != session.epoch:
                return Error.INVALID_FETCH_SESSION_EPOCH
            session.epoch = 1 if epoch == _LAST_EPOCH else epoch + 1
            return session

    def end(self, number: int) -> None:
        """End a session, if there is one with this number."""
        with self._lock:
            self._sessions.pop(number, None)

    def bound(self) -> None:
        """End the oldest sessions while all have too many partitions."""
        with self._lock:
            count = sum(len(session.asked) for session in self._sessions.values())
            while count > _MOST_PARTITIONS:
                count -= len(self._sessions.pop(next(iter(self._sessions))).asked)
