"""Requests to a store, each in a thread of its own: they run in advance, and Ctrl-C ends the wait for one that hangs."""

from __future__ import annotations

from contextlib import contextmanager
from threading import Thread, current_thread
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Result = TypeVar("Result")

_PAUSE = 0.2  # seconds between two checks
_checks: list[Callable[[], None]] = []


@contextmanager
def checked(check: Callable[[], None]) -> Iterator[None]:
    """Call `check` several times a second while the block waits for a request; if it raises, the wait ends with that error."""
    _checks.append(check)
    try:
        yield
    finally:
        _checks.remove(check)


class Request(Thread, Generic[Result]):
    """A call that starts at once in a daemon thread, so the process can end before it."""

    def __init__(self, call: Callable[[], Result]) -> None:
        super().__init__(name="kafkalog-request", daemon=True)
        self._call = call
        self._found: list[Result] = []
        self._error: BaseException | None = None
        self.start()

    def run(self) -> None:
        """See Thread."""
        try:
            self._found.append(self._call())
        except BaseException as error:  # noqa: BLE001  # `result` raises it
            self._error = error

    def result(self) -> Result:
        """Wait for the call, and return its result, once. Raises what the call raised."""
        while self.is_alive():
            self.join(_PAUSE)
            for check in _checks:
                check()
        if self._error is not None:
            raise self._error
        return self._found.pop()


def answer(call: Callable[[], Result]) -> Result:
    """Return the result of a call that may hang."""
    return call() if isinstance(current_thread(), Request) else Request(call).result()
