"""kafkalog undelete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import click

from engine.amounts import count_of, offset_span, ranges_of
from engine.dump.json_stream import text_field
from engine.errors import argument
from engine.formats import INT_MAX
from kafkalog_cli.engine_options import WHICH, choice_from, choice_options, paths_from, quarantine_options, settings_from
from kafkalog_cli.help import CONFIG_FILE_VARIABLE, DocumentedCommand, Example, Section
from kafkalog_cli.options import PATH, Whole, format_option, quiet_option, shown_size, verbose_option, version_option
from kafkalog_cli.show import show, time_cell, time_fields
from kafkalog_cli.table import Column

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from engine.files import Files
    from engine.log.logdir.startup import Cluster
    from engine.log.operations.deleted import Deleted
    from engine.log.operations.undelete import UndeleteOptions
    from engine.log.report import Report
    from engine.log.session import Session
    from kafkalog_cli.progress import Progress
    from kafkalog_cli.show import Output

_SECTIONS = (
    WHICH,
    Section("What is done", ("--list", "--as-new-topic", "--topic-id", "--to", "--pid")),
    Section("Settings", ("--config-file",)),
    Section("Output and work", ("--dry-run", "--quarantine", "--no-quarantine", "--quiet", "--verbose", "--format")),
)
_MAIN = ("--list", "--as-new-topic", "--to", "--topic", "--dry-run")
_EXAMPLES = (
    Example("What can be brought back?", "kafkalog undelete --list data-1 data-2"),
    Example("Copy it to a safe place, also while the broker runs:", "kafkalog undelete --to /backup/rescued data-1 data-2"),
    Example("Put the records into the topic, which was created again:",
            "kafkalog undelete --as-new-topic --topic orders data-1 data-2"),
)  # fmt: skip
_COLUMNS = (
    Column("partition", is_text=True, shrinks="-"), Column("kind", is_text=True), Column("offsets", 2, is_text=True),
    Column("size", 1), Column("removed from", 3, is_text=True), Column("can be", is_text=True),
)  # fmt: skip
_MOST_ROWS = 20  # of the list; more are folded
_WORDS = {"as-new-topic": "put back as new topic", "in-place": "put back", "to": "copied"}
_FIXED: dict[str, Any] = {
    "settings": (), "now": None, "clean_start": False, "recovery_point": None, "log_start_offset": None,
    "keep_deleted": False, "jobs": 1, "metrics_textfile": None, "yes": True,
}  # fmt: skip  # options of commands on logs that this command does not have


@click.command("undelete", cls=DocumentedCommand, examples=_EXAMPLES, sections=_SECTIONS, main_options=_MAIN, writes=True,
               statuses={"1": "something was brought back"})
@click.argument("paths", nargs=-1, type=PATH)
@choice_options
@click.option(
    "--list", "is_list", is_flag=True, help="Only list what can be brought back, and how; also beside a running broker. "
    "More than 20 candidates are one line for each topic; --verbose lists each."
)
@click.option(
    "--as-new-topic", is_flag=True, help="Put directories of deleted topics into the topics that now have the same names."
)
@click.option("--topic-id", metavar="ID",
              help="Put the directories of a deleted topic into the topic with this id; its name may differ.")
@click.option(
    "--to",
    "directory",
    type=PATH,
    metavar="DIR",
    help="Copy everything to new directories TOPIC-PARTITION in DIR, outside of the log dirs; also beside a running broker.",
)
@click.option(
    "--pid",
    type=Whole(1, INT_MAX),
    metavar="N",
    help="With --list or --to: also find removed files that process N has open. Default: the processes that hold the locks of "
    "the log dirs.",
)
@click.option(
    "--config-file",
    type=PATH,
    envvar=CONFIG_FILE_VARIABLE,
    metavar="FILE",
    help="A broker's server.properties: log.dirs where no PATHS are given.",
)
@click.option("--dry-run", "-n", is_flag=True, help="Change nothing; show what would be done. Every batch is read.")
@quarantine_options
@format_option
@quiet_option
@verbose_option
@version_option
def command(**values: Any) -> int:
    """Bring back what was deleted and is still on the disk.

    PATHS are all log dirs of a broker, or single directories. Beside log dirs, single directories choose the partitions that
    are put back. A deleted topic leaves directories named -delete. A broker removes them a minute after the deletion, or a
    minute after its start: stop the broker, or copy them at once with --to. A broker that is no longer a replica leaves
    directories named -stray. Segments that retention deletes are named .deleted for a minute. If files were removed under a
    running broker, their data stays on the disk until the broker closes them.

    The id of a deleted topic cannot be used again. To bring its records back: copy them with --to, start the broker, create the
    topic again with the same number of partitions and --config retention.ms=-1, stop the broker, and run `undelete
    --as-new-topic` on the copies and the log dirs. Every batch is checked before anything is changed. The records get leader
    epoch 0, indexes are rebuilt, and the deleted directories stay as they are. Other replicas must be put back too, or follow
    this one.

    Without --as-new-topic, --topic-id and --to, undelete puts back segments that retention deleted, if they join their log, and
    directories of topics that still exist.
    """
    ways = [name for name, given in (("--list", values["is_list"]), ("--as-new-topic", values["as_new_topic"]),
                                     ("--topic-id", values["topic_id"]), ("--to", values["directory"])) if given]  # fmt: skip
    if len(ways) > 1:
        raise click.UsageError(f"{ways[0]} and {ways[1]} exclude each other")
    if values["pid"] is not None and not (values["is_list"] or values["directory"]):
        raise click.UsageError("--pid needs --list or --to")
    if values["is_list"]:
        return show(values["form"], lambda output: _list(values, output))
    if values["directory"] is not None:
        return show(values["form"], lambda output: _copy(values, output))
    return _put_back(values)


def _put_back(values: dict[str, Any]) -> int:
    from engine.log.operations.undelete import Undelete, UndeleteOptions
    from kafkalog_cli.partitions import run

    options = UndeleteOptions(choice=choice_from(values), new_topic=values.pop("as_new_topic"), topic_id=values.pop("topic_id"))

    def work(session: Session, progress: Progress) -> Iterator[Report]:
        is_empty = True
        for report in Undelete(options).work(session):
            is_empty = False
            yield report
        if is_empty and values["form"] == "text" and not values["quiet"]:
            progress.say("nothing that can be brought back was found")

    chosen = {name: value for name, value in values.items() if name not in ("topics", "partitions")}
    return run("undelete", {**_FIXED, **chosen}, work, makes_partitions=True)


class _Search(NamedTuple):
    """What was found in the log dirs of one broker."""

    cluster: Cluster
    holders: dict[str, int]
    found: list[Deleted]


def _searched(files: Files, values: dict[str, Any], output: Output) -> Iterator[_Search]:
    """Search PATHS, or only the process --pid if there are none. Raises UsageError, UnreadableFile."""
    from engine.discovery.patterns import expand
    from engine.log.logdir.log_dirs import find_log_dirs
    from engine.log.logdir.startup import by_broker, survey, with_metadata_dir
    from engine.log.operations.deleted import find_deleted, find_open, lock_holders

    settings, pid = settings_from(values["config_file"], ()), values["pid"]
    paths = (
        []
        if pid is not None and not values["paths"] and not settings.server.log_dirs
        else paths_from(values["paths"], settings)
    )
    log_dirs = find_log_dirs(files, [path for pattern in paths for path in expand(files, pattern)])
    for group in by_broker(files, log_dirs) if log_dirs else [[]]:
        cluster = survey(files, with_metadata_dir(files, group, settings.server))
        holders = lock_holders(cluster)
        searched = dict.fromkeys(holders, pid) if pid is not None else holders
        found = list(find_deleted(files, cluster, settings.server, output.outcome.error, searched))
        if pid is not None and not holders:
            found += find_open(files, pid, cluster.metadata, group)
        yield _Search(cluster, holders, found)


def _options(values: dict[str, Any]) -> UndeleteOptions:
    from engine.log.operations.undelete import UndeleteOptions

    return UndeleteOptions(choice=choice_from(values))


def _refuse_unknown(options: UndeleteOptions, searches: Sequence[_Search]) -> None:
    from engine.log.operations.undelete import refuse_unknown

    log_dirs = [log_dir for search in searches for log_dir in search.cluster.log_dirs]
    refuse_unknown(options.choice, log_dirs, [one for search in searches for one in search.found])


# ---- the list


class _Ways(NamedTuple):
    """What can be done with deleted records now. `why_not` put them back, and what to do then."""

    can: tuple[str, ...]
    why_not: str | None = None
    do: str | None = None


def _list(values: dict[str, Any], output: Output) -> None:
    from engine.files import Files

    files, options = Files(), _options(values)
    candidates: list[_Candidate] = []
    searches = list(_searched(files, values, output))
    _refuse_unknown(options, searches)
    for search in searches:
        for one in search.found:
            if not options.includes(one):
                continue
            ways = _ways(files, search, one)
            if output.stream is not None:
                output.stream.put("candidate", _fields(one, ways))
                continue
            candidates.append(_Candidate(one, ways))
    if output.stream is None:
        is_folded = len(candidates) > _MOST_ROWS and not values["verbose"]
        groups = _alike(candidates) if is_folded else [[one] for one in candidates]
        if groups:
            output.table(_COLUMNS, [_row(group) for group in groups], [_notes(group) for group in groups])
        more = "; --verbose lists every partition" if len(groups) < len(candidates) else ""
        found = count_of(len(candidates), "candidate")
        output.line(f"{found}{more}" if groups else "nothing that can be brought back was found")


class _Candidate(NamedTuple):
    """What can be brought back, and how."""

    one: Deleted
    ways: _Ways

    @property
    def why_not(self) -> str:
        """Why it is not put back, without its path."""
        return (self.ways.why_not or "").removeprefix(f"{self.one.path}: ").replace(self.one.name, "it")


def _alike(candidates: Iterable[_Candidate]) -> list[list[_Candidate]]:
    """Return groups of what was deleted in the same way of the same topic, and comes back in the same way."""
    groups: dict[tuple[object, ...], list[_Candidate]] = {}
    for found in candidates:
        one = found.one
        key = (one.topic, one.prefix, one.topic_id, one.kind, found.ways.can, found.why_not)
        groups.setdefault(key, []).append(found)
    return list(groups.values())


def _row(group: list[_Candidate]) -> list[str]:
    one, ways = group[0]
    name, offsets = one.name, "" if one.start is None or one.end is None else offset_span(one.start, one.end)
    if len(group) > 1:
        name = f"{name.rpartition('-')[0]}-{ranges_of(found.one.partition for found in group)}"
        offsets = count_of(len(group), "log")
    first = min((found.one.goes_at for found in group if found.one.goes_at is not None), default=None)
    goes, size = time_cell(first), shown_size(sum(found.one.size for found in group))
    return [name, one.kind.value, offsets, size, goes, ", ".join(_WORDS[way] for way in ways.can)]


def _notes(group: list[_Candidate]) -> list[str]:
    """Return the lines below a row: where it is, why it is not put back, and what to do then."""
    one, ways = group[0]
    others = f" ({count_of(len(group) - 1, 'other')} alike)" if len(group) > 1 else ""
    lines = [f"{ways.why_not or one.path}{others}"]
    do = ways.do
    if do is not None and others and one.topic is not None:  # the same command for all of them
        places = " ".join(map(argument, dict.fromkeys(found.one.log_dir for found in group)))
        path, log_dir = argument(one.path), argument(one.log_dir)
        do = do.replace(path, f"--topic {argument(one.topic)} {places}") if path in do else do.replace(log_dir, places, 1)
    return lines if do is None else [*lines, f"  {do}"]


def _ways(files: Files, search: _Search, one: Deleted) -> _Ways:
    """Return what can be done. Raises UnreadableFile."""
    from engine.discovery.names import log_base_offsets, parent_of
    from engine.log.operations.deleted import Kind
    from engine.log.operations.rejoin import why_apart
    from engine.log.operations.undelete_target import NotUndeleted, TargetFinder

    copied = ("to",) if one.segments else ()
    if one.kind is Kind.DELETED_SEGMENT:
        bases = log_base_offsets(files.plain(parent_of(one.path)))
        why, way, do = why_apart(min(bases, default=None), one), "in-place", None
        why = None if why is None else f"{one.path}: {why}"
    else:
        finder, why, way, do = TargetFinder(files, search.cluster, search.found), None, "as-new-topic", None
        try:
            target = finder.target(one)
            way = "in-place" if target.keeps_epochs else way
            if finder.has_same_segments(target, one):
                why = f"{one.path}: not needed: {target.directory} has the same segments"
            else:
                finder.refuse_records(target)
        except NotUndeleted as error:
            why, do = str(error), error.do
    if why is None and one.log_dir in search.holders:
        holder = search.holders[one.log_dir]
        why = f"{one.path}: process {holder} has locked its log dir, most likely a running broker"
        do = "stop it, or copy the records with --to DIR"
    return _Ways((way, *copied)) if why is None else _Ways(copied, why, do)


def _fields(one: Deleted, ways: _Ways) -> dict[str, object]:
    return {
        **text_field("path", one.path), "kind": one.kind.value, "topic": one.topic, "partition": one.partition,
        "topic_id": one.topic_id, "start_offset": one.start, "end_offset": one.end, "segments": len(one.segments),
        "bytes": one.size, "process": one.process, **time_fields("goes_at", one.goes_at),
        "can": list(ways.can), "why_not": ways.why_not, "do": ways.do,
    }  # fmt: skip


# ---- copies


def _copy(values: dict[str, Any], output: Output) -> None:
    from engine.files import Files, now_ms
    from engine.log.logdir.log_dirs import rights_of_owner
    from engine.log.logdir.log_manager import LogManager
    from engine.log.operations.copy_out import copy_out
    from kafkalog_cli.partitions import load_everything

    files, options = Files(), _options(values)
    settings = settings_from(values["config_file"], ())
    searches = list(_searched(files, values, output))
    _refuse_unknown(options, searches)
    is_empty = True
    for search in searches:
        log_dirs = [log_dir.path for log_dir in search.cluster.log_dirs]
        chosen = [one for one in search.found if options.includes(one)]
        load_everything(files, log_dirs)
        with rights_of_owner(files, log_dirs):
            manager = LogManager(lambda _log_dir: files, search.cluster, settings, now_ms())
            for report in copy_out(files, manager, chosen, values["directory"], dry_run=values["dry_run"]):
                is_empty = False
                _print(report, values, output)
    if output.stream is None and not values["quiet"]:
        if is_empty:
            output.line("nothing that can be brought back was found")
        if values["dry_run"]:
            output.line("dry run: nothing was changed")


def _print(report: Report, values: dict[str, Any], output: Output) -> None:
    from kafkalog_cli.render_report import exit_status, report_fields, text_lines

    if output.stream is not None:
        output.stream.put("report", report_fields(report, dry_run=values["dry_run"]))
    elif not values["quiet"] or exit_status(report):
        for line in text_lines(report, verbose=values["verbose"], dry_run=values["dry_run"]):
            output.line(click.unstyle(line))
    output.outcome.at_least(exit_status(report))
    if report.failure is not None:
        output.flush()
        output.outcome.error(report.failure)
