"""Common code of commands: findings on stderr, the total over partitions, and the exit status."""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from errno import ENOTDIR
from os import strerror
from time import perf_counter
from typing import TYPE_CHECKING

import click

from engine.amounts import count_of, duration_text
from engine.discovery.names import file_name, is_url, parent_of, parse_file_name
from engine.errors import UnreadableFile, UsageError, argument
from engine.files import ReadOnlyFiles
from engine.findings import Severity
from kafkalog_cli.options import shown_size
from kafkalog_cli.streams import colour_choice

if TYPE_CHECKING:
    from engine.dump.json_stream import JsonStream
    from engine.errors import KafkalogError
    from engine.files import FileInfo
    from engine.findings import Finding
    from engine.log.quarantine.quarantining_files import QuarantiningFiles

SHOWN_PER_CODE = 10  # findings of one code and file that are printed; more are counted
SHOWN_PER_DIRECTORY = 20  # findings of one code about all files of a directory that are printed
_COLOURS = {Severity.INFO: "blue", Severity.WARNING: "yellow", Severity.ERROR: "red"}


UNREADABLE = "path-unreadable"  # the finding about a path that cannot be read
_VERDICT_COLOURS = {Severity.INFO: "green", Severity.WARNING: "yellow", Severity.ERROR: "red"}


class Outcome:
    """Collects findings and errors, prints them to stderr, and computes the exit status.

    quiet_codes  codes reported elsewhere in other words; they count, but are not printed
    stream       receives findings and errors instead of stderr
    verbose      print all findings, and cause and advice of each code
    quiet        in text, do not print findings of severity info
    """

    def __init__(
        self, quiet_codes: frozenset[str] = frozenset(), stream: JsonStream | None = None, *, verbose: bool = False,
        quiet: bool = False,
    ) -> None:
        self._quiet_codes, self._stream = quiet_codes, stream
        self.is_quiet, self.is_verbose = quiet, verbose
        self._counts: Counter[tuple[str, str]] = Counter()  # by code and file
        self._shown: Counter[tuple[str, str]] = Counter()  # printed ones, by code and file
        self._lines: Counter[tuple[str, str]] = Counter()  # printed ones, by code and directory
        self._explained: set[str] = set()
        self._errors: set[str] = set()  # printed ones
        self._status = 0
        self._failed = False
        self._explain = verbose or sys.stderr.isatty()

    @property
    def is_text(self) -> bool:
        """Whether stdout receives text, not JSON."""
        return self._stream is None

    @property
    def failed(self) -> bool:
        """Whether an operation failed."""
        return self._failed

    def finding(
        self, finding: Finding, *, repaired: bool = False, words: str | None = None, always: bool = False
    ) -> None:
        """Add a finding.

        repaired  the problem was repaired        words  Kafka's text for it, instead of ours
        always    print it although its code is a quiet one
        """
        if finding.severity is not Severity.INFO:
            unread = 8 if finding.code == UNREADABLE else 4
            self._status = max(self._status, 1 if repaired else unread)
        if self._stream is not None:
            self._stream.finding(finding)
            return
        if words is not None:
            self.remark(words)
            return
        if (finding.code in self._quiet_codes and not always) or (self.is_quiet and finding.severity is Severity.INFO):
            return
        key = (finding.code, finding.where.file)
        self._counts[key] += finding.occurrences
        shown = (finding.code, _parent(finding.where.file))
        if self.is_verbose or (self._shown[key] < SHOWN_PER_CODE and self._lines[shown] < SHOWN_PER_DIRECTORY):
            self._shown[key] += finding.occurrences
            self._lines[shown] += 1
            self._show(finding)

    def remark(self, line: str) -> None:
        """Print a line with Kafka's words to stderr, unless a stream receives the finding as an object."""
        if self._stream is None:
            click.echo(line, err=True)

    def put(self, kind: str, fields: dict[str, object], text: str | None) -> None:
        """Print a result to stdout: an object to the stream, or else `text`; None: nothing."""
        if self._stream is not None:
            self._stream.put(kind, fields)
        elif text is not None:
            click.echo(text)

    def error(self, error: KafkalogError) -> None:
        """Add an error."""
        self._failed = True
        add_next_step(error)
        self._status = max(self._status, error.exit_status)
        if self._stream is not None:
            self._stream.error(error)
        if str(error) not in self._errors:  # a full disk fails every partition with the same words
            self._errors.add(str(error))
            _line("error", error.code, "red", str(error), error.do)

    def at_least(self, status: int) -> None:
        """Raise the exit status to at least `status`."""
        self._status = max(self._status, status)

    def finish(self, instead: int = 0) -> int:
        """Print how many findings were not printed; returns the exit status. `instead`: that of a signal, 0: none came."""
        status = instead or self._status
        self._print_omitted()
        if self._stream is not None:
            self._stream.end(status)
        return status

    def _print_omitted(self) -> None:
        """Print the numbers of findings that were not printed: by file, or by directory if none of its was printed."""
        rest: dict[tuple[str, str], list[int]] = {}  # by code and directory: the number of findings of each such file
        for (code, path), count in self._counts.items():
            left = count - self._shown[code, path]
            if left and self._shown[code, path]:
                click.echo(f"{printable(path)}: {count_of(left, 'more finding')} [{code}]", err=True)
            elif left:
                rest.setdefault((code, _parent(path)), []).append(left)
        for (code, directory), counts in rest.items():
            more, where = count_of(sum(counts), "more finding"), count_of(len(counts), "more file")
            click.echo(f"{printable(directory)}: {more} [{code}] in {where}", err=True)

    def _show(self, finding: Finding) -> None:
        kind = finding.kind
        where = finding.where.file
        if finding.where.position is not None:
            where += f" at byte {finding.where.position}"
        if finding.where.offset is not None:
            where += f", offset {finding.where.offset}"
        _line(finding.severity.value, finding.code, _COLOURS[finding.severity], f"{where}: {finding.what}", finding.step)
        if self._explain and finding.code not in self._explained:
            self._explained.add(finding.code)
            click.echo(f"  why  {kind.why}\n  do   {finding.do}", err=True)


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "."


def _line(severity: str, code: str, colour: str, message: str, do: str | None) -> None:
    label = click.style(f"{severity}[{code}]", fg=colour, bold=True)
    click.echo(f"{label} {printable(message)}", err=True, color=colour_choice())
    if do:
        click.echo(f"  do   {printable(do)}", err=True)


def add_next_step(error: KafkalogError) -> None:
    """Add advice to an error about a missing path, or one that is not a directory: the command that shows what exists."""
    if error.do is not None or error.path is None or not isinstance(error, UnreadableFile | UsageError):
        return
    if is_url(error.path):
        return
    files, path = ReadOnlyFiles(), error.path
    found = path.rstrip("/") or "/"
    while (info := _info(files, found)) is None:
        found = parent_of(found) if "/" in found else "."
    name, is_file = parse_file_name(file_name(found)), info.is_file
    if found != (path.rstrip("/") or "/"):
        error.do = f"ls -la {argument(found)}    # what is there"
    elif name is not None and is_file and _is_of_a_wrong_kind(error):
        error.do = f"kafkalog dump-log {argument(found)}    # shows this file; other commands take the directory it is in"
    elif is_file and _is_of_a_wrong_kind(error):
        error.do = f"ls -l {argument(found)}    # a file, and not one of Kafka's"


def _is_of_a_wrong_kind(error: KafkalogError) -> bool:
    return isinstance(error, UsageError) or str(error).endswith(strerror(ENOTDIR))


def _info(files: ReadOnlyFiles, path: str) -> FileInfo | None:
    try:
        return files.info(path)
    except UnreadableFile:
        return None


def kept_in(quarantine: QuarantiningFiles) -> str:
    """Return the line that says where a command keeps the data that it changed."""
    size, how = shown_size(quarantine.stored_size), "" if quarantine.is_whole else "--salvage "
    return f"kept in quarantine: {size}; undo with: kafkalog restore {how}{argument(quarantine.directory)}"


def kept_fields(quarantine: QuarantiningFiles, *, dry_run: bool) -> dict[str, object]:
    """Return the members of an object `kept`."""
    from engine.dump.json_stream import text_field  # imported already if JSON is printed

    undo = None if dry_run else printable(kept_in(quarantine).partition("undo with: ")[2])
    return {**text_field("path", quarantine.directory), "bytes": quarantine.stored_size, "undo": undo, "dry_run": dry_run}


def printable(text: str) -> str:
    """As `engine.kernels.escapes.printable`, which is imported when used: the start stays fast."""
    from engine.kernels.escapes import printable as safe

    return safe(text)


class Total:
    """Counts partitions by verdict, and measures the time since it was made."""

    def __init__(self) -> None:
        self._begun = perf_counter()
        self._counts: Counter[tuple[Severity, str]] = Counter()
        self._size = 0

    def add(self, verdict: str, severity: Severity, size: int = 0) -> None:
        """Add a partition of `size` bytes."""
        self._counts[severity, verdict] += 1
        self._size += size

    def is_due(self, *, quiet: bool) -> bool:
        """Return whether there were several partitions; `quiet`: and a problem in one of them."""
        return self._counts.total() > 1 and not (quiet and all(severity is Severity.INFO for severity, _ in self._counts))

    def say(self, amount: str | None = None, *, quiet: bool = False, err: bool = False) -> None:
        """Print the total if it is due. `amount`: text instead of the size of the partitions; `err`: to stderr."""
        if not self.is_due(quiet=quiet):
            return
        ranks = list(Severity)
        parts = ", ".join(
            click.style(f"{number} {verdict}", fg=_VERDICT_COLOURS[severity])
            for (severity, verdict), number in sorted(self._counts.items(), key=lambda one: (ranks.index(one[0][0]), one[0][1]))
        )
        took = duration_text(round((perf_counter() - self._begun) * 1000))
        partitions = count_of(self._counts.total(), "partition")
        amount = shown_size(self._size) if amount is None else amount
        click.echo(f"{partitions}: {parts}; {amount} in {took}", err=err, color=colour_choice())

    def print_next(self, words: list[str], *, quiet: bool = False) -> None:
        """Print the next command, the last line of output, if the total is due."""
        if words and self.is_due(quiet=quiet):
            click.echo(f"next: {printable(shlex.join(words))}")

