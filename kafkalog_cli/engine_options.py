"""The options that commands working on a partition's log share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kafkalog_cli.help import Section
from kafkalog_cli.options import Whole, version_option

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.config import LogConfig

Command = TypeVar("Command", bound="Callable[..., Any] | click.Command")

SETTINGS = Section("Settings", ("--config", "--now"))
OPENING = Section("How the log is opened", ("--clean-start", "--recovery-point", "--log-start-offset", "--high-watermark"))
OUTPUT = Section("Output", ("--format",))


class ConfigSetting(click.ParamType[tuple[str, str]]):
    """A topic setting, name=value."""

    name = "setting"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """Text → (name, value); click.BadParameter without a `=`."""
        if isinstance(value, tuple):
            return value
        name, equals, text = value.partition("=")
        if not equals or not name.strip():
            self.fail(f"{value!r} is no setting: write name=value", param, ctx)
        return name.strip(), text.strip()


_OPTIONS = (
    click.argument("paths", nargs=-1, required=True, type=click.Path()),
    click.option("--config", "settings", type=ConfigSetting(), multiple=True, metavar="NAME=VALUE",
                 help="A topic setting under Kafka's name; may be repeated."),
    click.option("--now", type=Whole(0), metavar="MS", help="The clock, in ms since 1970. Default: the machine's."),
    click.option("--clean-start", is_flag=True,
                 help="Open as after a clean stop: nothing is recovered but what lacks an index."),
    click.option("--recovery-point", type=Whole(0), default=0, metavar="N",
                 help="What lies below this offset has reached the disk and is not recovered."),
    click.option("--log-start-offset", type=Whole(0), default=0, metavar="N",
                 help="Records below this offset are deleted."),
    click.option("--high-watermark", type=Whole(0), metavar="N",
                 help="Records below this offset are on all replicas: no segment above it is deleted."),
    click.option("--keep-deleted", is_flag=True, help="Leave what is deleted under names that end in .deleted."),
    click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True,
                 help="Text, or one JSON object a line for each partition."),
    version_option,
)


def engine_options(function: Command) -> Command:
    """PATHS and the options of every command that opens a log to change it."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


@dataclass(frozen=True, slots=True)
class Opening:
    """How logs are opened. `high_watermark` None: as the operation has it."""

    config: LogConfig
    now: int
    clean_start: bool
    recovery_point: int
    log_start_offset: int
    high_watermark: int | None
    keep_deleted: bool


def opening_from(values: dict[str, Any]) -> Opening:
    """What the shared options ask for. Raises UsageError for settings that are unknown or out of range."""
    from engine.config import LogConfig
    from engine.files import now_ms

    return Opening(
        config=LogConfig.of(dict(values["settings"])),
        now=now_ms() if values["now"] is None else values["now"],
        clean_start=values["clean_start"],
        recovery_point=values["recovery_point"],
        log_start_offset=values["log_start_offset"],
        high_watermark=values["high_watermark"],
        keep_deleted=values["keep_deleted"],
    )
