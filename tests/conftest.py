"""What every test may use. KAFKALOG_TEST_KERNELS=interpreted runs the suite on kernels that are not compiled."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

if os.environ.get("KAFKALOG_TEST_KERNELS") == "interpreted":
    from tests.support.interpreted import install

    install()

from tests.support.corpus import corpus_directory


def pytest_report_header() -> str:
    from engine.kernels import BUILD

    return f"kafkalog kernels: {BUILD}; corpus: {os.environ.get('KAFKALOG_CORPUS', 'the project’s own')}"


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The corpus of real log directories; read only."""
    return corpus_directory()
