"""versitygw, an S3 server that keeps objects as files: `python -m tests.s3.server` builds it, tests start it.

It comes through the Go module proxy, is built once for a version, and is never part of CI.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Self

VERSION = "v1.8.0"
PACKAGE = "github.com/versity/versitygw/cmd/versitygw"
HERE = Path(__file__).resolve().parents[2] / "build" / f"versitygw-{VERSION}"
PROGRAM = HERE / "versitygw"
KEY, SECRET = "tests", "tests-secret"
_PATIENCE = 30  # seconds


def build() -> None:
    """Build the server, unless it is there."""
    if PROGRAM.exists():
        return
    if shutil.which("go") is None:
        sys.exit("go is not on the PATH")
    HERE.mkdir(parents=True, exist_ok=True)
    subprocess.run(["go", "install", f"{PACKAGE}@{VERSION}"], check=True, env={**os.environ, "GOBIN": str(HERE)})


class Server:
    """A server on this machine, whose buckets are the folders in `top`. Use it in a `with` statement.

    environment  what clients need to find it
    """

    def __init__(self, top: Path) -> None:
        self._data, self._metadata = top / "data", top / "metadata"
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            self._address = f"127.0.0.1:{one.getsockname()[1]}"
        self.environment = {
            "AWS_ENDPOINT_URL": f"http://{self._address}", "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET,
        }  # fmt: skip
        self._process: subprocess.Popen[bytes] | None = None

    def make_bucket(self, name: str) -> None:
        """Before it is started."""
        (self._data / name).mkdir(parents=True)

    def __enter__(self) -> Self:
        self._data.mkdir(parents=True, exist_ok=True)
        self._metadata.mkdir(parents=True)
        words = [str(PROGRAM), "--port", self._address, "posix", "--sidecar", str(self._metadata), str(self._data)]
        environment = {**os.environ, "ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET}
        self._process = subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                urllib.request.urlopen(f"http://{self._address}/", timeout=1)
            except urllib.error.HTTPError:
                break  # it answers
            except OSError:
                time.sleep(0.1)
        return self

    def __exit__(self, *_error: object) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait()


if __name__ == "__main__":
    build()
