"""The settings of topics that the user gives, apart from the log manager: commands check them before they load that."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine.config.server import ServerConfig

if TYPE_CHECKING:
    from engine.config.topic import LogConfig


@dataclass(frozen=True, slots=True)
class Settings:
    """What the user says about topics: server.properties, and settings that go over everything else."""

    server: ServerConfig = field(default_factory=ServerConfig)
    overrides: tuple[tuple[str, str], ...] = ()

    @property
    def config(self) -> LogConfig:
        """Of a topic that has none of its own. Raises UsageError for settings that are unknown or out of range."""
        return self.server.topics.with_settings(dict(self.overrides))

    def check(self) -> None:
        """Raise UsageError for settings that are unknown or out of range."""
        _ = self.config
