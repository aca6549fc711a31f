"""Odd keys, wrong answers and long listings of an object store: the right bytes, or one sentence about what to check."""

from __future__ import annotations

from time import sleep

import pytest

from engine.remote import object_store
from engine.remote.object_store import ObjectStore
from tests.remote.test_store_errors import KEYS, Quiet, serving
from tests.support.run import kafkalog
from tests.support.s3_double import handler_of
from tests.support.small_logs import batch

pytest.importorskip("obstore")

LOG = b"".join(batch(offset, value=b"v" * 3000) for offset in range(40))
NAME = "x-0/00000000000000000000.log"


@pytest.fixture
def put_in_store(monkeypatch, request):
    """Start a store with these objects; returns the list of its requests."""
    def put(objects, **options):
        handler, seen = handler_of(Quiet, objects, **options)
        server = serving(handler)
        address = server.__enter__()
        request.addfinalizer(lambda: server.__exit__(None, None, None))
        for name, value in {"AWS_ENDPOINT_URL": f"http://{address}", "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1", **KEYS}.items():
            monkeypatch.setenv(name, value)
        return seen

    return put


@pytest.mark.parametrize("folder", ["a b", "a+b", "a%2520b", "ü", "日本", "q&<x>'", "semi;#x", "x" * 900])
@pytest.mark.parametrize("page", [1, 1000])
def test_odd_keys_are_read(folder, page, put_in_store):
    key = folder.replace("%25", "%")
    put_in_store({f"{key}/{NAME}": LOG, f"{key}/": b"", f"{key}/x-0/leader-epoch-checkpoint": b"0\n0\n", "z": b""}, page=page)
    done = kafkalog("fetch", "--raw", f"s3://tiered/{folder}/x-0")
    assert (done.status, done.out) == (0, LOG), done.err


@pytest.mark.parametrize("key", ["../x", "a//b", "./x", "a/../b", "a\tb"])
def test_a_key_that_cannot_be_read_hides_no_other_folder(key, put_in_store):
    put_in_store({NAME: LOG, f"other/{key}": b"1"})
    done = kafkalog("fetch", "--raw", "s3://tiered/x-0")
    assert (done.status, done.out) == (0, LOG), done.err
    assert ObjectStore("s3://tiered").children("") == (["other", "x-0"], [])
    done = kafkalog("verify", f"s3://tiered/other/{key}")
    assert done.status == 8
    assert "s3://tiered/other" in done.err


def changed(status=None, body=None, **headers):
    """Change the answers for the log."""
    def answer(key, *right):
        if not key.endswith(".log"):
            return right
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        return status or right[0], {**right[1], **names}, right[2] if body is None else body(right[2])

    return answer


@pytest.mark.parametrize(("answers", "what", "check"), [
    (changed(403, body=lambda _: b"<Error><Code>AccessDenied</Code></Error>"), "403 Forbidden", "AWS_ACCESS_KEY_ID"),
    (changed(200, body=lambda _: b"<html>Log in</html>"), "non-partial response", "a proxy or a login page"),
    (changed(Content_Range="bytes 5-9/10"), "Requested 0..", "not that of an object store"),
    (changed(body=lambda data: data[:100]), "replaced while it was read", "run the command again"),
    (changed(body=lambda data: data + b"more"), "replaced while it was read", "run the command again"),
    (changed(ETag='"other"'), "replaced while it was read", "run the command again"),
    (changed(Content_Range=f"bytes 0-{len(LOG) - 1}/99999999999"), "replaced while it was read", "run the command again"),
    (changed(Content_Length="70000", body=lambda data: data[:100]), "response body error", "ended too early"),
])  # fmt: skip
def test_a_wrong_answer_is_one_error_about_the_object(answers, what, check, put_in_store):
    seen = put_in_store({NAME: LOG}, answers=answers)
    done = kafkalog("fetch", "--raw", "s3://tiered/x-0")
    assert (done.status, done.out) == (8, b"")
    error, do = done.err.splitlines()
    assert error.startswith(f"error[{'file-changed' if 'replaced' in what else 'unreadable-file'}] s3://tiered/{NAME}: ")
    assert what in error
    assert check in do
    assert len(seen) <= 12


@pytest.mark.parametrize("page", [7, 1000])
def test_a_directory_is_listed_without_what_its_subfolders_contain(page, put_in_store):
    objects = {f"logs/t-{number}/{offset:020d}.log": b"" for number in range(20) for offset in range(500)}
    seen = put_in_store({**objects, "logs/a": b"1", "logs/z": b"22"}, page=page)
    folders, found = ObjectStore("s3://tiered").children("logs")
    assert sorted(folders) == sorted(f"logs/t-{number}" for number in range(20))
    assert [(one.key, one.size) for one in found] == [("logs/a", 1), ("logs/z", 2)]
    assert len(seen) <= 1000 // page + 12  # the first 1,000 objects are listed with the subfolders


@pytest.mark.parametrize(("limit", "is_awaited"), [("200ms", False), ("10m", True)])
def test_a_slow_answer_can_be_awaited_longer(limit, is_awaited, put_in_store, monkeypatch):
    monkeypatch.setattr(object_store, "_RETRIES", 0)
    monkeypatch.setenv("AWS_TIMEOUT", limit)
    put_in_store({NAME: LOG}, answers=lambda key, *answer: (sleep(1 if key.endswith(".log") else 0), answer)[1])
    done = kafkalog("fetch", "--raw", "s3://tiered/x-0")
    assert (done.status, done.out) == ((0, LOG) if is_awaited else (8, b"")), done.err
    if not is_awaited:
        assert f"s3://tiered/{NAME}: GET http://127.0.0.1" in done.err
        assert "no answer" in done.err
        assert "for a slow connection: AWS_TIMEOUT=10m" in done.err
