"""Real Kafka in one JVM: resolved by Maven, compiled by javac, fed with commands as JSON lines. See README.md.

    python -m tests.oracle.jvm      download and compile what the tests would otherwise wait for
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).resolve().parent
TARGET = HERE / "target"
SOURCES = sorted((HERE / "java").rglob("*.java"))
OPTIONS = [
    "-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-XX:-OmitStackTraceInFastThrow",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=off", "-Dfile.encoding=UTF-8",
]  # fmt: skip
ENVIRONMENT = {**os.environ, "LC_ALL": "C.UTF-8"}  # in other locales Java prints `?` for non-ASCII


class Ran(NamedTuple):
    """What a run of the real tool left: both streams, byte for byte, and the exit status."""

    stdout: bytes
    stderr: bytes
    exit: int


def missing_programs() -> list[str]:
    """Those of java, javac and mvn that are not on the PATH."""
    return [name for name in ("java", "javac", "mvn") if shutil.which(name) is None]


def class_path() -> str:
    """Kafka's jars and our classes, made once for each content of pom.xml and java/."""
    with _locked():
        jars = _jars(HERE / "pom.xml")
        return f"{_classes(jars)}:{jars}"


def class_path_of(project: str) -> str:
    """The jars of another project file beside pom.xml."""
    with _locked():
        return _jars(HERE / project)


@contextmanager
def _locked() -> Iterator[None]:
    TARGET.mkdir(exist_ok=True)
    with (TARGET / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _stamp(*files: Path) -> str:
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def _run(command: list[str]) -> None:
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} failed with status {done.returncode}:\n{done.stdout}{done.stderr}")


def _jars(pom: Path) -> str:
    file = TARGET / f"jars-{_stamp(pom)}.txt"
    if not file.exists() or not all(Path(jar).exists() for jar in file.read_text().split(":")):
        fresh = TARGET / "jars.tmp"
        goal = ["dependency:build-classpath", f"-Dmdep.outputFile={fresh}"]
        _run(["mvn", "-q", "-B", "-f", str(pom), "-Dstyle.color=never", *goal])
        fresh.replace(file)
    return file.read_text().strip()


def _classes(jars: str) -> Path:
    folder = TARGET / f"classes-{_stamp(HERE / 'pom.xml', *SOURCES)}"
    if not folder.exists():
        fresh = Path(tempfile.mkdtemp(dir=TARGET))
        _run(["javac", "-nowarn", "-proc:none", "-d", str(fresh), "-cp", jars, *map(str, SOURCES)])
        fresh.rename(folder)
    return folder


class Kafka:
    """A running JVM with Kafka's storage engine and dump tool. Close it.

    The JVM cannot change its working directory: it works in one of its own, where the entries of the caller's appear
    as links for one run of the dump tool.
    """

    def __init__(self) -> None:
        self._class_path = class_path()
        self._stage = Path(tempfile.mkdtemp(prefix="kafkalog-oracle-")).resolve()
        self._errors = tempfile.TemporaryFile()  # lives as long as the JVM
        self._process = subprocess.Popen(
            ["java", *OPTIONS, "-cp", self._class_path, "kafkalog.oracle.Main", "serve"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, cwd=self._stage, env=ENVIRONMENT,
        )  # fmt: skip

    def close(self) -> None:
        """End the JVM."""
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
        self._errors.close()
        shutil.rmtree(self._stage)

    def engine(self, *arguments: object) -> dict[str, Any]:
        """Run one command and return its answer; lines that `decode` prints before are in its "lines"."""
        self._process.stdin.write(json.dumps([str(one) for one in arguments]).encode() + b"\n")
        self._process.stdin.flush()
        lines = []
        while line := self._process.stdout.readline():
            answer = json.loads(line)
            if "command" in answer:
                answer["lines"] = lines
                return answer
            lines.append(answer)
        self._errors.seek(0)
        raise RuntimeError(f"the JVM stopped at {arguments}:\n{self._errors.read().decode(errors='replace')}")

    def dump(self, arguments: list[str], cwd: Path | str, *, own_jvm: bool = False) -> Ran:
        """Run the real kafka-dump-log as if in `cwd`. Files that it creates there are kept.

        own_jvm   start one in `cwd` itself (slow): for paths with `..`, and where several damaged files come in the
                  order that hashes of their absolute paths give
        """
        home = Path(cwd).resolve()
        if own_jvm:
            tool = ["java", *OPTIONS, "-cp", self._class_path, "org.apache.kafka.tools.DumpLogSegments", *arguments]
            done = subprocess.run(tool, cwd=home, env=ENVIRONMENT, capture_output=True, check=False)
            return Ran(done.stdout, done.stderr, done.returncode)
        links = {entry.name for entry in home.iterdir()}
        for name in links:
            (self._stage / name).symlink_to(home / name)
        try:
            answer = self.engine("dump-log", *arguments)
        finally:
            for entry in list(self._stage.iterdir()):
                if entry.name in links:
                    entry.unlink()
                else:
                    shutil.move(entry, home / entry.name)
        if answer["exit"] == -1:
            raise TimeoutError(f"kafka-dump-log {arguments} does not end")
        stage, real = str(self._stage).encode(), str(home).encode()
        streams = (base64.b64decode(answer[name]).replace(stage, real) for name in ("stdout", "stderr"))
        return Ran(*streams, answer["exit"])


if __name__ == "__main__":
    class_path()
