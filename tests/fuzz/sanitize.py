"""Mutants on kernels that are compiled for AddressSanitizer and UBSan, once more with bounds checks.

    python -m tests.fuzz.sanitize --count 100000 --seed 7
    python -m tests.fuzz.sanitize --tests       the tests of the kernels instead, with bounds checks: a part of `make test`,
                                                a fourth of their examples (KAFKALOG_EXAMPLES=100: all, as `make fuzz`)

The kernels are built in copies of the tree, build/sanitize/plain and build/sanitize/bounds: what lies beside the sources
stays as it is. Ends with status 77 where the compiler has no sanitizers.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from tests.support.corpus import corpus_directory, wire_corpus

ROOT = Path(__file__).parents[2]
BUILDS = {"plain": "1", "bounds": "bounds"}
NO_SANITIZERS = 77


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.sanitize")
    parser.add_argument("--count", type=int, default=100_000, help="how many cases, in each build")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--only", choices=BUILDS, help="one of the builds (both)")
    parser.add_argument("--tests", action="store_true", help="run the tests of the kernels, with bounds checks")
    arguments = parser.parse_args()
    libraries = sanitizer_libraries()
    if libraries is None:
        print("fuzz: no compiler with AddressSanitizer and UBSan", file=sys.stderr)
        return 0 if arguments.tests and os.environ.get("CI") != "true" else NO_SANITIZERS
    if arguments.tests:
        return run_tests(libraries, arguments.jobs)
    failed = 0
    for name, flag in BUILDS.items():
        if arguments.only not in (None, name):
            continue
        tree = build(name, flag)
        print(f"fuzz: kernels with sanitizers, {name}", flush=True)
        words = [sys.executable, "-m", "tests.fuzz", "--count", str(arguments.count), "--seed", str(arguments.seed),
                 "--jobs", str(arguments.jobs)]
        failed |= subprocess.run(words, cwd=tree, env=environment(libraries), check=False).returncode
    return failed


def run_tests(libraries: list[str], jobs: int) -> int:
    """The tests of the kernels in the build with bounds checks. An index outside its buffer, which no kernel raises, fails them."""
    tree = build("bounds", BUILDS["bounds"])
    print("kernels with sanitizers and bounds checks", flush=True)
    words = [sys.executable, "-m", "pytest", "-n", str(jobs), "-W", "error::pytest.PytestUnraisableExceptionWarning",
             "--ignore=tests/kernels/test_build.py", "tests/kernels"]
    settings = {"KAFKALOG_EXAMPLES": "25", **environment(libraries)}
    return subprocess.run(words, cwd=tree, env=settings, check=False).returncode


def compiler() -> list[str]:
    return (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()


def sanitizer_libraries() -> list[str] | None:
    """What to load before everything else; None where the compiler cannot link a sanitized library."""
    if shutil.which(compiler()[0]) is None:
        return None
    with tempfile.TemporaryDirectory() as work:
        source = Path(work) / "x.c"
        source.write_text("int x(int a) { return a + 1; }\n")
        words = [*compiler(), "-fsanitize=address,undefined", "-shared", "-fPIC", str(source), "-o", f"{work}/x.so"]
        if subprocess.run(words, capture_output=True, check=False).returncode:
            return None
    found = []
    for library in ("libasan.so", "libubsan.so"):
        words = [*compiler(), f"-print-file-name={library}"]
        path = subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()
        if not os.path.isabs(path):
            return None  # another compiler than GCC: its sanitizers are linked into programs only
        found.append(os.path.realpath(path))
    return found


def build(name: str, flag: str) -> Path:
    """The tree with kernels of that build, compiled again where a source is newer."""
    tree = ROOT / "build" / "sanitize" / name
    tree.mkdir(parents=True, exist_ok=True)
    for part in ("engine", "kafkalog_cli", "tests"):
        large = ("*.tar.xz", "java", "4.3.1") if part == "tests" else ()
        ignored = shutil.ignore_patterns("__pycache__", "*.so", *large)
        shutil.copytree(ROOT / part, tree / part, ignore=ignored, dirs_exist_ok=True)
    for part in ("setup.py", "pyproject.toml"):
        shutil.copy2(ROOT / part, tree / part)
    if flag == "bounds":
        check_bounds(tree)
    sources = [*(tree / "engine" / "kernels").glob("*.p*"), tree / "engine" / "formats.py", tree / "setup.py"]
    stamp = tree / "built"
    newest = max(path.stat().st_mtime for path in sources)
    if not stamp.exists() or stamp.stat().st_mtime < newest:
        words = [sys.executable, "setup.py", "-q", "build_ext", "--inplace", "--parallel", str(os.cpu_count() or 1)]
        settings = {**os.environ, "KAFKALOG_SANITIZE": flag}
        done = subprocess.run(words, cwd=tree, env=settings, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"fuzz: the kernels cannot be built with sanitizers:\n{done.stdout}{done.stderr}")
        c_files = [path.read_text() for path in (tree / "build" / "cython").rglob("decode.c")]
        if any(("RaiseBufferIndexError" in text) != (flag == "bounds") for text in c_files) or not c_files:
            raise SystemExit(f"fuzz: the kernels of {tree} do not have the bounds checks that they should")
        stamp.write_bytes(b"")
    return tree


def check_bounds(tree: Path) -> None:
    """Turn bounds checks on where the sources turn them off: what they say goes before what setup.py says."""
    for path in (tree / "engine" / "kernels").glob("*.p*"):
        times = path.stat().st_atime_ns, path.stat().st_mtime_ns
        path.write_text(path.read_text().replace("boundscheck=False", "boundscheck=True"))
        os.utime(path, ns=times)  # else everything would be compiled every time


def environment(libraries: list[str]) -> dict[str, str]:
    """Variables of a process that loads sanitized kernels."""
    return {
        **os.environ,
        "LD_PRELOAD": " ".join(libraries),
        "PYTHONMALLOC": "malloc",  # every object with red zones of its own
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "KAFKALOG_CORPUS": str(corpus_directory()),
        "KAFKALOG_WIRE_CORPUS": str(wire_corpus()),
        "KAFKALOG_FUZZ_SANITIZED": "1",
    }


if __name__ == "__main__":
    sys.exit(main())
