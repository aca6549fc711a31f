"""The options that say where logs are: paths, URLs of object stores, and the store of tiered topics.

It stands alone because the sink and the jobs that write use only `local_path`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from engine.discovery.names import is_url
from engine.errors import EMPTY_PATH, KafkalogError
from kafkalog_spark.errors import OptionError, failed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.remote.access import Settings, StoreOptions

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(?://([^/]*))?(/.*)", re.DOTALL)
_LAYOUTS = ("auto", "local", "aiven")
_OF_STORE = ("storeLayout", "storePrefix", "storePrivateKeys")


def local_path(path: str) -> str:
    """Return the path without `file:`. Raises OptionError for a path that is not in a mounted file system."""
    if not path:
        raise OptionError(EMPTY_PATH)
    scheme = _SCHEME.match(path)
    if scheme is None:
        return path
    if scheme[1].lower() == "file" and not scheme[2]:
        return scheme[3]
    raise OptionError(f"{path}: only reading takes URLs: copy the directory to a mounted file system, and name the copy")


def read_path(path: str) -> str:
    """Return a path to read: without `file:`, or the URL of an object store, see engine.remote.urls. Raises OptionError."""
    name, colon, rest = path.partition(":")
    url = f"{name.lower()}{colon}{rest}"
    if not is_url(url) or url.startswith("file:"):
        return local_path(path)
    from engine.remote.urls import spelled

    try:
        return spelled(url)
    except KafkalogError as error:
        raise OptionError(f"{error}: {error.do}") from None


def remote_options(options: Mapping[str, str]) -> tuple[StoreOptions | None, tuple[str, ...]]:
    """Return (the store of tiered topics, more log dirs with logs of __remote_log_metadata) of the options.

    The store of `store`, else the one that the broker's settings in `configFile` name; None: neither.
    Raises OptionError, LogDirError for a file that cannot be read.
    """
    log_dirs = tuple(read_path(path) for path in _listed(options, "logDirs"))
    config = options.get("configfile")
    if "store" not in options and config is None:
        for name in _OF_STORE:
            if name.lower() in options:
                raise OptionError(f"{name} needs store, or a configFile that names a store")
        return None, log_dirs
    from engine.remote.access import StoreOptions

    try:
        if "store" in options:
            found: StoreOptions | None = StoreOptions(options["store"])
        else:
            found, own = _configured(str(config))
            log_dirs += own
    except KafkalogError as error:
        raise failed(error) from None
    return None if found is None else _completed(found, options), log_dirs


def _configured(config: str) -> tuple[StoreOptions | None, tuple[str, ...]]:
    """Return (store, log dirs that exist here) of a broker's server.properties. Raises KafkalogError."""
    from engine.config.server import read_server_config
    from engine.files import ReadOnlyFiles
    from engine.remote.configured import configured_store, names_store

    files = ReadOnlyFiles()
    server = read_server_config(files, local_path(config))
    store = configured_store(server) if names_store(server) else None
    return store, tuple(filter(files.exists, server.log_dirs))


def _completed(store: StoreOptions, options: Mapping[str, str]) -> StoreOptions:
    """Return the store with the layout, prefix and keys of the options, which override the broker's settings."""
    layout = options.get("storelayout", store.layout).strip().lower()
    if layout not in _LAYOUTS:
        raise OptionError(f"storeLayout is '{layout}', expected one of {', '.join(_LAYOUTS)}")
    keys: Settings = tuple(_key(text) for text in _listed(options, "storePrivateKeys"))
    return store._replace(
        layout=layout, prefix=options.get("storeprefix", store.prefix), private_keys=(*store.private_keys, *keys)
    )


def _key(text: str) -> tuple[str, str]:
    name, equals, path = text.partition("=")
    if not equals or not name or not path:
        raise OptionError(f"storePrivateKeys: '{text}' is not a key: write ID=FILE")
    return name, local_path(path)


def _listed(options: Mapping[str, str], name: str) -> list[str]:
    return [one for one in (part.strip() for part in options.get(name.lower(), "").split(",")) if one]
