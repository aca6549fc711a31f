"""Times as people and Kafka write them."""

from __future__ import annotations

from datetime import UTC, datetime

_YEAR_9999_MS = 253_402_300_799_999


def moment(ms: int) -> str:
    """A time of the day in UTC, and the number of ms that Kafka has; only the number where no calendar has the day."""
    if not 0 <= ms <= _YEAR_9999_MS:
        return f"{ms} ms"
    return f"{datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec='milliseconds').replace('+00:00', 'Z')} ({ms} ms)"
