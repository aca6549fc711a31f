"""The dump tool in the shared JVM answers as in a JVM of its own."""

from __future__ import annotations

import pytest

from engine.record.builder import NewRecord, build_batch

pytestmark = pytest.mark.oracle

LOG = "t-0/00000000000000000000.log"


@pytest.fixture
def home(tmp_path):
    (tmp_path / "t-0").mkdir()
    (tmp_path / LOG).write_bytes(build_batch([NewRecord(3, 1, "ключ".encode(), b"\x1b[0m\xff")]) + b"\0" * 30)
    (tmp_path / "top.log").write_bytes(b"")
    (tmp_path / "00000000000000000007.log").write_bytes(build_batch([NewRecord(9, 1, None, b"v")]))
    return tmp_path


@pytest.mark.parametrize("arguments", [
    ["--version"],
    [],
    ["--nonsense"],
    ["--files", LOG, "--print-data-log"],  # zeros behind the batch: an exception
    ["--files", "00000000000000000007.log", "--deep-iteration"],  # absolute path on stderr
    ["--files", "top.log"],  # no number in the name: an exception
    ["--files", "00000000000000000001.index"],  # missing: the tool creates it
    ["--files", "t-0/00000000000000000009.index"],
    ["--files", "../elsewhere/x"],
])  # fmt: skip
def test_served_like_alone(real_dump, home, arguments):
    names = sorted(home.rglob("*"))
    alone = real_dump(arguments, home, own_jvm=True)
    created = sorted(set(home.rglob("*")) - set(names))
    for path in created:
        path.unlink()
    assert real_dump(arguments, home) == alone
    assert sorted(home.rglob("*")) == sorted([*names, *created])


def test_a_failed_command_says_why(kafka_engine):
    assert "no such command: nonsense" in kafka_engine("nonsense")["failed"]
