"""From the paths of `dump-log` to dumped files."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, NamedTuple

from engine.discovery import discover, nothing_found
from engine.dump.reports import DumpReports
from engine.dump.run import LOGS, Dump, kafka_file_name
from engine.dump.text_buffer import TextBuffer
from engine.errors import KafkalogError, UsageError
from engine.findings import Finding, Where
from engine.layout import FileKind, file_name, parse_file_name
from engine.patterns import expand
from kafkalog_cli.app import Outcome, printable
from kafkalog_cli.output import BackgroundWriter, raw_stdout

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.dump.options import DumpOptions
    from engine.dump.renderer import DumpRenderer
    from engine.dump.selection import Selection
    from engine.files import ReadOnlyFiles
    from engine.layout import FileName

_SLASHES = re.compile("/{2,}")
# what kafka-dump-log reports in its own words when all files are done
_REPORTED = frozenset({
    "index-offset-mismatch", "timeindex-timestamp-mismatch", "timeindex-out-of-order", "timeindex-offset-not-found",
    "offset-gap", "offset-order",
})


def java_path(path: str) -> str:
    """A path as java.io.File keeps it: no doubled slash, none at the end."""
    path = _SLASHES.sub("/", path)
    return path if path == "/" else path.removesuffix("/")


def java_split(text: str) -> list[str]:
    """`text` split at commas as String.split does it: empty parts at the end vanish."""
    parts = text.split(",")
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return [] if parts == [""] and text else parts


class Target(NamedTuple):
    """A file to dump: as the user named it, and what its name says (None: none of Kafka's)."""

    path: str
    name: FileName | None
    is_named: bool = True  # the user named this very file
    is_listed: bool = False  # by --files, so that kafka-dump-log's ways count

    @property
    def log_name(self) -> FileName:
        """What the name of a log says: selections look into nothing else."""
        assert self.name is not None
        return self.name


def dump_all(
    files: ReadOnlyFiles, paths: tuple[str, ...], listed: str | None, options: DumpOptions,
    selection: Selection | None = None, form: str = "text",
) -> int:
    """Dump what `--files` lists as kafka-dump-log would, then everything the plain arguments lead to → exit status.

    form  text, json or jsonl
    """
    with BackgroundWriter(raw_stdout()) as output:
        out = TextBuffer(output.write)
        renderer, outcome = _text(options, out) if form == "text" else _json(options, out, array=form == "json")
        targets = [*listed_targets(listed), *found_targets(files, paths, outcome)]
        if selection is not None and selection.count:
            wanted = _wanted(files, targets, selection, outcome)
            reports = _count(files, wanted, options, selection, renderer, outcome)
        else:
            reports = _dump(files, targets, options, selection, renderer, outcome)
        renderer.flush()
        output.drain()
        sys.stdout.buffer.flush()
        for line in reports.lines():
            outcome.remark(printable(line) if sys.stderr.isatty() else line)
        status = outcome.finish()
        renderer.flush()
        output.drain()
        sys.stdout.buffer.flush()
    return status


def _dump(
    files: ReadOnlyFiles, targets: list[Target], options: DumpOptions, selection: Selection | None,
    renderer: DumpRenderer, outcome: Outcome,
) -> DumpReports:
    selector = None
    if selection is not None:
        from engine.dump.selection import Selector

        targets, skip = _behind_tail(files, _wanted(files, targets, selection, outcome), options, selection)
        selector = Selector(selection._replace(limit=selection.limit if selection.tail is None else selection.tail), skip)
    dump = Dump(files, options, renderer, outcome.finding, selector)
    for target in targets:
        if selector is not None and selector.finished:
            break
        if target.name is None:
            if not target.is_listed:
                outcome.error(UsageError(f"{target.path}: not one of Kafka's files, by its name", path=target.path))
                continue
            renderer.file(target.path, None)
            renderer.flush()
            ignored = Finding("file-ignored", Where(target.path), "not one of Kafka's files")
            outcome.finding(ignored, words=f"Ignoring unknown file {printable(target.path)}")
            continue
        try:
            dump.dump(target.path, target.name)
        except KafkalogError as error:
            renderer.flush()
            outcome.error(error)
    return dump.reports


def _text(options: DumpOptions, out: TextBuffer) -> tuple[DumpRenderer, Outcome]:
    from engine.dump.text import TextDump

    outcome = Outcome(_REPORTED)
    return TextDump(options, out, outcome.finding), outcome


def _json(options: DumpOptions, out: TextBuffer, *, array: bool) -> tuple[DumpRenderer, Outcome]:
    from engine.dump.json_objects import JsonDump
    from engine.dump.json_stream import JsonStream

    stream = JsonStream(out, array=array, ascii=options.escape)
    outcome = Outcome(stream=stream)
    return JsonDump(options, stream, outcome.finding), outcome


def listed_targets(listed: str | None) -> Iterator[Target]:
    """The files of `--files`, taken for what kafka-dump-log takes them for."""
    for part in java_split(listed) if listed is not None else []:
        path = java_path(part)
        yield Target(path, kafka_file_name(path), is_listed=True)


def found_targets(files: ReadOnlyFiles, paths: tuple[str, ...], outcome: Outcome) -> Iterator[Target]:
    """The files behind plain arguments."""
    for argument in [path for pattern in paths for path in expand(files, pattern)]:
        try:
            found = discover(files, argument)
        except KafkalogError as error:
            outcome.error(error)
            continue
        for finding in found.findings:
            outcome.finding(finding)
        if not found.paths:
            outcome.finding(nothing_found(argument))
        for path in found.paths:
            yield Target(path, parse_file_name(file_name(path)), path == argument)


def _wanted(files: ReadOnlyFiles, targets: list[Target], selection: Selection, outcome: Outcome) -> list[Target]:
    """A selection is about records: it leaves out every file that can hold none that fits.

    Files that it can not look into are an error where the user named them, and logs of 0.7 always.
    """
    from engine.dump.skipping import may_hold_matches

    wanted, unknown_to_07 = [], selection.unknown_to_07()
    for target in targets:
        kind = None if target.name is None else target.name.kind
        if target.name is not None and (kind in LOGS or (kind is FileKind.LOG_07 and not unknown_to_07)):
            if may_hold_matches(files, target.path, target.name, selection):
                wanted.append(target)
        elif kind is FileKind.LOG_07:
            what = f"messages of Kafka 0.7 have only an offset, which leaves nothing for {', '.join(unknown_to_07)} to look at"
            do = "select by --offset, --limit or --tail"
            outcome.error(UsageError(f"{target.path}: {what}", do, path=target.path))
        elif target.is_named:
            what = "--count counts" if selection.count else "a selection shows"
            what += " records of logs, and this is none"
            outcome.error(UsageError(f"{target.path}: {what}", path=target.path))
    return wanted


def _count(
    files: ReadOnlyFiles, targets: list[Target], options: DumpOptions, selection: Selection, renderer: DumpRenderer,
    outcome: Outcome,
) -> DumpReports:
    from engine.dump.matches import tally

    records = batches = 0
    reports = DumpReports()
    for target in targets:
        try:
            counted = tally(files, target.path, target.log_name, options, selection, outcome.finding, reports)
        except KafkalogError as error:
            renderer.flush()
            outcome.error(error)
            continue
        records += counted.record_count
        batches += counted.batch_count
        renderer.count(target.path, counted.record_count, counted.batch_count)
    if len(targets) > 1 or (not targets and not outcome.failed):
        renderer.count(None, records, batches)
    return reports


def _behind_tail(
    files: ReadOnlyFiles, targets: list[Target], options: DumpOptions, selection: Selection
) -> tuple[list[Target], int]:
    """Where --tail begins: (targets from the one on that holds the first of the last N, matches to skip there)."""
    wanted = selection.tail
    if wanted is None:
        return targets, 0
    from engine.dump.matches import tally

    found = 0
    for index in range(len(targets) - 1, -1, -1):
        target = targets[index]
        try:
            counted = tally(files, target.path, target.log_name, options, selection, _unheard, DumpReports())
        except KafkalogError:
            continue  # the dump itself will say so
        by_record = options.iterates and target.log_name.kind is not FileKind.LOG_07
        found += counted.record_count if by_record else counted.batch_count
        if found >= wanted:
            return targets[index:], found - wanted
    return targets, 0


def _unheard(_finding: Finding) -> None:
    """The dump behind this count reports what is wrong."""
