"""Commands that change a log leave one alone whose opening would lose records: that is for `recover`."""

from __future__ import annotations

import re
import shutil

import pytest

from engine.files import ReadOnlyFiles
from tests.support.file_work import tree
from tests.support.run import kafkalog

COMMANDS = {
    "roll": (), "retain": ("--config", "retention.ms=604800000"), "delete-records": ("--before", "0"), "truncate": ("--to", "180"),
    "compact": ("--force", "--config", "cleanup.policy=compact"), "append": ("--input-format", "text"),
}  # fmt: skip


@pytest.fixture
def log_dir(own_corpus, tmp_path):
    shutil.copytree(own_corpus / "kafka-4.3.1" / "logs" / "unclean" / "d0" / "u-rolls-0", tmp_path / "d0" / "u-rolls-0")
    return tmp_path / "d0"


def run(log_dir, name):
    (log_dir.parent / "in").write_bytes(b"a:b\n")
    more = ("--input", str(log_dir.parent / "in")) if name == "append" else ()
    return kafkalog(name, *COMMANDS[name], *more, str(log_dir / "u-rolls-0"))


def state(log_dir):
    return {name: data for name, data in tree(ReadOnlyFiles(), str(log_dir)).items() if not name.endswith(".lock")}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_damaged_batch_is_left_to_recover(log_dir, name):
    segment = log_dir / "u-rolls-0" / "00000000000000000173.log"
    data = bytearray(segment.read_bytes())
    data[4000] ^= 255
    segment.write_bytes(data)
    before = state(log_dir)
    done = run(log_dir, name)
    assert done.status == 4
    assert "error[log-damaged]" in done.err
    assert "kafkalog recover --dry-run" in done.err
    assert state(log_dir) == before


def test_advice_repeats_what_found_the_damage(log_dir):
    segment = log_dir / "u-rolls-0" / "00000000000000000000.log"
    data = bytearray(segment.read_bytes())
    data[400] ^= 255
    segment.write_bytes(data)
    done = kafkalog("retain", "--recovery-point", "0", "--log-start-offset", "3", str(log_dir / "u-rolls-0"))
    assert done.status == 4
    assert f"kafkalog recover --dry-run --recovery-point 0 --log-start-offset 3 {log_dir}/u-rolls-0 " in done.err


@pytest.mark.parametrize("name", COMMANDS)
def test_the_rest_of_a_write_that_was_cut_off_is_no_obstacle(log_dir, name):
    segment = max((log_dir / "u-rolls-0").glob("*.log"))
    segment.write_bytes(segment.read_bytes() + segment.read_bytes()[:40])
    done = run(log_dir, name)
    assert done.status == 1, done.err
    assert "the file ends inside a batch" in done.out.decode()


@pytest.mark.parametrize("name", COMMANDS)
def test_a_log_start_beyond_the_end_deletes_nothing(log_dir, name):
    (log_dir / "log-start-offset-checkpoint").write_text("0\n1\nu-rolls 0 99999\n")
    before = state(log_dir)
    done = run(log_dir, name)
    assert done.status == 4
    assert "below its start 99999" in done.err
    assert state(log_dir) == before


@pytest.mark.parametrize("command", ["recover", "roll"])
@pytest.mark.parametrize("name", ["a b-0", "new\nline-0", "x\udcff-0", "t" * 250 + "-0"])
def test_what_no_topic_can_be_called_is_left_alone(log_dir, name, command):
    (log_dir / "u-rolls-0").rename(log_dir / name)
    before = state(log_dir)
    done = kafkalog(command, *(["--no-quarantine"] if command == "recover" else []), str(log_dir / name))
    assert done.status == 8
    assert "not a valid topic name: Kafka allows letters" in done.err
    assert state(log_dir) == before


# ---- the last batch


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("damage", ["corrupt", "torn", "junk"])
def test_append_and_the_end_of_the_log(log_dir, damage, is_clean, tmp_path):
    """A last batch that is complete but corrupt is never truncated on the way, and nothing is appended behind damage."""
    (tmp_path / "more").write_text("new\n")
    (log_dir / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":-1}') if is_clean else None
    segment = max((log_dir / "u-rolls-0").glob("*.log"))
    whole = segment.read_bytes()
    segment.write_bytes({"corrupt": whole[:-3] + b"bad", "torn": whole[:-3], "junk": whole + b"\1" * 40}[damage])
    before = segment.read_bytes()
    words = ("append", "--input-format", "text", "--input", str(tmp_path / "more"), str(log_dir / "u-rolls-0"))
    done = kafkalog(*words)
    if is_clean or damage == "corrupt":
        assert (done.status, "error[log-damaged]" in done.err) == (4, True), done.err
        assert "kafkalog recover" in done.err
        assert segment.read_bytes() == before
        assert kafkalog("recover", str(log_dir / "u-rolls-0")).status == 1
        assert kafkalog(*words).status == 0
    else:
        assert done.status == 1, done.err
        assert re.search(r"truncated 0+[0-9]+\.log \(.*[0-9]+ bytes\) - at byte [0-9]+: the file ends inside a batch", done.out.decode())
    assert kafkalog("dump-log", "--files", str(segment)).status == 0
    assert kafkalog("verify", str(log_dir / "u-rolls-0")).status == 0
