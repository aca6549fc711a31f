"""The section of the page about replicas that are compared, as `diff` compares them.

The module stands alone, beside `sections`: it reads logs, which the other sections do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from engine.amounts import count_of
from engine.compare.batches import compare
from engine.compare.nodes import copies_of, find_nodes, pairs_of
from engine.compare.replica import Replica
from engine.compare.result import Verdict
from engine.errors import KafkalogError
from engine.findings import Finding, First, Severity
from kafkalog_cli.page.charts import moment_text
from kafkalog_cli.page.drawings import Piece, Scale, key, lane, row
from kafkalog_cli.page.elements import element, folded, table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from xml.etree.ElementTree import Element

    from engine.compare.nodes import Copies
    from engine.compare.result import Extent, Side
    from engine.discovery.choice import PartitionChoice
    from engine.files import ReadOnlyFiles

_MOST = 200  # pairs that are drawn
_WORDS = {
    Verdict.SAME: "the same", Verdict.PREFIX: "one ends earlier", Verdict.FORKED: "forked",
    Verdict.DIFFERS: "different before the common end",
}  # fmt: skip


class SidePart(NamedTuple):
    """A side of a pair: offsets [start, end) of its log, and the records that only it has."""

    name: str
    start: int
    end: int
    records: int
    readable: int
    first_time: int | None
    last_time: int | None
    truncates_to: int | None


class Pair(NamedTuple):
    """Two compared replicas of a partition. `common_end`: up to here both are the same; `differences`: before that."""

    topic: str
    partition: int
    verdict: Verdict
    common_end: int
    differences: int
    sides: tuple[SidePart, SidePart]


class Compared:
    """The pairs that are not the same, at most 200 of them, and how many there are of each verdict."""

    def __init__(self) -> None:
        self.pairs: list[Pair] = []
        self.counts = dict.fromkeys(Verdict, 0)
        self.single = self.unrelated = 0
        self.findings: First[Finding] = First(_MOST)

    @property
    def is_same(self) -> bool:
        """Return whether no two replicas forked or differ, and no damage was found."""
        return not (self.counts[Verdict.FORKED] or self.counts[Verdict.DIFFERS] or self.findings or self.unrelated)

    def text(self) -> str:
        """Return how many pairs there are of each verdict."""
        parts = [f"{count} {_WORDS[verdict]}" for verdict, count in self.counts.items() if count]
        parts += [f"{self.single} on one side only"] if self.single else []
        parts += [f"{self.unrelated} of different topics with the same name, not compared"] if self.unrelated else []
        return f"pairs of replicas: {', '.join(parts) or 'none'}"

    def section(self, shown: Callable[[str], str], names: Callable[[str], str]) -> Iterator[Element]:
        """Return the section. `shown` replaces names of topics, `names` those of sides, if they are to be replaced."""
        text = self.text()
        yield element("p", f"{text[0].upper()}{text[1:]}.")
        rows, cells = [], []
        for pair in self.pairs:
            name = f"{shown(pair.topic)}-{pair.partition}"
            scale = Scale(min(side.start for side in pair.sides), max(side.end for side in pair.sides))
            for side in pair.sides:
                pieces = [Piece(side.start, min(side.end, pair.common_end), "even", "as on the other side")]
                if side.end > pair.common_end:
                    pieces.append(Piece(pair.common_end, side.end, "three", _only_text(side)))
                rows.append(row(f"{name} on {names(side.name)}", _WORDS[pair.verdict], lane(scale, pieces)))
                cells.append((name, names(side.name), _WORDS[pair.verdict], str(pair.common_end), str(side.end),
                              str(side.records), str(side.readable), moment_text(side.first_time), moment_text(side.last_time),
                              "" if side.truncates_to is None else str(side.truncates_to), str(pair.differences)))  # fmt: skip
        if rows:
            yield key((("even", "the same on both sides"), ("three", "after the common end: only on this side")))
            yield element("div", *rows, class_="lanes")
            headings = ("partition", "side", "verdict", "common end", "log end", "only here", "readable", "first only here",
                        "last only here", "truncates to", "differences")  # fmt: skip
            yield folded("Table", table(headings, cells, ("side", "verdict", "first only here", "last only here")))
        for finding in self.findings:
            yield element("p", element("span", finding.code, class_=f"badge {finding.severity.value}"),
                          shown(f"{finding.where.file}: {finding.what}"))  # fmt: skip


def _only_text(side: SidePart) -> str:
    return f"{count_of(side.records, 'record')} only here, at least {side.readable} of them below the high watermark"


def compared(
    files: ReadOnlyFiles, paths: Iterable[str], choice: PartitionChoice, failed: Callable[[KafkalogError], None]
) -> Compared:
    """Compare the replicas at `paths`. Errors of partitions go to `failed`. Raises UsageError, UnreadableFile."""
    result, known = Compared(), set[Finding]()

    def report(finding: Finding) -> None:
        if finding not in known and finding.severity is not Severity.INFO:  # a replica is read for several comparisons
            result.findings.take(finding)
            known.update(result.findings[-1:])

    for copies in copies_of(files, find_nodes(files, paths, choice, report), report):
        if len(copies.copies) == 1:
            result.single += 1
            continue
        replicas: dict[str, Replica] = {}
        try:
            for name, path, _ in copies.copies:
                replicas[path] = Replica(files, path, name, report)
            _compare(copies, replicas, report, result)
        except KafkalogError as error:
            failed(error)
        finally:
            for replica in replicas.values():
                replica.close()
    return result


def _compare(copies: Copies, replicas: dict[str, Replica], report: Callable[[Finding], None], result: Compared) -> None:
    for (_, path), (_, other), are_unrelated in pairs_of(copies):
        if are_unrelated:
            result.unrelated += 1
            continue
        found = compare(replicas[path], replicas[other], report)
        result.counts[found.verdict] += 1
        if found.verdict is not Verdict.SAME and len(result.pairs) < _MOST:
            one, two = map(_part, found.sides)
            differences = len(found.differences) + found.differences.more
            result.pairs.append(Pair(copies.topic, copies.partition, found.verdict, found.common_end, differences, (one, two)))


def _part(side: Side) -> SidePart:
    replica = side.replica
    extents: list[Extent] = [one for one in (side.missing, side.after) if one is not None]
    times = [time for one in extents for time in (one.first_time, one.last_time) if time is not None]
    return SidePart(replica.name, replica.start, replica.end, sum(one.records for one in extents),
                    sum(one.readable for one in extents), min(times, default=None), max(times, default=None),
                    side.truncates_to)  # fmt: skip
