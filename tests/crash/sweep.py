"""The sweep: stop an operation before each of its changes, fail each of its calls, and check every disk that is left.

A `Case` has the disk before, the operation, and the check for any disk that may be left. `cuts` returns the problems after a
stop, `problems` those after an error of the operating system. With any sync left out, `cuts` must find a problem: this proves
that the tests notice a missing sync.
"""

from __future__ import annotations

import ast
import errno
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from engine.errors import KafkalogError
from tests.support.crash_files import WRITING, CrashFiles, PowerCut, StartProblem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tests.support.disk_model import Disk

ROOT = Path(__file__).parents[2]
ERRORS = (errno.EIO, errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EINTR)
DRAWN = 3
PACKAGES = ("engine", "kafkalog_cli")  # those of kafkalog_spark: tests/spark/test_sink_syncs.py
ELSEWHERE = "engine/remote/"  # stores and what is restored from them: tests/remote/test_syncs.py
OF_COMMITS = ("engine/log/commits/", "engine/arrow/")  # of Spark's sink: tests/spark/test_sink_syncs.py
EXPORTS = ("engine/compare/export.py", "engine/export/target.py", "kafkalog_cli/commands/export.py")  # no log depends on these
SYNCS = ("sync", "sync_directory")


class Case(NamedTuple):
    """An operation under test.

    disk   before
    work   does it over a file system interface; calls its second argument with what it has acknowledged so far
    check  (disk, last acknowledged or None, done): raises AssertionError if the disk, opened again, lacks something or
           has something that should be deleted; `done`: the operation had ended
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
    """Do the work of a case until it ends, its power is cut, or it fails."""
    files, acknowledged = CrashFiles(case.disk, **settings), []
    try:
        case.work(files, acknowledged.append)
    except PowerCut:
        assert files.stopped
    except KafkalogError as error:
        return Outcome(files, acknowledged[-1] if acknowledged else None, error)
    return Outcome(files, acknowledged[-1] if acknowledged else None, None)


class _Judge:
    """Checks disks, each only once."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._known: dict[object, str | None] = {}

    def __call__(self, disk: Disk, acknowledged: Any, done: bool) -> str | None:
        """Return the problems of a disk."""
        key = (frozenset(disk.contents.items()), frozenset(disk.modified_ns.items()), disk.directories, repr(acknowledged), done)
        if key not in self._known:
            self._known[key] = self._problem(disk, acknowledged, done)
        return self._known[key]

    def _problem(self, disk: Disk, acknowledged: Any, done: bool) -> str | None:
        try:
            self._case.check(disk, acknowledged, done)
        except Exception as error:  # noqa: BLE001  # any failure to open is a problem
            return f"{type(error).__name__}: {str(error)[:300]}"
        return None


class _Enough(BaseException):
    """Raised to stop after the first problem."""


def cuts(case: Case, *, left_out: Site | None = None, drawn: int = DRAWN, only_first: bool = False, step: int = 1) -> list[str]:
    """Return the problems after a power cut or a kill before each change, and after the last one.

    left_out  a sync that does nothing       drawn  number of random power losses before each change
    step      stop before every `step`-th change only
    The work is done once; the disk is checked before each change, since a stop leaves exactly that disk (see `stops`).
    """
    wrong: list[str] = []
    judge, acknowledged = _Judge(case), []

    def look(number: int, *, done: bool = False) -> None:
        if number % step and not done:
            return
        for what, disk in _left(files, number, drawn, torn=not done):
            problem = judge(disk, acknowledged[-1] if acknowledged else None, done)
            if problem:
                wrong.append(f"{case.name}: {what}{_next(case, number)}: {problem}")
                if only_first:
                    raise _Enough

    planted = (left_out.path, left_out.lines) if left_out else None
    files = CrashFiles(case.disk, watch=look, left_out=planted)
    try:
        case.work(files, acknowledged.append)
        look(files.changes, done=True)
    except _Enough:
        pass
    return wrong


def stops(case: Case, number: int) -> str | None:
    """Stop the work before a change. Nothing may catch the stop, or change anything after it."""
    expected: list[Disk] = []

    def look(at: int) -> None:
        if at == number:
            expected.append(watched.disk())

    watched = CrashFiles(case.disk, watch=look)
    case.work(watched, lambda _: None)
    outcome = play(case, stop_at=number)
    if not outcome.files.stopped or outcome.error is not None:
        return f"{case.name}: went on when it was stopped before change {number}{_next(case, number)}"
    return None if [outcome.files.disk()] == expected else f"{case.name}: the stop before change {number} left something else"


def _left(files: CrashFiles, number: int, drawn: int, *, torn: bool) -> Iterator[tuple[str, Disk]]:
    yield f"killed before change {number}", files.disk()
    for count, disk in enumerate(files.power_losses(seed=number, drawn=drawn)):
        yield f"power lost before change {number} ({count})", disk
    half = files.interrupted() if torn else None
    if half is not None:
        yield f"killed in the middle of change {number}", half


def _next(case: Case, number: int) -> str:
    changes = [operation for operation in play(case).files.operations if operation.changes]
    return f" ({changes[number].kind} {changes[number].path})" if number < len(changes) else " (the end)"


def problems(case: Case, error: int, *, step: int = 1) -> list[str]:
    """Return the problems after a call has failed with `error`: not a KafkalogError, or a disk that does not open.

    step  fail every `step`-th call, each in a separate run
    """
    operations = play(case).files.operations
    wrong: list[str] = []
    judge = _Judge(case)
    for number in range(0, len(operations), step):
        kind, path = operations[number][:2]
        what = f"{case.name}: {errno.errorcode[error]} at operation {number} ({kind} {path})"
        try:
            outcome = play(case, problem=StartProblem(number, error, part=0.5))
        except Exception as raised:  # noqa: BLE001  # any other error is a problem
            wrong.append(f"{what}: {type(raised).__name__}: {raised}")
            continue
        if outcome.error is None and kind in WRITING and outcome.files.troubled:
            wrong.append(f"{what}: nobody noticed")
        for left in (outcome.files.disk(), *outcome.files.power_losses(seed=number, drawn=1)):
            problem = judge(left, outcome.acknowledged, done=False)
            if problem:
                wrong.append(f"{what}: then {problem}")
                break
    return wrong


def sync_sites(packages: Iterable[str] = PACKAGES) -> list[Site]:
    """Return every use of `sync` and `sync_directory` in the packages, except forwarding in file system interfaces."""
    return [
        site
        for package in packages
        for path in sorted((ROOT / package).rglob("*.py"))
        if package.startswith(ELSEWHERE) or not path.relative_to(ROOT).as_posix().startswith(ELSEWHERE)
        if path.relative_to(ROOT).as_posix() not in EXPORTS
        for site in sites_in(path.relative_to(ROOT).as_posix(), path.read_text())
    ]


def sites_in(path: str, source: str) -> list[Site]:
    """Return the uses in the file at `path`, as a call or an argument; by function, in the order of lines."""
    found: dict[str, list[ast.Attribute | ast.Call]] = {}

    def walk(node: ast.AST, function: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                walk(child, child.name)
                continue
            if function not in SYNCS and _is_sync(child.func if isinstance(child, ast.Call) else child):
                found.setdefault(function, []).append(child)
                walk(child.func.value if isinstance(child, ast.Call) else child, function)
                continue
            walk(child, function)

    walk(ast.parse(source), "<module>")
    return [
        Site(path, function, number, range(node.lineno, (node.end_lineno or node.lineno) + 1))
        for function, nodes in found.items()
        for number, node in enumerate(sorted(nodes, key=lambda node: node.lineno))
    ]


def _is_sync(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in SYNCS


def passes(case: Case, site: Site) -> bool:
    """Does the operation use this sync?"""
    return any(
        operation.site is not None and operation.site[0] == site.path and operation.site[1] in site.lines
        for operation in play(case).files.operations
    )
