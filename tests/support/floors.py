"""What a corpus must hold, so that a sweep over it proves something: all that the project's own has, any part of it in another.

Another one is named by KAFKALOG_CORPUS, and may be small: a sweep takes what is there. One that finds nothing skips, and says so.
"""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def is_own_corpus() -> bool:
    """Whether sweeps go over the project's own corpus."""
    return not os.environ.get("KAFKALOG_CORPUS")


def absent(what: str) -> NoReturn:
    """The corpus lacks what a test needs: that fails on the project's own, and skips the test on another one."""
    if is_own_corpus():
        pytest.fail(f"the corpus has no {what}")
    pytest.skip(f"this corpus has no {what}")


def saw_enough(what: str, seen: int, floor: int = 1) -> None:
    """A sweep saw so many: on the project's own corpus at least `floor`, on another one any. Call it last, it may skip."""
    if not seen:
        absent(what)
    assert seen >= floor or not is_own_corpus(), f"{seen} {what}, the corpus had {floor}"
