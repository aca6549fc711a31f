"""What `kafkalog restore` does and prints."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from engine.errors import KafkalogError
from kafkalog_cli.app import Outcome, printable
from kafkalog_cli.output import outlive_output

if TYPE_CHECKING:
    from engine.log.quarantine.restore import Restored, Undone


def run(quarantine: str, *, force: bool, dry_run: bool, form: str) -> int:
    """Undo what `quarantine` tells of, under the locks of its log dirs → exit status."""
    from engine.files import Files, ReadOnlyFiles, now_ms
    from engine.log.logdir.locking import locked
    from engine.log.quarantine.manifest import read_manifest
    from engine.log.quarantine.restore import restore
    from engine.overlay import OverlayFiles

    outlive_output()
    outcome = Outcome()
    files = OverlayFiles(ReadOnlyFiles(), now_ms()) if dry_run else Files()
    directory = quarantine.rstrip("/") or quarantine
    try:
        manifest = read_manifest(files, directory)
        with locked(files, manifest.log_dirs):
            restored = restore(files, directory, force=force)
    except KafkalogError as error:
        outcome.error(error)
        return outcome.finish()
    for line in (_json_lines if form == "json" else _text_lines)(restored, dry_run=dry_run):
        click.echo(line)
    return outcome.finish()


def _text_lines(restored: Restored, *, dry_run: bool) -> list[str]:
    if restored.complete_before:
        return ["everything was put back already: nothing to do"]
    lines = [f"  {step.what} {printable(step.path)}{_amount(step)}" for step in restored.steps]
    count = sum(step.size for step in restored.steps)
    would = "would be " if dry_run else ""
    before = restored.manifest.command
    return [*lines, f"{len(restored.steps)} changes {would}undone, {count} bytes put back: as before `{before}`"]


def _amount(step: Undone) -> str:
    return f" ({step.size} bytes)" if step.size else ""


def _json_lines(restored: Restored, *, dry_run: bool) -> list[str]:
    lines = [json.dumps({"undone": step.what, "path": step.path, "bytes": step.size}) for step in restored.steps]
    total = {"command": restored.manifest.command, "dryRun": dry_run, "steps": len(restored.steps),
             "bytes": sum(step.size for step in restored.steps), "wasComplete": restored.complete_before}
    return [*lines, json.dumps(total)]
