"""kafkalog groups."""

from __future__ import annotations

import csv
import io
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from engine.amounts import count_of, duration_text, part_of, time_text
from engine.discovery.choice import is_chosen_topic
from engine.dump.json_stream import text_field
from engine.errors import UsageError, argument
from kafkalog_cli.app import printable
from kafkalog_cli.engine_options import config_file_option, paths_from, settings_from
from kafkalog_cli.help import DocumentedCommand, Example, Section
from kafkalog_cli.options import PATH_OR_URL, Duration, Time, files_for, version_option
from kafkalog_cli.show import given, show, time_cell, time_fields
from kafkalog_cli.table import Column, terminal_width

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from engine.log.fetch.stored_groups import CommittedOffset, OffsetChange, StoredGroup
    from engine.log.logdir.cluster_metadata import ClusterMetadata
    from engine.overview.group_state import GroupRow, Member, OffsetsLog
    from kafkalog_cli.show import Output

_SECTIONS = (
    Section("Which groups", ("--group", "--topic")),
    Section("What is shown", ("--at", "--history", "--expiring", "--now", "--commands")),
    Section("Settings", ("--config-file",)),
    Section("Output", ("--format",)),
)
_MAIN = ("--group", "--at", "--history", "--format")
_EXAMPLES = (
    Example("Which groups are there, and how far are they behind?", "kafkalog groups data-1 data-2"),
    Example("Which offsets did a group have two hours ago?", "kafkalog groups --group billing --at '2h ago' data-1 data-2"),
    Example("When did its offsets change?", "kafkalog groups --group billing --topic orders --history data-1 data-2"),
    Example("Which offsets will be removed within two days?", "kafkalog groups --expiring 2d --config-file server.properties"),
    Example("Reset them:", "kafkalog groups --group billing --at '2h ago' --commands data-1 data-2 > offsets.csv"),
)
_GROUP_COLUMNS = (
    Column("group", is_text=True, shrinks="+"), Column("type", 2, is_text=True), Column("state", 1, is_text=True),
    Column("members", 4), Column("epoch", 6), Column("offsets", 3), Column("lag"), Column("assignor", 7, is_text=True),
    Column("last change", 5, is_text=True),
)  # fmt: skip
_OFFSET_COLUMNS = (
    Column("group", is_text=True, shrinks="+"), Column("partition", is_text=True, shrinks="-"), Column("offset"),
    Column("log end", 2), Column("lag", 1), Column("pending", 3, colour="yellow"), Column("committed", 4, is_text=True),
    Column("expires", is_text=True, colour="yellow"), Column("owner", 6, is_text=True, shrinks="+"),
    Column("metadata", 5, is_text=True, shrinks="+"),
)  # fmt: skip
_CSV = ("group", "type", "state", "topic", "partition", "offset", "leader_epoch", "log_end", "lag", "commit_time_iso", "member",
        "metadata")  # fmt: skip


@click.command("groups", cls=DocumentedCommand, examples=_EXAMPLES, sections=_SECTIONS, main_options=_MAIN)
@click.argument("paths", nargs=-1, type=PATH_OR_URL)
@click.option("--group", "-g", "wanted", multiple=True, metavar="NAME",
              help="Only this group. A quoted pattern, such as 'billing-*', names several groups. May be repeated.")
@click.option("--topic", "-t", "topics", multiple=True, metavar="NAME",
              help="Only offsets in this topic, and groups that have some. A quoted pattern, such as 'orders-*', names several "
              "topics. May be repeated.")
@click.option("--at", "until", type=Time(), metavar="TIME",
              help="The groups as they were at TIME: ISO-8601, ms, or `2h ago`. Default: at the end of the logs.")
@click.option("--history", "is_history", is_flag=True,
              help="Show every change of an offset that the logs still have, up to --at.")
@click.option("--expiring", type=Duration(), metavar="DURATION",
              help="Show the offsets that a coordinator removes within DURATION, such as 2d, and when.")
@click.option("--now", type=Time(), metavar="TIME", help="With --expiring: the clock: ISO-8601, ms, or `2h ago`. Default: "
              "the machine's.")
@click.option("--commands", "is_plan", is_flag=True,
              help="Print the offsets as a file for kafka-consumer-groups.sh --reset-offsets --from-file.")
@config_file_option("log.dirs where no PATHS are given, and offsets.retention.minutes")
@click.option("--format", "form", type=click.Choice(["text", "json", "jsonl", "csv"]), default="text", show_default=True,
              help="text; json: one document; jsonl: one object a line; csv: a header line, then one line for each offset.")
@version_option
def command(paths: tuple[str, ...], form: str, **values: Any) -> int:
    """Show groups, their members and committed offsets, from the logs of __consumer_offsets.

    PATHS are the log dirs of one cluster, or trees of them; of several replicas of a log the best one is read. They may be URLs
    (s3://BUCKET/KEY, gs://, az://). groups also reads beside a running broker, and changes nothing. It needs the log dirs with
    __consumer_offsets. The lag is shown for partitions in PATHS: up to the end of their logs. An offset in a
    transaction without a marker is `pending`. A group of type `simple` has offsets only. Offsets of share groups are in
    __share_group_state: these are start offsets; records after them that are acknowledged or archived do not count as lag.

    Compaction removes records whose offset was committed again later. --at is exact back to the time of the first record that
    was not cleaned. At an earlier time, an offset that is shown is right, but offsets that changed later are missing: groups
    says so. --history has what is left.

    --commands prints a line with group, topic, partition and offset for each committed offset, and on stderr the commands that
    take the file. Kafka changes only groups without active members, and moves offsets that are out of the log's range.

    --expiring applies offsets.retention.minutes of --config-file, or Kafka's default of 7 days, to the time of the commit; in
    an empty classic group, to the time when it became empty. Offsets in topics that members read do not expire, nor do those
    with a pending one.
    """
    if values["expiring"] is not None and (values["is_history"] or values["is_plan"] or values["until"] is not None):
        raise click.UsageError("--expiring excludes --history, --commands and --at")
    if values["now"] is not None and values["expiring"] is None:
        raise click.UsageError("--now needs --expiring")
    if values["is_history"] and (values["is_plan"] or form == "csv"):
        raise click.UsageError("--history has formats text, json and jsonl, and cannot be used with --commands")
    if values["is_plan"] and form != "text":
        raise click.UsageError("--commands prints one format only: leave out --format")
    return show("text" if form == "csv" else form, lambda output: _groups(paths, form, values, output))


def _groups(paths: tuple[str, ...], form: str, values: dict[str, Any], output: Output) -> None:
    from engine.discovery.patterns import expand
    from engine.files import now_ms
    from engine.log.fetch.share_offsets import read_share_offsets
    from engine.log.fetch.stored_groups import offset_changes, read_groups
    from engine.log.logdir.log_dirs import find_log_dirs
    from engine.overview.brokers import with_metadata
    from engine.overview.group_state import GroupRows, add_share_offsets, losses_of_groups, members_of, offsets_logs

    settings = settings_from(values["config_file"], ())
    named = paths_from(paths, settings)
    files = files_for(named)
    log_dirs = find_log_dirs(files, [path for pattern in named for path in expand(files, pattern)], output.outcome.finding)
    broker = with_metadata(files, log_dirs, now_ms())
    for finding in () if broker is None else broker.metadata_damage:
        output.outcome.finding(finding)
    metadata = None if broker is None else broker.cluster.metadata
    logs, dirs, until = offsets_logs(files, log_dirs), [one.path for one in log_dirs], values["until"]
    if not logs:
        do = "name the log dirs that have a directory __consumer_offsets-N: kafkalog ls --topic __consumer_offsets PATH"
        raise UsageError("no log of __consumer_offsets in these log dirs", do)
    known = _Known(logs, metadata)
    for finding in (*losses_of_groups(files, log_dirs), *known.incomplete(0 if values["is_history"] else until)):
        output.outcome.finding(finding)
    if values["is_history"]:
        _show_history(offset_changes(files, dirs, output.outcome.finding), values, output)
        return
    groups = read_groups(files, dirs, output.outcome.finding, until)
    chosen = [groups[name] for name in sorted(groups) if _is_wanted(name, values["wanted"])]
    known.refuse_missing(values["wanted"], groups)
    rows = GroupRows(files, log_dirs, with_ends=until is None)
    topics = {} if metadata is None else metadata.topics
    add_share_offsets(groups, read_share_offsets(files, dirs, output.outcome.finding, until), topics)
    described = [_described(group, members_of(group, topics), rows, values["topics"]) for group in chosen]
    if values["expiring"] is not None:
        now = now_ms() if values["now"] is None else values["now"]
        described = [_expiring(one, now + values["expiring"], dict(settings.server.values)) for one in described]
    if values["topics"] or values["expiring"] is not None:
        described = [one for one in described if one.rows]
    if values["is_plan"]:
        _show_plan(described, output)
    elif form == "csv":
        _show_csv(described, output)
    elif values["expiring"] is not None and not described and output.stream is None:
        _show_none_expiring(len(chosen), values["expiring"], dict(settings.server.values), output)
    else:
        _show_groups(known, described, output, unknown="?" if until is None else "")
    for error in rows.errors:
        output.flush()
        output.outcome.error(error)


def _is_wanted(name: str, wanted: Sequence[str]) -> bool:
    return not wanted or any(name == one or fnmatchcase(name, one) for one in wanted)


class _Known:
    """What these log dirs have of `__consumer_offsets`. partitions: of the topic; None: the metadata log is not here."""

    def __init__(self, logs: list[OffsetsLog], metadata: ClusterMetadata | None) -> None:
        from engine.log.fetch.stored_groups import OFFSETS_TOPIC

        topic = None if metadata is None else metadata.named.get(OFFSETS_TOPIC)
        self.logs, self.partitions = logs, len(topic.replicas) if topic is not None and topic.replicas else None

    def incomplete(self, since: int | None) -> Iterator[Any]:
        """Yield a finding for each log that lacks records since this time; None: the end of the log is meant."""
        for log in self.logs if since is not None else ():
            if since is not None and (finding := log.compacted_after(since)) is not None:
                yield finding

    def refuse_missing(self, wanted: Sequence[str], groups: Iterable[str]) -> None:
        """Raise UsageError for a name or pattern of --group that no group has."""
        from engine.log.fetch.coordinator_logs import coordinator_partition

        names = list(groups)
        for one in wanted:
            if any(_is_wanted(name, (one,)) for name in names):
                continue
            what, do = f"no group {one}", "kafkalog groups PATH…    # lists the groups"
            if self.partitions is not None:
                number = coordinator_partition(one, self.partitions)
                if number not in {log.partition for log in self.logs}:
                    do = f"name a log dir with __consumer_offsets-{number}, which has the records of a group of this name"
            raise UsageError(what, do)


class _Described(NamedTuple):
    """A group and its partitions in the chosen topics. expires: with --expiring, when (ms) each offset is removed."""

    group: StoredGroup
    type: str
    members: list[Member]
    rows: list[GroupRow]
    expires: tuple[int, ...] = ()

    @property
    def dated(self) -> Iterator[tuple[GroupRow, int | None]]:
        """The rows, each with the time when its offset is removed."""
        return zip(self.rows, self.expires or (None,) * len(self.rows), strict=True)

    @property
    def lag(self) -> int | None:
        """The sum over the partitions with an offset; None: it is not known for all of them."""
        lags = [row.lag for row in self.rows if row.committed is not None]
        known = [lag for lag in lags if lag is not None]
        return sum(known) if len(known) == len(lags) else None

    @property
    def offsets(self) -> int:
        """The number of committed offsets."""
        return sum(row.committed is not None for row in self.rows)


def _described(group: StoredGroup, members: list[Member], rows: Any, topics: Sequence[str]) -> _Described:
    from engine.overview.group_state import type_of

    chosen = [row for row in rows.of(group, members) if is_chosen_topic(row.topic, topics)]
    return _Described(group, type_of(group), members, chosen)


def _expiring(one: _Described, until: int, server: dict[str, str]) -> _Described:
    """The group with the offsets only that are removed up to `until` (ms), the first one first."""
    from engine.overview.group_expiration import expires_at, retention_ms

    retention, found = retention_ms(server), []
    for row in one.rows:
        partition = row.topic, row.partition
        expires = None if row.committed is None else expires_at(one.group, partition, row.committed, retention)
        if expires is not None and expires <= until:
            found.append((expires, row))
    found.sort(key=lambda pair: pair[0])
    return one._replace(rows=[row for _, row in found], expires=tuple(expires for expires, _ in found))


# ---- text and JSON


def _show_groups(known: _Known, described: list[_Described], output: Output, *, unknown: str) -> None:
    """Print groups and offsets; `unknown`: the text for the end of a log that is not known."""
    if output.stream is not None:
        for log in known.logs:
            output.stream.put("group-log", {
                **text_field("path", log.path), "partition": log.partition, "partitions": known.partitions,
                **time_fields("complete_since", log.complete_since),
            })  # fmt: skip
        for one in described:
            output.stream.put("group", _group_fields(one))
            for row, expires in one.dated:
                dated = {} if expires is None else time_fields("expires", expires)
                output.stream.put("group-offset", {**_offset_fields(one.group.group_id, row), **dated})
        return
    logs = f"__consumer_offsets: {part_of(len(known.logs), known.partitions, 'partition')} here"
    output.line(f"{count_of(len(described), 'group')}; {logs}")
    if described:
        output.table(_GROUP_COLUMNS, [_group_cells(one, unknown) for one in described])
    cells = [_offset_cells(one, row, unknown, expires) for one in described for row, expires in one.dated]
    if cells:
        output.line()
        output.table(_OFFSET_COLUMNS, cells)


def _show_none_expiring(count: int, within: int, server: dict[str, str], output: Output) -> None:
    from engine.overview.group_expiration import retention_text

    output.line(f"0 of {count_of(count, 'group')} expire within {duration_text(within)} ({retention_text(server)})")


def _group_cells(one: _Described, unknown: str) -> list[str]:
    group = one.group
    lag = unknown if one.lag is None else str(one.lag)
    return [
        group.group_id, one.type, group.state, str(len(one.members)), "" if group.metadata is None else str(group.epoch),
        str(one.offsets), lag if one.offsets else "", _assignor(group) or "", time_cell(_last_change(one)),
    ]  # fmt: skip


def _offset_cells(one: _Described, row: GroupRow, unknown: str, expires: int | None) -> list[str]:
    offset, time, metadata = "-", "", ""
    if row.committed is not None:
        offset, time, metadata = str(row.committed.offset), time_text(row.committed.commit_ms), row.committed.metadata
    return [
        one.group.group_id, f"{row.topic}-{row.partition}", offset, unknown if row.log_end is None else str(row.log_end),
        offset if row.committed is None else unknown if row.lag is None else str(row.lag),
        " ".join(str(each.committed.offset) for each in row.pending), time, time_cell(expires), row.member or "", metadata,
    ]  # fmt: skip


def _assignor(group: StoredGroup) -> str | None:
    """The assignor that the members of a classic group chose."""
    return (group.metadata or {}).get("protocol")


def _last_change(one: _Described) -> int | None:
    """The time of the last record about the group or of a shown offset."""
    times = [one.group.last_ms, *(row.committed.commit_ms for row in one.rows if row.committed is not None)]
    return None if max(times) < 0 else max(times)


def _group_fields(one: _Described) -> dict[str, object]:
    group = one.group
    members = [{**member._asdict(), "owned": [owned._asdict() for owned in member.owned]} for member in one.members]
    return {
        "group": group.group_id, "group_type": one.type, "state": group.state, "protocol": group.protocol_type,
        "epoch": None if group.metadata is None else group.epoch, "assignor": _assignor(group), "offsets": one.offsets,
        "lag": one.lag if one.offsets else None, **time_fields("last_change", _last_change(one)), "members": members,
    }  # fmt: skip


def _offset_fields(group_id: str, row: GroupRow) -> dict[str, object]:
    pending = [
        {"producer_id": producer_id, "offset": one.offset, **time_fields("commit_time", one.commit_ms)}
        for producer_id, one in row.pending
    ]
    return {
        "group": group_id, "topic": row.topic, "partition": row.partition, **_committed_fields(row.committed),
        "delivered": row.delivered, "log_end": row.log_end, "lag": row.lag, "member": row.member, "pending": pending,
    }  # fmt: skip


def _committed_fields(committed: CommittedOffset | None) -> dict[str, object]:
    if committed is None:
        return {
            "offset": None, "leader_epoch": None, "topic_id": None, "metadata": None, **time_fields("commit_time", None),
            **time_fields("expire_time", None),
        }  # fmt: skip
    return {
        "offset": committed.offset, "leader_epoch": given(committed.leader_epoch), "topic_id": committed.topic_id,
        "metadata": committed.metadata, **time_fields("commit_time", committed.commit_ms),
        **time_fields("expire_time", given(committed.expire_ms)),
    }  # fmt: skip


# ---- the other outputs


def _show_history(changes: Iterator[OffsetChange], values: dict[str, Any], output: Output) -> None:
    count = 0
    for one in changes:
        if not _is_wanted(one.group_id, values["wanted"]) or not is_chosen_topic(one.topic, values["topics"]):
            continue
        if values["until"] is not None and one.time_ms > values["until"]:
            continue
        count += 1
        if output.stream is not None:
            output.stream.put("offset-change", {
                "group": one.group_id, "topic": one.topic, "partition": one.partition, "event": one.event.value,
                **_committed_fields(one.committed), **time_fields("time", one.time_ms), "producer_id": one.producer_id,
                **text_field("log", one.log), "log_offset": one.log_offset,
            })  # fmt: skip
            continue
        offset = "" if one.committed is None else f" {one.committed.offset}"
        by = "" if one.producer_id is None else f", transaction of producer {one.producer_id}"
        output.line(f"{time_text(one.time_ms)}  {one.group_id}  {one.topic}-{one.partition}  {one.event.value}{offset}{by}")
    if not count and output.stream is None:
        output.line("the logs have no such change of an offset")


def _show_csv(described: list[_Described], output: Output) -> None:
    _put_csv(_CSV, output)
    for one in described:
        for row in one.rows:
            fields = {**_offset_fields(one.group.group_id, row), "type": one.type, "state": one.group.state}
            _put_csv([fields[name] for name in _CSV], output)


def _put_csv(cells: Sequence[object], output: Output) -> None:
    """Print a line of CSV (RFC 4180, but a line ends with LF); None is an empty cell. On a terminal it is made printable."""
    shown = cells if terminal_width() is None else ["" if cell is None else printable(str(cell)) for cell in cells]
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(shown)
    output.raw(line.getvalue())


def _show_plan(described: list[_Described], output: Output) -> None:
    """Print the CSV of `CsvUtils.CsvRecordWithGroup`, which Kafka's tools also read for a single group."""
    for one in described:
        if one.type == "share":
            continue  # kafka-share-groups.sh reads no file
        if "\n" in one.group.group_id and one.offsets:
            raise UsageError(f"group {one.group.group_id!r}: Kafka's tool reads the file by lines, and the name has several",
                             "choose other groups: --group NAME")  # fmt: skip
        for row in one.rows:
            if row.committed is not None:
                _put_csv((one.group.group_id, row.topic, row.partition, row.committed.offset), output)
    output.flush()
    streams = [one for one in described if one.offsets and one.type == "streams"]
    others = [one for one in described if one.offsets and one.type not in ("streams", "share")]
    for tool, ones in (("kafka-consumer-groups.sh", others), ("kafka-streams-groups.sh", streams)):
        if ones:
            names = " ".join(f"--group {argument(one.group.group_id)}" for one in ones)
            output.outcome.remark(f"{tool} --bootstrap-server HOST:9092 --reset-offsets --execute --from-file FILE {names}")
