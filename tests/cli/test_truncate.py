"""kafkalog truncate, roll: what they say is what the next start finds."""

from __future__ import annotations

import json

import pytest

from tests.support.json_output import objects_of
from tests.support.run import as_planned, kafkalog

NOW = "1700000000000"


@pytest.fixture
def partition(tmp_path):
    """Batches of four records, three a segment: 0 to 23."""
    source = tmp_path / "in"
    source.write_text("".join(f"v{number:04}\n" for number in range(24)))
    made = kafkalog("append", "--create", "--now", NOW, "--input-format", "text", "--batch-size", "120", "--input", str(source),
                    "--config", "segment.bytes=360", str(tmp_path / "t-0"))  # fmt: skip
    assert made.status == 0, made.err
    return tmp_path / "t-0"


def offsets(partition):
    done = kafkalog("dump-log", "--print-data-log", "--format", "jsonl", str(partition))
    return [one["offset"] for one in objects_of(done.out) if one["type"] == "record"]


def test_the_batch_that_is_cut_goes_as_a_whole_and_is_named(partition):
    assert offsets(partition) == list(range(24))
    words = ("truncate", "--no-quarantine", "--clean-start", "--now", NOW, "--to", "10", str(partition))
    planned, done = kafkalog(*words, "--dry-run"), kafkalog(*words)
    assert done.status == 0, done.err
    left = offsets(partition)
    end = left[-1] + 1
    assert end < 10, "or the test shows nothing"
    lines = done.out.decode().splitlines()
    assert as_planned(done.out.decode()) == planned.out.decode().splitlines()[:-1]
    [cut] = [line for line in lines if "truncated 0" in line]
    segments = [line for line in lines if "removed 0" in line and ".log" in line]
    bounds = cut.partition("(offsets ")[2].partition(",")[0].split(" to ")
    assert int(bounds[0]) == end
    assert f", {int(bounds[1]) + 1 - end} records, " in cut
    assert f"(offsets {int(bounds[1]) + 1} to " in segments[0]
    assert " to 23, " in segments[-1]
    assert any(line.startswith(f"  note: (at offset {end}) - the last batch ends here, not at 10") for line in lines)
    assert f"offsets 0 to {end - 1} in" in lines[-1]
    again = kafkalog("recover", "--dry-run", "--now", NOW, str(partition))
    assert f"offsets 0 to {end - 1} in" in again.out.decode()


@pytest.mark.parametrize("options", [(), ("--clean-start",), ("--dry-run",)])
def test_nothing_to_truncate_changes_nothing(partition, options):
    """Not even what opening the log would remove."""
    newest = max(partition.glob("*.log"))
    (partition / "00000000000000000060.snapshot").write_bytes(bytes.fromhex("000148674bc700000000"))
    newest.with_suffix(".timeindex").unlink()
    before = {path.name: path.read_bytes() for path in partition.iterdir()}
    done = kafkalog("truncate", *options, "--now", NOW, "--to", "100", str(partition))
    assert done.status == 0, done.out
    assert "note: nothing to truncate: the log ends at offset 24; no file was changed" in done.out.decode()
    assert {path.name: path.read_bytes() for path in partition.iterdir()} == before


def test_a_roll_ahead_of_the_records(partition):
    done = kafkalog("roll", "--clean-start", "--now", NOW, "--to", "500", str(partition))
    assert "offsets 0 to 499 in" in done.out.decode().splitlines()[-1]
    again = kafkalog("recover", "--dry-run", "--now", NOW, str(partition))
    assert "offsets 0 to 499 in" in again.out.decode()
    for impossible in (2**63 - 1, 2**63):
        done = kafkalog("roll", "--to", str(impossible), str(partition))
        assert (done.status, "--to" in done.err) == (2, True)


@pytest.fixture
def ahead(partition):
    """The same, rolled ahead to 500."""
    assert kafkalog("roll", "--clean-start", "--now", NOW, "--to", "500", str(partition)).status == 0
    return partition


def checked(partition):
    """What recover and verify call offsets that are missing, and their statuses."""
    recovered = kafkalog("recover", "--dry-run", "--recovery-point", "0", "--now", NOW, "--format", "json", str(partition))
    report = next(one for one in objects_of(recovered.out) if one["type"] == "report")
    verified = kafkalog("verify", "--format", "jsonl", str(partition))
    found = [one["code"] for one in objects_of(verified.out) if one["type"] == "finding"]
    told = [(one["action"], one["first_offset"], one["end_offset"]) for one in report["events"] if one["action"] in ("explained", "missing")]
    return told, recovered.status, found, verified.status


def test_a_log_that_was_rolled_ahead_misses_nothing(ahead):
    assert checked(ahead) == ([("explained", 24, 500)], 0, ["rolled-ahead"], 0)
    again = kafkalog("recover", "--now", NOW, "--recovery-point", "0", "--no-quarantine", str(ahead))
    assert (again.status, b"note: 00000000000000000500.log (offsets 24 to 499) - empty, and the log before it ends at offset 24" in again.out) == (0, True)
    assert checked(ahead)[1::2] == (0, 0)


def test_records_behind_a_gap_look_like_a_loss(ahead, tmp_path):
    (tmp_path / "in").write_text("later\n")
    assert kafkalog("append", "--now", NOW, "--input-format", "text", "--input", str(tmp_path / "in"), str(ahead)).status == 0
    assert checked(ahead) == ([("missing", 24, 500)], 4, ["offset-gap"], 4)


def test_an_epoch_that_began_in_the_gap_tells_of_a_loss(ahead):
    (ahead / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n7 100\n")
    told, status, found, verified = checked(ahead)
    assert (told, status, verified) == ([("missing", 24, 500)], 4, 4)
    assert "offset-gap" in found


def test_an_index_without_its_log_in_the_gap_tells_of_a_loss(ahead):
    (ahead / "00000000000000000024.index").write_bytes(bytes.fromhex("0000000300000041"))
    told, status, found, verified = checked(ahead)
    assert (told, status, verified) == ([("missing", 24, 500)], 4, 4)
    assert {"offset-gap", "log-missing"} <= set(found)


@pytest.mark.parametrize("how", [(), ("--fully",)], ids=["cut", "fully"])
def test_no_log_ends_at_a_negative_offset(partition, how):
    before = {path.name: path.read_bytes() for path in partition.iterdir()}
    done = kafkalog("truncate", "--clean-start", "--now", NOW, "--to", "-5", *how, str(partition))
    assert (done.status, "cannot be truncated to the negative offset -5" in done.out.decode()) == (4, True)
    assert {path.name: path.read_bytes() for path in partition.iterdir()} == before


@pytest.mark.parametrize(
    ("how", "said", "left"),
    [
        (("--to", "14"), 20, 12),  # the last segment is now the one of 12 to 14
        (("--to", "14"), 12, 12),
        (("--to", "14"), 4, 4),
        (("--to", "24"), 24, 24),  # nothing is cut
        (("--to", "-5", "--fully"), 20, 20),
        (("--to", "5000", "--fully"), 20, 20),
        (("--to", "7", "--fully"), 20, 7),
    ],
)
def test_what_comes_behind_a_cut_is_not_clean(partition, how, said, left):
    assert (partition / f"{12:020}.log").exists()
    checkpoint = partition.parent / "cleaner-offset-checkpoint"
    checkpoint.write_text(f"0\n3\nother 1 700\nt 0 {said}\ngone 0 5\n")
    arguments = ("truncate", "--no-quarantine", "--clean-start", "--now", NOW, *how, str(partition))
    planned = kafkalog(*arguments, "--dry-run")
    assert checkpoint.read_text() == f"0\n3\nother 1 700\nt 0 {said}\ngone 0 5\n"
    done = kafkalog(*arguments)
    assert planned.out.decode().splitlines()[:-1] == as_planned(done.out.decode())
    assert checkpoint.read_text() == f"0\n3\nother 1 700\nt 0 {left}\ngone 0 5\n", "other lines are none of our business"
    told = f"moved cleaner-offset-checkpoint (from offset {said} to {left}) - the log is dirty from here on"
    assert (told in done.out.decode()) is (said != left)


def test_a_copy_that_is_on_its_way_leaves_the_line_of_its_log(partition):
    copy = partition.rename(partition.parent / "t-0.0123456789abcdef0123456789abcdef-future")
    (partition.parent / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 20\n")
    assert kafkalog("truncate", "--clean-start", "--now", NOW, "--to", "10", str(copy)).status == 0
    assert (partition.parent / "cleaner-offset-checkpoint").read_text() == "0\n1\nt 0 20\n"


def test_a_key_that_is_deleted_behind_a_cut_stays_deleted(tmp_path):
    """A tombstone that counts as clean goes one day; the value before it must have gone first."""
    day, policy = 86_400_000, ("--config", "cleanup.policy=compact", "--config", "min.cleanable.dirty.ratio=0")
    log_dir, partition, source = tmp_path / "d", tmp_path / "d/t-0", tmp_path / "in"
    log_dir.mkdir()
    (log_dir / "meta.properties").write_text("version=1\nnode.id=1\n")

    def append(*records):
        source.write_text("".join(json.dumps({"key": key, "value": value, "timestamp": int(NOW)}) + "\n" for key, value in records))
        done = kafkalog("append", "--create", "--clean-start", "--now", NOW, "--input", str(source), "--batch-size", "1",
                        "--config", "segment.bytes=130", str(partition))  # fmt: skip
        assert done.status == 0, done.err

    append(("deleted", "v"), *((f"a{number}", "v") for number in range(11)))
    assert kafkalog("compact", "--clean-start", "--now", NOW, *policy, str(partition)).status == 0
    assert (log_dir / "cleaner-offset-checkpoint").read_text() == "0\n1\nt 0 11\n"
    assert kafkalog("truncate", "--clean-start", "--now", NOW, "--to", "6", str(partition)).status == 0
    append(("deleted", None), *((f"b{number}", "v") for number in range(11)))
    for days in (2, 4, 6):
        done = kafkalog("compact", "--force", "--clean-start", "--now", str(int(NOW) + days * day), *policy, str(partition))
        assert done.status == 0, done.err
    left = kafkalog("dump-log", "--print-data-log", "--format", "jsonl", str(partition)).out.splitlines()
    assert not [one for one in map(json.loads, left) if one["type"] == "record" and one["offset"] == 0]


@pytest.mark.parametrize("words", [("--to", "9223372036854775807", "--fully"), ("--to", "9223372036854775807")])
def test_an_end_that_no_log_can_have_is_wrong_usage(partition, words):
    done = kafkalog("truncate", "--now", NOW, *words, str(partition))
    assert done.status == 2
    assert "Invalid value for '--to'" in done.err
    assert offsets(partition) == list(range(24))


def test_the_last_end_that_a_log_can_have_takes_one_record(partition):
    assert kafkalog("truncate", "--now", NOW, "--fully", "--to", "9223372036854775806", str(partition)).status == 0
    source = partition.parent / "one"
    source.write_text("one\n")
    done = kafkalog("append", "--now", NOW, "--input-format", "text", "--input", str(source), str(partition))
    assert done.status == 0, done.err
    assert offsets(partition) == [9223372036854775806]
