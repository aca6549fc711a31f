"""Fixtures that run real Kafka. Without Java or Maven their tests are skipped, in CI (CI=true) they fail."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.oracle.jvm import Kafka, missing_programs
from tests.support.needs import lacking

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.oracle.jvm import Ran


@pytest.fixture(scope="session")
def kafka() -> Iterator[Kafka]:
    """One JVM for the whole session."""
    if missing := missing_programs():
        lacking(f"real Kafka needs {', '.join(missing)}: not found")
    running = Kafka()
    yield running
    running.close()


@pytest.fixture(scope="session")
def real_dump(kafka: Kafka) -> Callable[..., Ran]:
    """`real_dump(arguments, cwd) -> (stdout, stderr, exit)`: the real kafka-dump-log."""
    return kafka.dump


@pytest.fixture(scope="session")
def kafka_engine(kafka: Kafka) -> Callable[..., dict[str, Any]]:
    """`kafka_engine(*arguments) -> dict`: the real storage engine and batch builder; commands: see README.md."""
    return kafka.engine


@pytest.fixture(scope="session")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory for files that go to and fro, also within property tests."""
    return tmp_path_factory.mktemp("oracle")
