"""Every decoder line that the real tool printed for the corpus, from the bytes of its log."""

import pytest

from engine.schema.decode import control_data, control_text, decoder, internal_topic_decoder
from engine.schema.wire import SchemaError
from tests.support.floors import saw_enough
from tests.support.plain_records import plain_records

DECODER_OF_RUN = {
    "offsets": "offsets",
    "txnlog": "transaction-log",
    "metadata": "cluster-metadata",
    "remote": "remote-log-metadata",
    "share": "share-group-state",
}


def cases(corpus, run):
    """(expected lines, log) of a run over all brokers."""
    for expected in sorted(corpus.glob(f"**/expected/{run}/**/*.out")):
        root = next(parent for parent in expected.parents if parent.name == "expected").parent
        log = root / "logs" / expected.relative_to(root / "expected" / run).with_suffix("")
        lines = expected.read_bytes().decode().split("\n")
        yield [line for line in lines if line.startswith("| offset: ")], log


def error_of(log):
    """What the tool printed on stderr when it decoded the metadata `log`."""
    root = next(parent for parent in log.parents if parent.name == "logs").parent
    return (root / "expected/metadata" / log.relative_to(root / "logs")).with_name(f"{log.name}.err").read_text()


def pairs(lines, log):
    """Each line with its record. Behind the last line there may be more, and damage: the tool may have died there."""
    records = plain_records(log.read_bytes())
    for line in lines:
        record = next(records, None)
        assert record is not None, f"{log} has no record for {line}"
        yield line, record


def printed(line):
    """What stands behind the record's own fields: header keys, or validity and checksum of the old formats."""
    if " headerKeys: " in line:
        return line[line.index("]", line.index(" headerKeys: [")) + 1 :]
    _, _, rest = line.partition(" crc: ")
    return rest.lstrip("0123456789")


@pytest.mark.parametrize("run", DECODER_OF_RUN)
def test_decoder_lines(corpus, run):
    seen = 0
    tool = decoder(DECODER_OF_RUN[run])
    for lines, log in cases(corpus, run):
        for line, record in pairs(lines, log):
            assert line.startswith(f"| offset: {record.offset} ")
            if record.is_control:
                continue
            key, payload, problem = tool.text(record.offset, record.key, record.value)
            text = ("" if key is None else f" key: {key}") + ("" if payload is None else f" payload: {payload}")
            assert text == printed(line), f"{log} at offset {record.offset}"
            assert (problem is not None) == (", skipping." in line)
            seen += 1
    saw_enough("lines of this decoder", seen)


def test_control_lines(corpus):
    kinds = {2, 3, 4, 5, 6}  # of the metadata log: leader change to voters
    seen = set()
    for lines, log in cases(corpus, "metadata"):
        for line, record in pairs(lines, log):
            if not record.is_control:
                continue
            kind = int.from_bytes(record.key[2:4], signed=True)
            if kind > 1:
                try:
                    text, problem = control_text(kind, record.key, record.value), None
                except SchemaError as error:
                    text, problem = "", str(error)
                if problem is not None:  # for the same reason the tool died in this line
                    assert line == lines[-1]
                    assert problem in error_of(log)
                    continue
                assert text == printed(line)
                assert "version" in control_data(kind, record.value)
                seen.add(kind)
    assert seen <= kinds
    saw_enough("kinds of control records", len(seen), len(kinds))


def test_internal_topics_choose_their_decoder():
    assert internal_topic_decoder("__consumer_offsets") is decoder("offsets")
    assert internal_topic_decoder("__cluster_metadata") is decoder("cluster-metadata")
    assert internal_topic_decoder("orders") is None
    with pytest.raises(KeyError):
        decoder("orders")
