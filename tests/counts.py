"""Counts what makes a codebase hard to read: `python tests/counts.py [COMMAND …]`.

Modules, lines, parameters, import circles (annotations included), names that several files share, small modules with one
importer, each with its aim; tests/test_counts.py checks the aims. With a command, for example `roll DIR/orders-0 --dry-run`: the
modules whose functions it runs, and how many of its calls leave their module.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter, defaultdict
from contextlib import redirect_stdout
from inspect import CO_OPTIMIZED
from io import StringIO
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT = Path(__file__).parent.parent
PACKAGES = ("engine", "kafkalog", "kafkalog_cli", "kafkalog_spark")
SMALL, MOST_PARAMETERS = 100, 8


def modules() -> dict[str, Path]:
    """Name → path of every module of the product that has more than a docstring."""
    found = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if path.name != "__init__.py" or len(path.read_text().splitlines()) > 1:
                found[".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")] = path
    return found


def imported(tree: ast.Module, known: dict[str, Path]) -> set[str]:
    """The modules of the product that a module imports anywhere, also for annotations only."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                names.add(inner if inner in known else node.module)
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return names & known.keys()


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Groups of modules that import each other, directly or through others (Tarjan)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in graph[name]:
            if other not in index:
                visit(other)
            if other in stack:
                low[name] = min(low[name], low[other])
        if low[name] == index[name]:
            group = stack[stack.index(name):]
            del stack[stack.index(name):]
            if len(group) > 1:
                found.append(sorted(group))

    for name in graph:
        if name not in index:
            visit(name)
    return found


def parameters(tree: ast.Module) -> list[tuple[str, int]]:
    """(function, how many parameters) without self and cls."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            every = [one.arg for one in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
            found.append((node.name, len([one for one in every if one not in ("self", "cls")])))
    return found


class Row(NamedTuple):
    """A count: `found` lists what it counts, if there is an aim; `most` is the aim."""

    title: str
    count: int
    most: int | None = None
    found: tuple[str, ...] = ()

    @property
    def is_missed(self) -> bool:
        """Return whether there are more than the aim allows."""
        return self.most is not None and self.count > self.most


def table() -> list[Row]:
    """The counts, without `roll`."""
    known = modules()
    trees = {name: ast.parse(path.read_text()) for name, path in known.items()}
    graph = {name: imported(tree, known) - {name} for name, tree in trees.items()}
    lines = {name: len(path.read_text().splitlines()) for name, path in known.items()}
    importers = defaultdict(set)
    for name, others in graph.items():
        for other in others:
            importers[other].add(name)
    names = Counter(path.name for path in known.values() if path.name != "__init__.py"
                    and not {"commands", "kernels"} & {*path.parts})  # these pair with a module of the engine
    alone = [name for name in known if lines[name] < SMALL and len(importers[name]) == 1
             and "stands alone" not in (ast.get_docstring(trees[name]) or "")]
    many = [f"{name}.{function} ({count})" for name, tree in trees.items() for function, count in parameters(tree)
            if count > MOST_PARAMETERS]
    shared = [f"{name} ×{count}" for name, count in names.items() if count > 3]
    loose = [name for name, path in known.items() if path.parent == ROOT / "engine" and name != "engine"]
    around = [" ".join(group) for group in circles(graph)]
    return [
        Row("modules", len(known)),
        Row("median lines of a module", round(median(lines.values()))),
        Row(f"modules below {SMALL} lines", sum(count < SMALL for count in lines.values())),
        Row("lines of the longest module", max(lines.values()), 600),
        Row("lines of the product", sum(lines.values()) + lines_in(PACKAGES, "*.pxd")),
        Row("lines of tests", lines_in(("tests",), "*.py")),
        Row(f"functions with more than {MOST_PARAMETERS} parameters", len(many), 0, tuple(many)),
        Row("import circles", len(around), 0, tuple(around)),
        Row("file names used more than three times", len(shared), 0, tuple(shared)),
        Row("small modules with one importer that do not say why", len(alone), 0, tuple(alone)),
        Row("loose modules in engine/", len(loose), 6, tuple(loose)),
    ]


def lines_in(folders: Iterable[str], pattern: str) -> int:
    """The lines of all files of this pattern."""
    return sum(len(path.read_text().splitlines()) for folder in folders for path in (ROOT / folder).rglob(pattern))


def roll() -> Row:
    """The modules whose functions `roll` runs, which makes one empty file."""
    from tests.support.corpus import own_corpus_directory

    partition = own_corpus_directory() / "kafka-4.3.1/logs/clean/d1/small_segments-0"
    with redirect_stdout(StringIO()):
        seen, _, _ = run_through(["roll", str(partition), "--dry-run"])
    return Row("modules that `roll` runs through", len(seen), 60, tuple(seen))


def show_structure() -> int:
    """Print the counts with their aims, and what misses its aim. Returns the number of missed aims."""
    rows = [*table(), roll()]
    for row in rows:
        print(f"{row.title:52} {row.count:7}" + ("" if row.most is None else f"   at most {row.most}"))
        for one in row.found if row.is_missed else ():
            print(f"    {one}")
    return sum(row.is_missed for row in rows)


def run_through(arguments: list[str]) -> tuple[Counter[str], int, int]:
    """Run a command → calls by module of the product, calls from the product, those of them into another module."""
    from kafkalog_cli.main import main

    ours = {str(path): name for name, path in modules().items()}
    seen: Counter[str] = Counter()
    calls = across = 0

    def note(frame, event, _argument) -> None:
        nonlocal calls, across
        here = ours.get(frame.f_code.co_filename)
        if event != "call" or here is None or not frame.f_code.co_flags & CO_OPTIMIZED:  # not a function: a module, a class
            return
        outer = frame.f_back
        while outer is not None:
            if outer.f_code.co_name == "<module>" and outer.f_code.co_filename in ours:
                return  # part of an import
            outer = outer.f_back
        seen[here] += 1
        caller = frame.f_back
        while caller is not None and caller.f_code.co_filename not in ours:
            caller = caller.f_back
        if caller is not None:
            calls += 1
            across += ours[caller.f_code.co_filename] != here

    sys.setprofile(note)
    try:
        main(arguments)
    except SystemExit:
        pass
    finally:
        sys.setprofile(None)
    return seen, calls, across


def show_calls(arguments: list[str]) -> None:
    """Run a command and print which of our modules its calls go through."""
    seen, calls, across = run_through(arguments)
    for name, count in sorted(seen.items()):
        print(f"{count:7}  {name}", file=sys.stderr)
    print(f"{arguments[0]}: {len(seen)} modules, {calls} calls, {100 * across // max(calls, 1)} % into another module",
          file=sys.stderr)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(show_calls(sys.argv[1:]) if len(sys.argv) > 1 else show_structure())
