"""A log that was opened in memory first is gone before it is opened once more: its producers may take much memory."""

from __future__ import annotations

import gc
import weakref

from engine.config import LogConfig
from engine.files import Files
from engine.log.loading.loader import open_log


def test_a_log_goes_with_its_last_reference(tmp_path):
    gc.disable()
    try:
        log = open_log(Files(), str(tmp_path / "t-0"), LogConfig(), now=1, clean_shutdown=True)
        producers = weakref.ref(log.producer_state)
        log.close_handlers()
        del log
        assert producers() is None
    finally:
        gc.enable()
