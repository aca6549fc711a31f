"""kafkalog restore."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import click

from engine.amounts import count_of, time_text
from engine.discovery.names import file_name, parent_of, partition_of
from engine.discovery.paths import MANIFEST, STAGING
from engine.dump.json_stream import sentence, text_field
from engine.errors import KafkalogError, UnreadableFile, argument
from engine.findings import Severity
from engine.log.quarantine.restore import ChangedSince, Restored, Undone
from kafkalog_cli.app import UNREADABLE, Outcome, Total, kept_in, printable
from kafkalog_cli.help import DocumentedCommand, Example, Section
from kafkalog_cli.interruption import INTERRUPTION, Interrupted, InterruptibleFiles, print_interrupted
from kafkalog_cli.options import (
    PATH,
    Duration,
    bytes_option,
    format_option,
    quiet_option,
    shown_size,
    verbose_option,
    version_option,
    yes_option,
)
from kafkalog_cli.output import json_stream, print_always, tolerate_output_failure
from kafkalog_cli.partitions import DECLINED, agreed, load_everything, would_keep

if TYPE_CHECKING:
    from engine.files import Files, ReadOnlyFiles
    from engine.log.commits.undoing import LastCommit
    from engine.log.quarantine.kept import Kept
    from engine.log.quarantine.quarantining_files import QuarantiningFiles


_SECTIONS = (
    Section("Action", ("--list", "--prune", "--older-than", "--force", "--salvage", "--dry-run", "--yes")),
    Section("Output", ("--quiet", "--verbose", "--bytes", "--format")),
)
_MAIN = ("--list", "--prune", "--older-than", "--salvage", "--dry-run")
_EXAMPLES = (
    Example("List what can be undone in a log dir, with sizes:", "kafkalog restore --list data"),
    Example("Undo a recovery:", "kafkalog restore data.quarantine-20261121T120000Z"),
    Example("See what would be put back:", "kafkalog restore --dry-run data.quarantine-20261121T120000Z"),
    Example("Delete quarantines older than 30 days:", "kafkalog restore --prune --older-than 30d data"),
)


@click.command("restore", cls=DocumentedCommand, examples=_EXAMPLES, sections=_SECTIONS, main_options=_MAIN, writes=True)
@click.argument("paths", nargs=-1, type=PATH)
@click.option("--list", "lists", is_flag=True, help="Change nothing: show what can be undone, its time and its size.")
@click.option("--prune", "prunes", is_flag=True, help="Delete quarantines; needs --older-than.")
@click.option("--older-than", "older_than_ms", type=Duration(), metavar="AGE",
              help="With --prune: only quarantines older than this, such as 30d, 12h, 90m or 45s.")
@click.option("--force", is_flag=True,
              help="Replace files that changed since the command, and remove new ones; a new quarantine keeps all of them.")
@click.option("--salvage", is_flag=True,
              help="Undo what can be undone if the quarantine is damaged or its command was killed.")
@click.option("--dry-run", "-n", is_flag=True, help="Change nothing; show what would be done.")
@yes_option
@format_option
@quiet_option
@verbose_option
@bytes_option
@version_option
def command(lists: bool, prunes: bool, older_than_ms: int | None, **values: Any) -> int:
    """Undo what a command did, byte for byte, from its quarantine.

    PATHS are quarantines, or log dirs in which a write of Spark's sink was stopped: an incomplete commit is undone, and the
    files that its jobs staged are removed. A job that still runs there fails, and changes nothing. To undo the last
    completed write of the sink, name the file .kafkalog-sink.json in the log dir: the records that it appended are truncated
    and kept in a quarantine. This is refused if anything was written to these partitions since. Several PATHS are undone from
    the newest operation to the oldest.

    restore first compares all checksums. It then puts truncated, overwritten, renamed and removed data back, and removes the
    files that the command created. You can stop it at any time and run it again. Steps that need no disk space come first. The
    quarantine stays where it is; so does the lock file .lock, as Kafka leaves it. Every file that is not as before is reported,
    with status 4.

    With --list and --prune, PATHS are directories that hold quarantines, or log dirs with quarantines beside them; default:
    the working directory. For a partition, --list shows the quarantines beside its log dir that keep files of it. --prune
    deletes only quarantines that hold nothing but kafkalog's own files. It does not delete a quarantine that is only partly
    restored.
    """
    if lists and prunes:
        raise click.UsageError("--list and --prune exclude each other")
    if (lists or prunes) and (values["force"] or values["salvage"]):
        raise click.UsageError("--force and --salvage are not for --list and --prune")
    if prunes != (older_than_ms is not None):
        raise click.UsageError("--prune and --older-than belong together: --prune --older-than 30d")
    if not (values["paths"] or lists or prunes):
        raise click.UsageError("name quarantines; kafkalog restore --list DIR lists them")
    if not lists:
        tolerate_output_failure()
    stream = json_stream(values.pop("form"))
    outcome = Outcome(stream=stream, verbose=values.pop("verbose"), quiet=values.pop("quiet"))
    if lists:
        show(values["paths"], outcome)
    elif older_than_ms is not None:
        prune(values["paths"], older_than_ms, outcome, dry_run=values["dry_run"], yes=values["yes"])
    else:
        run(outcome=outcome, **values)
    return outcome.finish(INTERRUPTION.status)


def run(paths: tuple[str, ...], outcome: Outcome, *, force: bool, salvage: bool, dry_run: bool, yes: bool) -> None:
    """Undo the changes of each quarantine, and interrupted commits in log dirs."""
    files = _files(dry_run=dry_run)
    directories = [path.rstrip("/") or path for path in paths]
    tally = _Tally(dry_run=dry_run)
    try:
        from engine.log.quarantine.kept import OBJECTS, log_dirs_of

        if len(directories) > 1 and not (dry_run or yes) and not agreed(_summary(files, directories)):
            outcome.at_least(DECLINED)
            return
        failed: dict[str, str] = {}  # by log dir, the path that was not undone
        for directory in _newest_first(files, directories):
            log_dirs = log_dirs_of(files, directory) if len(directories) > 1 else set()
            later = next((failed[log_dir] for log_dir in sorted(log_dirs & failed.keys())), None)
            if later is not None:
                code = _print_not_begun(directory, later, outcome)
            elif files.exists(f"{directory}/{OBJECTS}"):
                code = put_objects_back(files, directory, outcome, dry_run=dry_run)
            elif file_name(directory) == MANIFEST or _is_half_committed(files, directory):
                code = undo(files, directory, outcome, dry_run=dry_run)
            else:
                code = _restore(files, directory, outcome, tally, force=force, salvage=salvage, dry_run=dry_run)
            if INTERRUPTION.status:
                return
            if code >= KafkalogError.exit_status:
                failed |= dict.fromkeys(log_dirs, directory)
            outcome.at_least(code)
        if outcome.is_text:
            tally.say(quiet=outcome.is_quiet)
    except KafkalogError as error:
        outcome.error(error)


class _Tally:
    """Counts the partitions whose data is in quarantines."""

    def __init__(self, *, dry_run: bool) -> None:
        self._dry_run, self._total = dry_run, Total()
        self._sizes: Counter[str] = Counter()  # restored bytes by partition
        self._size = 0  # restored bytes, with those of the log dirs' own files
        self._different: set[str] = set()

    def add(self, restored: Restored) -> None:
        """Count the partitions of one quarantine; a partition in several quarantines counts once."""
        for step in restored.steps:
            self._size += step.size
            if partition_of(step.path) is not None:
                self._sizes[parent_of(step.path)] += step.size
        different = {parent_of(one.path) for one in restored.differences if partition_of(one.path) is not None}
        self._sizes.update(dict.fromkeys(different, 0))
        self._different |= different

    def say(self, *, quiet: bool) -> None:
        """Print the total."""
        would = "would be " if self._dry_run else ""
        for path, size in self._sizes.items():
            if path in self._different:
                self._total.add(f"{would}not as before", Severity.ERROR, size)
            else:
                self._total.add(f"{would}as before", Severity.INFO, size)
        self._total.say(shown_size(self._size), quiet=quiet)


def _newest_first(files: Files, paths: list[str]) -> list[str]:
    """Return `paths` in the order in which they can be undone: the last operation on a log dir first."""
    from engine.log.quarantine.kept import when_made

    return paths if len(paths) < 2 else sorted(dict.fromkeys(paths), key=lambda path: when_made(files, path), reverse=True)


def _print_not_begun(path: str, later: str, outcome: Outcome) -> int:
    """Report that `path` was not undone because `later` could not be undone; returns the exit status."""
    what = f"{path}: not undone: {later} is of a later operation on the same log dir, and was not undone"
    error = ChangedSince(what, do=f"kafkalog restore {argument(later)} {argument(path)}    # once that problem is solved")
    outcome.error(error)
    return error.exit_status


def undo(files: Files, path: str, outcome: Outcome, *, dry_run: bool = False) -> int:
    """Undo a commit of Spark's sink: an interrupted one in a log dir, or the last one by its manifest; return the status."""
    if file_name(path) == MANIFEST:
        return undo_last(files, parent_of(files.absolute(path)), outcome, dry_run=dry_run)
    return undo_commits(files, path, outcome, dry_run=dry_run)


def put_objects_back(files: Files, directory: str, outcome: Outcome, *, dry_run: bool) -> int:
    """Put objects that `remote orphans` deleted back into their store, and return the exit status."""
    from engine.log.quarantine.kept import in_use
    from engine.remote.access import open_writable_store
    from engine.remote.orphans import put_back, read_kept

    count = 0
    try:
        with in_use(files, directory):
            name, kept = read_kept(files, directory)
            store = open_writable_store(files, name)
            for one in kept:
                with INTERRUPTION:
                    count += put_back(files, store, one, dry_run=dry_run)
    except KafkalogError as error:
        outcome.error(error)
        return error.exit_status
    except Interrupted:
        print_interrupted(f"{count_of(count, 'object')} put back: run the command again to continue")
        return INTERRUPTION.status
    would = "would be " if dry_run else ""
    text = f"{name}: {count_of(count, 'object')} {would}put back, {len(kept) - count} already in the store"
    fields = {**text_field("store", name), "dry_run": dry_run, "objects": count, "there": len(kept) - count}
    outcome.put("restored-objects", fields, text)
    return 0


def _is_half_committed(files: Files, directory: str) -> bool:
    from engine.log.quarantine.kept import is_quarantine

    return not is_quarantine(files, directory) and files.exists(f"{directory}/{STAGING}")


def _files(*, dry_run: bool) -> Files:
    from engine.files import ReadOnlyFiles, now_ms
    from engine.overlay import OverlayFiles

    return OverlayFiles(ReadOnlyFiles(), now_ms()) if dry_run else InterruptibleFiles()


def _summary(files: Files, directories: list[str]) -> str:
    from engine.log.quarantine.kept import describe, is_quarantine

    kept = [describe(files, directory) for directory in directories if is_quarantine(files, directory)]
    log_dirs = {log_dir for one in kept if one is not None for log_dir in one.log_dirs}
    size = sum(one.size for one in kept if one is not None)
    quarantines = count_of(len(directories), "quarantine")
    return f"restore: would put back {shown_size(size)} into {count_of(len(log_dirs), 'log dir')}, from {quarantines}"


def undo_commits(files: Files, log_dir: str, outcome: Outcome, *, dry_run: bool = False) -> int:
    """Undo interrupted commits of Spark's sink in a log dir, remove what its jobs staged, and return the exit status."""
    from engine.discovery.paths import half_commit
    from engine.files import now_ms
    from engine.log.commits.staging import clear_leftovers, holding

    journal, jobs = None, 0
    try:
        with INTERRUPTION:
            files.info(log_dir)  # raises if it is missing
            if files.exists(f"{log_dir}/{STAGING}"):
                load_everything(files, [log_dir, *(f"{log_dir}/{name}" for name in files.list(log_dir))])
                with holding(files, log_dir):
                    journal = half_commit(files, log_dir)
                    jobs = clear_leftovers(files, log_dir, now_ms(), of_all=True)
    except (KafkalogError, Interrupted) as error:
        return _not_undone(error, outcome)
    would = "would be " if dry_run else ""
    staged = f"{would}removed: what {count_of(jobs, 'job')} staged and did not commit" if jobs else "nothing to undo"
    text = f"{would}undone: {printable(journal)}" if journal else staged
    _put_undone_commit(outcome, log_dir, journal, None, f"{printable(log_dir)}: {text}", dry_run=dry_run)
    return 1 if jobs else 0


def _put_undone_commit(
    outcome: Outcome, log_dir: str, commit: str | None, aside: QuarantiningFiles | None, text: str, *, dry_run: bool
) -> None:
    """Print which commit of Spark's sink was undone, None: there was none; `aside` keeps the data that it wrote."""
    kept: dict[str, object] = {"quarantine": None} if aside is None else text_field("quarantine", aside.directory)
    outcome.put("undone-commit", {**text_field("log_dir", log_dir), "dry_run": dry_run, "commit": commit, **kept}, text)


def _not_undone(error: KafkalogError | Interrupted, outcome: Outcome) -> int:
    """Report why a commit of Spark's sink was not undone, and return the exit status."""
    if isinstance(error, Interrupted):
        print_interrupted("the commit is not undone yet: run the command again to continue")
        return INTERRUPTION.status
    outcome.error(error)
    return error.exit_status


def _aside(files: Files, log_dir: str, now: int, *, dry_run: bool) -> QuarantiningFiles:
    """Make a quarantine for data removed from a log dir. Raises UnwritableFile."""
    from engine.files import acting_as_root
    from engine.log.quarantine.quarantining_files import QuarantiningFiles
    from engine.log.quarantine.trusted_files import quarantine_beside

    with acting_as_root():  # the owner of a log dir may have no right to make a directory beside it
        directory, of = quarantine_beside(files, log_dir, now), (files.resolve(log_dir),)
        aside = QuarantiningFiles(files, directory, command="restore", now=now, log_dirs=of, is_rehearsal=dry_run)
        if not dry_run:
            aside.make()
    return aside


def undo_last(files: Files, log_dir: str, outcome: Outcome, *, dry_run: bool = False) -> int:
    """Undo the last commit of Spark's sink in a log dir, and return the exit status. A quarantine keeps its data."""
    from engine.files import acting_as_root, now_ms
    from engine.log.commits.staging import partitions
    from engine.log.commits.undoing import last_commit, undo_last_commit
    from engine.log.logdir.log_dirs import locked

    now = now_ms()
    aside: QuarantiningFiles | None = None
    try:
        with INTERRUPTION:
            files.info(f"{log_dir}/{MANIFEST}")  # raises if it is missing
            directories = partitions(files, log_dir)
            load_everything(files, [log_dir, *directories])
            with locked(files, [log_dir], directories), acting_as_root() if dry_run else nullcontext():  # a dry run only reads
                commit = last_commit(files, log_dir)
                if commit is not None:
                    aside = _aside(files, log_dir, now, dry_run=dry_run)
                    try:
                        undo_last_commit(aside, log_dir, commit, now)
                    finally:
                        INTERRUPTION.defer_to_end()
                        aside.finish()
    except (KafkalogError, Interrupted) as error:
        return _not_undone(error, outcome)
    finally:
        if aside is not None and aside.is_used and outcome.is_text:
            click.echo(would_keep(aside) if dry_run else kept_in(aside))
    _print_undone(log_dir, commit, aside, outcome, dry_run=dry_run)
    return 0


def _print_undone(
    log_dir: str, commit: LastCommit | None, aside: QuarantiningFiles | None, outcome: Outcome, *, dry_run: bool
) -> None:
    for step in [] if commit is None else commit.steps:
        what = "removed" if step.end < 0 else "truncated"
        would_do = "would remove" if step.end < 0 else "would truncate"
        path = f"{log_dir}/{step.name}"
        to = "" if step.end < 0 else f" to offset {step.end}"
        fields = {"action": what, **text_field("path", path), "offsets": step.offsets}
        text = f"  {would_do if dry_run else what} {printable(path)}{to}, {count_of(step.offsets, 'offset')}"
        outcome.put("undone", fields, text)
    would = "would be " if dry_run else ""
    text = "nothing to undo" if commit is None else f"{would}undone: the commit of {time_text(commit.manifest.at_ms)}"
    last = None if commit is None else commit.manifest.last
    _put_undone_commit(outcome, log_dir, last, aside, f"{printable(log_dir)}: {text}", dry_run=dry_run)


def _restore(
    files: Files, directory: str, outcome: Outcome, tally: _Tally, *, force: bool, salvage: bool, dry_run: bool
) -> int:
    """Undo the changes in the quarantine `directory`, with the locks of its log dirs; returns the exit status."""
    from engine.files import acting_as_root, now_ms
    from engine.log.logdir.log_dirs import locked
    from engine.log.quarantine.kept import in_use
    from engine.log.quarantine.manifest import STORED
    from engine.log.quarantine.restore import restore
    from engine.log.quarantine.trusted_files import partitions_in, read_trusted

    done: list[tuple[int, int]] = []
    try:
        with INTERRUPTION:
            manifest = read_trusted(files, directory, salvage=salvage)
            kept, directories = (directory, f"{directory}/{STORED}"), partitions_in(files, manifest)
            load_everything(files, [*manifest.log_dirs, *directories])
            with (
                locked(files, manifest.log_dirs, directories, quarantine=kept), in_use(files, directory),
                acting_as_root() if dry_run else nullcontext(),  # a dry run only reads
            ):  # fmt: skip
                restored = restore(
                    files, directory, force=force, salvage=salvage, keep=not dry_run, now=now_ms(),
                    progress=lambda number, count: done.append((number, count)),
                )
    except KafkalogError as error:
        if isinstance(error, ChangedSince):
            error.do = _later_first(files, directory) or error.do
        outcome.error(error)
        if done and not dry_run:
            click.echo(_half_way(done), err=True)
        return error.exit_status
    except Interrupted:
        print_interrupted(_half_way(done))
        return INTERRUPTION.status
    tally.add(restored)
    if outcome.is_text:
        for line in _text_lines(restored, outcome, dry_run=dry_run):
            click.echo(line)
    else:
        _put_objects(directory, restored, outcome, dry_run=dry_run)
    if restored.aside is not None:
        print_always(kept_in(restored.aside), err=not outcome.is_text)
    return 0 if restored.is_as_before else 4


def _later_first(files: Files, directory: str) -> str | None:
    """Return the command that undoes later operations than this quarantine's, and then its own; None: nothing is known."""
    from engine.log.quarantine.kept import State, describe, made_after

    try:
        later = made_after(files, directory)
    except KafkalogError:  # only a hint: the original error is reported
        return None
    if not later:
        return None
    paths = " ".join(argument(path) for path in (*(kept.path for kept in later), directory))
    own = describe(files, directory)
    salvage = "--salvage " if any(kept is not None and kept.state is State.UNFINISHED for kept in (own, *later)) else ""
    return f"kafkalog restore {salvage}{paths}    # later operations are undone first"


def show(paths: tuple[str, ...], outcome: Outcome) -> None:
    """Print what can be undone in and below `paths`, and beside the log dirs among them."""
    from engine.files import ReadOnlyFiles

    try:
        kept = _found(ReadOnlyFiles(), paths, outcome)
    except KafkalogError as error:
        outcome.error(error)
        return
    for one in kept:
        outcome.put("quarantine", _kept_fields(one), _kept_line(one))
    if outcome.is_text:
        click.echo(_amount_kept(kept) if kept else "nothing to undo")


def prune(paths: tuple[str, ...], older_than_ms: int, outcome: Outcome, *, dry_run: bool, yes: bool) -> None:
    """Delete old quarantines in and below `paths`, and beside the log dirs among them."""
    from engine.files import now_ms
    from engine.log.quarantine.kept import as_partition, can_go
    from engine.log.quarantine.kept import prune as delete

    files = _files(dry_run=dry_run)
    before_ms = now_ms() - older_than_ms
    for path in paths:
        if as_partition(files, path) is not None:
            raise click.UsageError(f"{path}: a partition; a quarantine may hold several partitions: name the log dir or the "
                                   "quarantine")
    deleted, verb = 0, "would delete" if dry_run else "deleted"
    try:
        with files.held(paths):  # raises NotAllowed for a link of another user than root and the directory's owner
            old = [one for one in _found(files, paths, outcome) if can_go(one, before_ms)]
        summary = f"restore --prune: would delete {_amount_kept(old)}; this cannot be undone"
        if old and not (dry_run or yes) and not agreed(summary):
            outcome.at_least(DECLINED)
            return
        with INTERRUPTION:
            load_everything(files, [one.path for one in old])
            for one in old:
                try:
                    size = delete(files, one.path, before_ms)
                except KafkalogError as error:
                    outcome.error(error)
                    continue
                deleted += size
                fields = {**_kept_fields(one), "pruned": True, "dry_run": dry_run}
                outcome.put("quarantine", fields, f"{verb} {_kept_line(one)}")
    except KafkalogError as error:
        outcome.error(error)
    except Interrupted:
        print_interrupted("one quarantine is deleted in part: run the same command again")
        return
    if outcome.is_text:
        click.echo(f"{verb} {shown_size(deleted)}")
        if dry_run:
            click.echo("dry run: nothing was changed")


def _found(files: ReadOnlyFiles, paths: tuple[str, ...], outcome: Outcome) -> list[Kept]:
    """Find quarantines; an unreadable directory is a finding, and does not stop the search."""
    from engine.findings import Finding, Where
    from engine.log.quarantine.kept import find_kept

    def missed(error: UnreadableFile) -> None:
        path, what = error.path or "", str(error)
        outcome.finding(Finding(UNREADABLE, Where(path), what.removeprefix(f"{path}: ")))

    return find_kept(files, paths or (".",), missed)


def _kept_line(kept: Kept) -> str:
    when = "at an unknown time" if kept.created_ms is None else time_text(kept.created_ms)
    of = f" of {', '.join(kept.log_dirs)}" if kept.log_dirs else ""
    return printable(f"{kept.path}: {kept.command or 'a command'}{of}, {when}, {shown_size(kept.size)}: {kept.state.value}")


def _amount_kept(kept: list[Kept]) -> str:
    return f"{count_of(len(kept), 'quarantine')}, {shown_size(sum(one.size for one in kept))}"


def _kept_fields(kept: Kept) -> dict[str, object]:
    return {**text_field("path", kept.path), "command": None if kept.command is None else sentence(kept.command),
            "created_ms": kept.created_ms, "log_dirs": list(map(sentence, kept.log_dirs)), "bytes": kept.size,
            "state": kept.state.name.lower().replace("_", "-")}  # fmt: skip


def _half_way(done: list[tuple[int, int]]) -> str:
    if not done:
        return "nothing has been restored yet"
    return f"{done[-1][0]} of {done[-1][1]} steps are undone: run the command again to continue"


_PLANNED = {
    "put back": "would put back", "removed": "would remove", "renamed": "would rename", "shortened": "would shorten",
    "set aside": "would set aside",
}  # fmt: skip


def _text_lines(restored: Restored, outcome: Outcome, *, dry_run: bool) -> list[str]:
    """Return what was done, one line per file, or per step with --verbose; with --quiet only what is not as before."""
    if outcome.is_quiet and restored.is_as_before:
        return []
    if restored.complete_before and restored.is_as_before:
        return ["everything has already been restored: nothing to do"]
    steps = _by_file(restored.steps)
    shown = [] if outcome.is_quiet else restored.steps if outcome.is_verbose else steps
    lines = [f"  {_PLANNED[step.what] if dry_run else step.what} {printable(step.path)}{_amount(step)}" for step in shown]
    not_done = "would not be put back" if dry_run else "not put back"
    lines += [f"  {not_done}: {printable(what)}" for what in restored.skipped]
    lines += [f"  differs: {printable(one.path)} - {one.what}" for one in restored.differences]
    count = sum(step.size for step in steps)
    would = "would be " if dry_run else ""
    command = printable(restored.manifest.command)
    if restored.complete_before:
        return [*lines, f"everything possible was undone already, but the files are not as before `{command}`"]
    if restored.differences:
        different = len(restored.differences)
        verdict = f"not as before `{command}`: {count_of(different, 'file')} {'differs' if different == 1 else 'differ'}"
    elif restored.skipped:
        verdict = f"all of `{command}` that can be undone"
    else:
        verdict = f"as before `{command}`"
    return [*lines, f"{count_of(len(steps), 'change')} {would}undone, {shown_size(count)} {would}put back: {verdict}"]


def _by_file(steps: list[Undone]) -> list[Undone]:
    """Combine the steps by file: names that a file had only temporarily, and steps between, are left out."""
    seen: dict[str, Undone] = {}
    last_names: dict[str, str] = {}  # first name of a file → its last name
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


def _joined(before: Undone, step: Undone) -> Undone:
    """Combine two steps with one file."""
    if step.what == "removed":
        return step
    return Undone(before.what if step.what == "shortened" else step.what, step.path, before.size + step.size)


def _amount(step: Undone) -> str:
    return f" ({shown_size(step.size)})" if step.size else ""


def _put_objects(directory: str, restored: Restored, outcome: Outcome, *, dry_run: bool) -> None:
    """Print every step, and the result, as objects."""
    for step in restored.steps:
        outcome.put("undone", {"action": step.what, **text_field("path", step.path), "bytes": step.size}, None)
    for what in restored.skipped:
        outcome.put("not-put-back", {"what": sentence(what)}, None)
    for one in restored.differences:
        outcome.put("difference", {**text_field("path", one.path), "what": sentence(one.what)}, None)
    aside: dict[str, object] = {"quarantine": None}
    if restored.aside is not None:
        aside = text_field("quarantine", restored.aside.directory)
    outcome.put("restored", {
        **text_field("path", directory), "command": sentence(restored.manifest.command), "dry_run": dry_run,
        "steps": len(restored.steps), "bytes": sum(step.size for step in restored.steps),
        "was_complete": restored.complete_before, "as_before": restored.is_as_before, **aside,
    }, None)  # fmt: skip
