"""A proxy that gives fake-gcs-server the writes of the XML API of Google Cloud Storage: PUT, also of parts, with preconditions.

Reads, listings and deletions reach the server unchanged.
"""

from __future__ import annotations

import http.client
import json
import re
import urllib.error
import urllib.parse
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import TYPE_CHECKING
from uuid import uuid4

if TYPE_CHECKING:
    from collections.abc import Iterable

_NOT_FORWARDED = ("connection", "host", "transfer-encoding", "keep-alive", "date", "server")
_CONDITION = "x-goog-if-generation-match"  # 0: only if the object does not exist


def _forwarded(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    return {name: value for name, value in headers if name.lower() not in _NOT_FORWARDED}


class Translator:
    """The proxy before the server at `server`. url: for clients."""

    def __init__(self, server: str) -> None:
        self.server = server
        self._listener = ThreadingHTTPServer(("127.0.0.1", 0), type("_Bound", (_Handler,), {"translator": self}))
        self.url = f"http://127.0.0.1:{self._listener.server_port}"
        self.uploads: dict[str, dict[int, bytes]] = {}  # by id: parts by number
        self.mutex = Lock()

    def start(self) -> None:
        """Answer requests in a thread."""
        Thread(target=self._listener.serve_forever, daemon=True).start()

    def stop(self) -> None:
        """Answer no more requests."""
        self._listener.shutdown()
        self._listener.server_close()

    def make_bucket(self, name: str) -> None:
        """Make an empty bucket."""
        self._post("storage/v1/b?project=tests", json.dumps({"name": name}).encode())

    def insert(self, bucket: str, key: str, data: bytes, generation: str | None = None) -> dict[str, str]:
        """Write an object by the JSON API, and return its metadata. generation: which it must have; "0": none."""
        condition = "" if generation is None else f"&ifGenerationMatch={generation}"
        return self._post(f"upload/storage/v1/b/{bucket}/o?uploadType=media&name={urllib.parse.quote(key, safe='')}{condition}", data)

    def _post(self, path: str, data: bytes) -> dict[str, str]:
        request = urllib.request.Request(f"{self.server}/{path}", data=data, method="POST", headers={"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as answer:
            found: dict[str, str] = json.load(answer)
        return found


class _Handler(BaseHTTPRequestHandler):
    """One connection of a client."""

    translator: Translator
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # answers are written in two pieces

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def _answer(self, status: int, headers: dict[str, str], data: bytes = b"") -> None:
        self.send_response_only(status)
        for name, value in {**headers, "Content-Length": headers.get("Content-Length", str(len(data)))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def _forward(self) -> None:
        """Send the request to the server, and its answer to the client."""
        connection = http.client.HTTPConnection(self.translator.server.partition("://")[2])
        connection.request(self.command, self.path, body=self._body() or None, headers=_forwarded(self.headers.items()))
        answer = connection.getresponse()
        self._answer(answer.status, _forwarded(answer.getheaders()), answer.read())
        connection.close()

    do_GET = do_HEAD = do_DELETE = _forward  # noqa: N815  # names of the base class

    def do_PUT(self) -> None:
        """Write an object, or keep a part of one."""
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
        data = self._body()
        if "uploadId" not in query:
            self._insert(data)
            return
        with self.translator.mutex:
            self.translator.uploads[query["uploadId"][0]][int(query["partNumber"][0])] = data
        self._answer(200, {"ETag": f'"{len(data)}"'})

    def do_POST(self) -> None:
        """Begin an object of several parts, or write it."""
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query, keep_blank_values=True)
        data = self._body()
        if "uploads" in query:
            upload = uuid4().hex
            self.translator.uploads[upload] = {}
            self._answer(200, {}, f"<InitiateMultipartUploadResult><UploadId>{upload}</UploadId></InitiateMultipartUploadResult>".encode())
            return
        parts = self.translator.uploads.pop(query["uploadId"][0])
        numbers = [int(number) for number in re.findall(rb"<PartNumber>(\d+)<", data)]
        self._insert(b"".join(parts[number] for number in numbers), is_of_parts=True)

    def _insert(self, data: bytes, *, is_of_parts: bool = False) -> None:
        bucket, _, key = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path).lstrip("/").partition("/")
        try:
            made = self.translator.insert(bucket, key, data, self.headers.get(_CONDITION))
        except urllib.error.HTTPError as error:
            self._answer(error.code, {}, error.read())
            return
        etag, headers = f'"{made["etag"]}"', {"x-goog-generation": made["generation"]}
        if is_of_parts:
            self._answer(200, headers, f"<CompleteMultipartUploadResult><ETag>{etag}</ETag></CompleteMultipartUploadResult>".encode())
        else:
            self._answer(200, {**headers, "ETag": etag})

    def log_message(self, *_words: object) -> None:
        """Say nothing."""
