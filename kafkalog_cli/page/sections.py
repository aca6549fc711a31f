"""The sections of the page, each from a part of what is known. A section without content is left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element  # only written here, never parsed

from engine.amounts import count_of, duration_text, offset_span, offsets_text, size_text
from engine.checkpoint.identity import broker_text
from engine.discovery.names import METADATA_TOPIC, offset_of
from engine.findings import Severity
from engine.log.starting.outcome import Verdict
from engine.overview.summary import State, map_of_log
from kafkalog_cli.checking import HEADLINES, would
from kafkalog_cli.page.charts import moment_text, rate_chart, span_text
from kafkalog_cli.page.drawings import Piece, Scale, bar, key, lane, row, time_axis
from kafkalog_cli.page.elements import element, folded, table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from engine.errors import KafkalogError
    from engine.findings import Finding
    from engine.log.starting.outcome import LoadedLog, Start
    from engine.overview.summary import Replica, Summary
    from engine.overview.timeline import Amount
    from engine.overview.usage import Usage
    from kafkalog_cli.checking import CheckResult
    from kafkalog_cli.page.comparison import Compared

_MOST_PLACES, _MOST_CHARTS, _MOST_LANES, _MOST_PRODUCERS, _MOST_ROWS = 20, 40, 40, 30, 2000
_THIN_SPACE = "\u202f"  # between thousands; does not break
_CLASSES = {"green": "good", "yellow": "fair", "red": "bad"}
_ORDER = list(reversed(Severity))


@dataclass(slots=True)
class Content:
    """What the page shows.

    shown     replaces names, if they are to be replaced
    errors    about what could not be read
    compared  None: nothing was compared
    """

    results: Sequence[CheckResult]
    summary: Summary
    errors: Sequence[KafkalogError]
    now: int
    shown: Callable[[str], str]
    compared: Compared | None = None

    @property
    def has_nodes(self) -> bool:
        """Return whether there are several brokers."""
        return len(self.summary.brokers) > 1

    def name(self, replica: Replica) -> str:
        """TOPIC-PARTITION, and the broker if there are several."""
        kind = replica.state.partition.name.kind.value.strip("-")
        node = f" on node {replica.node}" if self.has_nodes and replica.node is not None else ""
        return f"{self.shown(replica.name)}{f' ({kind})' if kind else ''}{node}"

    def findings(self) -> list[Finding]:
        """Return all findings, the worst first."""
        found = [finding for result in self.results for finding in result.findings]
        return sorted(found, key=lambda one: (_ORDER.index(one.severity), one.code))


def sections(content: Content) -> Iterator[tuple[str, str, list[Element]]]:
    """Yield (id, heading, elements) of each section."""
    for name, heading, make in (
        ("findings", "Findings", _findings), ("map", "Map of the damage", _maps), ("gaps", "Missing offsets", _gaps),
        ("compared", "Replicas compared", _compared), ("rates", "Rates", _rates), ("space", "Space", _space),
        ("segments", "Segments and retention", _segments), ("epochs", "Leader epochs", _epochs),
        ("producers", "Producers", _producers), ("partitions", "Partitions", _partitions), ("basis", "What was read", _basis),
    ):  # fmt: skip
        elements = list(make(content))
        if elements:
            yield name, heading, elements


# ---- verdict and numbers


def verdict(content: Content, result: CheckResult) -> Element:
    """Return the verdict on one broker."""
    start, counts = result.start, result.counts
    errors, warnings = counts[Severity.ERROR], counts[Severity.WARNING]
    problems = f"{count_of(errors, 'error')}, {count_of(warnings, 'warning')}"
    if result.errors:
        problems += f", {count_of(len(result.errors), 'partition')} unreadable"
    shown = content.shown
    dirs = ", ".join(map(shown, result.log_dirs))
    if start is None:
        return element("section", element("strong", "NO VERDICT"), element("p", f"no whole log dirs of a broker: {dirs}"),
                       element("p", problems), class_="verdict")  # fmt: skip
    words, colour = HEADLINES[start.verdict]
    colour = "yellow" if colour == "green" and (errors or result.errors) else colour
    who = broker_text(start.node_id, start.cluster_id)
    running = ", which is running now" if start.is_running else ""
    return element(
        "section", element("strong", words),
        element("p", shown(f"{who}{running}: {count_of(len(start.logs), 'log')} in "), element("span", dirs, class_="path")),
        *_why(start, shown), element("p", f"A start {would(start)}."), element("p", problems, class_="soft"),
        class_=f"verdict {_CLASSES[colour]}",
    )  # fmt: skip


def _why(start: Start, shown: Callable[[str], str]) -> Iterator[Element]:
    if start.verdict is Verdict.STARTS or start.decided_by is None:
        return
    if start.broker_says:
        yield element("blockquote", shown(start.broker_says))
    yield element("p", shown(start.decided_by.what))
    if start.decided_by.do:
        yield element("pre", element("code", shown(start.decided_by.do)))


def numbers(content: Content) -> Element:
    """Return the most important numbers."""
    summary, amount = content.summary, content.summary.amount
    verified = [done for result in content.results for done in result.verified]
    pairs = [
        ("partitions", _grouped(len(content.summary.replicas))), ("topics", _grouped(len(summary.topics))),
        ("records", _grouped(amount.records)), ("in logs", size_text(summary.total.log)),
        ("all files", size_text(summary.total.size)),
        ("segments", _grouped(sum(done.segments for done in verified))),
        ("batches", _grouped(sum(done.batches for done in verified))),
        ("first record", moment_text(amount.first_time)), ("last record", moment_text(amount.last_time)),
    ]  # fmt: skip
    if content.has_nodes:
        pairs.insert(0, ("brokers", str(len(summary.brokers))))
    tiles = (element("div", element("dt", name), element("dd", value), class_="when" if name.endswith(" record") else None)
             for name, value in pairs)  # fmt: skip
    return element("dl", *tiles, class_="tiles")


def _grouped(number: int) -> str:
    return f"{number:,}".replace(",", _THIN_SPACE)


# ---- findings


def _findings(content: Content) -> Iterator[Element]:
    by_code: dict[tuple[Severity, str], list[Finding]] = {}
    for finding in content.findings():
        by_code.setdefault((finding.severity, finding.code), []).append(finding)
    bad = [_finding(content, same) for (severity, _), same in by_code.items() if severity is not Severity.INFO]
    harmless = [_finding(content, same) for (severity, _), same in by_code.items() if severity is Severity.INFO]
    for made in bad:
        made.set("open", "")
        yield made
    if not bad:
        yield element("p", "No errors and no warnings in what was read.")
    if harmless:
        count = sum(len(same) for (severity, _), same in by_code.items() if severity is Severity.INFO)
        yield folded(f"{count} harmless", *harmless)


def _finding(content: Content, same: list[Finding]) -> Element:
    first, shown = same[0], content.shown
    title = element("summary", element("span", f"{first.severity.value} {first.code}", class_=f"badge {first.severity.value}"),
                    f" {len(same)} × " if len(same) > 1 else "", shown(first.kind.why))  # fmt: skip
    places = []
    for one in same[:_MOST_PLACES]:
        at = "" if one.where.position is None else f" at byte {one.where.position}"
        offset = "" if one.where.offset is None else f", offset {one.where.offset}"
        places.append(element("li", element("span", shown(one.where.file), class_="path"), f"{at}{offset}: {shown(one.what)}"))
    if len(same) > _MOST_PLACES:
        places.append(element("li", f"{len(same) - _MOST_PLACES} more"))
    do = element("pre", element("code", shown(first.do)))
    return element("details", title, element("ul", *places), do, class_="finding")


def _loaded(content: Content) -> dict[str, LoadedLog]:
    return {log.path: log for result in content.results if result.start is not None for log in result.start.logs}


def _maps(content: Content) -> Iterator[Element]:
    loaded, rows, used = _loaded(content), [], set[State]()
    broken: dict[str, set[int]] = {}
    for finding in content.findings():
        directory, _, name = finding.where.file.rpartition("/")
        if finding.severity is Severity.ERROR and name.endswith(".log") and (base := offset_of(name)) is not None:
            broken.setdefault(directory, set()).add(base)
    for replica in content.summary.replicas:
        path = replica.state.partition.path
        parts = map_of_log(replica, loaded.get(path), broken.get(path, ()))
        used.update(part.state for part in parts)
        if parts:
            cells = [(offset_span(part.first, part.end), _STATES[part.state]) for part in parts]
            pieces = [Piece(part.first, part.end, part.state.value, f"{offsets_text(part.first, part.end)}: {what}")
                      for part, (_, what) in zip(parts, cells, strict=True)]  # fmt: skip
            scale = Scale(parts[0].first, parts[-1].end)
            rows.append(row(content.name(replica), offsets_text(parts[0].first, parts[-1].end), lane(scale, pieces)))
            rows.append(folded("Table", table(("offsets", "what is known"), cells, ("what is known",))))
    if rows:
        yield key([(state.value, text) for state, text in _STATES.items() if state in used])
        yield element("div", *rows, class_="lanes")


_STATES = {
    State.READ: "read, checksums right", State.HEADERS: "only batch headers were read", State.MISSING: "missing",
    State.DAMAGED: "damaged, or removed by a start",
}


def _gaps(content: Content) -> Iterator[Element]:
    rows, more = [], 0
    for replica in content.summary.replicas:
        times = {gap.first: gap for gap in (replica.timeline.gaps if replica.timeline is not None else ())}
        for first, end in replica.missing:
            gap = times.get(first)
            rows.append((content.name(replica), str(first), str(end - 1), str(end - first),
                         moment_text(None if gap is None or gap.time_before < 0 else gap.time_before),
                         moment_text(None if gap is None or gap.time_after < 0 else gap.time_after)))  # fmt: skip
    if rows:
        more = len(rows) - _MOST_ROWS
        yield element("p", "No batch has these offsets, and compaction does not explain it.", class_="soft")
        yield table(("partition", "first", "last", "offsets", "record before", "record after"), rows[:_MOST_ROWS],
                    ("record before", "record after"))  # fmt: skip
        if more > 0:
            yield element("p", f"{more} more are not shown.")


# ---- contents


def _rates(content: Content) -> Iterator[Element]:
    topics = sorted((one for one in content.summary.topics.values() if one.amounts.rates.amounts),
                    key=lambda one: (one.name == METADATA_TOPIC, -one.amounts.total.size))  # fmt: skip
    figures = []
    for topic in topics[:_MOST_CHARTS]:
        rates, total, name = topic.amounts.rates, topic.amounts.total, content.shown(topic.name)
        remark = (f"records per {_interval(rates.width)}; {count_of(total.records, 'record')}, {size_text(total.size)}, "
                  f"{_span(total)}")  # fmt: skip
        rows = [(moment_text(at * rates.width), str(records), size_text(size))
                for at, (records, size) in sorted(rates.amounts.items())]  # fmt: skip
        figures.append(element(
            "figure", element("figcaption", name, element("small", remark)), rate_chart(rates, f"records of {name} over time"),
            folded("Table", table(("from", "records", "bytes"), rows, ())),
        ))  # fmt: skip
    if figures:
        yield element("p", "Each chart has its own scale. Where there is no bar, no batch was written. Of several replicas of "
                      "a partition only the longest one counts.", class_="soft")  # fmt: skip
        yield element("div", *figures, class_="charts")
    if len(topics) > _MOST_CHARTS:
        yield element("p", f"{len(topics) - _MOST_CHARTS} smaller topics are not drawn: --topic chooses them.")


def _interval(ms: int) -> str:
    for scale, unit in ((86_400_000, "day"), (3_600_000, "hour"), (60_000, "minute"), (1000, "second")):
        if ms >= scale:
            return unit if ms == scale else count_of(ms // scale, unit)
    return f"{ms} ms"


def _span(amount: Amount) -> str:
    if amount.first_time is None or amount.last_time is None:
        return "no timestamps"
    return span_text(amount.first_time, amount.last_time)


def _space(content: Content) -> Iterator[Element]:
    summary, rows = content.summary, list[list[Element | str]]()
    groups = [(content.shown(one.name), one.usage) for one in summary.topics.values()]
    groups.append(("(files of log dirs)", summary.log_dir_files))
    most = max(usage.size for _, usage in groups)
    for name, usage in sorted(groups, key=lambda one: -one[1].size)[:_MOST_ROWS]:
        parts = [(size, kind, f"{what}: {size_text(size)}") for size, kind, what in (
            (usage.log, "one", "log"), (usage.beside, "two", "beside"), (usage.left_over, "three", "left over"))]  # fmt: skip
        rows.append([name, *_sizes(usage), bar(parts, most)])
    rows.append(["total", *_sizes(summary.total), ""])
    yield key((("one", "log: .log files in use, as kafka-log-dirs counts"), ("two", "beside: indexes, snapshots, checkpoints"),
               ("three", "left over: files that no log uses")))  # fmt: skip
    yield table(("topic", "log", "beside", "left over", "total", ""), rows, ())


def _sizes(usage: Usage) -> list[str]:
    return [size_text(size) for size in (usage.log, usage.beside, usage.left_over, usage.size)]


def _segments(content: Content) -> Iterator[Element]:
    drawn = [one for one in content.summary.replicas if one.state.partition.name.topic != METADATA_TOPIC
             and one.timeline is not None and one.timeline.segments]  # fmt: skip
    chosen = sorted(drawn, key=lambda one: -one.state.log_size)[:_MOST_LANES]
    by_topic: dict[str, list[Replica]] = {}
    for replica in sorted(chosen, key=lambda one: (one.state.partition.key, one.node or 0)):
        by_topic.setdefault(replica.state.partition.name.topic, []).append(replica)
    made = [one for topic, replicas in by_topic.items() for one in _segments_of(content, topic, replicas)]
    if made:
        yield key((("even", "segment, by the times of its records"),
                   ("old", "older than retention.ms: the next check of retention deletes it")))  # fmt: skip
        yield from made


def _segments_of(content: Content, topic: str, replicas: list[Replica]) -> Iterator[Element]:
    spans = [(replica, at, span) for replica in replicas if replica.timeline is not None
             for at, span in enumerate(replica.timeline.segments) if span.amount.first_time is not None]  # fmt: skip
    times = [time for _, _, span in spans for time in (span.amount.first_time, span.amount.last_time) if time is not None]
    if not times:
        return
    retention = replicas[0].retention_ms
    cutoff = None if retention is None else content.now - retention
    scale, rows, cells = Scale(min(times), max(times)), [], []
    for replica in replicas:
        pieces = []
        for other, at, span in spans:
            first, last = span.amount.first_time, span.amount.last_time
            if other is replica and first is not None and last is not None:
                kind = "old" if cutoff is not None and last < cutoff else "odd" if at % 2 else "even"
                title = f"{offsets_text(span.base, span.end)}, {size_text(span.amount.size)}, {span_text(first, last)}"
                pieces.append(Piece(first, last, kind, title))
                cells.append((content.name(replica), str(span.base), str(span.end - 1), str(span.amount.records),
                              size_text(span.amount.size), moment_text(first), moment_text(last)))  # fmt: skip
        marks = [] if cutoff is None or not scale.first <= cutoff <= scale.end else [(cutoff, "mark", moment_text(cutoff))]
        remark = f"{count_of(replica.state.segments, 'segment')}, {size_text(replica.state.log_size)}"
        rows.append(row(content.name(replica), remark, lane(scale, pieces, marks)))
    yield element("h3", content.shown(topic), element("span", f" – {_retention(replicas[0])}", class_="soft"))
    yield element("div", *rows, time_axis(scale), class_="lanes")
    yield folded("Table", table(("partition", "first offset", "last offset", "records", "size", "first record", "last record"),
                                cells[:_MOST_ROWS], ("first record", "last record")))  # fmt: skip


def _retention(replica: Replica) -> str:
    if replica.policy == "compact":
        return "compacted, without retention by time"
    if not replica.knows_retention:
        return "retention not known: see --config-file"
    if replica.retention_ms is None:
        return "without retention by time"
    return f"retention {duration_text(replica.retention_ms)}"


def _epochs(content: Content) -> Iterator[Element]:
    chosen = [one for one in content.summary.replicas
              if len(_epochs_of(one)) > 1 and one.state.partition.name.topic != METADATA_TOPIC]  # fmt: skip
    rows, cells = [], []
    ends: dict[str, tuple[int, int]] = {}
    for replica in chosen:
        first, end = ends.get(replica.name, (replica.state.start or 0, replica.state.end or 0))
        ends[replica.name] = min(first, replica.state.start or 0), max(end, replica.state.end or 0)
    for replica in sorted(chosen, key=lambda one: (one.state.partition.key, one.node or 0))[:_MOST_LANES]:
        pieces, marks = [], []
        for at, (epoch, first, end, times) in enumerate(_epochs_of(replica)):
            name = f"epoch {epoch}"
            if first == end:
                marks.append((first, "begin", f"{name} begins at offset {first}, without records"))
            else:
                title = f"{name}: {offsets_text(first, end)}{times and ', '}{times}"
                pieces.append(Piece(first, end, "odd" if at % 2 else "even", title, str(epoch)))
            cells.append((content.name(replica), str(epoch), str(first), str(end), times))
        rows.append(row(content.name(replica), f"log end {replica.state.end}", lane(Scale(*ends[replica.name]), pieces, marks)))
    if rows:
        yield element("p", "The offsets of each leader epoch of partitions that had several. Replicas of a partition have "
                      "the same scale. A line is an epoch without records.", class_="soft")  # fmt: skip
        yield element("div", *rows, class_="lanes")
        yield folded("Table", table(("partition", "epoch", "first offset", "end", "time"), cells, ("time",)))
    if len(chosen) > _MOST_LANES:
        yield element("p", f"{len(chosen) - _MOST_LANES} more partitions are not drawn: --topic chooses them.")


def _epochs_of(replica: Replica) -> list[tuple[int, int, int, str]]:
    """(epoch, first offset, end, times) of leader-epoch-checkpoint and of the batches, which may differ."""
    spans = [] if replica.timeline is None else replica.timeline.epochs
    known = {one.epoch: (one.epoch, one.first, one.end, span_text(one.first_time, one.last_time) if one.first_time >= 0 else "")
             for one in spans if one.epoch >= 0}  # fmt: skip
    for entry in replica.epochs:
        known.setdefault(entry.epoch, (entry.epoch, entry.start_offset, entry.start_offset, ""))
    return sorted(known.values())


def _compared(content: Content) -> Iterator[Element]:
    if content.compared is not None:
        sides = dict.fromkeys(side.name for pair in content.compared.pairs for side in pair.sides)
        numbers = {name: f"side {number}" for number, name in enumerate(sides, 1)}
        yield from content.compared.section(content.shown, str if content.shown is str else numbers.__getitem__)


def _producers(content: Content) -> Iterator[Element]:
    found = content.summary.producers()
    most = max((one.amount.size for one in found), default=0)
    rows = []
    for one in found[:_MOST_PRODUCERS]:
        more = f" and {len(one.topics) - 3} more" if len(one.topics) > 3 else ""
        amount, size, topics = one.amount, size_text(one.amount.size), ", ".join(map(content.shown, one.topics[:3])) + more
        rows.append((str(one.producer_id), str(one.epoch), str(amount.records), size, bar([(amount.size, "one", size)], most),
                     moment_text(amount.first_time), moment_text(amount.last_time), topics))  # fmt: skip
    if rows:
        yield table(("producer id", "epoch", "records", "bytes", "", "first batch", "last batch", "topics"), rows,
                    ("first batch", "last batch", "topics"))  # fmt: skip
    if len(found) > _MOST_PRODUCERS:
        yield element("p", f"{len(found) - _MOST_PRODUCERS} more are not shown: kafkalog du --by producer lists them.")


def _partitions(content: Content) -> Iterator[Element]:
    replicas = content.summary.replicas
    rows = []
    for replica in replicas[:_MOST_ROWS]:
        state = replica.state
        flags = ", ".join(flag.value for flag in sorted(state.flags, key=lambda flag: flag.value))
        rows.append((content.name(replica), _number(state.start), _number(state.end), str(state.offsets), str(state.segments),
                     size_text(state.log_size), size_text(state.size), moment_text(state.last_time),
                     _number(state.leader_epoch), replica.policy or "", flags))  # fmt: skip
    yield table(("partition", "start", "end", "records ≤", "segments", "log", "all files", "last record", "epoch", "policy",
                 "flags"), rows, ("last record", "policy", "flags"))  # fmt: skip
    if len(replicas) > _MOST_ROWS:
        yield element("p", f"{len(replicas) - _MOST_ROWS} more are not shown: kafkalog ls lists them.")


def _number(value: int | None) -> str:
    return "" if value is None else str(value)


def _basis(content: Content) -> Iterator[Element]:
    verified = [done for result in content.results for done in result.verified]
    recovered = sum(log.is_recovered for log in _loaded(content).values())
    read = (f"Read: identities, checkpoints, names and sizes of files, indexes, and the headers of "
            f"{count_of(sum(done.batches for done in verified), 'batch')}.")  # fmt: skip
    if recovered:
        read += f" Of the {count_of(recovered, 'log')} that a start recovers, also every batch from the recovery point on."
    yield element("p", f"{read} Not read: records, and the checksums of all other batches. This command reads everything:")
    paths = " ".join(path for result in content.results for path in map(content.shown, result.log_dirs))
    yield element("pre", element("code", f"kafkalog check --level full {paths}"))
    amounts = [topic.amounts for topic in content.summary.topics.values()]
    outside, untimed = sum(one.outside for one in amounts), sum(one.rates.untimed for one in amounts)
    if outside:
        what = f"{count_of(outside, 'record')} with timestamps outside of the range, or more than a day in the future"
        yield element("p", f"Not counted in rates and sums: {what}.")
    if untimed:
        yield element("p", f"Not in the charts: {count_of(untimed, 'record')} without a timestamp.")
    if any(one.has_unknown_counts for one in amounts):
        yield element("p", "Compressed batches of message formats 0 and 1 count as one record.")
    for error in content.errors:
        yield element("p", element("span", "not read", class_="badge error"), content.shown(str(error)))
