"""Random histories of two replicas, made by the log engine, compared with a judge in plain Python that knows every batch."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.compare.batches import compare
from engine.compare.replica import Replica
from engine.compare.result import Verdict
from engine.config.topic import LogConfig
from engine.files import Files, ReadOnlyFiles
from engine.log.append.analysis import append_as_follower
from engine.record.builder import NewRecord, build_batch
from tests.support.logs import open_log
from tests.support.run import kafkalog

NOW = 1_764_000_000_000
EXAMPLES = 40


@dataclass
class Copy:
    """What the judge knows of a replica: (base offset, epoch, keys) of each batch."""

    log: object
    batches: list[tuple[int, int, tuple[bytes, ...]]] = field(default_factory=list)

    @property
    def end(self) -> int:
        return self.batches[-1][0] + len(self.batches[-1][2]) if self.batches else 0

    def append(self, batch, number):
        base, epoch, keys = batch
        records = [NewRecord(base + at, NOW - 1_000_000 + 1000 * number + at, key, b"%d" % number) for at, key in enumerate(keys)]
        append_as_follower(self.log, build_batch(records, partition_leader_epoch=epoch, codec=number % 5), epoch)
        self.batches.append(batch)

    def truncate(self, offset):
        self.log.truncate_to(offset)
        self.batches = [batch for batch in self.batches if batch[0] < offset]


# the leader of a term, the batches that it gets, how many of these the other one gets too, does the other one truncate first?
TERM = st.tuples(
    st.sampled_from((0, 1)), st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=4), max_size=5), st.integers(0, 5), st.booleans()
)


def common(one, other):
    """Number of batches that both begin with."""
    return next((at for at, pair in enumerate(zip(one.batches, other.batches, strict=False)) if pair[0] != pair[1]),
                min(len(one.batches), len(other.batches)))  # fmt: skip


def live(copies, terms):
    number = 0
    for epoch, (leader, batches, replicated, follows) in enumerate(terms):
        leading, other = copies[leader], copies[1 - leader]
        same = common(leading, other)
        fork = leading.batches[same][0] if same < len(leading.batches) else leading.end
        if follows:
            other.truncate(min(fork, other.end))
        is_in_step = common(leading, other) == len(other.batches) and leading.end == other.end
        for at, keys in enumerate(batches):
            batch = leading.end, epoch, tuple(b"key-%d" % key for key in keys)
            leading.append(batch, number)
            if follows and is_in_step and at < replicated:
                other.append(batch, number)
            number += 1


def judged(one, other):
    """(verdict, common end, records that only the first and only the second has after it)."""
    same = common(one, other)
    rest = [sum(len(keys) for _, _, keys in copy.batches[same:]) for copy in (one, other)]
    end = one.batches[same - 1][0] + len(one.batches[same - 1][2]) if same else 0
    verdict = Verdict.FORKED if all(rest) else Verdict.PREFIX if any(rest) else Verdict.SAME
    return verdict, end, rest


def opened(directory, name):
    config = LogConfig.of({"segment.bytes": "400", "index.interval.bytes": "100"})
    (directory / name / "t-0").mkdir(parents=True)
    return open_log(Files(), str(directory / name / "t-0"), config, now=NOW, clean_shutdown=True)


@given(st.lists(TERM, min_size=1, max_size=5), st.sampled_from((None, 0, 1)), st.booleans())
@settings(max_examples=EXAMPLES)
def test_random_replicas(terms, compacted, with_checkpoints):
    with tempfile.TemporaryDirectory() as made:
        top = Path(made)
        with opened(top, "a") as first, opened(top, "b") as second:
            copies = Copy(first), Copy(second)
            live(copies, terms)
        directories = [str(top / name / "t-0") for name in "ab"]
        if compacted is not None:
            done = kafkalog("compact", "--clean-start", "-y", "--now", str(NOW), "--config", "cleanup.policy=compact",
                            "--config", "min.cleanable.dirty.ratio=0", directories[compacted])  # fmt: skip
            assert done.status in (0, 1), done.err
        if not with_checkpoints:
            for directory in directories:
                (Path(directory) / "leader-epoch-checkpoint").unlink()
        found = []
        replicas = [Replica(ReadOnlyFiles(), directory, name, found.append) for name, directory in zip("ab", directories, strict=True)]
        result = compare(*replicas, found.append)
        verdict, end, rest = judged(*copies)
        assert result.verdict is verdict
        assert not found
        if compacted is None:
            assert result.common_end == end
            assert [0 if side.after is None else side.after.records for side in result.sides] == rest
            assert [side.compacted for side in result.sides] == [0, 0]
        else:
            assert result.common_end <= end
            assert result.sides[compacted].compacted == 0
        assert not result.differences
        assert [side.missing for side in result.sides] == [None, None]
        for replica in replicas:
            replica.close()
        if compacted is None:
            assert all(side.truncates_to is None or side.truncates_to <= end for side in result.sides), "at the fork, or before it"
