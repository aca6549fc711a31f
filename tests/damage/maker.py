"""Make partitions with two damages each, from a seed and the undamaged partitions of the damage corpus.

    python -m tests.damage.maker OUT --seed N [--count N]

OUT/before/d0, d1    log dirs with a partition for each pair of damages
OUT/truth.json       as in the corpus, without what a broker did
"""

from __future__ import annotations

import argparse
import json
import shutil
import struct
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from tests.damage.damages import DAMAGES
from tests.damage.evidence import CHECKPOINTS, checkpoints_of, copy_log_dirs, sound_batches, tree
from tests.damage.targets import Target, go_back_to, read_checkpoint, write_checkpoint
from tests.damage.truth import damage_corpus, truth

COUNT = 64
_TOPIC = "dmg"  # of the damaged partitions; `_OTHER` has those that lend files
_OTHER = "other"
_TRIES = 100
_NOT_APPLICABLE = (LookupError, ValueError, OSError, struct.error)


def make_pairs(out: Path, seed: int, count: int = COUNT) -> list[dict[str, Any]]:
    """Make log dirs d0, d1 below `out`/before → the damage of each partition as in truth.json, with its `id`."""
    random = Random(seed)
    corpus = damage_corpus() / "before"
    places = {one["partition"]: Path(one["partition"]) for one in truth()["damages"].values()}
    sound = [corpus / one["partition"] for name, one in sorted(truth()["damages"].items()) if name.startswith("control")]
    others = sorted(corpus.glob(f"d?/{_OTHER}-*"))
    before = copy_log_dirs(corpus, out / "before")
    for place in places:
        shutil.rmtree(before / place, ignore_errors=True)
        _forget(before / place)
    made = []
    for place in random.sample(sorted(places), count):
        origin = random.choice([*sound, *others])
        made.append(_make_one(before / place, origin, (sound[0] / "partition.metadata").read_bytes(), others, random))
        made[-1]["partition"] = place
    return made


def _make_one(directory: Path, origin: Path, topic: bytes, others: list[Path], random: Random) -> dict[str, Any]:
    """Make the partition from `origin`, with two damages that apply to it."""
    beside = {path: path.read_bytes() for path in directory.parent.iterdir() if path.is_file()}
    for _ in range(_TRIES):
        names = random.sample(sorted(DAMAGES), 2)
        shutil.copytree(origin, directory)
        (directory / "partition.metadata").write_bytes(topic)
        _note_as(origin, directory)
        original = sorted((base, last, crc) for (base, crc), last in sound_batches(directory).items())
        lenders, restart = [path for path in others if path != origin], _restart(origin)
        target = Target(directory, random, lenders, partial(go_back_to, end=restart))
        try:
            was = tree(directory)
            for name in names:
                DAMAGES[name](target)
        except _NOT_APPLICABLE:
            is_done = False
        else:
            is_done = tree(directory) != was or any(path.read_bytes() != data for path, data in beside.items())
        if is_done:
            left = sound_batches(directory)
            return {"id": "+".join(names), "checkpoints": checkpoints_of(directory), "original": original,
                    "before": [base for base, _, crc in original if (base, crc) in left]}  # fmt: skip
        shutil.rmtree(directory)
        for path, data in beside.items():
            path.write_bytes(data)
    raise AssertionError("no pair of damages can be done")


def _restart(origin: Path) -> int:
    """Return the log end at the first stop of the broker, where a new leader epoch begins."""
    return int((origin / "leader-epoch-checkpoint").read_text().splitlines()[-1].split()[1])


def _note_as(origin: Path, directory: Path) -> None:
    """Write the checkpoint entries of `origin` for a partition."""
    for name in CHECKPOINTS.values():
        if (offset := read_checkpoint(origin.parent / name).get(_key(origin))) is not None:
            path = directory.parent / name
            write_checkpoint(path, read_checkpoint(path) | {_key(directory): offset})


def _forget(directory: Path) -> None:
    """Remove a partition from the checkpoints of its log dir."""
    for name in CHECKPOINTS.values():
        path = directory.parent / name
        write_checkpoint(path, {key: offset for key, offset in read_checkpoint(path).items() if key != _key(directory)})


def _key(directory: Path) -> str:
    """Return the key of a partition in checkpoints."""
    return " ".join(directory.name.rsplit("-", 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--count", type=int, default=COUNT)
    asked = parser.parse_args()
    made = make_pairs(asked.out, asked.seed, asked.count)
    settings = {name: truth()[name] for name in ("settings", "now_ms")}
    (asked.out / "truth.json").write_text(json.dumps({**settings, "damages": {one["id"]: one for one in made}, "dirs": {}}))


if __name__ == "__main__":
    main()
