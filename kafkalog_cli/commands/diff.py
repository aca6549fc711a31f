"""kafkalog diff."""

from __future__ import annotations

from contextlib import nullcontext
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from engine.amounts import count_of, offset_span, offsets_text, time_text
from engine.dump.json_stream import bytes_field, text_field
from engine.errors import KafkalogError
from kafkalog_cli.engine_options import WHICH, choice_from, choice_options
from kafkalog_cli.help import DocumentedCommand, Example, Section
from kafkalog_cli.options import PATH, PATH_OR_URL, files_for, format_option, shown_size, version_option
from kafkalog_cli.show import show, time_cell, time_fields
from kafkalog_cli.table import Column

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.compare.acknowledged import Acknowledged, Lost
    from engine.compare.export import Export
    from engine.compare.nodes import Copies
    from engine.compare.replica import Batch, Replica
    from engine.compare.result import Comparison, Difference, Extent, Side
    from engine.files import ReadOnlyFiles
    from engine.findings import Finding
    from engine.image.elections import UncleanElection
    from kafkalog_cli.show import Output

_SECTIONS = (
    WHICH,
    Section("What is shown", ("--by", "--acks")),
    Section("Output", ("--export", "--format")),
)
_MAIN = ("--topic", "--by", "--acks", "--export", "--format")
_EXAMPLES = (
    Example("Are two replicas of a partition the same?", "kafkalog diff broker-1/data/orders-7 broker-2/data/orders-7"),
    Example("All partitions that nodes have in common:", "kafkalog diff broker-1 broker-2 broker-3"),
    Example("Which acknowledged records are lost?", "kafkalog diff --acks acknowledged.jsonl broker-1 broker-2"),
    Example("Save what only one of them has:", "kafkalog diff --export saved broker-1/data/orders-7 broker-2/data/orders-7"),
)
_STATUSES = {
    "0": "no problem found",
    "1": "a replica only ends earlier than another one",
    "4": "forked or differing replicas, damage, lost records, or only one side has the partitions of --topic",
}
_COLUMNS = (
    Column("only in", is_text=True, shrinks="-"), Column("offsets", is_text=True), Column("records"), Column("size", 4),
    Column("epochs", 3, is_text=True, shrinks="+"), Column("producers", 6, is_text=True, shrinks="+"),
    Column("first record", 2, is_text=True), Column("last record", 5, is_text=True), Column("readable≥", 1),
    Column("key", is_text=True, shrinks="+"),
)  # fmt: skip
_SHOWN = 10  # differences of a pair, and lost records, that text shows
_SHOWN_ROWS = 1000  # of a pair, that text shows
_SHOWN_KEY = 60  # characters
_MOST_FINDINGS = 10_000  # that are remembered; further ones may be printed twice


@click.command("diff", cls=DocumentedCommand, examples=_EXAMPLES, sections=_SECTIONS, main_options=_MAIN, statuses=_STATUSES)
@click.argument("paths", nargs=-1, required=True, type=PATH_OR_URL)
@choice_options
@click.option("--by", type=click.Choice(["range", "batch", "record"]), default="range", show_default=True,
              help="Show what only one replica has as one range, by batches or by records.")
@click.option("--acks", "acks", type=PATH, metavar="FILE",
              help="Show which acknowledged records each replica lacks. FILE has them as JSON lines with partition (orders-7), "
              "offset and key.")
@click.option("--export", "directory", type=PATH, metavar="DIR",
              help="Write what only one replica has to new files in DIR: batches, and JSON lines. append takes both.")
@format_option
@version_option
def command(paths: tuple[str, ...], form: str, **values: Any) -> int:
    """Compare replicas of partitions: where their histories fork, what only one has, and what differs without a fork.

    PATHS are partitions, log dirs or whole nodes; each one is a side, and a tree with several nodes has a side for each. For
    nodes, every pair of copies of each partition is compared, if the topic ids are equal. PATHS may be URLs (s3://BUCKET/KEY).
    diff also reads beside a running broker, and changes no log.

    `same`: the same bytes, or the same records in other batches. `prefix`: one only ends earlier. `FORKED`: each has records
    that the other does not have. `DIFFERS`: batches before the common end have other bytes; a damaged one is reported. A
    follower truncates its log to the offset that diff computes from the leader epochs, as Kafka does; the rest is lost there.

    Equal bytes are compared, not checked: use `verify` to find damage that both have. Records that the cleaner removed from one
    of them are not a difference if a later record with the same key proves it.

    `readable≥` are records below the high watermark in replication-offset-checkpoint: consumers could read at least these.
    The metadata log beside the partitions has the unclean elections.
    """

    def work(output: Output) -> None:
        from engine.export.target import held_directory
        from engine.files import Files

        with nullcontext() if values["directory"] is None else held_directory(Files(), values["directory"]):
            _Diff(paths, values, output).run()

    return show(form, work)


class _Diff:
    """Compares, and prints partition by partition."""

    def __init__(self, paths: tuple[str, ...], values: dict[str, Any], output: Output) -> None:
        self._paths, self._values, self._output = paths, values, output
        self._files: ReadOnlyFiles = files_for(paths)
        self._reported: set[Finding] = set()
        self._acks: Acknowledged | None = None
        self._export: Export | None = None
        self._elections: dict[tuple[str, int], list[UncleanElection]] = {}
        self._single: dict[str, list[str]] = {}  # side → partitions that no other side has

    def run(self) -> None:
        """Compare everything. Raises KafkalogError for PATHS; errors of partitions are printed."""
        from engine.compare.nodes import copies_of, elections_of, find_nodes
        from engine.discovery.patterns import expand
        from engine.errors import UsageError
        from engine.files import Files, ReadOnlyFiles

        paths = [path for pattern in self._paths for path in expand(self._files, pattern)]
        choice = choice_from(self._values)
        nodes = find_nodes(self._files, paths, choice, self._report)
        if self._values["directory"] is not None and len(nodes) > 2:
            raise UsageError("--export needs exactly two sides", "name two partitions, log dirs or nodes")
        if self._values["acks"] is not None:
            from engine.compare.acknowledged import Acknowledged

            self._acks = Acknowledged(ReadOnlyFiles(), self._values["acks"])
        try:
            self._elections = elections_of(self._files, nodes, self._report) or {}
        except KafkalogError as error:
            self._output.outcome.error(error)
        if self._values["directory"] is not None:
            from engine.compare.export import Export
            from engine.export.target import refuse_log_dirs

            log_dirs = [one.path for node in nodes for one in node.log_dirs if one.is_whole]
            refuse_log_dirs(Files(), self._values["directory"], log_dirs)
            self._export = Export(Files(), self._values["directory"], self._report)
        is_compared = False
        for copies in copies_of(self._files, nodes, self._report):
            if len(copies.copies) == 1:
                self._note_single(copies)
            else:
                is_compared = True
                self._compare(copies)
        for side, names in self._single.items():
            if self._output.stream is None:
                self._output.line(f"only in {side}: {', '.join(names)}")
        if self._single and not is_compared and not choice.is_all:
            self._output.outcome.at_least(4)  # a side lacks all partitions that were asked for
        elif not is_compared:
            raise UsageError("no partition is in two of them", "name nodes that have replicas of the same partitions")

    def _report(self, finding: Finding) -> None:
        """Add a finding once: a replica is read for several comparisons."""
        if finding not in self._reported:
            if len(self._reported) < _MOST_FINDINGS:
                self._reported.add(finding)
            self._output.outcome.finding(finding)

    def _note_single(self, copies: Copies) -> None:
        [(side, _, topic_id)] = copies.copies
        self._single.setdefault(side, []).append(f"{copies.topic}-{copies.partition}")
        self._put("comparison", copies, {"topic_id": topic_id, "sides": [side], "verdict": "single", **_NOTHING})

    def _put(self, kind: str, copies: Copies, fields: dict[str, object]) -> None:
        if self._output.stream is not None:
            self._output.stream.put(kind, {"topic": copies.topic, "partition": copies.partition, **fields})

    # ---- one partition

    def _compare(self, copies: Copies) -> None:
        from engine.compare.nodes import pairs_of
        from engine.compare.replica import Replica

        replicas: dict[str, Replica] = {}
        try:
            for name, path, _ in copies.copies:
                try:
                    replicas[path] = Replica(self._files, path, name, self._report)
                except KafkalogError as error:
                    self._output.outcome.error(error)
            for replica in replicas.values():
                self._put("lineage", copies, _lineage_fields(replica))
            for (name, path), (other_name, other_path), are_unrelated in pairs_of(copies):
                if are_unrelated:
                    self._show_unrelated(copies, name, other_name)
                elif path in replicas and other_path in replicas:
                    try:
                        self._compare_pair(copies, replicas[path], replicas[other_path])
                    except KafkalogError as error:
                        self._output.outcome.error(error)
            self._show_elections(copies)
            self._show_lost(copies, list(replicas.values()))
        finally:
            for replica in replicas.values():
                replica.close()
        self._output.flush()

    def _show_unrelated(self, copies: Copies, *names: str) -> None:
        ids = [str(topic_id) for name, _, topic_id in copies.copies if name in names]
        self._output.outcome.at_least(4)
        self._put("comparison", copies, {"topic_id": None, "sides": names, "verdict": "other-topic", **_NOTHING})
        if self._output.stream is None:
            what = f"{' and '.join(names)} have other topics of this name, with the ids {' and '.join(ids)}: not compared"
            self._output.line(f"{copies.topic}-{copies.partition}: {what}")

    def _compare_pair(self, copies: Copies, one: Replica, other: Replica) -> None:
        from engine.compare.batches import compare

        found = compare(one, other, self._report)
        self._output.outcome.at_least(_STATUS[found.verdict.value])
        if self._output.stream is None:
            self._show_text(copies, found)
        else:
            self._show_objects(copies, found)
        if self._export is not None:
            for file in self._export.write(f"{copies.topic}-{copies.partition}", found):
                self._put("saved-file", copies, {**text_field("path", file.path), "entries": file.entries, "bytes": file.size})
                if self._output.stream is None:
                    what = count_of(file.entries, "record" if file.path.endswith(".jsonl") else "batch")
                    self._output.line(f"  wrote {file.path}: {what}, {shown_size(file.size)}")

    def _rows(self, found: Comparison) -> Iterator[tuple[Side, Extent, bytes | None, bool]]:
        """Yield what only one side has, by --by: side, extent, key of a record; and whether it is before the common end."""
        from engine.compare.result import Extent

        by = self._values["by"]
        for side in found.sides:
            ranges = [(first, end, True) for first, end in side.gaps]
            ranges += [] if side.after is None else [(side.after.first, side.after.end, False)]
            if by == "range":
                extents = ((side.missing, True), (side.after, False))
                yield from ((side, extent, None, is_before) for extent, is_before in extents if extent is not None)
                continue
            for first, end, is_before in ranges:
                for batch in side.replica.batches_in([(first, end)]):
                    if by == "batch":
                        extent = Extent(max(first, batch.base_offset))
                        extent.add(batch, side.replica.count(batch), side.replica.high_watermark)
                        yield side, extent, None, is_before
                        continue
                    for record in side.replica.records(batch):
                        if first <= record.offset < end:
                            yield side, _extent_of(side, batch, record.offset, record.timestamp), record.key, is_before

    def _show_objects(self, copies: Copies, found: Comparison) -> None:
        names = [side.replica.name for side in found.sides]
        topic_id = next((side.replica.topic_id for side in found.sides if side.replica.topic_id is not None), None)
        common = {"topic_id": topic_id, "sides": names}
        self._put("comparison", copies, {
            **common, "verdict": found.verdict.value, "start": found.start, "common_end": found.common_end,
            "last_common_epoch": found.last_common_epoch, "truncates_to": [side.truncates_to for side in found.sides],
            "compacted": [side.compacted for side in found.sides], "rebatched": found.rebatched, "repeated": found.repeated,
            "differences": len(found.differences) + found.differences.more,
        })  # fmt: skip
        if found.verdict.value == "forked":
            self._put("fork", copies, {**common, "offset": found.common_end, "last_common_epoch": found.last_common_epoch})
        for side, extent, key, is_before in self._rows(found):
            other = next(name for name in names if name != side.replica.name)
            fields = _extent_fields(side, other, extent, is_before=is_before)
            self._put("only", copies, fields if self._values["by"] != "record" else {**fields, **bytes_field("key", key)})
        for difference in found.differences:
            self._put("differs", copies, {"sides": names, **_difference_fields(difference)})

    def _show_text(self, copies: Copies, found: Comparison) -> None:
        names = [side.replica.name for side in found.sides]
        line = self._output.line
        pair = f" ({', '.join(names)})" if len(copies.copies) > 2 else ""
        line(f"{copies.topic}-{copies.partition}{pair}: {_verdict_text(found)}")
        shown = islice(self._rows(found), _SHOWN_ROWS + 1)
        rows = [_cells(side, extent, key, by=self._values["by"]) for side, extent, key, _ in shown]
        if rows:
            self._output.table(_COLUMNS, rows[:_SHOWN_ROWS])
        if len(rows) > _SHOWN_ROWS:
            line(f"  only the first {_SHOWN_ROWS} are shown; --format jsonl shows all")
        if found.sides[0].after is not None and found.sides[1].after is not None:
            for text in _follower_lines(found):
                line(text)
        for side, other in zip(found.sides, reversed(names), strict=True):
            mark, end = side.replica.high_watermark, side.replica.end
            if mark is not None and mark > end:
                line(f"  {side.replica.name}: high watermark {mark} is beyond its end {end}: it lost records")
            if side.replica.lineage.is_from_batches and found.verdict.value != "same":
                line(f"  {side.replica.name}: leader-epoch-checkpoint has no epochs; those of the batches are used")
            if side.compacted:
                line(f"  {other}: the cleaner has removed {count_of(side.compacted, 'record')} that {side.replica.name} has")
        for difference in found.differences[:_SHOWN]:
            line(f"  {_difference_text(difference, names)}")
        more = len(found.differences[_SHOWN:]) + found.differences.more
        if more:
            line(f"  {count_of(more, 'more difference')}; --format jsonl shows up to 1000")

    def _show_elections(self, copies: Copies) -> None:
        topic_id = next((one for _, _, one in copies.copies if one is not None), None)
        for one in self._elections.get((topic_id or "", copies.partition), ()):
            fields = one._asdict()
            time_ms = fields.pop("time_ms")
            self._put("unclean-election", copies, {**fields, **time_fields("time", time_ms)})
            if self._output.stream is None:
                time = "" if one.time_ms is None else f" at {time_text(one.time_ms)}"
                self._output.line(f"  unclean election{time}: node {one.leader} became leader in epoch {one.leader_epoch}")

    def _show_lost(self, copies: Copies, replicas: list[Replica]) -> None:
        partition = copies.topic, copies.partition
        if self._acks is None or not self._acks.count(partition):
            return
        lost = {replica.name: self._acks.lost(partition, replica) for replica in replicas}
        nowhere = set.intersection(*({(one.offset, one.key) for one in found} for found in lost.values())) if lost else set()
        if nowhere:
            self._output.outcome.at_least(4)
        for name, found in lost.items():
            for one in found:
                self._put("lost", copies, {
                    "side": name, "offset": one.offset, **bytes_field("key", one.key), "has_other": one.has_other,
                    **bytes_field("now_key", one.now), "is_nowhere": (one.offset, one.key) in nowhere,
                })  # fmt: skip
            if self._output.stream is None:
                self._show_lost_text(name, found, self._acks.count(partition), nowhere)

    def _show_lost_text(self, name: str, found: list[Lost], count: int, nowhere: set[tuple[int, bytes | None]]) -> None:
        if not found:
            self._output.line(f"  {name} has all {count_of(count, 'acknowledged record')}")
            return
        none = sum((one.offset, one.key) in nowhere for one in found)
        only = f"; {none} of these are in no replica" if none else ""
        self._output.line(f"  {name} lacks {len(found)} of {count_of(count, 'acknowledged record')}{only}")
        for one in found[:_SHOWN]:
            now = "nothing is there" if not one.has_other else f"{_key_text(one.now)} is there"
            self._output.line(f"    offset {one.offset}: {_key_text(one.key)}; {now}")
        if len(found) > _SHOWN:
            self._output.line(f"    {len(found) - _SHOWN} more; --format jsonl shows all")


_STATUS = {"same": 0, "prefix": 1, "forked": 4, "differs": 4}
_NOTHING: dict[str, object] = {
    "start": None, "common_end": None, "last_common_epoch": None, "truncates_to": [], "compacted": [], "rebatched": 0,
    "repeated": 0, "differences": 0,
}  # fmt: skip


def _extent_of(side: Side, batch: Batch, offset: int, timestamp: int) -> Extent:
    from engine.compare.result import Extent

    extent = Extent(offset)
    one = batch._replace(base_offset=offset, last_offset=offset, max_timestamp=timestamp, base_timestamp=timestamp)
    extent.add(one, 1, side.replica.high_watermark)
    return extent


# ---- text


def _verdict_text(found: Comparison) -> str:
    one, other = found.sides
    offsets = offsets_text(found.start, found.common_end) if found.common_end > found.start else "no offset in common"
    later = next((side for side in found.sides if side.replica.start == found.start), one)
    before = f"; {later.replica.name} begins at {found.start}" if one.replica.start != other.replica.start else ""
    epoch = "" if found.last_common_epoch is None else f", epoch {found.last_common_epoch}"
    verdict = found.verdict.value
    if verdict == "forked":
        common = f"{offsets} in common{epoch}" if found.common_end > found.start else offsets
        return f"FORKED at offset {found.common_end} ({common}){before}"
    if verdict == "prefix":
        longer, shorter = (one, other) if one.after is not None else (other, one)
        ends = f"{shorter.replica.name} ends at {found.common_end}, {longer.replica.name} at {longer.replica.end}"
        return f"{ends}; the same up to there{before}"
    if verdict == "differs":
        return f"DIFFERS before offset {found.common_end}{before}"
    return f"same: {offsets}{before}"


def _follower_lines(found: Comparison) -> Iterator[str]:
    offsets = {side.truncates_to for side in found.sides}
    if len(offsets) == 1 and None not in offsets:
        yield f"  a follower truncates to {offsets.pop()}"
        offsets = set()
    for side, leader in zip(found.sides, reversed(found.sides), strict=True):
        if offsets:
            to = "its high watermark" if side.truncates_to is None else str(side.truncates_to)
            yield f"  {side.replica.name} as follower of {leader.replica.name} truncates to {to}"
    for side, leader in zip(found.sides, reversed(found.sides), strict=True):
        mark, after = side.replica.high_watermark, side.after
        if mark is not None and after is not None and after.readable:
            lost = f"at least {count_of(after.readable, 'record')} were readable, lost if {leader.replica.name} leads"
            yield f"  {side.replica.name}: high watermark {mark} (checkpoint): {lost}"
    if found.repeated:
        yield f"  {count_of(found.repeated, 'record')} after the fork are the same in both: a producer sent them again"


def _cells(side: Side, extent: Extent, key: bytes | None, *, by: str) -> list[str]:
    offsets = offset_span(extent.first, extent.end)
    producers = sorted(extent.producers)
    return [
        side.replica.name, offsets, str(extent.records), shown_size(extent.size) if by != "record" else "",
        ", ".join(map(str, sorted(extent.epochs))), ", ".join(map(str, producers)), time_cell(extent.first_time),
        time_cell(extent.last_time) if by != "record" else "",
        "" if side.replica.high_watermark is None else str(extent.readable), _key_text(key) if by == "record" else "",
    ]  # fmt: skip


def _key_text(key: bytes | None) -> str:
    if key is None:
        return "(no key)"
    text = key.decode("utf-8", "backslashreplace")
    return text if len(text) <= _SHOWN_KEY else text[: _SHOWN_KEY - 1] + "…"


def _difference_text(difference: Difference, names: list[str]) -> str:
    where = offsets_text(difference.first, difference.end)
    kind = difference.kind.value
    if kind == "damage":
        wrong = [name for name, batch in zip(names, difference.batches, strict=True) if not batch.is_valid]
        return f"{where}: the checksum is wrong in {' and '.join(wrong)}"
    if kind == "epoch":
        epochs = ", ".join(f"{batch.leader_epoch} in {name}" for name, batch in zip(names, difference.batches, strict=True))
        return f"{where}: the same records, but the leader epoch is {epochs}"
    if kind == "offset":
        bases = ", ".join(f"{batch.base_offset} in {name}" for name, batch in zip(names, difference.batches, strict=True))
        return f"{where}: the same batch, but its offset is {bases}"
    return f"{where}: other records, and both checksums are right"


# ---- JSON


def _lineage_fields(replica: Replica) -> dict[str, object]:
    lineage = replica.lineage
    return {
        "side": replica.name, **text_field("path", replica.directory), "topic_id": replica.topic_id,
        "epochs": [[entry.epoch, entry.start_offset] for entry in lineage.epochs],
        "epochs_from": "batches" if lineage.is_from_batches else "checkpoint", "log_start_offset": replica.start,
        "log_end_offset": replica.end, "high_watermark": replica.high_watermark,
    }  # fmt: skip


def _extent_fields(side: Side, other: str, extent: Extent, *, is_before: bool) -> dict[str, object]:
    return {
        "side": side.replica.name, "not_in": other, "from": extent.first, "to": extent.end,
        "is_before_common_end": is_before, "batches": extent.batches, "records": extent.records, "markers": extent.markers,
        "bytes": extent.size, "readable_records": None if side.replica.high_watermark is None else extent.readable,
        **time_fields("first_time", extent.first_time), **time_fields("last_time", extent.last_time),
        "producers": sorted(extent.producers), "epochs": sorted(extent.epochs), "is_transactional": extent.is_transactional,
    }  # fmt: skip


def _difference_fields(difference: Difference) -> dict[str, object]:
    one, other = difference.batches
    return {
        "kind": difference.kind.value, "from": difference.first, "to": difference.end, "a_crc": one.crc, "b_crc": other.crc,
        "a_is_valid": one.is_valid, "b_is_valid": other.is_valid, "a_leader_epoch": one.leader_epoch,
        "b_leader_epoch": other.leader_epoch, "a_base_offset": one.base_offset, "b_base_offset": other.base_offset,
    }  # fmt: skip
