import pytest

from engine.schema import tables
from engine.schema.metadata import type_name
from engine.schema.notation import Catalogue, Versions, parse_message

CATALOGUES = [
    tables.offsets, tables.transactions, tables.share_group_state, tables.cluster_metadata, tables.remote_log_metadata,
    tables.control,
]


@pytest.mark.parametrize(
    ("text", "versions"), [("2", (2, 2)), ("0-4", (0, 4)), ("3+", (3, 32767))],
)
def test_versions(text, versions):
    assert Versions.parse(text) == versions
    assert versions[0] in Versions.parse(text)
    assert versions[1] + 1 not in Versions.parse(text)


@pytest.mark.parametrize("text", ["", "+", "1-", "a", "1+2"])
def test_versions_that_are_none(text):
    with pytest.raises(ValueError, match="no range"):
        Versions.parse(text)


def test_nesting():
    message = parse_message(
        """message Outer value 7 versions 0-2 flexible 1+
  plain     int32
  inner     []Inner
    deep    Deep?   2+
      leaf  string
    after   bool
  owner     Owner   tag 3 = null ignorable
  last      bytes?  holds Other
  struct Owner
    name    []string?""",
    )
    assert (message.name, message.role, message.id, message.versions) == ("Outer", "value", 7, (0, 2))
    assert [field.name for field in message.body.fields] == ["plain", "inner", "owner", "last"]
    _, inner, owner, last = message.body.fields
    assert inner.is_array
    assert inner.struct.inline
    assert [field.name for field in inner.struct.fields] == ["deep", "after"]
    deep = inner.struct.fields[0]
    assert (deep.nullable, deep.versions) == (True, (2, 32767))
    assert deep.struct.fields[0].type == "string"
    assert (owner.tag, owner.default, owner.ignorable, owner.struct.inline) == (3, "null", True, False)
    assert owner.struct.fields[0].nullable
    assert owner.struct.fields[0].is_array
    assert (last.nullable, last.holds) == (True, "Other")


def test_requests():
    message = parse_message(
        """message FetchRequest request 1 versions 4-18 flexible 12+
  clientId  string?     flexible none
  topics    []string?7+ 5+
  records   records?""",
    )
    assert (message.role, message.id) == ("request", 1)
    client, topics, records = message.body.fields
    assert (client.nullable, client.null_versions, client.compact) == (True, (0, 32767), False)
    assert (topics.is_array, topics.nullable, topics.null_versions, topics.versions) == (True, True, (7, 32767), (5, 32767))
    assert (records.type, records.nullable, records.compact) == ("records", True, True)


@pytest.mark.parametrize(
    "text",
    [
        "message Outer versions 0\n  field string?x",
        "record Outer versions 0",
        "message Outer versions zero",
        "message Outer versions 0\n  alone",
        "message Outer versions 0\n  field int31",
        "message Outer versions 0\n  field int32 tagged 3",
        "message Outer versions 0\n  field int32 tag",
    ],
)
def test_what_does_not_follow_the_notation(text):
    with pytest.raises(ValueError):
        parse_message(text)


@pytest.mark.parametrize("catalogue", CATALOGUES)
def test_tables_are_sound(catalogue):
    catalogue = catalogue()
    for name in catalogue.names():
        message = catalogue.message(name)
        if message.role is not None:
            assert catalogue.find(message.role, message.id) is message
        tags = [field.tag for field in message.body.fields if field.tag is not None]
        assert len(tags) == len(set(tags))
        for field in message.body.fields:
            assert field.versions.lowest <= message.versions.highest
            assert field.holds is None or field.holds in catalogue.names()


def test_how_many_record_types_kafka_knows():
    def ids(catalogue, role):
        return sorted(m.id for m in map(catalogue.message, catalogue.names()) if m.role == role)

    assert ids(tables.offsets(), "key") == ids(tables.offsets(), "value")
    assert ids(tables.offsets(), "key") == [*range(9), *range(10, 18), *range(19, 24)]
    assert ids(tables.transactions(), "key") == ids(tables.transactions(), "value") == [0]
    assert ids(tables.share_group_state(), "key") == ids(tables.share_group_state(), "value") == [0, 1]
    metadata = [0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 12, 14, 15, *range(17, 29)]
    assert ids(tables.cluster_metadata(), "record") == metadata
    assert ids(tables.remote_log_metadata(), "record") == [0, 1, 2, 3]
    assert ids(tables.control(), "control") == [2, 3, 4, 5, 6]


def test_a_catalogue_parses_only_what_is_asked_for():
    catalogue = Catalogue("message Good versions 0\n  a int8\n\nmessage Bad value 3 versions 0\n  a int7")
    assert catalogue.message("Good").body.fields[0].name == "a"
    assert catalogue.find("value", 4) is None
    with pytest.raises(ValueError, match="int7"):
        catalogue.find("value", 3)
    with pytest.raises(KeyError):
        catalogue.message("None")


@pytest.mark.parametrize(
    ("name", "constant"),
    [
        ("TopicRecord", "TOPIC_RECORD"),
        ("NoOpRecord", "NO_OP_RECORD"),
        ("ZkMigrationStateRecord", "ZK_MIGRATION_STATE_RECORD"),
        ("ClearElrRecord", "CLEAR_ELR_RECORD"),
    ],
)
def test_type_names(name, constant):
    assert type_name(name) == constant
