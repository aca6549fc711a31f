"""The sweep: an operation is stopped before each of its changes, and failed at each call; what is left must be sound.

A `Case` says what is on the disk before, what is done, and what must hold of any disk that may be left. `cuts` gives
everything that is wrong, `troubles` the same for errors of the operating system. With a sync left out `cuts` must find
something: that is how the tests prove that they would notice.
"""

from __future__ import annotations

import ast
import errno
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from engine.errors import KafkalogError
from tests.support.crash_files import WRITING, CrashFiles, PowerCut, Trouble

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.disk_model import Disk

ROOT = Path(__file__).parents[2]
ERRORS = (errno.EIO, errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EINTR)
DRAWN = 3


class Case(NamedTuple):
    """An operation under test.

    disk   before
    work   does it over a seam; calls its second argument with whatever it has acknowledged by then
    check  (disk, last acknowledged or None, done): raises AssertionError if the disk, opened anew, lacks something or
           shows what should be gone; `done` says that the operation had ended
    """

    name: str
    disk: Disk
    work: Callable[[CrashFiles, Callable[[Any], None]], object]
    check: Callable[[Disk, Any, bool], None]


class Outcome(NamedTuple):
    files: CrashFiles
    acknowledged: Any
    error: Exception | None


class Site(NamedTuple):
    """A call of `sync` or `sync_directory` in the engine."""

    path: str  # in the project
    function: str
    number: int  # in that function
    lines: range

    def __str__(self) -> str:
        return f"{self.path}:{self.function}:{self.number}"


def play(case: Case, **settings: Any) -> Outcome:
    """Do the work of a case until it ends, the power is cut or it fails."""
    files, acknowledged = CrashFiles(case.disk, **settings), []
    try:
        case.work(files, acknowledged.append)
    except PowerCut:
        assert files.stopped
    except KafkalogError as error:
        return Outcome(files, acknowledged[-1] if acknowledged else None, error)
    return Outcome(files, acknowledged[-1] if acknowledged else None, None)


def cuts(case: Case, *, left_out: Site | None = None, drawn: int = DRAWN, step: int = 1, only_first: bool = False) -> list[str]:
    """What is wrong after the power was cut, or the process killed, before each change and behind the last.

    left_out    a sync that does nothing       drawn  power losses drawn by chance, for each place
    step        look at every so many places   only_first  stop at the first thing that is wrong
    """
    planted = (left_out.path, left_out.lines) if left_out else None
    total = play(case, left_out=planted).files.changes
    wrong: list[str] = []
    for number in sorted({*range(0, total + 1, step), total}):
        outcome = play(case, stop_at=number, left_out=planted)
        assert outcome.error is None, f"{case.name}: {outcome.error}"
        for what, disk in _left(case, outcome, number, planted, drawn):
            try:
                case.check(disk, outcome.acknowledged, number == total)
            except Exception as error:  # noqa: BLE001 - a directory that does not open, however it fails
                wrong.append(f"{case.name}: {what}{_next(case, number)}: {type(error).__name__}: {str(error)[:300]}")
                if only_first:
                    return wrong
    return wrong


def _left(case: Case, outcome: Outcome, number: int, planted: Any, drawn: int) -> Iterator[tuple[str, Disk]]:
    yield f"killed before change {number}", outcome.files.disk()
    for count, disk in enumerate(outcome.files.power_losses(seed=number, drawn=drawn)):
        yield f"power lost before change {number} ({count})", disk
    torn = play(case, stop_at=number, part=0.5, left_out=planted).files.disk()
    if torn != outcome.files.disk():
        yield f"killed in the middle of change {number}", torn


def _next(case: Case, number: int) -> str:
    changes = [operation for operation in play(case).files.operations if operation.changes]
    return f" ({changes[number].kind} {changes[number].path})" if number < len(changes) else " (the end)"


def troubles(case: Case, error: int, *, step: int = 1) -> list[str]:
    """What is wrong after each operation has failed once with `error`, as no KafkalogError or on the disk."""
    operations = play(case).files.operations
    wrong: list[str] = []
    for number in range(0, len(operations), step):
        kind, path = operations[number][:2]
        what = f"{case.name}: {errno.errorcode[error]} at operation {number} ({kind} {path})"
        try:
            outcome = play(case, trouble=Trouble(number, error, part=0.5))
        except Exception as raised:  # noqa: BLE001 - whatever it is, it is wrong
            wrong.append(f"{what}: {type(raised).__name__}: {raised}")
            continue
        if outcome.error is None and kind in WRITING and outcome.files.troubled:
            wrong.append(f"{what}: nobody noticed")
        for left in (outcome.files.disk(), *outcome.files.power_losses(seed=number, drawn=1)):
            try:
                case.check(left, outcome.acknowledged, False)
            except Exception as raised:  # noqa: BLE001
                wrong.append(f"{what}: then {type(raised).__name__}: {str(raised)[:300]}")
                break
    return wrong


def sync_sites() -> list[Site]:
    """Every call of `sync` and `sync_directory` in the engine, but for seams that hand it on."""
    sites: list[Site] = []
    for path in sorted((ROOT / "engine").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and node.name not in ("sync", "sync_directory"):
                sites += _sites_in(path.relative_to(ROOT).as_posix(), node)
    return sites


def _sites_in(path: str, function: ast.FunctionDef) -> list[Site]:
    calls = [
        node
        for node in _inside(function)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("sync", "sync_directory")
    ]
    calls.sort(key=lambda node: node.lineno)
    return [
        Site(path, function.name, number, range(node.lineno, (node.end_lineno or node.lineno) + 1))
        for number, node in enumerate(calls)
    ]


def _inside(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """The nodes of a function, without those of functions in it."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef):
            waiting.extend(ast.iter_child_nodes(node))


def passes(case: Case, site: Site) -> bool:
    """Does the operation come by this sync?"""
    return any(
        operation.site is not None and operation.site[0] == site.path and operation.site[1] in site.lines
        for operation in play(case).files.operations
    )
