"""Counts what makes a codebase hard to read: `python tests/counts.py [COMMAND …]`.

Modules, lines, parameters, import circles (annotations included), names that several files share, small modules with one
importer. With a command, for example `roll DIR/orders-0 --dry-run`, also the modules whose functions it runs, and how many of
its calls leave their module.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter, defaultdict
from inspect import CO_OPTIMIZED
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parent.parent
PACKAGES = ("engine", "kafkalog_cli", "kafkalog_spark")
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


def show_structure() -> None:
    """Print the counts, then the modules behind those that have an aim."""
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
    extra = sum(len(path.read_text().splitlines()) for package in PACKAGES for path in (ROOT / package).rglob("*.pxd"))
    print(f"modules {len(known)}   lines {sum(lines.values()) + extra}   median {median(lines.values()):.0f}   "
          f"below {SMALL} lines {sum(count < SMALL for count in lines.values())}   "
          f"above 500 {sum(count > 500 for count in lines.values())}")
    for title, found in (
        ("functions with more than 8 parameters", many),
        ("small modules with one importer that do not say why", alone),
        ("import circles", [" ".join(group) for group in circles(graph)]),
        ("file names used more than three times", [f"{name} ×{count}" for name, count in names.items() if count > 3]),
        ("loose modules in engine/", [name for name, path in known.items() if path.parent == ROOT / "engine" and name != "engine"]),
    ):
        print(f"{title}: {len(found)}")
        for one in found:
            print(f"    {one}")


def show_calls(arguments: list[str]) -> None:
    """Run a command and print which of our modules its calls go through."""
    sys.path.insert(0, str(ROOT))
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
    print(f"{' '.join(arguments[:1])}: {len(seen)} modules, {calls} calls, {100 * across // max(calls, 1)} % into another module",
          file=sys.stderr)


if __name__ == "__main__":
    show_calls(sys.argv[1:]) if len(sys.argv) > 1 else show_structure()
