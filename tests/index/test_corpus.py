"""Every index file of the corpus: what real Kafka printed, and no finding where a broker closed its log cleanly."""

from __future__ import annotations

import re

from engine.discovery.names import FileKind, parse_file_name
from engine.dump.renderer import DumpOptions
from engine.dump.text import TextDump
from engine.dump.text_buffer import TextBuffer
from engine.files import ReadOnlyFiles
from engine.index.sparse import OffsetIndex, TimeIndex
from engine.index.transaction import TransactionIndex, aborted_txn_text
from tests.support.corpus import roots
from tests.support.floors import saw_enough

KINDS = {
    FileKind.OFFSET_INDEX: OffsetIndex,
    FileKind.TIME_INDEX: TimeIndex,
    FileKind.TRANSACTION_INDEX: TransactionIndex,
}
CODES = {
    "index-size-invalid", "index-zero-tail", "index-out-of-order", "index-corrupt", "timeindex-out-of-order", "txnindex-invalid",
}  # fmt: skip


def runs(run):
    """(logs/, index file, .out, .err) of every run of the 4.3.1 tool on an index file."""
    for logs in (root / "logs" for root in roots()):
        for out in sorted((logs.parent / "expected" / run).rglob("*.out")):
            path = logs / out.relative_to(logs.parent / "expected" / run).with_suffix("")
            parsed = parse_file_name(path.name)
            if parsed is not None and parsed.kind in KINDS and not parsed.suffix:
                assert path.exists()
                error = out.with_suffix(".err")
                yield logs, path, out.read_text(), error.read_text() if error.exists() else ""


def load(path):
    parsed = parse_file_name(path.name)
    return KINDS[parsed.kind].read(ReadOnlyFiles(), str(path), parsed.base_offset)


def lines(index):
    if isinstance(index, TransactionIndex):
        return [] if index.read_error("") else [aborted_txn_text(txn) for txn in index]
    written = []
    with TextBuffer(lambda view: written.append(bytes(view))) as out:
        renderer = TextDump(DumpOptions(), out, print)
        renderer.index_entries(index, 0, index.dumped_entries)
        renderer.flush()
    return b"".join(written).decode().splitlines()


def test_entries_print_as_in_kafka():
    compared = 0
    for _, path, out, error in runs("dump"):
        index = load(path)
        expected = out.splitlines()[1:]
        if isinstance(index, OffsetIndex) and len(index) == 0:
            assert len(expected) == 1
            assert expected[0].endswith(f"{path.name} is empty."), path
            continue
        if "Exception" in error and not isinstance(index, TransactionIndex):  # it stopped at an entry that fits no log
            assert lines(index)[: len(expected)] == expected, path
        else:
            assert lines(index) == expected, path
        compared += 1
    saw_enough("indexes that were printed", compared, 101)


def test_sanity_check_says_what_kafka_says():
    passed = refused = 0
    for logs, path, out, error in runs("sanity"):
        index = load(path)
        found = re.match(r'Exception in thread "main" [\w.]*CorruptIndexException: (.*)', error)
        name = "LOGS" if "LOGS" in error else "{cwd}"
        message = index.broker_error(f"{name}/{path.relative_to(logs)}") if hasattr(index, "broker_error") else None
        if found:
            assert message == found[1], path
            refused += 1
        elif "passed sanity check" in out:
            assert message is None, path
            passed += 1
    saw_enough("indexes that passed a sanity check", passed)
    saw_enough("indexes that were refused", refused)


def test_error_of_a_later_version():
    seen = 0
    for logs, path, _, error in runs("dump"):
        found = re.match(r'Exception in thread "main" [\w.]*KafkaException: (.*)', error)
        if found and path.suffix == ".txnindex":
            assert load(path).read_error("{cwd}/" + str(path.relative_to(logs))) == found[1]
            seen += 1
    saw_enough("transaction indexes of a later version", seen)


def test_indexes_of_a_clean_stop_have_no_findings():
    checked = 0
    for root in roots():
        for path in sorted((root / "logs/clean").rglob("*index")):
            if path.parent.name.endswith("-delete"):  # never closed: still preallocated
                continue
            index = load(path)
            assert index.sanity() == [], path
            checked += 1
            for entry in index:
                if isinstance(index, OffsetIndex):
                    assert index.lookup(entry.offset) == entry
                elif isinstance(index, TimeIndex):
                    assert index.lookup(entry.timestamp) == entry
    saw_enough("indexes of a clean stop", checked, 101)


def test_every_index_is_read_without_a_crash(corpus):
    codes, kinds = set(), set()
    for path in sorted(corpus.rglob("*index*")):
        parsed = parse_file_name(path.name)
        if parsed is None or parsed.kind not in KINDS or parsed.base_offset is None or not path.is_file():
            continue
        index = load(path)
        kinds.add(parsed.kind)
        codes.update(finding.code for finding in index.sanity())
        index.broker_error("x")
    assert codes <= CODES
    saw_enough("kinds of indexes", len(kinds), len(KINDS))
    saw_enough("codes of damage to indexes", len(codes), len(CODES))
