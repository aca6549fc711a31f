"""kafkalog check."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from engine.amounts import count_of
from engine.discovery.names import PartitionKind
from engine.dump.json_stream import text_field
from engine.dump.text_buffer import TextBuffer
from engine.errors import KafkalogError
from engine.files import ReadOnlyFiles, now_ms
from engine.findings import KINDS, Severity
from engine.log.logdir.startup import survey
from engine.log.logdir.topics import Topics
from engine.log.starting.brokers import configured_broker, named_brokers
from engine.log.starting.foresee import foresee_start, survey_broker
from engine.log.starting.outcome import Verdict
from engine.log.verify.partition import verify_partition
from kafkalog_cli.app import Outcome, printable
from kafkalog_cli.engine_options import paths_from, settings_from
from kafkalog_cli.help import CONFIG_FILE_VARIABLE, DocumentedCommand, Example, Section
from kafkalog_cli.options import PATH, Time, format_option, jobs_option, shown_size, version_option
from kafkalog_cli.output import json_stream, raw_stdout
from kafkalog_cli.progress import Progress, watched_reader
from kafkalog_cli.streams import colour_choice
from kafkalog_cli.workers import in_order

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from threading import Event

    from engine.config.server import Settings
    from engine.findings import Finding
    from engine.log.logdir.log_dirs import LogDir
    from engine.log.logdir.startup import Cluster
    from engine.log.starting.brokers import Broker
    from engine.log.starting.outcome import Start, StartAction
    from engine.log.verify.partition import Verification

_SECTIONS = (
    Section("What is checked", ("--level", "--config-file", "--now", "--jobs")),
    Section("Output", ("--all", "--format")),
)
_EXAMPLES = (
    Example("Would this broker start, and what would it do?", "kafkalog check --level start --config-file server.properties"),
    Example("The same for log dirs without their configuration:", "kafkalog check /data/kafka-1 /data/kafka-2"),
    Example("Every checksum, index entry and snapshot too:", "kafkalog check --level full --config-file server.properties"),
)
_HEADLINES = {
    Verdict.STARTS: ("STARTS", "green"), Verdict.DEGRADED: ("STARTS DEGRADED", "yellow"),
    Verdict.LOSES_METADATA: ("STARTS AND LOSES METADATA", "red"), Verdict.REFUSES: ("WOULD NOT START", "red"),
}  # fmt: skip
_SHOWN = 3  # findings of a code that are printed without --all
_COLOURS = {Severity.INFO: "blue", Severity.WARNING: "yellow", Severity.ERROR: "red"}
_RANKS = list(reversed(Severity))


@click.command("check", cls=DocumentedCommand, examples=_EXAMPLES, sections=_SECTIONS, main_options=("--level", "--config-file",
               "--all", "--format"))
@click.argument("paths", nargs=-1, type=PATH)
@click.option("--level", type=click.Choice(["start", "quick", "full"]), default="quick", show_default=True,
              help="start: what a starting broker reads. quick: also the header of every batch, and the indexes. full: every "
                   "byte, as `verify`.")
@click.option("--config-file", type=PATH, envvar=CONFIG_FILE_VARIABLE, metavar="FILE",
              help="The broker's server.properties. Without PATHS, its log.dirs are checked, as those of one broker.")
@click.option("--now", type=Time(), metavar="TIME", help="The clock: ISO-8601, ms, or `2h ago`. Default: the machine's.")
@jobs_option("Partitions at a time. Default: one for each processor, up to 8.")
@click.option("--all", "shows_all", is_flag=True, help="In text, show every finding and every action, the harmless ones too.")
@format_option
@version_option
def command(level: str, shows_all: bool, **values: Any) -> int:
    """Say whether a broker would start on its log dirs, and what it would do.

    PATHS are log directories, or trees of them; the log dirs of several brokers are split by cluster.id and node.id. For each
    broker, check prints a verdict (starts, starts degraded, loses metadata, would not start) in the broker's own words, what a
    start would do to the files, and the findings, the worst first, each with the command that comes next.

    Nothing is written, and no broker is asked. Beside a running broker, the verdict is about its small files only.
    """
    outcome = Outcome(quiet_codes=frozenset(KINDS))
    try:
        settings = settings_from(values["config_file"], ())
        paths = paths_from(values["paths"], settings)
    except KafkalogError as error:
        outcome.error(error)
        return outcome.finish()
    out = TextBuffer(raw_stdout())
    outcome = Outcome(quiet_codes=frozenset(KINDS), stream=json_stream(values["form"], out))
    try:
        with Progress() as progress:
            files = watched_reader(progress, ReadOnlyFiles())
            brokers, named = (named_brokers(files, paths) if values["paths"]
                              else ([configured_broker(files, settings.server)], []))
            check = _Check(files, settings, level, values["now"] or now_ms(), values["jobs"])
            for broker in brokers:
                _show(check.broker(broker), outcome, shows_all=shows_all)
            if named:
                _show(check.partitions(named), outcome, shows_all=shows_all)
    except KafkalogError as error:
        outcome.error(error)
    status = outcome.finish()
    out.flush()
    return status


class _Result(NamedTuple):
    """What was found out about a broker, or about partitions that were named alone. start: None: no verdict."""

    log_dirs: list[str]
    start: Start | None
    findings: list[Finding]
    errors: list[KafkalogError]
    verified: list[Verification]

    @property
    def bytes(self) -> int:
        return sum(one.bytes for one in self.verified)


class _Check:
    """Checks brokers and partitions to a level."""

    def __init__(self, files: ReadOnlyFiles, settings: Settings, level: str, now: int, jobs: int) -> None:
        self._files, self._settings, self._level, self._now, self._jobs = files, settings, level, now, jobs

    def broker(self, broker: Broker) -> _Result:
        """Check the log dirs of a broker. Raises UnreadableFile."""
        cluster = survey_broker(self._files, broker)
        start = foresee_start(self._files, broker, cluster, self._settings, self._now, self._jobs)
        result = self._verified([one.path for one in broker.log_dirs], cluster, cluster.log_dirs)
        found = {(finding.code, finding.where.file) for finding in result.findings}
        new = [] if start is None else [one for one in start.findings if (one.code, one.where.file) not in found]
        return result._replace(start=start, findings=new + result.findings)

    def partitions(self, named: list[LogDir]) -> _Result:
        """Check partitions that were named alone. Raises UnreadableFile."""
        return self._verified([one.path for one in named], survey(self._files, named), named)

    def _verified(self, paths: list[str], cluster: Cluster, log_dirs: Iterable[LogDir]) -> _Result:
        result = _Result(paths, None, [], [], [])
        if self._level == "start":
            return result
        topics = Topics(self._files, [cluster], self._settings)
        kinds = (PartitionKind.PLAIN, PartitionKind.FUTURE)
        directories = [place.path for log_dir in log_dirs for place in log_dir.partitions(*kinds)]

        def verify(directory: str, stop: Event) -> tuple[list[Finding], Verification | KafkalogError]:
            findings: list[Finding] = []
            try:
                return findings, verify_partition(
                    self._files, directory, findings.append, lambda: not stop.is_set(), partial(topics.policy, directory),
                    lambda _path: self._level == "full",
                )
            except KafkalogError as error:
                return findings, error

        with closing(in_order(verify, directories, self._jobs)) as results:
            for findings, done in results:
                result.findings.extend(findings)
                if isinstance(done, KafkalogError):
                    result.errors.append(done)
                else:
                    result.verified.append(done)
        return result


# ---- output


def _show(result: _Result, outcome: Outcome, *, shows_all: bool) -> None:
    """Print a result: verdict, actions, findings."""
    findings = sorted(result.findings, key=lambda one: (_RANKS.index(one.severity), one.code))
    start = result.start
    if start is not None:
        if start.verdict is not Verdict.STARTS:
            outcome.at_least(4)
        outcome.put("start", _start_fields(start), None)
        for number, action in enumerate(start.actions, 1):
            outcome.put("start-action", _action_fields(number, action), None)
    for done in result.verified:
        outcome.put("checked", {**text_field("path", done.path), **_counts(done)}, None)
    for finding in findings:
        outcome.finding(finding)
    if outcome.is_text:
        for line in _lines(result, findings, shows_all=shows_all):
            click.echo(line, color=colour_choice())
    for error in result.errors:
        outcome.error(error)


def _lines(result: _Result, findings: list[Finding], *, shows_all: bool) -> Iterator[str]:
    start, counts = result.start, Counter(one.severity for one in findings)
    is_well = not counts[Severity.ERROR] and not counts[Severity.WARNING] and not result.errors
    yield _headline(result) + ("; no problems" if is_well else "")
    if start is not None and start.decided_by is not None:
        yield f'  broker: "{printable(start.broker_says or "")}"'
        yield f"  {printable(start.decided_by.what)}" + (f"; {printable(start.decided_by.do)}" if start.decided_by.do else "")
    if start is not None and (not is_well or shows_all):
        yield f"  {_would(start)}"
        for action in start.actions if shows_all else ():
            yield f"    {action.action}: {printable(_action_text(action))}"
    shown = [one for one in findings if shows_all or one.severity is not Severity.INFO]
    yield from _folded(shown, shows_all=shows_all)
    if not is_well or shows_all:
        parts = [count_of(counts[severity], severity.value) for severity in (Severity.ERROR, Severity.WARNING)]
        harmless = "" if shows_all or not counts[Severity.INFO] else f"; {counts[Severity.INFO]} harmless (--all)"
        yield f"{', '.join(parts)}{harmless}"


def _headline(result: _Result) -> str:
    start = result.start
    read = f", {shown_size(result.bytes)} checked" if result.verified else ""
    dirs = count_of(len(result.log_dirs), "log dir")
    if start is None:
        paths = ", ".join(map(printable, result.log_dirs))
        return f"{click.style('NO VERDICT', bold=True)}  not the log dirs of a broker: {paths}{read}"
    words, colour = _HEADLINES[start.verdict]
    who = f"node {start.node_id} of cluster {start.cluster_id}" if start.node_id is not None else "a broker"
    running, logs = ", running now" if start.is_running else "", count_of(len(start.logs), "log")
    return f"{click.style(words, fg=colour, bold=True)}  {printable(who)}{running}: {logs} in {dirs}{read}"


def _would(start: Start) -> str:
    """What a start would do, in one line."""
    recovered = sum(log.is_recovered for log in start.logs)
    counts = Counter(action.action for action in start.actions)
    parts = [f"recover {recovered} of {count_of(len(start.logs), 'log')}"]
    parts += [text.format(count_of(counts[word], noun)) for word, text, noun in _PHRASES if counts[word]]
    return f"would {', '.join(parts)}"


_PHRASES = (
    ("take-offline", "take {} offline", "log dir"), ("truncate", "truncate {}", "segment"),
    ("rename-stray", "rename {} to -stray", "directory"), ("create-empty", "create {} empty", "log"),
    ("promote-future", "promote {}", "future replica"), ("rebuild-index", "rebuild {}", "index"),
    ("delete", "delete {}", "file or directory"), ("rewrite", "rewrite {}", "file"),
)  # fmt: skip


def _action_text(action: StartAction) -> str:
    span = "" if action.from_offset is None else f", offsets {action.from_offset} to {action.to_offset}"
    size = "" if action.size is None else f", {shown_size(action.size)}"
    return f"{action.path}{f' → {action.to}' if action.to else ''}{span}{size}"


def _folded(findings: list[Finding], *, shows_all: bool) -> Iterator[str]:
    """The findings by code, the first of each, and what to do about them."""
    by_code: dict[tuple[Severity, str], list[Finding]] = {}
    for finding in findings:
        by_code.setdefault((finding.severity, finding.code), []).append(finding)
    for (severity, code), same in by_code.items():
        label = click.style(f"{severity.value}[{code}]", fg=_COLOURS[severity], bold=True)
        for finding in same if shows_all else same[:_SHOWN]:
            place = finding.where.file + ("" if finding.where.position is None else f" at byte {finding.where.position}")
            yield f"{label} {printable(f'{place}: {finding.what}')}"
        if not shows_all and len(same) > _SHOWN:
            yield f"{label} {len(same) - _SHOWN} more: --all shows them"
        yield f"  do   {printable(same[0].do)}"


def _start_fields(start: Start) -> dict[str, object]:
    return {
        "log_dirs": [text_field("path", path) for path in start.log_dirs], "verdict": start.verdict.value,
        "node_id": start.node_id, "cluster_id": start.cluster_id, "metadata_end": start.metadata_end,
        "is_running": start.is_running, "logs": len(start.logs), "recovered": sum(log.is_recovered for log in start.logs),
        "reasons": sorted({one.code for one in start.findings}), "broker_says": start.broker_says,
    }  # fmt: skip


def _action_fields(order: int, action: StartAction) -> dict[str, object]:
    to: dict[str, object] = {"to": None} if action.to is None else text_field("to", action.to)
    return {
        "order": order, "action": action.action, **text_field("path", action.path), **to, "from_offset": action.from_offset,
        "to_offset": action.to_offset, "bytes": action.size, "broker_says": action.broker_says,
    }  # fmt: skip


def _counts(done: Verification) -> dict[str, object]:
    return {"segments": done.segments, "bytes": done.bytes, "batches": done.batches}
