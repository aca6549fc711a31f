"""kafkalog append: what is printed is on the disk, and what is refused is said."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from engine.config.topic import LogConfig
from engine.files import Files
from engine.log.loading.loader import open_log
from tests.support.full_disk import full_disk
from tests.support.json_output import objects_of
from tests.support.run import kafkalog

NOW = 1_700_000_000_000
CLOCK = ("--now", str(NOW))


@pytest.fixture
def partition(tmp_path):
    return tmp_path / "t-0"


@pytest.fixture
def append(tmp_path, partition):
    """Appends text to the partition by the command; (lines of stdout, stderr, exit status)."""

    def run(text, *options, create=True):
        source = tmp_path / "input"
        source.write_bytes(text if isinstance(text, bytes) else text.encode())
        made = ("--create",) if create else ()
        done = kafkalog("append", *made, *CLOCK, "--input", str(source), *options, str(partition))
        return done.out.decode().splitlines(), done.err, done.status

    return run


def said(lines, partition):
    """The lines about offsets, without the partition's name."""
    return [line.removeprefix(f"{partition}: ") for line in lines if "record" in line or "marker" in line]


def contents(partition):
    """(offset, timestamp, key, value, header keys) of every record of data, as dump-log prints them."""
    done = kafkalog("dump-log", "--print-data-log", "--format", "jsonl", str(partition))
    assert done.status == 0, done.err
    objects = objects_of(done.out)
    return [
        (one["offset"], one["timestamp"], one["key"], one["value"], [header["key"] for header in one["headers"]])
        for one in objects
        if one["type"] == "record" and "control" not in one
    ]


def producers(partition):
    log = open_log(Files(), str(partition), LogConfig(), now=NOW, clean_shutdown=True)
    return log.producer_state


def test_json_lines(append, partition):
    lines, err, status = append(
        '{"key":"k","value":"v","timestamp":5}\n\n{"value":{"a":1},"headers":[{"key":"h","value":null}]}\n{"key":"gone"}'
    )
    assert (said(lines, partition), err, status) == (["offsets 0 to 2 (3 records)"], "", 0)
    assert contents(partition) == [(0, 5, "k", "v", []), (1, NOW, None, '{"a":1}', ["h"]), (2, NOW, "gone", None, [])]


def test_text_lines(append, partition):
    append("a=1\nb=\n=c\nd\nN=N\n", "--input-format", "text", "--separator", "=", "--null", "N", "--timestamp", "9")
    assert [record[1:4] for record in contents(partition)] == [
        (9, "a", "1"), (9, "b", ""), (9, "", "c"), (9, None, "d"), (9, None, None),
    ]  # fmt: skip


def test_it_goes_on_where_the_log_ends(append, partition):
    append('{"value":"0"}')
    lines, _, status = append('{"value":"1"}', "--format", "json", "--clean-start", create=False)
    first, report = objects_of("\n".join(lines))
    assert first == {
        "type": "appended", "partition": str(partition), "first_offset": 1, "last_offset": 1, "records": 1, "is_duplicate": False,
    }  # fmt: skip
    assert (report["log_end_offset"], status) == (2, 0)


def test_a_missing_partition_is_not_made_unasked(append, partition):
    lines, err, status = append('{"value":"0"}', create=False)
    assert (lines, status, partition.exists()) == ([], 2, False)
    assert "the partition directory does not exist" in err
    assert "--create creates it" in err


def test_a_dry_run_changes_nothing(append, partition):
    lines, err, status = append('{"value":"0"}', "--dry-run")
    assert (status, partition.exists(), "a dry run does not create it" in err) == (2, False, True)
    append('{"value":"0"}')
    before = {path.name: path.read_bytes() for path in partition.iterdir()}
    lines, _, status = append('{"value":"1"}', "--dry-run", "--clean-start")
    assert (said(lines, partition), status) == (["offset 1 (1 record)"], 0)
    assert {path.name: path.read_bytes() for path in partition.iterdir()} == before


def test_records_go_to_one_partition(tmp_path):
    for number in range(2):
        (tmp_path / f"t-{number}").mkdir()
    for paths in ([tmp_path], [tmp_path / "t-0", tmp_path / "t-1"]):
        done = kafkalog("append", *map(str, paths))
        assert (done.out, done.status) == (b"", 2)
        assert "Got unexpected extra argument" in done.err or "not a partition, not a log dir" in done.err
    (tmp_path / "meta.properties").write_text("version=1\n")
    assert "not a partition directory, which has a name such as orders-7" in kafkalog("append", str(tmp_path)).err


def test_a_dump_can_be_appended(append, partition, own_corpus, tmp_path):
    source = own_corpus / "kafka-4.3.1/logs/clean/d1/edge-keys_and.headers-0"
    dumped = kafkalog("dump-log", "--print-data-log", "--format", "jsonl", str(source / "00000000000000000000.log"))
    _, err, status = append(dumped.out, "--config", "message.timestamp.after.max.ms=9223372036854775807")
    assert status == 0
    assert "of the input: not data records" in err
    copied = kafkalog("dump-log", "--print-data-log", "--format", "jsonl", str(partition / "00000000000000000000.log"))

    def records(done):
        objects = objects_of(done.out)
        return [
            {name: one[name] for name in one if name not in ("offset", "sequence")} for one in objects if one["type"] == "record"
        ]

    assert records(copied) == records(dumped) != []


def test_raw_batches_and_a_copy_by_a_follower(append, partition, tmp_path):
    append("".join(f'{{"value":"{number}"}}\n' for number in range(50)), "--batch-size", "200", "--compression", "lz4")
    data = (partition / "00000000000000000000.log").read_bytes()
    lines, _, status = append(data, "--input-format", "raw", "--clean-start")
    assert (said(lines, partition), status) == (["offsets 50 to 99 (50 records)"], 0)
    log = (partition / "00000000000000000000.log").read_bytes()
    copy = tmp_path / "copy-0"
    done = kafkalog(
        "append", "--create", *CLOCK, "--input", str(partition / "00000000000000000000.log"), "--input-format", "raw",
        "--follower", "--config", "segment.bytes=1048576", str(copy),
    )  # fmt: skip
    assert done.status == 0
    assert (copy / "00000000000000000000.log").read_bytes() == log
    assert (copy / "leader-epoch-checkpoint").read_bytes() == (partition / "leader-epoch-checkpoint").read_bytes()


def selected(path, *options):
    """(offset, timestamp, key, value) of the records of data that dump-log selects."""
    done = kafkalog("dump-log", "--print-data-log", "--format", "jsonl", *options, str(path))
    objects = objects_of(done.out)
    assert {one["code"] for one in objects if one["type"] == "finding"} <= {"offset-gap"}  # of a follower
    return [(one["offset"], one["timestamp"], one["key"], one["value"]) for one in objects if one["type"] == "record"]


@pytest.mark.parametrize("codec", ["none", "lz4", "zstd"])
@pytest.mark.parametrize("selection", [
    ("--offset", "7:33"), ("--offset", "49"), ("--time", f"{NOW + 5}:{NOW + 20}"), ("--key", "k1", "--key", "k3"),
    ("--key-regex", "[02]$", "--offset", ":40"), ("--header", "h=3"), ("--limit", "13"), ("--tail", "13"), ("--tail", "1"), ("--tail", "0"),
    ("--key", "k2", "--limit", "4"), ("--key", "k2", "--tail", "4"), ("--key", "nobody"), ("--limit", "0"), ("--partition-leader-epoch", "5"),
    ("--partition-leader-epoch", "0"), ("--producer-id", "9"), ("--transactional-only",), ("--offset", "0:"), ("--tail", "1000"),
])  # fmt: skip
def test_the_records_that_dump_log_selects_are_appended(append, partition, tmp_path, codec, selection):
    lines = [
        f'{{"key":"k{number % 5}","value":"{number}","timestamp":{NOW + number},"headers":[{{"key":"h","value":"{number % 4}"}}]}}\n'
        for number in range(50)
    ]  # fmt: skip
    append("".join(lines), "--batch-size", "500", "--compression", codec)
    source = partition / "00000000000000000000.log"
    wanted = selected(source, *selection)
    for name, follower in (("followed-0", ("--follower",)), ("led-0", ())):
        words = ("append", "--create", *CLOCK, "--input", str(source), "--input-format", "raw", *selection, *follower)
        done = kafkalog(*words, "--config", "segment.bytes=1048576", str(tmp_path / name))
        assert done.status == 0, done.err
        appended = selected(tmp_path / name)
        if follower:
            assert appended == wanted
        else:
            assert appended == [(number, *record[1:]) for number, record in enumerate(wanted)]
            assert kafkalog("verify", str(tmp_path / name)).status == 0


def test_a_batch_that_is_selected_as_a_whole_is_unchanged(append, partition, tmp_path):
    append("".join(f'{{"value":"{number}"}}\n' for number in range(50)), "--batch-size", "200", "--producer-id", "7")
    source, copy = partition / "00000000000000000000.log", tmp_path / "copy-0"
    words = ("append", "--create", *CLOCK, "--input-format", "raw", "--producer-id", "7", "--input", str(source), str(copy))
    assert kafkalog(*words).status == 0
    assert (copy / source.name).read_bytes() == source.read_bytes()


def test_a_selection_needs_raw_batches_and_changes_no_refusal(append, partition, tmp_path):
    _, err, status = append('{"value":"0"}', "--limit", "1")
    assert (status, "add --input-format raw" in err) == (2, True)
    append("".join(f'{{"value":"{number}"}}\n' for number in range(9)), "--batch-size", "1")
    data = bytearray((partition / "00000000000000000000.log").read_bytes())
    data[len(data) // 2] ^= 1
    for text in (bytes(data), bytes(data[:100]), b"x" * 100):
        refusals = []
        for options in ((), ("--offset", "0:9")):
            lines, _, status = append(text, "--input-format", "raw", "--clean-start", *options)
            refusals.append([line for line in lines if "refused" in line])
            assert status == 4
        assert refusals[0] == refusals[1] != []


def test_raw_input_that_ends_in_a_batch(append, partition):
    append('{"value":"0"}')
    data = (partition / "00000000000000000000.log").read_bytes()
    lines, _, status = append(data + data[:-1], "--input-format", "raw", "--clean-start")
    assert status == 4
    assert said(lines, partition)[0] == "offset 1 (1 record)"
    assert any("incomplete batch at the end of the input" in line for line in lines)


class TestProducers:
    def test_sequences_go_on(self, append, partition):
        append('{"value":"0"}\n{"value":"1"}', "--producer-id", "7")
        append('{"value":"2"}', "--producer-id", "7", "--clean-start")
        entry = producers(partition).last_entry(7)
        assert (entry.last_seq, entry.producer_epoch, entry.last_data_offset) == (2, 0, 2)

    def test_a_duplicate_is_said(self, append, partition):
        append('{"value":"0"}\n{"value":"1"}', "--producer-id", "7")
        lines, _, status = append('{"value":"0"}\n{"value":"1"}', "--producer-id", "7", "--sequence", "0", "--clean-start")
        assert (said(lines, partition)[0], status) == ("offsets 0 to 1 (2 records, already in the log)", 0)
        assert len(contents(partition)) == 2

    def test_what_is_out_of_order_is_refused(self, append):
        append('{"value":"0"}', "--producer-id", "7")
        lines, _, status = append('{"value":"1"}', "--producer-id", "7", "--sequence", "5", "--clean-start")
        assert status == 4
        assert any("Out of order sequence number for producer 7" in line for line in lines)

    @pytest.mark.parametrize("kind", ["commit", "abort", "open"])
    def test_transactions(self, append, partition, kind):
        lines, _, status = append('{"value":"0"}\n{"value":"1"}', "--producer-id", "7", "--transaction", kind)
        markers = [line for line in said(lines, partition) if "marker" in line]
        assert (markers, status) == ([] if kind == "open" else [f"{kind} marker at offset 2"], 0)
        assert producers(partition).first_undecided_offset == (0 if kind == "open" else None)
        assert (partition / "00000000000000000000.txnindex").exists() == (kind == "abort")

    def test_half_a_transaction_is_aborted(self, append, partition):
        text = '{"value":"0"}\n' * 3 + f'{{"value":"{"x" * 3000}"}}\n'
        lines, _, status = append(
            text, "--producer-id", "7", "--transaction", "commit", "--batch-size", "1", "--config",
            "max.message.bytes=2000",
        )  # fmt: skip
        assert status == 4
        assert "abort marker at offset 3" in said(lines, partition)


@pytest.mark.parametrize(
    "options",
    [
        ("--follower",), ("--transaction", "commit"), ("--key", "x"), ("--input", "/nowhere"),
        ("--compression", "lz4", "--compression-level", "99"), ("--sequence", "-1"), ("--config", "no.such=1"),
    ],
)  # fmt: skip
def test_options_that_make_no_sense(append, partition, options):
    lines, err, status = append('{"value":"0"}', *options)
    assert status in (2, 4, 8)
    assert "Traceback" not in err
    assert not any("offsets" in line and "records)" in line for line in lines)


@pytest.mark.parametrize("text", ['{"value":"0"}\nnonsense\n', '{"value":"0"}\n{"value":}\n'])
def test_a_line_that_is_no_record(append, text):
    lines, err, status = append(text)
    assert (err, status) == ("", 4)
    assert any("line 2: " in line for line in lines)


@pytest.mark.parametrize("bad", ["nonsense", '{"kye":"a"}', '{"value":"v","headers":[{"key":1}]}'])
def test_the_lines_before_one_that_is_no_record_are_in_the_log(append, partition, bad):
    """As with Kafka's console producer; the report says where to go on."""
    lines, _, status = append(f'{{"value":"0"}}\n\n{{"value_b64":"MQ=="}}\n{bad}\n{{"value":"2"}}\n')
    assert [value for _, _, _, value, _ in contents(partition)] == ["0", "1"]
    [refused] = [line for line in lines if "refused" in line]
    assert "line 4: " in refused
    assert "; 2 records before it appended" in refused
    assert any("(2 records)" in line for line in lines)
    assert status == 4


def test_compression_of_the_topic(append, partition):
    append('{"value":"0"}', "--config", "compression.type=zstd")
    done = kafkalog("dump-log", str(partition))
    assert b"compresscodec: zstd" in done.out


def test_flushes_are_said_as_they_happen(append, partition):
    text = "".join(f'{{"value":"{number}"}}\n' for number in range(100))
    lines, _, _ = append(text, "--flush-messages", "30", "--batch-size", "100")
    runs = said(lines, partition)
    assert len(runs) >= 1
    ends = [line.split(" (")[0].split()[-1] for line in runs if line.startswith("offset") and "(" in line]
    assert ends[-1] == "99"


def run_piped(partition, *options):
    return subprocess.Popen(
        [sys.executable, "-m", "kafkalog_cli.main", "append", "--create", *options, str(partition)],
        cwd=Path(__file__).parents[2], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip


def test_a_pipe_is_read_as_it_comes(partition):
    process = run_piped(partition, "--flush-messages", "1")
    for number in range(3):
        process.stdin.write(b'{"value":"%d"}\n' % number)
        process.stdin.flush()
        assert process.stdout.readline().decode().strip() == f"{partition}: offset {number} (1 record)"
    process.stdin.write(b'{"value":"without a line feed"}')
    process.stdin.close()
    rest = process.stdout.read().decode()
    assert (process.wait(), "offset 3 (1 record)" in rest) == (0, True)


def test_time_flushes_while_nothing_comes(partition):
    process = run_piped(partition, "--flush-ms", "1")
    process.stdin.write(b'{"value":"0"}\n')
    process.stdin.flush()
    assert b"offset 0 (" in process.stdout.readline()
    process.stdin.close()
    assert process.wait() == 0
    process.stdout.close()


def test_an_epoch_that_is_over_is_refused(append, partition):
    append('{"value":"0"}', "--leader-epoch", "5")
    before = (partition / "leader-epoch-checkpoint").read_bytes()
    for options in (("--leader-epoch", "4"), ("--leader-epoch", "4", "--follower", "--input-format", "raw")):
        lines, err, status = append('{"value":"1"}', *options)
        assert (said(lines, partition), status) == ([], 2)
        assert "the log has records of leader epoch 5: a leader of epoch 4 is fenced" in err
    assert (partition / "leader-epoch-checkpoint").read_bytes() == before
    assert append('{"value":"1"}', "--leader-epoch", "6")[2] == 0


def test_a_directory_is_no_input(tmp_path, partition):
    done = kafkalog("append", "--create", "--input", str(tmp_path), str(partition))
    assert (done.status, partition.exists()) == (8, False)
    assert f"{tmp_path}: a directory; --input reads one file" in done.err


TOPIC_ID = "Ssx5VgobQZyBz3LWRQ0uyQ"


def test_a_new_partition_knows_its_topic(append, partition, tmp_path):
    lines, _, status = append('{"value":"0"}')
    assert status == 0
    assert any("partition.metadata was not written: the id of topic t is nowhere on this disk;" in line for line in lines)
    assert not (partition / "partition.metadata").exists()
    lines, _, status = append('{"value":"1"}', "--topic-id", TOPIC_ID)
    assert status == 0
    assert (partition / "partition.metadata").read_text() == f"version: 0\ntopic_id: {TOPIC_ID}"
    other = "Ssx5VgobQZyBz3LWRQ0uyA"
    lines, err, status = append('{"value":"1"}', "--topic-id", other)
    assert status == 2
    assert f"holds {TOPIC_ID}, not {other}" in err
    for wrong in ("x", "A" * 22):
        assert append('{"value":"1"}', "--topic-id", wrong)[2] == 2
    source = tmp_path / "input"
    done = kafkalog("append", "--create", *CLOCK, "--input", str(source), str(tmp_path / "t-1"))
    assert done.status == 0
    assert (tmp_path / "t-1/partition.metadata").read_text().endswith(TOPIC_ID)


def test_the_metadata_log_tells_the_topic(own_corpus, tmp_path):
    shutil.copytree(own_corpus / "kafka-4.3.1/logs/unclean/d0", tmp_path / "d0")
    source = tmp_path / "input"
    source.write_text('{"value":"0"}')

    def append(name, *options):
        done = kafkalog("append", "--create", *CLOCK, "--input", str(source), *options, str(tmp_path / "d0" / name))
        return done.out.decode(), done.err, done.status

    wanted = (tmp_path / "d0/u-plain-1/partition.metadata").read_bytes()
    (tmp_path / "d0/u-plain-1/partition.metadata").unlink()
    out, _, status = append("u-plain-7")
    assert (status, (tmp_path / "d0/u-plain-7/partition.metadata").read_bytes()) == (0, wanted)
    assert "comes from" in out
    assert "__cluster_metadata-0" in out
    out, _, status = append("nobodys-0")
    assert (status, (tmp_path / "d0/nobodys-0/partition.metadata").exists()) == (0, False)
    assert "the metadata log has no topic nobodys" in out
    _, err, status = append("u-plain-8", "--topic-id", TOPIC_ID)
    assert status == 2
    assert "topic u-plain has the id" in err
    out, _, status = append("nobodys-1", "--topic-id", TOPIC_ID)
    assert status == 0
    assert "the metadata log has no such topic: a broker renames the directory to -stray" in out


@pytest.mark.parametrize("room", [0, 300, 1000])
def test_a_full_disk_does_not_hide_how_much_came_in(append, partition, tmp_path, room):
    append('{"value":"0"}')
    text = "\n".join(['{"key":0}'] * 60)
    with full_disk(tmp_path, len(text) + 20 + room):
        lines, err, status = append(text, "--batch-size", "1", "--config", "segment.bytes=400")
    assert (status, "No space left on device" in err) == (8, True)
    [told] = [line for line in lines if "stopped before the end of the input" in line]
    assert kafkalog("recover", "--no-quarantine", str(partition)).status in (0, 1)
    there = len(contents(partition)) - 1
    assert f": {there} record" in told
    assert ("(up to offset" in told) == (there > 0) == (room > 0)
    acknowledged = sum(int(line.split("(")[1].split()[0]) for line in lines if ": offsets " in line and "records)" in line)
    assert f", {acknowledged} of them flushed to disk" in told


def test_a_name_that_no_topic_can_have_makes_no_directory(tmp_path):
    source = tmp_path / "input"
    source.write_text("{}")
    done = kafkalog("append", "--create", *CLOCK, "--input", str(source), str(tmp_path / "bad name-0"))
    assert (done.status, (tmp_path / "bad name-0").exists()) == (8, False)
    assert f"{tmp_path / 'bad name-0'}: not a valid topic name: Kafka allows letters" in done.err


@pytest.mark.parametrize("option", ["--sequence", "--producer-epoch"])
def test_what_is_a_producers_needs_one(append, option):
    lines, err, status = append("a\n", "--input-format", "text", option, "5")
    assert (lines, status) == ([], 2)
    assert f"{option} needs a producer id" in err
    assert "add --producer-id N" in err


def test_a_batch_holds_a_byte_at_least(append):
    _, err, status = append("a\n", "--input-format", "text", "--batch-size", "0")
    assert status == 2
    assert "Invalid value for '--batch-size': must be 1 or greater, not '0'" in err


def test_metrics_that_can_not_be_written_are_met_before_a_partition_is_made(tmp_path):
    done = kafkalog("append", "--create", "--input", os.devnull, "--metrics-textfile", str(tmp_path / "none/x.prom"), str(tmp_path / "t-0"))
    assert (done.status, done.out) == (8, b"")
    assert f"error[unwritable-file] {tmp_path}/none/x.prom.tmp: No such file or directory: " in done.err
    assert list(tmp_path.iterdir()) == []


def test_a_misspelled_member_is_refused_with_its_line(append, partition):
    lines, _, status = append('{"value":"1"}\n\n{"kye":"a"}\n{"value":"2"}')
    assert status == 4
    [refused] = [line for line in lines if "refused" in line]
    assert "line 3: a record has no member 'kye'; --ignore-unknown skips such members; " in refused
    before = len(contents(partition))
    assert f"; {before} record" in refused
    lines, _, status = append('{"kye":"a","value":"1"}\n{"kye":"a"}', "--ignore-unknown")
    assert status == 4
    assert any("line 2: neither key nor value" in line for line in lines)
    assert all(value is not None for _, _, _, value, _ in contents(partition))
    assert append("x", "--input-format", "text", "--ignore-unknown")[2] == 2
