"""From the paths of `dump-log` to dumped files."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

import click

from engine.errors import KafkalogError
from engine.layout import discover, file_name, parse_file_name
from engine.log.dump import TextDump, kafka_file_name
from kafkalog_cli.app import Outcome

if TYPE_CHECKING:
    from engine.files import ReadOnlyFiles
    from engine.log.dump_options import DumpOptions

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


def dump_all(files: ReadOnlyFiles, paths: tuple[str, ...], listed: str | None, options: DumpOptions) -> int:
    """Dump what `--files` lists as kafka-dump-log would, then everything the plain arguments lead to → exit status."""
    outcome = Outcome(_REPORTED)
    dump = TextDump(files, options, sys.stdout.buffer.write, outcome.finding)
    for listed_path in java_split(listed) if listed is not None else []:
        path = java_path(listed_path)
        name = kafka_file_name(path)
        if name is None:
            dump.ignore(path)
            dump.flush()
            click.echo(f"Ignoring unknown file {path}", err=True)
            continue
        _dump_one(dump, path, name, outcome)
    for argument in paths:
        try:
            found = discover(files, argument)
        except KafkalogError as error:
            outcome.error(error)
            continue
        for finding in found.findings:
            outcome.finding(finding)
        for path in found.paths:
            name = parse_file_name(file_name(path))
            if name is None:
                dump.ignore(path)
                dump.flush()
                click.echo(f"Ignoring unknown file {path}", err=True)
                continue
            _dump_one(dump, path, name, outcome)
    dump.flush()
    sys.stdout.buffer.flush()
    for line in dump.reports.lines():
        click.echo(line, err=True)
    return outcome.finish()


def _dump_one(dump: TextDump, path: str, name: object, outcome: Outcome) -> None:
    try:
        dump.dump(path, name)  # type: ignore[arg-type]
    except KafkalogError as error:
        dump.flush()
        outcome.error(error)
