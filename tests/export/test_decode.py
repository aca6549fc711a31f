"""Values with the schemas of a registry are decoded in dump-log, fetch, grep and export, by its topic on the disk or a file."""

from __future__ import annotations

import datetime as dt
import importlib
import io
import json
import sys
import uuid
from decimal import Decimal

import pytest

from engine.record.builder import NewRecord, build_batch
from engine.schema.registry import MOST_BYTES, RegistryDecoder, SchemaRegistry
from engine.schema.wire import SchemaError
from tests.support.json_output import all_objects
from tests.support.needs import lacking
from tests.support.run import kafkalog

try:
    import fastavro
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    from engine.schema import protobuf
except ImportError:
    lacking("decoding needs fastavro and protobuf", of_module=True)

MONEY = {"type": "record", "name": "Money", "namespace": "shop", "fields": [
    {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}}, {"name": "currency", "type": "string"}]}
ORDER = {"type": "record", "name": "Order", "namespace": "shop", "fields": [
    {"name": "id", "type": {"type": "string", "logicalType": "uuid"}}, {"name": "price", "type": "shop.Money"},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}}, {"name": "day", "type": {"type": "int", "logicalType": "date"}},
    {"name": "raw", "type": ["null", "bytes"]}, {"name": "tags", "type": {"type": "map", "values": {"type": "array", "items": "long"}}},
    {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}}, {"name": "mac", "type": {"type": "fixed", "name": "Mac", "size": 2}},
    {"name": "ratio", "type": "double"}, {"name": "next", "type": ["null", "Order"]}]}
PROTO = """syntax = "proto3"; // of a shop
package shop;
import "money.proto";
import "google/protobuf/timestamp.proto";
import "confluent/meta.proto";
message Customer {
  option (confluent.message_meta).doc = "a person";
  string name = 1 [deprecated = true];
  repeated sint32 codes = 2;
  map<string, Address> by_city = 3;
  optional int64 since = 4;
  oneof contact { string mail = 5; Level level = 6; }
  message Address { string street = 1; google.protobuf.Timestamp seen = 2; message Door { bytes key = 1; } }
  enum Level { LOW = 0; HIGH = 1; }
}
message Payment { money.Amount amount = 1; Customer.Address from = 2; }
"""
AMOUNT = 'syntax = "proto3"; package money; message Amount { int64 cents = 1; string currency = 2; }'
WANTED_ORDER = {
    "id": "0c0ad1ee-7a0f-4d1c-8a53-3b1b1ca7f1a1", "price": {"amount": "-12.34", "currency": "€"}, "at": "2023-11-14T22:13:20.123Z",
    "day": "2024-02-29", "raw": "AP8=", "tags": {"x": [1, -(2**63)], "y": []}, "kind": "B", "mac": "AAE=", "ratio": 0.5, "next": None,
}  # fmt: skip


def registered(*schemas):
    """Records of `_schemas` as a registry writes them: (subject, version, id, type, text, references)."""
    yield b'{"keytype":"NOOP","magic":0}', None
    yield (b'{"keytype":"CONFIG","subject":null,"magic":0}', b'{"compatibilityLevel":"BACKWARD"}')
    for subject, version, ident, kind, text, references in schemas:
        key = json.dumps({"keytype": "SCHEMA", "subject": subject, "version": version, "magic": 1}, separators=(",", ":"))
        value = {"subject": subject, "version": version, "id": ident, "schema": text, "deleted": False}
        if kind != "AVRO":
            value = {"schemaType": kind, **value}
        if references:
            value["references"] = [{"name": name, "subject": of, "version": number} for name, of, number in references]
        yield key.encode(), json.dumps(value, separators=(",", ":")).encode()
    yield b'{"keytype":"SCHEMA","subject":"gone-value","version":1,"magic":1}', None


SCHEMAS = list(registered(
    ("money-value", 1, 1, "AVRO", json.dumps(MONEY), ()), ("orders-value", 1, 2, "AVRO", json.dumps(ORDER), (("shop.Money", "money-value", 1),)),
    ("money.proto", 1, 3, "PROTOBUF", AMOUNT, ()), ("customers-value", 1, 4, "PROTOBUF", PROTO, (("money.proto", "money.proto", 1),)),
    ("events-value", 1, 5, "JSON", '{"type":"object"}', ()), ("orders-key", 1, 6, "AVRO", '"long"', ()),
))  # fmt: skip


def avro(schema, value):
    named = {}
    fastavro.parse_schema(MONEY, named_schemas=named)
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema, named_schemas=named), value)
    return out.getvalue()


def an_order(**other):
    return avro(ORDER, {
        "id": "0c0ad1ee-7a0f-4d1c-8a53-3b1b1ca7f1a1", "price": {"amount": Decimal("-12.34"), "currency": "€"},
        "at": dt.datetime(2023, 11, 14, 22, 13, 20, 123000, tzinfo=dt.UTC), "day": dt.date(2024, 2, 29), "raw": b"\x00\xff",
        "tags": {"x": [1, -(2**63)], "y": []}, "kind": "B", "mac": b"\x00\x01", "ratio": 0.5, "next": None, **other,
    })  # fmt: skip


@pytest.fixture(scope="module")
def messages():
    """Classes of the messages of PROTO, by descriptors that are written out here, as protoc makes them."""
    file = descriptor_pb2.FileDescriptorProto
    kinds = descriptor_pb2.FieldDescriptorProto
    from google.protobuf import timestamp_pb2

    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    amount = file(name="money.proto", package="money", syntax="proto3")
    message = amount.message_type.add(name="Amount")
    message.field.add(name="cents", number=1, type=kinds.TYPE_INT64, label=1)
    message.field.add(name="currency", number=2, type=kinds.TYPE_STRING, label=1)
    customer = file(name="c.proto", package="shop", syntax="proto3", dependency=["money.proto", "google/protobuf/timestamp.proto"])
    message = customer.message_type.add(name="Customer")
    message.oneof_decl.add(name="contact")
    message.oneof_decl.add(name="_since")
    message.field.add(name="name", number=1, type=kinds.TYPE_STRING, label=1)
    message.field.add(name="codes", number=2, type=kinds.TYPE_SINT32, label=3)
    message.field.add(name="by_city", number=3, type=kinds.TYPE_MESSAGE, type_name=".shop.Customer.ByCityEntry", label=3)
    message.field.add(name="since", number=4, type=kinds.TYPE_INT64, label=1, proto3_optional=True, oneof_index=1)
    message.field.add(name="mail", number=5, type=kinds.TYPE_STRING, label=1, oneof_index=0)
    message.field.add(name="level", number=6, type=kinds.TYPE_ENUM, type_name=".shop.Customer.Level", label=1, oneof_index=0)
    address = message.nested_type.add(name="Address")
    address.field.add(name="street", number=1, type=kinds.TYPE_STRING, label=1)
    address.field.add(name="seen", number=2, type=kinds.TYPE_MESSAGE, type_name=".google.protobuf.Timestamp", label=1)
    address.nested_type.add(name="Door").field.add(name="key", number=1, type=kinds.TYPE_BYTES, label=1)
    entry = message.nested_type.add(name="ByCityEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=kinds.TYPE_STRING, label=1)
    entry.field.add(name="value", number=2, type=kinds.TYPE_MESSAGE, type_name=".shop.Customer.Address", label=1)
    level = message.enum_type.add(name="Level")
    level.value.add(name="LOW", number=0)
    level.value.add(name="HIGH", number=1)
    payment = customer.message_type.add(name="Payment")
    payment.field.add(name="amount", number=1, type=kinds.TYPE_MESSAGE, type_name=".money.Amount", label=1)
    payment.field.add(name="from", number=2, type=kinds.TYPE_MESSAGE, type_name=".shop.Customer.Address", label=1)
    pool.AddSerializedFile(amount.SerializeToString())
    pool.AddSerializedFile(customer.SerializeToString())
    found = {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"shop.{name}"))
             for name in ("Customer", "Payment", "Customer.Address.Door")}  # fmt: skip
    known = file()
    timestamp_pb2.DESCRIPTOR.CopyToProto(known)
    found["set"] = descriptor_pb2.FileDescriptorSet(file=[known, amount, customer]).SerializeToString()
    return found


def zigzag(number):
    return bytes([number << 1])


def framed(ident, data, indexes=None):
    head = b"\0" + ident.to_bytes(4, "big")
    if indexes is not None:
        head += b"\0" if indexes == (0,) else zigzag(len(indexes)) + b"".join(map(zigzag, indexes))
    return head + data


def put_log(directory, records):
    directory.mkdir(parents=True)
    made = [NewRecord(offset, 1_700_000_000_000 + offset, key, value) for offset, (key, value) in enumerate(records)]
    (directory / "00000000000000000000.log").write_bytes(build_batch(made))
    return directory


@pytest.fixture(scope="module")
def values(messages):
    customer = messages["Customer"](name="Ada", codes=[1, -2], since=0, level=1)
    customer.by_city["Köln"].street = "Ring"
    customer.by_city["Köln"].seen.FromSeconds(1_700_000_000)
    payment = messages["Payment"](amount={"cents": 2**40, "currency": "EUR"})
    door = messages["Customer.Address.Door"](key=b"\xff\0")
    return {
        "orders": [
            (framed(6, avro("long", 77)), framed(2, an_order()), (77, WANTED_ORDER)), (b"plain", None, (None, None)),
            (None, framed(2, an_order(next=None, ratio=float("nan"))), (None, {**WANTED_ORDER, "ratio": "NaN"})),
        ],
        "customers": [
            (b"k", framed(4, customer.SerializeToString(), (0,)), (None, {
                "name": "Ada", "codes": [1, -2], "since": "0", "level": "HIGH",
                "by_city": {"Köln": {"street": "Ring", "seen": "2023-11-14T22:13:20Z"}},
            })),
            (b"k", framed(4, payment.SerializeToString(), (1,)), (None, {"amount": {"cents": "1099511627776", "currency": "EUR"}})),
            (b"k", framed(4, door.SerializeToString(), (0, 0, 0)), (None, {"key": "/wA="})),
        ],
        "events": [(None, framed(5, b'{"a": [1, 2.5, null], "x": "\xc3\xa4"}'), (None, {"a": [1, 2.5, None], "x": "ä"})), (None, b"text", (None, None))],
    }  # fmt: skip


@pytest.fixture(scope="module")
def log_dirs(tmp_path_factory, values):
    """Two log dirs of one broker: the registry's topic is in the second one only."""
    top = tmp_path_factory.mktemp("node")
    for topic, records in values.items():
        put_log(top / "d0" / f"{topic}-0", [record[:2] for record in records])
    put_log(top / "d1" / "_schemas-0", SCHEMAS)
    for number in (0, 1):
        (top / f"d{number}/meta.properties").write_text("version=1\ncluster.id=WhlMPuKvPrfddOCBOrsVHg\nnode.id=1\n")
    return top


@pytest.mark.parametrize("topic", ["orders", "customers", "events"])
def test_every_command_decodes(log_dirs, values, tmp_path, topic):
    wanted = [decoded for _, _, decoded in values[topic]]
    log, both = log_dirs / f"d0/{topic}-0", (str(log_dirs / "d0" / f"{topic}-0"), str(log_dirs / "d1"))
    dumped = kafkalog("dump-log", "--decode", "auto", "--format", "jsonl", *both)
    found = [one for one in all_objects(dumped.out) if one["type"] == "record"][: len(wanted)]
    assert [(one["decoded_key"], one["decoded_value"]) for one in found] == wanted
    assert dumped.status == 0
    fetched = kafkalog("fetch", "--decode", "auto", "--format", "jsonl", "--log-dir", str(log_dirs / "d1"), str(log))
    found = [one for one in all_objects(fetched.out) if one["type"] == "fetched-record"]
    assert [(one["decoded_key"], one["decoded_value"]) for one in found] == wanted
    assert fetched.status == 0
    lines = kafkalog("fetch", "--decode", "auto", "-f", r"%s\n", "--log-dir", str(log_dirs / "d1"), str(log)).out.decode().splitlines()
    assert [json.loads(line) for line, (_, value) in zip(lines, wanted, strict=True) if value is not None] == [value for _, value in wanted if value]
    for form in ("jsonl", "parquet"):
        words = ("export", "--as", form, "--decode", "auto", "-t", topic, "--to", str(tmp_path / form))
        assert kafkalog(*words, str(log_dirs)).status == 0
    rows = [json.loads(line) for line in (tmp_path / "jsonl").read_bytes().splitlines()]
    assert [(one["decodedKey"], one["decodedValue"]) for one in rows] == wanted
    import pyarrow.parquet as pq

    table = pq.read_table(tmp_path / "parquet").to_pylist()
    assert [tuple(one[name] and json.loads(one[name]) for name in ("decodedKey", "decodedValue")) for one in table] == wanted
    assert [one["value"] for one in table] == [record[1] for record in values[topic]]


def test_grep_searches_what_is_decoded(log_dirs):
    for pattern, number in (("-12.34", 2), ('"name":"Ada"', 1), ("EUR", 1), ("nothing", 0)):
        done = kafkalog("grep", "--decode", "auto", "-F", "-c", "--", pattern, str(log_dirs))
        assert done.out.decode().splitlines()[-1] == f"total:{number}", pattern


@pytest.mark.parametrize("kind", ["avsc", "proto", "set"])
def test_a_schema_file(values, messages, tmp_path, kind):
    """With the header of a registry that is not here, and without one."""
    if kind == "avsc":
        order = {**ORDER, "fields": [*ORDER["fields"][:1], {"name": "price", "type": MONEY}, *ORDER["fields"][2:]]}
        (tmp_path / "s.avsc").write_text(json.dumps(order))
        value, wanted = values["orders"][0][1], WANTED_ORDER
        bare = value[5:]
    else:
        (tmp_path / "s.proto").write_text(PROTO)
        (tmp_path / "money.proto").write_text(AMOUNT)
        (tmp_path / "s.set").write_bytes(messages["set"])
        value, wanted = values["customers"][0][1:]
        wanted, bare = wanted[1], value[6:]
    log = put_log(tmp_path / "t-0", [(None, value), (None, bare)])
    done = kafkalog("fetch", "--schema", str(tmp_path / f"s.{kind}"), str(log))
    assert [json.loads(line) for line in done.out.splitlines()] == [wanted, wanted], done.err
    if kind == "proto":
        pay = values["customers"][1]
        log = put_log(tmp_path / "u-0", [(None, pay[1][7 + 0:])])
        done = kafkalog("fetch", "--schema", f"{tmp_path}/s.proto#shop.Payment", str(log))
        assert json.loads(done.out) == pay[2][1], done.err


def test_what_cannot_be_decoded_is_shown_as_it_is_and_counted(tmp_path, values):
    order = values["orders"][0][1]
    odd = [order[:-3], order + b"x", framed(99, b"abc"), framed(4, b"\xff\xff", (7,)), framed(4, b"", (0,))[:5] + b"\xff" * 9, b"\0\0", b""]
    put_log(tmp_path / "d/_schemas-0", [*SCHEMAS, (b"{", b"garbage"), (b'{"keytype":"SCHEMA"}', b"[1]")])
    log = put_log(tmp_path / "d/orders-0", [(None, value) for value in odd])
    done = kafkalog("fetch", "--decode", "auto", "-f", "%s%R", str(log))
    assert done.out == b"".join(value + len(value).to_bytes(4, "big") for value in odd)
    assert (done.status, done.err.count("warning[record-undecodable]")) == (4, 7)
    dumped = kafkalog("dump-log", "--decode", "auto", str(log)), kafkalog("dump-log", "--print-data-log", str(log))
    assert dumped[0].out == dumped[1].out
    assert (dumped[0].status, dumped[1].status) == (4, 0)
    found = kafkalog("grep", "--decode", "auto", "-F", "-c", "abc", str(log))
    assert (found.out, found.status) == (f"{log}/00000000000000000000.log:1\n".encode(), 4)
    exported = kafkalog("export", "--as", "jsonl", "--decode", "auto", "--to", "-", str(log))
    assert [json.loads(line)["decodedValue"] for line in exported.out.splitlines()] == [None] * len(odd)
    assert exported.err.count("warning[record-undecodable]") == 7


def test_bytes_that_only_look_like_a_header_are_left_alone(tmp_path):
    """Numbers of eight bytes begin with zeros, too."""
    put_log(tmp_path / "d/_schemas-0", SCHEMAS)
    log = put_log(tmp_path / "d/numbers-0", [(None, number.to_bytes(8, "big")) for number in (0, 1, 2**31, 99 << 24)])
    assert kafkalog("fetch", "--decode", "auto", str(log)).status == 0


HOSTILE = [
    ({"type": "record", "name": "L", "fields": [{"name": "n", "type": ["null", "L"]}]}, b"\x02" * 100_000 + b"\0"),
    ({"type": "array", "items": "null"}, b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f\0"),
    ({"type": "array", "items": "null"}, b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
    (["bytes"], b"\0\xfe\xff\xff\xff\xff\xff\xff\xff\x7f"), ("string", b"\x01"), ("string", b"\x04\xff\xff"),
    ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x01"), (["null"], b"\x01"), ("long", b"\xff" * 20),
    ([{"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}], b"\0\xd0\x0f" + b"\x7f" * 1000 + b"x"),
]  # fmt: skip


def billion_laughs():
    schema = {"type": "record", "name": "R0", "fields": []}
    for number in range(1, 40):
        schema = {"type": "record", "name": f"R{number}", "fields": [{"name": "a", "type": schema}, {"name": "b", "type": f"R{number - 1}"}]}
    return schema, b""


@pytest.mark.parametrize(("schema", "data"), [*HOSTILE, billion_laughs()])
def test_hostile_values_end_in_a_problem(schema, data):
    registry = SchemaRegistry()
    for key, value in registered(("t-value", 1, 1, "AVRO", json.dumps(schema), ())):
        registry.add(key, value)
    found = RegistryDecoder(registry, "t", None).data(0, None, framed(1, data))
    assert found["value"] is None
    assert "the value cannot be decoded" in found["problem"]


@pytest.mark.parametrize(("kind", "text", "references"), [
    ("AVRO", "{", ()), ("AVRO", '"no.such.Name"', ()), ("AVRO", "[" * 5000 + "]" * 5000, ()), ("AVRO", '"' + "x" * 2_000_000 + '"', ()),
    ("AVRO", '{"type":"record","name":"A"}', ()), ("AVRO", '{"type":"fixed","name":"F","size":"x"}', ()), ("AVRO", "null", ()), ("AVRO", "7", ()),
    ("AVRO", '"long"', (("x", "missing", 1),)), ("AVRO", '"long"', (("x", "t-value", 1),)),
    ("PROTOBUF", "message", ()), ("PROTOBUF", "message A {" * 3000, ()), ("PROTOBUF", 'syntax = "proto3"; message A { B b = 1; }', ()),
    ("PROTOBUF", 'syntax = "proto3"; message A { int32 a = 1; int32 b = 1; }', ()), ("PROTOBUF", "x" * 300_000, ()), ("PROTOBUF", "", ()),
    ("THRIFT", "x", ()),
])  # fmt: skip
def test_hostile_schemas_end_in_a_problem(kind, text, references, capfd):
    registry = SchemaRegistry()
    for key, value in registered(("t-value", 1, 1, kind, text, references)):
        registry.add(key, value)
    found = RegistryDecoder(registry, "t", None).data(0, None, framed(1, b"\0\0"))
    if references != (("x", "t-value", 1),):
        assert found["value"] is None
        assert "the value cannot be decoded" in found["problem"]
    assert capfd.readouterr() == ("", "")


def test_a_large_value_is_not_decoded():
    registry = SchemaRegistry()
    for key, value in SCHEMAS:
        registry.add(key, value)
    assert "bytes, more than" in RegistryDecoder(registry, "events", None).data(0, None, framed(5, b" " * MOST_BYTES + b"1"))["problem"]


def test_records_that_no_registry_writes():
    for key, value in ((b"[]", b"{}"), (b"x", b"x"), (b'{"keytype":"SCHEMA"}', b"{}"), (b'{"keytype":"SCHEMA"}', b"[" * 100_000)):
        with pytest.raises(SchemaError):
            SchemaRegistry().add(key, value)


def test_contexts_have_ids_of_their_own():
    registry = SchemaRegistry()
    for key, value in registered((":.west:t-value", 1, 1, "AVRO", '"string"', ()), ("u-value", 1, 1, "AVRO", '"long"', ())):
        registry.add(key, value)
    assert RegistryDecoder(registry, "t", None).data(0, None, framed(1, b"\x02a"))["value"] == "a"
    assert RegistryDecoder(registry, "u", None).data(0, None, framed(1, b"\x04"))["value"] == 2


@pytest.mark.parametrize(("package", "topic"), [("fastavro", "orders"), ("google.protobuf", "customers"), ("proto_schema_parser", "customers")])
def test_without_a_package_there_is_one_sentence(log_dirs, monkeypatch, package, topic):
    for name in [name for name in sys.modules if name.partition(".")[0] == package.partition(".")[0] or name.startswith("engine.schema.")]:
        if name in ("engine.schema.avro", "engine.schema.protobuf") or name.startswith(package):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    words = ("fetch", "--decode", "auto", "--log-dir", str(log_dirs / "d1"))
    done = kafkalog(*words, str(log_dirs / f"d0/{topic}-0"))
    assert (done.status, done.err.count("error["), "pip install 'kafkalog[decode]'" in done.err) == (2, 1, True), done.err
    assert kafkalog(*words, str(log_dirs / "d0/events-0")).status == 0


@pytest.mark.parametrize("text", ["", "garbage", '{"type": "no"}', 'syntax = "proto3"; message'])
def test_a_bad_schema_file_is_a_usage_error(log_dirs, tmp_path, text):
    for name in ("s.avsc", "s.proto", "s.set"):
        (tmp_path / name).write_text(text)
        done = kafkalog("fetch", "--schema", str(tmp_path / name), str(log_dirs / "d0/events-0"))
        assert done.status == 2, (name, done.err)
    assert kafkalog("fetch", "--schema", str(tmp_path / "missing"), str(log_dirs / "d0/events-0")).status == 2


def test_uuid_and_times_read_as_text():
    schema = {"type": "record", "name": "R", "fields": [
        {"name": "u", "type": {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}},
        {"name": "t", "type": {"type": "long", "logicalType": "time-micros"}}, {"name": "n", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
        {"name": "far", "type": {"type": "long", "logicalType": "timestamp-millis"}}]}
    number = uuid.UUID("0c0ad1ee-7a0f-4d1c-8a53-3b1b1ca7f1a1")
    plain = json.loads(json.dumps(schema).replace("logicalType", "doc"))
    data = avro(plain, {"u": number.bytes, "t": 1, "n": -1, "far": 2**62})
    registry = SchemaRegistry()
    for key, value in registered(("t-value", 1, 1, "AVRO", json.dumps(schema), ())):
        registry.add(key, value)
    found = RegistryDecoder(registry, "t", None).data(0, None, framed(1, data))["value"]
    assert found == {"u": str(number), "t": "00:00:00.000001", "n": "1969-12-31T23:59:59.999999", "far": 2**62}


def decoded(value, *schemas, topic="t"):
    """What a registry with these schemas makes of a value: (value, problem)."""
    registry = SchemaRegistry()
    for each in registered(*schemas):
        registry.add(*each)
    found = RegistryDecoder(registry, topic, None).data(0, None, value)
    return found["value"], found["problem"]


@pytest.mark.parametrize(("schema", "raw", "wanted"), [
    ("bytes", b"\x04ab", "BGFi"), ({"type": "bytes"}, b"", ""),
    ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, b"\x04\xd2", "12.34"),
])  # fmt: skip
def test_a_schema_that_is_only_bytes_has_no_length_before_the_value(schema, raw, wanted):
    """Confluent's serializer writes, and its deserializer reads, such a value without Avro's length."""
    assert decoded(framed(1, raw), ("t-value", 1, 1, "AVRO", json.dumps(schema), ())) == (wanted, None)


def test_a_reference_to_the_latest_version():
    """Version −1, as the registry stores it unless it normalizes schemas."""
    older = {**MONEY, "fields": MONEY["fields"][1:]}
    outer = {"type": "record", "name": "O", "fields": [{"name": "m", "type": "shop.Money"}]}
    schemas = (("m", 2, 1, "AVRO", json.dumps(MONEY), ()), ("m", 1, 3, "AVRO", json.dumps(older), ()),
               ("t-value", 1, 2, "AVRO", json.dumps(outer), (("shop.Money", "m", -1),)))  # fmt: skip
    assert decoded(framed(2, b"\x02\x64\x02x"), *schemas) == ({"m": {"amount": "1.00", "currency": "x"}}, None)


def test_a_reference_within_a_context():
    """A subject without a context is looked up in that of the schema that refers to it."""
    outer = {"type": "record", "name": "O", "fields": [{"name": "m", "type": "shop.Money"}]}
    other = {**MONEY, "fields": MONEY["fields"][1:]}
    for money, inner in ((":.west:m", MONEY), ("m", MONEY)):
        schemas = ((money, 1, 1, "AVRO", json.dumps(inner), ()),
                   (":.west:t-value", 1, 2, "AVRO", json.dumps(outer), (("shop.Money", "m", 1),)))  # fmt: skip
        more = (("m", 1, 3, "AVRO", json.dumps(other), ()),) if money != "m" else ()
        assert decoded(framed(2, b"\x02\x64\x02x"), *more, *schemas)[0] == {"m": {"amount": "1.00", "currency": "x"}}, money


def test_a_file_that_a_schema_imports_may_have_any_name(messages):
    """Also the name under which the schema itself is compiled."""
    for name in ("value.proto", "money.proto", "x/y.proto"):
        text = PROTO.replace("money.proto", name)
        data = messages["Payment"](amount={"cents": 7}).SerializeToString()
        schemas = ("m", 1, 3, "PROTOBUF", AMOUNT, ()), ("t-value", 1, 4, "PROTOBUF", text, ((name, "m", 1),))
        assert decoded(framed(4, data, (1,)), *schemas) == ({"amount": {"cents": "7"}}, None), name


def test_types_that_serializers_do_not_register():
    """Confluent's and Google's common types, which Connect writes for decimals, dates and times."""
    text = """syntax = "proto3"; import "confluent/type/decimal.proto"; import "google/type/date.proto"; import "google/type/timeofday.proto";
    message Row { confluent.type.Decimal price = 1; google.type.Date day = 2; google.type.TimeOfDay at = 3; }"""
    data = b"\x0a\x08\x0a\x02\x04\xd2\x10\x09\x18\x02" + b"\x12\x07\x08\xe8\x0f\x10\x02\x18\x1d" + b"\x1a\x04\x08\x17\x10\x3b"
    assert decoded(framed(1, data, (0,)), ("t-value", 1, 1, "PROTOBUF", text, ())) == ({
        "price": {"value": "BNI=", "precision": 9, "scale": 2}, "day": {"year": 2024, "month": 2, "day": 29}, "at": {"hours": 23, "minutes": 59},
    }, None)  # fmt: skip


ODD_JSON = [b'"\\ud800"', b'{"\\udc00": 1}', b"1e400", b"[-1e999]", b"[NaN]", b"[" * 500 + b"]" * 500, b'{"a":' * 65 + b"1" + b"}" * 65, b"9" * 5000, b'"\xff"']


def test_json_that_no_reader_takes_is_shown_as_it_is(tmp_path):
    """Half of a surrogate pair, numbers beyond a double, values that are nested too deeply."""
    sound = [b'"\\ud83d\\ude00"', b"[" * 64 + b"]" * 64, b'"\\\\ud800"', b"1e308"]
    put_log(tmp_path / "d/_schemas-0", SCHEMAS)
    log = put_log(tmp_path / "d/events-0", [(None, framed(5, value)) for value in (*ODD_JSON, *sound)])
    wanted = [None] * len(ODD_JSON) + [json.loads(value) for value in sound]
    for words, kind in ((("fetch",), "fetched-record"), (("dump-log", "--deep-iteration"), "record"), (("grep", ".*"), "match")):
        done = kafkalog(*words, "--decode", "auto", "--format", "jsonl", str(log))
        found = [one for one in all_objects(done.out) if one["type"] == kind]
        problems = [one for one in all_objects(done.out) if one["type"] == "finding"]
        assert {one["code"] for one in problems} == {"record-undecodable"}, words
        assert (done.status, len(problems)) == (4, len(ODD_JSON)), words
        if kind != "match":
            assert [one["decoded_value"] for one in found] == wanted, words
    for form in ("jsonl", "csv", "parquet"):
        done = kafkalog("export", "--as", form, "--decode", "auto", "--to", str(tmp_path / f"out.{form}"), str(log))
        assert (done.status, done.err.count("warning[record-undecodable]")) == (4, len(ODD_JSON)), (form, done.err)
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_bytes().splitlines()]
    assert [one["decodedValue"] for one in rows] == wanted


def test_the_message_of_a_schema_file_is_checked_first(tmp_path, values):
    (tmp_path / "s.proto").write_text(PROTO)
    (tmp_path / "money.proto").write_text(AMOUNT)
    (tmp_path / "s.avsc").write_text('"long"')
    log = put_log(tmp_path / "t-0", [(None, values["customers"][1][1][7:])])
    done = kafkalog("fetch", "--schema", f"{tmp_path}/s.proto#Payment", str(log))  # without its package
    assert json.loads(done.out) == values["customers"][1][2][1], done.err
    for name, reason in (("s.proto#Order", "shop.Customer"), ("s.proto#", "has no message"), ("s.avsc#Order", "remove #Order")):
        done = kafkalog("fetch", "--schema", f"{tmp_path}/{name}", str(log))
        assert (done.status, done.out) == (2, b""), name
        assert reason in done.err, done.err
    (tmp_path / "money.proto").unlink()
    done = kafkalog("fetch", "--schema", f"{tmp_path}/s.proto", str(log))
    assert (done.status, "money.proto" in done.err) == (2, True), done.err


@pytest.mark.parametrize("name", [name for name in protobuf._COMMON if name.startswith("google/")])
def test_common_types_are_those_of_google(name):
    try:
        module = importlib.import_module(f"{name.removesuffix('.proto').replace('/', '.')}_pb2")
    except ImportError:
        lacking("googleapis-common-protos is not installed")
    pool, ours, theirs = descriptor_pool.DescriptorPool(), descriptor_pb2.FileDescriptorProto(), descriptor_pb2.FileDescriptorProto()
    file = protobuf._common_file(name)
    for other in file.dependency:
        pool.AddSerializedFile(protobuf._known_files()[other].SerializeToString())
    pool.AddSerializedFile(file.SerializeToString())
    pool.FindFileByName(name).CopyToProto(ours)
    module.DESCRIPTOR.CopyToProto(theirs)
    theirs.ClearField("options")
    for field in (field for found in (ours, theirs) for message in found.message_type for field in message.field):
        field.ClearField("json_name")
    assert ours == theirs
