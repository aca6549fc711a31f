"""kafkalog ls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import click

from engine.amounts import count_of
from engine.checkpoint.identity import broker_text
from engine.discovery.names import directory_order, file_name
from engine.dump.json_stream import text_field
from kafkalog_cli.engine_options import (
    WHICH,
    choice_from,
    choice_options,
    config_file_option,
    config_option,
    paths_from,
    settings_from,
)
from kafkalog_cli.help import DocumentedCommand, Example, Section
from kafkalog_cli.options import PATH_OR_URL, bytes_option, files_for, format_option, shown_size, version_option
from kafkalog_cli.show import number_cell, show, time_cell, time_fields
from kafkalog_cli.table import Column, bar, terminal_width

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from engine.overview.brokers import Broker, LogDirState
    from engine.overview.partition_state import PartitionState, Totals
    from kafkalog_cli.show import Output

_SECTIONS = (
    WHICH,
    Section("What is shown", ("--topics", "--long", "--sort")),
    Section("Settings", ("--config", "--config-file")),
    Section("Output", ("--bytes", "--format")),
)
_MAIN = ("--topic", "--topics", "--long", "--format")
_EXAMPLES = (
    Example("What is in the log dirs of a broker?", "kafkalog ls --config-file server.properties"),
    Example("The largest topics first:", "kafkalog ls --topics --sort size /var/lib/kafka/data"),
    Example("Everything that is known of the partitions of a topic:", "kafkalog ls --long --topic orders data-1 data-2"),
)
_PARTITION_COLUMNS = (
    Column("partition", is_text=True, shrinks="-"), Column("start", 6), Column("end", 5), Column("records≤", 3),
    Column("segments", 12), Column("log", 2), Column("all files"), Column("", 1, is_text=True, colour="cyan"),
    Column("first record", 11, is_text=True), Column("last record", 4, is_text=True), Column("epoch", 9),
    Column("policy", 7, is_text=True), Column("topic id", 13, is_text=True),
    Column("flags", is_text=True, shrinks="+", colour="yellow"),
)  # fmt: skip
_LONG = frozenset(("segments", "first record", "topic id"))  # headings of columns that only --long shows
_TOPIC_COLUMNS = (
    Column("topic", is_text=True, shrinks="-"), Column("partitions", 3), Column("records≤", 4), Column("log", 2),
    Column("all files"), Column("", 1, is_text=True, colour="cyan"), Column("last record", 6, is_text=True),
    Column("policy", 5, is_text=True), Column("flags", is_text=True, shrinks="+", colour="yellow"),
)  # fmt: skip
_SHUTDOWNS = {
    "clean": "stopped cleanly", "unclean": "not stopped cleanly: its next start recovers the logs",
    "unknown": "without the files of a broker",
}  # fmt: skip


@click.command("ls", cls=DocumentedCommand, examples=_EXAMPLES, sections=_SECTIONS, main_options=_MAIN)
@click.argument("paths", nargs=-1, type=PATH_OR_URL)
@choice_options
@click.option("--topics", "by_topic", is_flag=True, help="One line for each topic instead of each partition.")
@click.option("--long", "-l", "is_long", is_flag=True, help="In text, also show segments, first times and topic ids.")
@click.option("--sort", type=click.Choice(["name", "size", "records", "time"]), default="name", show_default=True,
              help="Order of the lines in each log dir: by name, or the largest or latest first.")
@config_option("A topic setting, such as cleanup.policy")
@config_file_option()
@bytes_option
@format_option
@version_option
def command(paths: tuple[str, ...], form: str, **values: Any) -> int:
    """List brokers, log dirs, topics and partitions: offsets, sizes, times, and what is unusual.

    PATHS are partitions, log dirs, trees of them or quoted patterns; they may be URLs (s3://BUCKET/KEY, gs://, az://). A tree
    with the log dirs of several brokers is split by cluster.id and node.id. ls reads indexes, batch headers and small files
    only, also beside a running broker, and changes nothing.

    `log` is the size of the .log files in use, as kafka-log-dirs prints it; `all files` adds indexes, snapshots, files that
    wait for deletion, and directories that a broker does not count. `records≤` is the number of offsets: compaction and the
    markers of transactions make the number of records smaller. On a terminal, columns that do not fit are left out; --format
    jsonl has all values.

    Flags: `future` copies are not complete; `deleted` directories wait for their deletion; `stray` ones are kept and ignored;
    `unassigned` ones would become stray at the next start; `open-transaction`: readers of committed records wait; `tiered`:
    older segments may be in remote storage; `missing-index`: a start reads such segments; `bad-end`: bytes after the last batch
    that are not a batch; `too-large`: a .log that no broker opens; `no-log`; `kafka-0.7`; `unreadable`.
    """
    return show(form, lambda output: _list(paths, values, output))


def _list(paths: tuple[str, ...], values: dict[str, Any], output: Output) -> None:
    from engine.discovery.patterns import expand
    from engine.files import now_ms
    from engine.log.logdir.log_dirs import find_log_dirs
    from engine.overview.brokers import brokers_of
    from engine.overview.partition_state import StateReader, Totals

    settings = settings_from(values["config_file"], values["settings"])
    named = paths_from(paths, settings)
    files = files_for(named)
    log_dirs = find_log_dirs(files, [path for pattern in named for path in expand(files, pattern)], output.outcome.finding)
    brokers = brokers_of(files, log_dirs, settings, now_ms(), choice_from(values))
    reader, every = StateReader(files), []
    for broker in brokers:
        _show_broker(broker, output)
        for finding in broker.metadata_damage:
            output.outcome.finding(finding)
        for one in broker.log_dirs:
            states = list(broker.partitions(one.log_dir, reader))
            every += states
            _show_log_dir(one, Totals.of(states), output)
            rows = _topics(states) if values["by_topic"] else [_Row([state], Totals.of([state])) for state in states]
            _show_rows(broker, sorted(rows, key=_ORDERS[values["sort"]]), output, values)
            for state in states:
                if state.error is not None:
                    output.flush()
                    output.outcome.error(state.error)
                if state.too_large is not None:
                    output.flush()
                    output.outcome.finding(state.too_large)
    count = sum(len(broker.log_dirs) for broker in brokers)
    if output.stream is not None:
        output.stream.put("total", {"brokers": len(brokers), "log_dirs": count, **_amounts(Totals.of(every))})
    elif count > 1:
        total = _amounts_text(Totals.of(every))
        output.line(f"{count_of(len(brokers), 'broker')}, {count_of(count, 'log dir')}, {total}")


class _Row(NamedTuple):
    """A line: a partition, or the partitions of a topic."""

    states: list[PartitionState]
    totals: Totals


def _topics(states: Sequence[PartitionState]) -> list[_Row]:
    from engine.overview.partition_state import Totals

    found: dict[str, list[PartitionState]] = {}
    for state in states:
        found.setdefault(state.partition.name.topic, []).append(state)
    return [_Row(of_topic, Totals.of(of_topic)) for of_topic in found.values()]


_ORDERS: dict[str, Callable[[_Row], Any]] = {
    "name": lambda row: directory_order(file_name(row.states[0].partition.path)),
    "size": lambda row: -row.totals.size,
    "records": lambda row: -row.totals.offsets,
    "time": lambda row: -(row.totals.last_time or 0),
}


def _show_broker(broker: Broker, output: Output) -> None:
    if output.stream is not None:
        output.stream.put("broker", {"node_id": broker.node_id, "cluster_id": broker.cluster_id})
    elif broker.node_id is None:
        output.line("no meta.properties that names a broker")
    else:
        output.line(broker_text(broker.node_id, broker.cluster_id))


def _show_log_dir(one: LogDirState, totals: Totals, output: Output) -> None:
    if output.stream is not None:
        directory_id = None if one.identity is None else one.identity.directory_id
        output.stream.put("log-dir", {
            **text_field("path", one.log_dir.path), "directory_id": directory_id, "shutdown": one.shutdown.value,
            "lock_holder": one.lock_holder, **_amounts(totals),
        })  # fmt: skip
        return
    how = _SHUTDOWNS.get(one.shutdown.value) or f"in use by process {one.lock_holder}"
    output.line(f"{one.log_dir.path}: {how}; {_amounts_text(totals)}")


def _amounts(totals: Totals) -> dict[str, object]:
    return {
        "partitions": totals.partitions, "max_records": totals.offsets, "log_bytes": totals.log_size,
        "all_bytes": totals.size,
    }  # fmt: skip


def _amounts_text(totals: Totals) -> str:
    partitions = count_of(totals.partitions, "partition")
    return f"{partitions}, {shown_size(totals.log_size)} in logs, {shown_size(totals.size)} in all files"


def _show_rows(broker: Broker, rows: list[_Row], output: Output, values: dict[str, Any]) -> None:
    by_topic = values["by_topic"]
    policies = {topic: broker.cleanup_policy(topic) for topic in {row.states[0].partition.name.topic for row in rows}}
    if output.stream is not None:
        for row in rows:
            policy = policies[row.states[0].partition.name.topic]
            if by_topic:
                output.stream.put("topic", _topic_fields(row, policy))
            else:
                output.stream.put("partition", _partition_fields(row, policy))
        return
    most = max((row.totals.size for row in rows), default=0)
    shows_bars = terminal_width() is not None
    cells = []
    for row in rows:
        state, totals = row.states[0], row.totals
        name = state.partition.name.topic if by_topic else f"{state.partition.name.topic}-{state.partition.name.partition}"
        cells.append({
            "topic": name, "partition": name, "partitions": str(totals.partitions), "start": number_cell(state.start),
            "end": number_cell(state.end), "records≤": str(totals.offsets), "segments": str(state.segments),
            "log": shown_size(totals.log_size), "": bar(totals.size, most) if shows_bars else "",
            "all files": shown_size(totals.size), "first record": time_cell(state.first_time),
            "last record": time_cell(totals.last_time), "epoch": number_cell(state.leader_epoch),
            "policy": policies[state.partition.name.topic] or "", "topic id": state.topic_id or "",
            "flags": ", ".join(flag.value for flag in totals.flags),
        })  # fmt: skip
    columns = _TOPIC_COLUMNS if by_topic else _PARTITION_COLUMNS
    shown = [column for column in columns if values["is_long"] or column.heading not in _LONG]
    if cells:
        output.table(shown, [[row[column.heading] for column in shown] for row in cells])


def _topic_fields(row: _Row, policy: str | None) -> dict[str, object]:
    totals = row.totals
    return {
        "topic": row.states[0].partition.name.topic, **_amounts(totals), **time_fields("last_time", totals.last_time),
        "cleanup_policy": policy, "flags": [flag.value for flag in totals.flags],
    }  # fmt: skip


def _partition_fields(row: _Row, policy: str | None) -> dict[str, object]:
    state, name = row.states[0], row.states[0].partition.name
    return {
        **text_field("path", state.partition.path), "topic": name.topic, "partition": name.partition,
        "topic_id": state.topic_id,
        "log_start_offset": state.start, "last_stable_offset": state.stable, "log_end_offset": state.end,
        "max_records": state.offsets, "segments": state.segments, "log_bytes": state.log_size, "all_bytes": state.size,
        **time_fields("first_time", state.first_time), **time_fields("last_time", state.last_time),
        "leader_epoch": state.leader_epoch,
        "cleanup_policy": policy, "flags": [flag.value for flag in row.totals.flags],
    }  # fmt: skip
