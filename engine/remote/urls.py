"""Parse paths that are URLs (s3://BUCKET/KEY).

It stands alone because commands check their paths with it: the code that reads URLs is imported only if there is one.
"""

from __future__ import annotations

from engine.discovery.names import URL
from engine.errors import UsageError, argument

BUCKETS = ("s3", "gs", "az")
SERVERS = ("http", "https")
FILE = "file"
SCHEMES = (*BUCKETS, *SERVERS, FILE)
_HADOOPS = {"s3a": "s3", "s3n": "s3", "abfs": "az", "abfss": "az"}  # Hadoop's names of these stores
_HDFS = ("hdfs", "webhdfs", "swebhdfs", "viewfs")


def scheme_of(path: str) -> str | None:
    """Return the scheme, s3 for Hadoop's s3a; None: a path of this machine. Raises UsageError for an unknown scheme."""
    match = URL.match(path)
    if match is None:
        return None
    if match[1] in _HDFS:
        do = f"copy it to a store or a mounted file system: hadoop distcp {argument(path)} s3a://BUCKET/KEY"
        raise UsageError(f"{path}: Hadoop's file system cannot be read", do, path=path)
    scheme = _HADOOPS.get(match[1], match[1])
    if scheme not in SCHEMES:
        raise UsageError(f"{path}: unknown scheme {match[1]}", f"use {'://, '.join(SCHEMES)}:// or a path", path=path)
    return scheme


def split(path: str) -> tuple[str, str] | None:
    """Split a path from `spelled` into (s3://BUCKET, key); None: a path of this machine."""
    match = URL.match(path)
    return None if match is None else (f"{match[1]}://{match[2]}", "/".join(name for name in match[3].split("/") if name))


def of_store(url: str) -> str:
    """Return the URL of a store with the scheme that is used here: s3a://BUCKET/KEY is s3://BUCKET/KEY.

    abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/KEY is az://CONTAINER@ACCOUNT/KEY. Raises UsageError for an unknown scheme.
    """
    scheme, match = scheme_of(url), URL.match(url)
    if match is None or scheme not in BUCKETS:
        return url
    container, at, host = match[2].partition("@")
    return f"{scheme}://{container}{at}{host.partition('.')[0] if scheme == 'az' else host}{match[3]}"


def spelled(path: str) -> str:
    """Convert a path from the command line: unescape keys (%20 is a space), and return /X for file:///X. See `of_store`.

    Raises UsageError for an unsupported URL.
    """
    scheme = scheme_of(path)
    if scheme is None:
        return path
    from urllib.parse import unquote

    match = URL.match(of_store(path))
    assert match is not None  # it has a scheme
    if scheme == FILE:
        if match[2] not in ("", "localhost"):
            raise UsageError(f"{path}: a file of another machine", "write file:///PATH with three slashes", path=path)
        return unquote(match[3]) or "/"
    if not match[2]:
        what = "server" if scheme in SERVERS else "bucket"
        raise UsageError(f"{path}: the URL has no {what}", f"write {scheme}://{what.upper()}/KEY", path=path)
    if scheme in SERVERS and "?" in match[3]:
        do = f"download the file and name it: curl -o FILE '{path}'"
        raise UsageError(f"{path}: a URL with a query (?…) cannot be read by ranges", do, path=path)
    return f"{scheme}://{match[2]}{unquote(match[3])}"
