"""A group coordinator for each test."""

import pytest

from tests.support.group_bench import Bench


@pytest.fixture
def bench():
    made = Bench()
    yield made
    made.coordinator.close()
