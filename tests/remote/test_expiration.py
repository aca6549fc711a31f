"""`retain --explain` on partitions with remote storage: the deletions of the next leader follow RLMExpirationTask."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from engine.checkpoint.checkpoints import EpochEntry
from engine.config.topic import LogConfig
from engine.remote.expiration import Reason, plan_expiration
from engine.remote.lineage import Lineage
from engine.remote.metadata import PartitionMetadata, RemoteSegment, records_of
from engine.remote.records import State, UpdateRecord, key_of, uuid_text
from tests.remote.corpus import IS_OWN, OWN_ONLY, SETS, brokers_log_dirs, damaged, log_dirs, truth
from tests.support.json_output import objects_of
from tests.support.run import kafkalog

NOW = 1_000_000
KEY = key_of(uuid_text(bytes(range(16))), 0)


def segment(number, start, end, epochs, size=100, newest=NOW):
    return RemoteSegment(number.to_bytes(16), State.COPY_SEGMENT_FINISHED, start, end, size, newest, 1, 0, True, epochs, None)


def log_with(segments, epochs, *, start=0, end=100, local=(), states=None, **settings):
    """Return a log with these remote segments, leader epochs, and local segments (base offset, size)."""
    remote = PartitionMetadata("t", KEY, 0)
    for one in segments:
        for record in records_of(one, "t", KEY):
            if record.state <= (states or {}).get(one.id, State.COPY_SEGMENT_FINISHED):
                assert remote.apply(record)
        if (states or {}).get(one.id) is State.DELETE_SEGMENT_STARTED:
            assert remote.apply(UpdateRecord(KEY, b"t", one.id, 1, 0, None, State.DELETE_SEGMENT_STARTED))
    config = LogConfig.of({"retention.ms": "-1", **{name.replace("_", "."): str(value) for name, value in settings.items()}})
    lineage = Lineage([EpochEntry(*entry) for entry in epochs], end)
    view = SimpleNamespace(log_end_offset=end, segments=[SimpleNamespace(base_offset=base, size=size) for base, size in local])
    return SimpleNamespace(
        config=config, lineage=lineage, view=view, remote=remote, log_start_offset=start, local_log_start_offset=end,
        highest_remote_offset=lineage.highest_remote_offset(remote),
    )  # fmt: skip


def plan(*words, **values):
    found = plan_expiration(log_with(*words, **values), NOW)
    kept = None if found.kept is None else int.from_bytes(found.kept.id)
    return [(int.from_bytes(one.segment.id), one.reason) for one in found.due], found.log_start_offset, kept


THREE = [segment(1, 0, 9, ((0, 0),)), segment(2, 10, 19, ((0, 10),)), segment(3, 20, 29, ((0, 20),))]


def old(*numbers):
    return [one._replace(max_timestamp_ms=NOW - 1001) if int.from_bytes(one.id) in numbers else one for one in THREE]


@pytest.mark.parametrize(("numbers", "due"), [((), []), ((1,), [1]), ((1, 2), [1, 2]), ((2,), []), ((1, 3), [1])])
def test_deletion_by_time_ends_at_the_first_young_segment(numbers, due):
    expected = [(number, Reason.TIME) for number in due]
    kept = len(due) + 1
    assert plan(old(*numbers), [(0, 0)], retention_ms=1000) == (expected, 10 * len(due), kept)


def test_a_segment_exactly_as_old_as_the_limit_is_kept():
    assert plan([one._replace(max_timestamp_ms=NOW - 1000) for one in THREE], [(0, 0)], retention_ms=1000) == ([], 0, 1)


@pytest.mark.parametrize(("limit", "due"), [(400, []), (301, []), (300, [1]), (201, [1]), (200, [1, 2]), (99, [1, 2, 3])])
def test_size_deletes_until_the_limit_is_reached(limit, due):
    expected = [(number, Reason.SIZE) for number in due]
    left = None if len(due) == 3 else len(due) + 1
    local = [(20, 1000), (29, 60), (50, 40)]  # the first is in remote storage, too
    assert plan(THREE, [(0, 0)], local=local, retention_bytes=limit) == (expected, 10 * len(due), left)


def test_without_a_copy_task_segments_in_both_parts_count_twice():
    values = {"local": [(20, 1000), (30, 100)], "retention_bytes": 1200}
    assert plan(THREE, [(0, 0)], **values)[0] == []
    assert plan(THREE, [(0, 0)], remote_log_copy_disable="true", local_retention_bytes=-2, **values)[0] == [
        (1, Reason.SIZE), (2, Reason.SIZE)]  # fmt: skip


def test_segments_before_the_log_start_are_deleted():
    due, start, kept = plan(THREE, [(0, 15)], start=15)
    assert (due, start, kept) == ([(1, Reason.LOG_START)], 15, 2)


def test_an_unfinished_deletion_is_repeated_for_every_segment():
    states = {THREE[1].id: State.DELETE_SEGMENT_STARTED}
    assert plan(old(1), [(0, 0)], states=states, retention_ms=1000)[0] == [(1, Reason.TIME), (2, Reason.DELETION_BEGAN)]


def test_an_unfinished_copy_expires_like_others():
    states = {THREE[0].id: State.COPY_SEGMENT_STARTED}
    assert plan(old(1), [(0, 0)], states=states, retention_ms=1000)[0] == [(1, Reason.TIME)]


def test_segments_of_epochs_before_the_first_are_deleted():
    segments = [*THREE, segment(4, 30, 39, ((0, 30), (2, 35))), segment(5, 40, 49, ((2, 40),))]
    assert plan(segments, [(2, 35)]) == ([(1, Reason.UNREFERENCED), (2, Reason.UNREFERENCED), (3, Reason.UNREFERENCED)], 30, 4)


def test_a_discarded_history_is_kept_while_its_epochs_are_known():
    """An unclean election: epoch 1 ended at 15 for the new leader, and at 19 for the old one."""
    segments = [THREE[0], segment(2, 10, 19, ((0, 10), (1, 12))), segment(3, 10, 29, ((0, 10), (1, 12), (2, 16)))]
    epochs = [(0, 0), (1, 12), (2, 16)]
    assert plan(segments, epochs) == ([], 0, 1)
    aged = [one._replace(max_timestamp_ms=0) for one in segments]
    due, start, kept = plan(aged, epochs, retention_ms=1000)
    assert (due[:2], start, kept) == ([(1, Reason.TIME), (3, Reason.TIME)], 30, None)
    assert due[2:] == [(2, Reason.UNREFERENCED)]  # in the next round, after the log start offset has moved


# ---- the corpus: deletions by real brokers


def explained(*words):
    done = kafkalog("retain", "--explain", "--clean-start", "--format", "jsonl", *words)
    found = {}
    for row in objects_of(done.out):
        if row["type"] == "report":
            found[row["partition"].rpartition("/")[2]] = [(one.get("file", ""), one["reason"]) for one in row["events"]]
    return done.status, found


def deleted(reports):
    return {(name, path) for name, events in reports.items() for path, why in events if why.startswith("remote: its leader del")}


@pytest.mark.parametrize("name", [name for name in SETS if name in ("clean", "resumed", "pair")])
def test_segments_of_healthy_brokers_are_kept(name):
    """These brokers ran all their tasks before they stopped."""
    _, reports = explained(*brokers_log_dirs(name))
    assert reports
    assert deleted(reports) == set()


@pytest.mark.skipif(not {"killed", "resumed"} <= set(SETS), reason="compares these sets")
def test_the_next_leader_deleted_the_planned_segments():
    """`resumed` is `killed` after the next start: segments that are missing there were deleted."""
    _, reports = explained(*log_dirs("killed"))
    names = [{(row["partition"].partition(":")[2], one["id"]) for row in truth(name, "segments.jsonl") for one in row["segments"]}
             for name in ("killed", "resumed")]  # fmt: skip
    assert names[0]
    assert deleted(reports) == names[0] - names[1]
    assert deleted(reports) or not IS_OWN


@OWN_ONLY
def test_cut_epochs_are_reported_with_all_that_a_broker_deleted(tmp_path):
    """The real broker deleted all 14 segments of `codecs` within seconds."""
    top = damaged("epochs-cut", tmp_path / "top")
    status, reports = explained(str(top / "d0"), str(top / "d1"))
    [row] = [row for row in truth("clean", "segments.jsonl") if row["partition"].endswith(":codecs-0")]
    assert status == 4
    assert deleted(reports) == {("codecs-0", one["id"]) for one in row["segments"]}
    assert any(path == "leader-epoch-checkpoint" and f"deletes {len(row['segments'])} remote segments" in why
               for path, why in reports["codecs-0"])  # fmt: skip


@OWN_ONLY
def test_a_lost_start_is_reported_if_deleted_records_can_be_read_again(tmp_path):
    """The real broker returned 18 deleted records of a.b-1_c-0-1 again, from offset 34 on."""
    top = damaged("start-offsets-lost", tmp_path / "top")
    status, reports = explained(str(top / "d0"), str(top / "d1"))
    found = {name for name, events in reports.items() for path, _ in events if path == "log-start-offset-checkpoint"}
    assert (status, found) == (4, {"a.b-1_c-0-1"})
    assert any("its leader begins at 34" in why for _, why in reports["a.b-1_c-0-1"])


@OWN_ONLY
def test_without_records_the_leader_moves_the_start(tmp_path):
    top = damaged("metadata-gone", tmp_path / "top")
    _, reports = explained(str(top / "d0"), str(top / "d1"))
    assert any("its leader moves the log start offset to 725" in why for _, why in reports["cold-0"])


def test_log_dir_is_for_explanations(tmp_path):
    assert kafkalog("retain", "--log-dir", str(tmp_path), str(tmp_path)).status == 2
