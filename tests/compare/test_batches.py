"""Batches of two replicas: what is the same in other bytes, what differs without a fork, what the cleaner explains."""

from __future__ import annotations

import pytest

from engine.compare.batches import compare
from engine.compare.export import Export
from engine.compare.replica import Replica
from engine.compare.result import Kind, Verdict
from engine.compare.same_bytes import SameBytes
from engine.errors import UnwritableFile
from engine.files import Files, ReadOnlyFiles
from engine.formats import BATCH_HEADER, Codec
from engine.record.builder import NewRecord, build_batch
from tests.support.legacy_messages import message, wrapper

EPOCH = BATCH_HEADER.positions["partition_leader_epoch"]


def written(top, *segments, epochs=((0, 0),), start=None):
    """A partition with these segments, each (base offset, batches); `epochs` None: without a checkpoint."""
    directory = top / "t-0"
    directory.mkdir(parents=True)
    for base, *batches in segments:
        (directory / f"{base:020}.log").write_bytes(b"".join(batches))
    if epochs is not None:
        lines = "".join(f"{epoch} {offset}\n" for epoch, offset in epochs)
        (directory / "leader-epoch-checkpoint").write_text(f"0\n{len(epochs)}\n{lines}")
    if start is not None:
        (top / "log-start-offset-checkpoint").write_text(f"0\n1\nt 0 {start}\n")
    return str(directory)


def compared(one, other):
    """(comparison, codes of findings). Both directions agree on the verdict and the common end."""
    codes, results = [], []
    for paths in ((one, other), (other, one)):
        found = []
        replicas = [Replica(ReadOnlyFiles(), path, path, found.append) for path in paths]
        results.append(compare(*replicas, found.append))
        codes.append(sorted({finding.code for finding in found}))
        for replica in replicas:
            replica.close()
    assert codes[0] == codes[1]
    assert (results[0].verdict, results[0].common_end) == (results[1].verdict, results[1].common_end)
    return results[0], codes[0]


def put(*offsets, key=b"k%d", value=b"v", epoch=0, codec=Codec.NONE, first=None):
    records = [NewRecord(offset, 1000 + offset, key % offset if key and b"%" in key else key, value) for offset in offsets]
    return build_batch(records, base_offset=offsets[0] if first is None else first, partition_leader_epoch=epoch, codec=codec)


def with_epoch(data, epoch):
    return data[:EPOCH] + epoch.to_bytes(4, "big") + data[EPOCH + 4 :]


def with_offset(data, offset):
    return offset.to_bytes(8, "big") + data[8:]


ALL = [put(offset, offset + 1) for offset in range(0, 40, 2)]


@pytest.mark.parametrize("bounds", [(0,), (0, 10), (0, 4, 20, 38)])
def test_segments_may_begin_at_other_offsets(tmp_path, bounds):
    one = written(tmp_path / "a", (0, *ALL[:6]), (12, *ALL[6:]))
    ends = [*(bound // 2 for bound in bounds[1:]), len(ALL)]
    other = written(tmp_path / "b", *((bound, *ALL[bound // 2 : end]) for bound, end in zip(bounds, ends, strict=True)))
    found, codes = compared(one, other)
    assert (found.verdict, found.common_end, codes) == (Verdict.SAME, 40, [])


@pytest.mark.parametrize("at", range(0, 20, 3))
def test_the_common_end_is_that_of_the_last_same_batch(tmp_path, at):
    """Also right after the start of a segment, of one side or of both."""
    one = written(tmp_path / "a", (0, *ALL[:6]), (12, *ALL[6:]), epochs=((0, 0),))
    rest = [with_epoch(put(2 * number, 2 * number + 1, value=b"other"), 1) for number in range(at, 20)]
    mixed = [*ALL[:at], *rest]
    other = written(tmp_path / "b", (0, *mixed[:9]), (18, *mixed[9:]), epochs=((0, 0), (1, 2 * at)) if at else ((1, 0),))
    found, codes = compared(one, other)
    assert (found.verdict, found.common_end, codes) == (Verdict.FORKED, 2 * at, [])
    assert [side.after.records for side in found.sides] == [40 - 2 * at] * 2


@pytest.mark.parametrize("piece", [64, 200, 4096])
def test_pieces_of_any_size(tmp_path, monkeypatch, piece):
    monkeypatch.setattr("engine.compare.same_bytes._PIECE", piece)
    test_segments_may_begin_at_other_offsets(tmp_path / "same", (0, 4, 20, 38))
    test_the_common_end_is_that_of_the_last_same_batch(tmp_path / "forked", 9)


def test_a_later_log_start_is_no_difference(tmp_path):
    one = written(tmp_path / "a", (0, *ALL))
    other = written(tmp_path / "b", (10, *ALL[5:]), start=12)
    found, _ = compared(one, other)
    assert (found.verdict, found.start, found.common_end) == (Verdict.SAME, 12, 40)


# ---- the same records in other batches


def test_other_batches_with_the_same_records(tmp_path):
    one = written(tmp_path / "a", (0, put(0, 1, 2, 3), put(4, 5), *ALL[3:]))
    other = written(tmp_path / "b", (0, put(0, 1), put(2, 3, 4, codec=Codec.LZ4), put(5), *ALL[3:]))
    found, codes = compared(one, other)
    assert (found.verdict, found.common_end, codes) == (Verdict.SAME, 40, [])
    assert found.rebatched > 1


def test_the_cleaner_removes_records_with_a_later_key(tmp_path):
    old, new = put(0, 1, key=b"a"), put(2, 3, key=b"a")
    one = written(tmp_path / "a", (0, old, new, *ALL[2:]))
    other = written(tmp_path / "b", (0, put(3, key=b"a"), *ALL[2:]))
    found, codes = compared(one, other)
    assert (found.verdict, codes) == (Verdict.SAME, [])
    assert [side.compacted for side in found.sides] == [3, 0]


@pytest.mark.parametrize("lost", [put(0, 1, key=None), put(0, 1, key=b"never again")])
def test_records_that_the_cleaner_keeps_are_missing(tmp_path, lost):
    one = written(tmp_path / "a", (0, lost, *ALL[1:]))
    other = written(tmp_path / "b", (0, *ALL[1:]), start=0)
    found, _ = compared(one, other)
    assert found.verdict is Verdict.DIFFERS
    missing = found.sides[0].missing
    count = 2 if lost == put(0, 1, key=None) else 1  # the second of the same key supersedes the first
    assert (missing.records, missing.end) == (count, 2)
    assert found.sides[1].missing is None
    assert found.sides[0].compacted == 2 - count


def test_tombstones_may_be_removed(tmp_path):
    one = written(tmp_path / "a", (0, put(0, value=b"v", key=b"gone"), put(1, value=None, key=b"gone"), *ALL[1:]))
    other = written(tmp_path / "b", (0, *ALL[1:]))
    found, _ = compared(one, other)
    assert (found.verdict, found.sides[0].compacted) == (Verdict.SAME, 2)


# ---- differences without a fork


def test_a_damaged_batch_is_reported(tmp_path):
    one = written(tmp_path / "a", (0, *ALL))
    damaged = ALL[7][:-3] + b"\xff" + ALL[7][-2:]
    other = written(tmp_path / "b", (0, *ALL[:7], damaged, *ALL[8:]))
    found, codes = compared(one, other)
    assert (found.verdict, found.common_end, codes) == (Verdict.DIFFERS, 40, ["crc-mismatch"])
    [difference] = found.differences
    assert (difference.kind, difference.first, difference.end) == (Kind.DAMAGE, 14, 16)
    assert [one.is_valid for one in difference.batches] == [True, False]


@pytest.mark.parametrize("offset", [5, 1 << 40])
def test_a_wrong_base_offset_is_damage(tmp_path, offset):
    one = written(tmp_path / "a", (0, *ALL))
    other = written(tmp_path / "b", (0, *ALL[:7], with_offset(ALL[7], offset), *ALL[8:]))
    found, codes = compared(one, other)
    assert (found.verdict, found.common_end, codes) == (Verdict.DIFFERS, 40, ["offset-order"])
    assert [(one.kind, one.first, one.end) for one in found.differences] == [(Kind.OFFSET, 14, 16)]


def test_only_the_epoch_of_a_batch_differs(tmp_path):
    one = written(tmp_path / "a", (0, *ALL))
    other = written(tmp_path / "b", (0, *ALL[:7], with_epoch(ALL[7], 4), *ALL[8:]))
    found, codes = compared(one, other)
    assert (found.verdict, found.common_end, codes) == (Verdict.DIFFERS, 40, [])
    assert [(one.kind, one.first) for one in found.differences] == [(Kind.EPOCH, 14)]


def test_other_records_in_the_same_epoch(tmp_path):
    one = written(tmp_path / "a", (0, *ALL))
    other = written(tmp_path / "b", (0, *ALL[:7], put(14, 15, value=b"w"), *ALL[8:]))
    found, _ = compared(one, other)
    assert [(one.kind, one.first, one.end) for one in found.differences] == [(Kind.RECORDS, 14, 16)]


def test_bytes_lost_in_the_middle_are_reported_and_their_records_are_missing(tmp_path):
    one = written(tmp_path / "a", (0, *ALL))
    other = written(tmp_path / "b", (0, *ALL[:7], b"\0" * len(ALL[7]), *ALL[8:]))
    found, codes = compared(one, other)
    assert found.verdict is Verdict.DIFFERS
    assert "skipped-bytes" in codes
    missing = [side.missing.records for side in found.sides if side.missing is not None]
    assert missing == [2]


@pytest.mark.parametrize("number", [0, 7, 19])
@pytest.mark.parametrize("mask", [0x01, 0x80])
def test_no_flip_of_a_byte_is_silent(tmp_path, number, mask):
    """In a header, which the checksum covers only in part, and in the records."""
    start, size = sum(map(len, ALL[:number])), len(ALL[number])
    one = written(tmp_path / "a", (0, *ALL))
    for at in range(0, size, 1 if number == 19 else 2):
        flipped = bytearray(b"".join(ALL))
        flipped[start + at] ^= mask
        found, codes = compared(one, written(tmp_path / str(at), (0, bytes(flipped))))
        assert found.verdict in (Verdict.DIFFERS, Verdict.PREFIX)
        assert codes or [one.kind for one in found.differences] == [Kind.EPOCH], at


# ---- epochs


@pytest.mark.parametrize("content", [None, b"", b"garbage", b"1\n0\n", b"0\n1\n-4 0\n", b"0\n2\n0 0\n"])
def test_without_a_usable_checkpoint_the_epochs_of_batches_count(tmp_path, content):
    rest = [with_epoch(put(2 * number, 2 * number + 1, value=b"other"), 1) for number in range(7, 20)]
    one = written(tmp_path / "a", (0, *ALL))
    other = written(tmp_path / "b", (0, *ALL[:7], *rest), epochs=None)
    if content is not None:
        (tmp_path / "b/t-0/leader-epoch-checkpoint").write_bytes(content)
    found, _ = compared(one, other)
    assert (found.verdict, found.common_end) == (Verdict.FORKED, 14)
    assert [side.truncates_to for side in found.sides] == [14, 14]
    assert found.sides[1].replica.lineage.is_from_batches


def test_a_fork_below_what_the_epochs_say(tmp_path):
    """The checkpoint lost an entry: the batches part earlier than a follower would truncate."""
    rest = [with_epoch(put(2 * number, 2 * number + 1, value=b"other"), 1) for number in range(7, 20)]
    one = written(tmp_path / "a", (0, *ALL))
    other = written(tmp_path / "b", (0, *ALL[:7], *rest), epochs=((0, 0), (1, 30)))
    found, _ = compared(one, other)
    assert (found.verdict, found.common_end, found.by_epochs) == (Verdict.FORKED, 14, 30)


# ---- formats 0 and 1, without epochs


def messages(first, last, magic, value=b"v"):
    return [message(offset, b"k%d" % offset, value, magic=magic) for offset in range(first, last)]


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_of_old_formats(tmp_path, magic):
    one = written(tmp_path / "a", (0, *messages(0, 12, magic)), epochs=None)
    found, codes = compared(one, written(tmp_path / "b", (0, *messages(0, 9, magic)), epochs=None))
    assert (found.verdict, found.common_end, found.sides[0].after.records, codes) == (Verdict.PREFIX, 9, 3, [])
    other = written(tmp_path / "c", (0, *messages(0, 7, magic), *messages(7, 11, magic, b"w")), epochs=None)
    found, codes = compared(one, other)
    assert (found.verdict, found.common_end, codes) == (Verdict.FORKED, 7, [])
    assert [side.after.records for side in found.sides] == [5, 4]
    assert [side.truncates_to for side in found.sides] == [None, None]


@pytest.mark.parametrize("magic", [0, 1])
def test_a_compressed_message_and_its_records(tmp_path, magic):
    inner = [message(at, b"k%d" % (4 + at), b"v", magic=magic) for at in range(3)] if magic else messages(4, 7, magic)
    one = written(tmp_path / "a", (0, *messages(0, 12, magic)), epochs=None)
    other = written(tmp_path / "b", (0, *messages(0, 4, magic), wrapper(6, inner, magic=magic), *messages(7, 12, magic)), epochs=None)
    found, codes = compared(one, other)
    assert (found.verdict, found.common_end, found.rebatched, codes) == (Verdict.SAME, 12, 3, [])
    rest = written(tmp_path / "c", (0, *messages(0, 4, magic)), epochs=None)
    found, _ = compared(rest, other)
    assert (found.verdict, found.common_end, found.sides[1].after.records) == (Verdict.PREFIX, 4, 8)


def test_a_damaged_message_of_an_old_format(tmp_path):
    damaged = message(5, b"k5", b"v", crc=1)
    one = written(tmp_path / "a", (0, *messages(0, 12, 1)), epochs=None)
    other = written(tmp_path / "b", (0, *messages(0, 5, 1), damaged, *messages(6, 12, 1)), epochs=None)
    found, codes = compared(one, other)
    assert (found.verdict, found.common_end, codes) == (Verdict.DIFFERS, 12, ["crc-mismatch"])
    assert [(one.kind, one.first, one.end) for one in found.differences] == [(Kind.DAMAGE, 5, 6)]


def test_an_export_that_fails_leaves_no_unfinished_file(tmp_path):
    class FullDisk(Files):
        def copy(self, *_):
            raise UnwritableFile("no space left")

    paths = written(tmp_path / "a", (0, *ALL)), written(tmp_path / "b", (0, *ALL[:7]))
    one, other = (Replica(ReadOnlyFiles(), path, name, [].append) for path, name in zip(paths, "ab", strict=True))
    with pytest.raises(UnwritableFile):
        list(Export(FullDisk(), str(tmp_path / "saved"), [].append).write("t-0", compare(one, other, [].append)))
    one.close()
    other.close()
    assert not list((tmp_path / "saved").iterdir())


def test_equal_bytes_are_skipped_in_pieces(tmp_path):
    paths = [written(tmp_path / name, (0, *ALL)) for name in "ab"]
    one, other = (Replica(ReadOnlyFiles(), path, path, print) for path in paths)
    skipped = SameBytes(one, other).skip(one.place_of(0), other.place_of(0))
    assert skipped.end_offset is None, "both have ended: the caller knows where"
    assert [place.position for place in skipped.places] == [sum(map(len, ALL))] * 2
