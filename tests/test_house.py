"""Rules of the house that no other tool checks."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.support.needs import lacking

ROOT = Path(__file__).parents[1]
SEAM = {"os", "io", "mmap", "fcntl", "shutil", "time", "pathlib", "tempfile", "subprocess", "socket", "glob", "posix"}
SOURCES = sorted(path for folder in ("engine", "kafkalog", "kafkalog_cli", "kafkalog_spark", "pyspark_kafkalog") for path in (ROOT / folder).rglob("*.py"))
# names of machines and of people's directories; hosts of package registries and mirrors
FOREIGN = re.compile(
    rb"(?<![\w.$}>-])/(?:root|home/\w+|Users/\w+|work|mnt|srv|tmp/[a-z])/|\bpypi\.[a-z]|\bfiles\.pythonhosted|\bartifactory|"
    rb"\bnexus\.|index-url|(?:ghp_|AKIA)[A-Za-z0-9]{16}|BEGIN [A-Z ]*PRIVATE KEY"
)
BINARY = (".xz", ".log")
pytestmark = pytest.mark.xdist_group("house")  # every source is parsed once


def project_files() -> list[Path]:
    """What belongs to the project, as git knows it."""
    owned_by_anybody = ["-c", "safe.directory=*"]  # a checkout that is mounted into a container
    done = subprocess.run(["git", *owned_by_anybody, "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                          capture_output=True, check=False)  # fmt: skip
    if done.returncode:
        lacking("not a git checkout")
    return [path for name in done.stdout.decode().split("\0") if name and (path := ROOT / name).is_file()]


def imports(tree: ast.AST):
    """(line, top-level name) of every import, inside functions too."""
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module]
        yield from ((node.lineno, name.partition(".")[0]) for name in names)


@pytest.fixture(scope="module")
def trees():
    """Every source, parsed."""
    return {path: ast.parse(path.read_text()) for path in SOURCES}


def test_only_the_seam_speaks_to_the_operating_system(trees):
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path, tree in trees.items()
        if path.is_relative_to(ROOT / "engine") and not path.is_relative_to(ROOT / "engine/files")
        for line, name in imports(tree)
        if name in SEAM and (path, name) != (ROOT / "engine/serve/server.py", "socket")  # the only sockets
    ]
    assert wrong == []


def test_only_the_seam_opens_files(trees):
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path, tree in trees.items()
        if path.is_relative_to(ROOT / "engine")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in {"open", "eval", "exec", "print"}
    ]
    assert wrong == []


# where kernels have the numbers from that others know too: formats by way of the first, see its docstring
SHARED_NUMBERS = {"fields", "walk", "tables"}


def numbered_anew(tree: ast.Module):
    """(line, what is wrong) where a compiled kernel gives a number to what callers or other kernels know too."""
    elsewhere = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").removeprefix("cython.cimports.").startswith("engine.")
        for alias in node.names
    } - SHARED_NUMBERS
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "engine.formats":
            yield node.lineno, "imports formats: take it from `fields`"
        if isinstance(node, ast.ClassDef) and any("Enum" in ast.unparse(base) for base in node.bases):
            yield node.lineno, f"{node.name} belongs into `tables`"
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple) and ast.unparse(node.value).startswith("range("):
            yield node.lineno, f"{ast.unparse(node.targets[0])} belong into `tables`"
        if not isinstance(node, ast.Call) or ast.unparse(node.func) != "cython.declare":
            continue
        value = node.args[1]
        made = {id(part) for call in ast.walk(value) if isinstance(call, ast.Call) for part in ast.walk(call)}
        names = {part.id for part in ast.walk(value) if isinstance(part, ast.Name) and id(part) not in made}
        if names & elsewhere or (isinstance(value, ast.Attribute) and names & SHARED_NUMBERS):
            yield node.lineno, f"{ast.unparse(value)} is declared once more: name it by way of `fields`, `walk` or `tables`"


@pytest.mark.parametrize(("source", "wrong"), [
    ("from engine.formats import BatchField", 1), ("class Trait(IntEnum):\n    FLAWS = 0", 1), ("NEXT, BEFORE = range(2)", 1),
    ("from cython.cimports.engine.kernels.bounds import BLOCK\n_BLOCK = cython.declare(cython.int, BLOCK)", 1),
    ("from cython.cimports.engine.kernels import fields\n_SIZE = cython.declare(cython.int, fields.B_SIZE)", 1),
    ("from cython.cimports.engine.kernels import fields\n_FLAGS = cython.declare(cython.int, fields.CONTROL_FLAG | fields.CODEC_MASK)", 0),
    ("from cython.cimports.engine.kernels.checksum import reach\n_REACH = cython.declare(cython.int, reach())", 0),
    ("from engine.kernels.escapes import RANGES\n_COUNT = cython.declare(cython.int, 2 * len(RANGES))", 0),
    ("LIMIT = 640\n_LIMIT = cython.declare(cython.int, LIMIT)\n_GROWTH = cython.declare(cython.int, 4)", 0),
])  # fmt: skip
def test_a_number_that_is_given_twice_is_seen(source, wrong):
    assert len(list(numbered_anew(ast.parse(source)))) == wrong


def test_kernels_share_numbers_in_one_way(trees):
    kernels = {path: tree for path, tree in trees.items() if path.parent == ROOT / "engine/kernels"}
    compiled = {path: tree for path, tree in kernels.items() if any(name == "cython" for _line, name in imports(tree))}
    assert len(compiled) > 20
    wrong = [f"{path.name}:{line} {what}" for path, tree in compiled.items() for line, what in numbered_anew(tree)]
    assert wrong == []


def test_kernels_may_import_nothing_from_below_them_but_two_leaves():
    """The contract that forbids it has a list: nothing that stands below them may be left out of it."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    [order] = [one["layers"] for one in contracts if one.get("containers") == ["engine"]]
    [forbidden] = [one["forbidden_modules"] for one in contracts if one.get("source_modules") == ["engine.kernels"]]
    below = {f"engine.{name.strip()}" for layer in order[order.index("kernels") + 1 :] for name in layer.split("|")}
    assert set(forbidden) == below - {"engine.formats", "engine.java"}


def test_every_document_is_linked_from_where_readers_begin():
    linked = {
        (ROOT / page).parent / target
        for page in ("README.md", "docs/architecture.md")
        for target in re.findall(r"\]\(([^)#:]+\.md)", (ROOT / page).read_text())
    }
    assert sorted(path.name for path in set((ROOT / "docs").rglob("*.md")) - linked) == []


LONGEST_MODULE, SCREEN = 600, 50  # lines; of a function those behind its signature and docstring
# kernels that may be longer: what their loops go round with are C variables, which a function more would have to hand on
LONG_KERNELS = {
    "recovery.py:recover_batches", "decode.py:_decode", "legacy.py:decode_messages",
    "blocks.py:lz4_part", "blocks.py:_snappy_fragment", "lines.py:_json_line", "verify.py:check_offset_entries",
}


def too_long(path: Path):
    """The modules and functions of a file that nobody has in view as a whole: (where, lines)."""
    source = path.read_text()
    if source.count("\n") > LONGEST_MODULE:
        yield path.name, source.count("\n")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef):
            body = node.body[1:] if ast.get_docstring(node) else node.body
            lines = (node.end_lineno or 0) - body[0].lineno + 1 if body else 0
            if lines > SCREEN:
                yield f"{path.name}:{node.name}", lines


def test_what_is_too_long_is_seen(tmp_path):
    (tmp_path / "x.py").write_text('def f():\n    """Doc."""\n' + "    pass\n" * 398)
    assert list(too_long(tmp_path / "x.py")) == [("x.py:f", 398)]
    (tmp_path / "x.py").write_text("def f():\n" + "    pass\n" * 50 + "\n" * 550)
    assert list(too_long(tmp_path / "x.py")) == [("x.py", 601)]


def test_modules_have_600_lines_and_functions_fit_on_a_screen():
    kernels = ROOT / "engine/kernels"
    assert [(str(path.relative_to(ROOT)), *found) for path in SOURCES if path.parent != kernels for found in too_long(path)] == []
    assert {where for path in SOURCES if path.parent == kernels for where, _ in too_long(path)} == LONG_KERNELS


def test_each_exception_from_a_check_has_a_reason():
    bare = re.compile(r"# (?:noqa(?:: [A-Z0-9, ]+?)?|type: ignore(?:\[[a-z, -]+\])?)[ \t]*$", re.MULTILINE)
    wrong = [
        f"{path.relative_to(ROOT)}:{text.count(chr(10), 0, found.start()) + 1}"
        for path in project_files() if path.suffix == ".py"
        for text in [path.read_text()] for found in bare.finditer(text)
    ]  # fmt: skip
    assert wrong == []


def test_nothing_imports_the_tests(trees):
    assert [path for path, tree in trees.items() if any(name == "tests" for _line, name in imports(tree))] == []


def test_every_module_says_what_it_is_for(trees):
    assert [str(path.relative_to(ROOT)) for path, tree in trees.items() if tree.body and not ast.get_docstring(tree)] == []


def test_no_file_knows_the_machine_it_was_written_on():
    wrong = []
    for path in project_files():
        if path.suffix in BINARY or path == Path(__file__):
            continue
        for number, line in enumerate(path.read_bytes().splitlines(), 1):
            found = FOREIGN.search(line)
            if found:
                wrong.append(f"{path.relative_to(ROOT)}:{number}: {found[0].decode(errors='replace')}")
    assert wrong == []


def test_text_files_end_with_a_newline_and_have_no_trailing_blanks():
    wrong = []
    for path in project_files():
        if path.suffix not in {".py", ".md", ".toml", ".sh", ".pxd"} and path.name != "Makefile":
            continue
        text = path.read_text()
        if text and not text.endswith("\n"):
            wrong.append(f"{path.relative_to(ROOT)}: no newline at the end")
        lines = enumerate(text.split("\n"), 1)
        wrong += [f"{path.relative_to(ROOT)}:{number}" for number, line in lines if line != line.rstrip()]
    assert wrong == []


def test_every_target_of_the_makefile_is_listed_by_help():
    text = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):(?!=)", text, re.MULTILINE))
    documented = set(re.findall(r"^([a-z-]+):.*?## \S", text, re.MULTILINE))
    phony = set(re.search(r"^\.PHONY: (.*)$", text, re.MULTILINE)[1].split())
    assert targets == documented == phony


def test_what_the_architecture_names_exists():
    text = (ROOT / "docs/architecture.md").read_text()
    named = re.findall(r"`((?:engine|tests|kafkalog_\w+)/[\w/.*]+)`", text)
    assert len(named) > 10
    assert [name for name in named if not list(ROOT.glob(name))] == []
    assert len(text.splitlines()) <= 200


def is_there(dotted: str) -> bool:
    """Is `dotted` a package, a module, or a name that a module has?"""
    parts = dotted.split(".")
    for count in range(len(parts), 0, -1):
        path = ROOT.joinpath(*parts[:count])
        modules = [path / "__init__.py"] if path.is_dir() else [path.with_suffix(".py"), path.with_suffix(".pxd")]
        texts = [module.read_text() for module in modules if module.exists()]
        if texts:
            return count == len(parts) or any(re.search(rf"\b{parts[count]}\b", text) for text in texts)
    return False


def test_what_docstrings_and_comments_name_exists():
    name = re.compile(r"\b(?:engine|kafkalog_cli|kafkalog_spark)(?:\.[A-Za-z_][A-Za-z_0-9]*)+")
    named = {(path, one) for path in SOURCES for one in name.findall(path.read_text())}
    assert len(named) > 1000
    assert {f"{path.relative_to(ROOT)}: {one}" for path, one in named if not is_there(one)} == set()
    assert not is_there("kafkalog_spark.sink.undoing")  # has moved
    assert is_there("engine.log.commits.undoing.undo_last_commit")


# errors with one cause that are of two classes
ONE_CAUSE = {"offset-out-of-range", "unreadable-file"}


def test_an_error_code_stands_for_one_cause(trees):
    """Programs decide by `code`: no two classes of errors share one, and nobody raises an error without one."""
    classes: dict[str, list[str]] = {}
    bare = []
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                for line in node.body:
                    if isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) == "code" and isinstance(line.value, ast.Constant):
                        classes.setdefault(line.value.value, []).append(node.name)
            elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and ast.unparse(node.exc.func) == "KafkalogError":
                bare.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert len(classes) > 40
    assert {code for code, names in classes.items() if len(names) > 1} == ONE_CAUSE
    assert bare == []
