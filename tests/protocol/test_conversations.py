"""Messages out of files of frames and packet captures."""

from __future__ import annotations

import json
import random
import struct
from collections import Counter
from itertools import groupby

import pytest

from engine.protocol.conversations import finding_about, read_messages
from engine.protocol.exchange import looks_like_request, names_in
from engine.protocol.sent_batches import SentBatches
from engine.record.builder import NewRecord, build_batch
from tests.support.corpus import wire_corpus, wire_directory
from tests.support.memory_files import MemoryFile
from tests.support.protocol_values import produce_request
from tests.support.schema_bytes import mutate
from tests.support.wire_frames import captured, sessions

SESSIONS = sessions(wire_corpus())
CAPTURES = wire_directory() / "captures"
RECORDED = json.loads((CAPTURES / "captures.json").read_text())


def heard(data):
    """(messages, findings) of a file."""
    findings = []
    return list(read_messages(MemoryFile("f", data), findings.append)), findings


def frames(messages):
    return [(one.message.is_request, bytes(one.message.frame.data)) for one in messages]


def frames_of(session):
    return [(one.is_request, one.frame) for one in captured(session)]


@pytest.mark.parametrize("session", SESSIONS, ids=lambda path: path.name)
def test_directions_are_found_without_being_in_the_file(session):
    messages, findings = heard((session / "frames.bin").read_bytes())
    expected = list(captured(session))
    assert findings == []
    assert frames(messages) == frames_of(session)
    by_position = {one.message.frame.position: one.message for one in messages}
    for one in expected:
        message = by_position[one.facts["at"]]
        assert (message.header.api_key, message.header.correlation_id) == (one.header.api_key, one.header.correlation_id)
        assert message.unread == 0
        assert (message.body is None) == ("failed" in one.facts)
        about = finding_about(message, "f")
        assert (about and about.code) == ("frame-undecoded" if "failed" in one.facts else None)
        if not one.is_request:
            assert by_position[message.request].is_request


def test_a_file_of_requests_only():
    session = SESSIONS[0]
    requests = [one for one in captured(session) if one.is_request]
    messages, findings = heard(b"".join(one.framed for one in requests))
    assert frames(messages) == [(True, one.frame) for one in requests]
    assert findings == []


def test_responses_without_their_requests_are_only_noted():
    responses = [one.framed for one in captured(SESSIONS[0]) if not one.is_request]
    messages, findings = heard(responses[0] + responses[1])
    assert findings == []
    assert [one.message.body for one in messages] == [None, None]


def test_a_file_that_ends_inside_a_frame_or_is_something_else():
    stream = (SESSIONS[0] / "frames.bin").read_bytes()
    messages, [finding] = heard(stream[:-1])
    assert len(messages) == len(frames_of(SESSIONS[0])) - 1
    assert finding.code == "frame-invalid"
    assert "ends inside a frame" in finding.what
    messages, [finding] = heard(b"\x7fELF" + bytes(100))
    assert messages == []
    assert (finding.code, finding.where.position) == ("frame-invalid", 0)
    assert heard(b"") == ([], [])


# ---- captures


def split(data):
    """(header, packets with their headers) of a pcap file of tcpdump's."""
    at, found = 24, []
    while at < len(data):
        size = struct.unpack_from("<I", data, at + 8)[0]
        found.append(data[at : at + 16 + size])
        at += 16 + size
    return data[:24], found


def with_link(header, packets, link, convert):
    """The same capture of another link type."""
    out = header[:20] + struct.pack("<I", link)
    for packet in packets:
        data = convert(packet[16:])
        out += packet[:8] + struct.pack("<II", len(data), len(data)) + data
    return out


IDEMPOTENT = (CAPTURES / "idempotent.pcap").read_bytes()
SMALL = (CAPTURES / "small-segments.pcap").read_bytes()


@pytest.mark.parametrize("name", RECORDED)
def test_a_capture_has_the_frames_that_were_sent(name):
    messages, findings = heard((CAPTURES / name).read_bytes())
    assert findings == []
    assert frames(messages) == frames_of(wire_directory() / RECORDED[name])
    assert all(one.connection.endswith(":19092") and one.at_ms > 1.7e12 for one in messages)


@pytest.mark.parametrize(("link", "convert"), [
    (0, lambda data: b"\2\0\0\0" + data[14:]),
    (101, lambda data: data[14:]),
    (113, lambda data: bytes(14) + data[12:]),
    (1, lambda data: data[:12] + b"\x81\0\0\7" + data[12:]),
])  # fmt: skip
def test_link_types(link, convert):
    messages, findings = heard(with_link(*split(IDEMPOTENT), link, convert))
    assert (frames(messages), findings) == (frames(heard(IDEMPOTENT)[0]), [])


def test_a_link_type_that_is_not_supported():
    messages, [finding] = heard(with_link(*split(IDEMPOTENT), 105, lambda data: data))
    assert messages == []
    assert finding.what == (
        "link type 105 is not supported: capture on Ethernet, loopback, or `any`; the rest of the capture is not read"
    )


@pytest.mark.parametrize("seed", range(20))
def test_segments_that_were_repeated_and_reordered(seed):
    """Segments of one message change places, some come twice: as on a network with several paths."""
    rng = random.Random(seed)
    header, packets = split(SMALL)
    carrying = [packet for packet in packets if len(packet) > 16 + 66 or packet[16 + 47] & 3]  # data, SYN or FIN
    bursts = [list(burst) for _, burst in groupby(carrying, lambda packet: packet[50:54])]  # of one direction
    for burst in bursts:
        rng.shuffle(burst)
    doubled = [one for burst in bursts for packet in burst for one in [packet] * rng.choice((1, 1, 2))]
    messages, findings = heard(header + b"".join(doubled))
    assert any(len(burst) > 2 for burst in bursts)
    assert findings == []
    assert frames(messages) == frames(heard(SMALL)[0])


def test_the_messages_after_a_lost_segment_are_found():
    header, packets = split(SMALL)
    everything = heard(SMALL)[0]
    with_data = [number for number, packet in enumerate(packets) if len(packet) > 16 + 66 + 300]
    lost = with_data[2]
    messages, findings = heard(header + b"".join(packets[:lost] + packets[lost + 1 :]))
    assert [finding.code for finding in findings] == ["capture-incomplete"]
    assert "bytes missing" in findings[0].what
    assert 0 < len(everything) - len(messages) <= 3
    assert Counter(frames(messages)) < Counter(frames(everything))


def test_a_capture_that_begins_inside_a_connection():
    header, packets = split(SMALL)
    everything = heard(SMALL)[0]
    messages, findings = heard(header + b"".join(packets[20:]))
    assert findings == []
    assert len(everything) / 2 < len(messages) < len(everything)
    assert Counter(frames(messages)) < Counter(frames(everything))


CLIENTS = [session for session in SESSIONS if session.name not in {"refused", "raw-fetch"}]  # these have odd requests


@pytest.mark.parametrize("session", CLIENTS, ids=lambda path: path.name)
def test_a_response_does_not_look_like_a_request(session):
    for one in captured(session):
        for size in (len(one.framed), 1448, 200, 150):
            assert looks_like_request(memoryview(one.framed)[:size]) == one.is_request


def test_the_beginnings_of_requests_and_of_damaged_ones():
    """No number of bytes is an error."""
    rng = random.Random(3)
    for version in range(3, 14):
        whole = produce_request(batch(), version)
        found = [looks_like_request(memoryview(whole)[:size]) for size in range(len(whole) + 1)]
        assert not any(found[:40])
        assert all(found[-60:-8])
        assert found[-1]
        for size in range(0, len(whole), 3):
            looks_like_request(memoryview(mutate(rng, whole))[:size])


def test_shortened_packets_and_other_protocols():
    header, packets = split(IDEMPOTENT)
    short = [one[:8] + struct.pack("<I", 100) + one[12:116] if len(one) > 116 else one for one in packets]
    _, findings = heard(header + b"".join(short))
    assert any("shorter than on the network: capture with snaplen 0" in finding.what for finding in findings)
    assert {finding.code for finding in findings} == {"capture-incomplete"}
    text = [one[:82] + b"GET / HTTP/1.1\r\n"[: len(one) - 82].ljust(len(one) - 82) for one in packets]
    messages, [finding] = heard(header + b"".join(text))
    assert messages == []
    assert (finding.severity.value, finding.what) == ("info", "2 connections of other protocols, or encrypted")


def test_connections_that_are_given_up_when_too_much_is_kept(monkeypatch):
    """All but one connection at a time: messages are still found, where a frame begins with a segment."""
    everything = frames(heard(IDEMPOTENT)[0])
    for limit in ("_MOST_KEPT", "_MOST_CONNECTIONS"):
        with monkeypatch.context() as patch:
            patch.setattr(f"engine.protocol.conversations.{limit}", -1 if limit == "_MOST_KEPT" else 1)
            messages, findings = heard(IDEMPOTENT)
        assert findings == []
        assert Counter(frames(messages)) <= Counter(everything)
        assert len(messages) > len(everything) / 2


@pytest.mark.parametrize("name", RECORDED)
def test_damaged_captures(name):
    """Any damage ends in findings, never in another error."""
    data = (CAPTURES / name).read_bytes()[:6000]
    codes = Counter()
    for seed in range(300):
        rng = random.Random(f"{name} {seed}")
        damaged = mutate(rng, data[:400]) + data[400:] if seed % 2 else data[: rng.randrange(len(data))]
        messages, findings = heard(damaged)
        findings += filter(None, (finding_about(one.message, "f") for one in messages))
        codes.update(finding.code for finding in findings)
    assert codes["capture-incomplete"] > 50


# ---- batches


def read_all(data, max_message_bytes=1_048_588):
    """(batches, findings) of a file."""
    reader = SentBatches("f", max_message_bytes)
    found = [reader.read(one.message) for one in heard(data)[0]]
    return [batch for batches, _ in found for batch in batches], [finding for _, findings in found for finding in findings]


def sent(*batches, version=13):
    return b"".join(produce_request(batch, version) for batch in batches)


def batch(sequence=-1, count=2, producer_id=7):
    fields = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequence} if sequence >= 0 else {}
    return build_batch([NewRecord(offset, 1_700_000_000_000, None, b"v") for offset in range(count)], **fields)


def test_sound_batches_and_names_of_ids():
    session = wire_directory() / "produce/franz-none"
    batches, findings = read_all((session / "frames.bin").read_bytes())
    assert findings == []
    assert {(one.topic, one.partition, one.compression) for one in batches} == {("franz-none", 0, "none")}
    assert [one.batch.base_sequence for one in batches] == [0, 3, 9]
    assert all(one.topic_id for one in batches)


@pytest.mark.parametrize(("records", "what"), [
    (batch()[:-1] + b"?", "the checksum of a batch"),
    (batch() + batch(), "2 batches, magic [2], 0 other bytes"),
    (batch() + b"\0\0\0", "1 batches, magic [2], 3 other bytes"),
    (b"\0" * 30, "0 batches, magic [], 30 other bytes"),
])  # fmt: skip
def test_batches_that_a_broker_refuses(records, what):
    _, [finding] = read_all(sent(records))
    assert finding.code == "sent-batch-invalid"
    assert what in finding.what


def test_sequences():
    _, findings = read_all(sent(*map(batch, (0, 2, 2, 0, 6, 8))))
    assert [(one.code, one.what.rpartition(": ")[2]) for one in findings] == [
        ("sequence-repeated", "producer 7 epoch 0, sequence 2 to 3 was sent before"),
        ("sequence-repeated", "producer 7 epoch 0, sequence 0 to 1 was sent before"),
        ("sequence-gap", "producer 7 epoch 0, sequence 6; 4 is expected"),
    ]
    assert read_all(sent(batch(5), batch(0, producer_id=8), batch(), batch()))[1] == []
    assert read_all(sent(batch(2**31 - 2), batch(0)))[1] == []


def test_many_batches_of_a_message(monkeypatch):
    batches, findings = read_all(sent(batch() * 40 + b"?"))
    assert len(batches) == 40
    assert "40 batches, magic [2], 1 other bytes" in findings[0].what
    monkeypatch.setattr("engine.protocol.sent_batches._MOST_BATCHES", 20)
    batches, findings = read_all(sent(batch() * 40))
    assert len(batches) == 32
    assert findings[-1].what == "32 batches were read: further ones in this message are ignored"


def test_sizes_near_the_limit():
    one = batch()
    assert read_all(sent(one), len(one) * 2)[1] == []
    _, [near] = read_all(sent(one), len(one))
    _, [above] = read_all(sent(one), len(one) - 1)
    assert (near.code, near.severity.value, above.severity.value) == ("sent-batch-large", "info", "warning")


def test_topics_of_a_body():
    assert names_in({"topics": [{"name": "a", "partitions": [{"name": "no"}]}], "name": "no"}) == {"a"}
    assert names_in({"responses": [{"topic": "b", "topicId": "A" * 22}], "cursor": {"topicName": "c"}}) == {"b", "c"}
