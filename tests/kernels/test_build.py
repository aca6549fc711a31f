"""The build that the other tests run on is the one that is meant, and one without a compiler and Cython works."""

from __future__ import annotations

import ast
import importlib
import os
import shutil
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from typing import TYPE_CHECKING

import pytest

from engine.kernels.build import KERNELS as NAMES
from engine.kernels.build import SHARED, STAMP, sources_digest
from tests.support.load_kernel import KERNELS, load_kernel
from tests.support.once import OWN_PROCESS

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = OWN_PROCESS

ROOT = KERNELS.parents[1]
WITHOUT = """
import sys
class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("cython", "Cython"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Nothing())
from tests.support.interpreted import install
install()
"""


def compiled(name: str, directory: Path = KERNELS) -> Path | None:
    return next((directory / f"{name}{end}" for end in EXTENSION_SUFFIXES if (directory / f"{name}{end}").exists()), None)


def run_without(program: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a Python that finds neither Cython nor a compiled kernel."""
    return subprocess.run([sys.executable, "-c", WITHOUT + program], cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", NAMES)
def test_compiled_kernels_are_as_new_as_their_source(name):
    library = compiled(name)
    if library is None:
        load_kernel(name, "compiled")  # skips, or fails in CI
    sources = [KERNELS / f"{name}.py", KERNELS / f"{name}.pxd"]
    newest = max(source.stat().st_mtime for source in sources if source.exists())
    assert library.stat().st_mtime >= newest, f"{library.name} is older than its source: `make build`"


def test_every_compiled_kernel_has_a_source():
    known = {*NAMES, SHARED, STAMP}
    strays = [file.name for file in KERNELS.glob("*.so") if file.name.partition(".")[0] not in known]
    assert strays == []


def test_compiled_kernels_are_made_of_these_sources():
    load_kernel("scan", "compiled")
    sources = {path.name: path.read_bytes() for path in KERNELS.iterdir() if path.is_file()}
    assert sources_digest(sources) == importlib.import_module(f"engine.kernels.{STAMP}").SOURCES, "`make build`"


def test_what_kernels_are_compiled_from_has_one_word():
    sources = {"scan.py": b"a", "fields.pxd": b"b", "reference.py": b"c", "scan.so": b"d"}
    word = sources_digest(sources)
    assert sources_digest({**sources, "reference.py": b"x", "scan.so": b"x", "shadow.py": b""}) == word
    assert sources_digest(dict(reversed(sources.items()))) == word
    changed = ({"scan.py": b"x"}, {"fields.pxd": b""}, {"text.py": b""}, {"tables.pxd": b""})
    assert len({word, *(sources_digest({**sources, **change}) for change in changed)}) == 5


@pytest.fixture
def tree(tmp_path):
    """A copy of the program, with kernels compiled as they are here."""
    load_kernel("scan", "compiled")
    for part in ("engine", "kafkalog_cli"):
        shutil.copytree(ROOT / part, tmp_path / part, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def version_of(tree: Path) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-P", "-c", "from kafkalog_cli.main import main; main(['--version'])"]
    return subprocess.run(words, cwd=tree, env={**os.environ, "PYTHONPATH": str(tree)}, capture_output=True, text=True, check=False)


def test_the_version_says_what_the_kernels_are_compiled_from(tree):
    assert "(compiled kernels, " in version_of(tree).stdout
    with (tree / "engine/kernels/text.py").open("a") as source:
        source.write("# edited\n")
    assert "(kernels compiled from other sources: `make build` or pip install again, " in version_of(tree).stdout
    compiled(STAMP, tree / "engine/kernels").unlink()
    assert "from other sources" in version_of(tree).stdout


@pytest.mark.parametrize("name", ["scan", "words", "rows", "verify"])
@pytest.mark.parametrize("others", [True, False])
def test_all_kernels_are_compiled_or_none(tree, name, others):
    """One is not compiled, or only one is."""
    for other in (*NAMES, SHARED):
        if (other == name) == others:
            compiled(other, tree / "engine/kernels").unlink()
    done = version_of(tree)
    assert (done.stdout, done.stderr, done.returncode) == ("", OLD_KERNELS, 8)


@pytest.mark.parametrize("name", NAMES)
def test_kernels_load_without_cython(name):
    done = run_without(f"import engine.kernels.{name}, cython; print(cython.__name__)")
    assert (done.stdout, done.stderr) == ("engine.kernels.shadow\n", "")


def test_the_stand_in_has_all_that_kernels_name():
    from engine.kernels import shadow

    only_compiled = {"cimports", "address"}  # behind `if cython.compiled`
    for name in NAMES:
        for node in ast.walk(ast.parse((KERNELS / f"{name}.py").read_text())):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "cython":
                assert node.attr in only_compiled or hasattr(shadow, node.attr), f"{name}.py: cython.{node.attr}"


def test_the_program_runs_without_cython(tmp_path):
    from engine.record.builder import NewRecord, build_batch

    log = tmp_path / "t-0" / "00000000000000000000.log"
    log.parent.mkdir()
    log.write_bytes(build_batch([NewRecord(0, 17, b"k", b"value"), NewRecord(1, 18, None, None, [(b"h", None)])]))
    program = f"""
from kafkalog_cli.main import main
main(["dump-log", "--print-data-log", {str(log)!r}])
"""
    done = run_without(program)
    compiled_run = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.stderr, done.returncode) == ("", 0)
    assert done.stdout == compiled_run.stdout
    assert "keySize: 1 valueSize: 5" in done.stdout


LACKING = """
import engine.kernels.scan
del engine.kernels.scan.scan_batches
from kafkalog_cli.main import main
main(["dump-log", {path!r}])
"""
OLD_KERNELS = "error[old-kernels] the compiled kernels are older than the sources: `make build` (or pip install again)\n"


def test_a_compiled_kernel_without_what_the_sources_ask_for_is_an_old_one(tmp_path):
    load_kernel("scan", "compiled")
    log = tmp_path / "00000000000000000000.log"
    log.write_bytes(b"")
    program = [sys.executable, "-c", LACKING.format(path=str(log))]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("", OLD_KERNELS, 8)


def test_a_source_without_it_is_not(tmp_path):
    log = tmp_path / "00000000000000000000.log"
    log.write_bytes(b"")
    done = run_without(LACKING.format(path=str(log)))
    assert done.stderr.endswith("scan.py)\n")
    assert (OLD_KERNELS in done.stderr, done.returncode) == (False, 1)


@pytest.mark.parametrize(("error", "is_old"), [
    (ImportError("engine.kernels.words does not export expected C function hex_digit"), True),
    (TypeError("C function engine.kernels.words.put has wrong signature (expected int (int), got void (int))"), True),
    (ModuleNotFoundError("No module named 'engine.kernels.gone'"), True),
    (ImportError("cannot import name 'x' from 'engine.formats' (/engine/formats.py)"), False),
    (ModuleNotFoundError("No module named 'pyarrow'"), False), (TypeError("x() takes 1 positional argument"), False),
])  # fmt: skip
def test_only_what_kernels_lack_is_blamed_on_them(monkeypatch, capsys, error, is_old):
    from kafkalog_cli import main

    def fail(*_):
        raise error

    monkeypatch.setattr(main.LazyGroup, "get_command", fail)
    with pytest.raises(SystemExit if is_old else type(error)) as ended:
        main.main(["roll"])
    assert capsys.readouterr().err == (OLD_KERNELS if is_old else "")
    assert not is_old or ended.value.code == 8


@pytest.mark.parametrize("terminal", [True, False])
def test_people_are_told_once(tmp_path, terminal):
    (tmp_path / "00000000000000000000.log").write_bytes(b"")
    program = f"""
sys.stderr.isatty = lambda: {terminal}
from kafkalog_cli.main import main
main(["dump-log", {str(tmp_path)!r}, {str(tmp_path)!r}])
"""
    assert run_without(program).stderr.count("not compiled") == terminal


def test_ci_has_compiled_kernels():
    if os.environ.get("CI") != "true" or os.environ.get("KAFKALOG_KERNELS") == "interpreted":
        pytest.skip("not in CI")
    assert [name for name in NAMES if compiled(name) is None] == []
