"""kafkalog remote cost."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import click

from engine.amounts import count_of, size_text
from kafkalog_cli.app import printable
from kafkalog_cli.help import Example, Section
from kafkalog_cli.options import files_for
from kafkalog_cli.remote_output import OUTPUT, WHICH, RemoteCommand, log_dirs_and_settings, reading_options
from kafkalog_cli.remote_store import STORE, required_store, store_options
from kafkalog_cli.show import show
from kafkalog_cli.table import columns_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.config.server import Settings
    from engine.remote.access import StoreOptions
    from engine.remote.cost import TopicCost
    from kafkalog_cli.show import Output

_EXAMPLES = (
    Example("Show how much each topic takes:", "kafkalog remote cost --store s3://kafka-tiered /var/lib/kafka/data"),
    Example("With your provider's price of a GiB per month:",
            "kafkalog remote cost --price-per-gib 0.023 --store s3://kafka-tiered /var/lib/kafka/data"),
)  # fmt: skip
_GIB = 1 << 30
_CENT = 0.01
_NO_TOPIC = "(no topic)"


class _Price(click.ParamType[float]):
    """An amount of money, in any currency."""

    name = "price"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Convert text to a number. Raises click.BadParameter."""
        try:
            price = float(value)
        except ValueError:
            price = math.nan
        if not 0 <= price < math.inf:
            self.fail(f"{value!r} is not a price: write a number such as 0.023", param, ctx)
        return price


@click.command("remote-cost", cls=RemoteCommand, examples=_EXAMPLES, main_options=("--store", "--price-per-gib", "--topic"),
               sections=(WHICH, STORE, Section("Price", ("--price-per-gib",)), OUTPUT))
@reading_options
@store_options
@click.option("--price-per-gib", "price", type=_Price(), metavar="PRICE",
              help="The price of 1 GiB per month, in any currency: show the price of each topic.")
def command(
    paths: tuple[str, ...], topics: tuple[str, ...], config_file: str | None, form: str, price: float | None, **values: Any
) -> int:
    """Show how much each topic takes in a store, and how much of that no broker reads.

    Every object below the layout's key prefix counts once: the total is that of a listing. Bytes that no broker reads are
    shown with the reason: the segment is not in the history of the leader (not-in-lineage), a later copy has its offsets
    (replaced), its records were deleted (before-start), its copy or its deletion is not finished (copying, deleting), or
    `kafkalog remote orphans` names the reason.

    PATHS are log dirs with the logs of all partitions of __remote_log_metadata, with the partitions, and with the cluster's
    metadata. If a partition is in none of them, its leader's history is not known. PATHS may be URLs (s3://BUCKET/KEY,
    gs://, az://).
    """
    options = required_store(values, config_file)
    named, settings = log_dirs_and_settings(paths, config_file)
    return show(form, lambda output: _cost(named, settings, topics, options, price, output))


def _cost(
    named: Sequence[str], settings: Settings, topics: Sequence[str], options: StoreOptions, price: float | None, output: Output
) -> None:
    from engine.discovery.choice import is_chosen_topic
    from engine.log.logdir.log_dirs import find_log_dirs
    from engine.log.logdir.startup import newest_metadata
    from engine.remote.cost import costs, sum_of
    from engine.remote.metadata import RemoteLogMetadata
    from engine.remote.metadata_log import MetadataLogs
    from engine.remote.orphans import find_orphans
    from engine.remote.partitions import TieredPartitions

    files, metadata, report = files_for(named), RemoteLogMetadata(), output.outcome.finding
    layout = options.open(files)
    cluster = newest_metadata(files, find_log_dirs(files, named))
    cluster = None if cluster is None or cluster.findings else cluster
    found = find_orphans(layout, MetadataLogs(files, named, report), metadata, cluster)
    partitions = TieredPartitions(files, named, settings, topics, report, metadata)
    shown = [one for one in costs(found, metadata, partitions) if is_chosen_topic(one.topic or "", topics)]
    if output.stream is None:
        _print(shown, sum_of(shown), price, output)
        return
    for one in shown:
        output.stream.put("remote-cost", _fields("no-topic" if one.topic is None else "topic", one, price))
    output.stream.put("remote-cost", _fields("total", sum_of(shown), price))


def _fields(scope: str, cost: TopicCost, price: float | None) -> dict[str, object]:
    total = cost.total
    return {
        "scope": scope, "topic": cost.topic, "topic_id": cost.topic_id, **total._asdict(),
        "unread": {why: amount._asdict() for why, amount in cost.unread()},
        "price_per_month": None if price is None else total.size / _GIB * price,
    }  # fmt: skip


def _print(topics: Sequence[TopicCost], total: TopicCost, price: float | None, output: Output) -> None:
    headings = ("topic", "segments", "objects", "size", "not read", *(("per month",) if price is not None else ()))
    ids, rows = [one.topic for one in topics], []
    for name, cost in [*((_name(one, ids), one) for one in topics), ("total", total)]:
        segments, objects, size = cost.total
        unread = sum(amount.size for _, amount in cost.unread())
        row = (name, str(segments), str(objects), size_text(size), size_text(unread))
        rows.append(row if price is None else (*row, _money(size / _GIB * price)))
    output.table(columns_of(headings, ("topic",)), rows)
    for one in topics:
        for why, (segments, objects, size) in one.unread():
            amounts = f"{count_of(segments, 'segment')}, {count_of(objects, 'object')}, {size_text(size)}"
            output.line(f"{printable(_name(one, ids))}: not read: {why}: {amounts}")


def _money(amount: float) -> str:
    return "less than 0.01" if 0 < amount < _CENT else f"{amount:.2f}"


def _name(one: TopicCost, ids: Sequence[str | None]) -> str:
    """Return the name, with the topic id if a topic of that name was created again."""
    if one.topic is None:
        return _NO_TOPIC
    return one.topic if ids.count(one.topic) == 1 else f"{one.topic} ({one.topic_id})"
