"""Groups and offsets in logs of `__consumer_offsets`: what Kafka's Admin client said of them, and cases of our own."""

import json
import re
import struct

import pytest

from engine.files import ReadOnlyFiles
from engine.formats import ControlType
from engine.log.fetch.stored_groups import GroupType, read_groups
from engine.record.builder import NewRecord, build_batch, end_txn_batch
from tests.support.corpus import groups_directory

NOW = 1_700_000_000_000


def groups_in(directory):
    found = []
    groups = read_groups(ReadOnlyFiles(), [str(directory)], found.append)
    assert found == []
    return groups


# ---- what Kafka said


@pytest.mark.parametrize("state", ["1-running", "1-stopped", "3-replaced"])
def test_groups_and_offsets_are_those_that_kafka_described(state):
    top = groups_directory()
    truth = json.loads((top / f"truth-{state}.json").read_text())
    groups = groups_in(top / state / "d1")
    assert {name: (one.type.value, one.protocol_type, one.state) for name, one in groups.items()} == {
        name: (one["type"].lower(), one["protocol"], one["state"]) for name, one in truth.items()
    }
    for name, one in groups.items():
        if one.type is not GroupType.SHARE:  # its offsets are in __share_group_state
            offsets = {
                f"{topic}-{partition}": {
                    "offset": offset.offset, "metadata": offset.metadata,
                    "leader_epoch": None if offset.leader_epoch < 0 else offset.leader_epoch,
                } for (topic, partition), offset in one.offsets.items()
            }  # fmt: skip
            assert offsets == truth[name]["offsets"], name


def test_members_are_those_that_kafka_described():
    top = groups_directory()
    text = json.loads((top / "truth-1-running.json").read_text())["g-new"]["description"]
    group = groups_in(top / "1-running" / "d1")["g-new"]
    topics = {one["id"]: name for name, one in json.loads((top / "topics.json").read_text())["cluster"].items()}
    truth = {}
    for member, rack, client, assignment, target, epoch in re.findall(
        r"memberId=([^,]+), groupInstanceId=null, rackId=([^,]+), clientId=([^,]+), .*?assignment=\(topicPartitions=([^)]*)\), "
        r"targetAssignment=Optional\[\(topicPartitions=([^)]*)\)\], memberEpoch=(\d+)", text,
    ):  # fmt: skip
        truth[member] = (rack, client, set(assignment.split(",")), set(target.split(",")), int(epoch))

    def named(partitions):
        return {f"{topics[one['topicId']]}-{number}" for one in partitions for number in one["partitions"]}

    assert truth == {
        member: (
            str(one.metadata["rackId"] or "null"), one.metadata["clientId"], named(one.current["assignedPartitions"]),
            named(one.target["topicPartitions"]), one.current["memberEpoch"],
        ) for member, one in group.members.items()
    }  # fmt: skip
    assert len(truth) == 2
    assert (group.epoch, group.target_epoch) == (7, 7)


def test_a_group_whose_members_have_not_reached_their_target(tmp_path):
    """The log up to the batch in which a second member came: the first one is still in the epoch before."""
    source = groups_directory() / "1-stopped/d1/__consumer_offsets-0/00000000000000000000.log"
    data, at = source.read_bytes(), 0
    while struct.unpack_from(">q", data, at)[0] < 18:
        at += 12 + struct.unpack_from(">i", data, at + 8)[0]
    (tmp_path / "__consumer_offsets-0").mkdir()
    (tmp_path / "__consumer_offsets-0" / source.name).write_bytes(data[:at])
    group = groups_in(tmp_path)["g-new"]
    assert (group.epoch, group.target_epoch, group.state) == (3, 3, "Reconciling")
    assert sorted(one.current["memberEpoch"] for one in group.members.values()) == [2, 3]


def test_an_offset_in_an_open_transaction_is_pending():
    group = groups_in(groups_directory() / "1-stopped" / "d1")["g-tx"]
    assert ("orders", 1) not in group.offsets
    ((producer, committed),) = group.pending["orders", 1]
    assert (producer, committed.offset, committed.metadata) == (6, 3, "pending")


# ---- cases of our own


def text(value):
    return struct.pack(">h", len(value)) + value.encode()


def offset_key(partition=0, group="g"):
    return struct.pack(">h", 1) + text(group) + text("t") + struct.pack(">i", partition)


def offset_value(offset):
    return struct.pack(">hqi", 3, offset, -1) + text("") + struct.pack(">q", NOW)


def log_of(tmp_path, *batches):
    """Make a log of batches: (records, options of build_batch), or a control type with its producer."""
    directory = tmp_path / "__consumer_offsets-3"
    directory.mkdir()
    data, offset = b"", 0
    for one, options in batches:
        if isinstance(one, ControlType):
            data += end_txn_batch(one, 3, base_offset=offset, timestamp=NOW, producer_epoch=0, **options)
            offset += 1
        else:
            data += build_batch([NewRecord(offset + n, NOW, key, value) for n, (key, value) in enumerate(one)], **options)
            offset += len(one)
    (directory / "00000000000000000000.log").write_bytes(data)
    return directory


def sent(offset, producer=None, partition=0):
    options = {} if producer is None else {"transactional": True, "producer_id": producer, "producer_epoch": 0, "base_sequence": 0}
    return [(offset_key(partition), None if offset is None else offset_value(offset))], options


def ends(kind, producer):
    return kind, {"producer_id": producer}


@pytest.mark.parametrize(("batches", "offset", "pending"), [
    ([sent(1), sent(2)], 2, []),
    ([sent(1), sent(None)], None, []),
    ([sent(5, producer=7)], None, [(7, 5)]),
    ([sent(5, producer=7), ends(ControlType.COMMIT, 7)], 5, []),
    ([sent(1), sent(5, producer=7), ends(ControlType.ABORT, 7)], 1, []),
    ([sent(5, producer=7), sent(6), ends(ControlType.COMMIT, 7)], 6, []),  # the later record counts, not the later marker
    ([sent(6), sent(5, producer=7), ends(ControlType.COMMIT, 7)], 5, []),
    ([sent(5, producer=7), sent(None), ends(ControlType.COMMIT, 7)], None, []),
    ([sent(5, producer=7), sent(6, producer=8), ends(ControlType.COMMIT, 8)], 6, [(7, 5)]),
    ([sent(5, producer=7), ends(ControlType.COMMIT, 8)], None, [(7, 5)]),
])  # fmt: skip
def test_transactions_and_tombstones(tmp_path, batches, offset, pending):
    log_of(tmp_path, *batches)
    group = groups_in(tmp_path).get("g")
    known = group.offsets.get(("t", 0))
    assert (known and known.offset) == offset
    assert [(one.producer_id, one.committed.offset) for one in group.pending.get(("t", 0), [])] == pending


def test_a_tombstone_removes_a_group_and_its_members(tmp_path):
    key = struct.pack(">h", 2) + text("classic")
    value = struct.pack(">h", 3) + text("consumer") + struct.pack(">i", 4) + text("range") + text("m") + struct.pack(">qi", NOW, 0)
    log_of(tmp_path, ([(key, value), (offset_key(), offset_value(1))], {}), ([(key, None)], {}))
    groups = groups_in(tmp_path)
    assert list(groups) == ["g"]
    assert (groups["g"].state, groups["g"].protocol_type, groups["g"].epoch) == ("Empty", "", 0)


def test_records_of_unknown_types_are_skipped_and_damaged_ones_reported(tmp_path):
    unknown = struct.pack(">h", 99) + b"whatever"
    log_of(tmp_path, ([(unknown, b"x"), (offset_key(), b"\x00\x03bad"), (b"\x00\x01short", b"x"), (offset_key(1), offset_value(4))], {}))
    found = []
    group = read_groups(ReadOnlyFiles(), [str(tmp_path)], found.append)["g"]
    assert sorted((one.code, one.where.offset) for one in found) == [("record-undecodable", 1), ("record-undecodable", 2)]
    assert {place: one.offset for place, one in group.offsets.items()} == {("t", 1): 4}


def test_log_dirs_without_the_topic_have_no_groups(tmp_path):
    assert groups_in(tmp_path) == {}
