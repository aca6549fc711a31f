"""Servers with the interfaces of Google Cloud Storage and Azure: `python -m tests.s3.others` builds them (Go, npm), tests start them.

fake-gcs-server has no writes of the XML API, which obstore uses: `gcs_writes` translates them. Only the standard library is imported,
as in `server`.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import urllib.request
from typing import TYPE_CHECKING, Self

from tests.s3.gcs_writes import Translator
from tests.s3.server import HERE as S3
from tests.s3.server import LocalServer, install_go_program
from tests.s3.server import build as build_s3

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

GCS_VERSION, AZURITE_VERSION = "v1.56.1", "3.35.0"
HERE = S3.parent / "other-servers"
FAKE_GCS, AZURITE = HERE / "fake-gcs-server", HERE / "node_modules/.bin/azurite-blob"
ACCOUNT, KEY = "devstoreaccount1", "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="  # of every Azurite


def build() -> None:
    """Build the servers, also the one for S3, unless they are there."""
    build_s3()
    HERE.mkdir(parents=True, exist_ok=True)
    if not FAKE_GCS.exists():
        install_go_program(f"github.com/fsouza/fake-gcs-server@{GCS_VERSION}", HERE)
    if not AZURITE.exists():
        if shutil.which("npm") is None:
            sys.exit("npm is not on the PATH: apt-get install npm")
        words = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(HERE), f"azurite@{AZURITE_VERSION}"]
        subprocess.run(words, check=True)


class Azurite(LocalServer):
    """Azure's blob storage, in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.environment = {
            "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT, "AZURE_STORAGE_ACCOUNT_KEY": KEY, "AZURE_STORAGE_ENDPOINT": f"{self.url}/{ACCOUNT}",
            "AZURE_ALLOW_HTTP": "true",
        }  # fmt: skip

    def words(self) -> list[str]:
        """See LocalServer."""
        return [str(AZURITE), "--blobHost", "127.0.0.1", "--blobPort", str(self.port), "--inMemoryPersistence", "--silent",
                "--skipApiVersionCheck", "--disableTelemetry"]  # fmt: skip

    def put(self, container: str, objects: Iterable[tuple[str, Path]]) -> None:
        """Make a container with objects."""
        import base64
        import email.utils
        import hashlib
        import hmac

        from obstore import put
        from obstore.store import AzureStore

        date, version = email.utils.formatdate(usegmt=True), "2021-08-06"
        text = "PUT" + "\n" * 12 + f"x-ms-date:{date}\nx-ms-version:{version}\n/{ACCOUNT}/{ACCOUNT}/{container}\nrestype:container"
        seal = base64.b64encode(hmac.new(base64.b64decode(KEY), text.encode(), hashlib.sha256).digest()).decode()
        headers = {"x-ms-date": date, "x-ms-version": version, "Authorization": f"SharedKey {ACCOUNT}:{seal}", "Content-Length": "0"}
        address = f"{self.url}/{ACCOUNT}/{container}?restype=container"
        urllib.request.urlopen(urllib.request.Request(address, method="PUT", headers=headers)).close()
        store = AzureStore(container, account_name=ACCOUNT, account_key=KEY, endpoint=f"{self.url}/{ACCOUNT}", client_options={"allow_http": True})
        for key, path in objects:
            put(store, key, path.read_bytes())


class FakeGcs(LocalServer):
    """Google Cloud Storage, in memory. Clients write through a Translator."""

    def __init__(self) -> None:
        super().__init__()
        self._translator = Translator(self.url)
        account = {"gcs_base_url": self._translator.url, "disable_oauth": True, "client_email": "", "private_key": "", "private_key_id": ""}
        self.environment = {"GOOGLE_SERVICE_ACCOUNT_KEY": json.dumps(account), "GOOGLE_ALLOW_HTTP": "true"}

    def words(self) -> list[str]:
        """See LocalServer."""
        return [str(FAKE_GCS), "-scheme", "http", "-host", "127.0.0.1", "-port", str(self.port), "-backend", "memory",
                "-public-host", f"127.0.0.1:{self.port}"]  # fmt: skip

    def __enter__(self) -> Self:
        self._translator.start()
        return super().__enter__()

    def __exit__(self, *error: object) -> None:
        self._translator.stop()
        super().__exit__(*error)

    def put(self, bucket: str, objects: Iterable[tuple[str, Path]]) -> None:
        """Make a bucket with objects."""
        self._translator.make_bucket(bucket)
        for key, path in objects:
            self._translator.insert(bucket, key, path.read_bytes())


if __name__ == "__main__":
    build()
