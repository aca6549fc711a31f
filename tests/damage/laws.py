"""The laws that hold of every damage, for each kind of start.

a  Where the broker starts, `recover` leaves the files that the broker leaves. (The new epoch of the broker and `.deleted` files
   apart; of a partition that it sets aside, or whose log dir it takes offline, only the logs.)
b  Where it stops, `recover --dry-run` says that a broker does not start. What `recover` removes is in the quarantine, and
   events name all its offsets; where a broker starts, those that no other batch holds. Of log dirs: `recover --dry-run` and `verify-index` do not end with status 0.
c  `recover --salvage` keeps every original batch that was sound in a .log. Where another sound batch has the same offsets, one
   of them may go: then an event names the offsets with a reason other than that the bytes belong to no sound batch.
d  Nothing is called sound, and no status is 0, where original batches are missing and something on the disk proves it. Of
   `recover` only what it reads counts (`unreadBelow`); checkpoints it always reads. After a repair that named the loss, a
   high watermark beyond the end does not count.
e  The dry run changes nothing and says what the run says; `restore` brings every byte back.
f  A second run changes nothing and finds nothing new. Producer snapshots of segments that overlap do not count, nor at a clean
   start snapshots and leader epochs: Kafka's second start changes them as well (tests/oracle/test_damaged_pairs.py compares).
   verify-index then has no warning or error of a code that it had not before (but `offset-gap` after a loss that was named),
   unless `recover` ended with 4: something wrong is left. Of a transaction whose entry in a transaction index was missing, the
   entry may be wrong now, if `recover` did not read the whole log: it takes what lies below from the producer snapshot, as Kafka
   does (tests/oracle/test_damaged_pairs.py compares). After a salvage that read everything it has no error at all.
g  Where verify-index reports a loss, or damage in a log, no status of the first `recover` is 0, of a recovery that read it.
   `recover --salvage` reads everything.
z  What is not damaged is called sound.
"""

from __future__ import annotations

import json
import re
import struct
from typing import TYPE_CHECKING, Any, NamedTuple

from engine.findings import LOSSES
from engine.log.verify.losses import COMPARED
from tests.damage.evidence import (
    bases_left,
    broker_differs,
    checkpoints_of,
    first_backwards,
    last_offsets,
    ranges,
    sound_batches,
)
from tests.damage.repairs import partition_after
from tests.damage.truth import Batch, Violation

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.damage.repairs import Repair, Start, Verdict

STOPS = re.compile(
    r"(broker|kafka)[^.]{0,60}(would not|does not|will not|can ?not) start|broker (stops|gives up)|broker-stops|log-dir-offline",
    re.IGNORECASE,
)
VAGUE = "belong to no sound batch"
KEEPS = ("kept", "recovered")  # actions of events that name no loss
REST = 1 << 62  # the end of an event that has none


class Case(NamedTuple):
    """One damage with one kind of start."""

    id: str
    mode: str
    damage: dict[str, Any]
    start: Start

    @property
    def broker(self) -> dict[str, Any]:
        """What the broker did; empty if it was not run."""
        return self.damage.get(self.mode, {})

    @property
    def name(self) -> str:
        return self.damage["partition"].partition("/")[2]

    @property
    def directory(self) -> Path:
        """The partition before any repair."""
        return self.start.source / self.damage["partition"]

    @property
    def original(self) -> list[Batch]:
        return [(base, last, crc) for base, last, crc in self.damage["original"]]

    def batches(self, bases: set[int] | list[int]) -> str:
        """Format batches as text."""
        ends = {base: last for base, last, _ in self.original}
        return f"{len(bases)} batches, offsets {ranges(offset for base in bases for offset in range(base, ends[base] + 1))}"

    @property
    def recover(self) -> Repair:
        return self.start.repairs["recover"]

    @property
    def salvage(self) -> Repair:
        return self.start.repairs["recover --salvage"]

    @property
    def verified(self) -> Verdict:
        return self.start.verified[self.name]


def violations(case: Case) -> list[Violation]:
    """Return the violations of the laws."""
    wanted = (case.recover.dry, case.recover.real, case.salvage.real)
    if any(case.name not in reports for reports in wanted) or partition_after(case.recover, case.name) is None:
        return [Violation("b", "recover says nothing of this partition, or it is gone")]
    laws = {"a": _same_as_broker, "b": _stop_is_foretold, "c": _salvage_keeps, "d": _loss_is_reported, "e": _can_be_undone,
            "f": _is_stable, "g": _verdicts_agree, "z": _no_false_alarm}  # fmt: skip
    return [Violation(name, text) for name, law in laws.items() for text in law(case)]


def _same_as_broker(case: Case) -> Iterator[str]:
    if "files" not in case.broker:
        return
    after = partition_after(case.recover, case.name)
    assert after is not None
    if differ := broker_differs(case.broker, after):
        kept = len(bases_left(after, case.original))
        yield f"{short(differ)}; batches: broker {len(case.broker['left'])}, kafkalog {kept}"


def _stop_is_foretold(case: Case) -> Iterator[str]:
    dry, report = case.recover.dry[case.name], case.recover.real[case.name]
    if not case.broker.get("started", True) and not STOPS.search(json.dumps(dry, ensure_ascii=False)):
        words = case.broker["words"].split(": ", 1)[-1][:160]
        yield f"recover --dry-run (status {dry['exit_status']}) does not say that a broker stops: {words}"
    removed = set(case.damage["before"]) - bases_left(partition_after(case.recover, case.name), case.original)
    if bare := [base for base, _, crc in case.original if base in removed and (base, crc) not in case.recover.quarantined]:
        yield f"recover removes sound batches that the quarantine does not hold: {case.batches(bare)}"
    held = set() if not case.broker.get("started", True) else _offsets_in(partition_after(case.recover, case.name))
    if unnamed := [base for base, last, _ in case.original if base in removed and any(
            offset not in held and reasons(report, offset, offset) is None for offset in range(base, last + 1))]:
        yield f"recover removes sound batches and names them nowhere: {case.batches(unnamed)} (status {report['exit_status']})"


def _offsets_in(partition: Path | None) -> set[int]:
    batches = sound_batches(partition) if partition else {}
    return {offset for (base, _), last in batches.items() for offset in range(base, last + 1)}


def _salvage_keeps(case: Case) -> Iterator[str]:
    after = partition_after(case.salvage, case.name)
    rescued, everything = bases_left(after, case.original), sound_batches(case.directory)
    report, on_disk = case.salvage.real[case.name], set(case.damage["before"])
    start = case.damage["checkpoints"].get("log_start", 0)
    if start > max((last for _, last, _ in case.original), default=0):
        start = 0
    lost, vague = [], []
    for base, last, crc in case.original:
        if base not in on_disk or base in rescued or last < start:
            continue
        rivals = any((first, other) != (base, crc) and first <= last and base <= end for (first, other), end in everything.items())
        why = reasons(report, base, last)
        if not rivals:
            lost.append(base)
        elif why is None or any(VAGUE in one for one in why):
            vague.append(base)
    if lost:
        yield f"salvage loses sound batches: {case.batches(lost)} of {len(on_disk)}"
    if vague:
        yield f"salvage drops one of two sound versions and does not say which and why: {case.batches(vague)}"


def _loss_is_reported(case: Case) -> Iterator[str]:
    said = {kind: offset for kind, offset in case.damage["checkpoints"].items() if (case.mode, kind) != ("full", "recovery_point")}
    if proven := proofs(case.directory, case.original, said):
        if case.verified.is_silent:
            yield f"verify-index: sound, though {case.batches(set(proven))} are missing: {proven[min(proven)]}"
        for label, repair in case.start.repairs.items():
            report = repair.real[case.name]
            unread = report.get("unread_below")
            seen = {base: why for base, why in proven.items() if unread is None or base >= unread or why.startswith("checkpoints")}
            if seen and report["exit_status"] == 0:
                yield f"{label}: status 0, though {case.batches(set(seen))} are missing: {seen[min(seen)]}"
    ends = {base: last for base, last, _ in case.original}
    for label, repair in case.start.repairs.items():
        after = partition_after(repair, case.name)
        assert after is not None
        left = {
            base: why for base, why in proofs(after, case.original, checkpoints_of(after)).items()
            if not (why.startswith("checkpoints") and reasons(repair.real[case.name], base, ends[base]) is not None)
        }  # fmt: skip
        if left and repair.verified[case.name].is_silent:
            yield f"verify-index after {label}: sound, though {case.batches(set(left))} are missing: {left[min(left)]}"


def _can_be_undone(case: Case) -> Iterator[str]:
    for label, repair in case.start.repairs.items():
        if case.name in repair.dry_changes:
            yield f"{label} --dry-run changed {short(repair.dry_changes[case.name])}"
        if case.name in repair.other_words:
            yield f"{label} --dry-run says other things than {label}"
        if case.name in repair.not_restored:
            yield f"restore after {label} does not bring back: {short(repair.not_restored[case.name])}"


def _is_stable(case: Case) -> Iterator[str]:
    for label, repair in case.start.repairs.items():
        report = repair.real[case.name]
        if changes := unsettled(repair.second_changes.get(case.name, []), partition_after(repair, case.name), case.mode):
            yield f"a second {label} changes: {short(changes)}"
        if found := new_events(report, repair.second.get(case.name)):
            yield f"a second {label} finds {found[0]['action']} {found[0].get('file', '')}: {found[0].get('reason', '')[:140]}"
        verdict = repair.verified[case.name]
        missing_named = "missing" in {event["action"] for event in case.recover.real[case.name]["events"]}
        gaps = {"offset-gap"} if label != "recover" or missing_named else set()
        new = verdict.loud - case.verified.loud - gaps - _from_snapshot(case, report, verdict) if report["exit_status"] < 4 else set()
        if new:
            yield f"verify-index after {label} has new findings: {', '.join(sorted(new))} ({_example(verdict, new)})"
    report = case.salvage.real[case.name]
    if report.get("unread_below") is None:
        verdict = case.salvage.verified[case.name]
        errors = verdict.codes("error")
        if errors:
            yield f"verify-index after salvage: {', '.join(sorted(errors))} ({_example(verdict, errors)}); status {report['exit_status']}"
        after = partition_after(case.salvage, case.name)
        assert after is not None
        if (backwards := first_backwards(after)) and not errors:
            yield f"after salvage batches still run backwards ({backwards}), and verify-index does not say so"


def _from_snapshot(case: Case, report: dict[str, Any], verdict: Verdict) -> set[str]:
    """Return txnindex-mismatch if it is about transactions that had no entry before, which were added from a producer snapshot."""
    missing, wrong = (
        {(found["file"].rpartition("/")[2], found["offset"]) for found in findings if found["code"] == code}
        for code, findings in (("txnindex-incomplete", case.verified.findings), ("txnindex-mismatch", verdict.findings))
    )
    return {"txnindex-mismatch"} if report.get("unread_below") is not None and wrong <= missing else set()


def unsettled(changes: list[str], partition: Path | None, mode: str) -> list[str]:
    """Return the changes of a second run that Kafka's second start does not make; `partition`: after the first run."""
    settles = (".snapshot", "leader-epoch-checkpoint") if mode == "clean" else (".snapshot",)
    if mode != "clean" and (partition is None or first_backwards(partition) is None):
        return changes
    return [change for change in changes if not change.partition(" ")[0].endswith(settles)]


def _verdicts_agree(case: Case) -> Iterator[str]:
    held = [(base, last) for (base, _), last in sound_batches(case.directory).items()]
    lost = [
        found for found in case.verified.findings if found["severity"] != "info"
        and (found["code"] in LOSSES or (found["severity"] == "error" and found["file"].endswith(".log"))
             or (found["code"] in COMPARED and not any(base <= _offset_of(found) <= last for base, last in held)))
    ]  # fmt: skip
    for label, repair in case.start.repairs.items():
        report = repair.real[case.name]
        unread = report.get("unread_below")
        if label == "recover --salvage" and unread is not None:
            yield f"{label}: it did not read what lies below offset {unread}"
        seen = [found for found in lost if unread is None or _was_read(found, unread)]
        if seen and report["exit_status"] == 0:
            yield f"{label}: status 0, and verify-index finds {seen[0]['code']} at offset {seen[0].get('offset')}: {seen[0]['what'][:120]}"


def _was_read(found: dict[str, Any], unread: int) -> bool:
    """Is a finding about data that was read? Segments below the offset `unread` were not."""
    base = _base_of(found)
    if found["code"] == "offset-order" and found["position"] == 0:
        return base > unread  # the batch before this one is in the segment before
    if found["code"] in ("snapshot-beyond-log", "checkpoint-beyond-log"):
        return _offset_of(found) > unread  # they claim the end of a log, which is after the last offset
    return (base if base >= 0 else _offset_of(found)) >= unread


def _offset_of(found: dict[str, Any]) -> int:
    """Return the offset of a finding, or of its segment; -1: none."""
    offset = found.get("offset")
    return offset if offset is not None else _base_of(found)


def _base_of(found: dict[str, Any]) -> int:
    """Return the offset in the file name of a finding; -1: none."""
    name = found["file"].rpartition("/")[2]
    return int(name[:20]) if name[:20].isdigit() else -1


def new_events(first: dict[str, Any], second: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Return the events of a second run that the first run did not have, with these offsets or at all."""
    old = {(event["action"], event.get("file"), event.get("first_offset")) for event in first["events"]}
    return [
        event for event in (second or {"events": []})["events"]
        if event["severity"] != "info" and (event["action"], event.get("file"), event.get("first_offset")) not in old
        and not (event.get("end_offset") and reasons(first, event["first_offset"], event["end_offset"] - 1) is not None)
    ]  # fmt: skip


def _example(verdict: Verdict, codes: set[str]) -> str:
    return next((found["what"][:120] for found in verdict.findings if found["code"] in codes), "")


def _no_false_alarm(case: Case) -> Iterator[str]:
    if not case.id.startswith("control"):
        return
    if not case.verified.is_silent:
        yield f"verify-index: {case.verified.verdict} {sorted(case.verified.loud)}"
    for label, repair in case.start.repairs.items():
        if status := repair.real[case.name]["exit_status"]:
            yield f"{label}: status {status}"


def reasons(report: dict[str, Any], first: int, last: int) -> list[str] | None:
    """Return the reasons of events that together report every offset of first … last as lost; None if an offset is missing."""
    named: list[tuple[int, int, str]] = []
    for event in report["events"]:
        if event["action"] in KEEPS or (begins := event.get("first_offset")) is None:
            continue
        end = event.get("end_offset")
        if end is None:
            end = REST if event["action"] in ("truncated", "removed") else begins
        named.append((begins, end, event.get("reason", "")))
    found, at = [], first
    for begins, end, why in sorted(named):
        if begins <= at < end:
            found.append(why)
            at = end
        if at > last:
            return found
    return None


def proofs(partition: Path, original: list[Batch], said: dict[str, int]) -> dict[int, str]:
    """Return {base offset of a missing original batch: the proof on the disk that it existed}. `said`: from the checkpoints."""
    have = sound_batches(partition)
    present = sorted({(base, last) for (base, _), last in have.items()})
    end = max((last + 1 for _, last in present), default=0)
    start = said.get("log_start", 0)
    missing = [(base, last) for base, last, crc in original if (base, crc) not in have and last >= (start if start <= end else 0)]
    if not missing:
        return {}
    counted = max(said.get("recovery_point", 0), said.get("high_watermark", 0))
    indexed = {offset for path in partition.glob("*.index") for offset in _indexed(path)}
    produced = {offset for path in partition.glob("*.snapshot") for offset in last_offsets(path.read_bytes())}
    first_epoch = _first_epoch(partition)
    found = {}
    for base, last in missing:
        if any(first <= last and base <= ends for first, ends in present):
            continue  # another batch has these offsets
        if base >= end and last < counted:
            found[base] = f"checkpoints count up to {counted}, the log ends at {end}"
        elif last in indexed:
            found[base] = f"an index entry points to offset {last}"
        elif any(base <= offset <= last for offset in produced):
            found[base] = f"a producer snapshot names an offset of {base}-{last}"
        elif present and present[0][0] < base < end:
            found[base] = "a gap between neighbouring batches of a topic that is not compacted"
        elif present and base < present[0][0] and first_epoch is not None and first_epoch <= base and "log_start" not in said:
            found[base] = f"leader-epoch-checkpoint begins at {first_epoch}, the log at {present[0][0]}"
    return found


def _indexed(path: Path) -> Iterator[int]:
    """Return the offsets of the entries of an offset index."""
    data = path.read_bytes()
    for at in range(0, len(data) - 7, 8):
        if data[at : at + 8] != bytes(8):
            yield int(path.stem) + struct.unpack_from(">i", data, at)[0]


def _first_epoch(partition: Path) -> int | None:
    """Return the start offset of the first leader epoch."""
    try:
        return int((partition / "leader-epoch-checkpoint").read_text().splitlines()[2].split()[1])
    except (OSError, IndexError, ValueError):
        return None


def short(differ: list[str]) -> str:
    """Return the first differences."""
    return "; ".join(differ[:4]) + (f"; and {len(differ) - 4} more" if len(differ) > 4 else "")


# ---- damages of whole log dirs

COUNTS_MORE = ("checkpoints-newer-than-partition",)
TIERED = "tiered-checkpoint-lines"


def log_dir_violations(case_id: str, mode: str, broker: dict[str, Any], start: Start) -> list[Violation]:
    """Return the violations of the laws for damage to whole log dirs; `broker`: what it did."""
    return [Violation(law, text) for law, text in _log_dir_laws(case_id, mode, broker, start)]


def _log_dir_laws(case_id: str, mode: str, broker: dict[str, Any], start: Start) -> Iterator[tuple[str, str]]:
    repair = start.repairs["recover"]
    dry_status, status = repair.statuses
    if not broker["started"]:
        words = next((word for word in broker["words"] if "Exception" in word), broker["words"][0] if broker["words"] else "")[:160]
        if dry_status == 0:
            yield "b", f"recover --dry-run: status 0, nothing said; a broker stops: {words}"
        if start.verify_status == 0:
            yield "b", f"verify-index: status 0, nothing said; a broker stops: {words}"
    for where, differ in repair.dry_changes.items():
        yield "e", f"recover --dry-run changed {where}: {short(differ)}"
    for where in sorted(repair.other_words):
        yield "e", f"recover --dry-run says other things than recover of {where}"
    if dry_status != status:
        yield "e", f"recover --dry-run has status {dry_status}, recover {status}"
    for where, left in broker["partitions"].items():
        partition = repair.top / where
        if not (broker["started"] and partition.is_dir()):
            continue
        # an index of full size was never closed: the log dir went offline
        offline = any(name.endswith(".index") and size >= 4096 for name, (size, _) in left["files"].items())
        if differ := broker_differs({**left, "stray": offline}, partition):
            yield "a", f"{where}: {short(differ)}"
    if case_id == "control" and (start.verify_status or dry_status):
        yield "z", f"verify-index status {start.verify_status}, recover --dry-run {dry_status}"
    if case_id in COUNTS_MORE and not (start.verify_status and dry_status):
        yield "d", f"verify-index {start.verify_status}, recover --dry-run {dry_status}, though checkpoints count more offsets"
    if case_id == TIERED and start.verify_status == 0 and not _speaks_of_tiers(start):
        yield "d", "verify-index: status 0, though log-start-offset-checkpoint counts offsets that no segment holds"
    for where, differ in repair.second_changes.items():
        yield "f", f"a second recover changes {where}: {short(differ)}"
    for where, differ in repair.not_restored.items():
        yield "e", f"restore after recover does not bring back {where}: {short(differ)}"


def _speaks_of_tiers(start: Start) -> bool:
    text = json.dumps([found for verdict in start.verified.values() for found in verdict.findings]).lower()
    return "tier" in text or "remote" in text
