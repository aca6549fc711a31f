"""A bucket that is a folder and counts its requests: for tests of paths that are URLs."""

from __future__ import annotations

from engine.files import ReadOnlyFiles
from engine.remote.storage import FolderStore


class FolderBucket(FolderStore):
    """See Bucket. `requests`: (what, key) or ("read", key, start, end), in order."""

    def __init__(self, folder):
        super().__init__(ReadOnlyFiles(), str(folder))
        self.requests = []

    def children(self, folder):
        """One request."""
        self.requests.append(("list", folder))
        found = list(super().list(f"{folder}/" if folder else ""))
        start = len(folder) + 1 if folder else 0
        here = [one for one in found if "/" not in one.key[start:]]
        below = dict.fromkeys(one.key[: one.key.index("/", start)] for one in found if "/" in one.key[start:])
        return list(below), here

    def list(self, prefix=""):
        """One request."""
        self.requests.append(("list all", prefix))
        return super().list(prefix)

    def find(self, key):
        """One request."""
        self.requests.append(("find", key))
        return super().find(key)

    def read(self, found, start, end):
        """One request."""
        self.requests.append(("read", found.key, start, end))
        return FolderStore(ReadOnlyFiles(), self.name).read(found, start, end)
