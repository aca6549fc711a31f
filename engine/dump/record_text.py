"""Ends of record lines that kernels cannot write: control records and decoded keys and payloads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.errors import KafkalogError
from engine.formats import ControlType
from engine.java.strings import java_utf8
from engine.kernels.escapes import terminal_safe
from engine.record.control import control_type, end_txn_marker, known_control_type

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.discovery.names import PartitionDir
    from engine.dump.renderer import DumpOptions
    from engine.schema.decode import RecordDecoder

    Printer = Callable[[int, bytes | None, bytes | None], tuple[bytes, str | None]]
    PayloadDecoder = Callable[[bytes], bytes]


def control_record_text(key: bytes | None, value: bytes | None) -> str:
    """Return the text after the metadata of a control record, e.g. ` endTxnMarker: COMMIT coordinatorEpoch: 0`.

    Raises ControlRecordInvalid and SchemaError. Mirrors DumpLogSegments.printControlRecord.
    """
    kind = control_type(key)
    known = known_control_type(kind)
    if known is None:
        return f" controlType: UNKNOWN({kind})"
    if known in (ControlType.ABORT, ControlType.COMMIT):
        return f" endTxnMarker: {known.name} coordinatorEpoch: {end_txn_marker(value)}"
    from engine.schema.decode import control_text

    return control_text(kind, key or b"", value or b"")


def decoder_for(path: str, partition: PartitionDir | None, options: DumpOptions) -> RecordDecoder | None:
    """Return the decoder for the records of the log at `path`, by option or by its topic; None: no decoder.

    Raises UnreadableFile.
    """
    if options.decoder is not None or options.decoders is None:
        return options.decoder
    return options.decoders.of(path, partition)


def printer_for(path: str, partition: PartitionDir | None, options: DumpOptions) -> Printer | None:
    """Return the function that prints keys and payloads of the log at `path`; None: the kernel prints them as UTF-8."""
    prefix = "| " if options.skip_metadata else " "
    chosen = decoder_for(path, partition, options)
    if chosen is not None:
        return _schema_printer(chosen, prefix, escape=options.escape)
    if options.key_decoder is None and options.value_decoder is None:
        return None
    return _payload_printer(options.key_decoder or java_utf8, options.value_decoder or java_utf8, prefix, options.escape)


def _schema_printer(chosen: RecordDecoder, prefix: str, *, escape: bool) -> Printer:
    def print_record(offset: int, key: bytes | None, value: bytes | None) -> tuple[bytes, str | None]:
        key_text, value_text, problem = chosen.text(offset, key, value)
        text, start = b"", prefix.encode()
        if key_text is not None:
            text = start + b"key: " + _printed(key_text)
        if value_text is not None:
            text += (b" " if text else start) + b"payload: " + _printed(value_text)
        return (terminal_safe(text.decode("utf-8", "replace")).encode() if escape else text), problem

    return print_record


def _printed(text: str | bytes) -> bytes:
    """Return a text, or what is not decoded as it is printed without a decoder."""
    return java_utf8(text) if isinstance(text, bytes) else text.encode("utf-8", "replace")


class DecoderEnded(KafkalogError):
    """A user's decoder called exit."""

    code = "decoder-ended"


def decoder_failure(error: Exception | SystemExit) -> str:
    """Return the message for a decoder that raised `error`. Raises MemoryError, and DecoderEnded for SystemExit.

    The decoder is the user's code: it may raise anything, even an exception without a message.
    """
    if isinstance(error, MemoryError):
        raise error
    if isinstance(error, SystemExit):
        do = "make it raise an exception for data that it cannot decode"
        raise DecoderEnded(f"the decoder ended the program: SystemExit({error.code!r})", do) from error
    try:
        why = str(error)
    except Exception as second:  # noqa: BLE001  # irrelevant: there is no text
        why = f"its message is not available: {type(second).__name__}"
    return f"the decoder failed: {type(error).__name__}: {why}"


def _payload_printer(key_decoder: PayloadDecoder, value_decoder: PayloadDecoder, prefix: str, escape: bool) -> Printer:
    def print_record(_offset: int, key: bytes | None, value: bytes | None) -> tuple[bytes, str | None]:
        start, text, problem = prefix.encode(), b"", None
        try:
            if key is not None:
                text = start + b"key: " + key_decoder(key)
            if value is not None:
                text += (b" " if text else start) + b"payload: " + value_decoder(value)
        except (Exception, SystemExit) as error:  # noqa: BLE001  # becomes a finding
            problem = decoder_failure(error)
        return (terminal_safe(text.decode("utf-8", "replace")).encode() if escape else text), problem

    return print_record
