"""Threads: several that share a list of items, one that works ahead of its owner, one for each request that may hang.

They save time only outside the interpreter: kernels, codecs and system calls release the GIL.
"""

from __future__ import annotations

import threading
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Generic, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator
    from typing import Self

Item = TypeVar("Item")
Result = TypeVar("Result")
_END = object()
_PAUSE = 0.2  # seconds: a signal that comes just before a wait without a limit is handled only after the wait
_checks: list[Callable[[], None]] = []


def side_by_side(
    work: Callable[[Item], Result], items: Iterable[Item], jobs: int, stop: Callable[[], None] = lambda: None
) -> Generator[Result, None, None]:
    """Yield the result of `work` for each of `items`, in their order; `jobs` of them are worked on at the same time.

    Close the generator: it calls `stop`, and waits for the threads. Items that were not begun are left out.
    """
    items = list(items)
    if min(jobs, len(items)) <= 1:
        yield from map(work, items)
        return
    from concurrent.futures import ThreadPoolExecutor, wait  # slow to import

    pool = ThreadPoolExecutor(jobs, thread_name_prefix="kafkalog")
    try:
        futures = deque(pool.submit(work, item) for item in items)
        while futures:
            while not futures[0].done():
                wait([futures[0]], timeout=_PAUSE)
            yield futures.popleft().result()
    finally:
        stop()
        pool.shutdown(cancel_futures=True)


class Background(Generic[Result]):
    """`begin` a function, do something else, then `wait` for what it returned or raised. Close it, or use `with`."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._function: Callable[[], Result] | None = None
        self._result: Result | None = None
        self._error: BaseException | None = None
        self._work = threading.Semaphore(0)
        self._done = threading.Semaphore(0)
        self._busy = False
        self._thread: threading.Thread | None = None

    def begin(self, function: Callable[[], Result]) -> None:
        """Call `function` in the thread. The previous one must have been waited for."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=f"kafkalog-{self._name}", daemon=True)
            self._thread.start()
        self._function, self._busy = function, True
        self._work.release()

    @property
    def is_busy(self) -> bool:
        """Return whether a function was begun and not waited for yet."""
        return self._busy

    def wait(self) -> Result:
        """Wait for the function, and return its result. Raises what the function raised."""
        self._done.acquire()
        self._busy = False
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        result, self._result = self._result, None
        return result  # type: ignore[return-value]  # begin and wait come in turn

    def ahead(self, items: Iterable[Result]) -> Iterator[Result]:
        """Iterate over `items` one ahead: the next item is made in the thread while the caller works with one."""
        iterator, end = iter(items), cast("Result", _END)
        self.begin(lambda: next(iterator, end))
        while (item := self.wait()) is not end:
            self.begin(lambda: next(iterator, end))
            yield item

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error: type[BaseException] | None, *_more: object) -> None:
        if error is None or issubclass(error, Exception):  # after Ctrl-C it does not wait for a read that hangs
            self.close()

    def close(self) -> None:
        """End the thread once its function returns. An error that nobody waited for is dropped."""
        if self._thread is None:
            return
        if self._busy:
            self._done.acquire()
            self._busy = False
        self._function = None
        self._work.release()
        self._thread.join()
        self._thread = None

    def _run(self) -> None:
        while True:
            self._work.acquire()
            if self._function is None:
                return
            try:
                self._result = self._function()
            except BaseException as error:  # noqa: BLE001  # `wait` raises it
                self._error = error
            self._done.release()


@contextmanager
def checked(check: Callable[[], None]) -> Iterator[None]:
    """Call `check` several times a second while the block waits for a request; if it raises, the wait ends with that error."""
    _checks.append(check)
    try:
        yield
    finally:
        _checks.remove(check)


class Request(threading.Thread, Generic[Result]):
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
    return call() if isinstance(threading.current_thread(), Request) else Request(call).result()
