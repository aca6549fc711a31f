"""Laws of `recover --salvage` for small random logs: batches lost, damaged, moved and repeated, epochs that contradict each other.

`make damage SEED=N` takes other logs, and a hundred times as many.
"""

from __future__ import annotations

import os
import shutil
from random import Random

import pytest

from engine.record.builder import NewRecord, build_batch
from tests.support.run import kafkalog

FULL = os.environ.get("KAFKALOG_DAMAGE") == "full"
SEED = int(os.environ.get("KAFKALOG_DAMAGE_SEED") or "1")
GROUPS, LOGS = (20, 200) if FULL else (2, 20)
META = "version=1\ncluster.id=abc\nnode.id=1\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAQ\n"


def random_log(rng, log_dir):
    """Write a partition of one to three segments."""
    partition = log_dir / "t-0"
    partition.mkdir(parents=True)
    (log_dir / "meta.properties").write_text(META)
    segments, end = sound_segments(rng)
    for _ in range(rng.randint(0, 3)):
        damage(rng, segments)
    for base, batches in segments:
        (partition / f"{base:020d}.log").write_bytes(b"".join(batches))
    entries, offset, epoch = [], 0, rng.randint(0, 2)
    for _ in range(rng.randint(0, 4)):
        entries.append(f"{epoch} {offset}\n")
        epoch, offset = epoch + rng.randint(1, 3), offset + rng.randint(1, max(2, end // 2))
    if rng.random() < 0.8:
        (partition / "leader-epoch-checkpoint").write_text(f"0\n{len(entries)}\n{''.join(entries)}")
    if rng.random() < 0.3:
        (log_dir / "recovery-point-offset-checkpoint").write_text(f"0\n1\nt 0 {rng.randint(0, end + 3)}\n")


def sound_segments(rng):
    """Return ([(base offset, batches)], the offset after them). One of seven batches has any epoch."""
    segments, offset, epoch, sequences = [], 0, rng.randint(0, 2), {}
    for _ in range(rng.randint(1, 3)):
        base, batches = offset, []
        for _ in range(rng.randint(1, 6)):
            epoch += rng.randint(1, 3) * (rng.random() < 0.25)
            count, producer = rng.randint(1, 3), rng.choice((None, None, 1, 2))
            fields = {}
            if producer is not None:
                fields = {"producer_id": producer, "producer_epoch": 0, "base_sequence": sequences.get(producer, 0)}
                sequences[producer] = fields["base_sequence"] + count
            records = [NewRecord(offset + at, 1_700_000_000_000 + offset + at, None, b"%d" % rng.randrange(1000)) for at in range(count)]
            written = epoch if rng.random() < 0.85 else rng.randint(0, epoch + 3)
            batches.append(build_batch(records, partition_leader_epoch=written, **fields))
            offset += count
        segments.append((base, batches))
    return segments, offset


def damage(rng, segments):
    """Change one thing in the segments."""
    batches = rng.choice(segments)[1]
    if not batches:
        return
    at, kind = rng.randrange(len(batches)), rng.choice(("repeat", "exchange", "lose", "flip", "move", "epoch"))
    if kind == "repeat":
        batches.insert(rng.randrange(len(batches) + 1), rng.choice([one for _, of_segment in segments for one in of_segment]))
    elif kind == "exchange":
        other = rng.randrange(len(batches))
        batches[at], batches[other] = batches[other], batches[at]
    elif kind == "lose":
        batches.pop(at)
    elif kind == "flip":
        batches[at] = flipped(batches[at], rng.randrange(len(batches[at])), 1 << rng.randrange(8))
    elif kind == "move":
        rng.choice(segments)[1].append(batches.pop(at))
    else:
        batches[at] = flipped(batches[at], 15, 1 << rng.randrange(4))


def flipped(data, at, bits):
    changed = bytearray(data)
    changed[at] ^= bits
    return bytes(changed)


def tree(top):
    return {str(path.relative_to(top)): path.read_bytes() for path in sorted(top.rglob("*")) if path.is_file() and path.name != ".lock"}


def salvage(log_dir, *options):
    done = kafkalog("recover", "--salvage", *options, str(log_dir))
    assert done.status in (0, 1, 4), done.err
    return done


@pytest.mark.parametrize("group", range(GROUPS))
def test_salvaging_any_log_can_be_undone_and_is_complete_after_one_run(group, tmp_path):
    for number in range(LOGS):
        seed, log_dir, kept = f"{SEED} {group} {number}", tmp_path / "d", tmp_path / "kept"
        random_log(Random(seed), log_dir)
        before = tree(log_dir)
        first = salvage(log_dir, "--quarantine", str(kept))
        after = tree(log_dir)
        if b"not finished" not in first.out:  # such a run left files for deletion
            salvage(log_dir, "--no-quarantine")
            assert tree(log_dir) == after, seed
        shutil.rmtree(log_dir)
        random_log(Random(seed), log_dir)
        foretold = salvage(log_dir, "--dry-run")
        assert tree(log_dir) == before, seed
        shutil.rmtree(kept, ignore_errors=True)
        second = salvage(log_dir, "--quarantine", str(kept))
        assert (second.out, second.status, tree(log_dir)) == (first.out, first.status, after), seed
        assert foretold.status == first.status, seed
        if kept.exists():
            assert kafkalog("restore", str(kept)).status == 0, seed
            assert tree(log_dir) == before, seed
        else:
            assert after == before | {name: data for name, data in after.items() if name not in before}, seed
        shutil.rmtree(log_dir)
        shutil.rmtree(kept, ignore_errors=True)


# by segment: (first offset, records, leader epoch); the last batch is damaged. Then the entries of leader-epoch-checkpoint
CONTRADICTORY = {
    "in the next segment": ({0: [(0, 2, 3), (2, 3, 0), (5, 1, 9)], 6: [(6, 1, 3)]}, None),
    "later in the next segment": ({0: [(0, 2, 2), (2, 1, 2), (3, 2, 3)], 5: [(5, 1, 1), (6, 1, 2)]}, "1 0\n2 3\n3 7\n5 8\n"),
}


@pytest.mark.parametrize("damaged", CONTRADICTORY)
def test_a_batch_that_is_truncated_says_nothing_about_leader_epochs(damaged, tmp_path):
    """Else a second run, which does not see it, decides otherwise which of contradictory epochs are correct."""
    parts, entries = CONTRADICTORY[damaged]
    partition = tmp_path / "d/t-0"
    partition.mkdir(parents=True)
    (tmp_path / "d/meta.properties").write_text(META)
    for base, batches in parts.items():
        built = [build_batch([NewRecord(first + at, 1_700_000_000_000, None, b"v") for at in range(count)], partition_leader_epoch=epoch)
                 for first, count, epoch in batches]  # fmt: skip
        if base == max(parts):
            built[-1] = flipped(built[-1], 65, 1)
        (partition / f"{base:020d}.log").write_bytes(b"".join(built))
    if entries is not None:
        (partition / "leader-epoch-checkpoint").write_text(f"0\n4\n{entries}")
    assert b"truncated" in salvage(tmp_path / "d", "--no-quarantine").out
    after = tree(tmp_path / "d")
    salvage(tmp_path / "d", "--no-quarantine")
    assert tree(tmp_path / "d") == after
