"""Common code of the commands of `kafkalog remote`: options, and output as text or JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click

from kafkalog_cli.app import Outcome, printable
from kafkalog_cli.engine_options import paths_from, settings_from
from kafkalog_cli.help import CONFIG_FILE_VARIABLE, DocumentedCommand, Section
from kafkalog_cli.options import PATH, PATH_OR_URL, format_option, version_option
from kafkalog_cli.output import json_stream

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Sequence

    from engine.config.server import Settings
    from engine.dump.text_buffer import TextBuffer

    Command = TypeVar("Command", bound="Callable[..., Any] | click.Command")

WHICH = Section("Which partitions", ("--topic", "--config-file"))
OUTPUT = Section("Output", ("--format",))

_OPTIONS = (
    click.option("--topic", "-t", "topics", multiple=True, metavar="NAME",
                 help="Only this topic, or those that a quoted pattern names; may be repeated."),
    click.option("--config-file", type=PATH, envvar=CONFIG_FILE_VARIABLE, metavar="FILE",
                 help="A broker's server.properties: settings of topics, and log.dirs where no PATHS are given."),
    format_option,
    version_option,
)  # fmt: skip


def remote_options(function: Command) -> Command:
    """Add PATHS and the options of every remote command."""
    return _with_paths(function, PATH)


def reading_options(function: Command) -> Command:
    """The same of a command that changes nothing: PATHS may be URLs."""
    return _with_paths(function, PATH_OR_URL)


def _with_paths(function: Command, kind: click.Path) -> Command:
    for option in reversed((click.argument("paths", nargs=-1, type=kind), *_OPTIONS)):
        function = option(function)
    return function


class RemoteCommand(DocumentedCommand):
    """A command of the group. Reports an unreadable file of an option like every other error."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command → exit status."""
        from engine.errors import KafkalogError

        try:
            return super().invoke(ctx)
        except KafkalogError as error:
            failure = error
        return show(ctx.params["form"], lambda output: output.outcome.error(failure))


class Output:
    """The destination of objects, lines and findings. `stream`: None for text."""

    def __init__(self, out: TextBuffer, form: str) -> None:
        self._out = out
        self.stream = json_stream(form, out)
        self.outcome = Outcome(stream=self.stream)

    def line(self, text: str = "") -> None:
        """Print a line of text."""
        self._out.put(printable(text) + "\n")

    def table(self, headings: Sequence[str], rows: Sequence[Sequence[str]], words: Container[str]) -> None:
        """Print indented rows below their headings. The columns with the headings `words` have text, the others numbers."""
        widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
        sides = ("<" if heading in words else ">" for heading in headings)
        text = "  " + "  ".join(f"{{:{side}{width}}}" for side, width in zip(sides, widths, strict=True))
        for row in (headings, *rows):
            self.line(text.format(*row).rstrip())

    def flush(self) -> None:
        """Write the output so far."""
        self._out.flush()


def show(form: str, work: Callable[[Output], None]) -> int:
    """Run a function that prints to stdout, and report its error → exit status."""
    from engine.dump.text_buffer import TextBuffer
    from engine.errors import KafkalogError
    from kafkalog_cli.output import raw_stdout

    with TextBuffer(raw_stdout()) as out:
        output = Output(out, form)
        try:
            work(output)
        except KafkalogError as error:
            output.flush()
            output.outcome.error(error)
        status = output.outcome.finish()
        output.flush()
    return status


def log_dirs_and_settings(paths: tuple[str, ...], config_file: str | None) -> tuple[list[str], Settings]:
    """Return PATHS, or log.dirs of --config-file, and its settings. Raises UsageError, UnreadableFile."""
    settings = settings_from(config_file, ())
    return paths_from(paths, settings), settings
