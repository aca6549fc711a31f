"""Leader epochs that no checksum covers: which are believed, what recovery says of others, and what it does with them."""

from __future__ import annotations

import random

import pytest

from engine.config.topic import LogConfig
from engine.discovery.names import file_name
from engine.files import Files
from engine.formats import BATCH_HEADER
from engine.log.epochs.runs import EpochRun, EpochRuns
from engine.log.loading.epoch_repair import epochs_in_logs
from engine.log.loading.loader import open_log
from engine.log.report import Action
from engine.log.verify.partition import verify_partition
from engine.log.verify.rebuild import Rebuilder
from engine.record.builder import NewRecord, build_batch

EPOCH_AT = BATCH_HEADER.positions["partition_leader_epoch"]


def judged(epochs, **ends):
    runs = EpochRuns()
    for offset, epoch in enumerate(epochs):
        if epoch != runs.newest:
            runs.add(EpochRun(epoch, offset, offset, offset))
    runs.finish(len(epochs), **ends)
    doubt = None if runs.doubt is None else (runs.doubt.run.first_offset, runs.doubt.runs)
    return [(run.epoch, run.first_offset) for run in runs.trusted], doubt


@pytest.mark.parametrize(
    ("epochs", "ends", "trusted", "doubt"),
    [
        ([], {}, [], None),
        ([-1, -1], {}, [], None),
        ([0, -1, 0, 2, -1], {"following": 2}, [(0, 0), (2, 3)], None),
        ([0, 0, 3, 3, 5], {}, [(0, 0), (3, 2), (5, 4)], None),
        ([0, 0, 9, 0, 0], {}, [(0, 0)], (2, 1)),
        ([0, 0, 9, 0, 1], {}, [(0, 0), (1, 4)], (2, 1)),
        ([9, 0, 0, 1], {}, [(0, 1), (1, 3)], (0, 1)),
        ([0, 1, 0, 2], {}, [(0, 0), (2, 3)], (1, 1)),
        ([0, 1, 0, 1], {}, [(0, 0), (1, 1)], (2, 1)),
        ([1, 0], {"before": 0, "following": 2}, [(0, 1)], (0, 1)),
        ([4, 6, 6], {"before": 5}, [(6, 1)], (0, 1)),
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
def test_what_is_believed(epochs, ends, trusted, doubt):
    assert judged(epochs, **ends) == (trusted, doubt)


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
        ("epoch-order", f"{directory}/{0:020}.log")
    ]


# ---- verify judges by the same rules


def verified(directory):
    findings = []
    verify_partition(Files(), str(directory), findings.append)
    return [
        (finding.code, file_name(finding.where.file), finding.where.offset, finding.what) for finding in findings
        if finding.code.startswith("epoch")
    ]  # fmt: skip


@pytest.mark.parametrize("flipped", [1 << 30, 1, -(2**31)])
def test_verification_says_what_recovery_says_and_leaves_the_checkpoint_alone(tmp_path, flipped):
    directory = partition(tmp_path, [0, 0, flipped, 0, 0, 2], "0\n2\n0 0\n2 5\n")
    (code, name, offset, what), *more = verified(directory)
    assert (code, name, offset, more) == ("epoch-order", f"{2:020}.log", 2, [])
    log = open_log(Files(), str(directory), LogConfig(), now=2000, clean_shutdown=False)
    log.close()
    [event] = [event for event in log.report.find(Action.KEPT) if event.path == name]
    for text in (f"leader epoch {flipped}", "epochs never decrease, and no checksum covers them"):
        assert (text in event.reason, text in what) == (True, True)


def test_batches_without_an_epoch_contradict_nothing(tmp_path):
    assert verified(partition(tmp_path, [0, -1, 0, 2, -1, 2], "0\n2\n0 0\n2 3\n")) == []


def test_both_find_the_same_batches_doubtful(tmp_path):
    rng = random.Random(9)
    for number in range(60):
        epochs = sorted(rng.choices((-1, 0, 1, 2, 5), k=rng.randrange(3, 9)))
        for at in rng.sample(range(len(epochs)), number % 2):
            epochs[at] = rng.choice((epochs[at] ^ (1 << 20), -(2**31)) if epochs[at] >= 0 else (-1,))
        home = tmp_path / str(number)
        home.mkdir()
        directory = partition(home, epochs)
        doubted = [(name, offset) for code, name, offset, _ in verified(directory) if code == "epoch-order"]
        assert doubted == recovered(directory), epochs


def test_an_epoch_that_recovery_took_over_is_the_checkpoints_matter_as_well(tmp_path):
    directory = partition(tmp_path, [0, 0, 0, 9, 0, 0], "0\n1\n0 0\n")
    recovered(directory)
    assert (directory / "leader-epoch-checkpoint").read_text() == "0\n2\n0 0\n9 3\n"
    assert [(code, offset) for code, _, offset, _ in verified(directory)] == [("epoch-order", 3), ("epochs-mismatch", 4)]
    findings = []
    verify_partition(Files(), str(directory), findings.append)
    Rebuilder(Files(), str(directory), LogConfig(), findings, 2000).run()
    assert (directory / "leader-epoch-checkpoint").read_text() == "0\n1\n0 0\n"
    assert [code for code, *_ in verified(directory)] == ["epoch-order"]


@pytest.mark.parametrize("epochs", [[4, 5, 1, 5, 5, 5], [4, 5, 5, 1, 5, 5], [4, 1, 5, 5, 5, 5], [4, 4, 1, 5, 5, 5]])
def test_one_that_was_set_back_is_found_at_the_ends_of_segments_too(tmp_path, epochs):
    """And not the sound one beside it."""
    directory = partition(tmp_path, epochs, f"0\n2\n4 0\n5 {epochs.index(5)}\n")
    at = epochs.index(1)
    assert [(code, offset) for code, _, offset, _ in verified(directory)] == [("epoch-order", at)]
    assert recovered(directory) == [(f"{at // 2 * 2:020}.log", at)]


def test_a_segment_that_is_recovered_while_loading_is_judged_by_the_one_behind_it(tmp_path):
    """After a clean stop only what lacks its index is read; the segment behind it is not open then."""
    directory = partition(tmp_path, [0, 0, 0, 9, 0, 2], "0\n2\n0 0\n2 5\n")
    (directory / f"{2:020}.index").unlink()
    log = open_log(Files(), str(directory), LogConfig(), now=2000, clean_shutdown=True)
    log.close()
    assert (directory / "leader-epoch-checkpoint").read_text() == "0\n2\n0 0\n2 5\n"
    kept = [event for event in log.report.find(Action.KEPT) if "epochs never decrease" in event.reason]
    assert [(event.path, event.first_offset) for event in kept] == [(f"{2:020}.log", 3)]
