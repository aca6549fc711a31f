"""What the sink writes and how it commits, without a session: every file, and every stop on the way.

That no sync is missing: see test_sink_syncs.
"""

from __future__ import annotations

import datetime as dt
import os
import tracemalloc

import pytest

from engine.arrow.batches import BatchBuilder
from engine.arrow.staged import StagedPartition, check_topic
from engine.errors import KafkalogError, LogDirLocked
from engine.files import Files, replace
from engine.formats import CODEC_NAMES, Codec
from engine.log.commits import staging as jobs
from engine.log.commits.commit import NotAppended
from engine.log.errors import LogDamaged
from engine.log.fetch.reading import FetchIsolation
from engine.log.fetch.records import RecordFetcher
from engine.log.fetch.view import PartitionView
from engine.log.logdir.log_manager import CHECKPOINTS
from engine.log.verify.partition import verify_partition
from kafkalog_spark.errors import OptionError
from kafkalog_spark.sink.options import read_sink_options
from tests.support.crash_files import CrashFiles, PowerCut, StartProblem, cut, run
from tests.support.disk_model import Disk
from tests.support.other_process import lock_held
from tests.support.sink_runs import NOW, SinkRun, batch, read

FILES = Files()
FULL = os.environ.get("KAFKALOG_CRASH") == "full"  # every stop, not an eighth of them


def values(*names, **columns):
    return batch(value=[name.encode() for name in names], **columns)


@pytest.fixture
def root(tmp_path):
    return str(tmp_path / "logs")


def sink(root, **options):
    return SinkRun(FILES, root, **{"topic": "t", "numPartitions": "1", **options})


def staged(root):
    return FILES.exists(f"{root}/{jobs.STAGING}")


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_rows_come_back_as_they_were(root, codec):
    keys = [None, b"", b"k", "ключ".encode()] * 500
    contents = [b"x" * (one % 300) if one % 5 else None for one in range(2000)]
    headers = [None, [], [{"key": "h", "value": None}], [{"key": "", "value": b""}, {"key": "é", "value": b"\0"}]] * 500
    times = [dt.datetime.fromtimestamp(one, dt.UTC) for one in range(2000)]
    rows = batch(key=keys, value=contents, headers=headers, timestamp=times)
    sink(root, keepTimestamps="true", kafka__compression__type=codec, topic__segment__bytes="100000").write([rows, rows])
    [got] = read(FILES, root, "key", "value", "headers", "timestamp", "offset").values()
    wire = [tuple((one["key"].encode(), one["value"]) for one in row or ()) for row in headers]
    wanted = list(zip(keys, contents, wire, [1000 * one for one in range(2000)], strict=True)) * 2
    assert [(key, value, tuple((k, v) for k, v in heads), when) for key, value, heads, when, _ in got] == wanted
    assert [row[-1] for row in got] == list(range(4000))
    assert not staged(root)


def test_batches_are_as_large_as_asked_for(root):
    sink(root, kafka__batch__size="1000").write([values(*["v" * 90] * 100)])
    head = FILES.read(f"{root}/t-0/00000000000000000000.log", 1 << 20)
    sizes, at = [], 0
    while at < len(head):
        sizes.append(12 + int.from_bytes(head[at + 8 : at + 12], "big"))
        at += sizes[-1]
    assert max(sizes) <= 1000 < 2 * min(sizes[:-1])


def test_large_rows_are_taken_few_at_a_time(root):
    """Beside what Spark hands over at once, a task holds little."""
    rows = values(*["v" * (1 << 20)] * 96)
    tracemalloc.start()
    try:
        sink(root, topic__max__message__bytes="2000000").write([rows])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 60 << 20
    [got] = read(FILES, root).values()
    assert [(offset, len(value)) for offset, value in got] == [(offset, 1 << 20) for offset in range(96)]


def test_appending_goes_on_where_partitions_end(root):
    sink(root).write([values("a", "b")], [values("c")], [])
    sink(root, topic__segment__bytes="250").write([values(*"defg")], [values("h" * 100)], [values("i" * 100)])
    [rows] = read(FILES, root).values()
    assert [offset for offset, _ in rows] == list(range(9))
    assert [value[:1] for _, value in rows] == [b"a", b"b", b"c", b"d", b"e", b"f", b"g", b"h", b"i"]
    metadata = FILES.read(f"{root}/t-0/partition.metadata", 100)
    sink(root, numPartitions="3").write([values("x", partition=[2])])
    assert FILES.read(f"{root}/t-2/partition.metadata", 100) == metadata  # one topic, one id
    assert FILES.read(f"{root}/.kafka_cleanshutdown", 100)
    assert b"t 0 9" in FILES.read(f"{root}/recovery-point-offset-checkpoint", 1000)


def test_a_large_piece_moves_in_whole_with_other_offsets(root, monkeypatch):
    monkeypatch.setattr("engine.log.commits.commit._MAX_COPIED", 0)
    tasks = [[values(*[f"{task}-{one}" for one in range(300)])] for task in range(3)]
    for _ in range(2):
        sink(root, topic__segment__bytes="2000", kafka__batch__size="500", topic__index__interval__bytes="600").write(*tasks)
    [rows] = read(FILES, root).values()
    assert rows == [(at, f"{at // 300 % 3}-{at % 300}".encode()) for at in range(1800)]


def test_offsets_are_kept_with_their_gaps(root):
    first = values("a", "b", "c", offset=[5, 7, 2**40])
    sink(root, keepOffsets="true").write([first], [values("d", offset=[2**40 + 1])])
    sink(root, keepOffsets="true").write([values("e", offset=[2**41])])
    assert read(FILES, root) == {"t-0": [(5, b"a"), (7, b"b"), (2**40, b"c"), (2**40 + 1, b"d"), (2**41, b"e")]}


@pytest.mark.parametrize(("tasks", "said"), [
    ([[values("a", offset=[9])]], "ends before offset 10: a row with offset 9 cannot be appended"),
    ([[values("a", "b", offset=[12, 11])]], "offset 11 follows 12: rows of a Kafka partition must come in the order"),
    ([[values("a", "b", offset=[12, 14])], [values("c", offset=[13])]], "two tasks wrote offsets 12 to 14 and from 13"),
    ([[values("a", offset=[-1])]], "a row has no offset, or a negative one"),
    ([[values("a", offset=[None])]], "a row has no offset, or a negative one"),
])  # fmt: skip
def test_offsets_that_can_not_be_kept_change_nothing(root, tasks, said):
    sink(root, keepOffsets="true").write([values("z", offset=[9])])
    with pytest.raises(KafkalogError, match=said):
        sink(root, keepOffsets="true").write(*tasks)
    assert read(FILES, root) == {"t-0": [(9, b"z")]}


def test_rows_go_where_kafkas_producer_sends_them(root):
    keys = [b"k%d" % one for one in range(200)]
    sink(root, numPartitions="7").write([batch(key=keys, value=keys)])
    found = {value: int(name[2:]) for name, rows in read(FILES, root).items() for _, value in rows}
    assert [found[key] for key in keys[:10]] == [2, 0, 2, 4, 2, 3, 2, 3, 5, 0]  # BuiltInPartitioner.partitionForKey
    assert set(found.values()) == set(range(7))


def test_a_partition_that_is_said_goes_before_the_key(root):
    rows = batch(key=[b"k0"] * 4, value=[b"a", b"b", b"c", b"d"], partition=[3, None, 3, 0])
    sink(root, numPartitions="7").write([rows])
    found = read(FILES, root)
    assert [value for _, value in found["t-3"]] == [b"a", b"c"]
    assert sum(map(len, found.values())) == 4


@pytest.mark.parametrize(("rows", "said"), [
    (values("a", partition=[7]), "7 is not in the range"),
    (values("a", partition=[-1]), "Invalid partition: -1"),
    (values("a", topic=[None]), "null topic present in the data"),
    (values("a", topic=["a b"]), "Topic name is invalid: 'a b'"),
    (values("a", topic=["__cluster_metadata"]), "only controllers write it"),
    (values("a", headers=[[{"key": None, "value": b""}]]), "a header without a key"),
    (values("a" * 900_000), "exceeds the maximum configured segment size of 800000"),
    (values("a" * 2_000_000), "which exceeds the maximum configured value of 1048588"),
])  # fmt: skip
def test_rows_that_no_record_can_be_made_of(root, rows, said):
    options = {"numPartitions": "3", "topic__segment__bytes": "800000", **({"keepTimestamps": "true"} if "timestamp" in rows.schema.names else {})}
    job = SinkRun(FILES, root, **options, **({} if "topic" in rows.schema.names else {"topic": "t"}))
    with pytest.raises((KafkalogError, OptionError), match=said):
        job.write([rows])
    assert read(FILES, root) == {}


def test_times_before_1970_are_kept(root):
    """Producers send no such records, but brokers take them: backups have them, and are written back."""
    moments = [-4_999_000, -86_400_001, -1, 0, 7]
    times = [dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=one) for one in moments]
    for codec in ("none", "lz4"):  # the second lot is appended to the first
        options = {"keepTimestamps": "true", "kafka.compression.type": codec, "topic": "t", "numPartitions": "1"}
        SinkRun(FILES, root, **options).write([values(*"abcde", timestamp=times)])
    view = PartitionView(FILES, f"{root}/t-0", pytest.fail)
    runs = RecordFetcher(view, 0, FetchIsolation.HIGH_WATERMARK, pytest.fail).runs()
    rows = [row for one in BatchBuilder(("timestamp",), "t", 0, "").batches(runs) for row in one.column(0).cast("int64").to_pylist()]
    view.close()
    assert rows == [one * 1000 for one in moments] * 2
    found = []
    verify_partition(FILES, f"{root}/t-0", found.append)
    assert found == []


def test_overwriting_replaces_the_topics_that_are_written(root):
    several = batch(value=[b"1", b"2", b"3"], topic=["a", "b", "a"], partition=[0, 0, 1])
    SinkRun(FILES, root).write([several])
    SinkRun(FILES, root).write([batch(value=[b"4"], topic=["a"], partition=[0])], overwrite=True)
    assert read(FILES, root) == {"a-0": [(0, b"4")], "b-0": [(0, b"2")]}
    sink(root, topic="b").write([], overwrite=True)
    assert read(FILES, root) == {"a-0": [(0, b"4")]}
    SinkRun(FILES, root).write([], overwrite=True)
    assert read(FILES, root) == {"a-0": [(0, b"4")]}
    checkpoint = FILES.read(f"{root}/recovery-point-offset-checkpoint", 1000)
    assert b"a 0 1" in checkpoint


def test_nothing_is_written_beside_a_broker(root):
    job = sink(root)
    pieces = job.stage([values("a")])
    with lock_held(f"{root}/.lock"), pytest.raises(LogDirLocked, match="most likely a running broker"), jobs.holding(FILES, root):
        pass
    job.commit(pieces)
    assert read(FILES, root) == {"t-0": [(0, b"a")]}


def test_many_partitions_of_many_topics(root):
    """More than stay open, with rows of all of them in every batch."""
    rows = [batch(value=[b"%d" % (turn * 300 + one) for one in range(300)], topic=[f"t{one % 5}" for one in range(300)],
                  partition=[one // 5 % 60 for one in range(300)]) for turn in range(3)]  # fmt: skip
    SinkRun(FILES, root).write(rows)
    found = read(FILES, root)
    assert len(found) == 300
    for name, records in found.items():
        number = int(name[1]) + 5 * int(name[3:])
        assert records == [(turn, b"%d" % (turn * 300 + number)) for turn in range(3)]


def test_pieces_that_are_gone_are_told(root):
    job = sink(root)
    pieces = job.stage([values("a")])
    jobs.clean_up(FILES, job.job)
    with pytest.raises(KafkalogError, match="No such file"):
        job.commit(pieces)
    assert read(FILES, root) == {}


def test_dropping_a_job_leaves_what_it_committed(root, monkeypatch):
    job = sink(root)
    pieces = job.stage([values("a")])
    monkeypatch.setattr(jobs, "clean_up", lambda *_: None)  # the process ended before
    job.commit(pieces)
    monkeypatch.undo()
    assert staged(root)
    jobs.drop(FILES, job.job, NOW)
    assert read(FILES, root) == {"t-0": [(0, b"a")]}
    assert not staged(root)


def test_a_commit_that_others_followed_is_never_undone(root, monkeypatch):
    """Though the process that made it had no time to remove its journal, and lives on."""
    job = sink(root, name="first")
    pieces = job.stage([values("a")])
    monkeypatch.setattr(jobs, "clean_up", lambda *_: None)
    job.commit(pieces)
    monkeypatch.undo()
    sink(root, name="second").write([values("b")])
    jobs.drop(FILES, job.job, NOW)
    assert read(FILES, root) == {"t-0": [(0, b"a"), (1, b"b")]}


def test_a_commit_that_stopped_is_undone_before_the_next_one():
    disk, pieces = prepared()
    changes = run(lambda files: SinkRun(files, ROOT).commit(pieces), disk).changes
    files = run(lambda files: SinkRun(files, ROOT).commit(pieces), disk, stop_at=changes * 2 // 3)
    files = CrashFiles(files.disk())
    SinkRun(files, ROOT, name="next").write([batch(value=[b"x"], topic=["a"], partition=[0])])
    assert read(files, ROOT) == {**BEFORE, "a-0": [*BEFORE["a-0"], (2, b"x")]}


def test_a_log_that_is_damaged_stays_as_it_is(root):
    """Not even a commit that is undone cuts it: that is for `recover`, which keeps what it cuts."""
    sink(root, kafka__batch__size="1").write([values("a", "b")])
    for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):
        FILES.remove(f"{root}/{name}")
    path = f"{root}/t-0/00000000000000000000.log"
    with FILES.open_writable(path) as file:
        file.write_at(file.size() // 2 - 2, b"!")  # in the first of two batches
    before = FILES.read(path, 1000)
    with pytest.raises(LogDamaged, match="opening it would lose records"):
        sink(root).write([values("b")], [values("c", partition=[0])])
    assert FILES.read(path, 1000) == before


@pytest.mark.parametrize(("cut", "error", "words"), [
    (5, LogDamaged, "the log has lost offset 1, and"),  # the recovery point says that they were there
    (-300, NotAppended, r"/t-0/0{20}\.log: at byte \d+: no whole batch follows, and appends would land"),
])  # fmt: skip
def test_nothing_is_appended_behind_a_torn_end(root, cut, error, words):
    """After a clean stop Kafka reads no log: rows went behind the rest of a batch, where no consumer finds them."""
    sink(root, kafka__batch__size="1").write([values("a", "b")])
    path = f"{root}/t-0/00000000000000000000.log"
    with FILES.open_writable(path) as file:
        size = file.size()
        if cut > 0:
            file.truncate(size - cut)
        else:
            file.write_at(size, b"x" * -cut)
    before = {name: FILES.read(f"{root}/t-0/{name}", 1 << 20) for name in FILES.list(f"{root}/t-0")}
    with pytest.raises(error, match=words):
        sink(root).write([values("c")])
    assert {name: FILES.read(f"{root}/t-0/{name}", 1 << 20) for name in FILES.list(f"{root}/t-0")} == before


@pytest.mark.parametrize("marker", [True, False])
@pytest.mark.parametrize("spoilt", [1, -1])
def test_nothing_is_appended_to_a_log_whose_last_batch_is_damaged(root, marker, spoilt):
    """A broker that was not stopped cleanly cuts it, and one that was appends behind it."""
    sink(root, kafka__batch__size="1").write([values("a", "b", "c")])
    path = f"{root}/t-0/00000000000000000000.log"
    with FILES.open_writable(path) as file:
        file.write_at(file.size() - spoilt if spoilt > 0 else file.size() * 2 // 3 - 1, b"Z")
    if not marker:
        FILES.remove(f"{root}/.kafka_cleanshutdown")
    before = {name: FILES.read(f"{root}/t-0/{name}", 1 << 20) for name in FILES.list(f"{root}/t-0")}
    with pytest.raises(KafkalogError, match=r"/t-0") as refused:
        sink(root).write([values("d")])
    assert "kafkalog recover" in refused.value.do
    assert {name: FILES.read(f"{root}/t-0/{name}", 1 << 20) for name in FILES.list(f"{root}/t-0")} == before


# ---- stops and failures -----------------------------------------------------------------------------

ROOT = "/d/logs"
BEFORE = {"a-0": [(1, b"b")], "b-0": [(0, b"c")], "c-0": [(0, b"d")]}
APPENDED = {**BEFORE, "a-0": [*BEFORE["a-0"], (2, b"e"), (3, b"f")], "b-0": [(0, b"c"), (1, b"g")], "n-1": [(0, b"h")]}
OVERWRITTEN = {"a-0": [(0, b"e"), (1, b"f")], "b-0": [(0, b"g")], "n-1": [(0, b"h")], "c-0": [(0, b"d")]}


def first_written():
    """A directory with three topics."""
    files = CrashFiles(Disk({}, frozenset({"d"})))
    SinkRun(files, ROOT, name="first").write(
        [batch(value=[b"a", b"b", b"c", b"d"], topic=["a", "a", "b", "c"], partition=[0, 0, 0, 0])]
    )
    return files.disk()


OWN = (*(kind.value for kind in CHECKPOINTS), ".kafka_cleanshutdown")


def own_files(files):
    """What stands in the log dir's own files; None: there is none."""
    return {name: files.read(f"{ROOT}/{name}", 1000) if files.exists(f"{ROOT}/{name}") else None for name in OWN}


def prepared(*, clean=True):
    """As `first_written`, with a job that has staged what it will commit: (disk, pieces).

    A broker and its cleaner have left their lines, and the first record of `a` is deleted. clean: as after an orderly stop
    """
    files = CrashFiles(first_written())
    for name in OWN[1:4]:
        replace(files, f"{ROOT}/{name}", [b"0\n1\na 0 1\n"])
    if not clean:
        files.remove(f"{ROOT}/.kafka_cleanshutdown")
    pieces = SinkRun(files, ROOT).stage(
        [batch(value=[b"e", b"g"], topic=["a", "b"], partition=[0, 0])],
        [batch(value=[b"f", b"h"], topic=["a", "n"], partition=[0, 1])],
    )
    return files.disk(), pieces


@pytest.mark.crash
@pytest.mark.parametrize("copied", [0, 1 << 20], ids=["moved", "copied"])
@pytest.mark.parametrize("overwrite", [False, True])
def test_wherever_a_commit_stops_it_is_all_or_nothing(overwrite, copied, monkeypatch):
    monkeypatch.setattr("engine.log.commits.commit._MAX_COPIED", copied)
    disk, pieces = prepared(clean=bool(copied))
    own = own_files(CrashFiles(disk))
    after = OVERWRITTEN if overwrite else APPENDED

    def work(files):
        SinkRun(files, ROOT).commit(pieces, overwrite=overwrite)

    whole = run(work, disk)
    assert read(CrashFiles(whole.disk()), ROOT) == after
    changes, seen = whole.changes, set()
    first = 4 * overwrite + 2 * bool(copied)  # the four cases take turns
    for number in range(changes + 1) if FULL else [*range(first, changes, 8), changes]:
        for what, left in cut(work, disk, number):
            files = CrashFiles(left)
            with jobs.holding(files, ROOT):
                jobs.clear_leftovers(files, ROOT, NOW, of_all=True)
            found = read(files, ROOT)
            assert found in (BEFORE, after), what
            assert not files.exists(f"{ROOT}/{jobs.STAGING}"), what
            assert files.exists(f"{ROOT}/.kafka_cleanshutdown") == bool(copied), what
            if found == BEFORE:
                assert own_files(files) == own, what
            seen.add(found == after)
            if number == changes:
                assert found == after, what
    assert seen == {True, False}


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_commit_that_fails_undoes_itself(overwrite):
    disk, pieces = prepared(clean=overwrite)
    own = own_files(CrashFiles(disk))
    after = OVERWRITTEN if overwrite else APPENDED
    operations = run(lambda files: SinkRun(files, ROOT).commit(pieces, overwrite=overwrite), disk).operations
    told = 0
    for number in range(0, len(operations), 5):
        files = CrashFiles(disk, problem=StartProblem(number))
        try:
            SinkRun(files, ROOT).commit(pieces, overwrite=overwrite)
        except KafkalogError:
            told += 1
            assert jobs.read_manifest(files, ROOT).last == "first", operations[number]
            assert read(files, ROOT) == BEFORE, operations[number]
            assert own_files(files) == own, operations[number]
            with jobs.holding(files, ROOT):
                jobs.drop(files, SinkRun(files, ROOT).job, NOW)
            assert read(files, ROOT) == BEFORE, operations[number]
        else:
            assert read(files, ROOT) == after, operations[number]
    assert told > 10


def test_a_first_commit_that_stops_leaves_a_directory_without_a_brokers_files():
    files = CrashFiles(Disk({}, frozenset({"d"})))
    pieces = SinkRun(files, ROOT).stage([values("a", topic=["a"], partition=[0])])
    disk = files.disk()
    changes = [operation.path for operation in run(lambda files: SinkRun(files, ROOT).commit(pieces), disk).operations
               if operation.changes]  # fmt: skip
    stopped = run(lambda files: SinkRun(files, ROOT).commit(pieces), disk, stop_at=changes.index(f"{ROOT}/{jobs.MANIFEST}.tmp"))
    files = CrashFiles(stopped.disk())
    assert None not in (own_files(files)[OWN[0]], own_files(files)[OWN[-1]])
    with jobs.holding(files, ROOT):
        jobs.clear_leftovers(files, ROOT, NOW, of_all=True)
    assert set(own_files(files).values()) == {None}
    assert read(files, ROOT) == {}


def test_what_replaces_a_log_inherits_nothing_of_it():
    """A cleaner that took it for clean would let old values outlive their tombstones."""
    disk, pieces = prepared()
    files = CrashFiles(disk)
    SinkRun(files, ROOT).commit(pieces, overwrite=True)
    points, starts, watermarks, cleaned, _ = (set((data or b"").splitlines()[2:]) for data in own_files(files).values())
    assert points == {b"a 0 2", b"b 0 1", b"c 0 1", b"n 1 1"}
    assert starts == watermarks == cleaned == set()


def test_a_power_cut_is_no_error_that_is_undone(monkeypatch):
    disk, pieces = prepared()
    with pytest.raises(PowerCut):
        SinkRun(CrashFiles(disk, stop_at=20), ROOT).commit(pieces)


# ---- many partitions -----------------------------------------------------------------------


def test_each_partition_more_costs_the_same(root, monkeypatch):
    asked = []
    set_partition_count = StagedPartition.set_partition_count
    monkeypatch.setattr(StagedPartition, "set_partition_count", lambda staged, count: asked.append(count) or set_partition_count(staged, count))
    count = 150
    sink(root, numPartitions=str(count)).write([values(*["v"] * count, partition=list(range(count)))])
    assert len(read(FILES, root)) == count
    assert count <= len(asked) < 2 * count + 1


def test_what_waits_in_all_has_a_limit(root, monkeypatch):
    monkeypatch.setattr("engine.arrow.staged._MAX_UNPACKED_IN_TASK", 10_000)
    packed = []
    pack = StagedPartition.pack
    monkeypatch.setattr(StagedPartition, "pack", lambda staged: packed.append(staged.waiting) or pack(staged))
    rows = [values(*["v" * 500] * 8, partition=[0, 1, 2, 3] * 2)] * 10
    sink(root, numPartitions="4").write(rows)
    assert len([size for size in packed if size]) > 8  # not only in the end
    assert max(packed) < 10_000
    assert sum(map(len, read(FILES, root).values())) == 80


# ---- options ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("options", "said"), [
    ({}, "no path"),
    ({"path": "s3://a/b"}, "mounted"),
    ({"path": "/x", "topik": "t"}, "unknown option 'topik'"),
    ({"path": "/x", "numPartitions": "0"}, "numPartitions is '0', expected a positive number"),
    ({"path": "/x", "numPartitions": "2147483648"}, "numPartitions is '2147483648', which is more than 2147483647"),
    ({"path": "/x", "kafka.batch.size": "2147483648"}, "which is more than 2147483647"),
    ({"path": "/x", "kafka.compression.type": "brotli"}, "Invalid value brotli for configuration compression.type: String must be one of: none, gzip"),
    ({"path": "/x", "kafka.compression.type": "gzip", "kafka.compression.gzip.level": "12"}, "Invalid value 12 for configuration compression.gzip.level: Value must be no more than 9"),
    ({"path": "/x", "kafka.compression.zstd.level": "high"}, "Invalid value high for configuration compression.zstd.level: Not a number of type INT"),
    ({"path": "/x", "topic.segment.bytes": "one"}, "Invalid value one for configuration segment.bytes"),
    ({"path": "/x", "topic.segment.bites": "1"}, "Unknown topic config name: segment.bites"),
    ({"path": "/x", "kafka.value.serializer": "s"}, "'value.serializer' is not supported"),
    ({"path": "/x", "keepOffsets": "maybe"}, "keepOffsets is 'maybe'"),
    ({"path": "/x", "topic": "a/b"}, "Topic name is invalid"),
])  # fmt: skip
def test_bad_options_are_one_sentence(options, said):
    with pytest.raises(OptionError) as caught:
        read_sink_options(options)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_options_as_they_are_meant():
    options = read_sink_options({
        "PATH": "file:///x/", "kafka.compression.type": "zstd", "kafka.compression.zstd.level": "7", "kafka.acks": "all",
        "topic.segment.bytes": "2097152", "numPartitions": "8",
    })  # fmt: skip
    assert (options.path, options.codec, options.level, options.config.segment_size) == ("/x", Codec.ZSTD, 7, 2 << 20)
    assert (options.partitions, options.topic) == (8, None)
    check_topic("a.b_c-9")
