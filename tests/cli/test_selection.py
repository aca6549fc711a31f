"""--offset, --time, --key … against the plain dump of the same files."""

import re

import pytest

from engine.amounts import count_of
from engine.record.builder import NewRecord, build_batch
from tests.support.json_output import all_objects
from tests.support.run import kafkalog

SMALL = "clean/d1/small_segments-0"


@pytest.fixture(scope="module")
def logs(own_corpus):
    return own_corpus / "kafka-4.3.1/logs"


def records(logs, *words):
    done = kafkalog("dump-log", "--print-data-log", *words, cwd=logs)
    assert done.status == 0, done.err
    return [line for line in done.out.split(b"\n") if line.startswith(b"| offset: ")]


def offsets(lines):
    return [int(line.split()[2]) for line in lines]


@pytest.fixture(scope="module")
def everything(logs):
    return records(logs, SMALL)


@pytest.mark.parametrize(("text", "first", "end"), [
    ("0:5", 0, 5), ("20:24", 20, 24), ("83:", 83, 10**9), (":3", 0, 3), ("41", 41, 10**9), ("22:22", 0, 0), ("1000:", 0, 0),
])
def test_offsets(logs, everything, text, first, end):
    assert records(logs, SMALL, "--offset", text) == [line for line in everything if first <= int(line.split()[2]) < end]


def test_times(logs, everything):
    times = sorted(int(line.split()[4]) for line in everything)
    start, end = times[10], times[60]
    wanted = [line for line in everything if start <= int(line.split()[4]) < end]
    assert records(logs, SMALL, "--time", f"{start}:{end}") == wanted
    assert records(logs, SMALL, "--time", f"{start}..{end}") == wanted


def test_times_with_an_end_are_those_of_records_however_they_are_shown(logs, everything):
    """The header of a batch does not say where its times begin."""
    times = sorted(int(line.split()[4]) for line in everything)
    for end in (0, times[0], times[1], times[30]):
        batches = kafkalog("dump-log", SMALL, "--time", f":{end}", cwd=logs).out.count(b"baseOffset: ")
        assert (batches > 0) == (end > times[0]), end
        assert batches == kafkalog("dump-log", "--deep-iteration", SMALL, "--time", f":{end}", cwd=logs).out.count(b"baseOffset: ")
    assert kafkalog("dump-log", "--time", ":1970-01-02", "--limit", "1", SMALL, cwd=logs).out.count(b"baseOffset: ") == 0


@pytest.mark.parametrize("words", [("--deep-iteration",), (), ("--format", "jsonl")])
def test_the_last_records_come_with_the_damage_behind_them(logs, words, tmp_path):
    source = logs / SMALL / "00000000000000000022.log"
    cut = tmp_path / source.name
    cut.write_bytes(source.read_bytes()[:-20])
    done = kafkalog("dump-log", "--tail", "2", *words, str(cut))
    assert done.status == 4
    assert b"torn-tail" in done.out + done.err.encode()
    whole = kafkalog("dump-log", *words, str(cut))
    line = b'"type":"batch"' if "jsonl" in words else b"| offset: " if words else b"baseOffset: "
    shown, every = ([one for one in run.out.split(b"\n") if line in one] for run in (done, whole))
    assert shown == every[-2:]
    assert len(every) > 2


def test_an_index_skips_what_is_before(logs, everything):
    """Damage before the selection is not even read."""
    log = logs / SMALL / "00000000000000000000.log"
    assert kafkalog("dump-log", str(log), "--offset", "20:", "--deep-iteration").out.count(b"baseOffset") == 1


def test_keys_and_regexes(logs, everything):
    key = next(line for line in everything if b" key: k" in line).split(b" key: ")[1].split()[0]
    wanted = [line for line in everything if b" key: " + key + b" payload" in line]
    assert wanted
    assert records(logs, SMALL, "--key", key.decode()) == wanted
    found = records(logs, SMALL, "--key-regex", "^k1[0-9]+$")
    assert found == [line for line in everything if re.search(rb" key: k1[0-9]+ payload: ", line)]


def test_headers(logs, everything):
    wanted = [line for line in everything if re.search(rb"headerKeys: \[(.*,)?schema(,.*)?\]", line)]
    assert wanted
    assert records(logs, SMALL, "--header", "schema") == wanted
    assert records(logs, SMALL, "--header", "schema=no such value") == []


def test_headers_whose_names_hold_an_equals_sign_or_a_backslash(tmp_path):
    names = (b"a", b"a=b", rb"a\b", b"a\\")
    path = log_of(tmp_path, build_batch([NewRecord(at, 0, b"k", b"v", [(name, b"b")]) for at, name in enumerate(names)]))
    for text, wanted in (("a", [0]), ("a=b", [0]), (r"a\=b", [1]), (r"a\=b=b", [1]), (r"a\b", [2]), (r"a\\b", [2]), (r"a\\=b", [3])):
        done = kafkalog("dump-log", "--deep-iteration", "--header", text, path)
        found = [int(line.split()[2]) for line in done.out.split(b"\n") if line.startswith(b"| offset: ")]
        assert (found, done.err) == (wanted, ""), text


@pytest.mark.parametrize("count", [0, 1, 7, 40, 1000])
def test_limit_and_tail(logs, everything, count):
    assert records(logs, SMALL, "--limit", str(count)) == everything[:count]
    assert records(logs, SMALL, "--tail", str(count)) == everything[len(everything) - min(count, len(everything)) :]


def test_tail_of_matches(logs, everything):
    wanted = [line for line in everything if 10 <= int(line.split()[2]) < 50][-4:]
    assert records(logs, SMALL, "--offset", "10:50", "--tail", "4") == wanted


def test_producers_epochs_and_transactions(logs):
    for topic in ("clean/d0/tx-0", "clean/d1/tx-0"):
        if not (logs / topic).exists():
            continue
        done = kafkalog("dump-log", topic, "--transactional-only", cwd=logs)
        lines = [line for line in done.out.split(b"\n") if line.startswith(b"baseOffset")]
        assert lines
        assert all(b"isTransactional: true" in line for line in lines)
        producer = lines[0].split(b" producerId: ")[1].split()[0]
        done = kafkalog("dump-log", topic, "--producer-id", producer.decode(), cwd=logs)
        lines = [line for line in done.out.split(b"\n") if line.startswith(b"baseOffset")]
        assert lines
        assert all(b" producerId: " + producer + b" " in line for line in lines)
        return
    pytest.fail("the corpus has no transactional topic")


def test_batch_lines_stand_once_before_their_records(logs):
    done = kafkalog("dump-log", "--print-data-log", "--key-regex", ".", SMALL, cwd=logs)
    positions = [line.split(b" position: ")[1].split()[0] for line in done.out.split(b"\n") if line.startswith(b"base")]
    per_file = done.out.split(b"Dumping ")[1:]
    assert sum(len(re.findall(rb"^baseOffset", text, re.MULTILINE)) for text in per_file) == len(positions)
    for text in per_file:
        found = re.findall(rb"^baseOffset: \d+ .* position: (\d+) ", text, re.MULTILINE)
        assert len(found) == len(set(found))


def test_count(logs, everything):
    done = kafkalog("dump-log", SMALL, "--count", cwd=logs)
    assert done.out.endswith(f"total: {len(everything)} records in 31 batches\n".encode())
    done = kafkalog("dump-log", SMALL, "--count", "--offset", "20:24", cwd=logs)
    assert done.out.endswith(b"total: 4 records in 2 batches\n")


@pytest.mark.parametrize("words", [
    ["--offset", "x"], ["--offset", "5:3"], ["--offset", ""], ["--time", "yesterday"],
    ["--key-regex", "("], ["--limit", "-1"], ["--limit", "1", "--tail", "1"], ["--producer-id", "x"],
    ["--time", "2024-13-45:"],
])
def test_wrong_words(logs, words):
    done = kafkalog("dump-log", SMALL, *words, cwd=logs)
    assert done.status == 2
    assert done.out == b""
    assert "Error" in done.err


def log_of(directory, *batches):
    partition = directory / "t-0"
    partition.mkdir()
    (partition / "00000000000000000000.log").write_bytes(b"".join(batches))
    return str(partition)


def test_the_largest_timestamp_and_offset_are_in_open_ranges(tmp_path):
    largest = 2**63 - 1
    path = log_of(
        tmp_path,
        build_batch([NewRecord(5, largest, b"k", b"v")], base_offset=5),
        build_batch([NewRecord(largest, 7, b"k", b"v")], base_offset=largest),
    )
    for words in (["--count"], ["--count", "--key", "k"], ["--count", "--offset", "5:"], ["--count", "--time", "7:"]):
        assert b": 2 records in 2 batches" in kafkalog("dump-log", path, *words).out
    assert b": 1 record in 1 batch" in kafkalog("dump-log", path, "--count", "--offset", str(largest)).out
    assert b": 1 record in 1 batch" in kafkalog("dump-log", path, "--count", "--time", f"{largest}:").out


@pytest.mark.parametrize("magic", [1, 2])
def test_ranges_that_end_before_the_largest_leave_it_out(tmp_path, magic):
    largest = 2**63 - 1
    path = log_of(
        tmp_path,
        build_batch([NewRecord(5, largest, b"k", b"v")], base_offset=5, magic=magic),
        build_batch([NewRecord(largest, 7, b"k", b"v")], base_offset=largest, magic=magic),
    )
    for words, count in (
        ([f"5:{largest}"], 1), ([f"{largest - 1}:{largest}"], 0), ([f"{largest}:{largest}"], 0), ([f"{largest}:"], 1),
        ([f":{largest}"], 1), ([":"], 2), ([str(largest)], 1),
    ):
        assert b": %s in" % count_of(count, "record").encode() in kafkalog("dump-log", path, "--offset", *words, "--count").out
        for form in (["--print-data-log"], ["--deep-iteration"], []):
            lines = kafkalog("dump-log", path, "--offset", *words, *form).out.splitlines()
            assert sum(line.startswith((b"offset: ", b"baseOffset: ")) for line in lines) == count, (words, form)
    assert b": 1 record in 1 batch" in kafkalog("dump-log", path, "--count", "--time", f"0:{largest}").out


@pytest.mark.parametrize("check", ["--verify-index-only", "--index-sanity-check"])
@pytest.mark.parametrize("words", [["--offset", "3"], ["--count"], ["--limit", "1"]])
def test_a_check_of_indexes_and_a_selection_exclude_each_other(logs, check, words):
    done = kafkalog("dump-log", SMALL, check, *words, cwd=logs)
    assert (done.status, done.out) == (2, b"")
    assert f"{check} checks indexes as a whole" in done.err


def test_a_count_of_an_index_is_refused_without_a_sum(logs):
    index = f"{SMALL}/00000000000000000000.index"
    done = kafkalog("dump-log", index, "--count", cwd=logs)
    assert (done.status, done.out) == (2, b"")
    assert f"{index}: --count counts records of logs, and this file is not a log" in done.err


def test_names_that_say_no_offset_are_told_of(tmp_path):
    for name, data in (("x.log", build_batch([NewRecord(0, 0, b"k", b"v")])), ("x-y.checkpoint", b""), ("x.kafka", b"")):
        (tmp_path / name).write_bytes(data)
        listed = [] if name == "x.kafka" else ["--files"]
        for words in (["--count"], [], ["--format", "jsonl"]):
            done = kafkalog("dump-log", *words, *listed, str(tmp_path / name))
            said = done.out.decode() if "jsonl" in words else done.err
            assert said.count("name-invalid") == 1, (name, words)
            assert done.status == 4


@pytest.mark.parametrize("words", [["--deep-iteration"], []])
def test_plain_messages_of_format_1_are_selected(tmp_path, words):
    batches = [build_batch([NewRecord(i, 1000 + i, b"k", b"v")], base_offset=i, magic=1) for i in range(10)]
    path = log_of(tmp_path, *batches)
    for selection in (["--offset", "2:4"], ["--time", "1002:1004"]):
        done = kafkalog("dump-log", path, *selection, *words)
        assert re.findall(rb"^offset: (\d+) ", done.out, re.MULTILINE) == [b"2", b"3"]


def test_one_damaged_offset_does_not_end_a_selection(tmp_path):
    batches = [build_batch([NewRecord(i, i, b"k", b"v" * 400)], base_offset=i) for i in range(6000)]
    for index in range(1500, 3500, 50):  # the base offset lies outside the checksum
        batches[index] = (10**9).to_bytes(8, "big") + batches[index][8:]
    path = log_of(tmp_path, *batches)
    done = kafkalog("dump-log", path, "--count", "--offset", "0:6000")
    assert b": 5960 records in 5960 batches" in done.out


@pytest.mark.parametrize("words", [["--key", "k"], ["--time", "5:"], ["--transactional-only"], ["--header", "h"]])
def test_messages_of_0_7_have_only_their_offset(own_corpus, words):
    directory = next((own_corpus / "old/0.7.2/logs").iterdir())
    done = kafkalog("dump-log", str(directory), "--count", *words)
    assert done.status == 2
    assert f"only an offset: {words[0]} cannot select them" in done.err


def test_what_is_no_log_can_not_be_selected_from(own_corpus):
    done = kafkalog("dump-log", str(own_corpus / "kafka-4.3.1/logs" / SMALL / "partition.metadata"), "--tail", "1")
    assert done.status == 2
    assert "a selection shows records of logs" in done.err


@pytest.fixture(scope="module")
def log_07(own_corpus):
    """A partition of several files with compressed sets, and its lines."""
    directory = own_corpus / "old/0.7.2/logs/gzip-0"
    lines = kafkalog("dump-log", str(directory)).out.splitlines()
    return str(directory), [line for line in lines if line.startswith(b"offset: ")]


def lines_07(directory, *words):
    done = kafkalog("dump-log", directory, *words)
    assert (done.status, done.err) == (0, "")
    return [line for line in done.out.splitlines() if line.startswith(b"offset: ")]


def test_offsets_of_0_7_are_byte_positions(log_07):
    directory, lines = log_07
    every = offsets([b"| " + line for line in lines])
    assert len(every) > 8
    first, end = every[3], every[-3]
    assert lines_07(directory, "--offset", f"{first}:{end}") == lines[3:-3]
    assert lines_07(directory, "--offset", f"{first + 1}:{end + 1}") == lines[4:-2]
    assert lines_07(directory, "--offset", f":{first}", "--print-data-log") == lines[:3]
    for count in (0, 1, 5, 1000):
        assert lines_07(directory, "--limit", str(count)) == lines[:count]
        for form in ([], ["--deep-iteration"]):
            assert lines_07(directory, "--tail", str(count), *form) == lines[max(0, len(lines) - count) :]


def test_a_selection_of_0_7_as_json(log_07):
    directory, lines = log_07
    every = offsets([b"| " + line for line in lines])
    done = kafkalog("dump-log", directory, "--offset", f"{every[2]}:{every[5]}", "--format", "jsonl")
    objects = all_objects(done.out)[1:]
    assert [each["offset"] for each in objects if each["type"] == "entry-07"] == every[2:5]


def test_a_count_of_0_7_looks_into_compressed_sets(own_corpus):
    for directory in sorted((own_corpus / "old/0.7.2/logs").iterdir()):
        if directory.name in {"bad-crc-0", "torn-0", "zero-tail-0"}:
            continue
        done = kafkalog("dump-log", str(directory), "--deep-iteration", "--format", "jsonl")
        objects = all_objects(done.out)[1:]
        entries = [each for each in objects if each["type"] == "entry-07"]
        messages = sum(each["type"] == "message-07" for each in objects) + sum(each["compression"] == "none" for each in entries)
        counted = kafkalog("dump-log", str(directory), "--count").out.splitlines()[-1]
        assert counted.endswith(f": {messages} records in {len(entries)} batches".encode())


def test_a_count_is_of_everything(logs):
    assert kafkalog("dump-log", SMALL, "--count", "--limit", "3", cwd=logs).status == 2
