"""Leader epochs that go back where a segment ends: recovery and the check of indexes blame the same batch."""

from __future__ import annotations

import re

import pytest

from tests.support.run import kafkalog
from tests.support.small_logs import batch

# the leader epochs of the batches of each segment, and the segment and batch that is to blame
LOGS = {
    "5 5 5 | 4": ([[5, 5, 5], [4]], (3, 0)),
    "1 1 | 5 5 5 | 4": ([[1, 1], [5, 5, 5], [4]], (5, 0)),
    "5 5 5 4": ([[5, 5, 5, 4]], (0, 3)),
    "5 5 5 4 |": ([[5, 5, 5, 4], []], (0, 3)),
    "5 | 4 4 4": ([[5], [4, 4, 4]], (0, 0)),
    "3 5 5 | 4 4 4": ([[3, 5, 5], [4, 4, 4]], (0, 1)),
    "4 | 5 5 5 | 4": ([[4], [5, 5, 5], [4]], (1, 0)),
    "5 5 5 | 4 | 5": ([[5, 5, 5], [4], [5]], (3, 0)),
    "5 5 5 4 | 4 4": ([[5, 5, 5, 4], [4, 4]], (0, 0)),
}
_PLACE = re.compile(r"(\d{20})\.log(?: \(at offset \d+\) -)? at byte (\d+)[^:]*: leader epoch")


@pytest.mark.parametrize("log", LOGS)
def test_the_same_batch_is_to_blame(log, tmp_path):
    segments, (blamed, number) = LOGS[log]
    directory, offset = tmp_path / "t-0", 0
    directory.mkdir()
    for epochs in segments:
        made = [batch(offset + at, partition_leader_epoch=epoch) for at, epoch in enumerate(epochs)]
        (directory / f"{offset:020d}.log").write_bytes(b"".join(made))
        offset += len(epochs)
    wanted = {(f"{blamed:020d}", str(number * len(batch(0))))}
    assert set(_PLACE.findall(kafkalog("verify", str(directory)).err)) == wanted
    recovered = kafkalog("recover", "--no-quarantine", "--now", "1700000000000", str(directory))
    assert set(_PLACE.findall(recovered.out.decode())) == wanted
    assert set(_PLACE.findall(kafkalog("verify", str(directory)).err)) == wanted
