"""What is in dist/ works where a user would use it: `make dist-test`.

Every artefact runs the first three scenes of the README, on log directories of real brokers, without the checkout, without a
compiler, and prints what the README shows.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from itertools import takewhile
from pathlib import Path

import pytest

from tests.support.console import ROOT, Step, pattern, steps
from tests.support.corpus import cluster_directory, own_corpus_directory, tiered_directory
from tests.support.needs import lacking

DIST = ROOT / "dist"
NOBODY = 65534
SUITE, PYTHON_OF_SUITE = "bookworm", "3.11"
WHEELS = sorted(path.name for path in DIST.glob("*.whl"))
SCENES = list(takewhile(
    lambda step: step.line < (ROOT / "README.md").read_text().splitlines().index("### 4. Put everything back"),
    steps(ROOT / "README.md"),
))  # fmt: skip


def artefact(ending: str) -> Path:
    (path,) = DIST.glob(f"*{ending}")
    return path


def needs(program: str) -> str:
    path = shutil.which(program)
    if path is None:
        lacking(f"needs {program}")
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


@pytest.fixture(scope="session")
def as_root():
    if os.geteuid() != 0:
        lacking("needs root: another user, or a system in a directory")


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


def play(
    logs: Path, program: str, before: tuple[str, ...] = (), inside: str | None = None, scenes: list[Step] = SCENES, **environment: str
) -> None:
    """Run the scenes. program: what stands for `kafkalog`; before: how a shell is started, e.g. in a chroot; inside: the path of
    `logs` there. The PATH has no compiler."""
    wrong = []
    for step in scenes:
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


# of musl, docs/packaging.md says what to do
WITHOUT_WHEEL = {"manylinux_2_17_x86_64": set(), "manylinux_2_17_aarch64": set(), "musllinux_1_2_x86_64": {"lz4"}}


@pytest.mark.parametrize(("tag", "lacking"), WITHOUT_WHEEL.items())
def test_dependencies_need_no_compiler_either(tag, lacking, tmp_path):
    older = {"many": ["manylinux2014", "manylinux_2_28"], "musl": ["musllinux_1_1"]}[tag[:4]]
    tags = [tag, *(f"{one}_{tag.split('_', 3)[3]}" for one in older)]
    words = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "--python-version", PYTHON_OF_SUITE, "-d", tmp_path]
    words += [word for tag in tags for word in ("--platform", tag)]
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    failed = {one for one in needed if subprocess.run([*words, one], capture_output=True, check=False).returncode}
    assert {re.split(r"[<>=]", one)[0] for one in failed} == lacking


@pytest.mark.parametrize("python", versions())
def test_the_wheel_in_a_bare_environment_of_every_python(python, tmp_path, logs):
    subprocess.run([python, "-m", "venv", tmp_path / "venv"], check=True)
    wheel = f"kafkalog[report] @ file://{artefact(f'manylinux_2_17_{platform.machine()}.whl')}"
    words = [tmp_path / "venv/bin/pip", "install", "-q", "--disable-pip-version-check", "--only-binary=:all:", wheel]
    subprocess.run(words, check=True, env={**os.environ, "PATH": "/nowhere", "CC": "false"})
    play(logs, str(tmp_path / "venv/bin/kafkalog"))


@pytest.fixture(scope="module")
def unpack_sources(tmp_path_factory, apt_get):
    """unpack_sources(PACKAGE, INTO): the sources of a Debian package, without Debian's changes."""
    home = tmp_path_factory.mktemp("sources")

    def unpack(package: str, into: Path) -> None:
        folder = home / package
        folder.mkdir(exist_ok=True)
        subprocess.run([*apt_get, "source", "--download-only", "--tar-only", package], cwd=folder, check=True)
        (archive,) = (path for path in folder.glob("*.orig.tar.*") if path.suffix != ".asc")
        shutil.unpack_archive(archive, into, filter="data")

    return unpack


def run_inside(root: Path, script: str) -> None:
    """Run a script in a system; if it fails, the end of what it printed is shown."""
    words = [needs("chroot"), root, "sh", "-ec", script]
    done = subprocess.run(
        words, check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace",
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "HOME": "/root"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]


@pytest.mark.usefixtures("as_root")
def test_the_wheel_in_an_old_system(tmp_path, unpack_sources):
    """Debian 11, with glibc 2.31. Its Python is too old, so that of the next Debian is compiled there."""
    root = tmp_path / "root"
    packages = "gcc,make,libc6-dev,zlib1g-dev,libssl-dev,libffi-dev,ca-certificates"
    subprocess.run([needs("mmdebstrap"), "-q", "--variant=apt", f"--include={packages}", "bullseye", root], check=True)
    unpack_sources("python3.11", root / "opt/build")
    shutil.copy(artefact("manylinux_2_17_x86_64.whl"), root / "opt")
    for path in ("/etc/resolv.conf", "/etc/ssl/certs/ca-certificates.crt"):
        shutil.copyfile(path, root / path[1:])
    run_inside(root, """
        cd /opt/build/Python-*
        ./configure -q --prefix=/opt/python
        make -s -j2 install
        /opt/python/bin/python3 -m venv /opt/venv
        CC=false /opt/venv/bin/pip install -q --only-binary=:all: "kafkalog[report] @ file://$(ls /opt/kafkalog-*.whl)"
    """)
    play(copied_logs(root / "opt/kafka-logs"), "/opt/venv/bin/kafkalog", (needs("chroot"), str(root)), "/opt/kafka-logs/logs")


@pytest.fixture
def musl(tmp_path, unpack_sources):
    """A system with musl, busybox and CPython, and nothing of glibc; /opt/wheels has what the wheel depends on.

    A Debian with musl-gcc compiles them, and lz4, of which there is no wheel for musl: so only Debian's archive and PyPI are needed.
    """
    builder, root = tmp_path / "builder", tmp_path / "musl"
    packages = "gcc,make,libc6-dev,musl-tools,busybox-static"
    subprocess.run([needs("mmdebstrap"), "-q", "--variant=apt", f"--include={packages}", SUITE, builder], check=True)
    for package in (f"python{PYTHON_OF_SUITE}", "zlib", "libffi"):
        unpack_sources(package, builder / "opt/build")
    wheels = builder / "opt/wheels"
    pip = [sys.executable, "-m", "pip", "download", "-q", "-d", wheels]
    subprocess.run([*pip, "--no-deps", "--no-binary=lz4", "lz4"], check=True)
    subprocess.run([*pip, "setuptools", "wheel", "setuptools_scm", "pkgconfig"], check=True)
    run_inside(builder, """
        for name in linux asm-generic x86_64-linux-gnu/asm; do ln -s /usr/include/$name /usr/include/x86_64-linux-musl/; done
        export CC=musl-gcc CFLAGS=-fPIC CPPFLAGS=-I/opt/parts/include LDFLAGS=-L/opt/parts/lib
        (cd /opt/build/zlib-*; ./configure --static --prefix=/opt/parts; make -s install)
        (cd /opt/build/libffi-*; ./configure -q --disable-shared --prefix=/opt/parts; make -s install)
        cd /opt/build/Python-*
        ./configure -q --build=x86_64-linux-musl --prefix=/opt/python
        make -s -j2 install
        /opt/python/bin/python3 -m pip wheel -q --no-index --find-links /opt/wheels --no-deps -w /opt/wheels lz4
    """)
    shutil.copy(artefact("musllinux_1_2_x86_64.whl"), wheels)
    words = ["--python-version", PYTHON_OF_SUITE, "--only-binary=:all:", "--find-links", wheels, "kafkalog[report]"]
    platforms = ("musllinux_1_2_x86_64", "musllinux_1_1_x86_64", "linux_x86_64")
    subprocess.run([*pip, *(word for platform in platforms for word in ("--platform", platform)), *words], check=True)
    shutil.copytree(builder / "opt/python", root / "opt/python", symlinks=True, ignore=shutil.ignore_patterns("test", "__pycache__"))
    shutil.copytree(wheels, root / "opt/wheels")
    for name in ("lib", "bin", "tmp", "root"):
        (root / name).mkdir()
    shutil.copy(builder / "lib/ld-musl-x86_64.so.1", root / "lib")
    shutil.copy(builder / "bin/busybox", root / "bin")
    (root / "bin/sh").symlink_to("busybox")
    run_inside(root, "/bin/busybox --install -s /bin")
    return root


@pytest.mark.usefixtures("as_root")
def test_the_wheel_with_musl(musl):
    """pip itself chooses the wheel for musl."""
    run_inside(musl, """
        /opt/python/bin/python3 -m venv /opt/venv
        CC=false /opt/venv/bin/pip install -q --no-index --find-links /opt/wheels "kafkalog[report]"
    """)
    play(copied_logs(musl / "opt/kafka-logs"), "/opt/venv/bin/kafkalog", (needs("chroot"), str(musl)), "/opt/kafka-logs/logs")


def base_python() -> str:
    return str(Path(sys.base_prefix, "bin", f"python3.{sys.version_info[1]}"))


@pytest.mark.usefixtures("as_root")
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


@pytest.mark.usefixtures("as_root")
def test_the_single_file_as_another_user_whose_home_cannot_be_written(system):
    shutil.copy(artefact(".pyz"), system / "usr/local/bin/kafkalog.pyz")
    logs = copied_logs(system / "home")
    for path in [logs, *logs.rglob("*")]:
        os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    before = (needs("chroot"), f"--userspec={NOBODY}:{NOBODY}", str(system))
    play(logs, "python3 -I /usr/local/bin/kafkalog.pyz", before, "/home/logs", HOME="/root")
    assert (system / f"tmp/kafkalog-{NOBODY}").stat().st_uid == NOBODY


@pytest.mark.usefixtures("as_root")
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


INSTALL = [
    line.split("  #")[0].strip()
    for line in (ROOT / "README.md").read_text().partition("## Install\n")[2].partition("\n## ")[0].splitlines()
    if line.startswith("    ")
]


def test_the_readme_shows_five_ways_to_install():
    assert [line.split()[0] for line in INSTALL] == ["pip", "python3", "apt-get", "podman", "pip"]


def installed_by(line: str, folder: Path, **environment: str) -> None:
    """Run a line of the README in a folder."""
    subprocess.run(["/bin/sh", "-c", line], cwd=folder, check=True, env={**os.environ, **environment})


@pytest.mark.parametrize("line", [line for line in INSTALL if line.startswith("pip ")])
def test_a_line_of_the_readme_installs_with_pip(line, tmp_path, logs):
    """In a copy of the files that git knows, beside dist/; the scenes that need an extra package run in other tests."""
    names = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], capture_output=True, text=True, check=True).stdout
    for name in filter(None, names.split("\0")):
        (tmp_path / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / "tree" / name)
    (tmp_path / "tree/dist").symlink_to(DIST)
    subprocess.run([base_python(), "-m", "venv", tmp_path / "venv"], check=True)
    installed_by(line, tmp_path / "tree", PATH=f"{tmp_path}/venv/bin:{os.environ['PATH']}")
    done = subprocess.run([tmp_path / "venv/bin/kafkalog", "check", logs / "clean"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.startswith("STARTS")) == (0, True), done.stdout + done.stderr
    assert (tmp_path / "venv/share/man/man1/kafkalog.1").exists()


def test_the_line_of_the_readme_for_the_single_file():
    [line] = [line for line in INSTALL if line.startswith("python3 ")]
    done = subprocess.run(["/bin/sh", "-c", line], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("kafkalog ")


@pytest.mark.usefixtures("as_root")
def test_the_line_of_the_readme_for_the_debian_package(system):
    [line] = [line for line in INSTALL if line.startswith("apt-get ")]
    shutil.copytree(DIST, system / "tmp/dist", dirs_exist_ok=True)
    inside = (needs("chroot"), str(system), "/bin/sh", "-c")
    subprocess.run([*inside, f"cd /tmp && {line} -y -qq"], check=True, capture_output=True, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})
    done = subprocess.run([*inside, "kafkalog --version"], check=True, capture_output=True, text=True)
    assert done.stdout.startswith("kafkalog ")
    subprocess.run([*inside, "dpkg -P kafkalog && rm -r /tmp/dist"], check=True, capture_output=True)


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    """The image, built by the line of the README. Its bases are made here: they are those of the recipe, without a registry."""
    podman, folder = needs("podman"), tmp_path_factory.mktemp("image")
    needs("mmdebstrap")
    bases = {"BUILD": ("apt", "python3-pip"), "BASE": ("extract", "python3-minimal,python3,libpython3-stdlib")}
    arguments = []
    for name, (variant, packages) in bases.items():
        path = folder / f"{name}.tar"
        subprocess.run(["mmdebstrap", "-q", f"--variant={variant}", f"--include={packages}", SUITE, path], check=True)
        subprocess.run([podman, "import", "-q", path, f"localhost/kafkalog-test-{name.lower()}"], check=True)
        path.unlink()
        arguments.append(f"--build-arg {name}=localhost/kafkalog-test-{name.lower()}")
    certificates = "/etc/ssl/certs"  # pip uses those of this machine, and its settings
    arguments += [f"-v {certificates}:{certificates}:ro", f"--env PIP_CERT={certificates}/ca-certificates.crt", "--network=host --isolation=chroot --layers=false"]
    [line] = [line for line in INSTALL if line.startswith("podman ")]
    installed_by(line.replace(" -t kafkalog ", f" -t localhost/kafkalog-test {' '.join(arguments)} "), ROOT)
    yield "localhost/kafkalog-test"
    made = [f"localhost/kafkalog-test{end}" for end in ("", "-build", "-base")]
    subprocess.run([podman, "rmi", "-f", *made], check=False, capture_output=True)


# as in packaging/kubernetes: no rights, nothing can be written, the volume is read-only. runc also runs where cgroups are of
# version 1; the limits are lower than podman's own, which a process without CAP_SYS_RESOURCE must not set
CONTAINER = (
    f"podman {'--runtime runc ' if shutil.which('runc') else ''}run --rm --read-only --read-only-tmpfs=false --cap-drop=all --security-opt=no-new-privileges "
    "--network=none --ulimit=nofile=1024:1024 --ulimit=nproc=1024:1024"
)


def give_to_the_broker(volume: Path) -> None:
    """As in a Pod: nobody else may read the files."""
    for path in [volume, *volume.rglob("*")]:
        os.chown(path, 1001, 0, follow_symlinks=False)
        if not path.is_symlink():
            path.chmod(0o700 if path.is_dir() else 0o600)


@pytest.mark.usefixtures("as_root")
def test_the_image_repairs_a_volume_and_puts_it_back(image, logs, tmp_path):
    """The commands of docs/kubernetes.md, on a volume that may be written."""
    volume = tmp_path / "volume"
    shutil.copytree(logs / "unclean/d0", volume / "data")
    with (volume / "data/u-rolls-0/00000000000000000173.log").open("r+b") as file:
        file.seek(4000)
        file.write(b"a bad day on a disk")
    before = {path: path.read_bytes() for path in volume.rglob("*") if path.is_file()}
    give_to_the_broker(volume)
    run = f"{CONTAINER} --user 1001:0 -v {volume}:/var/lib/kafka {image}"
    repaired = subprocess.run(f"{run} recover --yes --quarantine /var/lib/kafka/quarantine /var/lib/kafka/data", shell=True, check=False)
    assert repaired.returncode == 1
    assert (volume / "data/u-rolls-0/00000000000000000173.log").stat().st_size < len(before[volume / "data/u-rolls-0/00000000000000000173.log"])
    subprocess.run(f"{run} restore --yes /var/lib/kafka/quarantine", shell=True, check=True)
    after = {path: path.read_bytes() for path in (volume / "data").rglob("*") if path.is_file()}
    assert after == {**before, volume / "data/.lock": b""}
    assert {path.stat().st_uid for path in volume.rglob("*")} == {1001}


@pytest.mark.usefixtures("as_root")
def test_the_image_runs_the_scenes_that_only_read(image, logs):
    """As the user who owns the files, without the right to change one."""
    give_to_the_broker(logs)
    run = f"{CONTAINER} --user 1001:0 -v {logs}:/var/lib/kafka:ro -w /var/lib/kafka {image}"
    only_read = [step for step in SCENES if step.command.split()[:2] in (["kafkalog", "ls"], ["kafkalog", "check"]) and "clean" in step.command]
    assert len(only_read) == 2
    play(logs, run, scenes=only_read)
    done = subprocess.run(f"{run} verify clean/d0", shell=True, capture_output=True, text=True, check=False)
    assert (done.returncode, "error" in done.stderr) == (0, False), done.stdout + done.stderr
    done = subprocess.run(f"{run} recover --dry-run --yes unclean/d0", shell=True, capture_output=True, text=True, check=False)
    assert (done.returncode, "dry run: nothing was changed" in done.stdout) == (8, True), done.stdout + done.stderr
    assert done.stderr.count("error[unwritable-file]") == 2  # as docs/kubernetes.md says


@pytest.mark.usefixtures("as_root")
def test_the_image_has_no_shell_and_is_not_root(image):
    for words in ("/bin/sh", "/bin/bash", "/usr/bin/apt", "/usr/bin/pip"):
        done = subprocess.run(f"{CONTAINER} --entrypoint {words} {image} -c true", shell=True, capture_output=True, text=True, check=False)
        assert done.returncode == 127, (words, done.stdout, done.stderr)
    code = "import os; print(os.getuid(), os.getgid())"
    done = subprocess.run(f"{CONTAINER} --entrypoint /usr/bin/python3 {image} -c '{code}'", shell=True, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["65532", "65532"]
    for words in (image, f"--entrypoint kafkalog {image}"):  # the second as `kubectl debug … -- kafkalog` does
        done = subprocess.run(f"{CONTAINER} {words} --version", shell=True, capture_output=True, text=True, check=True)
        assert done.stdout.startswith("kafkalog ")


def test_lintian_finds_no_error():
    done = subprocess.run([needs("lintian"), "--tag-display-limit", "0", artefact(".deb")], capture_output=True, text=True, check=False)
    assert [line for line in done.stdout.splitlines() if line.startswith("E:")] == []


@pytest.mark.usefixtures("as_root")
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
