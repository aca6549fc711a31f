"""kafkalog check."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from engine.amounts import count_of, offsets_text
from engine.checkpoint.identity import broker_text
from engine.dump.json_stream import text_field
from engine.dump.text_buffer import TextBuffer
from engine.errors import KafkalogError
from engine.files import Files, ReadOnlyFiles, now_ms
from engine.findings import KINDS, Severity
from engine.log.starting.outcome import Verdict
from kafkalog_cli.app import Outcome, printable
from kafkalog_cli.checking import HEADLINES, Check, Checking, CheckResult, would
from kafkalog_cli.engine_options import WHICH, choice_from, choice_options, paths_from, settings_from
from kafkalog_cli.help import CONFIG_FILE_VARIABLE, DocumentedCommand, Example, Section
from kafkalog_cli.options import PATH, Duration, Time, bytes_option, jobs_option, quiet_option, shown_size, version_option
from kafkalog_cli.output import json_stream, raw_stdout
from kafkalog_cli.progress import Progress, watched_reader
from kafkalog_cli.render_report import report_map, verification_fields, verification_map
from kafkalog_cli.streams import colour_choice

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.findings import Finding
    from engine.log.starting.outcome import Start, StartAction

_SECTIONS = (
    WHICH,
    Section("What is checked", ("--level", "--config-file", "--now", "--jobs")),
    Section("Over several runs", ("--state", "--max-duration", "--max-age")),
    Section("Output", ("--all", "--quiet", "--bytes", "--format", "--metrics-textfile")),
)
_MAIN = ("--level", "--config-file", "--all", "--format")
_EXAMPLES = (
    Example("Would this broker start, and what would it do?", "kafkalog check --level start --config-file server.properties"),
    Example("The same for log dirs without their configuration:", "kafkalog check /data/kafka-1 /data/kafka-2"),
    Example("An hour each night, until every byte was read, and every byte once a month:",
            "kafkalog check --level full --state /var/lib/kafkalog/state --max-duration 1h --max-age 30d /data/kafka-1"),
)
_SHOWN = 3  # findings of a code that are printed without --all
_COLOURS = {Severity.INFO: "blue", Severity.WARNING: "yellow", Severity.ERROR: "red"}
_RANKS = list(reversed(Severity))


@click.command("check", cls=DocumentedCommand, examples=_EXAMPLES, sections=_SECTIONS, main_options=_MAIN)
@click.argument("paths", nargs=-1, type=PATH)
@choice_options
@click.option("--level", type=click.Choice(["start", "quick", "full"]), default="quick", show_default=True,
              help="start: what a starting broker reads. quick: also the header of every batch, and the indexes. full: every "
                   "byte, as `verify`.")
@click.option("--config-file", type=PATH, envvar=CONFIG_FILE_VARIABLE, metavar="FILE",
              help="The broker's server.properties. Without PATHS, its log.dirs are checked, as those of one broker.")
@click.option("--now", type=Time(), metavar="TIME", help="The clock: ISO-8601, ms, or `2h ago`. Default: the machine's.")
@jobs_option("Partitions at a time. Default: one for each processor, up to 8.")
@click.option("--state", type=PATH, metavar="FILE",
              help="With --level full: remember in FILE which segments are sound, and read only the headers of those that have "
                   "not changed since.")
@click.option("--max-duration", type=Duration(), metavar="DURATION",
              help="With --state: read no further segment after this time, such as 1h; the next run continues.")
@click.option("--max-age", type=Duration(), default="30d", show_default=True, metavar="AGE",
              help="With --state: read a segment again when it was last read longer ago.")
@click.option("--all", "shows_all", is_flag=True,
              help="In text, show every finding and every action, the harmless ones too.")
@click.option("--metrics-textfile", type=PATH, metavar="FILE",
              help="Write metrics to FILE in Prometheus text format (node_exporter's textfile collector).")
@quiet_option
@bytes_option
@click.option("--format", "form", type=click.Choice(["text", "json", "jsonl", "junit"]), default="text", show_default=True,
              help="Text, one JSON document, one JSON object a line, or JUnit's XML.")
@version_option
def command(shows_all: bool, quiet: bool, **values: Any) -> int:
    """Say whether a broker would start on its log dirs, what it would do, and which problems they have.

    PATHS are log directories, or trees of them; the log dirs of several brokers are split by cluster.id and node.id. For each
    broker, check prints a verdict in the broker's own words: starts, starts degraded (without a log dir), loses metadata, or
    would not start. It then lists what a start would do to the files, and the findings, the worst first, each with the
    command to run next. If nothing is wrong, it prints one line, and nothing with --quiet.

    Nothing is written to the log dirs, and no broker is asked. Beside a running broker, the verdict is about the small files
    only. --topic and --partition choose the logs that are read; the verdict is always about whole log dirs.
    """
    if values["state"] is None and values["max_duration"] is not None:
        raise click.UsageError("--max-duration needs --state, where the next run continues")
    if values["state"] is not None and values["level"] != "full":
        raise click.UsageError("--state needs --level full: it remembers what was read completely")
    out = TextBuffer(raw_stdout())
    stream = json_stream(values["form"], out) if values["form"] != "junit" else None
    outcome = Outcome(quiet_codes=frozenset(KINDS), stream=stream, quiet=quiet)
    results: list[CheckResult] = []
    try:
        settings = settings_from(values["config_file"], ())
        paths = paths_from(values["paths"], settings)
        if values["metrics_textfile"] is not None:
            from engine.log.logdir.metrics import check_textfile

            check_textfile(Files(), values["metrics_textfile"])
        with Progress() as progress:
            files, proven, now = watched_reader(progress, ReadOnlyFiles()), None, values["now"] or now_ms()
            if values["state"] is not None:
                from engine.log.verify.proven import ProvenSegments

                proven = ProvenSegments(files, now, values["max_age"])
                proven.load(values["state"])
            how = Checking(values["level"], now, values["jobs"], choice_from(values), proven, values["max_duration"])
            for result in Check(files, settings, how).results(paths if values["paths"] else ()):
                results.append(result)
                _show(result, outcome, values["form"], shows_all=shows_all)
            if proven is not None:
                proven.save(Files(), values["state"])
    except KafkalogError as error:
        outcome.error(error)
    if values["form"] == "junit":
        out.put(_junit(results))
    if values["metrics_textfile"] is not None:
        from engine.log.logdir.metrics import write_gauges

        try:
            write_gauges(Files(), values["metrics_textfile"], _gauges(results, values["now"] or now_ms()))
        except KafkalogError as error:
            outcome.error(error)
    status = outcome.finish()
    out.flush()
    return status


# ---- output


def _show(result: CheckResult, outcome: Outcome, form: str, *, shows_all: bool) -> None:
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
        outcome.put("verification", verification_fields(done), None)
    for finding in findings:
        outcome.finding(finding)
    if form == "text" and not (outcome.is_quiet and _is_well(result)):
        for line in _lines(result, findings, shows_all=shows_all):
            click.echo(line, color=colour_choice())
    for error in result.errors:
        outcome.error(error)


def _is_well(result: CheckResult) -> bool:
    """Is there nothing to do?"""
    starts = result.start is None or result.start.verdict is Verdict.STARTS
    return starts and not result.counts[Severity.ERROR] and not result.counts[Severity.WARNING] and not result.errors


def _lines(result: CheckResult, findings: list[Finding], *, shows_all: bool) -> Iterator[str]:
    start, counts, is_well = result.start, result.counts, _is_well(result)
    unread = "" if result.level == "full" else " (--level full reads the records, too)"
    yield _headline(result) + (f"; no problems{unread}" if is_well else "")
    if start is not None and start.decided_by is not None:
        problem = start.decided_by
        yield f'  broker: "{printable(start.broker_says or "")}"'
        yield f"  {printable(problem.what)}" + (f"; {printable(problem.do)}" if problem.do else "")
    if start is not None and (not is_well or shows_all):
        yield f"  {would(start)}"
        for action in start.actions if shows_all else ():
            yield f"    {action.action}: {printable(_action_text(action))}"
    shown_above = None
    if start is not None and start.decided_by is not None:
        from engine.log.logdir.start_problems import finding_of

        shown_above = finding_of(start.decided_by)
    shown = [one for one in findings if shows_all or (one.severity is not Severity.INFO and one != shown_above)]
    yield from _folded(shown, shows_all=shows_all)
    for log in () if start is None else start.logs:
        if (line := report_map(log.report, log.log_start_offset)) is not None:
            yield f"  {printable(log.path)}, the offsets that a start keeps and removes:"
            yield line
    for done in result.verified:
        if (line := verification_map(done)) is not None:
            yield f"  {printable(done.path)}, what was read:"
            yield line
    if not is_well or shows_all:
        parts = [count_of(counts[severity], severity.value) for severity in (Severity.ERROR, Severity.WARNING)]
        if result.errors:
            parts.append(f"{count_of(len(result.errors), 'partition')} unreadable")
        harmless = "" if shows_all or not counts[Severity.INFO] else f"; {counts[Severity.INFO]} harmless (--all)"
        yield f"{', '.join(parts)}{harmless}"
    if result.unfinished:
        yield f"{count_of(result.unfinished, 'partition')} left for the next run: --max-duration is over"


def _headline(result: CheckResult) -> str:
    start = result.start
    size = shown_size(sum(one.bytes for one in result.verified))
    read = "" if not result.verified else f", {size} checked" if result.level == "full" else f", headers of {size} checked"
    dirs = count_of(len(result.log_dirs), "log dir")
    if start is None:
        paths = ", ".join(map(printable, result.log_dirs))
        return f"{click.style('NO VERDICT', bold=True)}  no whole log dirs of a broker: {paths}{read}"
    words, colour = HEADLINES[start.verdict]
    colour = "yellow" if colour == "green" and result.counts[Severity.ERROR] else colour
    who = broker_text(start.node_id, start.cluster_id)
    running, logs = ", running now" if start.is_running else "", count_of(len(start.logs), "log")
    return f"{click.style(words, fg=colour, bold=True)}  {printable(who)}{running}: {logs} in {dirs}{read}"


def _action_text(action: StartAction) -> str:
    span = "" if action.from_offset is None else f", {offsets_text(action.from_offset, action.to_offset)}"
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
            where = finding.where.file + ("" if finding.where.position is None else f" at byte {finding.where.position}")
            yield f"{label} {printable(f'{where}: {finding.what}')}"
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


def _gauges(results: list[CheckResult], now: int) -> list[tuple[str, str, dict[str, str], float]]:
    """Metrics of this run: (name, description, labels, value)."""
    rows: list[tuple[str, str, dict[str, str], float]] = []
    for result in results:
        start = result.start
        names = ("", "") if start is None else (start.cluster_id or "", "" if start.node_id is None else str(start.node_id))
        labels = dict(zip(("cluster", "node"), names, strict=True))
        if start is not None:
            rows.append(("kafkalog_check_starts", "1: the broker would start with all its log dirs and metadata", labels,
                         start.verdict is Verdict.STARTS))
        for severity in Severity:
            tags = {**labels, "severity": severity.value}
            rows.append(("kafkalog_check_findings", "findings of this run", tags, result.counts[severity]))
        rows.append(("kafkalog_check_partitions", "partitions that were read to their end", labels, len(result.verified)))
        rows.append(("kafkalog_check_unfinished", "partitions left for the next run", labels, result.unfinished))
        rows.append(("kafkalog_check_errors", "partitions that could not be read", labels, len(result.errors)))
    return [*rows, ("kafkalog_last_run_timestamp_seconds", "time of the last run", {}, now / 1000)]


def _junit(results: list[CheckResult]) -> str:
    """The results as JUnit's XML: a suite for each broker; a case for its start, and for each partition."""
    suites = []
    for result in results:
        start = result.start
        name = "partitions" if start is None else broker_text(start.node_id, start.cluster_id)
        cases: list[tuple[str, list[str]]] = []
        left = [one for one in result.findings if one.severity is not Severity.INFO]
        for done in result.verified:
            own = [one for one in left if one.where.file.startswith(f"{done.path}/")]
            left = [one for one in left if one not in own]
            cases.append((done.path, [f"{one.code}: {one.where.file}: {one.what}" for one in own]))
        if start is not None:
            broken = [] if start.verdict is Verdict.STARTS else [f"{start.verdict.value}: {start.broker_says}"]
            cases.insert(0, ("start", broken + [f"{one.code}: {one.where.file}: {one.what}" for one in left]))
        cases += [(error.path or "partition", [str(error)]) for error in result.errors]
        failures = sum(bool(problems) for _, problems in cases)
        suites.append(f"<testsuite name={_xml(name)} tests=\"{len(cases)}\" failures=\"{failures}\">\n")
        for case, problems in cases:
            inside = "".join(f"<failure message={_xml(one)}/>" for one in problems)
            suites.append(f"<testcase classname={_xml(name)} name={_xml(case)}>{inside}</testcase>\n")
        suites.append("</testsuite>\n")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites>\n{"".join(suites)}</testsuites>\n'


def _xml(text: str) -> str:
    """An attribute of XML, which allows no control characters."""
    from xml.sax.saxutils import quoteattr

    return quoteattr(printable(text))
