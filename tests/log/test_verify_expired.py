"""Producers that were silent for long are forgotten: what recovery then writes is what verification expects."""

from __future__ import annotations

import struct
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from engine.config.topic import LogConfig
from engine.files import Files, ReadOnlyFiles
from engine.log.verify.partition import verify_partition
from tests.support.logs import open_log
from tests.support.producer_logs import build, events


def about_snapshots(directory):
    findings = []
    verify_partition(ReadOnlyFiles(), str(directory), findings.append)
    return [finding for finding in findings if finding.code == "snapshot-mismatch"]


@given(events, st.integers(1, 20), st.lists(st.tuples(st.integers(900, 1600), st.integers(0, 60)), min_size=1, max_size=3))
def test_what_recovery_leaves_is_sound_whenever_it_runs(log, batches, runs):
    made = build(log)
    with tempfile.TemporaryDirectory() as top:
        directory = Path(top) / "t-0"
        directory.mkdir()
        for first in range(0, len(made), batches):
            (base,) = struct.unpack_from(">q", made[first])
            (directory / f"{base:020}.log").write_bytes(b"".join(made[first : first + batches]))
        for now, recovery_point in sorted(runs):
            open_log(
                Files(), str(directory), LogConfig(), now=now, clean_shutdown=False, recovery_point=recovery_point,
                producer_id_expiration_ms=40,
            ).close()
            assert about_snapshots(directory) == []
