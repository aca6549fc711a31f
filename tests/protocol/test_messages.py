"""Values and bytes of messages: both ways, defaults, what is refused."""

from __future__ import annotations

import json
import random

import pytest

from engine.protocol.frames import (
    FrameReader,
    RequestHeader,
    decode_request,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
)
from engine.protocol.layout import UNKNOWN_TAGS, Layout
from engine.protocol.messages import Api, _json_struct, api_name, api_versions, catalogue, decode, encode
from engine.protocol.reading import struct_reader
from engine.protocol.writing import struct_writer
from engine.schema import tables
from engine.schema.compiler import message_json
from engine.schema.wire import SchemaError
from tests.support.protocol_values import Values, every_version
from tests.support.schema_bytes import Generator

VALUES = 20  # per message and version


def joined(pieces):
    return b"".join(pieces)


@pytest.mark.parametrize(("name", "version"), every_version())
def test_random_values_both_ways(name, version):
    values = Values(name, version, random.Random(f"{name} {version}"))
    for _ in range(VALUES):
        value = values.value()
        data = joined(encode(name, version, value))
        found, end = decode(name, version, b"?" + data, 1)
        assert end == len(data) + 1
        assert found == value


@pytest.mark.parametrize("table", [tables.offsets, tables.transactions, tables.share_group_state])
def test_the_same_as_the_decoders_of_internal_topics(table):
    rng = random.Random(table.__name__)
    for name in table().names():
        message = table().message(name)
        for version in range(message.versions.lowest, message.versions.highest + 1):
            layout = Layout(message, version)
            for _ in range(VALUES):
                data = Generator(table(), rng).message(message, version)
                value, end = struct_reader(layout, message.body)(memoryview(data), 0, [1000])
                text, expected_end = message_json(table(), name, version, data)
                assert (_json_struct(layout, message.body, value), end) == (json.loads(text), expected_end)
                out = []
                struct_writer(layout, message.body)(value, out)
                assert struct_reader(layout, message.body)(memoryview(joined(out)), 0, [1000])[0] == value


@pytest.mark.parametrize("api", Api)
def test_the_names_of_apis(api):
    assert api_name(api).upper() == api.name.replace("_", "")


def test_what_the_catalogue_has():
    assert [api_name(key) for key in (0, 1, 3, 18, 17)] == ["Produce", "Fetch", "Metadata", "ApiVersions", "SaslHandshake"]
    assert api_versions(1) == (4, 18)
    for name in catalogue().names():
        message = catalogue().message(name)
        if message.role == "request":
            response = catalogue().find("response", message.id)
            assert (response.versions, response.flexible) == (message.versions, message.flexible)


def test_missing_fields_are_written_and_read_as_their_default():
    data = joined(encode("FetchRequest", 11, {"topics": [{"topic": "t", "partitions": [{"fetchOffset": 7}]}]}))
    value, _ = decode("FetchRequest", 11, data)
    assert (value["maxBytes"], value["sessionEpoch"], value["rackId"], value["clusterId"]) == (2**31 - 1, -1, "", None)
    [partition] = value["topics"][0]["partitions"]
    assert (partition["fetchOffset"], partition["logStartOffset"], partition["lastFetchedEpoch"]) == (7, -1, -1)
    assert value["replicaState"] == {"replicaId": -1, "replicaEpoch": -1}


def test_defaults_are_not_shared():
    first, second = (decode("MetadataRequest", 1, b"\0\0\0\0")[0] for _ in range(2))
    first["topics"].append(1)
    assert second["topics"] == []
    value, _ = decode("FetchResponse", 4, joined(encode("FetchResponse", 4, {})))
    value["nodeEndpoints"].append(1)
    assert decode("FetchResponse", 4, joined(encode("FetchResponse", 4, {})))[0]["nodeEndpoints"] == []


class FileRange:
    """Records that are not in memory: only their size is known."""

    def __init__(self, size):
        self.size = size

    def __len__(self):
        return self.size


@pytest.mark.parametrize("version", [4, 11, 12, 18])
def test_records_are_pieces_of_their_own(version):
    header = RequestHeader(1, version, 5)
    ranges = [FileRange(100), FileRange(0), b"abc"]
    partitions = [{"partitionIndex": number, "records": records} for number, records in enumerate(ranges)]
    pieces = encode_response(header, {"responses": [{"partitions": partitions}]})
    assert [piece for piece in pieces if isinstance(piece, FileRange)] == ranges[:2]
    tail = [bytes] if version >= 12 else []  # tagged fields
    assert [type(piece) for piece in pieces] == [bytes, FileRange, bytes, FileRange, bytes, memoryview, *tail]
    frame = b"".join(bytes(len(piece)) if isinstance(piece, FileRange) else piece for piece in pieces)
    assert int.from_bytes(frame[:4]) == len(frame) - 4
    [topic] = decode_response(header, frame[4:]).body["responses"]
    assert [bytes(one["records"]) for one in topic["partitions"]] == [bytes(100), b"", b"abc"]


def test_unknown_tagged_fields_are_kept():
    tags = [(9, b"nine"), (70000, b"")]
    header = RequestHeader(3, 13, 5, "me", ((3, b"h"),))
    frame = joined(encode_request(header, {"topics": [{"name": "t", UNKNOWN_TAGS: tags}], UNKNOWN_TAGS: tags[:1]}))[4:]
    request = decode_request(frame)
    assert request.header == header
    assert request.body[UNKNOWN_TAGS] == tags[:1]
    assert request.body["topics"][0][UNKNOWN_TAGS] == tags
    assert joined(encode_request(request.header, request.body))[4:] == frame
    with pytest.raises(SchemaError, match=r"unknownTaggedFields: this version does not have tagged fields"):
        encode("MetadataRequest", 8, {UNKNOWN_TAGS: tags})


@pytest.mark.parametrize(
    ("name", "version", "value", "message"),
    [
        ("FetchRequest", 6, {"sessionId": 3, "topics": []}, None),  # ignorable
        ("FetchRequest", 11, {"replicaState": {"replicaId": -1}}, None),  # the default
        ("FetchRequest", 11, {"replicaState": {"replicaId": 2}}, "version 11, replicaState: version 11 does not have this field"),
        ("FetchResponse", 6, {"sessionId": 3}, "version 6, sessionId: version 6 does not have this field: 3 is lost"),
        ("MetadataRequest", 0, {"topics": None}, "topics: non-nullable field topics was serialized as null"),
        ("MetadataRequest", 9, {"topics": [{"name": None}]}, r"topics\[0\]\.name: non-nullable"),
        ("MetadataRequest", 9, {"topics": "t"}, "topics: 't' is not a list"),
        ("MetadataRequest", 9, {"topics": ["t"]}, r"topics\[0\]: MetadataRequestTopic is a dict, not 't'"),
        ("MetadataRequest", 9, {"topic": []}, r"does not have the fields \['topic'\]"),
        ("MetadataRequest", 10, {"topics": [{"topicId": "short"}]}, r"topics\[0\]\.topicId: 'short' is not a UUID"),
        ("HeartbeatRequest", 0, {"generationId": 2**31}, "generationId: 2147483648 is not of type int32"),
        ("HeartbeatRequest", 0, {"groupId": b"g"}, "groupId: b'g' is not a string"),
        ("HeartbeatRequest", 4, {"groupId": "g" * 32768}, "groupId: a string of 32768 bytes is too long"),
        ("SyncGroupResponse", 0, {"assignment": "text"}, "assignment: 'text' is not bytes"),
        ("LeaveGroupRequest", 2, {"members": [{"memberId": "m"}]}, "members: version 2 does not have this field"),
        ("FetchResponse", 4, {"responses": [{"partitions": [{"records": 7}]}]}, r"partitions\[0\]\.records: 7 is not records"),
        ("ListPartitionReassignmentsRequest", 0, {"topics": [{"partitionIndexes": [0, "1"]}]}, r"partitionIndexes\[1\]: '1' is not"),
        ("ProduceRequest", 2, {}, "ProduceRequest version 2 is not known: Kafka 4.3.1 has 3 to 13"),
    ],
)
def test_what_writers_refuse(name, version, value, message):
    if message is None:
        encode(name, version, value)
        return
    with pytest.raises(SchemaError, match=message):
        encode(name, version, value)


@pytest.mark.parametrize(
    ("name", "version", "data", "message"),
    [
        ("HeartbeatRequest", 0, b"", "HeartbeatRequest version 0, groupId, byte 0: the bytes end, at byte 0, inside"),
        ("HeartbeatRequest", 0, b"\0\3ab", "groupId, byte 0: Error reading byte array of 3 byte"),
        ("HeartbeatRequest", 0, b"\xff\xff", "groupId, byte 0: non-nullable field groupId was serialized as null"),
        ("HeartbeatRequest", 4, b"\xff\xff\xff\xff\xff", "groupId, byte 0: Varint is too long"),
        ("MetadataRequest", 0, b"\x7f\xff\xff\xff", "topics, byte 0: Tried to allocate a collection of size 2147483647"),
        ("MetadataRequest", 0, b"\0\0\0\1\0\5a", r"topics\[0\].name, byte 4: Error reading"),
        ("MetadataRequest", 0, b"\0\0\0\2\0\1a\0", r"topics\[1\].name, byte 7: the bytes end, at byte 8"),
        ("FetchRequest", 4, bytes(20), r"topics, byte 17: the bytes end, at byte 20, inside"),
    ],
)
def test_what_readers_refuse(name, version, data, message):
    with pytest.raises(SchemaError, match=message):
        decode(name, version, data)


def test_the_number_of_structs_is_limited():
    body = {"topics": [{"name": "t", "partitions": [{"partitionIndex": number} for number in range(3)]} for _ in range(4)]}
    data = joined(encode("ListOffsetsRequest", 6, body))
    assert len(decode("ListOffsetsRequest", 6, data, most_structs=16)[0]["topics"]) == 4
    with pytest.raises(SchemaError, match=r"topics\[3\]\.partitions, byte 173: too many elements: 1 more than may be read"):
        decode("ListOffsetsRequest", 6, data, most_structs=15)
    frame = joined(encode_request(RequestHeader(2, 6, 1), body))[4:]
    with pytest.raises(SchemaError, match="too many elements: 2 more"):
        decode_request(frame, most_structs=2)
    many = (1 << 20).to_bytes(4) + bytes(2 << 20)
    with pytest.raises(SchemaError, match="too many elements: 48576 more"):
        decode("MetadataRequest", 0, many)


def test_the_header_of_a_version_that_is_not_known():
    for version, rest in ((5, b"\0"), (-1, b"")):
        frame = b"\0\x12" + version.to_bytes(2, signed=True) + b"\0\0\0\7\0\2me" + rest + b"body"
        assert decode_request_header(frame) == (RequestHeader(18, version, 7, "me"), len(frame) - 4)
        with pytest.raises(SchemaError, match="is not known"):
            decode_request(frame)
    with pytest.raises(SchemaError, match="the API key 999 is not known"):
        decode_request_header(b"\3\xe7\0\0\0\0\0\0\0\0")


def test_the_header_of_an_api_that_is_not_decoded():
    frame = b"\0\x24\0\2" + b"\0\0\0\7\0\2me\0" + b"body"  # SaslAuthenticate is flexible from version 2 on
    assert decode_request_header(frame) == (RequestHeader(36, 2, 7, "me"), len(frame) - 4)
    with pytest.raises(SchemaError, match=r"SaslAuthenticate \(API key 36\) is not decoded"):
        decode_request(frame)


def test_api_versions_in_an_unknown_version_is_answered_in_version_0():
    header = RequestHeader(18, 5, 7, "me")
    body = {"errorCode": 35, "apiKeys": [{"apiKey": 18, "minVersion": 0, "maxVersion": 4}]}
    frame = joined(encode_response(header, body))
    assert frame == b"\0\0\0\x10" + b"\0\0\0\7" + b"\0\x23" + b"\0\0\0\1" + b"\0\x12\0\0\0\4"
    for version in (5, 4, 3):  # a client of a broker that is older than version 3
        response = decode_response(header._replace(api_version=version), frame[4:])
        assert (response.version, response.body["apiKeys"]) == (0, [{"apiKey": 18, "minVersion": 0, "maxVersion": 4}])


def test_streams_with_bad_sizes():
    reader = FrameReader(largest=10)
    assert [bytes(frame.data) for frame in reader.feed(b"\0\0\0\2ab\0\0\0\0\0\0")] == [b"ab", b""]
    with pytest.raises(SchemaError, match="ends inside the size of a frame: 2 bytes from byte 10 on, 2 are missing"):
        reader.end()
    list(reader.feed(b"\0\4abc"))
    with pytest.raises(SchemaError, match="ends inside a frame: 7 bytes from byte 10 on, 1 are missing"):
        reader.end()
    assert [frame.position for frame in reader.feed(b"d")] == [10]
    reader.end()
    for size in (b"\0\0\0\x0b", b"\xff\xff\xff\xff", b"GET "):
        with pytest.raises(SchemaError, match=r"a frame of -?[0-9]+ bytes; 0 to 10 are allowed") as raised:
            list(reader.feed(size))
        assert raised.value.at == 18
        reader = FrameReader(largest=10)
        list(reader.feed(b"\0\0\0\2ab\0\0\0\0\0\0\0\4abcd"))
