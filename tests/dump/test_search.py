"""grep finds the records that a slow and obvious judge finds: every record is decoded, and Python compares its fields."""

from __future__ import annotations

import random
import re
from base64 import b64decode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.discovery.names import file_name, parse_file_name
from engine.dump import search
from engine.dump.search import Search, SearchOptions
from engine.log.fetch.records import Run
from engine.record.patterns import Pattern
from engine.record.reader import ChunkReader
from engine.record.selection import FieldPattern, Selection
from engine.record.soundness import resume_after_damage
from engine.record.windows import LogWalk
from tests.support.corpus import corpus_directory
from tests.support.floors import saw_enough
from tests.support.json_output import all_objects
from tests.support.kernel_calls import mutate
from tests.support.memory_files import MemoryFiles
from tests.support.run import kafkalog
from tests.support.small_logs import LOG, batch, with_wrong_checksum
from tests.support.strategies import batches

NAME = parse_file_name(file_name(LOG))
TREES = sorted(tree for tree in corpus_directory().rglob("logs") if next(tree.rglob("*.log"), None) is not None)
EVERYWHERE = {"in_keys": True, "in_values": True, "in_headers": True}
PLACES = [EVERYWHERE, {"in_keys": True}, {"in_values": True}, {"header": b"h"}, {"in_keys": True, "header": b"h"}]


class Plain:
    """A record as dump-log shows it."""

    def __init__(self, found):
        self.offset, self.key, self.value = found["offset"], the_bytes(found, "key"), the_bytes(found, "value")
        self.headers = [(the_bytes(header, "key"), the_bytes(header, "value")) for header in found.get("headers", ())]


def the_bytes(found, name):
    """The bytes behind a field of JSON."""
    if f"{name}_b64" in found:
        return b64decode(found[f"{name}_b64"])
    return None if found[name] is None else found[name].encode()


def fields_of(record, where):
    """The fields of a record in which a pattern is searched for."""
    headers = [field for header in record.headers for field in header] if where.get("in_headers") else []
    headers += [value for name, value in record.headers if name == where.get("header")]
    fields = [record.key] * bool(where.get("in_keys")) + [record.value] * bool(where.get("in_values")) + headers
    return [field for field in fields if field is not None]


def expected(records, regex, where):
    return [record.offset for record in records if any(regex.search(field) for field in fields_of(record, where))]


def found(data, pattern, where, **options):
    """Offsets of the matches, and the findings."""
    findings = []
    selection = Selection(patterns=(FieldPattern(pattern, **where),))
    runs = Search(MemoryFiles({LOG: data}), selection, findings.append, SearchOptions(**options)).runs(LOG, NAME)
    return [record.offset for run in runs for record in run.records()], findings


def every_record(data):
    """All data records, each decoded, after damage too."""
    with MemoryFiles({LOG: data}).open(LOG) as file:
        walk, reader, resumes = LogWalk(file), ChunkReader(LOG, lambda _: None), True
        while resumes:
            for window in walk:
                for chunk in reader.chunks(window):
                    if not chunk.control:
                        yield from Run(chunk, chunk.first, chunk.end, window.base, LOG).records()
            resumes, _ = resume_after_damage(walk)


TEXTS = st.sampled_from(["a", "k1", "v", "key", "", "\x00", "b|a", "[a-c]", "a.", "zz"]) | st.text("abk01v", min_size=1, max_size=3)


@st.composite
def logs(draw):
    """Batches of every format and codec, some of them damaged, with words that are searched for."""
    built = [case.build() for case in draw(st.lists(batches(), max_size=3))]
    built += [batch(1000, 3, draw(st.binary(max_size=5)) + draw(TEXTS).encode())] * draw(st.integers(0, 2))
    data = b"".join(draw(st.permutations(built)))
    return mutate(data, draw(st.data())) if draw(st.integers(0, 2)) == 0 else data


@given(logs(), TEXTS, st.booleans(), st.booleans(), st.sampled_from(PLACES), st.sampled_from([0, 40, 200]))
@settings(deadline=None, max_examples=300)
def test_the_same_records_as_without_the_search_for_strings(data, text, fixed, ignore_case, where, piece):
    regex = re.compile(re.escape(text.encode()) if fixed else text.encode(), re.IGNORECASE if ignore_case else 0)
    pattern = Pattern(text, fixed=fixed, ignore_case=ignore_case)
    wanted = expected(every_record(data), regex, where)
    offsets, findings = found(data, pattern, where)
    assert offsets == wanted
    if piece:
        whole, search.PIECE = search.PIECE, piece
        try:
            in_pieces = found(data, pattern, where, jobs=2)
        finally:
            search.PIECE = whole
        assert in_pieces == (offsets, findings)


@pytest.mark.parametrize("tree", TREES, ids=lambda tree: "-".join(tree.parts[-3:-1]))
def test_the_same_records_as_dump_log(tree):
    paths = sorted(str(path) for path in tree.rglob("*.log"))
    shown = kafkalog("dump-log", "--format", "jsonl", "--print-data-log", "--continue-on-corruption", *paths)
    logs, seen = {}, 0
    for one in all_objects(shown.out):
        if one["type"] == "file":
            records = logs.setdefault(one["path"], [])
        elif one["type"] == "record" and "control" not in one:
            records.append(one)
    plain = {path: [Plain(one) for one in records] for path, records in logs.items()}
    chance = random.Random(5)
    everything = [record for records in plain.values() for record in records]
    for number in range(8):
        where = PLACES[number % len(PLACES)]
        field = chance.choice(fields_of(chance.choice(everything), EVERYWHERE) or [b""])
        at = chance.randrange(len(field) + 1)
        text = field[at : at + chance.choice((1, 3, 8))].decode("utf-8", "surrogateescape").partition("\0")[0]
        words = [[], ["-k"], ["-s"], ["-H", "h"], ["-k", "-H", "h"]][number % len(PLACES)]
        done = kafkalog("grep", "-F", *words, "--format", "jsonl", "--", text, *paths)
        matches = [(one["file"], one["offset"]) for one in all_objects(done.out) if one["type"] == "match"]
        regex = re.compile(re.escape(text.encode("utf-8", "surrogateescape")))
        wanted = [(path, offset) for path, records in plain.items() for offset in expected(records, regex, where)]
        assert matches == wanted
        assert done.status in ((0, 4, 8) if wanted else (1, 4, 8))
        seen += len(wanted)
    saw_enough("matching records", seen, 1)


def test_a_damaged_batch_is_searched_and_reported():
    data = batch(0, 3) + with_wrong_checksum(batch(3, 3, b"needle")) + batch(6, 3, b"needle")
    offsets, findings = found(data, Pattern("k4", fixed=True), EVERYWHERE)
    assert offsets == [4]
    assert [finding.code for finding in findings] == ["crc-mismatch"]


@pytest.mark.parametrize(("before", "after", "wanted"), [
    (0, 0, "5 8"), (1, 0, "4 5 7 8"), (0, 2, "5 6 7 8 9 10"), (3, 1, "2 3 4 5 6 7 8 9"), (20, 20, " ".join(map(str, range(12)))),
])  # fmt: skip
@pytest.mark.parametrize("size", [1, 2, 5, 12])
def test_records_around_matches(before, after, wanted, size):
    data = b"".join(batch(first, min(size, 12 - first)) for first in range(0, 12, size))
    selection = Selection(patterns=(FieldPattern(Pattern("^k[58]$"), in_keys=True),))
    one = Search(MemoryFiles({LOG: data}), selection, print, SearchOptions(before, after))
    assert " ".join(str(record.offset) for record, _ in one.records(LOG, NAME)) == wanted
    assert [record.offset for record, matches in one.records(LOG, NAME) if matches] == [5, 8]
    assert [record.offset for record, matches in one.records(LOG, NAME, most=1) if matches] == [5]
    assert max(record.offset for record, _ in one.records(LOG, NAME, most=1)) == min(5 + after, 7)
