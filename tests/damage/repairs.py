"""Run kafkalog on copies of the damaged log dirs: dry run, run, a second run, verify-index after each, restore."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.damage.evidence import Tree, batches_in, compare, copy_log_dirs, now, partition_in, prepare, tree, without_expired
from tests.damage.truth import damage_corpus, truth
from tests.support.json_output import objects_of
from tests.support.run import kafkalog

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.run import Done

Objects = list[dict[str, Any]]
REPAIRS = {"recover": [], "recover --salvage": ["--salvage"]}


class Verdict(NamedTuple):
    """The result of verify-index for one partition, or for the log dirs ("")."""

    verdict: str | None
    findings: Objects

    def codes(self, *severities: str) -> set[str]:
        return {found["code"] for found in self.findings if found["severity"] in severities}

    @property
    def loud(self) -> set[str]:
        """Codes of findings that are warnings or errors."""
        return self.codes("warning", "error")

    @property
    def is_silent(self) -> bool:
        """Is the partition reported as sound, without findings?"""
        return self.verdict == "sound" and not self.loud


class Repair(NamedTuple):
    """One kind of recovery of all log dirs. Dicts are by name of a partition; of changes, also of a file of a log dir.

    top             the log dirs after the run; `again`: their partitions after a second one
    dry_changes     what the dry run changed: nothing, if all is well
    dry, real       reports of the dry run and of the run; `second`: of one more run
    quarantined     (base offset, CRC) of every batch in the quarantine of the run, in whole files or pieces of them
    statuses        of the dry run and of the run
    other_words     partitions and log dirs for which dry run and run report different things
    verified        verify-index after the run
    second_changes  changes of the second run, except expired producers
    not_restored    how the log dirs after `restore` differ from those before; `restore_failed`: it reported a failure
    """

    top: Path
    dry_changes: dict[str, list[str]]
    dry: dict[str, dict[str, Any]]
    real: dict[str, dict[str, Any]]
    quarantined: set[tuple[int, int]]
    statuses: tuple[int, int]
    other_words: set[str]
    verified: dict[str, Verdict]
    second: dict[str, dict[str, Any]]
    second_changes: dict[str, list[str]]
    not_restored: dict[str, list[str]]
    restore_failed: list[str]


class Start(NamedTuple):
    """All damaged log dirs of one kind of start: before, verified, and after each repair."""

    source: Path
    verified: dict[str, Verdict]
    verify_status: int
    repairs: dict[str, Repair]


def start(origin: Path, mode: str, work: Path, repairs: dict[str, list[str]] = REPAIRS) -> Start:
    """Run all commands on copies of the log dirs below `origin`."""
    source = copy_log_dirs(origin, work / "before")
    prepare(mode, source)
    options = [*settings_for(work), *(["--clean-start"] if mode == "clean" else [])]
    done = {
        name: _repair(source, work / f"after-{number}", [*options, *more]) for number, (name, more) in enumerate(repairs.items())
    }
    status, verified = _verify(source)
    return Start(source, verified, status, done)


def settings_for(work: Path) -> list[str]:
    """Return the options of every `recover`, after writing the broker's settings into the directory `work`."""
    work.mkdir(parents=True, exist_ok=True)
    config = work / "server.properties"
    config.write_text("".join(f"{name}={value}\n" for name, value in truth()["settings"].items()))
    return ["--format", "json", "--config-file", str(config), "--now", now()]


def all_partitions(mode: str, work: Path) -> Start:
    """Start with the log dirs in which each damage has a separate partition."""
    return start(damage_corpus() / "before", mode, work)


def _repair(source: Path, top: Path, options: list[str]) -> Repair:
    was: Tree = tree(source)
    copy_log_dirs(source, top)
    quarantine = top.with_name(f"{top.name}-quarantine")
    words = [*options, "--quarantine", str(quarantine)]
    dry = _recover(top, [*words, "--dry-run"])
    dry_changes = compare(was, tree(top))
    real = _recover(top, words)
    left = tree(top)
    quarantined = {batch for path in _quarantines(quarantine) for batch in _batches_below(path)}
    _, verified = _verify(top)
    again = copy_log_dirs(top, top.with_name(f"{top.name}-again"))
    second = _recover(again, [*options, "--quarantine", str(quarantine.with_name(f"{quarantine.name}-again"))])
    second_changes = compare(left, without_expired(left, tree(again)))
    restored = copy_log_dirs(top, top.with_name(f"{top.name}-left"))  # restore works on the path in the quarantine
    failed = [done.err.strip()[-300:] for path in _quarantines(quarantine) if (done := kafkalog("restore", str(path))).status]
    not_restored = compare(was, tree(top))
    shutil.rmtree(again)
    return Repair(
        restored, dry_changes, reports_of(dry), reports_of(real), quarantined, (dry.status, real.status), _other_words(dry, real), verified,
        reports_of(second), second_changes, not_restored, failed,
    )  # fmt: skip


def _recover(top: Path, options: list[str]) -> Done:
    return kafkalog("recover", *options, *map(str, sorted(top.glob("d?"))))


def _verify(top: Path) -> tuple[int, dict[str, Verdict]]:
    done = kafkalog("verify-index", "--format", "jsonl", *map(str, sorted(top.glob("d?"))))
    verdicts: dict[str, str] = {}
    findings: dict[str, Objects] = {}
    for one in _objects(done):
        if one.get("type") == "finding":
            findings.setdefault(_partition_of(Path(one["file"]), top), []).append(one)
        elif one.get("type") == "verification":
            verdicts[Path(one["path"]).name] = one["verdict"]
    return done.status, {
        name: Verdict(verdicts.get(name), findings.get(name, [])) for name in verdicts.keys() | findings.keys()
    }  # fmt: skip


def _objects(done: Done) -> Objects:
    return objects_of(done.out)


def reports_of(done: Done) -> dict[str, dict[str, Any]]:
    """Return the reports of a `recover` by name of a partition."""
    return {Path(one["partition"]).name: one for one in _objects(done) if one.get("partition")}


def _other_words(dry: Done, real: Done) -> set[str]:
    """Return partitions and log dirs for which dry run and run report different things."""
    one, other = (
        {Path(str(found.get("partition") or found.get("path") or found.get("message"))).name:
            {name: value for name, value in found.items() if name not in ("dry_run", "undo")} for found in _objects(done)}
        for done in (dry, real)
    )  # fmt: skip
    return {name for name in one.keys() | other.keys() if one.get(name) != other.get(name)}


def _partition_of(path: Path, top: Path) -> str:
    """Return the name of the partition of a file; "" for a log dir itself."""
    parts = path.relative_to(top).parts if path.is_relative_to(top) else ()
    return parts[1] if len(parts) > 1 and (top / parts[0] / parts[1]).is_dir() else ""


def _quarantines(first: Path) -> list[Path]:
    """Return the quarantines of a run, one for each log dir; their names begin with that of `first`."""
    found = sorted(first.parent.glob(f"{first.name}*"))
    return [path for path in found if (path / "manifest.jsonl").exists() and "-again" not in path.name.removeprefix(first.name)]


def _batches_below(quarantine: Path) -> Iterator[tuple[int, int]]:
    for path in quarantine.rglob("files/*"):
        if path.is_file():
            for base, _, crc in batches_in(path.read_bytes()):
                yield base, crc


def partition_after(repair: Repair, name: str) -> Path | None:
    """Return the directory of a partition after the repair."""
    return partition_in(repair.top, name)
