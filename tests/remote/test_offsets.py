"""`kafkalog remote offsets` answers what the broker answered before it stopped."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.remote.corpus import OWN_ONLY, SETS, TOP, log_dirs, truth
from tests.support.json_output import objects_of
from tests.support.run import kafkalog

FIELDS = ("earliest", "latest", "last_stable", "earliest_local", "latest_tiered", "earliest_pending_upload", "max_timestamp")
ANSWERED = [name for name in SETS if (TOP / name / "truth/offsets.jsonl").exists()]


def epochs_gone(name, row):
    """Can the last leader epoch be missing in the checkpoints? A broker that starts as a follower truncates it: replicas differ."""
    files = [Path(top) / f"{row['topic']}-{row['partition']}/leader-epoch-checkpoint" for top in log_dirs(name)]
    return len({path.read_bytes() for path in files if path.exists()}) > 1


def offsets(name, *words):
    done = kafkalog("remote", "offsets", "--format", "jsonl", *words, *log_dirs(name))
    rows = objects_of(done.out)
    return {(row["topic"], row["partition"]): row for row in rows if row["type"] == "remote-offsets"}


@pytest.mark.parametrize("name", ANSWERED)
def test_every_offset_is_the_brokers(name):
    found = offsets(name)
    expected = truth(name, "offsets.jsonl")
    assert {(row["topic"], row["partition"]) for row in expected} == set(found)
    for row in expected:
        for field in FIELDS:
            got, kafkas = found[row["topic"], row["partition"]][field], row[field]
            if field in ("latest", "last_stable") and epochs_gone(name, row):
                got, kafkas = got["offset"], kafkas["offset"]
            assert got == kafkas, (row["topic"], row["partition"], field)


@OWN_ONLY
def test_the_lag_has_its_reason():
    found = {topic: (row["lag_segments"], row["lag_reason"]) for (topic, _), row in offsets("clean").items() if row["lag_segments"]}
    assert found == {"nocopy": (3, "copy-disabled"), "open-tx": (4, "open-transaction")}


@OWN_ONLY
def test_text_is_a_table_of_tiered_partitions():
    done = kafkalog("remote", "offsets", "-t", "plain", "-t", "open-tx", "-t", "untiered", *log_dirs("clean"))
    assert done.status == 0
    assert done.out.decode() == (
        "  partition  first  first local  last remote  last stable  end  lag\n"
        "  open-tx-0      0           35           34           40   93    4\n"
        "  plain-0        0          127          126          157  157    0\n"
        "  plain-1        0          107          106          120  120    0\n"
        "open-tx-0: 4 segments, 5.3 KiB not copied: a transaction is open\n"
        "3 partitions: 4 segments, 5.3 KiB not copied\n"
    )


@OWN_ONLY
def test_without_a_metadata_log_the_error_says_what_to_name(tmp_path):
    done = kafkalog("remote", "offsets", f"{log_dirs('clean')[0]}/plain-0")
    assert done.status == 2
    assert "no log of __remote_log_metadata" in done.err
