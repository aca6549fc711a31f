"""Kafka's reports on stderr against ours: the same lines, but for what the README says is different on purpose.

Every exception is a rule that looks at the files or at the text of their batches (which tests compare with Kafka's byte
for byte), never a list of names: it holds for any corpus.
"""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from tests.support.run import kafkalog

_HEADLINES = {
    "Mismatches in :": "mismatch",
    "Found timestamp mismatch in :": "timestamp",
    "Found out of order timestamp in :": "disorder",
    "The following indexed offsets are not found in :": "not found",
    "Non-consecutive offsets in ": "gap",
}
_LINES = re.compile(r"  Index \w+: (-?\d+), .*: (-?\d+)|Indexed offset: (-?\d+), .*: (-?\d+)|  (-?\d+) is followed by (-?\d+)")
_SNAPSHOT = ("Snapshot is corrupt ", "Snapshot failed schema validation: ")
_LOGGER = "SLF4J: "  # the Java around the old runs, not Kafka
_INTERNAL = ("__consumer_offsets", "__transaction_state", "__share_group_state")


class Report(NamedTuple):
    """One line of a report: what it is about, the absolute path of the file, its two numbers."""

    kind: str
    path: str
    one: int
    other: int


class Stderr(NamedTuple):
    """What stood on stderr: reports in their order, findings of ours, and all other lines."""

    reports: list[Report]
    findings: list[str]
    words: list[str]


class Batch(NamedTuple):
    """What the text of a batch says."""

    first: int
    last: int
    count: int | None  # None: formats 0 and 1 do not say it


def read_stderr(text: str) -> Stderr:
    """Take stderr apart."""
    said = Stderr([], [], [])
    kind = path = ""
    for line in text.splitlines():
        headline = next((start for start in _HEADLINES if line.startswith(start)), None)
        numbers = _LINES.fullmatch(line)
        if headline:
            kind, path = _HEADLINES[headline], line.removeprefix(headline)
        elif numbers and kind:
            one, other = (int(number) for number in numbers.groups() if number is not None)
            said.reports.append(Report(kind, path, one, other))
        elif re.match(r"(error|warning|info)\[|.*: \d+ more findings \[", line):
            said.findings.append(line)
        else:
            said.words.append(line)
    return said


def differences(kafka: str, ours: str, *, iterated: bool) -> list[str]:
    """What one of the two says and the other not, exceptions left out; empty: the same.

    iterated  the run read records: without that Kafka's tool has no report of offsets that are not consecutive
    """
    theirs, own = read_stderr(kafka), read_stderr(ours)
    wrong = [f"only Kafka: {line}" for line in theirs.reports if line not in own.reports and not _left_out(line)]
    wrong += [f"only ours: {line}" for line in own.reports
              if line not in theirs.reports and not _added(line, iterated) and not _is_one_more(line, theirs.reports)]  # fmt: skip
    if [line for line in theirs.reports if line in own.reports] != [line for line in own.reports if line in theirs.reports]:
        wrong.append("the order of the reports is another one")
    words = [line for line in theirs.words if not line.startswith(_LOGGER)]
    told = [line for line in words if line.startswith(_SNAPSHOT) and any(found.endswith(f": {line}") for found in own.findings)]
    if [line for line in words if line not in told] != own.words:
        wrong.append(f"Kafka says {words}, we say {own.words}")
    return wrong


def _left_out(report: Report) -> bool:
    """Is that something of Kafka's which we do not say?"""
    if report.kind == "gap":
        return _is_no_loss(report)
    if not any(Path(report.path).read_bytes()):
        return True  # the unused entries of a preallocated index
    emptied = report.kind == "timestamp" and report.other == -1  # the entry was made from records that the cleaner took
    return emptied and any(batch.count == 0 for batch in _batches(_log_of(report.path)))


def _is_no_loss(gap: Report) -> bool:
    """The start of a log that does not begin at 0, gaps of compacted logs and inside of batches."""
    batches = _batches(gap.path)
    claimed = {offset for batch in batches if batch.count is not None for offset in range(batch.first, batch.last + 1)}
    missing = range(gap.one + 1, min(gap.other, gap.one + 1_000_000))
    return (
        (gap.one == -1 and _base_offset(gap.path) != 0)
        or (gap.other > gap.one and _is_compacted(gap.path))
        or (len(missing) > 0 and claimed.issuperset(missing))
        or any((gap.one, gap.other) in pairwise(offsets) for offsets in _records(gap.path))
    )


def _is_one_more(report: Report, theirs: list[Report]) -> bool:
    """Does Kafka say another mismatch of the same entry? It keeps one for each indexed offset, the last; we keep all."""
    return report.kind == "mismatch" and any((one.kind, one.path, one.one) == (report.kind, report.path, report.one) for one in theirs)


def _added(report: Report, iterated: bool) -> bool:
    """Is that something which only we see: that a log begins below its name, and breaks between headers of batches?

    Where records are read, their headers are asked only whether offsets grow.
    """
    if report.kind != "gap":
        return False
    batches = _batches(report.path)
    if report.one == _base_offset(report.path) - 1:
        return report.other == (_records(report.path)[0][0] if iterated else batches[0].first)
    between = [(before.last, after.first) for before, after in pairwise(batches)]
    inside = [(batch.first, batch.last) for batch in batches]
    return (not iterated or report.other <= report.one) and (report.one, report.other) in between + inside


def _batches(log: str) -> list[Batch]:
    batches = []
    for line in _text(log):
        fields = dict(re.findall(r"(\w+): (\S+)", line))
        if "baseOffset" in fields:
            first, last, count = (int(fields[name]) for name in ("baseOffset", "lastOffset", "count"))
            batches.append(Batch(first, last, count))
        elif "compresscodec" in fields:
            batches.append(Batch(*[int(fields["offset"])] * 2, None))
    return batches


def _records(log: str) -> list[list[int]]:
    """The offsets of the records, batch by batch."""
    found: list[list[int]] = []
    for line in _text(log, "--deep-iteration"):
        if line.startswith(("baseOffset: ", "offset: ")):
            found.append([])
        elif line.startswith("| offset: "):
            found[-1].append(int(line.split()[2]))
    return found


def _text(log: str, *options: str) -> list[str]:
    return kafkalog("dump-log", *options, "--files", log).out.decode("utf-8", "replace").splitlines()


def _base_offset(path: str) -> int:
    return int(Path(path).name.split(".")[0])


def _log_of(index: str) -> str:
    return index.removesuffix(".timeindex") + ".log"


def _is_compacted(path: str) -> bool:
    """Do the topic or the cleaner's checkpoint say that the cleaner was here?"""
    partition = Path(path).parent
    topic, _, number = partition.name.rpartition("-")
    checkpoint = partition.parent / "cleaner-offset-checkpoint"
    lines = checkpoint.read_text().splitlines() if checkpoint.exists() else []
    return topic in _INTERNAL or any(line.startswith(f"{topic} {number} ") for line in lines)
