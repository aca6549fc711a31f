"""KRaft's control records: what follows ` headerKeys: []` in the dump. Mirrors ControlRecordUtils."""

from __future__ import annotations

import json
from struct import Struct

from engine.formats import ControlType
from engine.record.control import ControlRecordInvalid
from engine.record.control import control_type as check_key
from engine.schema import tables
from engine.schema.compiler import reader_for
from engine.schema.wire import SchemaError, underflow

_INT16 = Struct(">h")
# the dump puts a colon behind the first only
_LABELS: dict[int, str] = {
    ControlType.LEADER_CHANGE: "LeaderChange:", ControlType.SNAPSHOT_HEADER: "SnapshotHeader",
    ControlType.SNAPSHOT_FOOTER: "SnapshotFooter", ControlType.KRAFT_VERSION: "KRaftVersion",
    ControlType.KRAFT_VOTERS: "KRaftVoters",
}  # fmt: skip


def control_text(control_type: int, key: bytes, value: bytes | None) -> str:
    """` LeaderChange: {"version":0,…}` for types 2 to 6; SchemaError for bad bytes of key or value.

    The bytes are always read as version 0, but shown with the fields of the version that their first field names.
    Types that Kafka 4.3.1 does not know give ` controlType: UNKNOWN(…)`. Transaction markers are not for here.
    """
    try:
        check_key(key)
    except ControlRecordInvalid as error:
        raise SchemaError(str(error)) from None
    if control_type not in _LABELS:
        return f" controlType: UNKNOWN({control_type})"
    return f" {_LABELS[control_type]} {_control_json(control_type, value)}"


def control_data(control_type: int, value: bytes | None) -> dict[str, object]:
    """The fields of a control record of type 2 to 6; SchemaError for bad bytes and for any other type."""
    if control_type not in _LABELS:
        raise SchemaError(f"control type {control_type} has no schema")
    fields: dict[str, object] = json.loads(_control_json(control_type, value))
    return fields


def _control_json(control_type: int, value: bytes | None) -> str:
    if value is None:
        raise SchemaError("the control record has no value")
    if len(value) < 2:
        raise underflow(value, 0)
    message = tables.control().find("control", control_type)
    assert message is not None
    shown_version = _INT16.unpack_from(value)[0]
    out: list[str] = []
    reader_for(tables.control(), message.name, 0, shown_version, embedded=False)(value, 0, out)
    return "".join(out)
