"""Records that a kernel shows, a run at a time, beside the same records shown one by one."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import pytest
from crc32c import crc32c

from engine.discovery.names import partition_of
from engine.dump.json_stream import JsonStream
from engine.dump.text_buffer import TextBuffer
from engine.errors import KafkalogError
from engine.files import ReadOnlyFiles
from engine.formats import BATCH_HEADER, Codec, ControlType
from engine.log.fetch.reading import FetchIsolation
from engine.log.fetch.records import RecordFetcher
from engine.log.fetch.view import PartitionView
from engine.record.assembly import LOG_APPEND_TIME
from engine.record.builder import NewRecord, build_batch, end_txn_batch
from kafkalog_cli.fetch_output import JsonRecords, TextRecords
from tests.support.corpus import corpus_directory
from tests.support.json_output import all_objects
from tests.support.run import kafkalog

TEMPLATES = [r"%s\n", r"%t|%p|%o|%T|%k|%K|%s|%S|%R|%h|%%|\xff\n", "%k%k%k", "%R%R", "", "-"]
CORPUS = corpus_directory()
PARTITIONS = sorted({path.parent for path in (CORPUS / "kafka-4.3.1/logs").rglob("*.log")})


class Shown(NamedTuple):
    text: bytes
    counts: dict[str, int]


def before_1970(batch):
    """The batch with timestamps of the seconds around 1970: the builder refuses them, brokers do not."""
    changed = bytearray(batch)
    for name in ("base_timestamp", "max_timestamp"):
        at = BATCH_HEADER.positions[name]
        stamp = int.from_bytes(changed[at : at + 8], "big") - 7000
        changed[at : at + 8] = stamp.to_bytes(8, "big", signed=True)
    crc, behind = BATCH_HEADER.positions["crc"], BATCH_HEADER.positions["attributes"]
    changed[crc:behind] = crc32c(bytes(changed[behind:])).to_bytes(4, "big")
    return bytes(changed)


def wild_log(directory):
    """A log with all that records can have, in every format, codec and kind of batch."""
    values = [None, b"", b"v", "\u00e9\u202e\U0001f600\u2028".encode(), b"\xff\xc0\x80", b"\"\\\0\x01\n\t\x7f\x1f/", b"\xed\xa0\x80"]
    pairs = list(product(values, values))
    headers = [(), [(b"", None)], [(b"h", b""), (b"h", b"w,=")], [(value or b"", value) for value in values]]
    data, base = b"", 0
    variants = [(magic, codec, kind) for magic, codec, kind in product((0, 1, 2), (Codec.NONE, Codec.GZIP, Codec.LZ4), (0, LOG_APPEND_TIME))
                if magic or not kind]  # fmt: skip
    for magic, codec, kind in variants:
        records = [
            NewRecord(base + number, -1 if magic == 0 else 1000 * number, key, value,
                      headers[number % len(headers)] if magic == 2 else ())
            for number, (key, value) in enumerate(pairs)
        ]  # fmt: skip
        more = {"partition_leader_epoch": base % 5 - 1} if magic == 2 else {}
        batch = build_batch(records, magic=magic, codec=codec, timestamp_type=kind, log_append_time=base, **more)
        data += before_1970(batch) if magic == 2 else batch
        base += len(pairs)
    for producer, kind in ((7, ControlType.ABORT), (8, ControlType.COMMIT)):
        written = [NewRecord(base, 5, b"t", b"tx-of-%d" % producer)]
        data += build_batch(written, producer_id=producer, producer_epoch=0, base_sequence=0, transactional=True)
        data += end_txn_batch(kind, 3, base_offset=base + 1, timestamp=6, producer_id=producer, producer_epoch=0)
        base += 2
    for size in (70_000, 3 << 20):  # some buffers have no room for the first, none for the second
        for value in (b"x" * size, b"\xff" * size, b"\0" * size):
            data += build_batch([NewRecord(base, 2**62, b"large", value, [(b"h", value[: size // 8])])])
            base += 1
    directory.mkdir()
    (directory / f"{0:020}.log").write_bytes(data + build_batch([NewRecord(base, 1, None, None)]))


@pytest.fixture(scope="module")
def wild(tmp_path_factory):
    directory = tmp_path_factory.mktemp("wild") / "orders-7"
    wild_log(directory)
    return directory


def runs(directory, isolation=FetchIsolation.HIGH_WATERMARK):
    """The runs of a log; of one that cannot be read none."""
    try:
        view = PartitionView(ReadOnlyFiles(), str(directory), lambda _finding: None)
        yield from RecordFetcher(view, view.log_start_offset, isolation, lambda _finding: None).runs()
        view.close()
    except KafkalogError:
        return


def shown(directory, make, size, *, is_quick, isolation=FetchIsolation.HIGH_WATERMARK):
    """What the renderer that `make` makes of a buffer shows of a log, by runs or record by record."""
    text = bytearray()
    out = TextBuffer(text.extend, size)
    renderer, stream = make(out)
    total = 0
    for run in runs(directory, isolation):
        total += run.end - run.first
        if is_quick:
            assert renderer.run(run, 2) == min(2, run.end - run.first)
            assert renderer.run(run._replace(first=min(run.first + 2, run.end)), None) == max(run.end - run.first - 2, 0)
        else:
            for record in run.records():
                renderer.record(record)
    out.flush()
    return Shown(bytes(text), {} if stream is None else dict(+stream.counts)), total


def text_by(template, directory):
    return lambda out: (TextRecords(template, partition_of(f"{directory}/x"), out, escape=False), None)


def json_by(array, directory):
    def make(out):
        stream = JsonStream(out, "fetch", array=array)
        return JsonRecords(stream, partition_of(f"{directory}/x")), stream

    return make


def makers(directory):
    yield from (text_by(template, directory) for template in TEMPLATES)
    yield from (json_by(array, directory) for array in (False, True))


@pytest.mark.parametrize("size", [40, 1000, 100_000, 1 << 20])
@pytest.mark.parametrize("isolation", [FetchIsolation.HIGH_WATERMARK, FetchIsolation.READ_COMMITTED])
def test_all_that_records_can_have(wild, size, isolation):
    for make in makers(wild):
        quick, total = shown(wild, make, size, is_quick=True, isolation=isolation)
        slow, _ = shown(wild, make, size, is_quick=False, isolation=isolation)
        assert quick == slow
        assert total > 700
    if isolation is FetchIsolation.READ_COMMITTED:
        assert b"tx-of-7" not in quick.text


@pytest.mark.parametrize("directory", PARTITIONS, ids=lambda path: str(path.relative_to(CORPUS)))
def test_the_corpus(directory):
    for make in makers(directory):
        assert shown(directory, make, 5000, is_quick=True) == shown(directory, make, 5000, is_quick=False)


@pytest.mark.parametrize("form", ["json", "jsonl"])
def test_a_finding_in_front_of_the_first_record(wild, tmp_path, form):
    """Whether a comma is due depends on what was written before."""
    log = next(wild.glob("*.log")).read_bytes()
    damaged = bytearray(log)
    damaged[13] ^= 1  # of the checksum
    (tmp_path / "t-0").mkdir()
    (tmp_path / f"t-0/{0:020}.log").write_bytes(damaged)
    done = kafkalog("fetch", "--format", form, "--limit", "3", str(tmp_path / "t-0"))
    objects = all_objects(done.out)[1:]
    assert [one["type"] for one in objects] == ["finding", *["fetched-record"] * 3, "end"]


def test_memory_does_not_grow_with_the_records_of_a_run(wild):
    """A buffer keeps its size: what it has no room for is shown record by record."""
    out = TextBuffer(lambda _view: None, 500)
    renderer = TextRecords(r"%s\n", None, out, escape=False)
    for run in runs(wild):
        renderer.run(run, None)
    assert len(out.data) == 500


