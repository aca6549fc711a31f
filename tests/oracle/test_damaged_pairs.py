"""Pairs of damages, recovered twice by Kafka's engine and twice by `recover`: the same files after each.

What a second start changes is so Kafka's own: at a clean start it takes producer snapshots as it finds them.
`KAFKALOG_DAMAGE_SEED` chooses other pairs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.damage.evidence import broker_differs, checkpoints_of, copy_log_dirs, fingerprint, prepare
from tests.damage.maker import make_pairs
from tests.damage.repairs import settings_for
from tests.damage.test_pairs import SEED
from tests.damage.truth import MODES, Violation, not_allowed, truth
from tests.support.run import kafkalog

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.oracle
TOPIC = ("segment.index.bytes=4096", "index.interval.bytes=200", "segment.bytes=2200", "retention.ms=-1")  # as in the metadata log


@pytest.mark.parametrize("mode", MODES)
def test_the_same_files_after_each_of_two_starts(mode, kafka_engine, tmp_path):
    ids = {one["partition"]: one["id"] for one in make_pairs(tmp_path / "made", SEED)}
    theirs, ours = (copy_log_dirs(tmp_path / "made/before", tmp_path / name) for name in ("theirs", "ours"))
    for top in (theirs, ours):
        prepare(mode, top)
    words = ["recover", *settings_for(tmp_path), "--no-quarantine", "--start-beyond-end", "delete"]
    words += ["--clean-start"] if mode == "clean" else []
    differ: dict[str, list[str]] = {}
    opened = set(ids)
    for number in (1, 2):
        said = {where: checkpoints_of(ours / where) for where in ids}
        kafkalog(*words, *map(str, sorted(ours.glob("d?"))))
        for where in sorted(opened):
            left = _start(kafka_engine, theirs / where, mode, said[where])
            if left is not None and (topic := ours / where / "partition.metadata").exists():
                left["files"][topic.name] = fingerprint(topic)  # a broker looks after it, not the engine
            if left is None:
                opened.remove(where)
            elif found := not_allowed(ids[where], mode, [Violation("a", one) for one in broker_differs(left, ours / where)]):
                differ[f"{number} {where} {ids[where]}"] = found
    assert differ == {}, f"seed {SEED}"
    assert len(opened) > len(ids) // 2


def _start(kafka_engine: Callable[..., dict[str, Any]], directory: Path, mode: str, said: dict[str, int]) -> dict[str, Any] | None:
    """Open the log as a starting broker does, and close it. What it leaves; None: it cannot be opened.

    said  the checkpoints, as the run before left them
    """
    options = ["--now", str(truth()["now_ms"]), *(word for setting in TOPIC for word in ("--config", setting))]
    for name, option in (("recovery_point", "--recovery-point"), ("log_start", "--log-start-offset")):
        if name in said:
            options += [option, str(said[name])]
    if "failed" in kafka_engine("open" if mode == "clean" else "recover", str(directory), *options):
        return None
    files = {path.name: fingerprint(path) for path in directory.iterdir()}
    epochs = directory / "leader-epoch-checkpoint"
    return {"files": files, "epochs": epochs.read_text().splitlines()[2:] if epochs.exists() else []}
