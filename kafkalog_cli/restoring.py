"""What `kafkalog restore` does and prints."""

from __future__ import annotations

import json

import click

from engine.errors import KafkalogError
from engine.log.quarantine.restore import Restored, Undone
from kafkalog_cli.app import Outcome, kept_in, printable
from kafkalog_cli.imports import load_everything
from kafkalog_cli.interruption import INTERRUPTION, HeedingFiles, Interrupted, say_interrupted
from kafkalog_cli.output import outlive_output
from kafkalog_cli.render_report import stopped_line


def run(quarantine: str, *, force: bool, salvage: bool, dry_run: bool, form: str) -> int:
    """Undo what `quarantine` tells of, under the locks of its log dirs → exit status."""
    from engine.files import ReadOnlyFiles, now_ms
    from engine.log.logdir.locking import locked
    from engine.log.quarantine.manifest import STORED
    from engine.log.quarantine.places import partitions_in, read_trusted
    from engine.log.quarantine.restore import restore
    from engine.overlay import OverlayFiles

    outlive_output()
    outcome = Outcome()
    now = now_ms()
    files = OverlayFiles(ReadOnlyFiles(), now) if dry_run else HeedingFiles()
    directory = quarantine.rstrip("/") or quarantine
    done: list[tuple[int, int]] = []
    try:
        with INTERRUPTION:
            manifest = read_trusted(files, directory, salvage=salvage)
            kept, places = (directory, f"{directory}/{STORED}"), partitions_in(files, manifest)
            load_everything(files, [*manifest.log_dirs, *places])
            with locked(files, manifest.log_dirs, places, quarantine=kept):
                restored = restore(
                    files, directory, force=force, salvage=salvage, keep=not dry_run, now=now,
                    progress=lambda number, count: done.append((number, count)),
                )
    except KafkalogError as error:
        if form == "json":
            click.echo(stopped_line(error))
        outcome.error(error)
        if done and not dry_run:
            click.echo(_half_way(done), err=True)
        return outcome.finish()
    except Interrupted:
        say_interrupted(_half_way(done))
        return INTERRUPTION.status
    for line in (_json_lines if form == "json" else _text_lines)(restored, dry_run=dry_run):
        click.echo(line)
    is_as_before = restored.complete_before or not (restored.skipped or restored.differences)
    return max(outcome.finish(), 0 if is_as_before else 4)


def _half_way(done: list[tuple[int, int]]) -> str:
    if not done:
        return "nothing was put back yet"
    return f"{done[-1][0]} of {done[-1][1]} steps back are done: call it again to go on"


def _text_lines(restored: Restored, *, dry_run: bool) -> list[str]:
    if restored.complete_before:
        return ["everything was put back already: nothing to do"]
    steps = _by_file(restored.steps)
    lines = [f"  {step.what} {printable(step.path)}{_amount(step)}" for step in steps]
    lines += [f"  not put back: {printable(what)}" for what in restored.skipped]
    lines += [f"  differs: {printable(one.path)} - {one.what}" for one in restored.differences]
    count = sum(step.size for step in steps)
    would = "would be " if dry_run else ""
    command = restored.manifest.command
    if restored.differences:
        verdict = f"not as before `{command}`: {len(restored.differences)} files differ"
    elif restored.skipped:
        verdict = f"what can be undone of `{command}` is undone"
    else:
        verdict = f"as before `{command}`"
    lines.append(f"{len(steps)} changes {would}undone, {count} bytes put back: {verdict}")
    if restored.aside is not None:
        lines.append(kept_in(restored.aside))
    return lines


def _by_file(steps: list[Undone]) -> list[Undone]:
    """What the steps come to, for a reader: names that a file had only for a moment are no matter, nor what came between."""
    seen: dict[str, Undone] = {}
    last_names: dict[str, str] = {}  # by the name that a file had first, the one that it had at last
    for step in steps:
        path = step.path
        if step.other is not None and step.what == "put back":
            last_names[step.other] = path
        before = seen.get(path)
        if step.other is not None and step.what == "renamed":
            last_names[path] = step.other
            moved = seen.pop(step.other, None)
            seen[path] = step if moved is None else moved._replace(path=path)
        elif step.what == "removed" and path in last_names:
            seen.pop(path, None)
            target = last_names[path]
            seen.setdefault(target, Undone("removed", target, 0))
        else:
            seen[path] = step if before is None else _joined(before, step)
    return list(seen.values())


def _amount(step: Undone) -> str:
    return f" ({step.size} bytes)" if step.size else ""


def _json_lines(restored: Restored, *, dry_run: bool) -> list[str]:
    lines = [json.dumps({"undone": step.what, "path": step.path, "bytes": step.size}) for step in restored.steps]
    lines += [json.dumps({"notPutBack": what}) for what in restored.skipped]
    lines += [json.dumps({"differs": one.what, "path": one.path}) for one in restored.differences]
    total = {"command": restored.manifest.command, "dryRun": dry_run, "steps": len(restored.steps),
             "bytes": sum(step.size for step in restored.steps), "wasComplete": restored.complete_before,
             "asBefore": None if restored.complete_before else not (restored.skipped or restored.differences),
             "quarantine": None if restored.aside is None else restored.aside.directory}
    return [*lines, json.dumps(total)]
