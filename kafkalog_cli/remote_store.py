"""The options that say where remote segments are: for every command that reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click

from kafkalog_cli.help import Section
from kafkalog_cli.options import PATH_OR_URL, STORE_PATH

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.files import ReadOnlyFiles
    from engine.findings import Finding
    from engine.remote.access import StoreOptions
    from engine.remote.whole_log import WholeLogFiles
    from kafkalog_cli.app import Outcome

    Command = TypeVar("Command", bound="Callable[..., Any] | click.Command")

STORE = Section("Remote storage", ("--store", "--layout", "--key-prefix", "--private-key"))
WHOLE = Section(STORE.title, ("--store", "--log-dir", *STORE.options[1:]))


class KeyFile(click.ParamType[tuple[str, str]]):
    """The id of a key pair and the file of its private key: ID=FILE."""

    name = "key"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """Text → (id, path); click.BadParameter without a `=`."""
        if isinstance(value, tuple):
            return value
        name, equals, path = value.partition("=")
        if not equals or not name or not path:
            self.fail(f"{value!r} names no key: write ID=FILE", param, ctx)
        return name, path


_OPTIONS = (
    click.option("--store", type=STORE_PATH, metavar="URL|DIR",
                 help="Read remote segments of partitions with remote storage from here: s3://BUCKET/PREFIX, gs://, az://, "
                      "https://, or a folder. Object stores need the extra `remote`."),
    click.option("--layout", type=click.Choice(["auto", "local", "aiven"]), default="auto", show_default=True,
                 help="How objects are arranged: as LocalTieredStorage does, as Aiven's RemoteStorageManager, or as their keys "
                      "look."),
    click.option("--key-prefix", metavar="TEXT", help="What all keys begin with (key.prefix). Default: as the keys look."),
    click.option("--private-key", "private_keys", type=KeyFile(), multiple=True, metavar="ID=FILE",
                 help="The private key (PEM) of a key pair that segments are encrypted under; may be repeated."),
)  # fmt: skip


def store_options(function: Command) -> Command:
    """The options of a command that may read remote segments."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


_LOG_DIR = click.option("--log-dir", "log_dirs", type=PATH_OR_URL, multiple=True, metavar="DIR",
                        help="With --store: another log dir with partitions of __remote_log_metadata; may be repeated.")


def whole_options(function: Command) -> Command:
    """The options of a command that reads remote segments as if they were local."""
    return store_options(_LOG_DIR(function))


def whole_files(
    files: ReadOnlyFiles, values: dict[str, Any], outcome: Outcome, report: Callable[[str, Finding], object] | None = None
) -> WholeLogFiles | None:
    """`files` with the remote segments of partitions; None without --store.

    outcome  takes what is wrong with metadata, and why remote segments of a partition are left out
    report   takes directories, and what is wrong with their remote segments; None: `outcome` does
    Raises click.UsageError for an option that needs --store, UsageError, UnreadableFile.
    """
    options = store_from(values)
    if options is None:
        if values["log_dirs"]:
            raise click.UsageError("--log-dir needs --store")
        return None
    from engine.remote.access import RemoteAccess
    from engine.remote.whole_log import WholeLogFiles

    access = RemoteAccess(files, options, values["log_dirs"], outcome.finding)
    return WholeLogFiles(files, access, report or (lambda _directory, finding: outcome.finding(finding)), outcome.error)


def store_from(values: dict[str, Any]) -> StoreOptions | None:
    """What the options say; None without --store. Raises click.UsageError for those that need it."""
    if values["store"] is None:
        given = {"--key-prefix": values["key_prefix"], "--private-key": values["private_keys"]}
        for name, value in given.items():
            if value:
                raise click.UsageError(f"{name} needs --store")
        return None
    from engine.remote.access import StoreOptions

    return StoreOptions(values["store"], values["layout"], values["key_prefix"], values["private_keys"])


def required_store(values: dict[str, Any]) -> StoreOptions:
    """The same for a command that works on a store. Raises click.UsageError without --store."""
    options = store_from(values)
    if options is None:
        raise click.UsageError("--store is needed")
    return options
