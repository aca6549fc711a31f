"""Which files a path means. The file systems are pyfakefs's, where it has what a test needs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyfakefs.helpers import set_uid

from engine.discovery.paths import DirectoryKind, directory_kind, discover
from engine.errors import UnreadableFile
from engine.files import ReadOnlyFiles

HEX = "a2eb80d57bfc4269af90e35d3898849a"
TOP = "/top"


def test_directory_kinds():
    assert directory_kind([]) is DirectoryKind.OTHER
    assert directory_kind(["README.md", "server.log"]) is DirectoryKind.OTHER
    assert directory_kind(["server.log", "meta.properties"]) is DirectoryKind.LOG_DIR
    assert directory_kind(["cleaner-offset-checkpoint", "00000000000000000000.log"]) is DirectoryKind.PARTITION
    assert directory_kind(["00000000000000000000.log.deleted"]) is DirectoryKind.PARTITION


def make(fs, *paths):
    for path in paths:
        fs.create_file(f"{TOP}/{path}")


def found(root=TOP):
    discovery = discover(ReadOnlyFiles(), str(root))
    paths = [path.removeprefix(f"{root}/") for path in discovery.paths]
    return paths, [(finding.code, finding.where.file.removeprefix(f"{root}/")) for finding in discovery.findings]


def test_a_file_is_itself_whatever_its_name(fs):
    make(fs, "odd")
    assert discover(ReadOnlyFiles(), f"{TOP}/odd").paths == [f"{TOP}/odd"]


def test_a_missing_path_is_an_error(fs):
    with pytest.raises(UnreadableFile):
        discover(ReadOnlyFiles(), f"{TOP}/none")


def test_a_tree_of_log_dirs(fs):
    segment = "00000000000000000000.log"
    make(
        fs,
        "notes.txt", "lost+found/x.log", "d1/meta.properties", "d1/.lock", "d1/t-10/" + segment, "d1/t-9/" + segment,
        "d1/t-9/00000000000000000000.index", "d1/t-9/partition.metadata", "d1/t-9/notes.txt", "d1/t-9/abc.log",
        "d1/server.log", "d1/other/" + segment,
        f"d1/t-2.{HEX}-delete/{segment}", "d0/cleaner-offset-checkpoint", "d0/a-0/" + segment,
        "d0/remote-log-index-cache/3_Ure9eD19RMmD-98XzfrQmw.index",
    )
    paths, findings = found()
    assert paths == [
        "d0/cleaner-offset-checkpoint", "d0/a-0/" + segment, "d0/remote-log-index-cache/3_Ure9eD19RMmD-98XzfrQmw.index",
        "d1/meta.properties", f"d1/t-2.{HEX}-delete/{segment}", "d1/t-9/" + segment,
        "d1/t-9/00000000000000000000.index", "d1/t-9/partition.metadata", "d1/t-10/" + segment,
    ]
    assert sorted(findings) == [
        ("file-ignored", "d1/other"), ("file-ignored", "d1/server.log"), ("file-ignored", "d1/t-9/notes.txt"),
        ("file-ignored", "lost+found"), ("name-invalid", "d1/t-9/abc.log"),
    ]


def test_links_in_a_circle_are_visited_once(fs):
    make(fs, "a/t-0/00000000000000000000.log")
    for name in ("one", "two", "three", "a/up"):
        fs.create_symlink(f"{TOP}/{name}", TOP)
    fs.create_symlink(f"{TOP}/self", f"{TOP}/self")
    paths, findings = found()
    assert paths == ["a/t-0/00000000000000000000.log"]
    assert sorted(findings) == [
        ("file-ignored", "a/up"), ("file-ignored", "one"), ("file-ignored", "three"), ("file-ignored", "two"),
        ("path-unreadable", "self"),
    ]


def test_depth_is_limited(fs):
    make(fs, "1/2/3/4/5/6/7/00000000000000000000.log")
    assert found() == ([], [("path-skipped", "1/2/3/4/5/6/7")])


def test_a_directory_without_permission_is_a_finding(fs):
    make(fs, "t-0/00000000000000000000.log", "t-1/00000000000000000000.log")
    fs.chmod(f"{TOP}/t-0", 0)
    set_uid(1000)
    paths, findings = found()
    assert paths == ["t-1/00000000000000000000.log"]
    assert findings == [("path-unreadable", "t-0")]


class RefusingFiles(ReadOnlyFiles):
    def list(self, directory):
        if directory.endswith("t-0"):
            raise UnreadableFile(f"{directory}: Input/output error")
        return super().list(directory)


def test_a_directory_that_fails_is_a_finding(fs):
    make(fs, "t-0/00000000000000000000.log", "t-1/00000000000000000000.log")
    discovery = discover(RefusingFiles(), TOP)
    assert [path.rsplit("/", 2)[-2] for path in discovery.paths] == ["t-1"]
    assert [(finding.code, finding.what) for finding in discovery.findings] == [("path-unreadable", "Input/output error")]


class MovingFiles(ReadOnlyFiles):
    """A broker deletes partition t-0 and a segment just after they were listed."""

    def info(self, path):
        if path.endswith("t-1/00000000000000000000.log"):
            Path(path).unlink(missing_ok=True)
        return super().info(path)

    def resolve(self, path):
        if path.endswith("t-0"):
            Path(path).rename(path + f".{HEX}-delete")
        return super().resolve(path)


def test_what_a_broker_removes_meanwhile_is_no_finding(fs):
    make(fs, "t-0/00000000000000000000.log", "t-1/00000000000000000000.log", "t-1/00000000000000000009.log")
    discovery = discover(MovingFiles(), TOP)
    assert discovery == ([f"{TOP}/t-1/00000000000000000009.log"], [])


def test_what_is_no_file_is_left_to_the_reader(tmp_path):
    (tmp_path / "t-0" / "00000000000000000001.log").mkdir(parents=True)
    os.mkfifo(tmp_path / "t-0" / "00000000000000000000.log")
    paths, findings = found(tmp_path)
    assert paths == ["t-0/00000000000000000000.log"]
    assert findings == [("file-ignored", "t-0/00000000000000000001.log")]
