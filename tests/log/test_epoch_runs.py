"""Leader epochs that no checksum covers: which are believed, what recovery says of others, and what it does with them."""

from __future__ import annotations

import pytest

from engine.config import LogConfig
from engine.files import Files
from engine.formats import BATCH_HEADER
from engine.log.loading.epoch_repair import epochs_in_logs
from engine.log.loading.loader import open_log
from engine.log.report import Action
from engine.log.scan.epoch_runs import EpochRun, EpochRuns
from engine.log.verify.partition import verify_partition
from engine.record.builder import NewRecord, build_batch

EPOCH_AT = BATCH_HEADER.positions["partition_leader_epoch"]


def judged(epochs, **ends):
    runs = EpochRuns()
    for offset, epoch in enumerate(epochs):
        if epoch != runs.newest:
            runs.add(EpochRun(epoch, offset, offset))
    runs.finish(len(epochs), **ends)
    doubt = None if runs.doubt is None else (runs.doubt.run.first_offset, runs.doubt.runs)
    return [(run.epoch, run.first_offset) for run in runs.believed], doubt


@pytest.mark.parametrize(
    ("epochs", "ends", "believed", "doubt"),
    [
        ([], {}, [], None),
        ([-1, -1], {}, [], None),
        ([0, -1, 0, 2, -1], {"following": 2}, [(0, 0), (2, 3)], None),
        ([0, 0, 3, 3, 5], {}, [(0, 0), (3, 2), (5, 4)], None),
        ([0, 0, 9, 0, 0], {}, [(0, 0)], (2, 1)),
        ([0, 0, 9, 0, 1], {}, [(0, 0), (1, 4)], (2, 1)),
        ([9, 0, 0, 1], {}, [(0, 1), (1, 3)], (0, 1)),
        ([5, 5, 4, 5], {}, [(5, 0)], (2, 1)),
        ([3, 5, 5, 4], {}, [(3, 0), (5, 1)], (3, 1)),
        ([0, 0, 9], {}, [(0, 0), (9, 2)], None),
        ([0, 0, 9], {"following": 0}, [(0, 0)], (2, 1)),
        ([0, 0, 9], {"following": 9}, [(0, 0), (9, 2)], None),
        ([0, 9, 0], {"following": 9}, [(0, 0), (9, 1)], (2, 1)),
        ([4, 5, 5], {"before": 5}, [(5, 1)], (0, 1)),
        ([4, 4], {"before": 5}, [(4, 0)], None),
        ([0, -(2**31), 0], {}, [(0, 0)], (1, 1)),
        ([0, 9, 0, 8, 0, 0], {}, [(0, 0)], (1, 2)),
    ],
)
def test_what_is_believed(epochs, ends, believed, doubt):
    assert judged(epochs, **ends) == (believed, doubt)


def partition(tmp_path, epochs, checkpoint=None):
    """A log with a batch of each of these epochs, two to a segment."""
    directory = tmp_path / "t-0"
    directory.mkdir()
    for base in range(0, len(epochs), 2):
        records = [build_batch([NewRecord(base + at, 1000, None, b"v")], partition_leader_epoch=0) for at in range(len(epochs[base : base + 2]))]
        data = b"".join(
            batch[:EPOCH_AT] + epoch.to_bytes(4, "big", signed=True) + batch[EPOCH_AT + 4 :]
            for batch, epoch in zip(records, epochs[base : base + 2], strict=True)
        )
        (directory / f"{base:020}.log").write_bytes(data)
        (directory / f"{base:020}.index").write_bytes(b"")
    if checkpoint is not None:
        (directory / "leader-epoch-checkpoint").write_text(checkpoint)
    return directory


def recovered(directory):
    log = open_log(Files(), str(directory), LogConfig(), now=2000, clean_shutdown=False)
    log.close()
    kept = [event for event in log.report.find(Action.KEPT) if event.severity.value != "info"]
    return [(event.path, event.first_offset) for event in kept]


@pytest.mark.parametrize("flipped", [1 << 30, 1, -(2**31)])
def test_epochs_that_stand_there_are_not_forgotten_for_a_flipped_bit(tmp_path, flipped):
    directory = partition(tmp_path, [0, 0, flipped, 0, 0, 2], "0\n2\n0 0\n2 5\n")
    assert recovered(directory) == [(f"{2:020}.log", 2)]
    assert (directory / "leader-epoch-checkpoint").read_text() == "0\n2\n0 0\n2 5\n"
    assert recovered(directory) == [(f"{2:020}.log", 2)]


def test_one_that_forgets_nothing_is_taken_over_as_in_kafka(tmp_path):
    directory = partition(tmp_path, [0, 0, 0, 9, 0, 0], "0\n1\n0 0\n")
    assert recovered(directory) == [(f"{2:020}.log", 3)]
    assert (directory / "leader-epoch-checkpoint").read_text() == "0\n2\n0 0\n9 3\n"


def test_a_checkpoint_made_anew_has_what_the_batches_agree_on(tmp_path):
    directory = partition(tmp_path, [0, 0, 9, 0, 0, 2])
    assert epochs_in_logs(Files(), str(directory)) == [(0, 0), (2, 5)]


def test_an_epoch_that_no_checkpoint_can_have_is_a_matter_of_the_log(tmp_path):
    directory = partition(tmp_path, [-(2**31)], "0\n0\n")
    recovered(directory)
    findings = []
    verify_partition(Files(), str(directory), findings.append)
    assert [(finding.code, finding.where.file) for finding in findings if finding.severity.value != "info"] == [
        ("epochs-mismatch", f"{directory}/{0:020}.log")
    ]
