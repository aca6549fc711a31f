"""Messages of Protobuf, by the files that define them. Needs protobuf (extra `decode`), and proto-schema-parser for text."""

from __future__ import annotations

from base64 import b64decode
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from google.protobuf import descriptor_pool, json_format, message_factory
from google.protobuf.descriptor_pb2 import DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pb2 import FileDescriptorSet as FileSet
from google.protobuf.message import DecodeError

from engine.schema.wire import SchemaError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from google.protobuf.descriptor import Descriptor
    from proto_schema_parser import ast

MAIN_FILE = "(schema)"  # the name of a schema among the files that it imports
MOST_TEXT = 256 << 10  # characters of a .proto: its parser needs a second for some ten thousand
_MOST_DEPTH = 64  # nested braces
_KNOWN = ("any", "api", "descriptor", "duration", "empty", "field_mask", "source_context", "struct", "timestamp", "type",
          "wrappers")  # fmt: skip
# Files that serializers do not register, as Confluent's registry has them, without options. Connect writes the first three.
_COMMON = {
    "confluent/type/decimal.proto": "message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }",
    "google/type/date.proto": "message Date { int32 year = 1; int32 month = 2; int32 day = 3; }",
    "google/type/timeofday.proto":
        "message TimeOfDay { int32 hours = 1; int32 minutes = 2; int32 seconds = 3; int32 nanos = 4; }",
    "google/type/calendar_period.proto":
        "enum CalendarPeriod { CALENDAR_PERIOD_UNSPECIFIED = 0; DAY = 1; WEEK = 2; FORTNIGHT = 3; MONTH = 4; "
        "QUARTER = 5; HALF = 6; YEAR = 7; }",
    "google/type/color.proto":
        'import "google/protobuf/wrappers.proto"; message Color { float red = 1; float green = 2; float blue = 3; '
        "google.protobuf.FloatValue alpha = 4; }",
    "google/type/datetime.proto":
        'import "google/protobuf/duration.proto"; message DateTime { int32 year = 1; int32 month = 2; '
        "int32 day = 3; int32 hours = 4; int32 minutes = 5; int32 seconds = 6; int32 nanos = 7; oneof time_offset { "
        "google.protobuf.Duration utc_offset = 8; TimeZone time_zone = 9; } } "
        "message TimeZone { string id = 1; string version = 2; }",
    "google/type/dayofweek.proto":
        "enum DayOfWeek { DAY_OF_WEEK_UNSPECIFIED = 0; MONDAY = 1; TUESDAY = 2; WEDNESDAY = 3; THURSDAY = 4; "
        "FRIDAY = 5; SATURDAY = 6; SUNDAY = 7; }",
    "google/type/expr.proto":
        "message Expr { string expression = 1; string title = 2; string description = 3; string location = 4; }",
    "google/type/fraction.proto": "message Fraction { int64 numerator = 1; int64 denominator = 2; }",
    "google/type/latlng.proto": "message LatLng { double latitude = 1; double longitude = 2; }",
    "google/type/money.proto": "message Money { string currency_code = 1; int64 units = 2; int32 nanos = 3; }",
    "google/type/month.proto":
        "enum Month { MONTH_UNSPECIFIED = 0; JANUARY = 1; FEBRUARY = 2; MARCH = 3; APRIL = 4; MAY = 5; JUNE = 6; "
        "JULY = 7; AUGUST = 8; SEPTEMBER = 9; OCTOBER = 10; NOVEMBER = 11; DECEMBER = 12; }",
    "google/type/postal_address.proto":
        "message PostalAddress { int32 revision = 1; string region_code = 2; string language_code = 3; "
        "string postal_code = 4; string sorting_code = 5; string administrative_area = 6; string locality = 7; "
        "string sublocality = 8; repeated string address_lines = 9; repeated string recipients = 10; "
        "string organization = 11; }",
    "google/type/quaternion.proto": "message Quaternion { double x = 1; double y = 2; double z = 3; double w = 4; }",
}
_SCALARS = {
    name: getattr(FieldDescriptorProto, f"TYPE_{name.upper()}") for name in (
        "double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string", "bytes", "uint32", "sfixed32",
        "sfixed64", "sint32", "sint64",
    )
}  # fmt: skip
_LABELS = {"REPEATED": FieldDescriptorProto.LABEL_REPEATED, "REQUIRED": FieldDescriptorProto.LABEL_REQUIRED}
_NEVER_VALID = (ValueError, TypeError, LookupError, AttributeError, RecursionError, DecodeError)


class ProtobufSchema:
    """The messages of one file. Raises SchemaError.

    file     defines them
    imports  files that it imports, by their names in it
    """

    def __init__(self, file: FileDescriptorProto, imports: Mapping[str, FileDescriptorProto]) -> None:
        if not file.message_type:
            raise SchemaError("defines no message")
        self._pool = descriptor_pool.DescriptorPool()
        self._file, self._imports = file, {**_known_files(), **imports}
        self._missing: set[str] = set()
        try:
            self._add(file, ())
            self._messages = self._pool.FindFileByName(file.name)
        except _NEVER_VALID as error:
            missing = f"imports {', '.join(sorted(self._missing))}, which was not found: " if self._missing else ""
            raise SchemaError(f"not a Protobuf schema: {missing}{error}"[:200]) from None

    def decode(self, data: bytes, indexes: Sequence[int] = (0,), name: str | None = None) -> Any:
        """Return a message as Protobuf's JSON, with the field names of the schema. Raises SchemaError.

        indexes  the number of the message in the file, then in the message around it, and so on
        name     of the message, instead
        """
        try:
            kind = self._pool.FindMessageTypeByName(name) if name is not None else self._by_index(indexes)
            message = message_factory.GetMessageClass(kind)()
            message.ParseFromString(data)
            return json_format.MessageToDict(message, preserving_proto_field_name=True, descriptor_pool=self._pool)
        except (json_format.Error, *_NEVER_VALID) as error:
            raise SchemaError(str(error) or type(error).__name__) from None

    @property
    def messages(self) -> list[str]:
        """The names of the messages of the file, without those within others."""
        return [one.full_name for one in self._messages.message_types_by_name.values()]

    def full_name(self, name: str) -> str | None:
        """Return the full name of a message, of which `name` may leave out the package; None: there is none."""
        for full in (name, f"{self._file.package}.{name}"):
            with suppress(*_NEVER_VALID):
                return str(self._pool.FindMessageTypeByName(full).full_name)
        return None

    def _by_index(self, indexes: Sequence[int]) -> Descriptor:
        names = list(self._file.message_type)
        path = [self._file.package] if self._file.package else []
        for index in indexes:
            if not 0 <= index < len(names):
                raise SchemaError(f"message {list(indexes)} is not in the schema")
            path.append(names[index].name)
            names = [one for one in names[index].nested_type if not one.options.map_entry]
        return self._pool.FindMessageTypeByName(".".join(path))

    def _add(self, file: FileDescriptorProto, around: tuple[str, ...]) -> None:
        if file.name in around or len(around) > _MOST_DEPTH:
            raise SchemaError(f"{file.name} imports itself")
        known = [name for name in file.dependency if name in self._imports or name in _COMMON]
        self._missing.update(name for name in file.dependency if name not in known)
        for name in known:
            try:
                self._pool.FindFileByName(name)
            except KeyError:
                self._add(self._imports[name] if name in self._imports else _common_file(name), (*around, file.name))
        kept = FileDescriptorProto()
        kept.CopyFrom(file)
        del kept.dependency[:], kept.public_dependency[:], kept.weak_dependency[:]
        kept.dependency.extend(known)  # of a file that is missing only options may be used, which do not matter here
        public = {file.dependency[number] for number in file.public_dependency}
        kept.public_dependency.extend(number for number, name in enumerate(known) if name in public)
        self._pool.AddSerializedFile(kept.SerializeToString())


def file_of(name: str, schema: str) -> FileDescriptorProto:
    """Return the file of a schema in a registry: text, or the base64 of a FileDescriptorProto. Raises SchemaError."""
    try:
        file = FileDescriptorProto.FromString(b64decode(schema, validate=True))
    except _NEVER_VALID:
        return _of_text(name, schema)
    file.name = name
    return file


def files_of_set(data: bytes) -> list[FileDescriptorProto]:
    """Return the files of a set that protoc --include_imports --descriptor_set_out wrote. Raises SchemaError."""
    try:
        found = list(FileSet.FromString(data).file)
    except _NEVER_VALID:
        found = []
    if not found:
        raise SchemaError("not a FileDescriptorSet")
    return found


def _known_files() -> dict[str, FileDescriptorProto]:
    from importlib import import_module

    found = {}
    for name in _KNOWN:
        module = import_module(f"google.protobuf.{name}_pb2")
        found[module.DESCRIPTOR.name] = file = FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(file)
    return found


def _common_file(name: str) -> FileDescriptorProto:
    """Return a file of _COMMON. Its package is its directory."""
    package = name.rpartition("/")[0].replace("/", ".")
    return _of_text(name, f'syntax = "proto3"; package {package}; {_COMMON[name]}')


# ---- text


def _of_text(name: str, text: str) -> FileDescriptorProto:
    """Return the file of a .proto. Options, services and extensions are left out: they do not change how values are read."""
    from proto_schema_parser import ast
    from proto_schema_parser.parser import Parser

    _check_size(text)
    try:
        parsed = Parser(setup_lexer=_fail_at_errors, setup_parser=_fail_at_errors).parse(text)
        file = FileDescriptorProto(name=name, syntax=(parsed.syntax or "proto2").strip("\"'"))
        for element in parsed.file_elements:
            if isinstance(element, ast.Package):
                file.package = element.name
            elif isinstance(element, ast.Import):
                if element.public:
                    file.public_dependency.append(len(file.dependency))
                file.dependency.append(element.name)
            elif isinstance(element, ast.Message):
                _fill_message(file.message_type.add(), element, is_proto3=file.syntax == "proto3")
            elif isinstance(element, ast.Enum):
                _fill_enum(file.enum_type.add(), element)
    except Exception as error:  # of a parser that raises anything
        if isinstance(error, MemoryError):
            raise
        raise SchemaError(f"not a Protobuf schema: {type(error).__name__}: {error}"[:200]) from None
    return file


def _fail_at_errors(recognizer: Any) -> None:
    """Let a lexer or parser of ANTLR raise at the first error, instead of printing it and guessing."""
    from antlr4.error.ErrorListener import ErrorListener

    class Failing(ErrorListener):  # type: ignore[misc]  # the package has no types
        def syntaxError(self, _recognizer: Any, _symbol: Any, line: int, column: int, msg: str, _error: Any) -> None:  # noqa: N802  # its name
            raise ValueError(f"line {line}, column {column}: {msg}")

    recognizer.removeErrorListeners()
    recognizer.addErrorListener(Failing())


def _check_size(text: str) -> None:
    depth = deepest = 0
    for character in text:
        depth += (character in "{[(") - (character in "}])")
        deepest = max(deepest, depth)
    if len(text) > MOST_TEXT or deepest > _MOST_DEPTH:
        raise SchemaError(f"more than {MOST_TEXT} characters, or nested too deeply")


def _fill_message(out: DescriptorProto, message: ast.Message | ast.Group, *, is_proto3: bool) -> None:
    """Add the fields and types of a message. Types of maps come last: indexes of messages do not count them."""
    from proto_schema_parser import ast

    out.name = message.name
    maps: list[DescriptorProto] = []
    for element in message.elements:
        if isinstance(element, ast.Field):
            _fill_field(out.field.add(), element)
        elif isinstance(element, ast.MapField):
            maps.append(_map_entry(out.field.add(), element))
        elif isinstance(element, ast.Message):
            _fill_message(out.nested_type.add(), element, is_proto3=is_proto3)
        elif isinstance(element, ast.Enum):
            _fill_enum(out.enum_type.add(), element)
        elif isinstance(element, ast.Group):
            _fill_group(out, element, is_proto3=is_proto3)
        elif isinstance(element, ast.OneOf):
            number = len(out.oneof_decl)
            out.oneof_decl.add(name=element.name)
            for field in _fields(element.elements):
                added = out.field.add(oneof_index=number)
                _fill_field(added, field)
    out.nested_type.extend(maps)
    for element in _fields(message.elements):
        if is_proto3 and element.cardinality is not None and element.cardinality.value == "OPTIONAL":
            field = next(one for one in out.field if one.name == element.name)
            field.proto3_optional, field.oneof_index = True, len(out.oneof_decl)
            out.oneof_decl.add(name=f"_{element.name}")


def _fields(elements: Iterable[Any]) -> list[ast.Field]:
    from proto_schema_parser import ast

    return [one for one in elements if isinstance(one, ast.Field)]


def _fill_field(out: FieldDescriptorProto, field: ast.Field) -> None:
    out.name, out.number = field.name, field.number
    out.label = _LABELS.get(field.cardinality.value if field.cardinality else "", FieldDescriptorProto.LABEL_OPTIONAL)
    _set_type(out, field.type)


def _set_type(out: FieldDescriptorProto, name: str) -> None:
    if name in _SCALARS:
        out.type = _SCALARS[name]
    else:
        out.type_name = name  # whether it is a message or an enum, the pool finds out


def _map_entry(out: FieldDescriptorProto, field: ast.MapField) -> DescriptorProto:
    entry = DescriptorProto(name=f"{''.join(part[:1].upper() + part[1:] for part in field.name.split('_'))}Entry")
    entry.options.map_entry = True
    for number, (name, kind) in enumerate((("key", field.key_type), ("value", field.value_type)), 1):
        _set_type(entry.field.add(name=name, number=number, label=FieldDescriptorProto.LABEL_OPTIONAL), kind)
    out.name, out.number, out.label = field.name, field.number, FieldDescriptorProto.LABEL_REPEATED
    out.type_name = entry.name
    return entry


def _fill_group(out: DescriptorProto, group: ast.Group, *, is_proto3: bool) -> None:
    field = out.field.add(name=group.name.lower(), number=group.number, type=FieldDescriptorProto.TYPE_GROUP,
                          type_name=group.name)  # fmt: skip
    field.label = _LABELS.get(group.cardinality.value if group.cardinality else "", FieldDescriptorProto.LABEL_OPTIONAL)
    _fill_message(out.nested_type.add(), group, is_proto3=is_proto3)


def _fill_enum(out: EnumDescriptorProto, enum: ast.Enum) -> None:
    from proto_schema_parser import ast

    out.name = enum.name
    for element in enum.elements:
        if isinstance(element, ast.EnumValue):
            out.value.add(name=element.name, number=element.number)
        elif isinstance(element, ast.Option) and element.name == "allow_alias":
            out.options.allow_alias = True
