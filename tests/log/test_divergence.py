"""Replicas that tell different stories are told from such as are only behind, trimmed or compacted."""

from __future__ import annotations

import shutil

import pytest

from engine.files import ReadOnlyFiles
from engine.formats import BATCH_HEADER
from engine.log.fetch.replicas import find_divergence
from engine.record.windows import crc32c

CRC, ATTRIBUTES = BATCH_HEADER.positions["crc"], BATCH_HEADER.positions["attributes"]
EPOCH = BATCH_HEADER.positions["partition_leader_epoch"]


@pytest.fixture
def copies(own_corpus, tmp_path):
    source = next((own_corpus / "kafka-4.3.1/logs/clean").glob("*/small_segments-0"))
    for name in ("a", "b"):
        shutil.copytree(source, tmp_path / name / source.name)
    return tmp_path / "a" / source.name, tmp_path / "b" / source.name


def batches(data):
    at, found = 0, []
    while at < len(data):
        found.append(at)
        at += 12 + int.from_bytes(data[at + 8 : at + 12], "big")
    return found


def change(path, number, edit):
    """Edit batch `number` of a log and make its checksum right."""
    data = bytearray(path.read_bytes())
    at = batches(data)[number]
    end = at + 12 + int.from_bytes(data[at + 8 : at + 12], "big")
    edit(data, at, end)
    data[at + CRC : at + CRC + 4] = crc32c(bytes(data[at + ATTRIBUTES : end])).to_bytes(4, "big")
    path.write_bytes(data)
    return at


def divergence(one, two):
    found = []
    told = find_divergence(ReadOnlyFiles(), str(one), str(two), found.append)
    assert told == bool(found)
    return [(finding.code, finding.where.file.rpartition("/")[2], finding.where.position, finding.what) for finding in found]


def flip_last_byte(data, _at, end):
    data[end - 2] ^= 1


def raise_epoch(data, at, _end):
    data[at + EPOCH + 3] += 1


def test_equal_copies(copies):
    assert divergence(*copies) == []


@pytest.mark.parametrize(("edit", "what"), [(flip_last_byte, "other records under the same offsets"), (raise_epoch, "written in leader epoch")])
def test_one_batch_differs(copies, edit, what):
    one, two = copies
    path = sorted(two.glob("*.log"))[1]
    position = change(path, 0, edit)
    [(code, name, at, said)] = divergence(one, two)
    assert (code, name, at) == ("replica-divergence", path.name, position)
    assert what in said


def test_a_copy_that_is_behind_or_begins_later_agrees(copies):
    one, two = copies
    logs = sorted(two.glob("*.log"))
    logs[0].unlink()
    logs[-2].unlink()
    logs[-1].unlink()
    assert divergence(one, two) == divergence(two, one) == []


def test_a_copy_without_some_batches_agrees(copies):
    one, two = copies
    for path in two.glob("*.log"):
        data = path.read_bytes()
        starts = batches(data)
        if len(starts) > 2:
            path.write_bytes(data[: starts[1]] + data[starts[2] :])
            break
    else:
        pytest.fail("no segment has three batches")
    assert divergence(one, two) == divergence(two, one) == []
