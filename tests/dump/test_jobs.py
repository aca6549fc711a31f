"""Text that several threads make is the text that one makes."""

from __future__ import annotations

import struct
from time import sleep

import pytest

from engine.discovery.names import parse_file_name, partition_of
from engine.dump import text_buffer
from engine.dump.json_objects import JsonDump
from engine.dump.json_stream import JsonStream
from engine.dump.kernel_renderer import LARGE, MANY
from engine.dump.renderer import DumpOptions
from engine.dump.run import Dump
from engine.dump.text import TextDump
from engine.dump.text_buffer import TextBuffer
from engine.log.fetch.records import Run
from engine.record.builder import NewRecord, build_batch
from kafkalog_cli.fetch_output import JsonRecords, TextRecords
from kafkalog_cli.output import BackgroundWriter
from tests.support.memory_files import MemoryFiles
from tests.support.small_logs import LOG, PARTITION, batch, chunks, emptied

HEADERS = [(b"h%d" % number, None) for number in range(MANY + 1)]
DATA = b"".join([
    batch(0, 7, b"0" * 300), emptied(7, 9), batch(10), emptied(11, 12), batch(13, 300, b"1" * 50),
    build_batch([NewRecord(400, 5, None, b"2" * LARGE), NewRecord(401, 5, b"k", None, HEADERS)], base_offset=400),
    batch(402, 40), emptied(442, 445),
])  # fmt: skip
STEM = LOG.removesuffix(".log")
CONTENTS = {
    LOG: DATA, STEM + ".index": struct.pack(">ii", 6, 0), STEM + ".timeindex": struct.pack(">qi", 6, 6),
    STEM + ".log.deleted": DATA[:-3], STEM + ".timeindex.deleted": struct.pack(">qi", 5, 6),
}  # fmt: skip


class Told(TextBuffer):
    """Counts the parts that threads were given."""

    parts = 0

    def put_parts(self, parts, begin, finish):
        Told.parts += len(parts) - 1
        super().put_parts(parts, begin, finish)


def shown(jobs, show):
    written = bytearray()
    with Told(written.extend, 4000, jobs) as out:
        show(out)
        out.flush()
    return bytes(written)


def dumped(out, form, options):
    files, options = MemoryFiles(CONTENTS), options._replace(jobs=len(out._helpers) + 1)
    dump = TextDump(options, out, print) if form == "text" else JsonDump(
        options, JsonStream(out, "dump-log", array=form == "json"), print
    )  # fmt: skip
    dump = Dump(files, options, dump, print)
    for path in CONTENTS:
        dump.dump(path, parse_file_name(path.rpartition("/")[2]), CONTENTS)


def fetched(out, form):
    partition = partition_of(f"{PARTITION}/x")
    renderer = TextRecords(r"%o %k %h %s\n", partition, out, escape=False) if form == "text" else JsonRecords(
        JsonStream(out, "fetch", array=form == "json"), partition
    )  # fmt: skip
    for chunk, base in chunks(DATA):
        renderer.run(Run(chunk, chunk.first, chunk.end, base, LOG), None)


@pytest.mark.parametrize("share", [300, 4 << 20], ids=["room for few records", "room for all"])
@pytest.mark.parametrize("form", ["text", "json", "jsonl"])
def test_the_text_of_several_threads(monkeypatch, form, share):
    monkeypatch.setattr(text_buffer, "_WORTH", 1)
    monkeypatch.setattr(text_buffer, "_SHARES", share)
    ways = [
        *(lambda out, options=options: dumped(out, form, options) for options in (
            DumpOptions(print_data=True, max_batch_bytes=300_000), DumpOptions(deep=True), DumpOptions(print_data=True, skip_metadata=True),
        )),
        lambda out: fetched(out, form),
    ]  # fmt: skip
    for way in ways:
        alone = shown(1, way)
        for jobs in (2, 3, 64):
            Told.parts = 0
            assert shown(jobs, way) == alone
            assert Told.parts >= jobs - 1


def test_a_reader_who_leaves_ends_the_threads(monkeypatch):
    monkeypatch.setattr(text_buffer, "_WORTH", 1)

    def leave(_view):
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError), TextBuffer(leave, 4000, 3) as out:
        dumped(out, "text", DumpOptions(print_data=True))
    assert not any(thread.is_busy for thread, _ in out._helpers)


def test_a_buffer_is_not_filled_again_before_the_thread_has_written_it():
    written, text = [], "".join(map(str, range(3000)))

    def write(view):
        sleep(0.0001)  # so that the caller fills all other buffers
        written.append(bytes(view))

    with BackgroundWriter(write) as output, TextBuffer(output.write, 64) as out:
        for at in range(0, len(text), 7):
            out.put(text[at : at + 7])
        out.flush()
        output.drain()
        assert b"".join(written) == text.encode()


def test_after_an_error_the_thread_writes_nothing():
    attempts = []

    def write(view):
        attempts.append(bytes(view))
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError), BackgroundWriter(write) as output:
        output.write(memoryview(b"a"))
        with pytest.raises(BrokenPipeError):
            output.drain()
        output.write(memoryview(b"b"))
    assert attempts == [b"a"]
