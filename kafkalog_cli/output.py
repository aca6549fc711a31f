"""Standard output by a thread of its own: while the operating system copies one buffer, kernels fill the next."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable


class BackgroundWriter:
    """Hands views to `write`, one at a time and in order.

    A view must not change until the next call of `write` or `drain` has returned. What `write` raises comes out of the
    next call; nothing is written behind it.
    """

    def __init__(self, write: Callable[[memoryview], object]) -> None:
        self._sink: Callable[[memoryview], object] | None = write
        self._view: memoryview | None = None
        self._error: BaseException | None = None
        self._work = threading.Semaphore(0)
        self._idle = threading.Semaphore(1)
        self._thread: threading.Thread | None = None

    def write(self, view: memoryview) -> None:
        """Wait for the view before, then begin with this one. Raises what writing that one raised."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="kafkalog-output", daemon=True)
            self._thread.start()
        self.drain()
        self._idle.acquire()
        self._view = view
        self._work.release()

    def drain(self) -> None:
        """Wait until everything is written. Raises what writing raised."""
        self._idle.acquire()
        self._idle.release()
        if self._error is not None:
            raise self._error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        """End the thread, behind what it is writing. Errors that nobody has heard of stay unheard: `drain` first."""
        if self._thread is not None:
            self._idle.acquire()
            self._sink, self._view = None, None
            self._work.release()
            self._thread.join()

    def _run(self) -> None:
        while True:
            self._work.acquire()
            if self._sink is None:
                return
            try:
                if self._view is not None:
                    self._sink(self._view)
            except BaseException as error:  # noqa: BLE001  # it belongs to the caller of the next write
                self._error = error
            self._view = None
            self._idle.release()
