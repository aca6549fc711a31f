"""The store in a broker's server.properties: class and settings of its RemoteStorageManager.

Only settings for finding and reading objects are used. An unknown class or setting may change where or how objects are stored,
so it is an error that names it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.errors import UsageError
from engine.formats import INT_MAX
from engine.remote.access import StoreOptions
from engine.remote.aiven_layout import NewSegments

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.config.server import ServerConfig

_CLASS, _PREFIX = "remote.log.storage.manager.class.name", "remote.log.storage.manager.impl.prefix"
_LOCAL = "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"
_AIVEN = "io.aiven.kafka.tieredstorage.RemoteStorageManager"
_BACKENDS = "io.aiven.kafka.tieredstorage.storage."
_LOCAL_FOLDER = "kafka-tiered-storage/"
_DO = "name the store: --store URL|DIR, and --key-prefix, --private-key where they are needed"

# by backend: the setting of its bucket, the scheme of the URL, and the settings of the client by setting of the backend
_S3 = {
    "s3.endpoint.url": "endpoint", "s3.region": "region", "aws.access.key.id": "access_key_id",
    "aws.secret.access.key": "secret_access_key",
}  # fmt: skip
_GCS = {
    "gcs.endpoint.url": "base_url", "gcs.credentials.path": "service_account", "gcs.credentials.json": "service_account_key",
}  # fmt: skip
_AZURE = {
    "azure.account.name": "account_name", "azure.account.key": "account_key", "azure.sas.token": "sas_key",
    "azure.endpoint.url": "endpoint",
}  # fmt: skip
_OBJECT_STORES = {
    "s3.S3Storage": ("s3.bucket.name", "s3", _S3),
    "gcs.GcsStorage": ("gcs.bucket.name", "gs", _GCS),
    "azure.AzureBlobStorage": ("azure.container.name", "az", _AZURE),
}
_FILES = "filesystem.FileSystemStorage"
# settings of backends that change neither the location nor the content of objects
_HARMLESS = frozenset({
    "backend.class", "overwrite.enabled", "s3.path.style.access.enabled", "s3.multipart.upload.part.size", "s3.storage.class",
    "s3.api.call.timeout", "s3.api.call.attempt.timeout", "s3.legacy.md5.plugin.enabled", "aws.checksum.check.enabled",
    "gcs.credentials.default", "gcs.resumable.upload.chunk.size", "azure.upload.block.size",
})  # fmt: skip


def names_store(server: ServerConfig) -> bool:
    """Does the broker with these settings have a RemoteStorageManager?"""
    return bool(dict(server.values).get(_CLASS, "").strip())


def configured_store(server: ServerConfig) -> StoreOptions:
    """Return the store in a broker's settings. Raises UsageError if they name no store or an unknown one."""
    values = dict(server.values)
    name = values.get(_CLASS, "").strip()
    if not names_store(server):
        raise UsageError(f"server.properties names no store: it has no {_CLASS}", _DO)
    prefix = values.get(_PREFIX, "rsm.config.")
    own = {key[len(prefix) :]: value.strip() for key, value in values.items() if key.startswith(prefix)}
    if name == _LOCAL:
        return StoreOptions(_value(own, "dir", prefix), "local", _LOCAL_FOLDER)
    if name == _AIVEN:
        return _aiven(own, prefix)
    raise UsageError(f"{_CLASS}={name}: this RemoteStorageManager is not known", _DO)


def _value(values: Mapping[str, str], name: str, prefix: str) -> str:
    """Return a required setting. Raises UsageError if it is missing, or comes from a config provider of the broker."""
    found = values.get(name, "")
    if not found:
        raise UsageError(f"server.properties has no {prefix}{name}", _DO)
    if found.startswith("${"):
        raise UsageError(f"{prefix}{name}={found}: only the broker knows this value, from a config provider", _DO)
    return found


def _aiven(own: Mapping[str, str], prefix: str) -> StoreOptions:
    if own.get("segment.format", "kafka").lower() != "kafka":
        raise UsageError(f"{prefix}segment.format={own['segment.format']}: segments of this format are not read", _DO)
    below = f"{prefix}storage."
    storage = {name[len("storage.") :]: value for name, value in own.items() if name.startswith("storage.")}
    backend = _value(own, "storage.backend.class", prefix)
    short = backend.removeprefix(_BACKENDS)
    keys = tuple(
        (one, _value(own, f"encryption.key.pairs.{one}.private.key.file", prefix))
        for one in (word.strip() for word in own.get("encryption.key.pairs", "").split(",")) if one
    )
    options = StoreOptions("", "aiven", own.get("key.prefix", ""), keys, new=_new_segments(own, prefix))
    if short == _FILES:
        _refuse_others(storage, {"root"}, below)
        return options._replace(store=_value(storage, "root", below))
    if short not in _OBJECT_STORES or not backend.startswith(_BACKENDS):
        raise UsageError(f"{below}backend.class={backend}: this storage is not known", _DO)
    bucket, scheme, client = _OBJECT_STORES[short]
    _refuse_others(storage, {bucket, *client}, below)
    settings = tuple((client[name], _value(storage, name, below)) for name in client if name in storage)
    return options._replace(store=f"{scheme}://{_value(storage, bucket, below)}", client=settings)


def _new_segments(own: Mapping[str, str], prefix: str) -> NewSegments | None:
    """Return how the broker stores new segments; None: it has no chunk.size, which is required."""
    text = own.get("chunk.size", "")
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or not 0 < int(text) <= INT_MAX:
        raise UsageError(f"{prefix}chunk.size={text[:20]}: not a number of bytes", _DO)
    is_compressed, only_plain, is_encrypted = (
        own.get(f"{name}.enabled", "").lower() == "true" for name in ("compression", "compression.heuristic", "encryption")
    )
    key_pair = _value(own, "encryption.key.pair.id", prefix) if is_encrypted else None
    return NewSegments(int(text), is_compressed, only_plain, key_pair)


def _refuse_others(storage: Mapping[str, str], known: set[str], below: str) -> None:
    for name in storage:
        if name not in known | _HARMLESS:
            raise UsageError(f"{below}{name}: this setting is not known", _DO)
