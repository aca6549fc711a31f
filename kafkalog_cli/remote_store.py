"""The options for the location of remote segments, common to all commands that read them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from kafkalog_cli.engine_options import settings_from
from kafkalog_cli.help import CONFIG_FILE_VARIABLE, Section
from kafkalog_cli.options import PATH, PATH_OR_URL, STORE_PATH

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.config.server import ServerConfig
    from engine.files import ReadOnlyFiles
    from engine.findings import Finding
    from engine.remote.access import RemoteAccess, StoreOptions
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
                 help="The store of remote segments: s3://BUCKET/PREFIX, gs://, az://, https://, or a folder. Object stores "
                      "need the extra `remote`. Default: from --config-file (rsm.config.*)."),
    click.option("--layout", type=click.Choice(["auto", "local", "aiven"]), default="auto", show_default=True,
                 help="Layout of the objects: that of LocalTieredStorage (local), that of Aiven's RemoteStorageManager, or the "
                      "one that the keys have (auto)."),
    click.option("--key-prefix", metavar="TEXT", help="Prefix of all keys (key.prefix). Default: found in the keys."),
    click.option("--private-key", "private_keys", type=KeyFile(), multiple=True, metavar="ID=FILE",
                 help="The private key (PEM) of a key pair that encrypts segments; may be repeated."),
)  # fmt: skip


def store_options(function: Command) -> Command:
    """Add the options of a command that can read remote segments."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


_LOG_DIR = click.option("--log-dir", "log_dirs", type=PATH_OR_URL, multiple=True, metavar="DIR",
                        help="With --store, or a store of --config-file: another log dir with partitions of "
                             "__remote_log_metadata; may be repeated.")
store_config_option = click.option(
    "--config-file", type=PATH, envvar=CONFIG_FILE_VARIABLE, metavar="FILE",
    help="A broker's server.properties. Without --store: read remote segments from the store that it configures "
         "(rsm.config.*), and their metadata from its log.dirs.",
)


def whole_options(function: Command) -> Command:
    """Add the options of a command that reads remote segments as if they were local."""
    return store_options(_LOG_DIR(function))


def whole_files(
    files: ReadOnlyFiles, values: dict[str, Any], outcome: Outcome, report: Callable[[str, Finding], object] | None = None
) -> WholeLogFiles | None:
    """Return files that include the remote segments of partitions; None if the options name no store.

    outcome  receives problems of the metadata, and the reason why remote segments of a partition are left out
    report   receives a directory and a problem of its remote segments; None: `outcome` receives them
    Raises click.UsageError for an option that needs --store, UsageError, UnreadableFile.
    """
    choice = choose_store(values, tuple(values.get("paths", ())))
    if choice is None:
        if values["log_dirs"]:
            raise click.UsageError("--log-dir needs --store, or a --config-file that names a store")
        return None
    from engine.remote.whole_log import WholeLogFiles

    access = choice.open(files, outcome.finding)
    return WholeLogFiles(files, access, report or (lambda _directory, finding: outcome.finding(finding)), outcome.error)


class StoreChoice(NamedTuple):
    """The store of a command that reads local logs, and their remote segments if they have any.

    find      its location     log_dirs  with more logs of __remote_log_metadata     paths  of the command line
    is_named  by --store, so that it is opened even if no partition has remote segments
    """

    find: Callable[[], StoreOptions]
    log_dirs: tuple[str, ...]
    is_named: bool
    paths: tuple[str, ...] = ()

    def open(self, files: ReadOnlyFiles, report: Callable[[Finding], None]) -> RemoteAccess:
        """Access to remote segments. Raises UsageError, UnreadableFile for a store that --store names."""
        from engine.remote.access import RemoteAccess, metadata_log_dirs

        access = RemoteAccess(files, self.find, lambda own: metadata_log_dirs(files, own, self.log_dirs, self.paths), report)
        if self.is_named:
            _ = access.layout
        return access


def choose_store(values: dict[str, Any], paths: tuple[str, ...] = ()) -> StoreChoice | None:
    """The store of --store, or of --config-file if that names a RemoteStorageManager; None: neither names one.

    Raises click.UsageError for options that need a store, UsageError for settings out of range, UnreadableFile.
    """
    if values["store"] is not None:
        return StoreChoice(partial(_named_store, values), values["log_dirs"], is_named=True, paths=paths)
    if values["config_file"] is not None:
        from engine.files import ReadOnlyFiles
        from engine.remote.configured import names_store

        server = settings_from(values["config_file"], ()).server
        if names_store(server):
            own = filter(ReadOnlyFiles().exists, server.log_dirs)  # none of them on another machine than the broker's
            return StoreChoice(partial(_configured, server, values), (*values["log_dirs"], *own), is_named=False, paths=paths)
    _refuse_without_store(values)
    return None


def _refuse_without_store(values: dict[str, Any]) -> None:
    for name, value in (("--key-prefix", values["key_prefix"]), ("--private-key", values["private_keys"])):
        if value:
            raise click.UsageError(f"{name} needs --store, or a --config-file that names a store")


def _named_store(values: dict[str, Any]) -> StoreOptions:
    from engine.remote.access import StoreOptions

    return StoreOptions(values["store"], values["layout"], values["key_prefix"], values["private_keys"])


def _configured(server: ServerConfig, values: dict[str, Any]) -> StoreOptions:
    from engine.remote.configured import configured_store

    options = configured_store(server)
    if values["layout"] != "auto":
        options = options._replace(layout=values["layout"])
    if values["key_prefix"] is not None:
        options = options._replace(prefix=values["key_prefix"])
    return options._replace(private_keys=(*options.private_keys, *values["private_keys"]))


def required_store(values: dict[str, Any], config_file: str | None) -> StoreOptions:
    """The store of --store, or of --config-file.

    Raises click.UsageError if neither is given, UsageError for an unknown store, UnreadableFile.
    """
    if values["store"] is not None:
        return _named_store(values)
    if config_file is None:
        raise click.UsageError("name the store: --store URL|DIR, or the broker's server.properties: --config-file FILE")
    return _configured(settings_from(config_file, ()).server, values)
