"""What batch headers say about time: sums, intervals, leader epochs, and missing offsets."""

from __future__ import annotations

import json
import shutil
from array import array
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.config.server import Settings
from engine.discovery.choice import EVERY_PARTITION
from engine.files import ReadOnlyFiles
from engine.log.logdir.log_dirs import find_log_dirs
from engine.overview.brokers import brokers_of
from engine.overview.summary import PartOfLog, Replica, State, Summary, map_of_log
from engine.overview.timeline import WIDTHS, Rates, Span, Timeline, TopicAmounts
from kafkalog_cli.checking import Check, Checking, CheckResult
from tests.support.run import kafkalog

NOW = 1_800_000_000_000


def summary_of(*paths: Path, span: Span | None = None) -> tuple[Summary, list[CheckResult]]:
    """The log dirs at `paths`, read as `report` reads them."""
    files, names = ReadOnlyFiles(), [str(path) for path in paths]
    brokers = brokers_of(files, find_log_dirs(files, names), Settings(), NOW, EVERY_PARTITION)
    errors: list = []
    summary = Summary(files, brokers, span or Span(), errors.append)
    results = list(Check(files, Settings(), Checking("quick", NOW, 2, watch=summary.watch)).results(names))
    for result in results:
        summary.add(result.verified)
    assert errors == []
    return summary, results


def replicas(summary: Summary) -> dict[str, Replica]:
    return {f"{one.name}{one.state.partition.name.kind.value}": one for one in summary.replicas}


def test_records_are_those_of_the_batches(cluster_corpus):
    """The sums by producer are those of dump-log, which reads every batch in another way."""
    nodes = sorted(cluster_corpus.glob("*/*/n1"))
    assert nodes
    for node in nodes[:6]:
        summary, _ = summary_of(node)
        records, sizes = Counter[int](), Counter[int]()
        counted = [Path(one.state.partition.path) for one in summary.replicas if summary.is_counted(one)]
        logs = [str(log) for directory in counted for log in directory.glob("*.log")]
        for line in kafkalog("dump-log", "--format", "jsonl", *logs).out.splitlines():
            batch = json.loads(line)
            if batch["type"] == "batch" and batch.get("magic") == 2:
                records[batch["producer_id"]] += 0 if batch["is_control"] else batch["count"]
                sizes[batch["producer_id"]] += batch["size"]
        found = {one.producer_id: (one.amount.records, one.amount.size) for one in summary.producers()}
        assert found == {number: (records[number], sizes[number]) for number in sizes if number >= 0}
        assert (summary.amount.records, summary.amount.size) == (records.total(), sizes.total())


def test_the_epochs_of_replicas_that_forked(own_cluster_corpus):
    """The lineages of forks/2-forked-twice, as its README has them."""
    wanted = {"n1": [(0, 0, 18), (3, 18, 38), (7, 38, 42)], "n2": [(0, 0, 18), (5, 18, 21)]}
    for node, epochs in wanted.items():
        summary, _ = summary_of(own_cluster_corpus / "forks/2-forked-twice" / node)
        timeline = replicas(summary)["forked-0"].timeline
        assert timeline is not None
        assert [one[:3] for one in timeline.epochs] == epochs


def test_of_several_replicas_the_longest_counts(own_cluster_corpus):
    state = own_cluster_corpus / "forks/2-forked-twice"
    summary, _ = summary_of(state)
    assert [one.node for one in summary.replicas if one.name == "forked-0" and summary.is_counted(one)] == [1]
    assert summary.topics["forked"].amounts.total.records == 42


def test_only_batches_of_the_time_range_count(own_cluster_corpus):
    node = own_cluster_corpus / "forks/2-forked-twice/n1"
    every = summary_of(node)[0].topics["forked"].amounts
    assert every.total.last_time is not None
    part = summary_of(node, span=Span(end=every.total.last_time))[0].topics["forked"].amounts
    assert 0 < part.total.records < every.total.records
    assert part.total.records + part.outside == every.total.records


def test_a_missing_segment_is_a_gap_and_missing_in_the_map(own_cluster_corpus, tmp_path):
    """short-0 has three segments with the offsets 20 to 80; the one in the middle is removed."""
    shutil.copytree(own_cluster_corpus / "ops/1-stopped/n1/d1/short-0", tmp_path / "d/short-0")
    for path in (tmp_path / "d/short-0").glob(f"{40:020d}.*"):
        path.unlink()
    [replica] = summary_of(tmp_path / "d")[0].replicas
    assert replica.timeline is not None
    [gap] = replica.timeline.gaps
    assert (gap.first, gap.end) == (40, 60)
    assert 0 < gap.time_before <= gap.time_after
    assert replica.missing == [(40, 60)]
    assert map_of_log(replica, None, ()) == [
        PartOfLog(20, 40, State.HEADERS), PartOfLog(40, 60, State.MISSING), PartOfLog(60, 80, State.HEADERS),
    ]  # fmt: skip


def test_a_damaged_segment_is_damaged_in_the_map(own_cluster_corpus, tmp_path):
    shutil.copytree(own_cluster_corpus / "ops/1-stopped/n1/d1/short-0", tmp_path / "d/short-0")
    log = tmp_path / "d/short-0" / f"{40:020d}.log"
    data = bytearray(log.read_bytes())
    data[8:12] = b"\0\0\0\1"  # the size of its first batch
    log.chmod(0o644)
    log.write_bytes(data)
    summary, [result] = summary_of(tmp_path / "d")
    assert {finding.code for finding in result.findings} >= {"batch-size-invalid"}
    assert map_of_log(summary.replicas[0], None, {40}) == [
        PartOfLog(20, 40, State.HEADERS), PartOfLog(40, 60, State.DAMAGED), PartOfLog(60, 80, State.HEADERS),
    ]  # fmt: skip


def test_nothing_is_mapped_where_nothing_is_wrong(own_cluster_corpus):
    summary, _ = summary_of(own_cluster_corpus / "ops/1-stopped/n1")
    assert [one.name for one in summary.replicas if map_of_log(one, None, ())] == []


BATCHES = st.lists(st.tuples(st.integers(-1, 10**13), st.integers(0, 1000), st.integers(0, 10**6)), max_size=200)


@given(BATCHES, st.integers(2, 20))
def test_rates_are_sums_by_interval(batches, most):
    rates = Rates(most)
    for time, records, size in batches:
        rates.add(time, records, size)
    plain: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for time, records, size in batches:
        if time >= 0:
            plain[time // rates.width][0] += records
            plain[time // rates.width][1] += size
    assert rates.amounts == plain
    assert len(rates.amounts) <= most or rates.width == WIDTHS[-1]
    assert rates.untimed == sum(records for time, records, _ in batches if time < 0)


@pytest.mark.parametrize("width", WIDTHS[1:])
def test_each_width_divides_the_next(width):
    assert width % WIDTHS[WIDTHS.index(width) - 1] == 0


WINDOWS = st.lists(st.lists(st.tuples(
    st.integers(60, 2000), st.integers(-1, 3), st.sampled_from([0, 0, 0, 32]), st.integers(-1, 90_000), st.integers(-1, 2), st.integers(0, 1),
), min_size=1, max_size=40), max_size=5)  # fmt: skip


@given(WINDOWS, st.booleans(), st.booleans(), st.booleans(), st.booleans())
def test_batches_that_are_added_together_give_the_same_sums(windows, rise, is_plain, one_epoch, one_count):
    """As if each batch were added alone. In nearly every log times rise, and nothing is a control batch of unknown count."""
    found = []
    for add in ("_add", "_add_one_by_one"):
        topic = TopicAmounts(Span(0, 80_000), 8)
        timeline = Timeline(topic, 10)
        for rows in windows:
            columns = [list(column) for column in zip(*rows, strict=True)]
            if rise:
                columns[3].sort()
            if is_plain:
                columns[1:4] = [[max(1, one) for one in columns[1]], [0] * len(rows), [min(79_999, max(0, one)) for one in columns[3]]]
            if one_epoch:
                columns[5] = list(columns[4])
            if one_count:
                columns[1] = columns[1][:1] * len(rows)
            getattr(timeline, add)([memoryview(array("q", column)) for column in columns])
        found.append((topic.total, topic.outside, topic.rates.width, topic.rates.amounts, topic.producers, timeline._segment.amount))
    assert found[0] == found[1]
