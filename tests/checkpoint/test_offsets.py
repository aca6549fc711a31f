from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.checkpoint import checkpoints
from engine.checkpoint.checkpoints import (
    MAX_FINDINGS,
    EpochEntry,
    PartitionOffset,
    by_partition,
    decode_leader_epochs,
    decode_offset_checkpoint,
    encode_leader_epochs,
    encode_offset_checkpoint,
)
from engine.files import Files
from engine.findings import Finding, Where

topics = st.from_regex(r"[a-zA-Z0-9._-]{1,30}", fullmatch=True)


def test_offsets():
    checkpoint = decode_offset_checkpoint(b"0\n2\na.b-1_c-0 1 8\nt 0 9223372036854775807\n", "x")
    assert checkpoint.entries == [PartitionOffset("a.b-1_c-0", 1, 8), PartitionOffset("t", 0, 2**63 - 1)]
    assert checkpoint.findings == []
    assert by_partition(checkpoint.entries) == {("a.b-1_c-0", 1): 8, ("t", 0): 2**63 - 1}


def test_bad_lines():
    data = b"0\n7\na 0\na 0 1 2\na x 1\na 0 9223372036854775808\n a 0 1\na 0 1\na 0 2\nb 0 -1\n"
    checkpoint = decode_offset_checkpoint(data, "x")
    assert checkpoint.entries == [("a", 0, 1), ("a", 0, 2), ("b", 0, -1)]
    found = [finding.what for finding in checkpoint.findings]
    assert [text.split(":")[0] for text in found] == [
        "line 3", "line 4", "line 5", "line 6", "line 7", "line 2", "a 0 is there twice", "b 0 -1",
    ]
    assert by_partition(checkpoint.entries)["a", 0] == 2


def test_leader_epochs():
    checkpoint = decode_leader_epochs(b"0\n2\n0 0\n2 88\n", "x")
    assert checkpoint == (0, 2, [EpochEntry(0, 0), EpochEntry(2, 88)], [], None)


def test_leader_epochs_must_grow():
    checkpoint = decode_leader_epochs(b"0\n4\n2 60\n0 0\n1 0\n-1 5\n", "x")
    assert len(checkpoint.entries) == 4
    assert [finding.where.offset for finding in checkpoint.findings] == [0, 0, 5]
    assert decode_leader_epochs(b"0\n1\n2147483648 0\n", "x").entries == []


@pytest.mark.parametrize(("decode", "good", "doubtful"), [
    (decode_offset_checkpoint, "a 0 1", "a 0 2"), (decode_leader_epochs, "5 5", "4 5"), (decode_offset_checkpoint, "a 0 1", "?"),
])  # fmt: skip
def test_of_many_faults_the_rest_is_counted(decode, good, doubtful):
    lines = ["0", "131", good, *[doubtful] * 130]
    if doubtful == "?":
        lines[1] = "1"
    found = decode("\n".join(lines).encode(), "x").findings
    assert len(found) == MAX_FINDINGS + 1
    assert found[-1] == Finding("file-malformed", Where("x"), "30 more problems", 30)


def test_bad_lines_and_doubtful_ones_are_counted_together():
    data = "\n".join(["0", "80", "a 0 1", *["a 0 2"] * 79, *["?"] * 60])
    checkpoint = decode_offset_checkpoint(data.encode(), "x")
    assert checkpoint.findings[-1].what == "39 more problems"
    assert checkpoint.fault == checkpoint.findings[0].what
    assert decode_offset_checkpoint(b"0\n2\na 0 1\na 0 2\n", "x").fault is None, "Kafka reads it"


@given(st.lists(st.builds(PartitionOffset, topics, st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1)),
                unique_by=lambda entry: entry[:2]))
def test_offsets_written_are_read(entries):
    assert decode_offset_checkpoint(encode_offset_checkpoint(entries), "x") == (0, len(entries), entries, [], None)


@given(st.lists(st.builds(EpochEntry, st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1))))
def test_epochs_written_are_read(entries):
    assert decode_leader_epochs(encode_leader_epochs(entries), "x").entries == entries


@given(st.lists(st.text(alphabet="a0- \t\r\n19\x0b\x85é", max_size=40)).map("\n".join))
def test_any_text(text):
    decode_offset_checkpoint(b"0\n1\n" + text.encode(), "x")
    decode_leader_epochs(b"0\n1\n" + text.encode(), "x")


def test_a_file_that_every_partition_asks_is_parsed_once(tmp_path, monkeypatch):
    decoded = []

    def decode_noting(data, path):
        decoded.append(path)
        return original(data, path)

    original = checkpoints.decode_offset_checkpoint
    monkeypatch.setattr(checkpoints, "decode_offset_checkpoint", decode_noting)
    path = tmp_path / "cleaner-offset-checkpoint"
    path.write_bytes(encode_offset_checkpoint(PartitionOffset("t", number, 7 * number) for number in range(50)))
    for number in range(50):
        known, fault = checkpoints.known_offsets(Files(), str(path))
        assert (known["t", number], fault) == (7 * number, None)
    assert decoded == [str(path)]
    path.write_bytes(b"0\n2\nt 0 9\n")
    known, fault = checkpoints.known_offsets(Files(), str(path))
    assert (known["t", 0], ("t", 1) in known) == (9, False)
    assert fault is not None
    assert len(decoded) == 2
