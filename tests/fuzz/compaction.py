"""The cleaner on a mutant of a log: it ends, in order or with an error of its own, and all ways of doing its work agree."""

from __future__ import annotations

import zlib

import pytest

from engine.config.topic import LogConfig
from engine.errors import KafkalogError
from engine.log.cleaner import key_pass
from engine.log.cleaner.compaction import CompactionOptions, compact
from engine.log.cleaner.offset_map import BYTES_PER_ENTRY
from engine.log.loading.loader import open_log
from engine.record.codecs import libzstd
from tests.support.crash_files import CrashFiles
from tests.support.disk_model import Disk

_ONE_IN = 8  # logs are compacted: opening one takes longer than all the rest
_PARTITION, _NOW = "d/fuzz-0", 1_700_000_000_000
_CONFIG = LogConfig.of({"cleanup.policy": "compact"})
_LAST_BASE = 2**62


def compacts(data: bytes) -> bool:
    """Compact what recovery leaves of a log, by the kernel for whole windows and without it, with much memory and with little.

    By libzstd's functions, too, and by its module. Says whether it was done to the end. Not every log is taken.
    """
    base = int.from_bytes(data[:8], "big", signed=True)
    if zlib.crc32(data) % _ONE_IN or not 0 <= base < _LAST_BASE:
        return False
    done = True
    for keys in (1000, 3):
        by_window, one_by_one = (_compacted(data, base, keys, by_window=way) for way in (True, False))
        assert by_window == one_by_one, "the two ways of the first pass leave different logs"
        by_module = _compacted(data, base, keys, with_library=False)
        assert by_window == by_module, "libzstd's functions and its module leave different logs"
        done &= bool(by_window[0]) and not by_window[1]
    return done


def _compacted(
    data: bytes, base: int, keys: int, *, by_window: bool = True, with_library: bool = True
) -> tuple[dict[str, bytes], str]:
    """(the logs behind it, the error that it ended with)."""
    files = CrashFiles(Disk({f"{_PARTITION}/{base:020}.log": data}, frozenset({"d", _PARTITION})))
    error = ""
    try:
        log = open_log(files, f"/{_PARTITION}", _CONFIG, now=_NOW, clean_shutdown=False)
    except KafkalogError as caught:
        return {}, str(caught)
    with pytest.MonkeyPatch.context() as patch:
        if not by_window:
            patch.setattr(key_pass._KeyPass, "_ordinary", lambda *_: 0)
        if not with_library:
            patch.setattr(libzstd, "calls", lambda: memoryview(b"").cast("Q"))
        try:
            log.roll()
            log.update_high_watermark(log.log_end_offset)
            options = CompactionOptions(force=True, dedupe_buffer_size=BYTES_PER_ENTRY * 2 * keys, secret=(1, 2))
            compact(log, options, lambda _: None, lambda _: None)
        except KafkalogError as caught:
            error = str(caught)
        finally:
            log.close()
    return {path: content for path, content in files.disk().contents.items() if path.endswith(".log")}, error
