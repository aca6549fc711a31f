"""The options that select records: the same ones, with the same meaning, in every command that shows records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from engine.formats import INT_MAX, INT_MIN, LONG_MIN
from kafkalog_cli.options import Whole
from kafkalog_cli.ranges import Header, KeyRegex, TimeRange

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.record.selection import Selection

SELECTION = (
    "--offset", "--time", "--key", "--key-regex", "--header", "--producer-id", "--partition-leader-epoch",
    "--transactional-only", "--limit", "--tail",
)
_OPTIONS = (
    click.option("--time", "times", type=TimeRange(), metavar="FROM:TO",
                 help="Only timestamps from FROM up to, not including, TO: ISO-8601 (UTC unless it says), ms, or `2h ago`. "
                      "FROM alone has no end. With TO every batch is opened."),
    click.option("--key", "keys", multiple=True, help="Only records with this key; may be repeated."),
    click.option("--key-regex", type=KeyRegex(), help="Only records whose key holds a match."),
    click.option("--header", "headers", type=Header(), multiple=True, metavar="NAME[=VALUE]",
                 help="Only records with this header; may be repeated, then all must be there. "
                      "In NAME write \\= for an equals sign, \\\\ for a backslash."),
    click.option("--producer-id", type=Whole(LONG_MIN + 1), metavar="ID", help="Only batches of this producer."),
    click.option("--partition-leader-epoch", type=Whole(INT_MIN, INT_MAX), metavar="N", help="Only batches of this epoch."),
    click.option("--transactional-only", is_flag=True, help="Only transactional batches."),
    click.option("--limit", type=Whole(0), metavar="N", help="Show the first N matches only."),
    click.option("--tail", type=Whole(0), metavar="N", help="Show the last N matches only."),
)


def selection_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """All of them but --offset, whose form is the command's."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def selection_from(values: dict[str, Any], **more: Any) -> Selection:
    """The Selection that these options ask for. Raises click.UsageError for what excludes each other.

    more  fields of the Selection that the command knows itself; None: nothing is asked for
    """
    from engine.record.selection import Selection

    if values["limit"] is not None and values["tail"] is not None:
        raise click.UsageError("--limit and --tail exclude each other")
    given = {
        "keys": tuple(key.encode("utf-8", "surrogateescape") for key in values["keys"]),
        "key_regex": values["key_regex"],
        "headers": values["headers"],
        "producer_id": values["producer_id"],
        "leader_epoch": values["partition_leader_epoch"],
        "transactional": values["transactional_only"],
        "limit": values["limit"],
        "tail": values["tail"],
        **more,
    }
    if values["times"]:
        given["from_ms"], given["to_ms"] = values["times"]
    return Selection(**{name: value for name, value in given.items() if value is not None})
