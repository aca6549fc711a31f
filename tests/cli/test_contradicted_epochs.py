"""A leader-epoch-checkpoint that a broker reads, and the batches contradict: told, left as Kafka leaves it, never proven."""

from __future__ import annotations

import shutil

import pytest

from tests.support.json_output import reports_of
from tests.support.run import kafkalog

NOW = "1764000000000"
PARTITION = "small_segments-0"  # offsets 0 to 87 of epoch 0, 88 of epoch 2
NAME = "leader-epoch-checkpoint"
# what stands in the file → what Kafka's recovery of all segments leaves in it (seen with 4.3.1), what is told of that
CONTRADICTED = {
    "0\n2\n0 0\n2 40\n": ("0\n2\n0 0\n2 40\n", "epoch 2 would begin at offset 40, where a batch has epoch 0"),
    "0\n1\n2 0\n": ("0\n1\n2 0\n", "offset 0 would have epoch 2, its batch has epoch 0"),
    "0\n3\n0 0\n1 7\n2 7\n": ("0\n2\n0 0\n2 7\n", "epoch 2 would begin at offset 7, where a batch has epoch 0"),
    "0\n2\n1 7\n2 7\n": ("0\n2\n1 7\n2 7\n", "both epochs and offsets must increase"),
}
# nothing is wrong where no batch says otherwise: what Kafka adds it adds. What lies below the first epoch may be what a
# deletion of old records has left that was stopped behind its first step
EMPTIED = "0\n0\n"  # no broker writes it for a log with batches: it is rebuilt, and a warning says so
SOUND = {"0\n1\n0 50\n": "0\n2\n0 50\n2 88\n", "0\n2\n0 0\n2 88\n": "0\n2\n0 0\n2 88\n", "0\n1\n0 0\n": "0\n2\n0 0\n2 88\n", EMPTIED: "0\n2\n0 0\n2 88\n"}


@pytest.fixture
def log_dir(own_corpus, tmp_path):
    source = own_corpus / "kafka-4.3.1/logs/clean/d1"
    (tmp_path / "d1").mkdir()
    for name in ("meta.properties", "log-start-offset-checkpoint", PARTITION):
        copy = shutil.copytree if (source / name).is_dir() else shutil.copy
        copy(source / name, tmp_path / "d1" / name)
    return tmp_path / "d1"


def events_of(*words, status):
    """What is told of the checkpoint."""
    done = kafkalog("recover", "--now", NOW, "--format", "json", *map(str, words))
    assert done.status == status, (done.out, done.err)
    events = [event for one in reports_of(done.out) for event in one.get("events", ())]
    return [(event["action"], event["reason"]) for event in events if event["file"] == NAME]


@pytest.mark.parametrize("text", CONTRADICTED)
def test_it_is_told_and_left_as_kafka_leaves_it(text, log_dir):
    left, what = CONTRADICTED[text]
    (log_dir / PARTITION / NAME).write_text(text)
    told = events_of("--recovery-point", "0", log_dir / PARTITION, status=4)
    assert [action for action, _ in told] == (["kept"] if left == text else ["rebuilt", "kept"])
    assert told[-1][1].startswith(what)
    assert (log_dir / PARTITION / NAME).read_text() == left
    assert kafkalog("verify", str(log_dir / PARTITION)).status == 4


@pytest.mark.parametrize("text", CONTRADICTED)
def test_a_log_dir_is_proven_once_it_is_made_anew(text, log_dir):
    (log_dir / PARTITION / NAME).write_text(text)
    told = events_of("--mark-clean", log_dir, status=1)
    assert told[-1][0] == "rebuilt"
    assert told[-1][1].startswith("rebuilt from the batches")
    assert (log_dir / ".kafka_cleanshutdown").exists()
    assert (log_dir / PARTITION / NAME).read_text() == "0\n2\n0 0\n2 88\n"
    assert events_of("--mark-clean", log_dir, status=0) == []
    assert kafkalog("verify", str(log_dir / PARTITION)).status == 0


@pytest.mark.parametrize("text", SOUND)
def test_what_no_batch_contradicts_is_sound(text, log_dir):
    (log_dir / PARTITION / NAME).write_text(text)
    told = events_of("--recovery-point", "0", log_dir / PARTITION, status=1 if text == EMPTIED else 0)
    assert "kept" not in [action for action, _ in told]
    assert (log_dir / PARTITION / NAME).read_text() == SOUND[text]


def test_of_a_mere_copy_nobody_knows_where_the_log_began(log_dir):
    """Deleting records cuts epochs where the log then begins, and only the checkpoint says so."""
    (log_dir / "log-start-offset-checkpoint").unlink()
    (log_dir / PARTITION / NAME).write_text("0\n2\n0 50\n2 88\n")
    assert events_of("--recovery-point", "0", log_dir / PARTITION, status=0) == []
    assert kafkalog("verify", str(log_dir / PARTITION)).status == 0


def test_an_epoch_in_a_gap_is_no_contradiction(log_dir):
    """Its batches may be gone: the cleaner has taken them, or their segment was lost."""
    for path in (log_dir / PARTITION).glob("00000000000000000042.*"):
        path.unlink()
    (log_dir / PARTITION / NAME).write_text("0\n3\n0 0\n1 50\n2 88\n")
    told = events_of("--recovery-point", "0", log_dir / PARTITION, status=4)
    assert told[-1] == ("kept", told[-1][1])  # offsets 63 to 87 are of epoch 0, and there
    (log_dir / PARTITION / NAME).write_text("0\n2\n0 0\n2 88\n")
    assert events_of("--recovery-point", "0", log_dir / PARTITION, status=4) == []


def test_lines_that_contradict_each_other_are_told(log_dir):
    """Kafka reads of them the later ones, and writes these."""
    (log_dir / PARTITION / NAME).write_text("0\n3\n0 0\n1 88\n2 88\n")
    ((action, reason),) = events_of("--recovery-point", "0", log_dir / PARTITION, status=1)
    assert action == "rebuilt"
    assert reason.startswith("epochs were 0@0, 1@88, 2@88, are 0@0, 2@88; both epochs and offsets must increase")
    assert (log_dir / PARTITION / NAME).read_text() == "0\n2\n0 0\n2 88\n"


@pytest.mark.parametrize(("words", "left", "said"), [
    ((), "0\n2\n0 0\n1048576 3\n", "contains it, as after a recovery by a broker"), (("--salvage",), "0\n1\n0 0\n", "is not changed"),
])  # fmt: skip
def test_the_report_says_what_the_file_has_in_the_end_and_a_second_run_changes_nothing(words, left, said, own_corpus, tmp_path):
    """Beside the flipped bit of a batch, the file has an epoch at the end of the log, which Kafka drops as it opens it."""
    partition = shutil.copytree(own_corpus / "kafka-4.3.1/logs/clean/d1/tx-v1-0", tmp_path / "tx-v1-0")
    log = partition / f"{2:020}.log"
    data = bytearray(log.read_bytes())
    data[78 + 13] ^= 1 << 4
    log.write_bytes(data)
    for run in range(2):
        done = kafkalog("recover", "--now", NOW, "--no-quarantine", "-v", *words, str(partition))
        assert (partition / NAME).read_text() == left
        assert f"no checksum covers them; leader-epoch-checkpoint {said}" in done.out.decode()
        assert ("rebuilt leader-epoch-checkpoint" in done.out.decode()) == (run == 0)


def test_a_log_without_records_takes_no_doubtful_epoch(log_dir):
    """Kafka removes the entry at the end of such a log, and adds epochs of batches before its start: a changed one is not added."""
    logs = sorted((log_dir / PARTITION).glob("*.log"))
    data = bytearray(logs[0].read_bytes())
    size = 12 + int.from_bytes(data[8:12], "big")
    data[size + 12 : size + 16] = (7).to_bytes(4, "big")  # of the second batch: no checksum covers it
    logs[0].write_bytes(data)
    end = reports_of(kafkalog("recover", "-n", "--full", "--format", "json", str(log_dir / PARTITION)).out)[0]["log_end_offset"]
    for _ in range(2):
        kafkalog("recover", "--full", "--log-start-offset", str(end), "--no-quarantine", str(log_dir / PARTITION))
        assert (log_dir / PARTITION / NAME).read_text() == f"0\n1\n2 {end}\n"
