"""kafkalog report."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import click

from engine.amounts import count_of, size_text, time_text
from engine.discovery.names import parent_of, parse_file_name
from engine.dump.json_stream import text_field
from engine.errors import KafkalogError, UsageError
from engine.findings import Severity
from engine.formats import LONG_MIN
from engine.log.starting.outcome import Verdict
from kafkalog_cli.checking import HEADLINES, Check, Checking
from kafkalog_cli.engine_options import WHICH, ConfigSetting, choice_from, choice_options, paths_from, settings_from
from kafkalog_cli.help import CONFIG_FILE_VARIABLE, DocumentedCommand, Example, Section
from kafkalog_cli.options import PATH, format_option, jobs_option, now_option, version_option
from kafkalog_cli.selecting import NO_END, TimeRange
from kafkalog_cli.show import show

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from xml.etree.ElementTree import Element

    from engine.files import ReadOnlyFiles
    from engine.overview.brokers import Broker
    from engine.overview.summary import Summary
    from kafkalog_cli.page.sections import Content
    from kafkalog_cli.show import Output

_SECTIONS = (
    WHICH,
    Section("The page", ("--output", "--time", "--compare", "--title", "--redact")),
    Section("Settings", ("--config", "--config-file", "--now")),
    Section("Output and work", ("--format", "--jobs")),
)
_MAIN = ("--output", "--time", "--topic", "--redact")
_EXAMPLES = (
    Example("A page about a broker, for the post-mortem:", "kafkalog report -o broker-1.html /data/kafka-1 /data/kafka-2"),
    Example("The hour of the incident, without names:",
            "kafkalog report -o incident.html --time 2026-11-23T08:00Z:2026-11-23T09:00Z --redact /data/kafka-1"),
)  # fmt: skip
_DAY, _YEAR_9999 = 86_400_000, 253_402_300_800_000  # ms


@click.command("report", cls=DocumentedCommand, examples=_EXAMPLES, sections=_SECTIONS, main_options=_MAIN)
@click.argument("paths", nargs=-1, type=PATH)
@choice_options
@click.option("--output", "-o", type=PATH, required=True, metavar="FILE",
              help="The file to write, such as report.html. An existing file is replaced only if `report` wrote it.")
@click.option("--time", "times", type=TimeRange(), metavar="FROM:TO",
              help="Rates, segments and producers count only batches whose largest timestamp is from FROM up to, not "
                   "including, TO.")
@click.option("--compare", multiple=True, type=PATH, metavar="PATH",
              help="Also compare the replicas in PATHS with those of another node, as `diff` does; may be repeated.")
@click.option("--title", default="", metavar="TEXT", help="The heading. Default: the broker.")
@click.option("--redact", is_flag=True,
              help="Replace the names of topics, directories and foreign files, and all ids, with topic-1, dir-1, id-1, …")
@click.option("--config", "settings", type=ConfigSetting(), multiple=True, metavar="NAME=VALUE",
              help="A topic setting, such as retention.ms; may be repeated. Overrides every other source.")
@click.option("--config-file", type=PATH, envvar=CONFIG_FILE_VARIABLE, metavar="FILE",
              help="The broker's server.properties. Without PATHS, its log.dirs are read.")
@now_option
@jobs_option("Partitions at a time. Default: one for each processor, up to 8.")
@format_option
@version_option
def command(paths: tuple[str, ...], form: str, **values: Any) -> int:
    """Write one HTML page about log dirs, to send to others: verdict, findings, rates, space, retention, epochs, producers.

    PATHS are log dirs, partitions, or trees of them. The page begins with the verdict of `check`: would the broker start, and
    what would it do? After that come numbers, findings with the commands to run next, a map of damaged logs, missing offsets,
    and charts of how much was written at which time.

    The page is one file. It has no scripts and loads nothing; it can be printed, and follows the reader's light or dark mode.
    report reads the headers of all batches, but no records, and changes nothing. It also works beside a running broker. Dates
    are UTC.

    The exit status is that of `check`: 4 if there are problems, also if the page was written. It is also 4 if replicas of
    --compare are not the same, even with 0 errors.
    """
    return show(form, lambda output: _report(paths, values, output))


def _report(paths: tuple[str, ...], values: dict[str, Any], output: Output) -> None:
    from engine.export.target import held_directory
    from engine.files import Files, now_ms, replace
    from kafkalog_cli.page.charts import check_package
    from kafkalog_cli.page.elements import page_text

    check_package()
    disk, now, path = Files(), now_ms() if values["now"] is None else values["now"], values["output"]
    if path == "-":
        raise UsageError("report writes a file, not to stdout", "name it: -o report.html")
    directory = parent_of(disk.absolute(path))
    with held_directory(disk, directory):
        _refuse_path(disk, path)
    content = _content(paths, values, now)
    title = values["title"] or _who(content)
    page = page_text(title, _body(title, content, values["times"])).encode()
    with held_directory(disk, directory):
        _refuse_path(disk, path, [one for result in content.results for one in result.log_dirs])
        try:
            replace(disk, path, [page])
        except BaseException:
            with suppress(KafkalogError):  # the first error is reported
                disk.remove(f"{path}.tmp")
            raise
    _print(content, path, len(page), output)


def _refuse_path(disk: ReadOnlyFiles, path: str, log_dirs: Collection[str] = ()) -> None:
    """Raise UsageError if the page would replace another file, or be in a partition or in a log dir, also of `log_dirs`."""
    from engine.export.target import log_dir_around
    from kafkalog_cli.page.elements import MARK

    for one in (path, f"{path}.tmp"):  # the second is written first, and renamed
        if disk.exists(one) and not _starts_with(disk, one, MARK.encode()):
            raise UsageError(f"{one} exists, and is not a page of kafkalog report", "name another file with -o")
    log_dir = log_dir_around(disk, parent_of(disk.absolute(path)), log_dirs)
    if log_dir is not None:
        raise UsageError(f"{path} would be a file in {log_dir}, which holds logs", "name a file elsewhere with -o")


def _starts_with(disk: ReadOnlyFiles, path: str, mark: bytes) -> bool:
    if not disk.info(path).is_file:
        return False
    with disk.open(path) as file:
        return file.size() >= len(mark) and file.read_exactly(0, len(mark)) == mark


def _content(paths: tuple[str, ...], values: dict[str, Any], now: int) -> Content:
    """Read everything that the page shows. Raises UsageError, UnreadableFile."""
    from engine.discovery.patterns import expand
    from engine.files import ReadOnlyFiles
    from engine.log.logdir.log_dirs import find_log_dirs
    from engine.overview.brokers import brokers_of
    from engine.overview.summary import Summary
    from engine.overview.timeline import Span
    from kafkalog_cli.page.sections import Content
    from kafkalog_cli.progress import Progress, watched_reader

    settings, choice = settings_from(values["config_file"], values["settings"]), choice_from(values)
    files, errors = ReadOnlyFiles(), list[KafkalogError]()
    named = [path for pattern in paths_from(paths, settings) for path in expand(files, pattern)]
    log_dirs = find_log_dirs(files, named, lambda _finding: None)  # the check reports those that cannot be read
    brokers = brokers_of(files, log_dirs, settings, now, choice)
    with Progress() as progress:
        reader = watched_reader(progress, files)
        first, end = values["times"] or (LONG_MIN, now + _DAY)
        summary = Summary(reader, brokers, Span(first, min(end, _YEAR_9999)), errors.append)
        how = Checking("quick", now, values["jobs"], choice, watch=summary.watch)
        results = list(Check(reader, settings, how).results(named if paths else ()))
        for result in results:
            summary.add(result.verified)
            errors += result.errors
        shown = _redaction(files, summary) if values["redact"] else str
        content = Content(results, summary, errors, now, shown)
        if values["compare"]:
            from kafkalog_cli.page.comparison import compared

            others = [path for pattern in values["compare"] for path in expand(files, pattern)]
            content.compared = compared(reader, [*named, *others], choice, errors.append)
    content.errors = list({str(error): error for error in errors}.values())  # several walks meet the same one
    return content


def _redaction(files: ReadOnlyFiles, summary: Summary) -> Callable[[str], str]:
    from kafkalog_cli.page.redaction import Redaction

    log_dirs, foreign, ids = [], list[str](), [one.state.topic_id for one in summary.replicas]
    for broker in summary.brokers:
        ids.append(broker.cluster_id)
        ids += [one.directory_id for one in broker.cluster.identities.values()]
        metadata = broker.cluster.metadata
        ids += [] if metadata is None else list(metadata.topics)
        for one in broker.cluster.log_dirs:
            foreign += [*one.foreign, *(name for name in one.files if parse_file_name(name) is None)]
        log_dirs += [(one.path, files.absolute(one.path), files.resolve(one.path)) for one in broker.cluster.log_dirs]
    topics = dict.fromkeys((*summary.topics, *(name for broker in summary.brokers for name in _named(broker))))
    return Redaction(topics, log_dirs, (one for one in ids if one), foreign)


def _named(broker: Broker) -> list[str]:
    """The topics of the metadata log, also those that have no partition here."""
    return [] if broker.cluster.metadata is None else list(broker.cluster.metadata.named)


def _who(content: Content) -> str:
    """The brokers for the heading of the page."""
    nodes = list(dict.fromkeys(str(one.node_id) for one in content.summary.brokers if one.node_id is not None))
    clusters = {one.cluster_id for one in content.summary.brokers if one.cluster_id is not None}
    if not nodes:
        return "Kafka log dirs"
    of = f" of cluster {content.shown(clusters.pop())}" if len(clusters) == 1 else ""
    return f"Kafka node{'s' if len(nodes) > 1 else ''} {', '.join(nodes)}{of}"


def _body(title: str, content: Content, times: tuple[int, int] | None) -> list[Element]:
    from kafkalog_cli.page.elements import element
    from kafkalog_cli.page.sections import numbers, sections, verdict

    made = list(sections(content))
    when = f"As of {time_text(content.now)}. All times are UTC."
    if times is not None:
        first, end = (None if limit in (LONG_MIN, NO_END) else time_text(limit) for limit in times)
        limits = [] if first is None else [f"from {first}"]
        limits += [] if end is None else [f"up to {end}"]
        when += f" Rates, segments and producers: {' '.join(limits)}."
    links = (element("a", heading, href=f"#{name}") for name, heading, _ in made)
    top = element("header", element("h1", title), element("p", when, class_="soft"), element("nav", *links))
    parts = [part for name, heading, elements in made for part in (element("h2", heading, id=name), *elements)]
    main = element("main", *(verdict(content, one) for one in content.results), numbers(content), *parts)
    return [top, main, element("footer", f"Written by kafkalog report {version('kafkalog')}, from the files alone.")]


def _print(content: Content, path: str, size: int, output: Output) -> None:
    """Report the page and the verdicts, and set the exit status."""
    counts = Counter(one.severity for result in content.results for one in result.findings)
    verdicts = [None if one.start is None else one.start.verdict for one in content.results]
    outcome = output.outcome
    if counts[Severity.ERROR] or counts[Severity.WARNING] or any(one not in (None, Verdict.STARTS) for one in verdicts):
        outcome.at_least(4)
    if content.compared is not None and not content.compared.is_same:
        outcome.at_least(4)
    for error in content.errors:
        outcome.error(error)
    if output.stream is not None:
        output.stream.put("page", {
            **text_field("path", path), "bytes": size, "verdicts": [None if one is None else one.value for one in verdicts],
            "errors": counts[Severity.ERROR], "warnings": counts[Severity.WARNING], "infos": counts[Severity.INFO],
            "partitions": len(content.summary.replicas), "unreadable": len(content.errors),
        })  # fmt: skip
        return
    for result, one in zip(content.results, verdicts, strict=True):
        words = "NO VERDICT" if one is None else HEADLINES[one][0]
        output.line(f"{words}  {', '.join(result.log_dirs)}")
    if content.compared is not None:
        output.line(content.compared.text())
    problems = f"{count_of(counts[Severity.ERROR], 'error')}, {count_of(counts[Severity.WARNING], 'warning')}"
    output.line(f"wrote {path} ({size_text(size)}): {count_of(len(content.summary.replicas), 'partition')}; {problems}")
