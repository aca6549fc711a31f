"""Errors as Spark shows them: one clean sentence."""

from __future__ import annotations

PREFIX = "kafkalog: "


class OptionError(ValueError):
    """An option that makes no sense, or is not there."""

    def __init__(self, message: str) -> None:
        super().__init__(PREFIX + message)


class LogDirError(ValueError):
    """A path or a log that can not be read."""

    def __init__(self, message: str) -> None:
        super().__init__(PREFIX + message)


class DataLossError(ValueError):
    """Offsets that were asked for and are no longer there, while failOnDataLoss is true."""

    def __init__(self, message: str) -> None:
        super().__init__(
            f"{PREFIX}{message} Some data may have been lost because they are not available in the log any more; either "
            "the data was aged out, or the topic was deleted before all of it was read. If you do not want the query to "
            "fail on such cases, set the source option failOnDataLoss to false."
        )
