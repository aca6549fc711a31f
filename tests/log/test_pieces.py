"""A round of cleaning in pieces leaves what the cleaner leaves: on every compaction of the corpus, and on random logs."""

from __future__ import annotations

import pickle
import shutil
import tracemalloc
from array import array
from dataclasses import replace

import pytest

from engine.config.topic import LogConfig
from engine.files import Files
from engine.formats import Codec
from engine.log.cleaner.checkpoint import CleanerCheckpoint, log_to_clean
from engine.log.cleaner.compaction import CompactionOptions, compact, note_round
from engine.log.cleaner.offset_map import SkimpyOffsetMap
from engine.log.cleaner.pieces import Changed, KeyReader, OutOfOrder, put_planned, transaction_events
from engine.log.cleaner.round_plan import plan_round, resolve_transactions
from engine.log.cleaner.stats import CleanerStats
from engine.log.cleaner.survivor_bits import GroupBits, OffsetBits, offsets_of
from engine.log.cleaner.transactions import CleanedTransactionMetadata
from engine.log.cleaner.uncleanable import Uncleanable
from engine.log.cleaner.walk import SegmentWalk
from engine.log.loading.loader import open_log
from engine.record.builder import NewRecord, build_batch
from tests.support.cases import cases, differences
from tests.support.keyed_logs import write_keyed_log, write_transactions
from tests.support.open_files import open_below
from tests.support.pieces import clean_in_pieces

NOW = 1_700_000_100_000
CASES = [case for case in cases(frozenset(("compact",))) if not case.failed and not case.is_damaged and not case.data.get("mapBytes")]  # one round


def opened(directory, settings, now, **how):
    return open_log(Files(), str(directory), LogConfig.of(settings), now=now, **({"clean_shutdown": True} | how))


def contents(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_same_files_as_kafka(case, tmp_path):
    data = case.data
    directory = case.stage(tmp_path)
    log = opened(directory, case.settings(), data["now"], recovery_point=data.get("recoveryPoint", 0),
                 log_start_offset=data.get("start", 0))  # fmt: skip
    try:
        log.update_high_watermark(data.get("highWatermark", log.log_end_offset))
        plans = []

        def hand_over(log, target):
            plans.append(plan_round(log, target.offsets.first_dirty_offset, target.first_uncleanable_offset))
            return True

        checkpoint = CleanerCheckpoint(Files(), str(directory))
        dirty = data.get("dirty", checkpoint.read())
        options = CompactionOptions(first_dirty_offset=dirty, force=not data.get("respectRatio"), rounds=1)
        compact(log, options, lambda _: None, lambda _: None, hand_over=hand_over)
        staging = tmp_path.parent / f"{tmp_path.name}-new"
        staging.mkdir()
        for plan in plans:  # none where there is nothing to clean
            before = contents(directory)
            try:
                clean_in_pieces(Files(), log, plan, str(staging), 1000)
            except OutOfOrder:  # only the cleaner itself can: nothing was changed
                assert contents(directory) == before
                return
            checkpoint.write(Files(), plan.first_uncleanable_offset)
    finally:
        log.close(keep_deleted=bool(data.get("keepDeleted")))
    assert differences(case.expected, tmp_path) == []


SETTINGS = {"cleanup.policy": "compact", "segment.bytes": "5000", "delete.retention.ms": "100000", "index.interval.bytes": "64"}


def two_logs(tmp_path, seed, *, cleaned_before):
    """A random log twice; `cleaned_before`: its first half was cleaned while more of the transactions were open → offset."""
    end = write_keyed_log(tmp_path / "one/t-0", seed, now=NOW, once=0.1)
    first_dirty = None
    log = opened(tmp_path / "one/t-0", SETTINGS, NOW, clean_shutdown=False)
    if cleaned_before:
        log.update_high_watermark(end // 2)
        done = compact(log, CompactionOptions(force=True, secret=(1, 2)), lambda _: None, lambda _: None)
        first_dirty = done.clean_until
    log.close()
    shutil.copytree(tmp_path / "one", tmp_path / "other")
    return first_dirty


@pytest.mark.parametrize("cleaned_before", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_random_logs_are_left_as_the_cleaner_leaves_them(tmp_path, seed, cleaned_before):
    first_dirty = two_logs(tmp_path, seed, cleaned_before=cleaned_before)
    now = NOW + 50_000
    one, other = (opened(tmp_path / name / "t-0", SETTINGS, now) for name in ("one", "other"))
    for log in (one, other):
        log.update_high_watermark(log.log_end_offset)
    options = CompactionOptions(force=True, secret=(1, 2), rounds=1, first_dirty_offset=first_dirty)
    done = compact(one, options, lambda _: None, lambda _: None)
    target = log_to_clean(other, first_dirty, now)
    plan = plan_round(other, target.offsets.first_dirty_offset, target.first_uncleanable_offset)
    assert len(plan.groups) > 1
    assert plan.some_only_ask
    (tmp_path / "new").mkdir()
    stats = clean_in_pieces(Files(), other, plan, str(tmp_path / "new"), 24 * (seed + 2))
    note_round(other, stats, target.offsets.first_dirty_offset, target.first_uncleanable_offset)
    assert [event.reason for event in other.report.events] == [event.reason for event in one.report.events]
    assert done.rounds[0].messages_read > done.rounds[0].messages_written > 0
    for log in (one, other):
        log.close()
    assert differences(tmp_path / "one", tmp_path / "other") == []


@pytest.fixture
def planned(tmp_path):
    """A log with a round that is planned."""
    write_keyed_log(tmp_path / "t-0", 1, now=NOW)
    log = opened(tmp_path / "t-0", SETTINGS, NOW, clean_shutdown=False)
    log.update_high_watermark(log.log_end_offset)
    target = log_to_clean(log, None, NOW)
    yield log, plan_round(log, target.offsets.first_dirty_offset, target.first_uncleanable_offset)
    log.close_handlers()


def test_aborted_transactions_that_no_index_knows_are_refused(tmp_path):
    write_keyed_log(tmp_path / "t-0", 1, now=NOW)
    opened(tmp_path / "t-0", SETTINGS, NOW, clean_shutdown=False).close()
    for index in (tmp_path / "t-0").glob("*.txnindex"):
        index.unlink()
    log = opened(tmp_path / "t-0", SETTINGS, NOW)
    log.update_high_watermark(log.log_end_offset)
    with pytest.raises(Uncleanable) as refused:
        compact(log, CompactionOptions(force=True), lambda _: None, lambda _: None)
    target = log_to_clean(log, None, NOW)
    plan = plan_round(log, target.offsets.first_dirty_offset, target.first_uncleanable_offset)
    events = {segment.base_offset: b"".join(transaction_events(Files(), plan, segment)) for segment in plan.segments}
    with pytest.raises(Uncleanable) as refused_too:
        resolve_transactions(plan, events)
    assert str(refused_too.value) == str(refused.value)
    log.close_handlers()


def test_both_ways_refuse_the_same_dirty_parts(tmp_path):
    """A transaction that was aborted below the dirty part needs no index."""
    write_keyed_log(tmp_path / "t-0", 1, now=NOW)
    opened(tmp_path / "t-0", SETTINGS, NOW, clean_shutdown=False).close()
    for index in (tmp_path / "t-0").glob("*.txnindex"):
        index.unlink()
    outcomes = set()
    log = opened(tmp_path / "t-0", SETTINGS, NOW)
    end = plan_all(log).first_uncleanable_offset
    log.close_handlers()
    for first_dirty in range(end % 3, end, max(1, end // 200)):
        copy = shutil.copytree(tmp_path / "t-0", tmp_path / f"c{first_dirty}" / "t-0")
        log = opened(copy, SETTINGS, NOW)
        plan = plan_all(log)
        plan = plan_round(log, first_dirty, plan.first_uncleanable_offset)
        events = {segment.base_offset: b"".join(transaction_events(Files(), plan, segment)) for segment in plan.segments}
        said = []
        for clean in (
            lambda log=log, at=first_dirty: compact(
                log, CompactionOptions(force=True, first_dirty_offset=at, secret=(1, 2)), lambda _: None, lambda _: None
            ),
            lambda plan=plan, events=events: resolve_transactions(plan, events),
        ):
            try:
                clean()
                said.append(None)
            except Uncleanable as error:
                said.append(str(error))
        log.close_handlers()
        assert said[0] == said[1]
        outcomes.add(said[0] is None)
    assert outcomes == {True, False}


def plan_all(log):
    log.update_high_watermark(log.log_end_offset)
    target = log_to_clean(log, None, NOW)
    return plan_round(log, target.offsets.first_dirty_offset, target.first_uncleanable_offset)


def test_a_piece_is_told_of_its_own_transactions(tmp_path):
    """However many there are in the whole log: bytes are counted."""
    aborted = write_transactions(tmp_path / "t-0", 40, 50, now=NOW)
    log = opened(tmp_path / "t-0", SETTINGS, NOW, clean_shutdown=False)
    plan = plan_all(log)
    log.close()
    events = {one.base_offset: b"".join(transaction_events(Files(), plan, one)) for one in plan.segments}
    assert sum(map(len, events.values())) == 40 * 50 * 2 * 32
    resolved = resolve_transactions(plan, events)
    assert len(resolved.of_keys) == 40
    of_keys, of_groups = ([len(pickle.dumps(one)) for one in known.values()] for known in resolved)
    assert max(of_keys) < 25 * 40 + 500
    assert max(of_groups) < 500
    assert aborted * 40 <= sum(of_keys) < aborted * 40 + 40 * 500
    assert len(pickle.dumps(plan.without_transactions)) < 40 * 100 + 4000
    assert len(pickle.dumps(plan)) < 2 * 40 * aborted + 40 * 500 + 4000


def test_small_transactions_are_no_objects(tmp_path, monkeypatch):
    write_transactions(tmp_path / "t-0", 2, 500, now=NOW)
    log = opened(tmp_path / "t-0", SETTINGS | {"segment.bytes": "10000000"}, NOW, clean_shutdown=False)
    plan = plan_all(log)
    calls = []

    def asking(offset_map, *told, real=SkimpyOffsetMap.asking):
        calls.append(told)
        return real(offset_map, *told)

    with monkeypatch.context() as patched:
        patched.setattr(SegmentWalk, "control_kind", lambda *_: pytest.fail("a plain marker is read by itself"))
        patched.setattr(CleanedTransactionMetadata, "_decide", lambda *_: pytest.fail("a batch is decided by itself"))
        patched.setattr(SkimpyOffsetMap, "asking", asking)
        events = {one.base_offset: b"".join(transaction_events(Files(), plan, one)) for one in plan.segments}
        resolved = resolve_transactions(plan, events)
        reader = KeyReader(Files(), plan, SkimpyOffsetMap(1 << 16, (1, 2)))
        for one in plan.segments:
            list(reader.read(one, resolved.of_keys[one.base_offset]))
        assert len(calls) == 2, "a window each"
    one, other = (tmp_path / name for name in ("new", "other"))
    one.mkdir()
    shutil.copytree(tmp_path / "t-0", other / "t-0")
    clean_in_pieces(Files(), log, plan, str(one), 1000)
    log.close()
    alone = opened(other / "t-0", SETTINGS | {"segment.bytes": "10000000"}, NOW)
    alone.update_high_watermark(alone.log_end_offset)
    compact(alone, CompactionOptions(force=True, secret=(1, 2), rounds=1), lambda _: None, lambda _: None)
    alone.close()
    left, wanted = contents(tmp_path / "t-0"), contents(other / "t-0")
    assert {name: data for name, data in left.items() if name.endswith(("log", "index"))} == {
        name: data for name, data in wanted.items() if name.endswith(("log", "index"))
    }


def test_nothing_is_put_where_a_new_segment_is_missing(tmp_path, planned):
    log, plan = planned
    before = {path: path.read_bytes() for path in (tmp_path / "t-0").iterdir()}
    (tmp_path / "new").mkdir()
    for written in ({}, {group[0].base_offset: str(tmp_path / "new") for group in plan.groups}):
        with pytest.raises(Changed, match=r"missing: 0{20}\.log\.cleaned"):
            put_planned(log, plan, written)
    assert {path: path.read_bytes() for path in (tmp_path / "t-0").iterdir()} == before


def test_a_log_that_has_changed_is_left_alone(tmp_path, planned):
    log, plan = planned
    changed = plan.groups[0][0]._replace(size=plan.groups[0][0].size - 1)
    plan = replace(plan, groups=((changed, *plan.groups[0][1:]), *plan.groups[1:]))
    with pytest.raises(Changed, match="bytes, it had"):
        list(transaction_events(Files(), plan, changed))
    with pytest.raises(Changed, match="have changed"):
        put_planned(log, plan, {})


def test_records_without_a_key_are_out_of_order(tmp_path):
    (tmp_path / "t-0").mkdir()
    for base, key in ((0, None), (1, b"k")):
        data = build_batch([NewRecord(base, NOW, key, b"v")], codec=Codec.NONE)
        (tmp_path / f"t-0/{base:020}.log").write_bytes(data)
    log = opened(tmp_path / "t-0", SETTINGS, NOW, clean_shutdown=False)
    plan = plan_round(log, 0, 1)
    log.close()
    with pytest.raises(OutOfOrder):
        list(KeyReader(Files(), plan, SkimpyOffsetMap(1000, (1, 2))).read(plan.segments[0], None))


def test_what_reads_segments_leaves_none_open(tmp_path, planned, monkeypatch):
    """Spark's workers outlive their tasks: what those leave open adds up."""
    log, plan = planned
    resolved = resolve_transactions(plan, {one.base_offset: b"".join(transaction_events(Files(), plan, one)) for one in plan.segments})
    log.close_handlers()
    assert open_below(tmp_path) == []
    reader = KeyReader(Files(), plan, SkimpyOffsetMap(1 << 16, (1, 2)))
    for one in plan.segments:
        list(reader.read(one, resolved.of_keys.get(one.base_offset)))
    assert len(plan.segments) > 5
    assert open_below(tmp_path) == []
    monkeypatch.setattr("engine.log.cleaner.pieces._EVENTS", 2)
    next(reading := transaction_events(Files(), plan, plan.segments[0]))
    assert len(open_below(tmp_path)) == 1
    reading.close()  # whose task was given up
    assert open_below(tmp_path) == []


def test_bits_come_in_parts_as_memory_allows():
    offsets = [2**40 + n * 999 for n in range(3000)]
    start, end = offsets[0] - 5, offsets[-1] + 1
    group = GroupBits(start, end)
    bits = OffsetBits(start, end, 1)
    for part in (*bits.add(memoryview(array("q", offsets))), *bits.take()):
        group.add(offsets_of(part.number).start, part.bits)
    known = group.survivors
    octets = enumerate(known.bits.cast("B"))
    assert [known.start + 8 * at + n for at, octet in octets if octet for n in range(8) if octet >> n & 1] == offsets
    as_offsets = GroupBits(start, end)
    as_offsets.add_offsets(memoryview(array("q", offsets[::-1])))
    assert as_offsets.survivors.bits == known.bits
    with pytest.raises(ValueError, match="outside"):
        list(bits.add(memoryview(array("q", [end + (1 << 20)]))))
    first, behind = offsets_of(part.number)[0], offsets_of(part.number + 1)[0]
    for at, data in ((behind, b"1"), (first + 8, part.bits), (first + 4, b"1"), (offsets_of(start >> 18)[0] - 8, b"1")):
        with pytest.raises(ValueError, match="outside"):
            group.add(at, data)
    for outside in (behind, -1):
        with pytest.raises(ValueError, match="outside"):
            group.add_offsets(memoryview(array("q", [outside])))


def test_parts_of_many_tasks_take_no_more_memory_than_one():
    group, part = GroupBits(0, 64 << 18), bytes(32 << 10)
    tracemalloc.start()
    for task in range(50):
        for number in range(64):
            group.add(offsets_of(number).start, bytes([task + 1]) + part[1:])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 20
    assert group.survivors.bits[0] == 63


def test_sums_of_what_groups_did():
    one = CleanerStats(messages_read=2, buffer_utilization=0.5, sets_cut_off=1, first_cut_off="A at byte 1: x")
    other = CleanerStats(messages_read=3, buffer_utilization=0.25, sets_cut_off=2, first_cut_off="B at byte 2: y")
    both = one + other
    assert (both.messages_read, both.buffer_utilization, both.sets_cut_off, both.first_cut_off) == (5, 0.5, 3, "A at byte 1: x")
