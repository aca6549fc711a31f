"""The kernels that the other tests run on are compiled from these sources; without a compiler one sentence says so."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from engine.kernels.build import KERNELS as NAMES
from engine.kernels.build import NOT_COMPILED, SHARED, STAMP, sources_digest

ROOT = Path(__file__).parents[2]
KERNELS = ROOT / "engine/kernels"


def compiled(name: str, directory: Path = KERNELS) -> Path | None:
    return next((directory / f"{name}{end}" for end in EXTENSION_SUFFIXES if (directory / f"{name}{end}").exists()), None)


@pytest.mark.parametrize("name", NAMES)
def test_compiled_kernels_are_as_new_as_their_source(name):
    library = compiled(name)
    assert library is not None
    newest = max(source.stat().st_mtime for source in (KERNELS / f"{name}.py", *KERNELS.glob("*.pxd")))
    assert library.stat().st_mtime >= newest, f"{library.name} is older than its source: `make build`"


def test_every_compiled_kernel_has_a_source():
    known = {*NAMES, SHARED, STAMP}
    strays = [file.name for file in KERNELS.glob("*.so") if file.name.partition(".")[0] not in known]
    assert strays == []


def test_compiled_kernels_are_made_of_these_sources():
    sources = {path.name: path.read_bytes() for path in KERNELS.iterdir() if path.is_file()}
    assert sources_digest(sources) == importlib.import_module(f"engine.kernels.{STAMP}").SOURCES, "`make build`"


def test_what_kernels_are_compiled_from_has_one_word():
    sources = {"scan.py": b"a", "fields.pxd": b"b", "tables.py": b"c", "scan.so": b"d"}
    word = sources_digest(sources)
    assert sources_digest({**sources, "tables.py": b"x", "scan.so": b"x", "build.py": b""}) == word
    assert sources_digest(dict(reversed(sources.items()))) == word
    changed = ({"scan.py": b"x"}, {"fields.pxd": b""}, {"text.py": b""}, {"tables.pxd": b""})
    assert len({word, *(sources_digest({**sources, **change}) for change in changed)}) == 5


@pytest.fixture
def tree(tmp_path):
    """A copy of the program, with kernels compiled as they are here."""
    for part in ("engine", "kafkalog_cli"):
        shutil.copytree(ROOT / part, tmp_path / part, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def version_of(tree: Path) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-P", "-c", "from kafkalog_cli.main import main; main(['--version'])"]
    return subprocess.run(words, cwd=tree, env={**os.environ, "PYTHONPATH": str(tree)}, capture_output=True, text=True, check=False)


def test_the_version_says_when_the_kernels_are_compiled_from_other_sources(tree):
    assert "(Python 3." in version_of(tree).stdout
    with (tree / "engine/kernels/text.py").open("a") as source:
        source.write("# edited\n")
    assert "(kernels compiled from other sources: `make build` or pip install again, " in version_of(tree).stdout
    compiled(STAMP, tree / "engine/kernels").unlink()
    assert "from other sources" in version_of(tree).stdout


@pytest.mark.parametrize("name", ["scan", "words", "rows", "verify"])
@pytest.mark.parametrize("others", [True, False])
def test_without_all_kernels_nothing_runs(tree, name, others):
    """One is not compiled, or only one is."""
    for other in (*NAMES, SHARED):
        if (other == name) == others:
            compiled(other, tree / "engine/kernels").unlink()
    done = version_of(tree)
    assert (done.stdout, done.stderr, done.returncode) == ("", f"error[no-kernels] {NOT_COMPILED}\n", 8)


def test_an_import_without_kernels_ends_with_what_to_do(tree):
    for library in (tree / "engine/kernels").glob("*.so"):
        library.unlink()
    words = [sys.executable, "-P", "-c", "import engine.record.reader"]
    done = subprocess.run(words, cwd=tree, env={**os.environ, "PYTHONPATH": str(tree)}, capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == f"ImportError: {NOT_COMPILED}"


@pytest.fixture
def bare(tmp_path):
    """bare(command, lacks=…) → setup.py there: a machine whose only programs are Python and, unless it is lacking, the compiler."""

    def run(command, lacks=""):
        shutil.copytree(KERNELS, tmp_path / "tree/engine/kernels", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
        for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(ROOT / name, tmp_path / "tree" / name)
        path = tmp_path / "bin"
        path.mkdir()
        if lacks != "compiler":
            (path / "some-cc").write_text("#!/bin/sh\nexit 1\n" if lacks == "libc" else "#!/bin/sh\n")
            (path / "some-cc").chmod(0o755)
        program = "import runpy, sys, sysconfig\n"
        if lacks == "headers":
            program += "find = sysconfig.get_path\n"
            program += f"sysconfig.get_path = lambda name, *more: {str(tmp_path)!r} if name == 'include' else find(name, *more)\n"
        program += f"sys.argv = ['setup.py', '-q', {command!r}]\nrunpy.run_path('setup.py', run_name='__main__')"
        environment = {"PATH": str(path), "CC": "some-cc -pthread", "HOME": str(tmp_path)}
        words = [sys.executable, "-c", program]
        return subprocess.run(words, cwd=tmp_path / "tree", env=environment, capture_output=True, text=True, check=False)

    return run


@pytest.mark.parametrize("command", ["dist_info", "bdist_wheel", "editable_wheel", "build_ext"])
@pytest.mark.parametrize(("lacks", "problem"), [
    ("compiler", "there is no C compiler (some-cc)"), ("headers", "Python's header files are not installed"),
    ("libc", "the C compiler (some-cc) does not compile an #include <Python.h>"),
])  # fmt: skip
def test_without_a_compiler_one_sentence_says_what_to_install(bare, command, lacks, problem):
    done = bare(command, lacks)
    assert (done.stdout, done.returncode, done.stderr.count("\n")) == ("", 1, 1)
    assert done.stderr.startswith(f"kafkalog: {problem}")
    assert done.stderr.endswith(": install build-essential and python3-dev (Fedora: gcc and python3-devel), or a wheel\n")


@pytest.mark.parametrize("command", ["egg_info", "sdist"])
def test_what_needs_no_kernel_needs_no_compiler(bare, command):
    assert bare(command, "compiler").returncode == 0


LACKING = """
import engine.kernels.scan
del engine.kernels.scan.scan_batches
from kafkalog_cli.main import main
main(["dump-log", {path!r}])
"""
OLD_KERNELS = "error[old-kernels] the compiled kernels are older than the sources: `make build` (or pip install again)\n"


def test_a_compiled_kernel_without_what_the_sources_ask_for_is_an_old_one(tmp_path):
    log = tmp_path / "00000000000000000000.log"
    log.write_bytes(b"")
    program = [sys.executable, "-c", LACKING.format(path=str(log))]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("", OLD_KERNELS, 8)


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
