"""Batches appended together leave the files that the same batches leave one by one."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.config.topic import LogConfig
from engine.files import Files
from engine.formats import Codec
from engine.log.append.analysis import append_as_leader
from engine.log.append.bulk import Appended, BulkAppender
from engine.log.append_errors import AppendRefused, InvalidRecord, OutOfOrderSequence, RecordValidationFailed
from engine.log.loading.loader import open_log
from engine.record.builder import NewRecord, build_batch
from engine.record.windows import crc32c

NOW = 1_700_000_000_000


def batch(count, *, timestamp=NOW, step=1, size=30, key=b"k", **fields):
    records = [NewRecord(at, timestamp + at * step, key, bytes([65 + at % 26]) * size) for at in range(count)]
    return build_batch(records, base_offset=0, **fields)


def opened(directory, **config):
    names = {"segment.index.bytes": "240", "index.interval.bytes": "100"}
    names |= {name.replace("_", "."): str(value) for name, value in config.items()}
    return open_log(Files(), str(directory), LogConfig.of(names), now=NOW, clean_shutdown=True)


def files(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def together(tmp_path, data, **config):
    """Append `data` at once: (what became of its batches, the refusal, the files)."""
    appended, refused = [], None
    log = opened(tmp_path / "t-0", **config)
    try:
        BulkAppender(log, 3).append(bytearray(data), appended)
    except AppendRefused as error:
        refused = str(error)
    log.close()
    return runs(appended), refused, files(tmp_path / "t-0")


def one_by_one(tmp_path, batches, **config):
    appended, refused = [], None
    directory = tmp_path / "one" / "t-0"
    directory.parent.mkdir()
    log = opened(directory, **config)
    for data in batches:
        try:
            info = append_as_leader(log, data, 3)
        except AppendRefused as error:
            refused = str(error)
            break
        appended.append(Appended(info.first_offset, info.last_offset, info.is_duplicate))
    log.close()
    return runs(appended), refused, files(directory)


IDEMPOTENT = {"producer_id": 7, "producer_epoch": 0}
PLAIN = [batch(3), batch(1, size=200), batch(9)]
GROUPS = {
    "plain": PLAIN * 40,
    "single records": [batch(1, timestamp=NOW + at) for at in range(100)],
    "compressed between": [*PLAIN, batch(20, codec=Codec.LZ4), *PLAIN, batch(3, codec=Codec.GZIP)] * 5,
    "timestamps back and forth": [batch(3, timestamp=NOW + at * (-1) ** at, step=-1) for at in range(60)],
    "no timestamps": [build_batch([NewRecord(0, -1, None, b"v")])] * 50,
    "wrong largest timestamp": [batch(3, timestamp_type=0)[:35] + (5).to_bytes(8, "big") + batch(3)[43:]],
    "idempotent": [batch(2, base_sequence=2 * at, **IDEMPOTENT) for at in range(50)],
    "duplicates": [batch(2, base_sequence=2 * at, **IDEMPOTENT) for at in (0, 1, 2, 1, 3, 3, 4, 2, 5)] + PLAIN,
    "out of order": [batch(2, base_sequence=2 * at, **IDEMPOTENT) for at in (0, 1, 5, 6)],
    "transactional": [batch(2, base_sequence=2 * at, transactional=True, **IDEMPOTENT) for at in range(9)] + PLAIN,
    "future": [*PLAIN, batch(2, timestamp=NOW + 3_600_001), *PLAIN],
    "wrong base offset": [*PLAIN, build_batch([NewRecord(5, NOW, b"", b"")], base_offset=5), *PLAIN],
    "no key": [*PLAIN, batch(2, key=None), *PLAIN],
    "wrong checksum": [*PLAIN, PLAIN[0][:-1] + b"?"],
    "too large": [*PLAIN, batch(1, size=5000), *PLAIN],
}
CONFIGS = {
    "default": {},
    "rolls": {"segment_bytes": 1000},
    "rolls by time": {"segment_ms": 20},
    "flushes": {"flush_messages": 10},
    "append time": {"message_timestamp_type": "LogAppendTime"},
    "compact": {"cleanup_policy": "compact"},
    "recompresses": {"compression_type": "lz4"},
    "small messages": {"max_message_bytes": 4000},
}


def runs(appended):
    """Batches one behind the other as one: how many were written together is the appender's business."""
    found = []
    for one in appended:
        goes_on = found and not (one.is_duplicate or found[-1].is_duplicate) and one.first_offset == found[-1].last_offset + 1
        if goes_on:
            found[-1] = found[-1]._replace(last_offset=one.last_offset)
        else:
            found.append(one)
    return found


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())
@pytest.mark.parametrize("batches", GROUPS.values(), ids=GROUPS.keys())
def test_the_same_as_one_by_one(tmp_path, batches, config):
    got, want = together(tmp_path, b"".join(batches), **config), one_by_one(tmp_path, batches, **config)
    assert got[:2] == want[:2]
    assert sorted(got[2]) == sorted(want[2])
    assert got[2] == want[2]


@given(st.data())
@settings(max_examples=40)
def test_any_mixture_too(tmp_path_factory, data):
    tmp_path = tmp_path_factory.mktemp("mixture")
    groups = data.draw(st.lists(st.sampled_from(sorted(GROUPS)), min_size=1, max_size=3))
    config = {}
    for name in data.draw(st.lists(st.sampled_from(sorted(CONFIGS)), max_size=3)):
        config |= CONFIGS[name]
    batches = [one for name in groups for one in GROUPS[name]]
    assert together(tmp_path, b"".join(batches), **config) == one_by_one(tmp_path, batches, **config)


def test_what_was_appended_before_a_refusal_is_known(tmp_path):
    log, appended = opened(tmp_path / "t-0"), []
    with pytest.raises(OutOfOrderSequence):
        BulkAppender(log, 0).append(bytearray(b"".join(GROUPS["out of order"])), appended)
    assert appended == [Appended(0, 3)]
    with pytest.raises(RecordValidationFailed):
        BulkAppender(log, 0).append(bytearray(b"".join(GROUPS["future"])), appended)
    assert log.log_end_offset == 17
    assert log.leader_epoch_cache.latest_epoch == 0


def test_part_of_a_batch_is_left(tmp_path):
    log, appended = opened(tmp_path / "t-0"), []
    data = PLAIN[0] + PLAIN[1][:-1]
    assert BulkAppender(log, 0).append(bytearray(data), appended) == len(PLAIN[0])
    assert appended == [Appended(0, 2)]


def test_a_batch_of_more_records_than_columns(tmp_path):
    count = 40_000
    log, appended = opened(tmp_path / "t-0", compression_type="zstd"), []
    BulkAppender(log, 0).append(bytearray(batch(count, size=1, step=0)), appended)
    append_as_leader(log, batch(count, size=1, step=0, codec=Codec.LZ4), 0)
    assert appended == [Appended(0, count - 1)]
    assert log.log_end_offset == 2 * count


def test_a_header_that_promises_records_without_end(tmp_path):
    data = bytearray(batch(1, codec=Codec.GZIP))
    data[23:27] = (2**31 - 2).to_bytes(4, "big")
    data[57:61] = (2**31 - 1).to_bytes(4, "big")
    data[17:21] = crc32c(data[21:]).to_bytes(4, "big")
    log = opened(tmp_path / "t-0")
    with pytest.raises(InvalidRecord):
        append_as_leader(log, data, 0)
    assert log.log_end_offset == 0


def test_a_duplicate_takes_back_little_of_what_follows(tmp_path, monkeypatch):
    """Each ends a run; what stands behind it gets its offsets anew, and must not be all the rest each time."""
    taken_back, take_back = [], BulkAppender._take_back

    def counted(appender, view, row, heads):
        taken_back.append(len(heads))
        take_back(appender, view, row, heads)

    monkeypatch.setattr(BulkAppender, "_take_back", counted)

    def requests(sequence_of):
        return bytearray().join(
            build_batch([NewRecord(0, 1000, None, b"v")], producer_id=producer, producer_epoch=0, base_sequence=sequence_of(producer))
            for producer in range(1000)
        )

    log = open_log(Files(), str(tmp_path / "t-0"), LogConfig(), now=2000, clean_shutdown=True)
    appender, appended = BulkAppender(log, 0), []
    appender.append(requests(lambda _producer: 0), appended)
    appender.append(requests(lambda producer: int(producer % 10 != 0)), appended)
    log.close()
    assert sum(one.is_duplicate for one in appended) == len(taken_back) == 100
    assert log.log_end_offset == 1900
    assert sum(taken_back) < 100 * 40


def test_any_number_of_batches_is_remembered_in_little_room(tmp_path):
    """Nobody asks what became of them before the end of the input, which may be far."""
    log, appended = opened(tmp_path / "t-0", segment_index_bytes="100000", index_interval_bytes="4096"), []
    appender, data = BulkAppender(log, 0), b"".join(batch(1, size=1, step=0) for _ in range(3000))
    for _ in range(3):
        appender.append(bytearray(data), appended)
    log.close()
    assert len(appended) < 10
    assert sum(one.last_offset - one.first_offset + 1 for one in appended) == 9000
