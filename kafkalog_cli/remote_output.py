"""Common code of the commands of `kafkalog remote`: options, and how their errors are reported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click

from kafkalog_cli.engine_options import config_file_option, paths_from, settings_from
from kafkalog_cli.help import DocumentedCommand, Section
from kafkalog_cli.options import PATH, PATH_OR_URL, format_option, version_option
from kafkalog_cli.show import show

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.config.server import Settings

    Command = TypeVar("Command", bound="Callable[..., Any] | click.Command")

WHICH = Section("Which partitions", ("--topic", "--config-file"))
OUTPUT = Section("Output", ("--format",))

topic_option = click.option("--topic", "-t", "topics", multiple=True, metavar="NAME",
                            help="Only this topic. A quoted pattern, such as 'orders-*', names several topics. May be "
                                 "repeated.")  # fmt: skip
_OPTIONS = (topic_option, config_file_option(), format_option, version_option)


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


def log_dirs_and_settings(paths: tuple[str, ...], config_file: str | None) -> tuple[list[str], Settings]:
    """Return PATHS, or log.dirs of --config-file, and its settings. Raises UsageError, UnreadableFile."""
    settings = settings_from(config_file, ())
    return paths_from(paths, settings), settings
