from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.checkpoint.identity import (
    CleanShutdown,
    MetaProperties,
    PartitionMetadata,
    QuorumState,
    decode_clean_shutdown,
    decode_meta_properties,
    decode_partition_metadata,
    decode_quorum_state,
)

ID = "Ure9eD19RMmD-98XzfrQmw"


def whats(decoded):
    return [finding.what for finding in decoded.findings]


def test_partition_metadata():
    assert decode_partition_metadata(f"version: 0\ntopic_id: {ID}".encode(), "x") == (PartitionMetadata(0, ID), [])
    assert decode_partition_metadata(f"version: 3\r\ntopic_id: {ID}\r\nmore".encode(), "x").value == (3, ID)


@pytest.mark.parametrize(
    "data",
    [
        b"", b"version: 0", b"version:0\ntopic_id: " + ID.encode(), b"version: -1\ntopic_id: " + ID.encode(),
        b"version: x\ntopic_id: " + ID.encode(), b"version: 0\ntopic_id: short", b"version: 0\n\n", b"\xff\n\xff",
        b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA", b"version: 0\ntopic_id: a: b",
    ],
)
def test_bad_partition_metadata(data):
    decoded = decode_partition_metadata(data, "x")
    assert decoded.value is None
    assert [finding.code for finding in decoded.findings] == ["file-malformed"]


def test_meta_properties():
    data = f"#\n#Sat Nov 21\nnode.id=1\ndirectory.id={ID}\nversion=1\ncluster.id=kafkalogCorpusSeed42AA\n".encode()
    assert decode_meta_properties(data, "x") == (MetaProperties(1, "kafkalogCorpusSeed42AA", 1, ID, {}), [])
    data = b"broker.id=0\nversion=0\nodd=\\u00e9\n"
    assert decode_meta_properties(data, "x") == (MetaProperties(0, None, 0, None, {"odd": "é"}), [])
    assert decode_meta_properties(b"", "x") == (MetaProperties(0, None, None, None, {}), [])


def test_bad_meta_properties():
    assert whats(decode_meta_properties(b"version=2", "x")) == ["version '2', only 0 and 1 exist"]
    assert whats(decode_meta_properties(b"version=1", "x")) == ["node.id is missing", "cluster.id is missing"]
    assert whats(decode_meta_properties(b"broker.id=x\ndirectory.id=y\n\\u12=3", "x")) == [
        "line 3: malformed \\uxxxx encoding", "broker.id is not a number: 'x'", "directory.id is not an id: 'y'",
    ]


def test_clean_shutdown():
    assert decode_clean_shutdown(b"", "x") == (CleanShutdown(None, None), [])
    assert decode_clean_shutdown(b'{"version":0,"brokerEpoch":375}', "x") == (CleanShutdown(0, 375), [])
    assert whats(decode_clean_shutdown(b'{"version":0,"brokerEpoch":true}', "x")) == ["brokerEpoch is not a number"]
    assert whats(decode_clean_shutdown(b"[]", "x")) == ["not a JSON object"]


def test_quorum_state():
    data = {"clusterId": "", "leaderId": 1, "leaderEpoch": 2, "votedId": -1, "appliedOffset": 0,
            "currentVoters": [{"voterId": 1}], "data_version": 0}
    assert decode_quorum_state(json.dumps(data).encode(), "x") == (QuorumState(0, 1, 2, -1, None, "", 0, (1,)), [])
    data["currentVoters"] = None
    assert decode_quorum_state(json.dumps(data).encode(), "x").value.current_voters is None
    data = {"leaderId": 1, "leaderEpoch": 3, "votedId": -1, "votedDirectoryId": ID, "data_version": 1}
    text = json.dumps(data).encode() + b"\nignored"
    assert decode_quorum_state(text, "x") == (QuorumState(1, 1, 3, -1, ID, None, None, None), [])


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"", "not JSON"), (b"\xff", "not JSON"), (b"[" * 50_000, "not JSON"), (b"9" * 10_000, "not JSON"),
        (b"{}", "data_version 'None'"), (b'{"data_version":2}', "data_version '2'"),
        (b'{"data_version":true}', "data_version 'True'"), (b'{"data_version":1}', "leaderId is missing"),
        (b'{"data_version":0,"leaderId":99999999999}', "leaderId is not a number"),
    ],
)
def test_bad_quorum_state(data, fault):
    decoded = decode_quorum_state(data, "x")
    assert decoded.value is None
    assert decoded.findings[0].what.startswith(fault)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda children: st.lists(children) | st.dictionaries(st.text(), children),
)
KEYS = ["clusterId", "leaderId", "leaderEpoch", "votedId", "appliedOffset", "currentVoters", "data_version",
        "votedDirectoryId", "version", "brokerEpoch"]


@given(st.dictionaries(st.sampled_from(KEYS), json_values | st.sampled_from([0, 1, [{"voterId": 1}, 2, {}]])))
def test_any_json(fields):
    data = json.dumps(fields).encode()
    for decode in (decode_quorum_state, decode_clean_shutdown):
        decoded = decode(data, "x")
        assert decoded.findings or decoded.value is not None


@given(st.binary() | st.text().map(str.encode))
def test_any_bytes(data):
    for decode in (decode_partition_metadata, decode_meta_properties, decode_clean_shutdown, decode_quorum_state):
        decoded = decode(data, "x")
        assert decoded.findings or decoded.value is not None
