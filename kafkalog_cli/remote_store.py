"""The options for the location of remote segments, common to all commands that read them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click

from kafkalog_cli.engine_options import settings_from
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
        """Convert text to (id, path). Raises click.BadParameter without a `=`."""
        if isinstance(value, tuple):
            return value
        name, equals, path = value.partition("=")
        if not equals or not name or not path:
            self.fail(f"{value!r} is not a key: write ID=FILE", param, ctx)
        return name, path


_OPTIONS = (
    click.option("--store", type=STORE_PATH, metavar="URL|DIR",
                 help="Read remote segments of partitions with remote storage from here: s3://BUCKET/PREFIX, gs://, az://, "
                      "https://, or a folder. Object stores need the extra `remote`. Default: from "
                      "--config-file (rsm.config.*)."),
    click.option("--layout", type=click.Choice(["auto", "local", "aiven"]), default="auto", show_default=True,
                 help="Layout of the objects: that of LocalTieredStorage, that of Aiven's RemoteStorageManager, or recognised "
                      "by the keys."),
    click.option("--key-prefix", metavar="TEXT", help="Prefix of all keys (key.prefix). Default: recognised by the keys."),
    click.option("--private-key", "private_keys", type=KeyFile(), multiple=True, metavar="ID=FILE",
                 help="The private key (PEM) of a key pair that encrypts segments; may be repeated."),
)  # fmt: skip


def store_options(function: Command) -> Command:
    """Add the options of a command that can read remote segments."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


_LOG_DIR = click.option("--log-dir", "log_dirs", type=PATH_OR_URL, multiple=True, metavar="DIR",
                        help="With --store: another log dir with partitions of __remote_log_metadata; may be repeated.")


def whole_options(function: Command) -> Command:
    """Add the options of a command that reads remote segments as if they were local."""
    return store_options(_LOG_DIR(function))


def whole_files(
    files: ReadOnlyFiles, values: dict[str, Any], outcome: Outcome, report: Callable[[str, Finding], object] | None = None
) -> WholeLogFiles | None:
    """Return files that include the remote segments of partitions; None without --store.

    outcome  receives problems of the metadata, and the reason why remote segments of a partition are left out
    report   receives a directory and a problem of its remote segments; None: `outcome` receives them
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


def store_from(values: dict[str, Any], config_file: str | None = None) -> StoreOptions | None:
    """Convert the options, or read the server.properties of --config-file; None if neither names a store.

    Raises click.UsageError for options that need a store, UsageError for an unknown store, UnreadableFile.
    """
    if values["store"] is None and config_file is None:
        given = {"--key-prefix": values["key_prefix"], "--private-key": values["private_keys"]}
        for name, value in given.items():
            if value:
                raise click.UsageError(f"{name} needs --store")
        return None
    if values["store"] is not None:
        from engine.remote.access import StoreOptions

        return StoreOptions(values["store"], values["layout"], values["key_prefix"], values["private_keys"])
    from engine.remote.configured import configured_store

    options = configured_store(settings_from(config_file, ()).server)
    if values["layout"] != "auto":
        options = options._replace(layout=values["layout"])
    if values["key_prefix"] is not None:
        options = options._replace(prefix=values["key_prefix"])
    return options._replace(private_keys=(*options.private_keys, *values["private_keys"]))


def required_store(values: dict[str, Any], config_file: str | None) -> StoreOptions:
    """As `store_from`, for a command that needs a store. Raises click.UsageError if no store is named."""
    options = store_from(values, config_file)
    if options is None:
        raise click.UsageError("name the store: --store URL|DIR, or the broker's server.properties: --config-file FILE")
    return options
