"""What readers and writers of values share: the fields of a struct in one version, and default values.

A struct is a dict with Kafka's JSON names as keys. Scalars are bool, int and str; a uuid is Kafka's text of 22 characters;
`bytes` are bytes; an array is a list; a nullable value may be None. Tagged fields that the schema does not have are in the list
`UNKNOWN_TAGS` of (tag, bytes); the key is missing if there are none.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from engine.schema.notation import Field, Message, Struct

Value = dict[str, Any]
UNKNOWN_TAGS = "unknownTaggedFields"

# the fixed-size types: the codes of `struct`; a uuid is converted afterwards
FIXED = {"bool": "?", "int8": "b", "int16": "h", "uint16": "H", "int32": "i", "int64": "q", "float64": "d"}
_ZEROS = {
    "bool": False, "float64": 0.0, "string": "", "bytes": b"", "uuid": "AAAAAAAAAAAAAAAAAAAAAA", "records": None,
}


class Layout(NamedTuple):
    """A message in one of its versions."""

    message: Message
    version: int

    @property
    def flexible(self) -> bool:
        """Return whether lengths are compact and structs end with tagged fields."""
        return self.message.flexible is not None and self.version in self.message.flexible

    def stored(self, struct: Struct) -> list[Field]:
        """Return the untagged fields of this version, in order."""
        return [field for field in struct.fields if field.tag is None and self.version in field.versions]

    def tagged(self, struct: Struct) -> list[Field]:
        """Return the tagged fields of this version."""
        return [field for field in struct.fields if field.tag is not None and self.version in field.versions]

    def absent(self, struct: Struct) -> list[Field]:
        """Return the fields that this version does not have."""
        return [field for field in struct.fields if self.version not in field.versions]

    def nullable(self, field: Field) -> bool:
        """Return whether the field may be null in this version."""
        return field.nullable and self.version in field.null_versions

    def compact(self, field: Field) -> bool:
        """Return whether the field's length is compact."""
        return self.flexible and field.compact


def default_value(field: Field) -> Any:
    """Return the value of a field that is not stored; arrays and structs are new ones. Null only if declared as the default."""
    if field.default is not None:
        return json.loads(field.default)
    if field.is_array:
        return []
    if field.struct is not None:
        return {each.name: default_value(each) for each in field.struct.fields}
    return _ZEROS.get(field.type, 0)


def is_default(field: Field, value: Any) -> bool:
    """Return whether `value` is the field's default; fields that a struct does not have count as default."""
    if field.default == "null" or value is None:
        return value is None and default_value(field) is None
    if field.struct is not None and not field.is_array:
        members = all(is_default(each, value[each.name]) for each in field.struct.fields if each.name in value)
        return members and not value.get(UNKNOWN_TAGS)
    return bool(value == default_value(field))
