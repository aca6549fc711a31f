"""What is in dist/ works where a user would use it: `make dist-test`.

Every artefact runs the first three scenes of the README, on log directories of real brokers, without the checkout, without a
compiler, and prints what the README shows.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import zipfile
from itertools import takewhile
from pathlib import Path

import pytest

from tests.support.console import ROOT, pattern, steps
from tests.support.corpus import cluster_directory, own_corpus_directory, tiered_directory

DIST = ROOT / "dist"
NOBODY = 65534
SUITE, PYTHON_OF_SUITE = "bookworm", "3.11"
WHEELS = sorted(path.name for path in DIST.glob("*.whl"))
SCENES = list(takewhile(
    lambda step: step.line < (ROOT / "README.md").read_text().splitlines().index("### 4. Put everything back"),
    steps(ROOT / "README.md"),
))  # fmt: skip
is_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: another user, or a system in a directory")


def artefact(ending: str) -> Path:
    (path,) = DIST.glob(f"*{ending}")
    return path


def needs(program: str) -> str:
    path = shutil.which(program)
    if path is None:
        pytest.skip(f"needs {program}")
    return path


def versions() -> list[str]:
    """Every CPython from 3.11 on that is on this machine: on the PATH, or of pyenv."""
    found = {}
    places = [Path(word) for word in os.environ["PATH"].split(os.pathsep)]
    places += Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions").glob("*/bin")
    for place in places:
        for minor in range(11, 20):
            program = place / f"python3.{minor}"
            if program.exists() and minor not in found:
                words = [str(program), "-c", "import ensurepip, sys; print(sys.version_info[1])"]
                done = subprocess.run(words, capture_output=True, text=True, check=False)
                if done.stdout.strip() == str(minor):
                    found[minor] = str(program)
    return [found[minor] for minor in sorted(found)]


@pytest.fixture
def logs(tmp_path):
    """The directories that the README works on."""
    return copied_logs(tmp_path)


def copied_logs(into: Path) -> Path:
    logs = into / "logs"
    shutil.copytree(own_corpus_directory() / "kafka-4.3.1/logs", logs)
    shutil.copytree(tiered_directory(), logs / "brokers")
    shutil.copytree(cluster_directory(), logs / "cluster")
    return logs


def play(logs: Path, program: str, before: tuple[str, ...] = (), inside: str | None = None, **environment: str) -> None:
    """Run the scenes. program: what stands for `kafkalog`; before: how a shell is started, e.g. in a chroot; inside: the path of
    `logs` there. The PATH has no compiler."""
    wrong = []
    for step in SCENES:
        script = f'kafkalog() {{ {program} "$@"; }}\ncd {inside or logs} || exit\n{step.command}'
        done = subprocess.run(
            [*before, "/bin/sh", "-c", script], text=True, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "HOME": "/nowhere", **environment},
        )  # fmt: skip
        if not pattern(step.printed).fullmatch(done.stdout):
            wrong.append(f"$ {step.command}\n{done.stdout[:3000]}")
    assert not wrong, "\n\n".join(wrong)


def test_there_are_scenes():
    assert len(SCENES) >= 8


def test_sums():
    lines = (DIST / "SHA256SUMS").read_text().splitlines()
    assert {line.split()[1] for line in lines} == {path.name for path in DIST.iterdir()} - {"SHA256SUMS"}
    for line in lines:
        word, name = line.split()
        assert hashlib.sha256((DIST / name).read_bytes()).hexdigest() == word


def test_a_second_build_is_equal(tmp_path):
    subprocess.run([sys.executable, ROOT / "packaging/dist.py", "--into", tmp_path / "again"], check=True)
    assert (tmp_path / "again/SHA256SUMS").read_text() == (DIST / "SHA256SUMS").read_text()


def test_the_sources_have_documentation_and_no_tests():
    with tarfile.open(artefact(".tar.gz")) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    documents = {str(path.relative_to(ROOT)) for folder in ("docs", "man", "completions") for path in (ROOT / folder).rglob("*") if path.is_file()}
    assert documents <= names
    assert not [name for name in names if name.startswith("tests")]


@pytest.mark.parametrize("name", WHEELS)
def test_a_wheel_has_nothing_of_the_machine_that_built_it(name):
    with zipfile.ZipFile(DIST / name) as wheel:
        for entry in wheel.namelist():
            content = wheel.read(entry)
            assert b"/tmp/kafkalog-dist" not in content, entry
            assert str(ROOT).encode() not in content, entry


@pytest.mark.parametrize("name", [name for name in WHEELS if "manylinux" in name])
def test_auditwheel_accepts_the_platform(name):
    done = subprocess.run([sys.executable, "-m", "auditwheel", "show", DIST / name], capture_output=True, text=True, check=False)
    assert f'"{name.split("-")[-1].removesuffix(".whl")}"' in " ".join(done.stdout.split()), done.stdout + done.stderr


@pytest.mark.parametrize("python", versions())
def test_the_wheel_in_a_bare_environment_of_every_python(python, tmp_path, logs):
    subprocess.run([python, "-m", "venv", tmp_path / "venv"], check=True)
    wheel = f"kafkalog[report] @ file://{artefact(f'manylinux_2_17_{platform.machine()}.whl')}"
    words = [tmp_path / "venv/bin/pip", "install", "-q", "--disable-pip-version-check", "--only-binary=:all:", wheel]
    subprocess.run(words, check=True, env={**os.environ, "PATH": "/nowhere", "CC": "false"})
    play(logs, str(tmp_path / "venv/bin/kafkalog"))


def base_python() -> str:
    return str(Path(sys.base_prefix, "bin", f"python3.{sys.version_info[1]}"))


@is_root
def test_the_single_file_runs_no_code_of_another_user(tmp_path):
    """A directory in /tmp that somebody else has made is not used."""
    taken = tmp_path / "tmp/kafkalog-0"
    taken.mkdir(parents=True)
    os.chown(taken, NOBODY, NOBODY)
    home = tmp_path / "home"
    home.write_text("")
    done = subprocess.run(
        [base_python(), "-I", artefact(".pyz"), "--version"], capture_output=True, text=True, check=False,
        env={"HOME": str(home), "TMPDIR": str(tmp_path / "tmp"), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert (done.stdout, done.returncode) == ("", 1)
    assert done.stderr.startswith("kafkalog: cannot unpack in ")
    assert list(taken.iterdir()) == []


@pytest.fixture(scope="module")
def system(tmp_path_factory):
    """A Debian with Python and nothing else."""
    needs("mmdebstrap")
    root = tmp_path_factory.mktemp("system") / "root"
    subprocess.run(["mmdebstrap", "-q", "--variant=apt", "--include=python3", SUITE, root], check=True)
    return root


@is_root
def test_the_single_file_as_another_user_whose_home_cannot_be_written(system):
    shutil.copy(artefact(".pyz"), system / "usr/local/bin/kafkalog.pyz")
    logs = copied_logs(system / "home")
    for path in [logs, *logs.rglob("*")]:
        os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    before = (needs("chroot"), f"--userspec={NOBODY}:{NOBODY}", str(system))
    play(logs, "python3 -I /usr/local/bin/kafkalog.pyz", before, "/home/logs", HOME="/root")
    assert (system / f"tmp/kafkalog-{NOBODY}").stat().st_uid == NOBODY


@is_root
def test_the_package_is_installed_used_and_purged(system):
    logs = copied_logs(system / "opt/kafka-logs")
    before = {str(path) for path in system.rglob("*")}
    shutil.copy(artefact(".deb"), system / "tmp/kafkalog.deb")
    inside = (needs("chroot"), str(system))
    subprocess.run([*inside, "dpkg", "-i", "/tmp/kafkalog.deb"], check=True, capture_output=True)
    play(logs, "/usr/bin/kafkalog", inside, "/opt/kafka-logs/logs")
    verified = subprocess.run([*inside, "dpkg", "-V", "kafkalog"], capture_output=True, text=True, check=False)
    assert [line for line in verified.stdout.splitlines() if "/usr/share/" not in line] == []
    subprocess.run([*inside, "dpkg", "-P", "kafkalog"], check=True, capture_output=True)
    left = {str(path) for path in system.rglob("*") if path.is_relative_to(system / "opt") or "kafkalog" in path.name} - before
    assert {path for path in left if not path.startswith((str(logs), str(system / "tmp")))} == set()


def test_lintian_finds_no_error():
    done = subprocess.run([needs("lintian"), "--tag-display-limit", "0", artefact(".deb")], capture_output=True, text=True, check=False)
    assert [line for line in done.stdout.splitlines() if line.startswith("E:")] == []


@is_root
def test_the_wheel_for_arm_runs_under_an_emulator(tmp_path):
    emulator = needs("qemu-aarch64-static")
    needs("mmdebstrap")
    root = tmp_path / "arm"
    words = ["mmdebstrap", "-q", "--variant=extract", "--architectures=arm64", "--include=python3-minimal,python3,libpython3-stdlib", SUITE, root]
    subprocess.run(words, check=True)
    site = root / "site"
    words = [
        sys.executable, "-m", "pip", "install", "-q", "--only-binary=:all:", "--python-version", PYTHON_OF_SUITE, "--target", site,
        "--platform", "manylinux_2_17_aarch64", "--platform", "manylinux2014_aarch64", "--platform", "manylinux_2_28_aarch64",
        f"kafkalog[report] @ file://{artefact('aarch64.whl')}",
    ]  # fmt: skip
    subprocess.run(words, check=True)
    shutil.copy(emulator, root / "emulator")
    start = root / "start.py"
    start.write_text('import os\nos.chdir("/opt/kafka-logs/logs")\nfrom kafkalog_cli.start import main\nmain()\n')
    program = f"{needs('chroot')} {root} /emulator /usr/bin/python{PYTHON_OF_SUITE} /start.py"
    play(copied_logs(root / "opt/kafka-logs"), program, PYTHONPATH="/site")


def test_the_list_of_parts_names_every_package_in_the_single_file():
    parts = json.loads(artefact(".cdx.json").read_text())
    named = {part["name"].lower().replace("_", "-") for part in parts["components"]}
    with zipfile.ZipFile(artefact(".pyz")) as program:
        names = {name.split("/")[1] for name in program.namelist() if ".dist-info/" in name}
    inside = {name.split("-")[0].lower().replace("_", "-") for name in names} - {"kafkalog"}
    assert inside <= named, inside - named
    assert parts["metadata"]["component"]["name"] == "kafkalog"
