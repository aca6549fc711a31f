"""Which sound batches belong to a log: offsets, neighbours, leader epochs and producers decide."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.checkpoint.checkpoints import EpochEntry
from engine.log.operations.arrangement import arrange
from engine.log.operations.witnesses import fits_epochs
from engine.log.segment.sound_runs import Batch, as_runs, with_offsets_restored


def batch(first, count=1, *, log="a", epoch=0, producer=-1, sequence=-1):
    crc = hash((log, first, count))
    return Batch(0, 0, first, first + count, crc, count, epoch, producer, 0 if producer >= 0 else -1, sequence)


def placed(batches):
    """The same one after the other in a file, 10 bytes each; None: 10 bytes that are damaged."""
    return [one._replace(start=10 * at, end=10 * at + 10) for at, one in enumerate(batches) if one is not None]


class Checkpoint:
    """Only leader-epoch-checkpoint says something of batches."""

    def __init__(self, epochs):
        self.epochs = epochs

    def ask(self, _batches):
        pass

    def against(self, _base, one):
        return [] if fits_epochs(one, self.epochs) else ["another leader epoch"]


def arranged(files, epochs=()):
    """What stays, as (base offset, [first offsets]) for each segment, and what is dropped, as first offsets."""
    placed_files = {base: placed(batches) for base, batches in files.items()}
    runs = {base: list(as_runs(iter(batches))) for base, batches in placed_files.items()}

    def within(base, run):
        return [one for one in placed_files[base] if run.start <= one.start < run.end]

    found = arrange(runs, lambda base, run: iter(within(base, run)), Checkpoint(epochs))
    segments = [(segment.base, [(one.first_offset, one.crc) for part in segment.parts for one in within(part.base, part.run)])
                for segment in found.segments]
    dropped = [one.first_offset for drop in found.dropped for one in within(drop.part.base, drop.part.run)]
    return segments, dropped


def log(*batches):
    return [(one.first_offset, one.crc) for one in batches]


OWN = [batch(offset, 2) for offset in range(0, 20, 2)]


def test_a_sound_log_stays_as_it_is():
    assert arranged({0: OWN[:5], 10: OWN[5:]}) == ([(0, log(*OWN[:5])), (10, log(*OWN[5:]))], [])


def test_gaps_of_a_compacted_log_stay():
    assert arranged({0: OWN[:2] + OWN[4:6], 12: OWN[8:]}) == ([(0, log(*OWN[:2], *OWN[4:6])), (12, log(*OWN[8:]))], [])


def test_batches_in_a_file_whose_name_fits_win_over_a_log_that_is_longer_by_a_little():
    other = [batch(offset, log="b") for offset in range(6, 21)]
    segments, dropped = arranged({0: OWN[:5], 10: OWN[5:], 12: other})
    assert [pair for _, pairs in segments for pair in pairs][: len(OWN)] == log(*OWN)
    assert dropped == [one.first_offset for one in other[:-1]]


def test_the_checkpoint_of_leader_epochs_decides_between_equals():
    old, new = ([batch(offset, 2, log=name, epoch=epoch) for offset in (10, 12)] for name, epoch in (("b", 0), ("c", 3)))
    for first, second in ((old, new), (new, old)):
        segments, dropped = arranged({0: OWN[:5], 10: first, 9: second}, [EpochEntry(0, 0), EpochEntry(3, 10)])
        assert [pair for _, pairs in segments for pair in pairs] == log(*OWN[:5], *new)
        assert dropped == [10, 12]


def test_sequence_numbers_decide_between_equals():
    start = [batch(0, 2, producer=7, sequence=0), batch(2, 2, producer=7, sequence=2)]
    goes_on, begins = batch(4, 2, log="b", producer=7, sequence=4), batch(4, 2, log="c", producer=7, sequence=0)
    for first, second in ((goes_on, begins), (begins, goes_on)):
        segments, dropped = arranged({0: start, 4: [first], 3: [second]})
        assert [pair for _, pairs in segments for pair in pairs] == log(*start, goes_on)
        assert dropped == [4]


def test_a_batch_of_another_log_does_not_displace_the_one_that_it_was_written_before():
    """It has an offset of that batch, follows a gap, and is not longer: the batch after it fills the gap exactly."""
    own = [batch(0, producer=4), batch(1, 3, producer=5), batch(4, 3, producer=4, sequence=1)]
    following = [batch(7, 20), batch(27, 20)]
    stale = batch(6, log="b", producer=4, sequence=-1)._replace(producer_epoch=3)
    for first, second in ((stale, own[2]), (own[2], stale)):
        segments, dropped = arranged({0: [*own[:2], first, second], 7: following})
        assert ([pair for _, pairs in segments for pair in pairs], dropped) == (log(*own, *following), [6])


@pytest.mark.parametrize("named", [9, 11, 25])
def test_a_segment_under_a_wrong_name_gets_its_own(named):
    assert arranged({0: OWN[:5], named: OWN[5:]}) == ([(0, log(*OWN[:5])), (10, log(*OWN[5:]))], [])


def test_offsets_beyond_the_log_are_wrong_in_its_middle_and_right_at_its_end():
    beyond = batch(1 << 40)
    assert arranged({0: [*OWN[:3], beyond, *OWN[4:]]})[1] == [1 << 40]
    assert arranged({0: [*OWN, beyond]})[1] == []


GAPPY = [batch(offset) for offset in (2, 9, 30, 34, 40, 47, 60, 66)]


@pytest.mark.parametrize(("first", "second"), [(0, 28), (0, 50), (28, 50)])
def test_exchanged_segments_of_a_compacted_log_get_their_names_back(first, second):
    """A segment begins before its first batch, where compaction took that: no batch has the offset of its name."""
    files = {0: GAPPY[:2], 28: GAPPY[2:6], 50: GAPPY[6:]}
    exchanged = files | {first: files[second], second: files[first]}
    assert arranged(exchanged) == ([(base, log(*batches)) for base, batches in files.items()], [])


def test_segments_whose_names_are_wrong_keep_what_only_they_hold():
    """The order of files is that of what they hold: by their names, the last batches stand before others."""
    log_of = [batch(offset) for offset in range(89)]
    exchanged = {0: log_of[:22], 22: log_of[22:42], 42: log_of[83:], 63: [*log_of[63:79], None, *log_of[80:83]], 83: log_of[42:63]}
    segments, dropped = arranged(exchanged)
    assert ([base for base, _ in segments], dropped) == ([0, 22, 42, 63, 83], [])
    renamed = {0: log_of[:22], 22: log_of[22:42], 1042: log_of[42:63], 63: [*log_of[63:69], None, *log_of[74:83]], 83: log_of[83:]}
    segments, dropped = arranged(renamed)
    assert ([base for base, _ in segments], dropped) == ([0, 22, 42, 63, 83], [])


def test_the_last_batch_of_a_compacted_log_stays_where_it_stands_before_others():
    assert arranged({0: GAPPY[:6], 50: [batch(75), *GAPPY[6:]]})[1] == []


def test_what_was_moved_fills_the_gap_that_it_left():
    segments, dropped = arranged({0: [*OWN[:2], None, *OWN[3:5]], 10: [*OWN[5:], OWN[2]]})
    assert (segments, dropped) == ([(0, log(*OWN[:5])), (10, log(*OWN[5:]))], [])


@given(st.lists(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 4), st.sampled_from("ab")), max_size=8), min_size=1, max_size=4))
def test_every_batch_stays_or_others_hold_its_offsets(content):
    files = {10 * number: [batch(first, count, log=name) for first, count, name in batches]
             for number, batches in enumerate(content)}
    segments, dropped = arranged(files)
    kept = [offset for _, pairs in segments for offset, _ in pairs]
    assert kept == sorted(kept)
    bases = [base for base, _ in segments]
    assert bases == sorted(set(bases))
    for (_, pairs), (following, _) in pairwise(segments):
        assert all(offset < following for offset, _ in pairs)
    assert sorted(kept + dropped) == sorted(first for batches in content for first, _, _ in batches)


def restored(batches, base=0, following=None, claimed=()):
    files = placed(batches)

    def is_held(batch):
        return any(one.start != batch.start and one.first_offset < batch.end_offset and batch.first_offset < one.end_offset
                   for one in files)

    return [(one.first_offset, one.restored_from) for one in with_offsets_restored(iter(files), base, following, is_held, claimed)]


def test_one_wrong_bit_of_a_base_offset_is_put_right_between_sound_neighbours():
    wrong = OWN[3]._replace(first_offset=6 ^ 64, end_offset=(6 ^ 64) + 2)
    assert restored([*OWN[:3], wrong, *OWN[4:6]])[3] == (6, 6 ^ 64)
    assert restored([*OWN[:3], wrong], following=8)[3] == (6, 6 ^ 64)  # the next segment proves it
    assert restored([*OWN[:3], wrong])[3] == (6 ^ 64, None)  # nothing follows
    assert restored([*OWN[:3], wrong, *OWN[5:]])[3] == (6 ^ 64, None)  # there is room for more
    fewer = wrong._replace(record_count=1)
    assert restored([*OWN[:3], fewer, *OWN[4:6]])[3] == (6 ^ 64, None)
    far = OWN[3]._replace(first_offset=6 ^ 65, end_offset=(6 ^ 65) + 2)
    assert restored([*OWN[:3], far, *OWN[4:6]])[3] == (6 ^ 65, None)


def moved_to(offset, one):
    return one._replace(first_offset=offset, end_offset=offset + one.end_offset - one.first_offset)


@pytest.mark.parametrize("wrong", [1_000_000, 1 << 62, 33, 25])
@pytest.mark.parametrize("bit", [2, 6, 40])
def test_a_checkpoint_beyond_the_log_is_no_evidence_against_neighbours(wrong, bit):
    first, last = batch(0, 20), batch(20, 4)
    found = [(0, 1 << bit), (20, None)]
    damaged = [moved_to(1 << bit, first), last]
    for claimed in ((24,), (24, wrong)):
        assert restored(damaged, following=max(claimed), claimed=claimed) == found
    if bit == 2:  # with one wrong bit, the last batch cannot follow it
        assert restored(damaged, following=wrong, claimed=(wrong,)) == found


def test_where_a_checkpoint_says_that_the_next_batch_is_the_wrong_one_none_is_restored():
    kept, wrong = batch(4, 20), batch(28 ^ 8, 4)  # 28 to 32 was the last one
    assert restored([kept, wrong], following=1000, claimed=(32, 1000)) == [(4, None), (20, None)]
    either = [batch(4, 2), batch(2, 2)]  # the first one was at 0, or the last one at 6
    assert restored(either, following=1000, claimed=(1000,)) == [(4, None), (2, None)]
    assert restored(either, following=1000, claimed=(8, 1000)) == [(4, None), (2, None)]
    assert restored(either, following=1000, claimed=(4, 8, 1000)) == [(4, None), (2, None)]
    assert restored(either, following=1000, claimed=(4, 1000)) == [(0, 4), (2, None)]


def test_in_a_gap_of_a_compacted_log_one_wrong_bit_is_put_right_where_nothing_else_fits():
    log = [batch(offset) for offset in (2, 9, 30, 34, 52, 60)]
    far = [*log[:3], moved_to(34 ^ 1 << 40, log[3]), *log[4:]]
    assert restored(far, following=70)[3] == (34, 34 ^ 1 << 40)  # no batch of this segment has such an offset
    assert restored(far)[3] == (34 ^ 1 << 40, None)  # the last segment: it may be the newest batch, which was moved
    assert restored([*log[:3], moved_to(2, log[3]), *log[4:]], following=70)[3] == (2, None)  # is it wrong, or the first one?
    assert restored([*log[:3], moved_to(30 ^ 1 << 40, log[3]), *log[4:]], following=70)[3][1] is None  # several would do
    older = [*log[:3], far[3]._replace(leader_epoch=3), *log[4:]]
    assert restored(older, following=70)[3][1] is None  # its leader epoch does not fit there
    assert restored([far[3], *log[4:]], base=31, following=70)[0][1] is None  # where the segment begins, only its name says


@given(st.lists(st.integers(0, 300), min_size=3, max_size=12, unique=True), st.integers(0, 11), st.integers(0, 63))
def test_no_base_offset_is_replaced_by_a_wrong_one(offsets, number, bit):
    log = [batch(offset) for offset in sorted(offsets)]
    number %= len(log)
    flipped = log[number].first_offset ^ 1 << bit
    log[number] = moved_to(flipped if bit < 63 else flipped - (1 << 64), log[number])
    end = max(offsets) + 1
    for following, claimed in ((301, ()), (None, ()), (end, (end,)), (1000, (end, 1000))):
        for (found, was), offset in zip(restored(log, 0, following, claimed), sorted(offsets), strict=False):
            assert was is None or found == offset


@given(st.lists(st.integers(0, 300), min_size=3, max_size=12, unique=True).flatmap(st.permutations))
def test_no_batch_gets_a_base_offset_that_another_has(offsets):
    found = [offset for offset, _ in restored([batch(offset) for offset in offsets], following=301)]
    assert len(set(found)) == len(found)


def test_a_wrong_sign_of_a_base_offset_is_put_right_where_the_offset_fits():
    sign = -1 << 63
    gaps = [OWN[0], OWN[3]._replace(first_offset=sign + 6, end_offset=sign + 8, record_count=1), OWN[9]]
    assert restored(gaps)[1] == (6, sign + 6)
    assert restored([*OWN[:3], gaps[1]])[3] == (6, sign + 6)  # it follows the batch before it
    assert restored([*OWN[:2], gaps[1], *OWN[2:]]) == [(one.first_offset, None) for one in OWN]  # there is no room
    minus_one = batch(0)._replace(first_offset=-1, end_offset=0)
    assert restored([minus_one, OWN[1]]) == [(2, None)]
