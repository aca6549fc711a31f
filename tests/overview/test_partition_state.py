"""The state of a partition whose files come and go, or cannot be read."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from engine.discovery.names import parse_partition_dir
from engine.errors import UnreadableFile
from engine.files import OpenFile, ReadOnlyFiles
from engine.log.logdir.log_dirs import PartitionPath, find_log_dirs
from engine.overview.partition_state import Flag, Known, StateReader
from engine.overview.usage import used_files


@pytest.fixture
def partition(own_cluster_corpus, tmp_path) -> PartitionPath:
    """short-0: three segments with the offsets 20 to 80."""
    shutil.copytree(own_cluster_corpus / "ops/1-stopped/n1/d1/short-0", tmp_path / "short-0")
    name = parse_partition_dir("short-0")
    assert name is not None
    return PartitionPath(str(tmp_path / "short-0"), str(tmp_path), name)


class Moving(ReadOnlyFiles):
    """A broker deletes the first segment after it was listed."""

    def __init__(self, directory: str, doomed: str) -> None:
        self._doomed = [path for path in Path(directory).iterdir() if path.name.startswith(doomed)]

    def open(self, path: str) -> OpenFile:
        for one in self._doomed:
            one.unlink()
        self._doomed = []
        return super().open(path)


def test_segments_that_a_broker_deletes_meanwhile(partition):
    state = StateReader(Moving(partition.path, f"{20:020d}.")).read(partition, Known())
    assert state is not None
    assert (state.error, state.start, state.end, state.segments) == (None, 40, 80, 2)


def test_a_partition_that_a_broker_deletes_meanwhile(partition):
    class Gone(ReadOnlyFiles):
        def open(self, path: str) -> OpenFile:
            shutil.rmtree(partition.path, ignore_errors=True)
            return super().open(path)

    assert StateReader(Gone()).read(partition, Known()) is None


class Refusing(ReadOnlyFiles):
    """A disk with errors in some files."""

    def __init__(self, suffix: str) -> None:
        self._suffix = suffix

    def open(self, path: str) -> OpenFile:
        if path.endswith(self._suffix):
            raise UnreadableFile(f"{path}: Input/output error", path=path)
        return super().open(path)

    def list(self, directory: str) -> list[str]:
        if directory.endswith(self._suffix):
            raise UnreadableFile(f"{directory}: Input/output error", path=directory)
        return super().list(directory)


@pytest.mark.parametrize("suffix", [".log", ".index", "leader-epoch-checkpoint", "partition.metadata"])
def test_a_file_that_cannot_be_read(partition, suffix):
    if suffix == ".index":  # an empty one is not opened
        (Path(partition.path) / f"{60:020d}.index").write_bytes(b"\0\0\0\1\0\0\0\1")
    state = StateReader(Refusing(suffix)).read(partition, Known())
    assert state is not None
    assert state.flags == {Flag.UNREADABLE}
    assert suffix in str(state.error)
    assert state.size > 0


def test_one_directory_that_cannot_be_read_does_not_hide_the_others(own_cluster_corpus):
    files, failures = Refusing("orders-1"), []
    [log_dir] = list(find_log_dirs(ReadOnlyFiles(), [str(own_cluster_corpus / "ops/1-stopped/n1/d0")]))
    found = {one.partition.name.topic for one in used_files(files, [log_dir], failures.append) if one.partition is not None}
    assert {"ledger", "trimmed", "orders"} <= found
    assert len(failures) == 1
