"""`.ci/setup` on machines that lack something: which packages are installed, what is said, what goes into .venv.

The machine is a directory of programs that note how they are called: `python3`, `cc`, `apt-get` and the like.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.console import ROOT

NOTING = '#!/bin/sh\necho "{name} $*" >> "$MACHINE/said"\n'
# answers as a Python does: whether it has ensurepip and its headers is whether a file of that name is there
PYTHON = """case "$*" in
*Python.h*) [ -e "$MACHINE/headers" ] ;;
*ensurepip*) [ -e "$MACHINE/ensurepip" ] ;;
"-m venv "*) mkdir -p .venv/bin && cp "$0" .venv/bin/python ;;
esac
"""
APT = """for word; do case $word in
python3-venv) touch "$MACHINE/ensurepip" ;;
python3-dev) touch "$MACHINE/headers" ;;
gcc) cp "$MACHINE/cc.there" "$MACHINE/bin/cc" ;;
default-jre-headless) [ ! -e "$MACHINE/no-java" ] && cp "$MACHINE/cc.there" "$MACHINE/bin/java" ;;
esac; done
"""


@pytest.fixture
def machine(tmp_path):
    """machine(lacks=…, user=…, words=…) → (what was called, exit status, stderr) of a setup there."""

    def program(name, text=""):
        path = tmp_path / "bin" / name
        path.write_text(NOTING.format(name=name) + text)
        path.chmod(0o755)
        return path

    def run(*words, lacks=(), user=0, apt=APT):
        shutil.copytree(ROOT / ".ci", tmp_path / "tree/.ci")
        (tmp_path / "bin").mkdir()
        for name in ("sh", "dirname", "mkdir", "cp", "touch", "date", "mktemp", "cat", "rm"):
            (tmp_path / "bin" / name).symlink_to(shutil.which(name))
        program("cc").rename(tmp_path / "cc.there")
        program("id", f"echo {user}\n")
        program("apt-get", apt)
        program("python3", PYTHON)
        for name in {"ensurepip", "headers"} - set(lacks):
            (tmp_path / name).touch()
        for name in {"cc", "java"} - set(lacks):
            program(name)
        done = subprocess.run(["sh", str(tmp_path / "tree/.ci/setup"), *words], capture_output=True, text=True, check=False,
                              env={"PATH": str(tmp_path / "bin"), "MACHINE": str(tmp_path)})  # fmt: skip
        said = (tmp_path / "said").read_text().splitlines()
        return said, done.returncode, done.stderr

    return run


def installed(said):
    """The packages of each call of apt-get."""
    return [[word for word in line.split()[2:] if not word.startswith("-")] for line in said if line.startswith("apt-get install")]


def test_a_machine_that_has_everything_is_left_alone(machine):
    said, status, err = machine()
    assert (installed(said), status, err) == ([], 0, "")
    assert [line.split()[-1] for line in said if " -e " in line] == ["."]


@pytest.mark.parametrize(("lacks", "packages"), [
    (["headers"], ["python3-dev"]), (["cc"], ["gcc", "libc6-dev"]), (["ensurepip"], ["python3-venv"]),
    (["ensurepip", "cc", "headers"], ["python3-venv", "gcc", "libc6-dev", "python3-dev"]), (["java"], []),
])  # fmt: skip
def test_what_the_demo_lacks_is_installed(machine, lacks, packages):
    said, status, err = machine(lacks=lacks)
    assert (installed(said), status, err) == ([packages] if packages else [], 0, "")


def test_tests_take_java_and_the_extras(machine):
    said, status, err = machine("dev", lacks=["java"])
    assert (installed(said), status, err) == ([["default-jre-headless"]], 0, "")
    installs = [line for line in said if " pip install " in line]
    assert ["--require-hashes -r constraints.txt" in line for line in installs] == [True, False]
    assert installs[1].endswith(" -e .")
    assert " --no-deps " in installs[1]


def test_everything_that_is_asked_for_is_pinned_by_hash():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    asked = [*project["build-system"]["requires"], *project["project"]["dependencies"], *extras["dev"], *extras["spark"]]
    text = (ROOT / "constraints.txt").read_text()
    pinned = {}
    for block in re.split(r"\n(?=[A-Za-z])", text.partition("make lock\n")[2]):
        name, version = re.match(r"(\S+)==(\S+)", block).groups()
        assert "--hash=sha256:" in block, name
        pinned.setdefault(name, []).append(version)
    for requirement in map(Requirement, asked):
        versions = pinned[canonicalize_name(requirement.name)]
        assert all(version in requirement.specifier for version in versions), f"{requirement}, pinned {versions}: make lock"
    assert "://" not in text


@pytest.mark.parametrize("lacks", ["headers", "cc"])
@pytest.mark.parametrize("where", [{"user": 1000}, {"apt": "exit 100\n"}], ids=["no root", "no network"])
def test_without_a_compiler_it_ends_with_what_to_install(machine, lacks, where):
    said, status, err = machine(lacks=[lacks], **where)
    assert (installed(said), status) == ([], 1)
    assert err.splitlines()[-1] == "kafkalog: install build-essential and python3-dev first: the kernels must be compiled"
    assert ("apt-get could not install" in err) == ("apt" in where)
    assert not any(" -e " in line for line in said)


def test_without_java_it_is_said_what_is_skipped(machine):
    _, status, err = machine("dev", lacks=["java"], user=1000)
    assert (status, "the tests of Spark are skipped" in err) == (0, True)


def test_a_venv_can_not_be_made_without_its_module(machine):
    said, status, err = machine(lacks=["ensurepip"], user=1000)
    assert (status, err) == (1, "kafkalog: install python3-venv first\n")
    assert not any(" -e " in line for line in said)
