"""Which jobs are alive: the owner process of each job, and a heartbeat of its tasks.

A process id is valid only in one boot of one machine and one PID namespace: containers have their own namespace, often with the
same host name. Jobs whose process cannot be seen from here are judged by their heartbeat only.
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
from kafkalog_spark.sink.state_files import read_kept, write_kept

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.files import Files

OWNER = "job.json"  # in the staging directory of a job; its modification time is the last heartbeat
_ABANDONED = 24 * 3600 * 1000  # ms without a heartbeat after which a job counts as dead if its process cannot be seen
_HEARTBEAT = 60.0  # seconds between two heartbeats
_LOG = logging.getLogger("kafkalog")


class Owner(NamedTuple):
    """The owner process of a job: the job ends when this process ends.

    system   where its id is valid, see `this_system`
    process  its id
    began    its start, in clock ticks since the boot
    """

    system: str
    process: int
    began: int


@dataclass
class OwnerFile:
    """The content of OWNER: the fields of an Owner; None: unknown on this system."""

    owner: list[str | int] | None


def this_system() -> str | None:
    """Return host name, boot id and PID namespace of this process; None: unknown."""
    try:
        if os.readlink("/proc/self") != str(os.getpid()):
            return None  # /proc is that of another namespace
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read().strip()
        return f"{socket.gethostname()} {boot} {os.readlink('/proc/self/ns/pid')}"
    except (OSError, ValueError):
        return None


def this_owner() -> Owner | None:
    """Return the parent process: Spark's driver, or its Python daemon, which ends with the driver. None: unknown."""
    parent, system = os.getppid(), this_system()
    began = _began(parent)
    return None if began is None or system is None or parent == 1 else Owner(system, parent, began)


def _began(process: int) -> int | None:
    """Return the start of a process in clock ticks since the boot; None: it does not exist, or unknown."""
    try:
        with open(f"/proc/{process}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None


def _is_running(owner: list[str | int] | None) -> bool | None:
    """Does the owner process still run? None: unknown."""
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
        pass  # a process of another user, which /proc may hide
    seen = _began(process)
    return None if seen is None else seen == began


def write_owner(files: Files, directory: str, owner: Owner | None) -> None:
    """Write the owner of a staging directory. Raises UnwritableFile."""
    write_kept(files, f"{directory}/{OWNER}", OwnerFile(None if owner is None else list(owner)))


def is_alive(files: Files, directory: str, now: int) -> bool:
    """Is the job with the staging directory `directory` alive, or could it be? Raises KafkalogError."""
    if not files.list(directory):
        return False
    try:
        owned = read_kept(files, f"{directory}/{OWNER}", OwnerFile)
    except KafkalogError as error:
        _LOG.warning("cannot find the owner of %s: %s", directory, error)
        owned = None
    is_running = None if owned is None else _is_running(owned.owner)
    if is_running is not None:
        return is_running
    signs = [info.modified_ms for info in (look(files, directory), look(files, f"{directory}/{OWNER}")) if info is not None]
    return now - max(signs, default=0) < _ABANDONED


@contextmanager
def heartbeat(files: Files, directory: str) -> Iterator[None]:
    """Update the heartbeat of a job while the context is open, since its rows may arrive slowly."""
    stopped = Event()

    def beat() -> None:
        while True:
            try:
                files.set_modified(f"{directory}/{OWNER}", now_ms() * 1_000_000)
            except KafkalogError as error:  # if the error persists, the writes of the task fail too
                _LOG.warning("cannot write the heartbeat: %s", error)
            if stopped.wait(_HEARTBEAT):
                return

    beating = Thread(target=beat, name="kafkalog-heartbeat", daemon=True)
    beating.start()
    try:
        yield
    finally:
        stopped.set()
        beating.join()
