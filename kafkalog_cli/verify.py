"""From the paths of `verify-index` to verified partitions, and what is shown of them."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from threading import Event
from typing import TYPE_CHECKING, NamedTuple

import click

from engine.dump.json_stream import JsonStream, text_field
from engine.dump.text_buffer import TextBuffer
from engine.errors import KafkalogError, UsageError
from engine.findings import Finding, Severity
from engine.layout import FileKind, discover, parent_of, parse_file_name
from engine.log.verify import Verification, verify_partition
from engine.patterns import expand
from kafkalog_cli.app import Outcome, printable, say_interpreted
from kafkalog_cli.output import raw_stdout

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from engine.files import ReadOnlyFiles

_OF_A_PARTITION = frozenset((
    FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TRANSACTION_INDEX, FileKind.PRODUCER_SNAPSHOT,
))
_VERDICTS = {None: "sound", Severity.INFO: "sound", Severity.WARNING: "broken", Severity.ERROR: "log damaged"}


class _Verified(NamedTuple):
    findings: list[Finding]
    verification: Verification | None
    error: KafkalogError | None


def verify_all(files: ReadOnlyFiles, paths: Iterable[str], form: str, jobs: int | None) -> int:
    """Verify every partition that `paths` lead to, show the results in order → exit status."""
    say_interpreted()
    out = TextBuffer(raw_stdout())
    stream = None if form == "text" else JsonStream(out, array=form == "json", ascii=sys.stdout.isatty())
    outcome = Outcome(stream=stream)
    directories = _partitions(files, paths, outcome)
    for result in _results(files, directories, jobs or min(8, os.cpu_count() or 1)):
        _show(result, outcome, stream)
    status = outcome.finish()
    out.flush()
    return status


def _results(files: ReadOnlyFiles, directories: list[str], jobs: int) -> Iterator[_Verified]:
    """What comes of each directory, in order, `jobs` of them read at the same time."""
    stop = Event()
    if min(jobs, len(directories)) <= 1:
        for directory in directories:
            yield _verify(files, directory, stop)
        return
    pool = ThreadPoolExecutor(jobs)
    try:
        yield from pool.map(lambda directory: _verify(files, directory, stop), directories)
    finally:
        stop.set()  # after Ctrl-C nobody waits for gigabytes
        pool.shutdown(cancel_futures=True)


def _partitions(files: ReadOnlyFiles, paths: Iterable[str], outcome: Outcome) -> list[str]:
    """Directories that hold files of a partition, each once, in order."""
    found: dict[str, None] = {}
    for path in paths:
        try:
            places = expand(files, path)
            before = len(found)
            for place in places:
                discovery = discover(files, place)
                for finding in discovery.findings:
                    outcome.finding(finding)
                found.update(dict.fromkeys(parent_of(one) if "/" in one else "." for one in discovery.paths if _counts(one)))
            if len(found) == before and not any(place.rstrip("/") in found for place in places):
                outcome.error(UsageError(f"{path}: no files of a partition are there"))
        except KafkalogError as error:
            outcome.error(error)
    return list(found)


def _counts(path: str) -> bool:
    name = parse_file_name(path.rpartition("/")[2])
    return name is not None and name.kind in _OF_A_PARTITION and name.remote_id is None


def _verify(files: ReadOnlyFiles, directory: str, stop: Event) -> _Verified:
    findings: list[Finding] = []
    try:
        return _Verified(findings, verify_partition(files, directory, findings.append, lambda: not stop.is_set()), None)
    except KafkalogError as error:
        return _Verified(findings, None, error)


def _show(result: _Verified, outcome: Outcome, stream: JsonStream | None) -> None:
    for finding in result.findings:
        outcome.finding(finding)
    if result.error is not None:
        outcome.error(result.error)
    done = result.verification
    if done is None:
        return
    if stream is not None:
        fields = {name: value for name, value in asdict(done).items() if name not in ("path", "worst")}
        verdict = _VERDICTS[done.worst].replace(" ", "-")
        stream.put("verification", {**text_field("path", done.path), **fields, "verdict": verdict})
        return
    parts = (
        f"{done.segments} segments", f"{done.batches} batches", f"{done.offset_entries + done.time_entries} index entries",
        f"{done.aborted_transactions} aborted transactions", f"{done.producer_snapshots} snapshots",
        f"{done.leader_epochs} leader epochs",
    )  # fmt: skip
    click.echo(f"{printable(done.path)}: {_VERDICTS[done.worst]} ({', '.join(parts)})")
