"""kafkalog explain."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from engine.discovery.names import file_name, parse_file_name
from engine.dump.json_stream import bytes_field, text_field
from engine.dump.text_buffer import TextBuffer
from engine.errors import KafkalogError, UsageError, argument
from engine.kernels.escapes import terminal_safe
from kafkalog_cli.app import Outcome, printable
from kafkalog_cli.help import DocumentedCommand, Example, Section
from kafkalog_cli.options import PATH_OR_URL, Whole, files_for, format_option, size_option, version_option
from kafkalog_cli.output import BackgroundWriter, json_stream, raw_stdout

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.dump.explained import Field
    from engine.dump.json_stream import JsonStream

_SECTIONS = (
    Section("What to explain", ("--at", "--offset", "--entry", "--records", "--max-decompressed-bytes")),
    Section("Output", ("--format", "--width")),
)
_EXAMPLES = (
    Example("What is this byte?", "kafkalog explain orders-7/00000000000000000173.log --at 4000"),
    Example("The batch and the record of an offset:", "kafkalog explain orders-7/00000000000000000173.log --offset 214"),
    Example("Every field of the first batch, and of its records:",
            "kafkalog explain --records --entry 0 orders-7/00000000000000000173.log"),
    Example("An index, entry by entry:", "kafkalog explain orders-7/00000000000000000173.index"),
)
_SHOWN = 60  # characters of a value in text


@click.command("explain", cls=DocumentedCommand, examples=_EXAMPLES, sections=_SECTIONS,
               main_options=("--at", "--offset", "--entry", "--records"))  # fmt: skip
@click.argument("path", metavar="FILE", type=PATH_OR_URL)
@click.option("--at", type=Whole(0), metavar="BYTE", help="Only the batch and record, the entry or the line with this byte.")
@click.option("--offset", type=Whole(0), metavar="N",
              help="Only the batch and record, or the index entry, for this offset of the log.")
@click.option("--entry", type=Whole(0), metavar="N", help="Only this batch, entry or line, counted from 0.")
@click.option("--records", is_flag=True, help="Explain the fields of each record too, decompressed if need be.")
@size_option("--max-decompressed-bytes", default=256 << 20, help="Do not decompress batches to more than this.")
@format_option
@click.option("--width", type=Whole(1), default=8, show_default=True, metavar="N", help="Bytes of a field to print in text.")
@version_option
def command(path: str, **values: Any) -> int:
    """Explain the bytes of a file: each field with its position, type, value and meaning.

    FILE is a log, an index, a producer snapshot, a checkpoint, a KRaft snapshot, partition.metadata, meta.properties or
    quorum-state. With --at and --offset the offset index finds the batch in a log. Damage is explained up to where the bytes
    stop making sense. In decompressed bytes, positions begin with +. explain changes nothing.
    """
    if sum(values[name] is not None for name in ("at", "offset", "entry")) > 1:
        raise click.UsageError("use one of --at, --offset and --entry")
    with BackgroundWriter(raw_stdout()) as writer, TextBuffer(writer.write) as out:
        stream = json_stream(values["form"], out, "explain")
        outcome = Outcome(stream=stream)
        text = _Text(out, values["width"], values["at"])
        try:
            for field in _fields(path, values, outcome):
                if field.is_damaged:
                    outcome.at_least(4)
                if stream is None:
                    text.put(field)
                else:
                    _put(stream, field)
        except KafkalogError as error:
            out.flush()
            outcome.error(error)
        out.flush()
        writer.drain()
        status = outcome.finish()
        out.flush()
        writer.drain()
    return status


def _fields(path: str, values: dict[str, Any], outcome: Outcome) -> Iterator[Field]:
    """Return the chosen fields. Raises KafkalogError."""
    from engine.dump.explain import Choice, explain

    files, name = files_for([path]), parse_file_name(file_name(path))
    if files.info(path).is_directory:
        raise UsageError(f"{path}: a directory; explain takes one file", f"ls {argument(path)}", path=path)
    if name is None:
        raise UsageError(f"{path}: its name is not that of a file of Kafka", path=path)
    same = ("at", "offset", "entry", "records", "max_decompressed_bytes")
    return explain(files, path, name, Choice(*(values[one] for one in same)), outcome.finding)


class _Text:
    """Prints a line for each field, and before the first one of a batch, entry or line where that begins.

    width  bytes to print of each field      at  the byte that the user asked for: its field is marked
    """

    def __init__(self, out: TextBuffer, width: int, at: int | None) -> None:
        self._out, self._width, self._at = out, width, at
        self._unit: tuple[str, int] | None = None

    def put(self, field: Field) -> None:
        """Print one field."""
        if field.unit != self._unit:
            self._unit = field.unit
            self._out.put(f"{field.unit[0]} at byte {field.unit[1]}\n")
        shown = field.raw[: self._width].hex(" ") + (" …" if field.size > self._width else "")
        position, kind = f"{'+' if field.inflated else ''}{field.at}", field.kind
        if field.bits:
            shown, position, kind = "", "", f"bit {field.bits}"
        is_asked = self._at is not None and not field.inflated and field.at <= self._at < field.at + field.size
        note = f"DAMAGED: {field.note}" if field.is_damaged else field.note
        notes = "; ".join(filter(None, (note, field.meaning)))
        mark = ">" if is_asked and not field.bits else " "
        line = f"{mark}{position:>9} {shown:{3 * self._width + 2}} {kind:8} {field.name}"
        self._out.put(f"{line} = {_value(field)}".rstrip() + (f"  ({notes})" if notes else "") + "\n")


def _value(field: Field) -> str:
    """Return a value for a line of text."""
    value = field.value
    if value is None:
        return f"({field.size} bytes)"
    if isinstance(value, int):
        return str(value)
    text = value if isinstance(value, str) else value.decode("utf-8", "replace")
    text = terminal_safe(text) if sys.stdout.isatty() else printable(text)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def _put(stream: JsonStream, field: Field) -> None:
    """Print a field as a JSON object."""
    value = bytes_field("value", field.value) if isinstance(field.value, bytes) else (
        text_field("value", field.value) if isinstance(field.value, str) else {"value": field.value}
    )
    stream.put("field", {
        "unit": field.unit[0], "unit_at": field.unit[1], "at": field.at, "size": field.size, "inflated": field.inflated,
        "path": f"{field.unit[0]}.{field.name}", "kind": field.kind, "bits": field.bits or None, "raw": field.raw.hex(),
        **value, "note": field.note or None, "meaning": field.meaning or None, "damaged": field.is_damaged,
    })  # fmt: skip
