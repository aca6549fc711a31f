"""What is found by a path: partitions, log dirs, directories around them."""

from __future__ import annotations

import pytest

from engine.discovery.names import PartitionKind
from engine.errors import UnreadableFile, UsageError
from engine.files import Files
from engine.log.logdir.log_dirs import find_log_dirs, list_log_dir
from tests.support.memory_files import MemoryFiles
from tests.support.permissions import without_permission

_LOG = "00000000000000000000.log"
FILES = MemoryFiles({
    f"/data/d0/a-0/{_LOG}": b"",
    f"/data/d0/a-1/{_LOG}": b"",
    f"/data/d0/b-c-12.{'0' * 32}-stray/{_LOG}": b"",
    f"/data/d0/b-0.{'1' * 32}-future/{_LOG}": b"",
    "/data/d0/lost+found/x": b"",
    "/data/d0/remote-log-index-cache/x": b"",
    "/data/d0/meta.properties": b"",
    f"/data/d1/a-0/{_LOG}": b"",
    "/other/file": b"",
    "/old/topic-0/meta.properties": b"",
    f"/old/topic-0/x-0/{_LOG}": b"",
})  # fmt: skip


def test_a_log_dir():
    log_dir = list_log_dir(FILES, "/data/d0")
    assert [place.path for place in log_dir.partitions()] == ["/data/d0/a-0", "/data/d0/a-1"]
    assert [place.key for place in log_dir.partitions(PartitionKind.STRAY, PartitionKind.FUTURE)] == [("b", 0), ("b-c", 12)]
    assert log_dir.foreign == ("lost+found",)
    assert log_dir.files == ("meta.properties",)


@pytest.mark.parametrize(
    ("paths", "found"),
    [
        (["/data"], [("/data/d0", True, 4), ("/data/d1", True, 1)]),
        (["/data/d0/"], [("/data/d0", True, 4)]),
        (["/data/d0/a-1", "/data/d0/a-0/", "/data/d0/a-1"], [("/data/d0", False, 2)]),
        (["/data/d0/a-1", "/data/d0"], [("/data/d0", True, 4)]),
        (["/data/d0", "/data/d0/a-1"], [("/data/d0", True, 4)]),
        (["/old/topic-0"], [("/old/topic-0", True, 1)]),  # a log dir that is named like a partition
    ],
)
def test_paths(paths, found):
    assert [(one.path, one.is_whole, len(one.directories)) for one in find_log_dirs(FILES, paths)] == found


def test_what_is_neither():
    with pytest.raises(UsageError, match="/other: not a partition, not a log dir, and not a directory of log dirs"):
        find_log_dirs(FILES, ["/other"])
    with pytest.raises(UnreadableFile):
        find_log_dirs(FILES, ["/none"])


def test_a_partition_that_may_not_be_looked_into_hides_no_other(tmp_path):
    for name in ("a-0", "b-0"):
        (tmp_path / "d" / name).mkdir(parents=True)
    (tmp_path / "d/b-0" / _LOG).touch()
    with without_permission(tmp_path / "d/a-0"):
        [log_dir] = find_log_dirs(Files(), [str(tmp_path)])
    assert [place.name.topic for place in log_dir.directories] == ["a", "b"]
    (tmp_path / "d/b-0" / _LOG).unlink()
    with without_permission(tmp_path / "d/a-0"), pytest.raises(UnreadableFile, match="a-0: Permission"):  # it could hold one
        find_log_dirs(Files(), [str(tmp_path)])


def test_one_directory_is_one_however_it_is_spelled(tmp_path, monkeypatch):
    (tmp_path / "d" / "t-0").mkdir(parents=True)
    (tmp_path / "link").symlink_to("d")
    monkeypatch.chdir(tmp_path / "d" / "t-0")
    real = str(tmp_path / "d" / "t-0")
    for paths in ((real, f"{tmp_path}/./d/t-0"), (real, f"{tmp_path}/link/t-0"), (".", real), (real, "../t-0/.")):
        [found] = find_log_dirs(Files(), paths)
        assert [(place.path, place.name.topic) for place in found.directories] == [(real, "t")]
    (tmp_path / "d" / "meta.properties").write_text("version=1\n")
    [found] = find_log_dirs(Files(), (f"{tmp_path}/link", real))
    assert (found.path, found.is_whole, len(found.directories)) == (f"{tmp_path}/link", True, 1)


def test_partitions_are_spelled_as_their_log_dir_is(tmp_path):
    for name in ("a-0", "b-0"):
        (tmp_path / "d" / name).mkdir(parents=True)
    (tmp_path / "link").symlink_to("d")
    [found] = find_log_dirs(Files(), (f"{tmp_path}/d/a-0", f"{tmp_path}/link/b-0"))
    assert [place.path for place in found.directories] == [f"{tmp_path}/d/{name}" for name in ("a-0", "b-0")]


def test_a_link_to_nowhere_beside_log_dirs_is_none(tmp_path):
    (tmp_path / "var/d0/a-0").mkdir(parents=True)
    (tmp_path / "var/d0/a-0" / _LOG).write_bytes(b"")
    for place in ("var", "var/d0"):
        (tmp_path / place / "b-7").symlink_to("/nowhere")
        (tmp_path / place / "old").symlink_to("/nowhere")
    [log_dir] = find_log_dirs(Files(), [str(tmp_path / "var")])
    assert [place.name.topic for place in log_dir.directories] == ["a"]


def test_an_empty_path_is_not_the_root():
    """What a shell makes of "$DIR" where DIR is not set."""
    with pytest.raises(UsageError, match="an empty path"):
        find_log_dirs(FILES, ["/data/d0", ""])
