"""Object stores (S3, Google Cloud Storage, Azure, HTTP) through obstore. The only module that imports obstore."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine.errors import OversizedFile, UnreadableFile, UnwritableFile, UsageError
from engine.remote.requests import answer
from engine.remote.storage import Object, changed
from engine.remote.urls import SERVERS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from obstore import GetOptions, GetResult
    from obstore.store import ClientConfig, RetryConfig
    from obstore.store import ObjectStore as AnyStore

_AT_ONCE = 8 << 20  # bytes of an object per write request
_SERVERS = tuple(f"{scheme}://" for scheme in SERVERS)
_RETRIES, _RETRY_SECONDS = 6, 60  # limits for the retries of a request
_PAST_END = " 416 "  # HTTP status: the range begins after the end of the object
_MISSING = "kafkalog needs the package obstore for object stores"


class ObjectStore:
    """A bucket, or a prefix in a bucket, by URL. See `storage.WritableStore`.

    client     settings that override the environment
    is_server  the URL is an HTTP server without listings, even if its name is that of an object store
    obstore reads credentials, region and endpoint from the environment and its profiles (AWS_â¦, GOOGLE_â¦, AZURE_â¦). Failed
    requests are repeated with growing pauses, at most six times within a minute. Ctrl-C ends the wait for a request that
    changes nothing.
    """

    def __init__(self, url: str, *, client: Mapping[str, str] | None = None, is_server: bool = False) -> None:
        try:
            from obstore.exceptions import BaseError
            from obstore.store import HTTPStore, from_url
        except ImportError:
            raise UsageError(_MISSING, "pip install 'kafkalog[remote]'") from None
        self.name = url.rstrip("/")
        self._refusals = (BaseError, OSError, ValueError)  # OSError includes FileNotFoundError
        try:
            settings: Any = client or None  # with the names of obstore
            is_plain = client is not None and client.get("endpoint", "").startswith("http:")
            options: ClientConfig | None = {"allow_http": True} if is_plain else None
            if is_server:
                self._store: AnyStore = HTTPStore.from_url(url, client_options={"allow_http": True}, retry_config=_retries())
            else:
                self._store = from_url(url, config=settings, client_options=options, retry_config=_retries())
        except self._refusals as error:
            raise UsageError(f"{url}: {_first_line(error)}", self._advice(error), path=url) from error

    def path(self, key: str) -> str:
        """See Store."""
        return f"{self.name}/{key}"

    def list(self, prefix: str = "") -> Iterator[Object]:
        """See Store. Object stores list whole folders, so other keys in the folder are left out here."""
        from obstore import list as list_objects

        below, _, _ = prefix.rpartition("/")
        try:
            chunks = list_objects(self._store, prefix=below or None)
            while (chunk := answer(lambda: next(chunks, None))) is not None:
                for one in sorted(chunk, key=lambda one: str(one["path"])):
                    if one["path"].startswith(prefix):
                        yield _object(one)
        except self._refusals as error:
            raise self._failed(prefix, error) from error

    def children(self, folder: str) -> tuple[Sequence[str], Sequence[Object]]:
        """See Bucket."""
        from obstore import list_with_delimiter

        try:
            found = answer(lambda: list_with_delimiter(self._store, folder or None))
        except self._refusals as error:
            raise self._failed(folder, error) from error
        return found["common_prefixes"], [_object(one) for one in found["objects"]]

    def find(self, key: str) -> Object | None:
        """See Store."""
        from obstore import head

        try:
            return _object(answer(lambda: head(self._store, key)))
        except FileNotFoundError:
            return None
        except self._refusals as error:
            raise self._failed(key, error) from error

    def read(self, found: Object, start: int, end: int) -> bytes | memoryview:
        """See Store."""
        from obstore import get
        from obstore.exceptions import PreconditionError

        if start == end:
            return b""
        options: GetOptions = {"range": (start, end)}
        if found.etag is not None:
            options["if_match"] = found.etag
        try:
            meta, data = answer(lambda: _received(get(self._store, found.key, options=options)))
            is_same = _object(meta)._replace(key=found.key) == found
        except (FileNotFoundError, PreconditionError) as error:
            raise changed(self.path(found.key)) from error
        except self._refusals as error:
            raise self._failed(found.key, error) from error
        if len(data) != end - start or not is_same:
            raise changed(self.path(found.key))
        return data

    def find_and_read(self, key: str, start: int, end: int) -> tuple[Object, bytes | memoryview] | None:
        """See Store."""
        from obstore import get

        try:
            meta, data = answer(lambda: _received(get(self._store, key, options={"range": (start, end)})))
        except FileNotFoundError:
            return None
        except self._refusals as error:
            found = self.find(key) if _PAST_END in _first_line(error) else None
            if found is not None and found.size <= start:
                return found, b""
            raise self._failed(key, error) from error
        found = _object(meta)._replace(key=key)
        if len(data) != min(end, found.size) - start:
            raise changed(self.path(key))
        return found, data

    def read_whole(self, key: str, limit: int) -> bytes | None:
        """See Store."""
        from obstore import get

        try:
            size, data = answer(lambda: self._whole(get(self._store, key), key, limit))
        except FileNotFoundError:
            return None
        except self._refusals as error:
            raise self._failed(key, error) from error
        if len(data) != size:
            raise changed(self.path(key))
        return data

    def _whole(self, found: GetResult, key: str, limit: int) -> tuple[int, bytes]:
        size = found.meta["size"]
        if size > limit:
            raise OversizedFile(self.path(key), size, limit)
        return size, bytes(found.bytes())

    def put(self, key: str, size: int, parts: Iterable[bytes]) -> None:
        """See WritableStore. A large object is written in parts, and exists after the last one is written."""
        from obstore import put
        from obstore.exceptions import AlreadyExistsError

        path = self.path(key)
        try:
            if size <= _AT_ONCE:
                data = b"".join(parts)
                if len(data) != size:
                    raise UnwritableFile(f"{path}: {len(data)} bytes were read, not {size}")
                put(self._store, key, data, mode="create")
            elif self.find(key) is not None:
                raise UnwritableFile(f"{path}: the object already exists")
            else:
                put(self._store, key, iter(parts), chunk_size=_AT_ONCE)
        except AlreadyExistsError as error:
            raise UnwritableFile(f"{path}: the object already exists") from error
        except self._refusals as error:
            raise self._unwritable(path, error) from error

    def delete(self, found: Object) -> None:
        """See WritableStore."""
        from obstore import delete

        there = self.find(found.key)
        if there is None:
            return
        if (there.etag, there.size) != (found.etag, found.size):
            raise changed(self.path(found.key))
        try:
            delete(self._store, found.key)
        except FileNotFoundError:
            return
        except self._refusals as error:
            raise self._unwritable(self.path(found.key), error) from error

    def _unwritable(self, path: str, error: Exception) -> UnwritableFile:
        return UnwritableFile(f"{path}: {_first_line(error)}", self._advice(error))

    def _failed(self, key: str, error: Exception) -> UnreadableFile:
        path = self.path(key)
        return UnreadableFile(f"{path}: {_first_line(error)}", self._advice(error), path=path)

    def _advice(self, error: Exception) -> str:
        from obstore.exceptions import NotSupportedError

        if isinstance(error, NotSupportedError):
            return "the server does not support range requests: download the file, for example with curl -O, and name the copy"
        return _CHECKS.get(self.name.partition("://")[0], _CHECK)


def open_bucket(name: str) -> ObjectStore:
    """Open a whole bucket or an HTTP server, given as s3://BUCKET or https://HOST."""
    return ObjectStore(name, is_server=name.startswith(_SERVERS))


def _retries() -> RetryConfig:
    from datetime import timedelta

    return {
        "max_retries": _RETRIES, "retry_timeout": timedelta(seconds=_RETRY_SECONDS),
        "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=8), "base": 2},
    }  # fmt: skip


_CHECK = "check the address, and whether a proxy is needed (HTTPS_PROXY)"
_CHECKS = {
    "s3": "check the bucket's name, region and endpoint (AWS_REGION, AWS_ENDPOINT_URL, …) and the credentials "
          "(AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, …)",
    "gs": "check the bucket's name and the credentials (GOOGLE_APPLICATION_CREDENTIALS, …)",
    "az": "check the container's name, the account and its key (AZURE_STORAGE_ACCOUNT_NAME, AZURE_STORAGE_ACCOUNT_KEY, …)",
}  # fmt: skip


def _object(meta: Any) -> Object:
    return Object(meta["path"], meta["size"], meta.get("e_tag"), int(meta["last_modified"].timestamp() * 1000))


def _received(found: GetResult) -> tuple[Any, memoryview]:
    return found.meta, memoryview(found.bytes())


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
