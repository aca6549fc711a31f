"""Which jobs are alive: the process that each of them ends with, and signs of life that its tasks leave.

An id of a process means something only within one boot of one machine, and one namespace of ids: containers have their own,
often with the same host name. Processes that cannot be seen from here are known by their signs of life only.
"""

from __future__ import annotations

import logging
import os
import socket
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event, Thread
from typing import TYPE_CHECKING, NamedTuple

from engine.errors import KafkalogError
from engine.files import look, now_ms
from kafkalog_spark.sink.kept import read_kept, write_kept

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.files import Files

OWNER = "job.json"  # in the directory where a job stages; the time of its last change is the last sign of life
_ABANDONED = 24 * 3600 * 1000  # ms without a sign of life after which a job whose process nobody sees counts as dead
_BEAT = 60.0  # seconds from one sign to the next
_LOG = logging.getLogger("kafkalog")


class Owner(NamedTuple):
    """The process that a job ends with.

    system  where its id means something, see `this_system`        began  in ticks since the machine did
    """

    system: str
    process: int
    began: int


@dataclass
class Owned:
    """What is kept of it: the fields of an Owner; None where the system does not say."""

    owner: list[str | int] | None


def this_system() -> str | None:
    """Host name, boot and namespace of process ids, as far as this process sees; None: unknown."""
    try:
        if os.readlink("/proc/self") != str(os.getpid()):
            return None  # it shows the processes of others
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read().strip()
        return f"{socket.gethostname()} {boot} {os.readlink('/proc/self/ns/pid')}"
    except (OSError, ValueError):
        return None


def this_owner() -> Owner | None:
    """The process that started this one: Spark's driver, or its daemon, which ends with it."""
    parent, system = os.getppid(), this_system()
    began = _began(parent)
    return None if began is None or system is None or parent == 1 else Owner(system, parent, began)


def _began(process: int) -> int | None:
    """When a process of this system began; None: it does not exist, or that is unknown."""
    try:
        with open(f"/proc/{process}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None


def _is_running(owner: list[str | int] | None) -> bool | None:
    """Does the process still run? None: unknown."""
    match owner:
        case [str(system), int(process), int(began)] if system == this_system():
            pass
        case _:
            return None
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass  # it is somebody else's, and may be hidden
    seen = _began(process)
    return None if seen is None else seen == began


def put_owner(files: Files, directory: str, owner: Owner | None) -> None:
    """Say whose the directory is. Raises UnwritableFile."""
    write_kept(files, f"{directory}/{OWNER}", Owned(None if owner is None else list(owner)))


def is_alive(files: Files, directory: str, now: int) -> bool:
    """Is the job that stages in `directory` alive, or may it be? Raises KafkalogError."""
    if not files.list(directory):
        return False
    try:
        owned = read_kept(files, f"{directory}/{OWNER}", Owned)
    except KafkalogError as error:
        _LOG.warning("cannot find the owner of %s: %s", directory, error)
        owned = None
    is_running = None if owned is None else _is_running(owned.owner)
    if is_running is not None:
        return is_running
    signs = [info.modified_ms for info in (look(files, directory), look(files, f"{directory}/{OWNER}")) if info is not None]
    return now - max(signs, default=0) < _ABANDONED


@contextmanager
def alive(files: Files, directory: str) -> Iterator[None]:
    """Leave signs of life of the job that stages in `directory`, as long as this goes on: rows may come slowly."""
    is_over = Event()

    def beat() -> None:
        while True:
            try:
                files.set_modified(f"{directory}/{OWNER}", now_ms() * 1_000_000)
            except KafkalogError as error:  # what the task writes there fails as well, if it is more than a moment
                _LOG.warning("no sign of life could be left: %s", error)
            if is_over.wait(_BEAT):
                return

    beating = Thread(target=beat, name="kafkalog-alive", daemon=True)
    beating.start()
    try:
        yield
    finally:
        is_over.set()
        beating.join()
