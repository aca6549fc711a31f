"""Object stores (S3, Google Cloud Storage, Azure, HTTP) through obstore. The only module that imports obstore."""

from __future__ import annotations

import re
from html import unescape
from typing import TYPE_CHECKING, Any

from engine.background import answer
from engine.errors import OversizedFile, UnreadableFile, UnwritableFile, UsageError, argument
from engine.files import environment_variable
from engine.remote.storage import Object, changed, of_size
from engine.remote.urls import SERVERS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from obstore import GetOptions, GetResult
    from obstore.store import ClientConfig, RetryConfig
    from obstore.store import ObjectStore as AnyStore

_PAGE = 1000  # objects in a page of a listing
_MOST_OBJECTS, _MOST_NAMES = 10_000_000, 200_000  # in a listing; directly below a folder
_ENDLESS = "name a longer prefix; if it does not help, the server does not list its objects correctly"
_AT_ONCE = 8 << 20  # bytes of an object per write request
_SERVERS = tuple(f"{scheme}://" for scheme in SERVERS)
_RETRIES, _RETRY_SECONDS = 6, 60  # limits for the retries of a request
_PAST_END = " 416 "  # HTTP status: the range begins after the end of the object
_MISSING = "kafkalog needs the package obstore for object stores"


class ObjectStore:
    """A bucket, or a prefix in a bucket, by URL. See `storage.WritableStore`.

    url        s3://BUCKET/PREFIX, gs://, az://CONTAINER or az://CONTAINER@ACCOUNT, https://HOST
    client     settings that override the environment
    is_server  the URL is an HTTP server without listings, even if its name is that of an object store
    obstore reads credentials, region and endpoint from the environment (AWS_…, GOOGLE_…, AZURE_…). Failed
    requests are repeated with growing pauses, at most six times within a minute. Ctrl-C ends the wait for a request that
    changes nothing.
    """

    def __init__(self, url: str, *, client: Mapping[str, str] | None = None, is_server: bool = False) -> None:
        try:
            from obstore.exceptions import BaseError
            from obstore.store import HTTPStore, from_url
        except ImportError:
            raise UsageError(_MISSING, "pip install 'kafkalog[remote]'") from None
        self.name, self._is_configured = url.rstrip("/"), client is not None and bool(client)
        self._refusals = (BaseError, OSError, ValueError)  # OSError includes FileNotFoundError
        try:
            url, account = _account(url)
            settings: Any = {**account, **(client or {})} or None  # with the names of obstore
            is_plain = any((client or {}).get(name, "").startswith("http:") for name in ("endpoint", "base_url"))
            options: ClientConfig | None = {"allow_http": True} if is_plain else None
            if is_server:
                self._store: AnyStore = HTTPStore.from_url(url, client_options={"allow_http": True}, retry_config=_retries())
            else:
                if url.startswith("s3://"):
                    _refuse_without_credentials(url, client or {})
                self._store = from_url(url, config=settings, client_options=options, retry_config=_retries())
        except self._refusals as error:
            raise UsageError(f"{url}: {_reason(error)}", self._advice(error), path=url) from error

    def path(self, key: str) -> str:
        """See Store."""
        return f"{self.name}/{key}"

    def list(self, prefix: str = "") -> Iterator[Object]:
        """See Store. Object stores list whole folders, so other keys in the folder are left out here."""
        below, _, _ = prefix.rpartition("/")
        for chunk in self._chunks(below, prefix):
            yield from (one for one in sorted(chunk, key=lambda one: one.key) if one.key.startswith(prefix))

    def children(self, folder: str) -> tuple[Sequence[str], Sequence[Object]]:
        """See Bucket. A listing of everything below the folder finds endless listings; a long one is replaced."""
        try:
            return self._children(folder)
        except _UnusableKeys:  # a subfolder may have them
            return self._direct_children(folder)

    def _children(self, folder: str) -> tuple[Sequence[str], Sequence[Object]]:
        folders: dict[str, None] = {}
        objects: list[Object] = []
        below, deeper = len(folder) + bool(folder), 0  # deeper: objects in subfolders
        for chunk in self._chunks(folder, folder):
            for one in chunk:
                name, slash, _ = one.key[below:].partition("/")
                if slash:
                    folders[one.key[:below] + name] = None
                    deeper += 1
                else:
                    objects.append(one)
            if deeper >= _PAGE:
                return self._direct_children(folder)
            self._refuse_too_many(folder, len(folders) + len(objects))
        return list(folders), objects

    def _direct_children(self, folder: str) -> tuple[Sequence[str], Sequence[Object]]:
        """See `children`. One request for 1,000 names, whatever the subfolders contain."""
        from obstore import list_with_delimiter

        try:
            found = answer(lambda: list_with_delimiter(self._store, folder or None))
        except self._refusals as error:
            raise self._failed(folder, error) from error
        self._refuse_too_many(folder, len(found["common_prefixes"]) + len(found["objects"]))
        return found["common_prefixes"], [_object(one) for one in found["objects"]]

    def _refuse_too_many(self, folder: str, names: int) -> None:
        if names > _MOST_NAMES:
            path, what = self.path(folder), f"more than {_MOST_NAMES:,} names, or a listing without an end"
            raise UnreadableFile(f"{path}: {what}", _ENDLESS, path=path)

    def _chunks(self, folder: str, prefix: str) -> Iterator[Sequence[Object]]:
        """Yield all objects below a folder, in pages. `prefix`: for errors."""
        from obstore import list as list_objects

        path, count = self.path(prefix), 0
        firsts = set()  # the first keys of the chunks
        try:
            chunks = list_objects(self._store, prefix=folder or None)
            while (chunk := answer(lambda: next(chunks, None))) is not None:
                if not chunk:
                    continue
                first, count = chunk[0]["path"], count + len(chunk)
                if first in firsts or len({one["path"] for one in chunk}) < len(chunk):
                    raise UnreadableFile(f"{path}: the listing repeats {first}: it has no end", _ENDLESS, path=path)
                if count > _MOST_OBJECTS:
                    what = f"{path}: more than {_MOST_OBJECTS:,} objects; either the listing has no end, or they are too many"
                    raise UnreadableFile(what, _ENDLESS, path=path)
                firsts.add(first)
                yield [_object(one) for one in chunk]
        except self._refusals as error:
            raise self._failed(prefix, error) from error

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
            options["if_match"] = found.etag if found.etag.startswith("W/") else f'"{found.etag}"'
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
                put(self._store, key, b"".join(of_size(parts, size, path)), mode="create")
            elif self.find(key) is not None:
                raise UnwritableFile(f"{path}: the object already exists")
            else:
                put(self._store, key, of_size(parts, size, path), chunk_size=_AT_ONCE)
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
        return UnwritableFile(f"{path}: {_reason(error)}", self._advice(error))

    def _failed(self, key: str, error: Exception) -> UnreadableFile:
        path = self.path(key)
        sort = _UnusableKeys if re.search(_UNUSABLE, str(error)) else UnreadableFile
        return sort(f"{path}: {_reason(error)}", self._advice(error), path=path)

    def _advice(self, error: Exception) -> str:
        from obstore.exceptions import NotSupportedError

        if isinstance(error, NotSupportedError):
            return "the server does not support range requests: download the file, for example with curl -O, and name the copy"
        scheme, text = self.name.partition("://")[0], str(error)
        do = next((do for shown, do in _ANY_STORE if re.search(shown, text)), None)
        if do is not None:
            return do
        if self._is_configured:
            return "check the bucket, endpoint, region and credentials in the settings rsm.config.storage.*"
        kind = next((kind for kind, shown in _KINDS if re.search(shown, text)), _ANY)
        checks = _CHECKS.get(scheme, {})
        return checks.get(kind) or checks.get(_ANY) or _CHECK


class _UnusableKeys(UnreadableFile):
    """A key that obstore refuses: in the request, or anywhere in a listing."""


def _account(url: str) -> tuple[str, dict[str, str]]:
    """Split az://CONTAINER@ACCOUNT/PREFIX into the URL for obstore and its settings; other URLs have none."""
    place, slash, prefix = url.removeprefix("az://").partition("/")
    container, at, account = place.partition("@")
    if not at or not url.startswith("az://"):
        return url, {}
    return f"az://{container}{slash}{prefix}", {"account_name": account}


def open_bucket(name: str) -> ObjectStore:
    """Open a whole bucket or an HTTP server, given as s3://BUCKET or https://HOST."""
    return ObjectStore(name, is_server=name.startswith(_SERVERS))


def _retries() -> RetryConfig:
    from datetime import timedelta

    return {
        "max_retries": _RETRIES, "retry_timeout": timedelta(seconds=_RETRY_SECONDS),
        "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=8), "base": 2},
    }  # fmt: skip


def _refuse_without_credentials(url: str, client: Mapping[str, str]) -> None:
    """Raise UsageError if obstore would wait long for the metadata service of a cloud, although this machine is in none."""
    if "access_key_id" in client or any(map(environment_variable, _CREDENTIALS)):
        return
    profile = environment_variable("AWS_PROFILE")
    if profile:
        do = f'eval "$(aws configure export-credentials --profile {argument(profile)} --format env)"    # then again'
        raise UsageError(f"{url}: credentials are read from the environment, not from profiles (AWS_PROFILE)", do, path=url)
    from datetime import timedelta

    from obstore import head
    from obstore.exceptions import BaseError
    from obstore.store import HTTPStore

    wait = timedelta(seconds=_METADATA_SECONDS)
    options: ClientConfig = {"allow_http": True, "connect_timeout": wait, "timeout": wait}
    service = HTTPStore.from_url(
        environment_variable("AWS_METADATA_ENDPOINT") or _METADATA, client_options=options, retry_config={"max_retries": 0}
    )
    try:
        answer(lambda: head(service, "latest"))
    except (BaseError, OSError, ValueError) as error:  # an answer, even if it is an error, shows that the service exists
        if re.search(_UNREACHABLE, str(error)):
            what = f"{url}: there are no credentials in the environment, and this machine has no metadata service with any"
            do = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_SKIP_SIGNATURE=true for a public bucket"
            raise UsageError(what, do, path=url) from error


_METADATA, _METADATA_SECONDS = "http://169.254.169.254", 2
# environment variables with which obstore does not ask the metadata service
_CREDENTIALS = (
    "AWS_ACCESS_KEY_ID", "AWS_SKIP_SIGNATURE", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)  # fmt: skip
_UNREACHABLE = r"kind: (Connect|Timeout)"
_ANY, _NO_TLS, _SLOW, _NETWORK, _REGION, _DENIED, _NO_BUCKET = range(7)  # kinds of errors
_KINDS = (
    (_NO_TLS, r"builder error|InvalidContentType|BadScheme"), (_SLOW, r"kind: Timeout"), (_NETWORK, _UNREACHABLE),
    (_REGION, r"AuthorizationHeaderMalformed|PermanentRedirect|LocationConstraint|\b301 "),
    (_DENIED, r"\b(401|403) |InvalidAccessKeyId|access key ID|SignatureDoesNotMatch|AccessDenied"),
    (_NO_BUCKET, r"NoSuchBucket|ContainerNotFound|\b404 "),
)  # fmt: skip
_CAUSES = (
    ("builder error", "plain HTTP is not allowed"), ("InvalidContentType", "the server does not use TLS"),
    ("kind: Timeout", "no answer"),
)  # fmt: skip
_UNUSABLE = r"invalid path|Could not parse path"
_ANY_STORE = (
    (_UNUSABLE, "name a folder without keys like a//b, a/../b or with control characters, or copy their objects to other keys"),
    (r"(?s)^(?!.*kind: Timeout).*response body error",
     "the answer ended too early: run the command again, and check the network and the server"),
    (r"non-partial response|error following redirect|Content-Length Header missing|Requested \d+\.\.\d+, got",
     "the answer is not that of an object store: check the endpoint, and whether a proxy or a login page answers"),
)  # fmt: skip
_LONGEST = 300  # characters of a message from the server
_CHECK = "check the address, and whether a proxy is needed (HTTPS_PROXY)"
_CHECKS = {
    "s3": {
        _ANY: "check the bucket's name, region and endpoint (AWS_REGION, AWS_ENDPOINT_URL, …) and the credentials "
              "(AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, …)",
        _NO_TLS: "for a server without TLS: AWS_ENDPOINT_URL=http://… and AWS_ALLOW_HTTP=true",
        _SLOW: "check endpoint and region (AWS_ENDPOINT_URL, AWS_REGION); for a slow connection: AWS_TIMEOUT=10m",
        _NETWORK: "check endpoint and region (AWS_ENDPOINT_URL, AWS_REGION), and whether a proxy is needed (HTTPS_PROXY)",
        _REGION: "check the region of the bucket: AWS_REGION",
        _DENIED: "check the credentials (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN) and their rights",
        _NO_BUCKET: "check the bucket's name, and the endpoint (AWS_ENDPOINT_URL)",
    },
    "gs": {_ANY: "check the bucket's name and the credentials (GOOGLE_APPLICATION_CREDENTIALS, …)"},
    "az": {_ANY: "check the container, the account and its key (AZURE_STORAGE_ACCOUNT_NAME, AZURE_STORAGE_ACCOUNT_KEY, …)"},
}  # fmt: skip


def _reason(error: Exception) -> str:
    """Return the cause of an error in one line: what the server answered, or why it did not."""
    text = str(error)
    request = re.search(r"Error performing ([A-Z]+) (\S+?)(?:\?\S*)? in ", text)
    if request is None:
        return _first_line(error)
    where = f"{request[1]} {request[2]}"
    status = re.search(r"status code: (\d+[A-Za-z -]*)", text)
    if status is not None:
        parts = (re.search(rf"<{name}>([^<]*)", text) for name in ("Code", "Message"))
        answered = [unescape(part[1]).partition("\n")[0][:_LONGEST] for part in parts if part is not None]
        return ": ".join([f"{where}: the server answers {status[1].strip()}", *answered])
    cause = re.search(r'(?:message|error): "([^"]+)"', text) or re.search(r"(InvalidCertificate\(\s*\w+)", text)
    if cause is not None:
        return f"{where}: {cause[1]}"
    return f"{where}: {next((what for shown, what in _CAUSES if shown in text), _first_line(error).rpartition(' - ')[2])}"


def _object(meta: Any) -> Object:
    """Return an object in a form that listings and requests share: some listings lack the quotes, or have parts of seconds."""
    etag: str | None = meta.get("e_tag")
    if etag is not None and not etag.startswith("W/"):
        etag = etag.strip('"')
    return Object(meta["path"], meta["size"], etag, int(meta["last_modified"].timestamp()) * 1000)


def _received(found: GetResult) -> tuple[Any, memoryview]:
    return found.meta, memoryview(found.bytes())


def _first_line(error: Exception) -> str:
    line = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return re.sub(r"^Generic \w+ error: ", "", line)
