"""Logs of topics with remote storage: no command makes a broker forget what is there.

What a broker of 4.3.1 answered for the same log dirs is in truth/offsets.jsonl; it keeps every line of log-start-offset-checkpoint.
"""

from __future__ import annotations

import shutil
import stat

import pytest

from engine.config.topic import LogConfig
from engine.files import ReadOnlyFiles
from engine.log.logdir.topics import remote_log_start
from engine.log.tiering import Starts, Tiering, tiering_of
from tests.support.corpus import tiered_answers, tiered_directory
from tests.support.json_output import objects_of
from tests.support.run import kafkalog

NOW = "1732300000000"
STARTS = "log-start-offset-checkpoint"
TIERED = {"remote.storage.enable": "true"}


@pytest.fixture(params=["clean", "resumed"])
def named(request):
    return request.param


def copied(name, tmp_path, *, is_clean=True):
    """A copy that may be changed; `is_clean` False: as a killed broker leaves it."""
    top = tmp_path / name
    shutil.copytree(tiered_directory() / name, top)
    for path in [top, *top.rglob("*")]:
        path.chmod(path.stat().st_mode | stat.S_IWUSR)
    if not is_clean:
        for marker in top.glob("d?/.kafka_cleanshutdown"):
            marker.unlink()
    return top


def answers(top):
    return tiered_answers(top)


def directory_of(top, answer):
    return next(top.glob(f"d?/{answer['topic']}-{answer['partition']}"))


def lines(top):
    return {path: path.read_text() for path in sorted(top.glob(f"d?/{STARTS}"))}


def snapshots(top):
    """Of each tiered log the newest producer snapshot."""
    newest = {}
    for partition in tiered(top):
        files = sorted(partition.glob("*.snapshot"))
        if files:
            newest[files[-1]] = files[-1].read_bytes()
    return newest


def tiered(top):
    return [directory_of(top, answer) for answer in answers(top) if answer["topic"] not in ("untiered", "detached")]


def first_epochs(top):
    return {path: (path / "leader-epoch-checkpoint").read_text().splitlines()[2:3] for path in tiered(top)
            if path.name not in ("empty-0", "steady-1")}


@pytest.mark.parametrize("words", [("recover",), ("recover", "--recovery-point", "0", "--salvage"), ("retain",), ("roll",),
                                   ("retain", "--config", "retention.ms=1"), ("retain", "--config", "local.retention.ms=1")])
@pytest.mark.parametrize("log_dirs", [("d0", "d1"), ("d1",)])
@pytest.mark.parametrize("is_clean", [True, False])
def test_starts_epochs_and_snapshots_stay(words, log_dirs, is_clean, named, tmp_path):
    top = copied(named, tmp_path, is_clean=is_clean)
    before, epochs, producers = lines(top), first_epochs(top), snapshots(top)
    segments = [segment for partition in tiered(top) for segment in partition.glob("*.log")]
    done = kafkalog(*words, "--now", NOW, *(str(top / name) for name in log_dirs))
    assert done.status == 0, done.out + done.err
    assert lines(top) == before
    assert first_epochs(top) == epochs
    if words != ("roll",):
        assert {path: path.read_bytes() for path in producers} == producers
    assert [path for path in segments if not path.exists()] == []


def test_reports_have_the_offsets_of_the_broker(named, tmp_path):
    top = copied(named, tmp_path, is_clean=False)
    done = kafkalog("recover", "--format", "json", str(top / "d0"), str(top / "d1"))
    reports = {one.get("partition"): one for one in objects_of(done.out)}
    for answer in answers(top):
        report = reports[str(directory_of(top, answer))]
        assert (report["log_start_offset"], report["log_end_offset"]) == (answer["earliest"], answer["latest"]), answer


@pytest.mark.parametrize("topic", ["cold-0", "expired-time-0", "plain-0", "a.b-1_c-0-1"])
@pytest.mark.parametrize("words", [(), ("--config", "remote.storage.enable=true")])
def test_a_log_without_the_metadata_log_beside_it(topic, words, tmp_path):
    top = copied("clean", tmp_path, is_clean=False)
    shutil.rmtree(top / "d0/__cluster_metadata-0")
    partition = top / "d0" / topic
    before, names = lines(top), sorted(path.name for path in partition.iterdir())
    done = kafkalog("recover", *words, str(top / "d0"))
    assert done.status == 0, done.err
    assert set(before[top / "d0" / STARTS].splitlines()[2:]) <= set(lines(top)[top / "d0" / STARTS].splitlines())
    assert sorted(path.name for path in partition.iterdir()) == names


def test_a_lost_checkpoint_of_starts(tmp_path):
    """Kafka takes 0 then: with it no record in remote storage is deleted, though deleted ones come back."""
    top = copied("clean", tmp_path, is_clean=False)
    for path in lines(top):
        path.unlink()
    assert kafkalog("recover", str(top / "d0"), str(top / "d1")).status == 0
    assert "\ncold 0 0\n" in (top / "d0" / STARTS).read_text()
    assert (top / "d0/cold-0/00000000000000000725.snapshot").exists()


def test_records_are_deleted_into_the_remote_part(tmp_path):
    top = copied("clean", tmp_path)
    done = kafkalog("delete-records", "--before", "60", str(top / "d0/plain-0"))
    assert done.status == 0, done.err
    assert b"the leader deletes segments before it in remote storage" in done.out
    assert "\nplain 0 60\n" in (top / "d0" / STARTS).read_text()
    assert (top / "d0/plain-0/leader-epoch-checkpoint").read_text().splitlines()[2] == "0 60"
    assert (top / "d0/plain-0/00000000000000000127.log").exists()


@pytest.mark.parametrize("words", [("--to", "60"), ("--to", "130", "--fully")])
def test_a_truncation_that_forgets_remote_records_is_refused(words, tmp_path):
    top = copied("clean", tmp_path)
    before, epochs = lines(top), first_epochs(top)
    done = kafkalog("truncate", *words, str(top / "d0/plain-0"))
    assert done.status == 4
    assert b"before offset 127 are in remote storage" in done.out
    assert lines(top) == before
    assert first_epochs(top) == epochs
    assert (top / "d0/plain-0/00000000000000000127.log").stat().st_size == 2720
    assert kafkalog("truncate", "--to", "140", str(top / "d0/plain-0")).status == 0
    assert "\nplain 0 0\n" in (top / "d0" / STARTS).read_text()


def test_retain_says_why_segments_stay(tmp_path):
    top = copied("clean", tmp_path)
    done = kafkalog("retain", "--explain", "--config", "retention.ms=1", str(top / "d1/nocopy-0"), str(top / "d0/untiered-0"))
    assert b"a broker deletes them only after it copied them to remote storage" in done.out
    assert b"kept: a broker deletes it after it copied it to remote storage" in done.out


def test_no_tiered_segment_is_deleted_to_free_space(tmp_path):
    top = copied("clean", tmp_path)
    before = sorted(top.glob("d?/*/*.log"))
    done = kafkalog("retain", "--free", "1000TiB", str(top / "d0"), str(top / "d1"))
    assert done.status != 0
    assert sorted(top.glob("d?/*/*.log")) == before


def test_verify_index_does_not_call_tiered_logs_broken(named, tmp_path):
    top = copied(named, tmp_path)
    for log_dir in ("d0", "d1"):
        done = kafkalog("verify", str(top / log_dir))
        assert b"broken" not in done.out
        assert "epochs-beyond-log" not in done.err


def test_fetch_says_what_is_in_remote_storage(named):
    top = tiered_directory() / named
    for answer in answers(top):
        directory, first, local = directory_of(top, answer), answer["earliest"], answer["earliest_local"]
        assert remote_log_start(ReadOnlyFiles(), str(directory)) == (first if first < local else None), answer
        done = kafkalog("fetch", "-f", "%o ", str(directory))
        shown = [int(word) for word in done.out.split()]
        assert all(offset >= local for offset in shown)
        told = f"offsets {first} to {local - 1}: in remote storage, not read"
        assert (done.status, told in done.err) == ((4, True) if first < local else (0, False)), done.err
        if first < local:
            done = kafkalog("fetch", "--offset", str(first), str(directory))
            assert (done.status, done.out) == (8, b"")
            assert "error[records-in-remote-storage]" in done.err
            assert f"kafkalog fetch --offset {local} " in done.err
        for offset in (str(local), "latest", f"-{answer['latest'] - local}" if answer["latest"] > local else "latest"):
            assert kafkalog("fetch", "--offset", offset, str(directory)).status == 0, answer
        if first:
            done = kafkalog("fetch", "--offset", str(first - 1), str(directory))
            assert (done.status, f"starting from offset: {first}." in done.err) == (2, True)


def test_a_time_may_be_that_of_a_remote_record():
    directory = str(tiered_directory() / "clean/d0/plain-0")
    done = kafkalog("fetch", "--time", "1700683101764", "--format", "jsonl", directory)
    assert done.status == 4
    assert "records-in-remote-storage" in [one.get("code") for one in objects_of(done.out)]


def test_what_settings_say():
    assert tiering_of("t", LogConfig.of(TIERED), is_known=True) is Tiering.TIERED
    assert tiering_of("t", LogConfig(), is_known=True) is Tiering.UNTIERED
    assert tiering_of("t", LogConfig(), is_known=False) is Tiering.UNKNOWN
    assert tiering_of("t", LogConfig.of({"cleanup.policy": "compact"}), is_known=False) is Tiering.UNTIERED
    for topic in ("__consumer_offsets", "__remote_log_metadata", "__cluster_metadata"):
        assert tiering_of(topic, LogConfig.of(TIERED), is_known=True) is Tiering.UNTIERED


@pytest.mark.parametrize(("starts", "expected"), [
    (Starts(0, 50, 0), True), (Starts(13, 50, 20), True),
    (Starts(None, 50, 0), False),  # segments may be lost
    (Starts(10, 50, 50), False),  # the checkpoint is older than the deletion of segments
    (Starts(50, 50, 50), False), (Starts(60, 50, 60), False), (Starts(0, 0, 0), False), (Starts(50, 50, None), False),
    (Starts(0, 50, None), True),  # lost epochs say nothing
])  # fmt: skip
def test_what_files_say_where_settings_are_unknown(starts, expected):
    assert starts.are_of_tiered(Tiering.UNKNOWN) is expected
    assert starts.are_of_tiered(Tiering.TIERED) is True
    assert starts.are_of_tiered(Tiering.UNTIERED) is False


def test_a_broker_without_remote_storage_has_no_tiered_log(tmp_path):
    """Of its topics' settings nothing is known here, but server.properties is."""
    top = copied("clean", tmp_path, is_clean=False)
    for text, kept in (("log.dirs=/d\n", False), ("remote.log.storage.system.enable=true\n", True)):
        shutil.copytree(top / "d1", top / "only", dirs_exist_ok=True)
        (top / "server.properties").write_text(text)
        kafkalog("recover", "--config-file", str(top / "server.properties"), str(top / "only"))
        assert ("\nheaders 0 0\n" in (top / "only" / STARTS).read_text()) is kept


def entries(top, partition):
    return (top / partition / "leader-epoch-checkpoint").read_text().splitlines()[2:]


@pytest.mark.parametrize("words", [("recover",), ("recover", "--mark-clean"), ("verify", "--rebuild")])
def test_epochs_that_are_rebuilt_keep_those_of_remote_records(words, tmp_path):
    """Without them the next leader deletes all of its segments in remote storage."""
    top = copied("clean", tmp_path, is_clean=False)
    path = top / "d0/tx-0/leader-epoch-checkpoint"
    before = entries(top, "d0/tx-0")
    path.write_text("0\n4\n0 0\n2 268\nx y\n4 540\n")
    done = kafkalog(*words, str(top / "d0/tx-0" if words[0] != "recover" else top / "d0"))
    assert done.status in (1, 4), done.err
    assert entries(top, "d0/tx-0")[:2] == before[:2] == ["0 0", "2 268"]


@pytest.mark.parametrize("words", [("recover",), ("verify", "--rebuild")])
@pytest.mark.parametrize(("partition", "is_broken"), [("d0/tx-0", True), ("d1/custom-0", True), ("d1/codecs-0", False)])
def test_epochs_of_remote_records_that_can_not_be_read_are_not_made_up(words, partition, is_broken, tmp_path):
    """Where the first local batch is of epoch 0, all before it are: there is none below."""
    top = copied("clean", tmp_path)
    path, before = top / partition / "leader-epoch-checkpoint", entries(top, partition)
    path.write_bytes(b"garbage")
    done = kafkalog(*words, str(path.parent))
    if is_broken:
        assert done.status in (4, 8)
        assert "copy leader-epoch-checkpoint from another replica" in done.err
        assert path.read_bytes() == b"garbage"
    else:
        assert done.status == 1, done.out
        assert entries(top, partition) == before


NO_EPOCHS = b"0\n0\n"
DAMAGES = {
    "no entry": ("d1/codecs-0/leader-epoch-checkpoint", lambda _data: NO_EPOCHS),
    "no entry, one epoch": ("d0/cold-0/leader-epoch-checkpoint", lambda _data: NO_EPOCHS),
    "no entry, several remote epochs": ("d0/plain-0/leader-epoch-checkpoint", lambda _data: NO_EPOCHS),
    "garbage epochs": ("d0/plain-0/leader-epoch-checkpoint", lambda _data: b"garbage"),
    "no first epoch": ("d1/expired-size-0/leader-epoch-checkpoint", lambda data: b"0\n2\n" + b"\n".join(data.split(b"\n")[3:])),
    "a torn line": (f"d1/{STARTS}", lambda data: data.replace(b"custom 0 0", b"custom 0")),
    "no line": (f"d1/{STARTS}", lambda data: data.replace(b"custom 0 0\n", b"").replace(b"\n12\n", b"\n11\n")),
    "garbage starts": (f"d1/{STARTS}", lambda _data: b"garbage"),
    "zeros": (f"d0/{STARTS}", lambda data: bytes(len(data))),
}


def damaged(top, *names):
    for name in names:
        path, change = DAMAGES[name]
        (top / path).write_bytes(change((top / path).read_bytes()))


def remote_epochs(partition):
    """Entries that begin before the first local segment; the last of them holds there as well."""
    path, first = partition / "leader-epoch-checkpoint", min(int(path.name[:20]) for path in partition.glob("*.log"))
    return [line for line in path.read_text(errors="replace").splitlines()[2:] if line.count(" ") == 1 and int(line.split()[1]) < first]


@pytest.mark.parametrize("names", [*((name,) for name in DAMAGES), ("garbage epochs", "zeros"), ("garbage epochs", "a torn line")])
@pytest.mark.parametrize("words", [(), ("--mark-clean",)])
@pytest.mark.parametrize("log_dirs", [("d0", "d1"), ("d1",)])
def test_no_start_and_no_remote_epoch_is_dropped(names, words, log_dirs, tmp_path):
    top = copied("clean", tmp_path, is_clean=False)
    first = {path: remote_epochs(path) for path in tiered(top)}
    damaged(top, *names)
    readable = {path: set(path.read_text(errors="replace").splitlines()[2:]) for path in top.glob(f"d?/{STARTS}")}
    changed = {top / path.rpartition("/")[0] for path, _ in map(DAMAGES.get, names)}
    for _ in range(2):  # what is left is still reported by the next run
        done = kafkalog("recover", "--now", NOW, *words, *(str(top / name) for name in log_dirs))
        for path, before in first.items():
            is_harmed = path in changed
            if not is_harmed:
                assert remote_epochs(path) == before, path
            elif path.parent.name in log_dirs and remote_epochs(path) != before:
                assert done.status in (4, 8), "a loss is reported"
                assert f"{path}" in done.out.decode() + done.err
                assert not (path.parent / ".kafka_cleanshutdown").exists()
        for path, lines_before in readable.items():
            well_formed = {line for line in lines_before if len(line.split()) == 3}
            if path.parent.name in log_dirs:
                assert well_formed <= set(path.read_text().splitlines()), path


@pytest.mark.parametrize("log_dirs", [("d0", "d1"), ("d1",)])
@pytest.mark.parametrize("starts", ["a torn line", "no line", "garbage starts"])
def test_epochs_are_not_rebuilt_from_the_local_part_where_both_files_are_lost(starts, log_dirs, tmp_path):
    top = copied("clean", tmp_path, is_clean=False)
    damaged(top, starts)
    path = top / "d1/custom-0/leader-epoch-checkpoint"
    path.write_bytes(b"garbage")
    done = kafkalog("recover", "--mark-clean", *(str(top / name) for name in log_dirs))
    if starts == "no line" and log_dirs == ("d1",):
        return  # nothing on this disk says that the log is tiered
    assert done.status in (4, 8)
    assert "copy leader-epoch-checkpoint from another replica" in done.err
    assert path.read_bytes() == b"garbage"
    assert not (top / "d1/.kafka_cleanshutdown").exists()


@pytest.mark.parametrize(("data", "words"), [
    ("0\n1\n4 493\n", ("--clean-start",)), ("0\n1\n4 493\n", ("--mark-clean",)),
])  # fmt: skip
def test_lost_epochs_of_remote_records_are_reported(data, words, tmp_path):
    """As in the variant epochs-cut, with which a broker deleted 70 objects of the store within seconds."""
    top = copied("clean", tmp_path)
    (top / "d1/codecs-0/leader-epoch-checkpoint").write_text(data)
    done = kafkalog("recover", *words, str(top / "d0"), str(top / "d1"))
    assert done.status == 4, done.err
    assert not (top / "d1/.kafka_cleanshutdown").exists()
    assert b"which may be in remote storage, where a leader deletes segments whose epochs it does not know" in done.out
