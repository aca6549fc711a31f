"""kafkalog metadata."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from engine.amounts import count_of, offset_span, offsets_text
from engine.discovery.choice import is_chosen_topic
from engine.dump.json_stream import text_field
from engine.errors import UsageError
from kafkalog_cli.engine_options import paths_from, settings_from
from kafkalog_cli.help import CONFIG_FILE_VARIABLE, DocumentedCommand, Example, Section
from kafkalog_cli.options import PATH, PATH_OR_URL, Whole, files_for, format_option, version_option
from kafkalog_cli.selecting import OffsetRange
from kafkalog_cli.show import given, show, time_cell, time_fields
from kafkalog_cli.table import Column

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from engine.files import ReadOnlyFiles
    from engine.findings import Finding
    from engine.image.elections import UncleanElection
    from engine.image.records import MetadataRecord
    from engine.image.replay import ImageAt
    from engine.image.tree import Difference, Fields, Node
    from engine.image.verification import VerifiedLog, VerifiedSnapshot
    from kafkalog_cli.show import Output

_SECTIONS = (
    Section("cat: which records", ("--offset", "--type", "--topic", "--unclean")),
    Section("tree: which state", ("--at", "--deleted")),
    Section("diff of one log", ("--from", "--to")),
    Section("Settings", ("--config-file",)),
    Section("Output", ("--secrets", "--format")),
)
_MAIN = ("--topic", "--unclean", "--at", "--format")
_EXAMPLES = (
    Example("Who leads the partitions of orders?", "kafkalog metadata tree data-1 /topics/orders"),
    Example("Which leader elections were unclean?", "kafkalog metadata cat --unclean data-1"),
    Example("What changed since the record at offset 5000?", "kafkalog metadata diff --from 5000 data-1"),
    Example("Are the logs of all controllers sound, and do they agree?", "kafkalog metadata verify node-1 node-2 node-3"),
)
_OPTIONS = {
    "offsets": "cat", "types": "cat", "topics": "cat", "is_unclean": "cat", "at": "tree", "has_deleted": "tree",
    "first": "diff", "end": "diff",
}  # fmt: skip
_NO_END = 1 << 63
_ELECTION_COLUMNS = (
    Column("time", is_text=True), Column("partition", is_text=True, shrinks="+"), Column("leader"), Column("leader epoch", 1),
    Column("leader before", 4), Column("ISR before", 3, is_text=True), Column("ELR before", 5, is_text=True),
    Column("offset", 2), Column("epoch", 6),
)  # fmt: skip


class RecordType(click.ParamType[str]):
    """A type of records, such as PartitionChangeRecord or PARTITION_CHANGE_RECORD."""

    name = "record type"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Convert text to the name in MetadataRecordType. Raises click.BadParameter."""
        from engine.formats import ControlType
        from engine.schema import tables
        from engine.schema.metadata import type_name

        known = [type_name(name) for name in tables.cluster_metadata().names()]
        known += [one.name for one in ControlType if one > ControlType.COMMIT]
        by_letters = {_letters(name): name for name in known}
        found = by_letters.get(_letters(str(value))) or by_letters.get(f"{_letters(str(value))}record")
        if found is None:
            self.fail(f"{value!r} is not one of {', '.join(known)}", param, ctx)
        return found


def _letters(text: str) -> str:
    return text.replace("_", "").lower()


@click.command("metadata", cls=DocumentedCommand, examples=_EXAMPLES, sections=_SECTIONS, main_options=_MAIN,
               statuses={"1": "`metadata diff` found a difference"})
@click.argument("action", type=click.Choice(["cat", "tree", "diff", "verify"]))
@click.argument("paths", nargs=-1, type=PATH_OR_URL)
@click.option("--offset", "offsets", type=OffsetRange(), metavar="A:B",
              help="Only records from offset A up to, not including, B. A alone has no end.")
@click.option("--type", "types", type=RecordType(), multiple=True, metavar="RECORD",
              help="Only records of this type, such as PartitionChangeRecord; may be repeated.")
@click.option("--topic", "-t", "topics", multiple=True, metavar="NAME",
              help="Only records about this topic. A quoted pattern, such as 'orders-*', names several topics. May be "
                   "repeated.")
@click.option("--unclean", "is_unclean", is_flag=True, help="Print the unclean leader elections instead of the records.")
@click.option("--at", type=Whole(0), metavar="OFFSET",
              help="The state just before the record at OFFSET. Default: the newest state.")
@click.option("--deleted", "has_deleted", is_flag=True, help="Show only deleted topics, as they were before their deletion.")
@click.option("--from", "first", type=Whole(0), metavar="OFFSET", help="Compare from the state just before OFFSET.")
@click.option("--to", "end", type=Whole(0), metavar="OFFSET",
              help="Compare to the state just before OFFSET. Default: the newest state.")
@click.option("--config-file", type=PATH, envvar=CONFIG_FILE_VARIABLE, metavar="FILE",
              help="A broker's server.properties: log.dirs where no PATHS are given.")
@click.option("--secrets", "shows_secrets", is_flag=True,
              help="Print SCRAM credentials, ids of delegation tokens, and passwords in settings.")
@format_option
@version_option
@click.pass_context
def command(context: click.Context, /, action: str, paths: tuple[str, ...], form: str, **values: Any) -> int:
    """Show and verify the metadata of a cluster: the log of its controllers and the snapshots.

    `metadata cat PATH` prints the records in order. `metadata tree PATH [GLOB]` prints the state of the cluster as a tree:
    /topics/orders/0, /configs/topic/orders, /brokers/1. GLOB chooses entries, with everything below them. `metadata diff A
    B` compares two states, and `metadata diff A --from OFFSET` two states of one log. Exit status 1: they differ. `metadata
    verify PATH…` replays the logs, compares each snapshot with the log, and the logs of several controllers with each other.

    A PATH is the log dir with __cluster_metadata-0, that directory, or a tree with it; for cat, tree and diff also a snapshot
    (.checkpoint). Of several controllers the one with the latest epoch, then the longest log, is read. Records of metadata
    transactions take effect together at their end. metadata also reads beside a running broker, and changes nothing.

    The newest records of one controller may be uncommitted: metadata says from which offset on. A checksum covers neither the
    offset nor the epoch of a batch: metadata checks that offsets have no gap and that epochs do not decrease.
    """
    for name, owner in _OPTIONS.items():
        if action != owner and context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            option = next(one.opts[0] for one in context.command.params if one.name == name)
            raise click.UsageError(f"{option} belongs to `metadata {owner}`")
    _check_paths(action, paths, values)
    return show(form, lambda output: _ACTIONS[action](paths, values, output))


def _check_paths(action: str, paths: tuple[str, ...], values: dict[str, Any]) -> None:
    most = {"cat": 1, "tree": 2}.get(action)
    if most is not None and len(paths) > most:
        raise click.UsageError(f"`metadata {action}` reads one PATH" + (" and one GLOB" if action == "tree" else ""))
    if values["is_unclean"] and (values["types"] or values["offsets"]):
        raise click.UsageError("--unclean excludes --type and --offset")
    if action == "diff":
        is_of_one = values["first"] is not None or values["end"] is not None
        if is_of_one and (len(paths) > 1 or values["first"] is None):
            raise click.UsageError("--from, and --to if you give it, compare two states of one PATH")
        if not is_of_one and len(paths) != 2:
            raise click.UsageError("name two PATHS, or one with --from OFFSET")


def _sources(paths: tuple[str, ...], values: dict[str, Any], output: Output) -> tuple[ReadOnlyFiles, list[str]]:
    """The files, and the metadata logs or the one file that PATHS name."""
    from engine.discovery.patterns import expand
    from engine.overview.metadata_logs import is_file_of_metadata, metadata_logs

    named = paths_from(paths, settings_from(values["config_file"], ()))
    files = files_for(named)
    expanded = [path for pattern in named for path in expand(files, pattern)]
    if len(expanded) == 1 and is_file_of_metadata(files, expanded[0]):
        return files, expanded
    return files, metadata_logs(files, expanded, output.outcome.finding)


def _best(files: ReadOnlyFiles, sources: list[str], output: Output) -> str:
    from engine.log.fetch.replicas import read_best_replica

    return sources[0] if len(sources) == 1 else read_best_replica(files, sources, output.outcome.finding)


# ---- cat


def _cat(paths: tuple[str, ...], values: dict[str, Any], output: Output) -> None:
    files, sources = _sources(paths, values, output)
    source = _best(files, sources, output)
    if values["is_unclean"]:
        _show_elections(files, source, values["topics"], output)
        return
    first, end = values["offsets"] or (0, _NO_END)
    topics, names = values["topics"], dict[str, str]()
    is_known = not topics
    for topic, record in _named(files, source, end, names, output.outcome.finding):
        is_about = not topics or (topic is not None and is_chosen_topic(topic, topics))
        is_known |= is_about
        if record.offset < first or (values["types"] and record.type not in values["types"]):
            continue
        if is_about:
            _show_record(record, topic, output, shows_secrets=values["shows_secrets"])
    if not is_known:
        _refuse_unknown(source, topics, names, end)


def _refuse_unknown(source: str, topics: tuple[str, ...], names: Mapping[str, str], end: int = _NO_END) -> None:
    """Raise UsageError if none of the topics by id, those before the offset `end`, is one of `topics`."""
    if not any(is_chosen_topic(name, topics) for name in names.values()):
        before = "" if end == _NO_END else f" before offset {end}"
        raise UsageError(f"{source}: no topic {' or '.join(topics)}{before}")


def _named(
    files: ReadOnlyFiles, source: str, end: int, names: dict[str, str], report: Callable[[Finding], None]
) -> Iterator[tuple[str | None, MetadataRecord]]:
    """Yield the records of a log or a file, each with the name of the topic that it is about. `names` gets all by their ids."""
    from engine.image.records import MetadataLog, read_metadata_records, topic_of
    from engine.overview.metadata_logs import is_file_of_metadata

    if is_file_of_metadata(files, source):
        records = read_metadata_records(files, source, report)
    else:
        log = MetadataLog(files, source, report)
        oldest = next((one for one in log.snapshots if log.logs and one.end_offset >= log.logs[0][0]), None)
        for record in () if oldest is None else log.snapshot(oldest.path):
            topic_of(record, names)
        records = log.records(end=end)
    for record in records:
        if record.offset >= end:
            return
        yield topic_of(record, names), record


def _show_record(record: MetadataRecord, topic: str | None, output: Output, *, shows_secrets: bool) -> None:
    from engine.image.tree import concealed

    data = record.data if shows_secrets else concealed(record.data)
    if output.stream is not None:
        output.stream.put("metadata-record", {
            "offset": record.offset, "epoch": record.epoch, **time_fields("time", given(record.time_ms)),
            "record": record.type or None, "version": record.version, "topic": topic, "data": data,
            **text_field("path", record.path), "position": record.position,
        })  # fmt: skip
        return
    about = [] if topic is None else [f"{topic}-{data['partitionId']}" if "partitionId" in data else topic]
    where = f"{record.offset:>8}  {record.epoch:>4}"
    output.line("  ".join([where, time_cell(given(record.time_ms)), record.type or "?", *about, _text(data)]))


def _text(fields: Mapping[str, Any]) -> str:
    """The fields on one line."""
    return " ".join(f"{name}={_value(value)}" for name, value in fields.items())


def _value(value: object) -> str:
    from engine.image.partition import RESERVED_DIRECTORIES

    if isinstance(value, list):
        value = [RESERVED_DIRECTORIES.get(one, one) if isinstance(one, str) else one for one in value]
    if isinstance(value, str) and value and value.isprintable() and " " not in value:
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _show_elections(files: ReadOnlyFiles, source: str, topics: tuple[str, ...], output: Output) -> None:
    from engine.image.elections import unclean_elections

    hidden: list[tuple[int, int | None]] = []

    def unread(first: int, end: int | None) -> None:
        if hidden and hidden[-1][1] == first:
            first, _ = hidden.pop()
        hidden.append((first, end))

    elections = unclean_elections(files, source, output.outcome.finding, unread)
    found = [one for one in elections if is_chosen_topic(one.topic, topics)]
    if topics and not found and not hidden:
        names: dict[str, str] = {}
        for _ in _named(files, source, _NO_END, names, lambda _finding: None):  # what is damaged is reported already
            pass
        _refuse_unknown(source, topics, names)
    if output.stream is not None:
        for one in found:
            fields = one._asdict()
            time_ms = fields.pop("time_ms")
            output.stream.put("unclean-election", {**fields, **time_fields("time", given(time_ms))})
        return
    line = f"{count_of(len(found), 'unclean election')} in {source}"
    ranges = (f"from {first} on" if end is None else offset_span(first, end) for first, end in hidden)
    output.line(f"at least {line}: damage hides the offsets {', '.join(ranges)}" if hidden else line)
    if found:
        output.table(_ELECTION_COLUMNS, [_election_cells(one) for one in found])


def _election_cells(one: UncleanElection) -> list[str]:
    before = "" if one.time_ms is None else _value(list(one.previous_isr))
    return [
        time_cell(given(one.time_ms)) or "earlier", f"{one.topic}-{one.partition}", str(one.leader), str(one.leader_epoch),
        str(one.previous_leader), before, before and _value(list(one.previous_elr)), str(one.offset), str(one.epoch),
    ]  # fmt: skip


# ---- tree


def _tree(paths: tuple[str, ...], values: dict[str, Any], output: Output) -> None:
    from engine.image.replay import image_at
    from engine.image.tree import concealed, concealed_node, is_chosen, nodes, order_of

    files, sources = _sources(paths[:1], values, output)
    source, pattern = _best(files, sources, output), paths[1] if len(paths) > 1 else None
    state = image_at(files, source, output.outcome.finding, values["at"], from_oldest=values["has_deleted"])
    _show_state(files, state, sources, output)
    if values["has_deleted"]:
        _show_deleted(state, pattern, output)
        return
    found = nodes(state.image)
    chosen = [node for node in sorted(found, key=order_of) if is_chosen(node, pattern)]
    for node in chosen:
        if values["shows_secrets"]:
            _show_node(node, found[node], output)
        else:
            _show_node(concealed_node(node), concealed(found[node]), output)
    if pattern is not None and not chosen:
        raise UsageError(f"{source}: no entry {pattern} before offset {state.end_offset}")


def _show_state(files: ReadOnlyFiles, state: ImageAt, sources: list[str], output: Output) -> None:
    """Print which state it is, and from which offset on records may be uncommitted."""
    from engine.overview.metadata_logs import committed_before, is_file_of_metadata

    is_file = is_file_of_metadata(files, state.source)
    committed = state.end_offset if is_file else committed_before(files, state, sources)
    if output.stream is not None:
        output.stream.put("metadata-state", {
            **text_field("path", state.source), "end_offset": state.end_offset, "epoch": state.epoch,
            "snapshot_offset": None if state.snapshot is None else state.snapshot.end_offset, "committed_before": committed,
            **time_fields("last_time", given(state.time_ms)),
        })  # fmt: skip
        return
    last = given(state.time_ms)
    when = "" if last is None else f", {time_cell(last)}"
    line = f"{state.source}: after all records before offset {state.end_offset}, epoch {state.epoch}{when}"
    if committed < state.end_offset:
        line += f"; those from {committed} on may be uncommitted"
    output.line(line)


def _show_node(node: Node, fields: Fields, output: Output) -> None:
    from engine.image.tree import path_of

    if output.stream is not None:
        output.stream.put("metadata-node", {"node": path_of(node), "parts": list(node), "data": fields})
        return
    output.line(f"{path_of(node)}  {_text(fields)}")


def _show_deleted(state: ImageAt, pattern: str | None, output: Output) -> None:
    from engine.image.tree import is_chosen, path_of

    for one in state.image.deleted:
        node = ("topics", one.topic.name)
        if not is_chosen(node, pattern):
            continue
        if output.stream is not None:
            output.stream.put("deleted-topic", {
                "topic": one.topic.name, "topic_id": one.topic.topic_id, "partitions": len(one.topic.partitions),
                "offset": one.offset, **time_fields("time", given(one.time_ms)),
            })  # fmt: skip
            continue
        partitions = f"topicId={one.topic.topic_id}  {count_of(len(one.topic.partitions), 'partition')}"
        output.line(f"{path_of(node)}  {partitions}, deleted at offset {one.offset}, {time_cell(given(one.time_ms))}")


# ---- diff


def _diff(paths: tuple[str, ...], values: dict[str, Any], output: Output) -> None:
    from engine.image.replay import image_at
    from engine.image.tree import differences, nodes

    sides = [paths, paths] if values["first"] is not None else [(path,) for path in paths]
    offsets = [values["first"], values["end"]]
    found = []
    for side, offset in zip(sides, offsets, strict=True):
        files, sources = _sources(side, values, output)
        state = image_at(files, _best(files, sources, output), output.outcome.finding, offset)
        _show_state(files, state, sources, output)
        found.append(nodes(state.image))
    different = list(differences(*found))
    for one in different:
        _show_difference(one, output, shows_secrets=values["shows_secrets"])
    if different:
        output.outcome.at_least(1)
    if output.stream is None:
        output.line(f"{count_of(len(different), 'difference')}")


def _show_difference(one: Difference, output: Output, *, shows_secrets: bool) -> None:
    from engine.image.tree import concealed, concealed_node, path_of

    node = one.node if shows_secrets else concealed_node(one.node)
    before, after = (fields if shows_secrets or fields is None else concealed(fields) for fields in (one.before, one.after))
    change = "added" if before is None else "removed" if after is None else "changed"
    if output.stream is not None:
        output.stream.put("metadata-difference", {
            "node": path_of(node), "parts": list(node), "change": change, "fields": list(one.fields), "before": before,
            "after": after,
        })  # fmt: skip
    elif before is None or after is None:
        output.line(f"{'+' if before is None else '-'} {path_of(node)}  {_text(after or before or {})}")
    else:
        changes = (f"{name}: {_side(before, name)} -> {_side(after, name)}" for name in one.fields)
        output.line(f"  {path_of(node)}  {'  '.join(changes)}")


def _side(fields: Fields, name: str) -> str:
    return _value(fields[name]) if name in fields else "-"


# ---- verify


def _verify(paths: tuple[str, ...], values: dict[str, Any], output: Output) -> None:
    from engine.image.verification import check_agreement, verify_log
    from engine.overview.metadata_logs import is_file_of_metadata

    files, sources = _sources(paths, values, output)
    if is_file_of_metadata(files, sources[0]):
        raise UsageError(f"{sources[0]} is one file: a snapshot is compared with the log beside it", "name its directory")
    logs = []
    for source in sources:
        logs.append(verify_log(files, source, output.outcome.finding))
        _show_log(logs[-1], output)
    if len(logs) > 1:
        agreed = check_agreement(files, logs, output.outcome.finding)
        if output.stream is None:
            output.line(f"{agreed} of {count_of(len(logs), 'log')} agree" if agreed < len(logs) else
                        f"all {len(logs)} logs agree where they have the same offsets")  # fmt: skip


def _show_log(log: VerifiedLog, output: Output) -> None:
    if output.stream is not None:
        output.stream.put("metadata-log", {
            **text_field("path", log.directory), "log_start_offset": log.log_start, "log_end_offset": log.log_end,
            "epoch": log.epoch, "records_applied": log.records, "damaged": not log.is_sound,
        })  # fmt: skip
        for one in log.snapshots:
            output.stream.put("metadata-snapshot", {
                **text_field("path", one.snapshot.path), "end_offset": one.snapshot.end_offset, "epoch": one.snapshot.epoch,
                "comparison": one.comparison.value, "why": one.why,
            })  # fmt: skip
        return
    state = (
        "no damage" if log.is_sound else "DAMAGED: what follows was not read" if log.is_replayable else
        "DAMAGED: it cannot be replayed"
    )  # fmt: skip
    state += f"; followed by {log.zeros} zero bytes, never written" if log.zeros else ""
    offsets = f"{offsets_text(log.log_start, log.log_end)}, epoch {log.epoch}"
    output.line(f"{log.directory}: {offsets}, {count_of(log.records, 'record')} applied; {state}")
    for one in log.snapshots:
        output.line(f"  {_snapshot_line(one)}")


def _snapshot_line(one: VerifiedSnapshot) -> str:
    from engine.image.verification import Comparison

    verdict = {
        Comparison.EQUAL: "equal to the log", Comparison.DIFFERENT: f"DIFFERENT: {one.why}",
        Comparison.NOT_COMPARABLE: f"read, not compared: {one.why}", Comparison.DAMAGED: "DAMAGED",
    }[one.comparison]  # fmt: skip
    return f"snapshot at offset {one.snapshot.end_offset}, epoch {one.snapshot.epoch}: {verdict}"


_ACTIONS = {"cat": _cat, "tree": _tree, "diff": _diff, "verify": _verify}
