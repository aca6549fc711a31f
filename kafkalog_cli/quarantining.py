"""The quarantines of a command: what is put between the engine and the disk, and what is said of it in the end."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from engine.discovery.names import parent_of
from engine.errors import KafkalogError, UnwritableFile, UsageError, argument
from engine.files import may_write
from kafkalog_cli.amounts import shown_size
from kafkalog_cli.app import kept_in
from kafkalog_cli.output import say_at_any_rate

if TYPE_CHECKING:
    from engine.files import Files
    from engine.log.logdir.log_dirs import LogDir
    from engine.log.quarantine.seam import QuarantiningFiles


class Quarantines:
    """One for each log dir. `chosen`: where, by the user; None: beside the log dir. `form`: that of the output."""

    def __init__(self, command: str, chosen: str | None, now: int | None, form: str, *, dry_run: bool) -> None:
        self._command, self._chosen, self._now, self._form, self._dry_run = command, chosen, now, form, dry_run
        self._made: list[QuarantiningFiles] = []

    def wrap(self, files: Files, log_dir: LogDir) -> Files:
        """What keeps everything that is changed in `log_dir`. Raises UsageError, UnwritableFile, before anything is."""
        return self.around(files, log_dir.path)

    def around(self, files: Files, log_dir: str) -> Files:
        """The same for the log dir at a path."""
        from engine.files import now_ms
        from engine.log.quarantine.seam import QuarantiningFiles

        now = now_ms() if self._now is None else self._now
        directory = self._directory(files, log_dir, now)
        made = QuarantiningFiles(
            files, directory, command=self._command, now=now, log_dirs=(files.resolve(log_dir),), is_rehearsal=self._dry_run
        )
        self._made.append(made)
        if not self._dry_run:
            _make(made)
        return made

    def finish(self, errors: list[KafkalogError]) -> None:
        """Note how everything was left. Where one of them cannot, the others do, and why goes to `errors`."""
        for made in self._made:
            if self._dry_run and not may_write(parent_of(made.directory)):
                what = f"{made.directory}: without --dry-run it could not be created, and the command would stop here"
                errors.append(UnwritableFile(what, do=_elsewhere()))
            try:
                made.finish()
            except KafkalogError as error:
                errors.append(error)

    @property
    def is_used(self) -> bool:
        """Was anything changed?"""
        return any(made.is_used for made in self._made)

    def say(self) -> None:
        """Where it is kept, whatever happened to the work and to the output."""
        for made in self._made:
            if made.is_used:
                text = would_keep(made) if self._dry_run else kept_in(made)
                say_at_any_rate(text, err=self._form != "text" or sys.exc_info()[0] is not None)
        for made in self._made:
            _say_unfinished(made)

    def _directory(self, files: Files, log_dir: str, now: int) -> str:
        """Where to keep what is taken out of `log_dir`. Raises UsageError for a place inside a log dir."""
        from engine.log.quarantine.places import quarantine_beside

        taken = {made.directory for made in self._made}
        real = files.resolve(log_dir)
        if self._chosen is None:
            directory = quarantine_beside(files, log_dir, now)
        else:
            directory = files.absolute(self._chosen.rstrip("/"))
            if directory in taken or any(place.startswith(directory + "-") for place in taken):
                directory = f"{directory}-{len(taken) + 1}"
        inside = directory
        while inside != "/":
            inside = parent_of(inside)
            if files.exists(inside) and files.resolve(inside) == real:
                what = (f"{directory} lies inside the log dir {log_dir}: a broker does not start with a directory that is not "
                        "Kafka's")
                raise UsageError(what, do="choose a place outside with --quarantine DIR")
        return directory


def quarantines_for(command: str, values: dict[str, Any]) -> Quarantines | None:
    """What the options ask for; None: nothing is kept. A command without --no-quarantine keeps only what it is asked to."""
    is_chosen = values.get("quarantine") is not None
    if is_chosen and values.get("no_quarantine"):
        raise click.UsageError("--quarantine and --no-quarantine exclude each other")
    if not is_chosen and values.get("no_quarantine", True):
        return None
    return Quarantines(command, values["quarantine"], values["now"], values["form"], dry_run=values["dry_run"])


def would_keep(quarantine: QuarantiningFiles) -> str:
    """The line of a dry run that says where a command would keep what it changes."""
    return f"would keep in quarantine: {shown_size(quarantine.stored_size)}, in {argument(quarantine.directory)}"


def _say_unfinished(quarantine: QuarantiningFiles) -> None:
    """Say which commands before this one were stopped in the same log dirs, and how to undo them."""
    from engine.files import ReadOnlyFiles
    from engine.log.quarantine.kept import left_unfinished

    own = (quarantine.directory,) if quarantine.is_used else ()
    for log_dir in quarantine.log_dirs:
        try:
            earlier = [kept.path for kept in left_unfinished(ReadOnlyFiles(), log_dir, quarantine.directory)]
        except KafkalogError:  # of a hint: what matters was reported
            continue
        if earlier:
            paths = " ".join(argument(path) for path in (*own, *earlier))
            what = "a command that was stopped changed this log dir before" if len(earlier) == 1 else (
                f"{len(earlier)} commands that were stopped changed this log dir before")
            say_at_any_rate(f"{what}; undo everything with: kafkalog restore --salvage {paths}", err=True)


def _make(quarantine: QuarantiningFiles) -> None:
    """Raise UnwritableFile if the quarantine cannot be made: before anything is changed, not in the middle."""
    try:
        quarantine.make()
    except UnwritableFile as error:
        raise UnwritableFile(f"{error}: the quarantine is to be written there", do=_elsewhere()) from error


def _elsewhere() -> str:
    other = "--no-quarantine" in (option for one in click.get_current_context().command.params for option in one.opts)
    return "--quarantine DIR chooses another place" + (", --no-quarantine keeps nothing" if other else "")
