"""The least that a sweep must find in a corpus: everything in the project's own corpus, anything in another one.

Another corpus (KAFKALOG_CORPUS) may be small: a sweep uses what it has, and is skipped if it finds nothing.
"""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def is_own_corpus() -> bool:
    """Do sweeps use the project's own corpus?"""
    return not os.environ.get("KAFKALOG_CORPUS")


def absent(what: str) -> NoReturn:
    """Report that the corpus lacks what a test needs: fails with the project's own corpus, skips the test with another one."""
    if is_own_corpus():
        pytest.fail(f"the corpus has no {what}")
    pytest.skip(f"this corpus has no {what}")


def saw_enough(what: str, seen: int, floor: int = 1) -> None:
    """Check what a sweep has seen: at least `floor` in the project's own corpus, anything in another one. Call last: it may skip."""
    if not seen:
        absent(what)
    assert seen >= floor or not is_own_corpus(), f"{seen} {what}, the corpus had {floor}"
