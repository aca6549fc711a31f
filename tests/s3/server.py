"""versitygw, an S3 server that keeps objects as files: `python -m tests.s3.server` builds it, tests start it.

It comes through the Go module proxy and is built once for a version. Only the standard library is imported: CI builds it while
it makes the environment for everything else.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Self

VERSION = "v1.8.0"
TOOLCHAIN = "golang.org/toolchain@v0.0.1-go1.25.0"  # the Go that this version asks for
_FETCHES_TOOLCHAINS = (1, 21)  # the first Go that does
PACKAGE = "github.com/versity/versitygw/cmd/versitygw"
HERE = Path(__file__).resolve().parents[2] / "build" / f"versitygw-{VERSION}"
PROGRAM = HERE / "versitygw"
KEY, SECRET = "tests", "tests-secret"
_PATIENCE = 30  # seconds


def build() -> None:
    """Build the server, unless it is there."""
    if PROGRAM.exists():
        return
    install_go_program(f"{PACKAGE}@{VERSION}", HERE)


def install_go_program(package: str, directory: Path) -> None:
    """Build a program of the Go module proxy, PACKAGE@VERSION, into `directory`."""
    if shutil.which("go") is None:
        sys.exit("go is not on the PATH: apt-get install golang-go")
    directory.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "GOBIN": str(directory), "GOTOOLCHAIN": "auto"}
    words = ["install", "-p", "2", "-ldflags=-s -w", package]  # without what debuggers need: linked sooner
    subprocess.run([new_enough_go(), *words], check=True, env=environment)


def new_enough_go() -> str:
    """The `go` of the PATH, which fetches the Go that a module asks for; one before 1.21 (Debian 12) is made to do the same."""
    known = json.loads(_said("go", "env", "-json", "GOVERSION", "GOOS", "GOARCH"))
    version = re.match(r"go(\d+)\.(\d+)", known["GOVERSION"])
    if version is None or tuple(map(int, version.groups())) >= _FETCHES_TOOLCHAINS:
        return "go"
    found = json.loads(_said("go", "mod", "download", "-json", f"{TOOLCHAIN}.{known['GOOS']}-{known['GOARCH']}"))
    top = Path(found["Dir"])
    for path in (*top.glob("bin/*"), *top.glob("pkg/tool/*/*")):
        path.chmod(0o555)  # modules have no programs
    return str(top / "bin/go")


def _said(*words: str) -> str:
    """What a program prints."""
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout


class LocalServer(ABC):
    """A server on this machine, in a `with` statement. `environment`: what clients need to find it."""

    environment: dict[str, str]

    def __init__(self) -> None:
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            self.port = one.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def words(self) -> list[str]:
        """The command."""

    def own_environment(self) -> dict[str, str]:
        """The variables of the server itself."""
        return {}

    def __enter__(self) -> Self:
        environment = {**os.environ, **self.own_environment()}
        self._process = subprocess.Popen(self.words(), env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                urllib.request.urlopen(self.url, timeout=1)
            except urllib.error.HTTPError:
                break  # it answers
            except OSError:
                time.sleep(0.1)
        return self

    def __exit__(self, *_error: object) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait()


class Server(LocalServer):
    """versitygw; its buckets are the folders in `top`. `requests`: the requests so far, one a line."""

    def __init__(self, top: Path) -> None:
        super().__init__()
        self._data, self._metadata, self._log = top / "data", top / "metadata", top / "access.log"
        self.environment = {
            "AWS_ENDPOINT_URL": self.url, "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET,
        }  # fmt: skip

    @property
    def requests(self) -> list[str]:
        """See the class."""
        return self._log.read_text().splitlines()

    def make_bucket(self, name: str) -> None:
        """Before it is started."""
        (self._data / name).mkdir(parents=True)

    def __enter__(self) -> Self:
        self._data.mkdir(parents=True, exist_ok=True)
        self._metadata.mkdir(parents=True)
        return super().__enter__()

    def words(self) -> list[str]:
        """See LocalServer."""
        return [str(PROGRAM), "--port", f"127.0.0.1:{self.port}", "--access-log", str(self._log), "posix", "--sidecar", str(self._metadata),
                str(self._data)]  # fmt: skip

    def own_environment(self) -> dict[str, str]:
        """See LocalServer."""
        return {"ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET}


if __name__ == "__main__":
    build()
