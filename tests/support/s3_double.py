"""An S3 server on this machine whose answers can be wrong."""

from __future__ import annotations

import hashlib
from urllib.parse import parse_qsl, quote, unquote, urlsplit
from xml.sax.saxutils import escape

_TIME = "Fri, 02 Jan 2026 03:04:05 GMT"


def handler_of(base, objects, *, page=1000, answers=None):
    """Return (subclass of `base`, list of requests as (method, key, query)) for the bucket `tiered` with `objects`, bytes by key.

    page     names in one answer to a listing
    answers  (key, status, headers, body) → the (status, headers, body) that are sent; None: the right ones
    """
    seen = []

    class Handler(base):
        protocol_version = "HTTP/1.1"

        def _send(self, status, headers, body):
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)
            self.close_connection = int(headers.get("Content-Length", len(body))) != len(body) and self.command != "HEAD"

        def do_GET(self):  # noqa: N802  # name of the base class
            url = urlsplit(self.path)
            key, query = unquote(url.path).removeprefix("/tiered").removeprefix("/"), dict(parse_qsl(url.query))
            seen.append((self.command, key, query))
            if "list-type" in query:
                self._send(200, {}, _listing(objects, query, page))
            elif key not in objects:
                self._send(404, {}, b"<Error><Code>NoSuchKey</Code></Error>")
            else:
                self._send(*(answers or (lambda _key, *answer: answer))(key, *self._answer(objects[key])))

        do_HEAD = do_GET  # noqa: N815  # the same

        def _answer(self, data):
            headers = {"ETag": _tag(data), "Last-Modified": _TIME}
            if self.headers.get("If-Match", headers["ETag"]) != headers["ETag"]:
                return 412, {}, b""
            if "Range" not in self.headers:
                return 200, headers, data
            first, _, last = self.headers["Range"].removeprefix("bytes=").partition("-")
            start, end = int(first), min(int(last) + 1, len(data))
            return 206, {**headers, "Content-Range": f"bytes {start}-{end - 1}/{len(data)}"}, data[start:end]

    return Handler, seen


def _tag(data):
    return f'"{hashlib.md5(data).hexdigest()}"'


def _listing(objects, query, page):
    prefix, delimiter = query.get("prefix", ""), query.get("delimiter")
    names = {}  # by key or common prefix
    for key in sorted(objects):
        if key.startswith(prefix):
            end = key.find(delimiter, len(prefix)) if delimiter else -1
            names.setdefault(key if end < 0 else key[: end + 1], end >= 0)
    left = [name for name in names if name > query.get("continuation-token", "")]
    rows = []
    for name in left[:page]:
        if names[name]:
            rows.append(f"<CommonPrefixes><Prefix>{_text(name, query)}</Prefix></CommonPrefixes>")
        else:
            rows.append(f"<Contents><Key>{_text(name, query)}</Key><LastModified>2026-01-02T03:04:05Z</LastModified>"
                        f"<ETag>{escape(_tag(objects[name]))}</ETag><Size>{len(objects[name])}</Size></Contents>")  # fmt: skip
    if len(left) > page:
        rows.append(f"<IsTruncated>true</IsTruncated><NextContinuationToken>{escape(left[page - 1])}</NextContinuationToken>")
    return f"<ListBucketResult>{''.join(rows)}</ListBucketResult>".encode()


def _text(name, query):
    return quote(name) if query.get("encoding-type") == "url" else escape(name)
