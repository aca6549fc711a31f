"""Logs that change while they are served: retention, compaction, a broker that starts, directories that vanish."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.serve.serving import copied_log_dirs, large_partition, serving
from tests.serve.test_server import Client

STORAGE_ERROR, OUT_OF_RANGE = 56, 1


@pytest.fixture(scope="module")
def origin(tmp_path_factory):
    return next(Path(one) for top in copied_log_dirs(tmp_path_factory.mktemp("changing") / "logs")
                for one in Path(top).glob("plain-0"))  # fmt: skip


@pytest.fixture
def partition(origin, tmp_path):
    return Path(shutil.copytree(origin, tmp_path / "plain-0"))


def logs(partition):
    return sorted(partition.glob("*.log"))


def delete_first(partition):
    first = logs(partition)[0]
    for path in partition.glob(first.stem + ".*"):
        path.unlink()


def test_a_segment_that_is_deleted_while_it_is_open_is_read_to_its_end(partition):
    data = logs(partition)[0].read_bytes()
    with serving([str(partition)]) as served:
        client = Client(served)
        start = client.log_start("plain")
        first = client.fetch("plain", start, size=100)
        delete_first(partition)
        assert bytes(first["records"])
        assert bytes(client.fetch("plain", start)["records"]) == data


def test_a_deleted_segment_is_an_error_and_then_below_the_log_start(partition, capsys):
    with serving([str(partition)]) as served:
        client = Client(served)
        start, end = client.log_start("plain"), client.fetch("plain", 1 << 40)["errorCode"]
        assert end == OUT_OF_RANGE
        delete_first(partition)
        assert client.fetch("plain", start)["errorCode"] == STORAGE_ERROR
        assert client.fetch("plain", start)["errorCode"] == OUT_OF_RANGE
        assert client.log_start("plain") == int(logs(partition)[0].stem)
        assert client.everything("plain") == b"".join(log.read_bytes() for log in logs(partition))
    assert "No such file" in capsys.readouterr().out


def test_a_followed_log_starts_where_retention_left_it(partition):
    with serving([str(partition)], is_followed=True) as served:
        client = Client(served)
        before = client.everything("plain")
        gone = logs(partition)[0].read_bytes()
        delete_first(partition)
        assert client.log_start("plain") == int(logs(partition)[0].stem)
        assert client.everything("plain") == before[len(gone) :]
        assert client.fetch("plain", 0)["errorCode"] == OUT_OF_RANGE


@pytest.mark.parametrize("is_followed", [False, True])
def test_a_log_that_becomes_shorter_is_read_again(partition, is_followed, capsys):
    last = logs(partition)[-1]
    whole = last.read_bytes()
    offset, half = int(last.stem), 12 + int.from_bytes(whole[8:12], "big")
    with serving([str(partition)], is_followed=is_followed) as served:
        client = Client(served)
        assert bytes(client.fetch("plain", offset)["records"]) == whole
        last.write_bytes(whole[:half])
        found = [client.fetch("plain", offset) for _ in range(2)]
    assert [one["errorCode"] for one in found] == ([0, 0] if is_followed else [STORAGE_ERROR, 0])
    assert bytes(found[-1]["records"]) == whole[:half]
    assert ("became shorter" in capsys.readouterr().out) == (not is_followed)


def test_a_log_that_becomes_shorter_inside_an_answer_ends_the_connection(tmp_path, capsys):
    """As a broker truncates one. The size of the answer was sent, so the connection has to end."""
    log = large_partition(tmp_path) / "00000000000000000000.log"
    size = log.stat().st_size
    with serving([str(tmp_path)]) as served:
        client = Client(served)
        assert client.fetch("large", 0)["errorCode"] == 0
        with log.open("r+b") as file:
            file.truncate(size // 2)
        with pytest.raises((AssertionError, ConnectionResetError)):
            client.fetch("large", 0, size=size)
        client = Client(served)
        assert client.fetch("large", 0, size=size)["highWatermark"] == 12
    out = capsys.readouterr().out
    assert out.count("became shorter") == 1
    assert "internal error" not in out


def test_a_segment_that_compaction_replaced_is_read_anew(partition):
    first = logs(partition)[0]
    data = first.read_bytes()
    at = 12 + int.from_bytes(data[8:12], "big")
    with serving([str(partition)], is_followed=True) as served:
        client = Client(served)
        rest = b"".join(log.read_bytes() for log in logs(partition)[1:])
        assert client.everything("plain") == data + rest
        fresh = partition / "fresh"
        fresh.write_bytes(data[at:])
        for path in (first, first.with_suffix(".index"), first.with_suffix(".timeindex")):
            path.unlink()
        fresh.rename(first)
        found = [client.fetch("plain", 0) for _ in range(2)]
        assert found[-1]["errorCode"] == 0
        assert bytes(found[-1]["records"]) == data[at:]


def test_a_partition_that_vanishes_is_an_error(partition, capsys):
    with serving([str(partition)]) as served:
        client = Client(served)
        shutil.rmtree(partition)
        assert {client.fetch("plain", 0)["errorCode"] for _ in range(3)} == {STORAGE_ERROR}
        assert client.topics()[0]["name"] == "plain"
    assert str(partition) in capsys.readouterr().out
