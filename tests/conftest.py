"""What every test may use."""

from __future__ import annotations

import os
import signal
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.support import corpus as packed
from tests.support.corpus import corpus_directory, own_corpus_directory

if TYPE_CHECKING:
    from pathlib import Path

# the same examples every time, however slow the machine: a red suite means a change, not bad luck; `make fuzz` draws others
settings.register_profile(
    "suite", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    max_examples=int(os.environ.get("KAFKALOG_EXAMPLES", "100")),
)  # fmt: skip
settings.load_profile("suite")
# tests start Python hundreds of times: each would compile the modules of the project again
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # started in the background of a shell: what we start would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="store goldens again; those of Kafka only from real Kafka")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How many tests were skipped, by reason."""
    reasons = Counter(report.longrepr[2] for report in terminalreporter.stats.get("skipped", ()))
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"{count} × {reason}")


def pytest_report_header() -> str:
    return f"kafkalog corpus: {os.environ.get('KAFKALOG_CORPUS', 'the project’s own')}"


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The corpus that sweeps go over, whatever it holds (KAFKALOG_CORPUS); read only."""
    return corpus_directory()


@pytest.fixture(scope="session")
def own_corpus() -> Path:
    """The project's own corpus, for tests that name a topic; read only."""
    return own_corpus_directory()


@pytest.fixture(scope="session")
def own_cluster_corpus() -> Path:
    """The project's own log dirs of clusters, for tests that name a topic; read only."""
    return packed.cluster_directory()


@pytest.fixture(scope="session")
def cluster_corpus() -> Path:
    """Log dirs of clusters, and what Kafka's admin tools said of them, for sweeps (KAFKALOG_CLUSTER_CORPUS); read only."""
    return packed.cluster_corpus()


@pytest.fixture(scope="session")
def shared_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory for the examples of Hypothesis, which replace each other's files: not the one around those of all tests."""
    return tmp_path_factory.mktemp("shared")
