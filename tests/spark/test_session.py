"""Ctrl-C within a session of ours: whose handler has it, and what is logged of it."""

from __future__ import annotations

import logging
import signal

import pytest

from kafkalog_spark.session import _heed, _is_news


def test_the_handler_that_was_there_comes_back():
    before = signal.getsignal(signal.SIGINT)
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # as pyspark would, with one of its own
        _heed(before)
        assert signal.getsignal(signal.SIGINT) is before
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(("said", "is_told"), [("KeyboardInterrupt while sending command.", False), ("no space", True)])
def test_what_py4j_raises_as_well_is_not_logged(said, is_told):
    assert _is_news(logging.LogRecord("root", logging.ERROR, "", 1, said, None, None)) is is_told
