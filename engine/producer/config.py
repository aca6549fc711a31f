"""The settings of a producer, and which of them exclude each other. Mirrors ProducerConfig."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from engine.formats import CODEC_NAMES, INT_MAX, Codec
from engine.producer.failures import ProducerError
from engine.record.assembly import BatchSpec
from engine.record.codecs.codecs import LEVELS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ROUND_ROBIN = "org.apache.kafka.clients.producer.RoundRobinPartitioner"
_PLAIN = BatchSpec()
_ACKS = {"all": -1, "-1": -1, "0": 0, "1": 1}
_MAX_IN_FLIGHT = 5  # of an idempotent producer
_NAMES = {
    "adaptive_partitioning": "partitioner.adaptive.partitioning.enable",
    "availability_timeout_ms": "partitioner.availability.timeout.ms", "ignore_keys": "partitioner.ignore.keys",
    "idempotence": "enable.idempotence", "max_in_flight": "max.in.flight.requests.per.connection",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerConfig:
    """Settings under Kafka's names; `_NAMES` has those that differ by more than dots.

    acks         −1 is all
    spec         codec and level of batches (compression.type, compression.CODEC.level)
    idempotence  None: on, if the other settings allow it
    """

    acks: int = -1
    batch_size: int = 16384
    buffer_memory: int = 32 << 20
    client_id: str = "producer-1"
    delivery_timeout_ms: int = 120_000
    idempotence: bool | None = None
    linger_ms: int = 5
    max_block_ms: int = 60_000
    max_in_flight: int = 5
    max_request_size: int = 1 << 20
    adaptive_partitioning: bool = True
    availability_timeout_ms: int = 0
    partitioner_class: str | None = None
    ignore_keys: bool = False
    request_timeout_ms: int = 30_000
    retries: int = INT_MAX
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1000
    spec: BatchSpec = _PLAIN
    transaction_timeout_ms: int = 60_000
    transactional_id: str | None = None

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> ProducerConfig:
        """Return the configuration of settings as text. Raises ProducerError for values or combinations that Kafka refuses."""
        given: dict[str, Any] = {}
        for field in fields(cls):
            text = settings.get(_NAMES.get(field.name, field.name.replace("_", ".")))
            if text is None:
                continue
            try:
                given[field.name] = _parsed(field.name, str(field.type), text)
            except ValueError:
                name = _NAMES.get(field.name, field.name.replace("_", "."))
                raise ProducerError("ConfigException", f"Invalid value {text} for configuration {name}") from None
        given["spec"] = batch_spec(settings)
        config = cls(**given)
        least = min(config.linger_ms, INT_MAX) + config.request_timeout_ms
        if config.delivery_timeout_ms < least and "delivery.timeout.ms" in settings:
            what = "delivery.timeout.ms should be equal to or larger than linger.ms + request.timeout.ms"
            raise ProducerError("ConfigException", what)
        return config

    def __post_init__(self) -> None:
        """Decide on idempotence. Raises ProducerError."""
        if self.batch_size < 1:
            object.__setattr__(self, "batch_size", 1)  # 0: every record alone
        object.__setattr__(self, "idempotence", self._checked_idempotence())
        if self.transactional_id is not None and not self.idempotence:
            raise ProducerError("ConfigException", "Cannot set a transactional.id without also enabling idempotence.")

    def _checked_idempotence(self) -> bool:
        if self.idempotence is False:
            return False
        refusals = (
            (self.retries == 0, "Must set retries to non-zero when using the idempotent producer."),
            (self.acks != -1, ("Must set acks to all in order to use the idempotent producer. Otherwise we cannot guarantee "
                              "idempotence.")),
        )  # fmt: skip
        for is_against, message in refusals:
            if is_against and self.idempotence:
                raise ProducerError("ConfigException", message)
        if self.max_in_flight > _MAX_IN_FLIGHT:
            what = ("To use the idempotent producer, max.in.flight.requests.per.connection must be set to at most "
                    f"{_MAX_IN_FLIGHT}. Current value is {self.max_in_flight}.")  # fmt: skip
            raise ProducerError("ConfigException", what)
        return not any(is_against for is_against, _ in refusals)


def _not_among(text: str, name: str, valid: Iterable[str]) -> ProducerError:
    what = f"Invalid value {text} for configuration {name}: String must be one of: {', '.join(valid)}"
    return ProducerError("ConfigException", what)


def _parsed(name: str, kind: str, text: str) -> Any:
    if name == "acks":
        if text not in _ACKS:
            raise _not_among(text, name, _ACKS)
        return _ACKS[text]
    if kind.startswith("bool"):
        if text.lower() not in ("true", "false"):
            raise ValueError(text)
        return text.lower() == "true"
    return int(text) if kind == "int" else text


def batch_spec(settings: Mapping[str, str]) -> BatchSpec:
    """Return codec and level of batches. Raises ProducerError, also for a bad level of another codec."""
    name = settings.get("compression.type", "none")
    if name not in CODEC_NAMES:
        raise _not_among(name, "compression.type", CODEC_NAMES)
    codec = Codec(CODEC_NAMES.index(name))
    levels = {one: _level(settings, one) for one in LEVELS}
    return BatchSpec(codec=codec, level=levels.get(codec))


def _level(settings: Mapping[str, str], codec: Codec) -> int | None:
    name = f"compression.{CODEC_NAMES[codec]}.level"
    if name not in settings:
        return None
    text, (least, most, default) = settings[name], LEVELS[codec]
    invalid = f"Invalid value {text} for configuration {name}"
    try:
        level = int(text)
    except ValueError:
        raise ProducerError("ConfigException", f"{invalid}: Not a number of type INT") from None
    if level != default and not least <= level <= most:
        bound = f"Value must be at least {least}" if level < least else f"Value must be no more than {most}"
        raise ProducerError("ConfigException", f"{invalid}: {bound}")
    return level
