"""What the words of `dump-log` ask for: how to dump, and what of the records."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from engine.dump.options import DumpOptions
from kafkalog_cli.decoders import payload_decoder
from kafkalog_cli.ranges import NO_END

if TYPE_CHECKING:
    from engine.dump.selection import Selection
    from engine.schema.decode import RecordDecoder

_DECODERS = {
    "offsets_decoder": "offsets",
    "transaction_log_decoder": "transaction-log",
    "cluster_metadata_decoder": "cluster-metadata",
    "remote_log_metadata_decoder": "remote-log-metadata",
    "share_group_state_decoder": "share-group-state",
}


def options_from(values: dict[str, Any]) -> DumpOptions:
    """DumpOptions from the command line."""
    chosen = next((name for flag, name in _DECODERS.items() if values[flag]), None)
    classes = values["key_decoder_class"], values["value_decoder_class"]
    names_class = classes != (None, None)
    return DumpOptions(
        print_data=values["print_data_log"] or chosen is not None or names_class or values["decode"] is not None,
        deep=values["deep_iteration"] or values["count"] or _looks_into_records(values),
        skip_metadata=values["skip_record_metadata"],
        verify_only=values["verify_index_only"],
        sanity_only=values["index_sanity_check"],
        max_message_size=values["max_message_size"],
        max_bytes=values["max_bytes"],
        decoder=_record_decoder(chosen),
        auto_decode=values["decode"] == "auto" and not names_class,
        key_decoder=None if chosen else payload_decoder(classes[0]),
        value_decoder=None if chosen else payload_decoder(classes[1]),
        continue_on_corruption=values["continue_on_corruption"],
        max_decompressed_bytes=values["max_decompressed_bytes"],
        max_batch_bytes=values["max_batch_bytes"],
        escape=sys.stdout.isatty(),
    )


def _record_decoder(name: str | None) -> RecordDecoder | None:
    if name is None:
        return None
    from engine.schema.decode import decoder

    return decoder(name)


def _looks_into_records(values: dict[str, Any]) -> bool:
    """Do headers of batches not tell which records are wanted? They say nothing of the smallest timestamp."""
    has_end = bool(values["times"]) and values["times"][1] != NO_END
    return bool(values["keys"] or values["key_regex"] or values["headers"]) or has_end


def selection_from(values: dict[str, Any]) -> Selection | None:
    """The Selection that the command line asks for; None: everything. Raises UsageError for what excludes each other."""
    given: dict[str, Any] = {
        "keys": tuple(key.encode("utf-8", "surrogateescape") for key in values["keys"]),
        "key_regex": values["key_regex"],
        "headers": values["headers"],
        "transactional": values["transactional_only"],
        "limit": values["limit"],
        "tail": values["tail"],
        "count": values["count"],
    }
    if values["offsets"]:
        given["first_offset"], given["end_offset"] = values["offsets"]
    if values["times"]:
        given["from_ms"], given["to_ms"] = values["times"]
    if values["producer_id"] is not None:
        given["producer_id"] = values["producer_id"]
    if values["partition_leader_epoch"] is not None:
        given["leader_epoch"] = values["partition_leader_epoch"]
    if given["limit"] is not None and given["tail"] is not None:
        raise click.UsageError("--limit and --tail exclude each other")
    if given["count"] and (given["limit"] is not None or given["tail"] is not None):
        raise click.UsageError("--count counts every match: leave out --limit and --tail")
    if all(value is None or value is False or value == () for value in given.values()):
        return None
    for option in ("verify_index_only", "index_sanity_check"):
        if values[option]:
            what = f"--{option.replace('_', '-')} checks indexes as a whole, a selection shows records of logs"
            raise click.UsageError(f"{what}: leave one of them out")
    from engine.dump.selection import Selection

    selection = Selection(**given)
    return None if selection == Selection() else selection
