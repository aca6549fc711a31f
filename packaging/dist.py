"""Builds what is published, into dist/: `make dist`.

    kafkalog-V.tar.gz               the sources, with documentation, man pages and completions
    kafkalog-V-cp311-abi3-*.whl     for CPython 3.11 and later: manylinux_2_17 on x86_64 and aarch64, musllinux_1_2 on x86_64
    kafkalog.pyz                    one file with all that it needs, for CPython 3.11 to 3.14 on x86_64 with glibc
    kafkalog_V_amd64.deb            the same in /opt/kafkalog, with man pages, completions and systemd units
    kafkalog-V.cdx.json             what is in them (CycloneDX)
    SHA256SUMS

Two builds of one commit are equal, byte for byte. Each artefact is made of the one before: the wheels of the sources, the
program and the package of the wheel, so that what is tested is what was published.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
VERSION = PROJECT["version"]
ZIG = f"{sys.executable} -m ziglang cc"
FLAGS = "-O3 -g0 -fno-sanitize=undefined"  # zig's own default is checks that name the header files of this machine
# platform tag: the target of the compiler, the platform as Python calls it
WHEELS = {
    "manylinux_2_17_x86_64": ("x86_64-linux-gnu.2.17", "linux-x86_64"),
    "manylinux_2_17_aarch64": ("aarch64-linux-gnu.2.17", "linux-aarch64"),
    "musllinux_1_2_x86_64": ("x86_64-linux-musl", "linux-x86_64"),
}
PYTHONS = ("3.11", "3.12", "3.13", "3.14")  # of the program and the package: compiled dependencies are of one version each
BUNDLED = "manylinux_2_17_x86_64"
EXTRAS = ("metrics", "report", "decode", "remote")  # in them; pyarrow and Spark are larger than all the rest
PLATFORMS = ("manylinux_2_17_x86_64", "manylinux2014_x86_64", "manylinux_2_28_x86_64")  # of compiled dependencies


def run(*words: str | Path, **options: object) -> str:
    """Run a program and return its output; if it fails, its whole output is shown and the build ends."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, **options)
    if done.returncode:
        sys.exit(f"{done.stdout}{done.stderr}\ndist: failed with status {done.returncode}: {' '.join(map(str, words))}")
    return done.stdout


def epoch() -> str:
    """The time that all files get: SOURCE_DATE_EPOCH, or that of the last commit."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    return given or run("git", "-C", ROOT, "log", "-1", "--format=%ct").strip()


def sources(work: Path) -> Path:
    """A copy of the files that git knows, as they are now."""
    tree = work / "tree"
    for name in run("git", "-C", ROOT, "ls-files", "-z").split("\0"):
        source = ROOT / name
        if name and source.is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, tree / name)
    return tree


def plain_tar(path: Path, time: int) -> bytes:
    """The same files in a fixed order, all of one time and nobody."""
    unpacked = io.BytesIO()
    with tarfile.open(path) as old, tarfile.open(fileobj=unpacked, mode="w", format=tarfile.PAX_FORMAT) as new:
        for member in sorted(old.getmembers(), key=lambda member: member.name):
            member.mtime, member.uid, member.gid, member.uname, member.gname, member.pax_headers = time, 0, 0, "", "", {}
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            new.addfile(member, old.extractfile(member))
    packed = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=packed, mtime=time) as file:
        file.write(unpacked.getvalue())
    return packed.getvalue()


def build_sdist(work: Path, into: Path, environment: dict[str, str]) -> Path:
    """The sources, packed."""
    run(sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", work / "sdist", sources(work), env=environment)
    (made,) = (work / "sdist").iterdir()
    path = into / made.name
    path.write_bytes(plain_tar(made, int(environment["SOURCE_DATE_EPOCH"])))
    return path


def build_wheel(sdist: Path, platform: str, into: Path, environment: dict[str, str]) -> Path:
    """The wheel of a platform, compiled by zig's C compiler, which has the libraries of every one."""
    target, python_platform = WHEELS[platform]
    with tempfile.TemporaryDirectory(prefix="kafkalog-dist-") as work:
        with tarfile.open(sdist) as archive:
            archive.extractall(work, filter="data")
        compiler = f"{ZIG} -target {target}"
        settings = {
            **environment, "CC": compiler, "LDSHARED": f"{compiler} -shared", "CFLAGS": FLAGS, "LDFLAGS": "-s",
            "_PYTHON_HOST_PLATFORM": python_platform, "ZIG_GLOBAL_CACHE_DIR": f"{work}/zig", "ZIG_LOCAL_CACHE_DIR": f"{work}/zig",
        }  # fmt: skip
        run(
            sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", into, Path(work, f"kafkalog-{VERSION}"),
            f"-C--build-option=--plat-name={platform}", env=settings,
        )
    return into / f"kafkalog-{VERSION}-cp311-abi3-{platform}.whl"


def bundled(work: Path, wheel: Path, environment: dict[str, str]) -> tuple[Path, Path]:
    """The program with all that it needs, in one directory for every version of PYTHONS; the requirements, with hashes.

    Compiled modules have the version in their names, so that those of several versions lie side by side.
    """
    requirements = work / "bundled.txt"
    run(
        Path(sys.executable).with_name("uv"), "pip", "compile", ROOT / "pyproject.toml", "-q", "--universal", "--generate-hashes",
        "--no-annotate", "--no-header", "--python-version", PYTHONS[0], "-c", ROOT / "constraints.txt", "-o", requirements,
        *(word for extra in EXTRAS for word in ("--extra", extra)), env=environment,
    )
    site = work / "site"
    pip = (sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps", "--no-compile")
    for version in PYTHONS:
        one = work / f"site-{version}"
        run(
            *pip, "--require-hashes", "--only-binary=:all:", "--python-version", version, "--implementation", "cp",
            *(word for platform in PLATFORMS for word in ("--platform", platform)), "--target", one, "-r", requirements,
        )  # fmt: skip
        run(*pip, "--python-version", version, "--only-binary=:all:", "--platform", BUNDLED, "--target", one, wheel)
        for path in sorted(one.rglob("*")):
            merged = site / path.relative_to(one)
            if path.is_dir() or path.relative_to(one).parts[0] in ("bin", "share"):
                continue
            merged.parent.mkdir(parents=True, exist_ok=True)
            if not merged.exists():
                shutil.copy(path, merged)
            elif merged.read_bytes() != path.read_bytes() and ".dist-info" not in str(merged.parent):
                sys.exit(f"dist: {merged.relative_to(site)} differs between versions of Python")
    for path in (site / "zstandard").glob("_cffi*.so"):
        path.unlink()  # a second copy of the library, for other implementations of Python
    run("strip", "--strip-unneeded", *sorted(site.rglob("*.so")))  # most of their bytes: 150 of 230 MB
    for path in site.glob("*.dist-info/direct_url.json"):
        path.unlink()  # where the wheel lay on this machine
    for record in site.glob("*.dist-info/RECORD"):  # of one version only, and of programs that are not here
        record.unlink()
    return site, requirements


def build_program(work: Path, site: Path, into: Path, environment: dict[str, str]) -> Path:
    """One file: it unpacks itself on its first run, where packaging/pyz_main.py says."""
    packed = work / "kafkalog.pyz"
    run(
        Path(sys.executable).with_name("shiv"), "--site-packages", site, "--entry-point", "kafkalog_cli.start:main", "--compressed",
        "--reproducible", "--python", "/usr/bin/env python3", "--output-file", packed, env=environment,
    )
    path = into / packed.name
    with zipfile.ZipFile(packed) as old, path.open("wb") as file:
        file.write(b"#!/usr/bin/env python3\n")
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as new:
            for info in sorted(old.infolist(), key=lambda info: info.filename):
                content = old.read(info)
                if info.filename == "__main__.py":
                    content = (ROOT / "packaging/pyz_main.py").read_bytes()
                elif info.filename == "environment.json":
                    settings = {**json.loads(content), "root": "$SHIV_ROOT", "built_at": "", "shiv_version": ""}
                    content = json.dumps(settings, sort_keys=True).encode()
                new.writestr(info, content, zipfile.ZIP_DEFLATED)
    path.chmod(0o755)
    return path


def build_package(work: Path, site: Path, into: Path, environment: dict[str, str]) -> Path:
    """The Debian package: a virtual environment in /opt/kafkalog that every Python of PYTHONS can use."""
    tree, debian = work / "deb", ROOT / "packaging/debian"
    home = tree / "opt/kafkalog"
    shutil.copytree(site, home / "lib/site-packages")
    for version in PYTHONS:
        (home / f"lib/python{version}").mkdir()
        (home / f"lib/python{version}/site-packages").symlink_to("../site-packages")
    (home / "bin").mkdir()
    (home / "bin/python3").symlink_to("/usr/bin/python3")
    (home / "pyvenv.cfg").write_text("home = /usr/bin\ninclude-system-site-packages = false\n")
    write(home / "bin/kafkalog", "#!/opt/kafkalog/bin/python3 -I\nfrom kafkalog_cli.start import main\n\nmain()\n", 0o755)
    (tree / "usr/bin").mkdir(parents=True)
    (tree / "usr/bin/kafkalog").symlink_to("/opt/kafkalog/bin/kafkalog")
    share, documents = tree / "usr/share", tree / "usr/share/doc/kafkalog"
    for page in sorted((ROOT / "man").glob("*.1")):
        write(share / f"man/man1/{page.name}.gz", packed(page.read_bytes()))
    for source, target in (
        ("completions/kafkalog.bash", "usr/share/bash-completion/completions/kafkalog"),
        ("completions/_kafkalog", "usr/share/zsh/vendor-completions/_kafkalog"),
        ("completions/kafkalog.fish", "usr/share/fish/vendor_completions.d/kafkalog.fish"),
        ("packaging/debian/lintian-overrides", "usr/share/lintian/overrides/kafkalog"),
        ("packaging/debian/copyright", "usr/share/doc/kafkalog/copyright"),
        ("packaging/debian/sysusers", "usr/lib/sysusers.d/kafkalog.conf"),
        ("packaging/debian/default", "etc/default/kafkalog"),
    ):
        write(tree / target, (ROOT / source).read_bytes())
    write(documents / "changelog.gz", packed((ROOT / "CHANGELOG.md").read_bytes()))
    for example in sorted((ROOT / "packaging/monitoring").iterdir()):
        write(documents / "examples" / example.name, example.read_bytes())
    for unit in sorted((ROOT / "packaging/systemd").iterdir()):
        write(tree / "lib/systemd/system" / unit.name, unit.read_bytes())
    size = sum(path.stat().st_size for path in tree.rglob("*") if path.is_file() and not path.is_symlink())
    control = (debian / "control").read_text().format(version=VERSION, size=size // 1024)
    write(tree / "DEBIAN/control", control)
    write(tree / "DEBIAN/conffiles", "/etc/default/kafkalog\n")
    sums = [f"{digest(path, 'md5')}  {path.relative_to(tree)}\n" for path in sorted(tree.rglob("*"))
            if path.is_file() and not path.is_symlink() and path.relative_to(tree).parts[0] != "DEBIAN"]
    write(tree / "DEBIAN/md5sums", "".join(sums))
    for script in ("postinst", "prerm"):
        write(tree / "DEBIAN" / script, (debian / script).read_bytes(), 0o755)
    for path in sorted(tree.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or (path.stat().st_mode & 0o100 and path.suffix != ".so") else 0o644)
            os.utime(path, (int(environment["SOURCE_DATE_EPOCH"]),) * 2)
    path = into / f"kafkalog_{VERSION}_amd64.deb"
    run("dpkg-deb", "--build", "--root-owner-group", "-Zxz", tree, path, env=environment)
    return path


def write(path: Path, content: str | bytes, mode: int = 0o644) -> None:
    """A file with its directories."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    path.chmod(mode)


def packed(content: bytes) -> bytes:
    """In gzip, without a time."""
    return gzip.compress(content, 9, mtime=0)


def digest(path: Path, kind: str = "sha256") -> str:
    """The digest of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, kind).hexdigest()


def main() -> None:
    """Build all of it, or what is named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--into", type=Path, default=ROOT / "dist", help="an empty or new directory; default: dist")
    parser.add_argument("--wheel", action="append", choices=WHEELS, help="only these wheels; default: all")
    options = parser.parse_args()
    into = options.into.resolve()
    if into == ROOT / "dist":  # nothing but what this program made
        shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True, exist_ok=True)
    if any(into.iterdir()):
        sys.exit(f"dist: {into} is not empty: name an empty or a new directory")
    os.umask(0o022)  # modes of files are in wheels
    environment = {**os.environ, "SOURCE_DATE_EPOCH": epoch(), "PYTHONDONTWRITEBYTECODE": "1", "LC_ALL": "C.UTF-8"}
    with tempfile.TemporaryDirectory(prefix="kafkalog-dist-") as temporary:
        work = Path(temporary)
        made = [build_sdist(work, into, environment)]
        say(made[-1])
        for platform in options.wheel or WHEELS:
            made.append(build_wheel(made[0], platform, into, environment))
            say(made[-1])
        wheel = into / f"kafkalog-{VERSION}-cp311-abi3-{BUNDLED}.whl"
        if wheel in made:
            site, requirements = bundled(work, wheel, environment)
            for build in (build_program, build_package):
                made.append(build(work, site, into, environment))
                say(made[-1])
            made.append(into / f"kafkalog-{VERSION}.cdx.json")
            run(
                Path(sys.executable).with_name("cyclonedx-py"), "requirements", "--pyproject", ROOT / "pyproject.toml",
                "--output-reproducible", "--output-format", "JSON", "--output-file", made[-1], requirements, env=environment,
            )
            say(made[-1])
    (into / "SHA256SUMS").write_text("".join(f"{digest(path)}  {path.name}\n" for path in sorted(made)))


def say(path: Path) -> None:
    """One line for what was made."""
    print(f"    {path.name}: {path.stat().st_size / 1e6:.1f} MB", flush=True)


if __name__ == "__main__":
    main()
