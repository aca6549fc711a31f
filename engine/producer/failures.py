"""How a producer fails a record, or refuses a call or a configuration: with the names and messages of Kafka's exceptions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.errors import KafkalogError

if TYPE_CHECKING:
    from engine.protocol.error_codes import Error


class ProducerError(KafkalogError):
    """A record, a call or a configuration that the producer refuses. Its text is that of Kafka's exception `name`."""

    code = "producer"

    def __init__(self, name: str, message: str, *, is_retriable: bool = False) -> None:
        super().__init__(f"{name}: {message}")
        self.name, self.text, self.is_retriable = name, message, is_retriable

    @classmethod
    def of(cls, error: Error, message: str | None = None) -> ProducerError:
        """Return the exception of an error code, with the broker's message if there is one."""
        return cls(error.exception, error.message if message is None else message, is_retriable=error.is_retriable)
