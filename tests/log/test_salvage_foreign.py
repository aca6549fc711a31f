"""Sound batches of another log among those of a partition: `recover --salvage` keeps those of the partition, wherever they are."""

from __future__ import annotations

import shutil
from functools import cache

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from engine.formats import Codec
from engine.log.operations.salvage import salvage
from engine.log.report import Report
from engine.record.builder import NewRecord, build_batch
from tests.crash.partitions import DIRECTORY, batches_of, closed, name, plain, raw
from tests.support.crash_files import KeptFiles
from tests.support.run import kafkalog

OWN, FOREIGN = 1006, 1000  # producer ids


def own(offset, count, with_producers, codec=Codec.NONE):
    producer = {"producer_id": OWN, "producer_epoch": 0, "base_sequence": offset} if with_producers else {}
    return plain(offset, count=count, codec=codec, **producer)


@cache
def log(with_producers, codec):
    """(base offset, batches) of three segments, and the disk after a clean stop."""
    sizes = {0: (5, 1, 1, 2, 6, 1, 2, 4), 22: (4, 6, 3, 7), 42: (8, 1, 2, 10)}
    parts = []
    for base, counts in sizes.items():
        starts = [base + sum(counts[:number]) for number in range(len(counts))]
        parts.append((base, [own(*one, with_producers, codec) for one in zip(starts, counts, strict=True)]))
    return parts, closed(parts)


def size_of(batch):
    return int.from_bytes(batch[23:27], "big") + 1


def based_on(offset, batch):
    return offset.to_bytes(8, "big") + batch[8:]


def salvaged(disk, parts):
    """The batches of every segment after a salvage of `disk` with other batches, by base offset, and what it reports."""
    contents = {path: data for path, data in disk.contents.items() if not path.endswith(".log")}
    disk = disk._replace(contents=contents | {name(base): b"".join(batches) for base, batches in parts})
    files, report = KeptFiles(disk), Report(DIRECTORY, "recover")
    salvage(files, DIRECTORY, report)
    left = files.disk()
    return batches_in(left), [event.reason for event in report.events if event.reason.startswith("sound batches dropped")]


def batches_in(disk):
    found = {}
    for path, data in disk.contents.items():
        at = 0
        while path.endswith(".log") and at < len(data):
            end = at + 12 + int.from_bytes(data[at + 8 : at + 12], "big")
            found[int.from_bytes(data[at : at + 8], "big")] = data[at:end]
            at = end
    return found


@pytest.mark.parametrize("producer", [FOREIGN, None])
@pytest.mark.parametrize("with_producers", [True, False])
@pytest.mark.parametrize("count", [1, 2, 300])
@pytest.mark.parametrize("place", ["first", "middle", "last", "in place, own moved to the end"])
def test_a_foreign_batch_displaces_none(place, count, with_producers, producer):
    parts, disk = log(with_producers, Codec.NONE)
    given = {"producer_id": producer, "producer_epoch": 0, "base_sequence": 0} if producer else {}
    for at, codec in ((0, Codec.NONE), (4, Codec.LZ4)):
        batches = parts[0][1]
        foreign = plain(int.from_bytes(batches[at][:8], "big"), count=count, size=20, codec=codec, **given)
        changed = {"first": [*batches[:at], foreign, *batches[at:]], "middle": [*batches[: at + 1], foreign, *batches[at + 1 :]],
                   "last": [*batches, foreign],
                   "in place, own moved to the end": [*batches[:at], foreign, *batches[at + 1 :], batches[at]]}[place]
        found, dropped = salvaged(disk, [(0, changed), *parts[1:]])
        assert found == batches_of(parts)
        assert len(dropped) == 1


def test_a_foreign_batch_at_the_end_of_a_segment_displaces_none_of_the_next_one():
    for with_producers in (True, False):
        parts, disk = log(with_producers, Codec.NONE)
        for count in (2, 4):
            foreign = plain(22, count=count, size=20)
            found, dropped = salvaged(disk, [(0, [*parts[0][1], foreign]), *parts[1:]])
            assert found == batches_of(parts)
            assert len(dropped) == 1


def test_words_say_what_decided():
    parts, disk = log(True, Codec.NONE)
    foreign = plain(0, count=2, size=20, producer_id=FOREIGN, producer_epoch=0, base_sequence=0)
    _, (reason,) = salvaged(disk, [(0, [foreign, *parts[0][1]]), *parts[1:]])
    assert "the producer snapshot of offset 22 does not have producer 1000" in reason
    assert "without which offsets 2 to 4 would be missing" in reason
    assert "continue the sequence numbers of producer 1006" in reason


@given(st.data(), st.booleans(), st.sampled_from([FOREIGN, None]), st.sampled_from([Codec.NONE, Codec.GZIP, Codec.LZ4]),
       st.integers(1, 90))
def test_a_foreign_batch_anywhere_displaces_none(data, with_producers, producer, codec, count):
    """Without producers or another codec, a batch that fits exactly is not told apart from those of the log by its place."""
    parts, disk = log(with_producers, Codec.NONE)
    whole = batches_of(parts)
    first = data.draw(st.integers(0, max(whole)))
    borders = {*whole, max(whole) + size_of(whole[max(whole)])}
    assume(with_producers or codec is not Codec.NONE or not {first, first + count} <= borders)
    given = {"producer_id": producer, "producer_epoch": 0, "base_sequence": 0} if producer else {}
    foreign = plain(first, count=count, size=20, codec=codec, **given)
    segment = data.draw(st.integers(0, len(parts) - 1))
    at = data.draw(st.integers(0, len(parts[segment][1])))
    changed = [(base, [*batches[:at], foreign, *batches[at:]] if number == segment else batches)
               for number, (base, batches) in enumerate(parts)]
    assert salvaged(disk, changed)[0] == whole


# ---- a log of one file, without producers, snapshots, indexes and epochs: nothing beside it is evidence ----


def huge(offset, offsets=100_000):
    """A batch of many offsets, of which two have records."""
    records = [NewRecord(offset + n, 1_700_000_000_000, b"k", b"v") for n in (0, offsets - 1)]
    return build_batch(records, partition_leader_epoch=0)


def alone(base, counts, gap=0):
    """The batches of a log, with `gap` missing offsets after each second one."""
    batches, at = [], base
    for number, count in enumerate(counts):
        batches.append(plain(at, count=count))
        at += count + gap * (number % 2)
    return batches


LONELY = {"small": (5, 1, 1, 2, 6, 1, 2, 4, 3), "equal": (7,) * 6, "single records": (1,) * 12, "large": (50, 40, 55, 48)}


@pytest.mark.parametrize("gap", [0, 3])
@pytest.mark.parametrize("base", [0, 1000])
@pytest.mark.parametrize("counts", LONELY)
def test_one_huge_foreign_batch_displaces_none_of_a_log_without_evidence(counts, base, gap):
    own = alone(base, LONELY[counts], gap)
    for first in {int.from_bytes(own[at][:8], "big") for at in (0, 1, len(own) // 2, len(own) - 1)}:
        for at in (0, len(own) // 2, len(own)):
            disk = raw([(base, [*own[:at], huge(first), *own[at:]])])
            found, dropped = salvaged(disk, [(base, [*own[:at], huge(first), *own[at:]])])
            assert found == batches_of([(base, own)]), (first, at)
            assert len(dropped) == 1


def test_a_foreign_batch_below_the_name_of_the_only_file_displaces_none():
    own = alone(1000, (1, 1, 1))
    for first in (600, 990):
        parts = [(1000, [*own, plain(first, count=4)])]
        found, _ = salvaged(raw(parts), parts)
        assert batches_of([(1000, own)]).items() <= found.items()


def test_of_two_batches_alone_the_first_is_kept_and_the_report_leaves_it_open():
    parts = [(0, [plain(0, count=5), plain(0, count=5, size=20)])]
    found, (reason,) = salvaged(raw(parts), parts)
    assert found == batches_of([(0, parts[0][1][:1])])
    assert "the dropped ones may be the right ones" in reason


# ---- chains of foreign batches: where they win, the report says that nothing proves it ----


def chain(offset, counts, gaps, **producer):
    """Batches one after the other, each one followed by a gap."""
    batches = []
    for count, gap in zip(counts, gaps, strict=True):
        settings = producer | {"base_sequence": sum(map(size_of, batches))} if producer else {}
        batches.append(plain(offset, count=count, size=20 if producer.get("producer_id") == FOREIGN else 90, **settings))
        offset += count + gap
    return batches


def counts(most):
    return st.lists(st.sampled_from([1, 1, 2, 3, 5, 8]), min_size=2, max_size=most)


@settings(max_examples=150)
@given(st.data(), counts(14), counts(6), st.booleans(), st.booleans(), st.booleans(), st.booleans())
def test_no_own_batch_is_dropped_as_if_that_were_proven(data, sizes, foreign_sizes, with_producers, is_closed, has_gaps, is_one):
    def gaps(number):
        return data.draw(st.lists(st.sampled_from([0, 0, 3]), min_size=number, max_size=number)) if has_gaps else [0] * number

    own = chain(0, sizes, gaps(len(sizes)), **({"producer_id": OWN, "producer_epoch": 0} if with_producers else {}))
    cut = len(own) if is_one else len(own) // 2 or 1
    parts = [(int.from_bytes(batches[0][:8], "big"), batches) for batches in (own[:cut], own[cut:]) if batches]
    whole = batches_of(parts)
    first = data.draw(st.sampled_from(sorted(whole)))
    foreign = chain(first, foreign_sizes, gaps(len(foreign_sizes)), producer_id=FOREIGN, producer_epoch=0)
    number = data.draw(st.integers(0, len(parts) - 1))
    at = data.draw(st.integers(0, len(parts[number][1])))
    base, batches = parts[number]
    changed = [*parts[:number], (base, [*batches[:at], *foreign, *batches[at:]]), *parts[number + 1 :]]
    found, dropped = salvaged(closed(parts) if is_closed else raw(parts), changed)
    lost = {batch[8:] for batch in whole.values()} - {batch[8:] for batch in found.values()}  # a base offset may be restored
    assert not lost or any("nothing proves" in reason for reason in dropped)


def test_an_unproven_choice_is_a_problem_that_is_left(tmp_path):
    """Both are kept: one in the log, the other in the quarantine. The other one comes back with `restore`."""
    directory = tmp_path / "d/t-0"
    directory.mkdir(parents=True)
    path, whole = directory / f"{0:020}.log", plain(0, count=5) + plain(0, count=5, size=20)
    path.write_bytes(whole)
    words = ("recover", "--salvage", "--quarantine", str(tmp_path / "kept"), str(directory))
    for done in (kafkalog(*words, "--dry-run"), kafkalog(*words)):
        assert done.status == 4
        assert b"(offsets 0 to 4) - nothing proves that the batches kept here belong to the log" in done.out
    assert path.read_bytes() == plain(0, count=5)
    assert [one.read_bytes() for one in (tmp_path / "kept/files").iterdir()] == [whole]
    assert kafkalog("restore", str(tmp_path / "kept")).status == 0
    assert path.read_bytes() == whole


def test_an_unproven_choice_is_refused_where_nothing_would_keep_the_other_batch(tmp_path):
    directory = tmp_path / "d/t-0"
    directory.mkdir(parents=True)
    path, whole = directory / f"{0:020}.log", plain(0, count=5) + plain(0, count=5, size=20)
    path.write_bytes(whole)
    for more in (["--dry-run"], []):
        done = kafkalog("recover", "--salvage", "--no-quarantine", *more, str(directory))
        assert done.status == 4
        assert "nothing proves that the batches kept here belong to the log" in done.err
        assert f"kafkalog recover --salvage {directory}" in done.err
        assert {one.name: one.read_bytes() for one in directory.iterdir()} == {path.name: whole}
    path.write_bytes(plain(0, count=5) * 2)  # a copy is no choice
    assert kafkalog("recover", "--salvage", "--no-quarantine", str(directory)).status == 1
    assert path.read_bytes() == plain(0, count=5)


def test_a_long_run_around_a_batch_is_proof_and_a_short_one_is_not():
    for length, is_proven in ((40, True), (6, False)):
        own = alone(0, (2,) * length)
        parts = [(0, [*own, plain(4, count=2, size=20)])]
        found, (reason,) = salvaged(raw(parts), parts)
        assert found == batches_of([(0, own)])
        assert ("nothing proves" not in reason) is is_proven


# ---- base offsets with a wrong bit ------------------------------------------------------------------


def of_producer(offset, count, sequence):
    return plain(offset, count=count, producer_id=OWN, producer_epoch=0, base_sequence=sequence)


def test_sequence_numbers_choose_between_offsets_that_fit():
    """One wrong bit: the batch is from 19 or from 22, and touches no sound one. Two records of its producer before it are lost."""
    before, after, right = of_producer(14, 5, 0), of_producer(27, 1, 10), of_producer(22, 3, 7)
    lost = damaged_batch(plain(19, count=3)), damaged_batch(plain(25, count=2))
    parts = [(14, [before, lost[0], based_on(18, right), lost[1], after])]
    found, _ = salvaged(raw(parts), parts)
    assert found == batches_of([(14, [before, right, after])])


def test_an_offset_that_contradicts_the_sequence_numbers_is_not_restored():
    """The only offset that fits is 22, but then three records of the producer would have no offsets before it."""
    before, after, other = of_producer(14, 5, 0), of_producer(25, 1, 14), of_producer(22, 3, 11)
    parts = [(14, [before, damaged_batch(plain(19, count=3)), based_on(18, other), after])]
    found, _ = salvaged(raw(parts), parts)
    assert found == batches_of([(14, [before, after])])


def damaged_batch(batch):
    return batch[:-1] + bytes([batch[-1] ^ 1])


# ---- batches that were exchanged --------------------------------------------------------------------


@given(st.data(), st.booleans())
def test_exchanged_batches_are_put_back(data, with_producers):
    """Also those of equal size whose base offsets differ in one bit: 18 and 22, at the border of two segments."""
    parts, disk = log(with_producers, Codec.NONE)
    every = [(number, at) for number, (_, batches) in enumerate(parts) for at in range(len(batches))]
    one, other = data.draw(st.sampled_from([((0, 7), (1, 0)), None])) or data.draw(
        st.lists(st.sampled_from(every), min_size=2, max_size=2, unique=True))
    changed = [(base, list(batches)) for base, batches in parts]
    changed[one[0]][1][one[1]], changed[other[0]][1][other[1]] = parts[other[0]][1][other[1]], parts[one[0]][1][one[1]]
    found, dropped = salvaged(disk, changed)
    assert found == batches_of(parts)
    assert dropped == []


def test_a_sequence_number_disproves_a_wrong_bit():
    """The batch from offset 22 is in the place of that from 18, which is damaged: it is not given its offset."""
    parts, disk = log(True, Codec.NONE)
    first, second = parts[0][1], parts[1][1]
    lost = first[7][:-1] + bytes([first[7][-1] ^ 1])
    found, _ = salvaged(disk, [(0, [*first[:7], second[0]]), (22, [lost, *second[1:]]), *parts[2:]])
    assert found == {base: batch for base, batch in batches_of(parts).items() if base != 18}


# ---- on the disk of a broker ------------------------------------------------------------------------


@pytest.mark.parametrize("partition", ["d1/small_segments-0", "d0/codec.zstd-0", "d0/tx-0"])
def test_logs_of_a_broker_keep_their_own_batches(partition, own_corpus, tmp_path):
    source = own_corpus / "kafka-4.3.1/logs/clean" / partition
    copy = tmp_path / source.name
    shutil.copytree(source, copy)
    path = next(one for one in sorted(copy.glob("*.log")) if one.stat().st_size > 1000)
    before, foreign = path.read_bytes(), (own_corpus / "kafka-4.3.1/logs/clean/d1/bulk-0").glob("*.log")
    data = min(foreign).read_bytes()
    data = data[: 12 + int.from_bytes(data[8:12], "big")]
    path.write_bytes(based_on(int(path.name[:20]), data) + before)
    assert kafkalog("recover", "--salvage", "--no-quarantine", str(copy)).status == 1
    assert {one.name: one.read_bytes() for one in copy.glob("*.log")} == {
        one.name: one.read_bytes() for one in source.glob("*.log")}
