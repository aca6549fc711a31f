"""The options that are common to commands on logs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click

from engine.formats import INT_MAX
from kafkalog_cli.help import CONFIG_FILE_VARIABLE, Section
from kafkalog_cli.options import (
    PATH,
    Whole,
    bytes_option,
    format_option,
    jobs_option,
    now_option,
    quiet_option,
    verbose_option,
    version_option,
    yes_option,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.config.server import Settings
    from engine.discovery.choice import PartitionChoice
    from engine.log.session import OpenOptions

Command = TypeVar("Command", bound="Callable[..., Any] | click.Command")

WHICH = Section("Which partitions", ("--topic", "--partition"))
SETTINGS = Section("Settings", ("--config", "--config-file", "--now"))
_OPENING = "How logs are opened"
RECOVERING = Section(_OPENING, ("--clean-start", "--recovery-point", "--log-start-offset"))
OPENING = Section(_OPENING, (*RECOVERING.options, "--high-watermark"))
OUTPUT = Section("Output and work", (
    "--dry-run", "--yes", "--quiet", "--verbose", "--bytes", "--format", "--jobs", "--metrics-textfile",
))
OUTPUT_OF_ONE = OUTPUT._replace(options=tuple(name for name in OUTPUT.options if name != "--yes"))


class ConfigSetting(click.ParamType[tuple[str, str]]):
    """A topic setting, name=value."""

    name = "setting"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """Convert text to (name, value). Raises click.BadParameter without a `=`."""
        if isinstance(value, tuple):
            return value
        name, equals, text = value.partition("=")
        if not equals or not name.strip():
            self.fail(f"{value!r} is not a setting: write name=value", param, ctx)
        return name.strip(), text.strip()


def config_option(what: str) -> Callable[[Command], Command]:
    """Return the option --config; `what`: which settings it takes."""
    return click.option("--config", "settings", type=ConfigSetting(), multiple=True, metavar="NAME=VALUE",
                        help=f"{what}; may be repeated. Overrides every other source.")  # fmt: skip


def config_file_option(what: str = "settings of topics, and log.dirs where no PATHS are given") -> Callable[[Command], Command]:
    """Return the option --config-file; `what`: what the command takes from the file."""
    return click.option("--config-file", type=PATH, envvar=CONFIG_FILE_VARIABLE, metavar="FILE",
                        help=f"A broker's server.properties: {what}.")  # fmt: skip


_PATHS = (click.argument("paths", nargs=-1, type=PATH), config_file_option())
_CHOICE = (
    click.option("--topic", "-t", "topics", multiple=True, metavar="NAME",
                 help="Only partitions of this topic. A quoted pattern, such as 'orders-*', names several topics. May be "
                 "repeated."),
    click.option("--partition", "-p", "partitions", type=Whole(0, INT_MAX), multiple=True, metavar="N",
                 help="Only partitions with this number; may be repeated."),
)
_ONE_PATH = (click.argument("path", type=PATH), config_file_option("settings of topics"))
_OPTIONS = (
    config_option("A topic setting under Kafka's name"),
    now_option,
    click.option("--clean-start", is_flag=True,
                 help="Open as after a clean stop: recover only segments without an index."),
    click.option("--recovery-point", type=Whole(0), metavar="N",
                 help="Records below this offset were flushed and are not checked. Default: from the log dir's "
                 "checkpoint, else 0."),
    click.option("--log-start-offset", type=Whole(0), metavar="N",
                 help="The log starts here; lower offsets count as deleted. Default: from the log dir's checkpoint, else "
                 "0."),
    click.option("--keep-deleted", is_flag=True, help="Rename deleted files to .deleted instead of removing them."),
    click.option("--dry-run", "-n", is_flag=True, help="Change nothing; show what would be done."),
    jobs_option("Partitions at a time. Default: one for each processor, up to 8."),
    click.option("--metrics-textfile", type=PATH, metavar="FILE",
                 help="Write metrics, under Kafka's names, to FILE in Prometheus text format (node_exporter's textfile "
                      "collector)."),
    format_option,
    quiet_option,
    verbose_option,
    bytes_option,
    version_option,
)


_HIGH_WATERMARK = click.option(
    "--high-watermark", type=Whole(0), metavar="N",
    help="Records below this offset are on all replicas; no segment above it is deleted or compacted. Default: from "
    "the log dir's checkpoint, else the end of the log.",
)  # fmt: skip


def recovering_options(function: Command) -> Command:
    """Add PATHS and the options of every command that opens a log to change it."""
    return _with(function, *_PATHS, *_CHOICE, *_OPTIONS, yes_option)


def engine_options(function: Command) -> Command:
    """As `recovering_options`, with the high watermark, for further work on the log."""
    return _with(function, *_PATHS, *_CHOICE, *_OPTIONS, yes_option, _HIGH_WATERMARK)


def choice_options(function: Command) -> Command:
    """Add --topic and --partition, for every other command on log dirs."""
    return _with(function, *_CHOICE)


def choice_from(values: dict[str, Any]) -> PartitionChoice:
    """Convert --topic and --partition; a command without these options works on every partition."""
    from engine.discovery.choice import PartitionChoice

    return PartitionChoice(values["topics"], values["partitions"]) if "topics" in values else PartitionChoice()


def one_log_options(function: Command) -> Command:
    """As `engine_options`, for a command on one partition only, PATH, which log.dirs cannot name."""
    return _with(function, *_ONE_PATH, *_OPTIONS, _HIGH_WATERMARK)


def quarantine_options(function: Command) -> Command:
    """Add --quarantine and --no-quarantine, for a command that keeps the data that it changes."""
    return _with(function, _quarantine_option(" Default: beside the log dir."), click.option(
        "--no-quarantine", is_flag=True, help="Keep nothing: the command cannot be undone.",
    ))  # fmt: skip


def quarantine_option(function: Command) -> Command:
    """Add --quarantine, for a command that keeps the data that it changes only on request."""
    return _with(function, _quarantine_option(" Default: nothing is kept, and the command cannot be undone."))


def _quarantine_option(default: str) -> Callable[[Command], Command]:
    what = "Keep truncated, replaced and removed data in DIR; `kafkalog restore` puts it back."
    return click.option("--quarantine", type=PATH, metavar="DIR", help=what + default)


def _with(function: Command, *options: Callable[[Command], Command]) -> Command:
    for option in reversed(options):
        function = option(function)
    return function


def opening_from(values: dict[str, Any]) -> OpenOptions:
    """Convert the common options. Raises UsageError for settings that are unknown or out of range."""
    from engine.files import now_ms
    from engine.log.session import OpenOptions

    return OpenOptions(
        settings=settings_from(values["config_file"], values["settings"]),
        now=now_ms() if values["now"] is None else values["now"],
        clean_start=values["clean_start"],
        recovery_point=values["recovery_point"],
        log_start_offset=values["log_start_offset"],
        high_watermark=values.get("high_watermark"),  # recover does not have this option
        keep_deleted=values["keep_deleted"],
        dry_run=values["dry_run"],
        jobs=values["jobs"],
    )


def settings_from(config_file: str | None, overrides: tuple[tuple[str, str], ...]) -> Settings:
    """Convert --config-file and --config. Raises UsageError for settings that are unknown or out of range, UnreadableFile."""
    from engine.config.server import ServerConfig, Settings, read_server_config
    from engine.files import ReadOnlyFiles

    server = ServerConfig() if config_file is None else read_server_config(ReadOnlyFiles(), config_file)
    settings = Settings(server, overrides)
    settings.check()  # report errors in settings before anything is opened
    return settings


def paths_from(paths: tuple[str, ...], settings: Settings) -> list[str]:
    """Return PATHS, or the log dirs of --config-file. Raises click.UsageError if there are neither."""
    server = settings.server
    found = list(paths) or list(server.log_dirs)
    if not paths and server.metadata_log_dir not in (None, *found):
        found.append(str(server.metadata_log_dir))
    if not found:
        raise click.UsageError("name partitions or log dirs, or a --config-file with log.dirs")
    return found
