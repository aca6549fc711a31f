"""DescribeConfigs: the settings of topics and their sources, as far as the disks know them. Mirrors ConfigHelper.

The metadata log has what was set for topics and, while the cluster ran, for brokers. A broker's server.properties is not on its
log dirs, so a value that was set there shows as Kafka's default.
"""

from __future__ import annotations

from dataclasses import fields
from itertools import dropwhile
from typing import TYPE_CHECKING, Any

from engine.config.server import SYNONYMS
from engine.config.topic import INTERNAL_SEGMENT_SIZE, LogConfig, without_bearing
from engine.formats import INT_MAX, LONG_MAX
from engine.protocol.error_codes import Error

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from engine.serve.catalogue import Catalogue

_TOPIC, _BROKER = 2, 4  # ConfigResource.Type
_OF_TOPIC, _OF_BROKER, _OF_ALL_BROKERS, _DEFAULT = 1, 2, 3, 5  # DescribeConfigsResponse.ConfigSource
_BOOLEAN, _STRING, _INT, _LONG, _DOUBLE, _LIST = 1, 2, 3, 5, 6, 7  # ConfigDef.Type
_INT_SETTINGS = ("compression.gzip.level", "compression.lz4.level", "compression.zstd.level")
_LISTS = ("cleanup.policy", "leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
_SHOWN_AS = {  # defaults that the broker has under other names than those that can be changed
    "retention.ms": ("log.retention.hours", "168"), "segment.ms": ("log.roll.hours", "168"),
    "segment.jitter.ms": ("log.roll.jitter.hours", "0"), "flush.ms": ("log.flush.scheduler.interval.ms", str(LONG_MAX)),
}  # fmt: skip


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _type_of(name: str, default: object, high: float) -> int:
    if name in _LISTS:
        return _LIST
    if isinstance(default, bool | str | float):
        return _BOOLEAN if isinstance(default, bool) else _STRING if isinstance(default, str) else _DOUBLE
    return _INT if high == INT_MAX or name in _INT_SETTINGS else _LONG


def _defaults() -> dict[str, tuple[str, int]]:
    """Return the default and the type of each setting of topics."""
    known = {one.metadata["name"]: (one.default, one.metadata["high"]) for one in fields(LogConfig)}
    known |= {name: (default, bounds.get("high", 0)) for name, (default, bounds) in without_bearing().items()}
    return {name: (_text(default), _type_of(name, default, high)) for name, (default, high) in known.items()}


def describe_configs(catalogue: Catalogue, body: dict[str, Any]) -> dict[str, Any]:
    """Answer DescribeConfigs for topics; for brokers only with the settings that were changed while the cluster ran."""
    with_synonyms = bool(body.get("includeSynonyms"))
    known: dict[tuple[int, str], dict[str, Any]] = {}
    results = []
    for resource in {repr(one): one for one in body["resources"]}.values():  # each once: a bounded answer
        kind, name = resource["resourceType"], resource["resourceName"]
        if (kind, name) not in known:
            known[kind, name] = _described(catalogue, kind, name, with_synonyms=with_synonyms)
        all_of_it, wanted = known[kind, name], resource["configurationKeys"]
        results.append(all_of_it | {"configs": [one for one in all_of_it["configs"] if not wanted or one["name"] in wanted]})
    return {"throttleTimeMs": 0, "results": results}


def _described(catalogue: Catalogue, kind: int, name: str, *, with_synonyms: bool) -> dict[str, Any]:
    answer = {"errorCode": 0, "errorMessage": "", "resourceType": kind, "resourceName": name, "configs": []}
    metadata = catalogue.cluster.metadata
    brokers = {} if metadata is None else metadata.brokers
    dynamic = [(_OF_BROKER, brokers.get(str(catalogue.cluster.node_id), {})), (_OF_ALL_BROKERS, brokers.get("", {}))]
    if kind == _TOPIC:
        if name not in catalogue.topics:
            text = "This server does not host this topic-partition."
            return answer | {"errorCode": int(Error.UNKNOWN_TOPIC_OR_PARTITION), "errorMessage": text}
        own = {} if metadata is None else metadata.settings.get(name, {})
        configs = list(_of_topic(own, dynamic, with_synonyms=with_synonyms))
    elif kind == _BROKER:
        configs = [_config(setting, [(setting, value, source)], _STRING, with_synonyms=with_synonyms)
                   for source, values in dynamic for setting, value in values.items()]  # fmt: skip
    else:
        return answer | {"errorCode": int(Error.INVALID_REQUEST), "errorMessage": f"Unsupported resource type {kind}"}
    return answer | {"configs": configs}


def _of_topic(
    own: Mapping[str, str], dynamic: Iterable[tuple[int, Mapping[str, str]]], *, with_synonyms: bool
) -> Iterable[dict[str, Any]]:
    if INTERNAL_SEGMENT_SIZE in own:
        sources = [(INTERNAL_SEGMENT_SIZE, own[INTERNAL_SEGMENT_SIZE], _OF_TOPIC)]
        yield _config(INTERNAL_SEGMENT_SIZE, sources, _INT, with_synonyms=with_synonyms)
    for name, (default, kind) in _defaults().items():
        sources = [(name, own[name], _OF_TOPIC)] if name in own else []
        sources += _of_server(name, default, dynamic)
        value = sources[0][1] if sources and sources[0][2] != _DEFAULT else default
        yield _config(name, sources, kind, with_synonyms=with_synonyms, value=value)


def _of_server(name: str, default: str, dynamic: Iterable[tuple[int, Mapping[str, str]]]) -> Iterable[tuple[str, str, int]]:
    """Return a broker's settings from which a topic has its own, from the first with the same unit on, as a broker does."""
    servers = [server for server, factor in SYNONYMS.get(name, ()) if factor == 1]
    if not servers:
        return ()
    found = [(server, values[server], source) for source, values in dynamic for server in servers if server in values]
    found.append((*_SHOWN_AS.get(name, (servers[0], default)), _DEFAULT))
    return dropwhile(lambda one: one[0] != servers[0], found)


def _config(
    name: str, sources: list[tuple[str, str, int]], kind: int, *, with_synonyms: bool, value: str | None = None
) -> dict[str, Any]:  # fmt: skip
    shown = [{"name": one, "value": text, "source": source} for one, text, source in sources] if with_synonyms else []
    return {
        "name": name, "value": sources[0][1] if value is None else value, "readOnly": False,
        "configSource": sources[0][2] if sources else _DEFAULT, "isSensitive": False, "synonyms": shown, "configType": kind,
        "documentation": None,
    }  # fmt: skip
