"""Paths that are URLs, s3://BUCKET/KEY: which ones are, how they are spelled, and what files a command reads them through.

It is by itself because every command looks at its paths, and most never meet a URL: the rest is loaded for one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from engine.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.files import ReadOnlyFiles

BUCKETS = ("s3", "gs", "az")
SERVERS = ("http", "https")
FILE = "file"
SCHEMES = (*BUCKETS, *SERVERS, FILE)
_URL = re.compile(r"([a-z][a-z0-9+.-]*)://([^/]*)(.*)", re.DOTALL)


def is_url(path: str) -> bool:
    """Does it begin with a scheme?"""
    return _URL.match(path) is not None


def scheme_of(path: str) -> str | None:
    """The scheme; None: a path of this machine. Raises UsageError for a scheme that nothing is known of."""
    match = _URL.match(path)
    if match is None:
        return None
    if match[1] not in SCHEMES:
        raise UsageError(f"{path}: unknown scheme {match[1]}", f"use {'://, '.join(SCHEMES)}:// or a path", path=path)
    return match[1]


def split(path: str) -> tuple[str, str] | None:
    """(s3://BUCKET, key) of a path as `spelled` gives it; None: a path of this machine."""
    match = _URL.match(path)
    return None if match is None else (f"{match[1]}://{match[2]}", "/".join(name for name in match[3].split("/") if name))


def spelled(path: str) -> str:
    """How the path that a user named is spelled from there on: a key as the store has it (%20 is a space), file:///X as /X.

    Raises UsageError for what no URL of ours can be.
    """
    scheme = scheme_of(path)
    if scheme is None:
        return path
    from urllib.parse import unquote

    match = _URL.match(path)
    assert match is not None  # it has a scheme
    if scheme == FILE:
        if match[2] not in ("", "localhost"):
            raise UsageError(f"{path}: a file of another machine", "write file:///PATH with three slashes", path=path)
        return unquote(match[3]) or "/"
    if not match[2]:
        what = "server" if scheme in SERVERS else "bucket"
        raise UsageError(f"{path}: it names no {what}", f"write {scheme}://{what.upper()}/KEY", path=path)
    if scheme in SERVERS and "?" in match[3]:
        do = f"download the file and name it: curl -o FILE '{path}'"
        raise UsageError(f"{path}: a URL with a query (?…) cannot be read by ranges", do, path=path)
    return f"{scheme}://{match[2]}{unquote(match[3])}"


def files_for(paths: Iterable[str]) -> ReadOnlyFiles:
    """What reads all of `paths`, and what lies beside them."""
    if any(map(is_url, paths)):
        from engine.remote.url_files import UrlFiles

        return UrlFiles()
    from engine.files import ReadOnlyFiles

    return ReadOnlyFiles()
