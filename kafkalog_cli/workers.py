"""Work on several partitions at the same time, with the results in order; Ctrl-C also stops the reading of large logs."""

from __future__ import annotations

from functools import partial
from threading import Event
from typing import TYPE_CHECKING, TypeVar

from engine.background import checked, side_by_side

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

Result = TypeVar("Result")


def in_order(work: Callable[[str, Event], Result], directories: list[str], jobs: int) -> Generator[Result, None, None]:
    """Yield the result of each directory, in order; `jobs` of them are worked on at the same time.

    work  is called with a directory, and an event that is set when its result is no longer wanted
    Close the generator, which stops its threads.
    """
    stop = Event()

    def run(directory: str) -> Result:
        return work(directory, stop)

    with checked(partial(_end_if, stop)):
        yield from side_by_side(run, directories, jobs, stop.set)


def _end_if(stop: Event) -> None:
    if stop.is_set():
        raise KeyboardInterrupt
