"""Records as consumers read them: what a real consumer was handed by a real broker, and every shape of damage."""

from __future__ import annotations

import base64
import gzip
import itertools
import json
import shutil
import struct

import pytest

from engine.files import ReadOnlyFiles
from engine.log.fetch.reading import FetchIsolation, fetch_offset_by_timestamp
from engine.log.fetch.records import FetchLimits, RecordFetcher
from engine.log.fetch.view import PartitionView
from tests.support.corpus import corpus_directory
from tests.support.run import kafkalog
from tests.support.unstable import first_unstable_offset

ISOLATIONS = {"read_uncommitted": FetchIsolation.HIGH_WATERMARK, "read_committed": FetchIsolation.READ_COMMITTED}
OPEN_AT_THE_STOP = {"tx-0"}  # the broker that the consumer asked had ended a transaction that hangs in the files


def consumed():
    top = corpus_directory() / "kafka-4.3.1"
    for folder in ("clean", "unclean"):
        for isolation in ISOLATIONS:
            for path in sorted((top / "consumed" / folder / isolation).glob("*.gz")):
                name = path.name.removesuffix(".jsonl.gz")
                yield from (pytest.param(path, one, isolation, id=f"{folder}-{isolation}-{name}")
                            for one in (top / "logs" / folder).glob(f"*/{name}"))  # fmt: skip


def text(data):
    return None if data is None else base64.b64encode(data).decode()


def everything(directory, isolation=FetchIsolation.HIGH_WATERMARK, report=pytest.fail, **options):
    view = PartitionView(ReadOnlyFiles(), str(directory), report)
    return list(RecordFetcher(view, view.log_start_offset, isolation, report, FetchLimits(**options)))


@pytest.mark.parametrize(("path", "directory", "isolation"), list(consumed()))
def test_what_a_real_consumer_read(path, directory, isolation):
    with gzip.open(path) as lines:
        wanted = [json.loads(line) for line in lines]
    got = [
        {
            "partition": int(directory.name.rpartition("-")[2]), "offset": record.offset, "timestamp": record.timestamp,
            "timestampType": "LogAppendTime" if record.batch.is_log_append_time else "CreateTime",
            "leaderEpoch": record.batch.partition_leader_epoch, "key": text(record.key), "value": text(record.value),
            "headers": [[name.decode(), text(value)] for name, value in record.headers],
        }
        for record in everything(directory, ISOLATIONS[isolation], report=print)
    ]
    if isolation == "read_committed" and directory.name in OPEN_AT_THE_STOP:
        count = len(wanted)
        wanted = [one for one in wanted if one["offset"] < first_unstable_offset(directory)]
        assert 0 < len(wanted) < count
    assert got == wanted


@pytest.fixture
def partition(own_corpus, tmp_path):
    shutil.copytree(own_corpus / "kafka-4.3.1/cases/recover-clean/before/topic-0", tmp_path / "topic-0")
    return tmp_path / "topic-0"


def test_a_limit_of_bytes_ends_between_batches(partition):
    records = everything(partition)
    sizes = list(dict.fromkeys((record.batch.base_offset, record.batch.size_in_bytes) for record in records))
    total = 0
    for count, (_, size) in enumerate(sizes[:6], 1):
        total += size
        for limit in (total, total + 1):
            got = everything(partition, max_bytes=limit)
            assert {record.batch.base_offset for record in got} == {base for base, _ in sizes[:count]}, limit
    assert len({record.batch.base_offset for record in everything(partition, max_bytes=1)}) == 1


def test_every_offset_can_be_the_first(partition):
    view = PartitionView(ReadOnlyFiles(), str(partition), pytest.fail)
    offsets = [record.offset for record in everything(partition)]
    for start in range(view.log_start_offset, view.log_end_offset + 1):
        got = [record.offset for record in RecordFetcher(view, start, FetchIsolation.LOG_END, pytest.fail)]
        assert got == [offset for offset in offsets if offset >= start]


def test_damage_is_told_and_reading_goes_on_behind_it(partition):
    offsets = [record.offset for record in everything(partition)]
    log = min(partition.glob("*.log"))
    data = bytearray(log.read_bytes())
    size = 12 + int.from_bytes(data[8:12], "big")
    data[size + 8 : size + 12] = b"\xff\xff\xff\xff"  # the second batch of the first segment
    log.write_bytes(data)
    findings = []
    got = [record.offset for record in everything(partition, report=findings.append)]
    assert {finding.code for finding in findings} == {"batch-size-invalid", "skipped-bytes"}
    assert set(got) < set(offsets)
    assert got[-1] == offsets[-1]


def test_a_torn_end_is_not_read(partition):
    last = max(partition.glob("*.log"))
    offsets = [record.offset for record in everything(partition)]
    last.write_bytes(last.read_bytes() + last.read_bytes()[:40])
    findings = []
    assert [record.offset for record in everything(partition, report=findings.append)] == offsets
    assert [finding.code for finding in findings] == ["torn-tail"]


def test_unused_space_in_indexes_does_not_mislead(partition):
    offsets = [record.offset for record in everything(partition)]
    for name, size in ((".index", 8), (".timeindex", 12)):
        index = max(partition.glob(f"*{name}"))
        index.write_bytes(index.read_bytes() + bytes(size * 500))
    assert [record.offset for record in everything(partition)] == offsets
    view = PartitionView(ReadOnlyFiles(), str(partition), pytest.fail)
    assert view.log_end_offset == offsets[-1] + 1


def test_a_log_that_grows(partition):
    logs = sorted(partition.glob("*.log"))
    whole = logs[-1].read_bytes()
    first = 12 + int.from_bytes(whole[8:12], "big")
    offsets = [record.offset for record in everything(partition)]
    logs[-1].write_bytes(whole[: first + 20])
    findings = []
    view = PartitionView(ReadOnlyFiles(), str(partition), findings.append)
    fetcher = RecordFetcher(view, 0, FetchIsolation.READ_COMMITTED, findings.append)
    got = [record.offset for record in fetcher]
    assert not view.refresh()
    logs[-1].write_bytes(whole)
    assert view.refresh()
    assert not view.refresh()
    assert got + [record.offset for record in fetcher] == offsets
    assert [finding.code for finding in findings] == ["torn-tail"]


def test_a_segment_that_comes_and_one_that_goes(partition):
    logs = sorted(partition.glob("*.log"))
    last = logs[-1].read_bytes()
    logs[-1].unlink()
    offsets = []
    view = PartitionView(ReadOnlyFiles(), str(partition), pytest.fail)
    fetcher = RecordFetcher(view, 0, FetchIsolation.LOG_END, pytest.fail)
    offsets += [record.offset for record in fetcher]
    logs[-1].write_bytes(last)
    logs[0].unlink()
    assert view.refresh()
    more = [record.offset for record in fetcher]
    assert more
    assert offsets[-1] < more[0]
    assert len(view.segments) == len(logs) - 1


@pytest.mark.parametrize("lost", ["all", "first", "emptied", "damaged"])
@pytest.mark.parametrize("name", ["tx-0", "tx-1", "tx-v1-0", "compacted-tx-0"])
def test_aborted_transactions_are_known_without_their_indexes(own_corpus, tmp_path, name, lost):
    source = next((own_corpus / "kafka-4.3.1/logs/clean").glob(f"*/{name}"))
    wanted = [record.offset for record in everything(source, FetchIsolation.READ_COMMITTED)]
    shutil.copytree(source, tmp_path / name)
    indexes = sorted((tmp_path / name).glob("*.txnindex"))
    for index in indexes[:1] if lost == "first" else indexes:
        if lost == "damaged":
            index.write_bytes(b"\xff" * len(index.read_bytes()))
        elif lost == "emptied":
            index.write_bytes(b"")
        else:
            index.unlink()
    assert [record.offset for record in everything(tmp_path / name, FetchIsolation.READ_COMMITTED)] == wanted
    assert len(wanted) < len(everything(tmp_path / name))
    view = PartitionView(ReadOnlyFiles(), str(tmp_path / name), pytest.fail)
    for start in range(view.log_start_offset, view.log_end_offset, 3):
        fetcher = RecordFetcher(view, start, FetchIsolation.READ_COMMITTED, pytest.fail, FetchLimits(end=start + 10))
        assert [record.offset for record in fetcher] == [offset for offset in wanted if start <= offset < start + 10]


def test_aborted_transactions_behind_damage_are_known(own_corpus, tmp_path):
    source = next((own_corpus / "kafka-4.3.1/logs/clean").glob("*/tx-1"))
    shutil.copytree(source, tmp_path / "tx-1")
    log = max((tmp_path / "tx-1").glob("*.log"))
    data = bytearray(log.read_bytes())
    second = 12 + int.from_bytes(data[8:12], "big")
    data[second + 8 : second + 12] = b"\xff\xff\xff\xff"
    log.write_bytes(data)
    wanted = [record.offset for record in everything(tmp_path / "tx-1", FetchIsolation.READ_COMMITTED, report=print)]
    for index in (tmp_path / "tx-1").glob("*.txnindex"):
        index.unlink()
    assert [record.offset for record in everything(tmp_path / "tx-1", FetchIsolation.READ_COMMITTED, report=print)] == wanted
    assert len(wanted) > 3


def sizes_of(log):
    """(first offset, position, size) of each batch."""
    data, at, found = log.read_bytes(), 0, []
    while at < len(data):
        size = 12 + int.from_bytes(data[at + 8 : at + 12], "big")
        found.append((int.from_bytes(data[at : at + 8], "big"), at, size))
        at += size
    return found


def change(path, at, new):
    data = bytearray(path.read_bytes())
    data[at : at + len(new)] = new
    path.write_bytes(data)


def only_sound(directory, isolation=FetchIsolation.HIGH_WATERMARK, **options):
    """(offsets of what can be read, what is said of the rest)."""
    findings = []
    got = everything(directory, isolation, findings.append, only_sound=True, **options)
    return [record.offset for record in got], [finding.code for finding in findings]


TOO_LARGE, NEGATIVE = b"\x7f\xff\xff\xf0", b"\xff\xff\xff\xf0"


@pytest.mark.parametrize("isolation", list(FetchIsolation))
@pytest.mark.parametrize("size", [TOO_LARGE, NEGATIVE], ids=["too-large", "negative"])
@pytest.mark.parametrize("batch", [0, 2, -2])
@pytest.mark.parametrize("segment", [0, -1])
def test_damage_with_something_sound_behind_it_is_no_torn_end(partition, segment, batch, size, isolation):
    offsets = [record.offset for record in everything(partition)]
    log = sorted(partition.glob("*.log"))[segment]
    batches = sizes_of(log)
    first, at, _ = batches[batch]
    behind = batches[batch + 1][0]
    change(log, at + 8, size)
    view = PartitionView(ReadOnlyFiles(), str(partition), pytest.fail)
    assert view.log_end_offset == offsets[-1] + 1
    wanted = [offset for offset in offsets if not first <= offset < behind]
    assert only_sound(partition, isolation) == (wanted, ["batch-size-invalid", "skipped-bytes"])
    before = [offset for offset in wanted if offset < first]
    assert only_sound(partition, isolation, end=first) == (before, [])
    for start in range(first, behind + 1):
        fetcher = RecordFetcher(view, start, isolation, print, FetchLimits(only_sound=True))
        assert [record.offset for record in fetcher] == [offset for offset in wanted if offset >= start]


def test_what_the_last_segment_ends_with_is_torn_though_it_holds_the_batches_of_another_log(partition):
    last = max(partition.glob("*.log"))
    whole = last.read_bytes()
    offsets = [record.offset for record in everything(partition)]
    payload = min(partition.glob("*.log")).read_bytes()[:700]  # lower offsets: such a thing may be the value of a record
    header = (offsets[-1] + 1).to_bytes(8, "big") + (5000).to_bytes(4, "big") + whole[12:61]
    last.write_bytes(whole + header + payload)
    findings = []
    view = PartitionView(ReadOnlyFiles(), str(partition), findings.append)
    assert (view.log_end_offset, view.tail) == (offsets[-1] + 1, findings[0]._replace(what=view.tail.what))
    assert [finding.code for finding in findings] == ["torn-tail"]
    assert only_sound(partition)[0] == offsets


@pytest.mark.parametrize("delta", [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff"])
@pytest.mark.parametrize("segment", [0, -1])
def test_what_a_batch_with_a_wrong_checksum_says_of_offsets_hides_nothing(partition, segment, delta):
    offsets = [record.offset for record in everything(partition)]
    log = sorted(partition.glob("*.log"))[segment]
    batches = sizes_of(log)
    first, at, _ = batches[1]
    change(log, at + 23, delta)
    wanted = [offset for offset in offsets if not first <= offset < batches[2][0]]
    assert only_sound(partition) == (wanted, ["crc-mismatch"])


@pytest.mark.parametrize("magic", [3, 5, 127])
def test_a_magic_that_no_consumer_knows_is_told(partition, magic):
    """No checksum covers it. The records are there, and shown; a consumer ends in front of them."""
    offsets = [record.offset for record in everything(partition)]
    log = min(partition.glob("*.log"))
    first, at, _ = sizes_of(log)[1]
    change(log, at + 16, bytes([magic]))
    findings = []
    assert [record.offset for record in everything(partition, report=findings.append)] == offsets
    assert [(one.code, one.where.position, one.where.offset) for one in findings] == [("unknown-magic", at, first)]


def test_the_last_entry_of_an_index_that_points_astray_hides_nothing(partition):
    offsets = [record.offset for record in everything(partition)]
    index = max(partition.glob("*.index"))
    position = int.from_bytes(index.read_bytes()[-4:], "big")
    for wrong in (position + 7, position - 3):
        change(index, index.stat().st_size - 4, wrong.to_bytes(4, "big"))
        assert PartitionView(ReadOnlyFiles(), str(partition), pytest.fail).log_end_offset == offsets[-1] + 1


@pytest.mark.parametrize(("tail", "code"), [(bytes(5000), "zero-tail"), (b"\xff" * 700, "batch-size-invalid"), (b"\x00" * 7 + b"\x63" * 9, "torn-tail")])
def test_what_stands_behind_the_last_batch_has_a_name(partition, tail, code):
    last = max(partition.glob("*.log"))
    offsets = [record.offset for record in everything(partition)]
    last.write_bytes(last.read_bytes() + tail)
    findings = []
    view = PartitionView(ReadOnlyFiles(), str(partition), findings.append)
    assert [finding.code for finding in findings] == [view.tail.code] == [code]
    assert (view.log_end_offset, view.sound_end_offset) == (offsets[-1] + 1, offsets[-1] + 1)


def test_a_copy_is_as_long_as_it_is_sound(partition):
    max(partition.glob("*.index")).unlink()  # the end is looked for from its last entry on
    whole = PartitionView(ReadOnlyFiles(), str(partition), pytest.fail)
    assert whole.sound_end_offset == whole.log_end_offset
    log = max(partition.glob("*.log"))
    first, at, _ = sizes_of(log)[-2]
    change(log, at + 8, TOO_LARGE)
    view = PartitionView(ReadOnlyFiles(), str(partition), pytest.fail)
    assert (view.sound_end_offset, view.log_end_offset) == (first, whole.log_end_offset)


@pytest.mark.parametrize("harm", [
    lambda entries, _size: [(offset, position) for (offset, _), (_, position) in zip(reversed(entries), entries, strict=True)],
    lambda entries, _size: [(offset, position) for (offset, _), (_, position) in itertools.pairwise(entries)],
    lambda entries, _size: [(offset, position + 7) for offset, position in entries],
    lambda entries, size: [(offset, position + size) for offset, position in entries],
    lambda entries, _size: [(offset, -position) for offset, position in entries],
], ids=["out-of-order", "too-far", "inside-a-batch", "behind-the-end", "negative"])  # fmt: skip
def test_an_index_that_leads_astray_is_not_believed(own_corpus, tmp_path, harm):
    source = next(own_corpus.glob("kafka-4.3.1/logs/clean/*/dense-index-0"))
    shutil.copytree(source, tmp_path / "dense-index-0")
    index = tmp_path / "dense-index-0" / "00000000000000000000.index"
    entries = list(struct.iter_unpack(">ii", index.read_bytes()))
    assert len(entries) > 3
    size = index.with_suffix(".log").stat().st_size
    index.write_bytes(b"".join(struct.pack(">ii", *entry) for entry in harm(entries, size)))
    offsets = [record.offset for record in everything(source)]
    for number in range(0, len(offsets), len(offsets) // 20):
        view = PartitionView(ReadOnlyFiles(), str(tmp_path / "dense-index-0"), pytest.fail)
        got = [one.offset for one in RecordFetcher(view, offsets[number], FetchIsolation.HIGH_WATERMARK, pytest.fail)]
        assert got == offsets[number:]
        view.close()
    sound, astray = (PartitionView(ReadOnlyFiles(), str(path), pytest.fail) for path in (source, tmp_path / "dense-index-0"))
    for record in everything(source):
        assert astray.locate(record.offset) == sound.locate(record.offset)
        assert fetch_offset_by_timestamp(astray, record.timestamp) == fetch_offset_by_timestamp(sound, record.timestamp)
    sound.close()
    astray.close()
    assert kafkalog("fetch", "--raw", str(tmp_path / "dense-index-0")).out == index.with_suffix(".log").read_bytes()
