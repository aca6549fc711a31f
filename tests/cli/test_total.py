"""What saw several partitions ends with their number by verdict, and with the next command."""

from __future__ import annotations

import re
import shlex
import shutil

import pytest

from engine.amounts import count_of, duration_text, exact_duration, offset_span, offsets_text, size_text
from engine.log.report import Action, Report
from kafkalog_cli.render_report import text_lines
from tests.support.run import kafkalog

END = r"; \d+(\.\d)? (bytes|KiB|MiB) in (\d+ ms|\d+\.\d s)"


@pytest.fixture
def logs(own_corpus, tmp_path):
    shutil.copytree(own_corpus / "kafka-4.3.1/logs/clean/d0", tmp_path / "d0")
    return tmp_path / "d0"


def damage(logs):
    """One byte of the first batch of the longest log, the partition."""
    log = max(logs.glob("[a-z]*-*/*.log"), key=lambda path: path.stat().st_size)
    data = bytearray(log.read_bytes())
    data[70] ^= 1
    log.write_bytes(data)
    return log.parent


def total(done):
    return [line for line in done.out.decode().splitlines() if re.match(r"\d+ partitions: ", line)]


def next_command(done):
    [line] = [line for line in done.out.decode().splitlines() if line.startswith("next: ")]
    return shlex.split(line.removeprefix("next: "))[1:]


def test_verify_counts_partitions_by_verdict(logs):
    done = kafkalog("verify", str(logs))
    count = len([line for line in done.out.splitlines() if b": sound (" in line])
    [line] = total(done)
    assert count > 1
    assert re.fullmatch(rf"{count} partitions: {count} sound{END}", line)
    assert b"next: " not in done.out
    partition = damage(logs)
    done = kafkalog("verify", str(logs))
    [line] = total(done)
    assert re.fullmatch(rf"{count} partitions: {count - 1} sound, 1 with a damaged log{END}", line)
    assert next_command(done) == ["recover", "--full", "--dry-run", str(partition)]
    assert total(kafkalog("verify", "-q", str(logs))) != []


def test_missing_offsets_are_counted_in_words_that_fit_every_number(own_corpus, tmp_path):
    segments = own_corpus / "kafka-4.3.1/logs/clean/d1/small_segments-0"
    for number in range(3):
        partition = shutil.copytree(segments, tmp_path / f"t-{number}")
        for file in partition.glob("00000000000000000042.*" if number else "no file"):
            file.unlink()
    line = total(kafkalog("verify", str(tmp_path)))[0]
    assert re.fullmatch(rf"3 partitions: 1 sound, 2 with missing offsets{END}", line), line


def test_restore_puts_the_same_number_of_bytes_into_both_of_its_sums(logs, tmp_path):
    damage(logs)
    assert kafkalog("recover", "--quarantine", str(tmp_path / "kept"), str(logs)).status in (1, 4)
    changes, line = kafkalog("restore", "--bytes", str(tmp_path / "kept")).out.decode().splitlines()[-2:]
    [size] = re.findall(r" (\d+ bytes) put back: as before", changes)
    assert f"; {size} in " in line


def test_the_next_command_after_verify_rebuilds_the_indexes(logs):
    index = max(logs.glob("[a-z]*-*/*.index"), key=lambda path: path.stat().st_size)
    index.write_bytes(b"\xff" * index.stat().st_size)
    words = next_command(kafkalog("verify", str(logs)))
    assert words == ["verify", "--rebuild", str(index.parent)]
    assert kafkalog(*words).status == 1
    assert b"next: " not in kafkalog("verify", str(logs)).out


@pytest.mark.parametrize("words", [("recover", "--full"), ("retain", "--config", "retention.ms=-1"),
                                   ("compact", "--force", "--config", "cleanup.policy=compact")])  # fmt: skip
def test_a_total_of_reports(words, logs):
    partitions = [str(path) for path in sorted(logs.glob("[a-z]*-*")) if path.is_dir()]
    done = kafkalog(*words, *partitions)
    [line] = total(done)
    assert line.startswith(f"{len(partitions)} partitions: ")
    assert sum(map(int, re.findall(r"(?<=[:,] )(\d+) (?=[a-z])", line))) == len(partitions)
    assert re.search(END + "$", line)
    assert ("with problems left" in line) is (done.status == 4)


def test_a_dry_run_ends_with_the_command_that_does_it(logs):
    damage(logs)
    done = kafkalog("recover", "--full", "-n", str(logs))
    assert "1 would be repaired with loss of records" in total(done)[0]
    assert [line.partition(":")[0] for line in done.out.decode().splitlines()[-3:]] == [
        "would keep in quarantine", "dry run", "next"]  # fmt: skip
    words = next_command(done)
    assert words == ["recover", "--salvage", "--dry-run", "--full", str(logs)]  # first what can be kept
    words = next_command(kafkalog(*words))
    assert words == ["recover", "--salvage", "--full", str(logs)]
    assert "1 repaired with loss of records" in total(kafkalog(*words))[0]


def test_a_dry_run_without_loss_ends_with_the_same_command(logs):
    partition = next(path for path in sorted(logs.iterdir()) if path.is_dir() and any(path.glob("*.index")))
    for index in partition.glob("*.index"):
        index.unlink()
    assert next_command(kafkalog("recover", "-n", str(logs))) == ["recover", str(logs)]


def test_a_dry_run_that_would_fail_names_the_repair_not_itself(own_corpus, tmp_path):
    shutil.copytree(own_corpus / "kafka-4.3.1/logs/unclean/d0", tmp_path / "d0")
    with (tmp_path / "d0/u-rolls-0/00000000000000000173.log").open("r+b") as file:
        file.seek(4000)
        file.write(b"a bad day on a disk")
    done = kafkalog("roll", "-n", str(tmp_path / "d0"))
    assert done.status == 4
    assert f"  do   kafkalog recover --dry-run {tmp_path}/d0/u-rolls-0 " in done.err
    assert "6 of 7 partitions would be done; not: u-rolls-0" in done.err
    assert b"next: " not in done.out


def test_one_partition_and_json_have_no_total(logs):
    partition = next(path for path in sorted(logs.iterdir()) if path.is_dir())
    assert total(kafkalog("verify", str(partition))) == []
    assert total(kafkalog("recover", "-n", str(partition))) == []
    assert b" partitions: " not in kafkalog("recover", "-n", "--format", "json", str(logs)).out
    assert b" partitions: " not in kafkalog("verify", "--format", "jsonl", str(logs)).out


def test_a_quiet_command_with_nothing_wrong_has_no_total(logs):
    assert kafkalog("verify", "-q", str(logs)).out == b""


@pytest.mark.parametrize(("size", "text"), [
    (0, "0 bytes"), (1, "1 byte"), (1023, "1023 bytes"), (12_345_678, "11.8 MiB"), (1 << 30, "1.0 GiB"),
])
def test_sizes(size, text):
    assert size_text(size) == text


@pytest.mark.parametrize(("ms", "text"), [
    (0, "0.0 s"), (12, "12 ms"), (400, "0.4 s"), (119_999, "120.0 s"), (120_000, "2 minutes"), (26 * 3_600_000, "26 hours"),
    (11 * 86_400_000 + 1, "11 days"),
])
def test_lengths_of_time(ms, text):
    assert duration_text(ms) == text


def test_a_length_of_time_beside_a_setting_has_its_milliseconds():
    assert exact_duration(86_400_000 * 2) == "2 days (172800000 ms)"
    assert exact_duration(12) == "12 ms"


@pytest.mark.parametrize(("count", "noun", "text"), [
    (1, "segment", "1 segment"), (0, "segment", "0 segments"), (2, "index entry", "2 index entries"), (3, "batch", "3 batches"),
    (2, "key", "2 keys"), (1, "index entry", "1 index entry"),
])
def test_counts(count, noun, text):
    assert count_of(count, noun) == text


def test_a_dry_run_speaks_in_the_future_and_puts_losses_first(logs):
    damage(logs)
    planned = kafkalog("recover", "--full", "-n", "-v", str(logs)).out.decode()
    steps = [line.split()[0] for line in planned.splitlines() if line.startswith("  ")]
    assert set(steps) <= {"would", "missing", "note:"}
    assert "would truncate" in planned
    assert "would be repaired, with loss of records" in planned
    done = kafkalog("recover", "--full", "-v", str(logs)).out.decode()
    assert "would" not in done
    assert "  truncated " in done


def test_harmless_housekeeping_is_one_line(own_corpus, tmp_path):
    shutil.copytree(own_corpus / "kafka-4.3.1/logs/unclean/d0", tmp_path / "d0")
    words = ("recover", "-n", str(tmp_path / "d0"))
    done = kafkalog(*words).out.decode()
    [line] = [line for line in done.splitlines() if "brought up to date" in line]
    assert re.fullmatch(r"\d+ small files would be brought up to date; -v lists them", line)
    assert ".snapshot - " not in done
    listed = kafkalog(*words, "-v").out.decode()
    assert "brought up to date" not in listed
    assert listed.count("(a cache; no records)") > 0
    assert "brought up to date" not in kafkalog(*words, "-q").out.decode()


def test_a_rebuilt_snapshot_is_called_a_cache_once(own_corpus, tmp_path):
    partition = shutil.copytree(own_corpus / "kafka-4.3.1/logs/clean/d0/tx-0", tmp_path / "tx-0")
    first, *_, last = sorted(partition.glob("*.snapshot"))
    shutil.copy(last, first)
    listed = kafkalog("recover", "-n", "-v", str(partition)).out.decode()
    [line] = [line for line in listed.splitlines() if f"rebuild {first.name}" in line]
    assert line.endswith("- its producers were not those of the log (a cache; no records)")


def test_rebuilt_leader_epochs_are_no_cache(logs):
    checkpoint = max(logs.glob("[a-z]*-*/leader-epoch-checkpoint"), key=lambda path: path.stat().st_size)
    checkpoint.write_bytes(b"garbage")
    assert f"{checkpoint.name} - " in kafkalog("recover", "-n", "--full", str(checkpoint.parent)).out.decode()
    report = Report(str(logs), "recover")
    report.add(Action.REBUILT, checkpoint.name, "from the batches")
    shown = list(text_lines(report))
    assert shown[0] == "  rebuilt leader-epoch-checkpoint - from the batches"


def test_restore_counts_partitions(logs, tmp_path):
    partitions = [damage(logs)]
    log = min(logs.glob("[a-z]*-*/*.log"), key=lambda path: path.stat().st_size)
    for index in log.parent.glob("*.index"):
        index.write_bytes(b"x" * 7)
    partitions.append(log.parent)
    saved = tmp_path / "saved"
    kafkalog("recover", "--full", "--quarantine", str(saved), *map(str, partitions))
    assert re.fullmatch(rf"2 partitions: 2 would be as before{END}", total(kafkalog("restore", "-n", str(saved)))[0])
    assert total(kafkalog("restore", "-n", "-q", str(saved))) == []
    assert re.fullmatch(rf"2 partitions: 2 as before{END}", total(kafkalog("restore", str(saved)))[0])


def test_fetch_counts_partitions_on_stderr(logs):
    partition = damage(logs)
    other = next(path for path in sorted(logs.glob("[a-z]*-*")) if path.is_dir() and path != partition)
    missing = str(logs / "missing-0")
    for words in ((), ("--merge",)):
        done = kafkalog("fetch", "-f", "x\\n", *words, str(other), str(partition), missing)
        count = done.out.count(b"\n")
        [line] = [line for line in done.err.splitlines() if line.startswith("3 partitions: ")]
        assert re.fullmatch(r"3 partitions: 1 read, 1 (with problems, 1 failed|failed, 1 with problems); \d+ records in .*", line)
        assert f" {count} records in " in line
        assert total(done) == []


def test_quiet_fetch_prints_problems_only(logs):
    partitions = [str(path) for path in sorted(logs.glob("[a-z]*-*")) if path.is_dir()][:2]
    plain = kafkalog("fetch", *partitions)
    assert plain.err.startswith("2 partitions: 2 read; ")
    quiet = kafkalog("fetch", "-q", *partitions)
    assert (quiet.out, quiet.err) == (plain.out, "")
    damaged = str(damage(logs))
    quiet = kafkalog("fetch", "-q", partitions[0], damaged)
    assert "[crc-mismatch]" in quiet.err or "error[" in quiet.err
    assert "2 partitions: " in quiet.err


def test_verbose_fetch_explains_its_findings(logs):
    damaged = str(damage(logs))
    assert "\n  why  " not in kafkalog("fetch", damaged).err
    assert "\n  why  " in kafkalog("fetch", "-v", damaged).err


def test_bytes_are_exact_when_asked_for(logs):
    assert re.search(r" KiB, \d+ records? read; ", kafkalog("recover", "--full", "-n", str(logs)).out.decode())
    exact = kafkalog("recover", "--full", "-n", "--bytes", str(logs)).out.decode()
    assert "KiB" not in exact
    assert re.search(r" \d{4,} bytes, \d+ records? read; ", exact)


@pytest.mark.parametrize(("first", "end", "span", "text"), [
    (35, 42, "35 to 41", "offsets 35 to 41"), (35, 36, "35", "offset 35"), (35, 35, "none", "at offset 35"),
])
def test_ranges_of_offsets_include_both_ends(first, end, span, text):
    assert (offset_span(first, end), offsets_text(first, end)) == (span, text)


def test_an_unknown_end_is_not_a_range():
    assert offsets_text(35, None) == "at offset 35"
