"""Hostile bytes, hostile names, hostile surroundings: an exit status and a line, never a traceback, hang or flood."""

from __future__ import annotations

import json
import os
import pty
import resource
import select
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from engine.formats import BATCH_HEADER, BatchHeader, Codec
from engine.kafka07.entries import encode_set
from engine.record.builder import NewRecord, build_batch
from engine.record.codecs.codecs import deflate
from tests.fuzz.mutate import repaired, zigzag
from tests.support.json_output import all_objects
from tests.support.permissions import without_permission
from tests.support.run import kafkalog

ROOT = Path(__file__).parents[2]
LARGE = 300 << 20
LOG = "00000000000000000000.log"
INT_MAX, LONG_MAX = 2**31 - 1, 2**63 - 1
RECORD = zigzag(8, 32) + bytes([0, 0, 0]) + zigzag(-1, 32) + zigzag(2, 32) + b"hi" + zigzag(0, 32)


def batch(body=RECORD, *, codec=Codec.NONE, count=1, base_offset=0, delta=0, crc=True, **fields):
    """A v2 batch with a checksum that fits, whatever it claims."""
    header = BatchHeader(base_offset, 0, 0, 2, 0, int(codec), delta, 1000, 1000, -1, -1, -1, count)._replace(**fields)
    return repaired(BATCH_HEADER.pack(header) + body, crc=crc)


def write(directory, data, name=LOG):
    (directory / name).write_bytes(data)
    return directory / name


def program(*words, cwd=None, memory=None, **settings):
    """The program in a process of its own → (stdout, stderr, status). `memory`: bytes of address space."""
    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))

    settings.setdefault("stdout", subprocess.PIPE)
    settings.setdefault("stderr", subprocess.PIPE)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **settings.pop("env", {})}
    done = subprocess.run(
        [sys.executable, "-m", "kafkalog_cli.main", *words], cwd=cwd, env=environment, timeout=60, check=False,
        preexec_fn=limit if memory else None, **settings,
    )
    return done.stdout, (done.stderr or b"").decode(), done.returncode


def dump(path, *options, status, codes):
    """Dump one file in every form; check the exit status and the codes of the findings → text on stdout."""
    done = kafkalog("dump-log", *options, str(path))
    lines = kafkalog("dump-log", "--format", "jsonl", *options, str(path))
    objects = all_objects(lines.out)[1:]
    found = {each["code"] for each in objects if each["type"] in {"finding", "error"}}
    assert found == set(codes), found
    assert (done.status, lines.status) == (status, status), done.err
    for code in codes:
        assert f"[{code}]" in done.err or code in {"offset-gap", "offset-order"}, done.err
    assert "Traceback" not in done.err
    return done.out.decode()


# ---- hostile bytes


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_decompression_bomb(tmp_path, codec):
    bomb = write(tmp_path, batch(deflate(codec, bytes(192 << 20)), codec=codec) + batch(base_offset=1))
    options = "--print-data-log", "--max-decompressed-bytes", "1m"
    out, err, status = program("dump-log", *options, str(bomb), memory=400 << 20)
    assert status == 4
    assert "[over-limit]" in err
    assert "Traceback" not in err
    assert b"offset: 1 " in out, "the batch behind the bomb is sound"


def test_bomb_within_a_v1_wrapper(tmp_path):
    value = deflate(Codec.GZIP, bytes(64 << 20), magic=1)
    wrapper = struct.pack(">qiIbbqii", 0, 0, 0, 1, Codec.GZIP, 1000, -1, len(value)) + value
    path = write(tmp_path, repaired(wrapper))
    dump(path, "--print-data-log", "--max-decompressed-bytes", "1m", status=4, codes=["over-limit"])


@pytest.mark.parametrize(("magic", "codec"), [
    (2, Codec.GZIP), (2, Codec.SNAPPY), (2, Codec.LZ4), (2, Codec.ZSTD), (1, Codec.GZIP), (1, Codec.LZ4), (0, Codec.SNAPPY),
    (0, Codec.GZIP),
])  # fmt: skip
def test_of_a_batch_beyond_the_limit_no_record_is_given(tmp_path, magic, codec):
    """In no format: where its first bytes would end is nobody's affair. What stands around it is there."""
    def made(first, count):
        return build_batch([NewRecord(first + at, 1000, b"k", b"v" * 100) for at in range(count)], codec=codec, magic=magic)

    path = write(tmp_path, made(0, 3) + made(3, 1000) + made(1003, 2))
    done = kafkalog("dump-log", "--format", "jsonl", "--print-data-log", "--max-decompressed-bytes", "10k", str(path))
    objects = all_objects(done.out)[1:]
    assert [each["offset"] for each in objects if each["type"] == "record"] == [0, 1, 2, 1003, 1004]
    assert [each["code"] for each in objects if each["type"] == "finding"] == ["over-limit"]
    assert kafkalog("dump-log", "--print-data-log", "--max-decompressed-bytes", "10k", str(path)).out.count(b" payload: ") == 5
    assert done.status == 4


@pytest.mark.parametrize("codec", [1, 2])
def test_nor_of_an_entry_of_0_7(tmp_path, codec):
    sets = [encode_set([b"v" * 100] * count, codec=codec) for count in (3, 1000, 2)]
    path = write(tmp_path, b"".join(sets), "0.kafka")
    options = "--print-data-log", "--deep-iteration", "--max-decompressed-bytes", "10k"
    done = kafkalog("dump-log", "--format", "jsonl", *options, str(path))
    objects = all_objects(done.out)[1:]
    assert [each.get("payload") for each in objects if each["type"] == "message-07"] == ["v" * 100] * 5
    assert [each["code"] for each in objects if each["type"] == "finding"] == ["over-limit"]


@pytest.mark.parametrize("body", [
    b"\xfe\xff\xff\xff\x0f" + RECORD,  # a record of 2^31 - 1 bytes
    b"\xff\xff\xff\xff\x0f" + RECORD,  # of -2^31
    b"\x80" * 5 + b"\x01" + RECORD,  # a varint of six bytes
    zigzag(8, 32) + bytes([0, 0, 0]) + zigzag(INT_MAX, 32) + b"xxx",  # a key of 2^31 - 1 bytes
    zigzag(8, 32) + bytes([0, 0, 0]) + zigzag(-1, 32) + zigzag(-(2**31), 32) + zigzag(INT_MAX, 32),  # 2^31 - 1 headers
    zigzag(5, 32) + bytes([0, 0, 0, 1, 1]) + zigzag(-1, 32),  # -1 headers
    zigzag(15, 32) + b"\0" + b"\x80" * 11 + bytes([1, 0, 0]),  # a varlong of eleven bytes
    b"",
])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.ZSTD])
def test_lengths_that_do_not_fit(tmp_path, body, codec):
    path = write(tmp_path, batch(deflate(codec, body), codec=codec) + batch(base_offset=1))
    out = dump(path, "--print-data-log", status=4, codes=["record-invalid"])
    assert "payload: hi" in out.splitlines()[-1]


@pytest.mark.parametrize(("count", "codes"), [
    (INT_MAX, ["record-invalid"]), (-1, ["record-count-mismatch"]), (-(2**31), ["record-count-mismatch"]),
])
def test_counts_that_lie(tmp_path, count, codes):
    path = write(tmp_path, batch(count=count, delta=INT_MAX))
    out = dump(path, "--deep-iteration", status=4, codes=codes)
    assert f"count: {count} " in out


def test_two_billion_records_of_one_byte(tmp_path):
    """Records of one byte cannot be; a million of them take no longer than the first."""
    path = write(tmp_path, batch(bytes([2]) * 1_000_000, count=INT_MAX))
    dump(path, "--deep-iteration", status=4, codes=["record-invalid"])
    path = write(tmp_path, batch(deflate(Codec.ZSTD, bytes([0]) * 50_000_000), codec=Codec.ZSTD, count=INT_MAX))
    dump(path, "--deep-iteration", status=4, codes=["record-invalid"])


@pytest.mark.parametrize(("base_offset", "codes"), [(LONG_MAX, ["offset-order"]), (-(2**63), []), (-1, [])])
def test_offsets_at_the_ends_of_64_bits(tmp_path, base_offset, codes):
    second = zigzag(8, 32) + bytes([0, 0]) + zigzag(1, 32) + RECORD[4:]
    path = write(tmp_path, batch(RECORD + second, count=2, base_offset=base_offset, delta=1), "x.log")
    out = dump(path, "--print-data-log", status=4, codes=["name-invalid", *codes])
    assert f"baseOffset: {base_offset} " in out
    assert f"| offset: {(base_offset + 1 + 2**63) % 2**64 - 2**63} " in out


def test_sizes_at_the_ends_of_32_bits(tmp_path):
    data = batch()
    for size in (INT_MAX, -1, -(2**31), 13):
        code = "torn-tail" if size > 0 and size != 13 else "batch-size-invalid"
        path = write(tmp_path, data + data[:8] + size.to_bytes(4, "big", signed=True) + data[12:])
        dump(path, "--print-data-log", status=4, codes=[code])


def test_large_index(tmp_path):
    """100 MB: more than an index may have. It is refused, not read."""
    for suffix in (".index", ".timeindex"):
        path = tmp_path / LOG.replace(".log", suffix)
        with path.open("wb") as file:
            file.seek(99_999_999)
            file.write(b"\1")
        out, err, status = program("dump-log", str(path), memory=400 << 20)
        assert status == 8
        assert "100000000 bytes, more than the 67108864" in err
        assert out.count(b"\n") == 1


# ---- files that are none, and names


def test_what_is_no_file(tmp_path):
    (tmp_path / "1.log").mkdir()
    os.mkfifo(tmp_path / "2.log")
    (tmp_path / "3.log").symlink_to("4.log")
    (tmp_path / "4.log").symlink_to("3.log")
    write(tmp_path, b"", "5.log")
    words = "1.log,2.log,3.log,/dev/null,/dev/zero,5.log,6.log,,"
    done = kafkalog("dump-log", "--files", words, cwd=tmp_path)
    assert done.status == 8
    assert done.err.splitlines() == [
        "error[unreadable-file] 1.log: a directory, not a file",
        "error[unreadable-file] 2.log: a FIFO, not a file",
        "error[unreadable-file] 3.log: Too many levels of symbolic links",
        "  do   ls -la .    # what is there",
        "Ignoring unknown file /dev/null",
        "Ignoring unknown file /dev/zero",
        "error[unreadable-file] 6.log: No such file or directory",
        "  do   ls -la .    # what is there",
    ]
    assert done.out.decode().count("Dumping ") == 7


def test_a_device_with_the_name_of_a_log(tmp_path):
    for device in ("/dev/zero", "/dev/null"):
        path = tmp_path / "7.log"
        path.unlink(missing_ok=True)
        path.symlink_to(device)
        done = kafkalog("dump-log", str(path))
        assert (done.status, done.err) == (8, f"error[unreadable-file] {path}: a device, not a file\n")


def test_a_directory_with_all_of_them_still_shows_the_sound_file(tmp_path):
    write(tmp_path, batch())
    os.mkfifo(tmp_path / "2.log")
    (tmp_path / "3.log").symlink_to("3.log")
    (tmp_path / "loop").symlink_to(".")
    done = kafkalog("dump-log", str(tmp_path))
    assert done.status == 8
    assert b"baseOffset: 0 " in done.out
    assert "a FIFO, not a file" in done.err
    assert "Too many levels of symbolic links" in done.err


def test_no_permission(tmp_path, monkeypatch):
    """By a double of the operating system's call, since root may read everything."""
    path = write(tmp_path, batch())
    real = os.open

    def refuse(name, *rest, **more):
        if name == str(path):
            raise PermissionError(13, "Permission denied", name)
        return real(name, *rest, **more)

    monkeypatch.setattr("engine.files.interface.os.open", refuse)
    done = kafkalog("dump-log", str(path))
    assert (done.status, done.err) == (8, f"error[unreadable-file] {path}: Permission denied\n")


def test_no_permission_for_real(tmp_path):
    path = write(tmp_path, batch())
    with without_permission(path):
        done = kafkalog("dump-log", str(path))
    step = f"  do   chmod u+rX {path}    # its mode excludes its owner\n"
    assert (done.status, done.err) == (8, f"error[unreadable-file] {path}: Permission denied\n{step}")


def test_a_directory_without_permission_below_the_one_that_was_named(tmp_path):
    """As for a file: what could not be looked at is status 8, whoever meets it."""
    (tmp_path / "data/t-0").mkdir(parents=True)
    (tmp_path / "data/t-1").mkdir()
    write(tmp_path / "data/t-1", batch())
    with without_permission(tmp_path / "data/t-0"):
        for command in ("dump-log", "verify"):
            done = kafkalog(command, str(tmp_path / "data"))
            assert (done.status, "unreadable" in done.err) == (8, True), done.err


def test_an_input_output_error_in_the_middle(tmp_path, monkeypatch):
    path = write(tmp_path, batch())

    def fail(*_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("engine.files.interface.os.preadv", fail)
    done = kafkalog("dump-log", "--print-data-log", str(path))
    assert (done.status, done.err) == (8, f"error[unreadable-file] {path}: Input/output error\n")


def test_a_file_that_shrinks_while_it_is_read(tmp_path, monkeypatch):
    path = write(tmp_path, batch() * 100)
    real = os.preadv

    def cut(*words):
        os.truncate(path, 1000)
        return real(*words)

    monkeypatch.setattr("engine.files.interface.os.preadv", cut)
    done = kafkalog("dump-log", str(path))
    assert done.status == 8
    assert "[file-changed]" in done.err
    assert "became shorter" in done.err


@pytest.mark.parametrize("words", ["", ",", ",,", "a,,b", ",a", " ", "a, b"])
def test_odd_lists_of_files(tmp_path, words):
    done = kafkalog("dump-log", "--files", words, cwd=tmp_path)
    names = [] if words in {",", ",,"} else words.split(",")
    assert done.status == 0
    assert done.out.decode() == "".join(f"Dumping {name}\n" for name in names)


@pytest.mark.parametrize("name", ["x.log", "t-0", "anything"])
def test_a_directory_with_nothing_in_it_is_told(tmp_path, name):
    (tmp_path / name / "below").mkdir(parents=True)
    done = kafkalog("dump-log", name + "/", cwd=tmp_path)
    assert (done.out, done.status) == (b"", 0)
    assert done.err.splitlines()[-1] == f"info[nothing-found] {name}/: contains none of Kafka's files"
    assert '"nothing-found"' in kafkalog("dump-log", name, "--format", "jsonl", cwd=tmp_path).out.decode()


NAMES = [b"new\nline", b"esc\x1b[31m\x07", b"not-utf8-\xff\xfe", "bidi\u202etxt".encode(), b"-dash", b" ", b"%s{path}"]


@pytest.mark.parametrize("name", NAMES)
def test_names_of_any_bytes(tmp_path, name):
    directory = os.path.join(os.fsencode(tmp_path), name + b"-0")
    os.mkdir(directory)
    with open(os.path.join(directory, LOG.encode()), "wb") as file:
        file.write(batch() + b"torn")
    out, err, status = program("dump-log", "--print-data-log", str(tmp_path))
    assert status == 4
    assert b"payload: hi" in out
    assert len(err.splitlines()) == 1, err
    assert "\x1b[31" not in err
    out, err, status = program("dump-log", "--format", "jsonl", str(tmp_path))
    assert status == 4
    assert all_objects(out)[-1]["exit_status"] == 4


# ---- hostile surroundings


def test_disk_full(tmp_path):
    path = write(tmp_path, batch() * 10)
    for words in (["dump-log", str(path)], ["dump-log", "--print-data-log", str(path)], ["dump-log", "--count", str(path)],
                  ["dump-log", "--format", "json", str(path)], ["--help"], ["--version"], ["dump-log", "--help"]):
        with open("/dev/full", "wb") as full:
            _, err, status = program(*words, stdout=full)
        assert status == 8, words
        assert err == "error[output-failed] cannot write the output: No space left on device\n", words


def test_closed_streams(tmp_path):
    path = write(tmp_path, batch() + b"torn")
    command = f"'{sys.executable}' -m kafkalog_cli.main dump-log '{path}'"

    def shell(redirection):
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        words = ["sh", "-c", f"{command} {redirection}"]
        done = subprocess.run(words, env=environment, capture_output=True, timeout=60, check=False)
        return done.stdout, done.stderr.decode(), done.returncode

    assert shell(">&-") == (b"", "error[output-failed] stdout is closed\n", 8)
    out, err, status = shell("2>&-")
    assert (err, status) == ("", 4)
    assert b"baseOffset: 0 " in out
    assert shell(">/dev/full 2>/dev/full")[1:] == ("", 8)
    assert shell("2>/dev/full")[2] in {4, 8}


def test_what_nobody_can_complain_to_ends_nothing(tmp_path):
    sound, damaged = write(tmp_path, batch() * 3), tmp_path / "t-1" / "00000000000000000000.log"
    damaged.parent.mkdir()
    damaged.write_bytes(batch() + b"torn")
    with open("/dev/full", "wb") as full:
        out, _, status = program("dump-log", str(sound), str(damaged), str(sound), stderr=full)
        assert (out.count(b"baseOffset"), status) == (7, 4)
        assert program("dump-log", "--bogus", stderr=full)[2] == 2


@pytest.mark.parametrize("settings", [
    {"PYTHONIOENCODING": "latin-1:strict"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
])  # fmt: skip
def test_text_is_utf_8_whatever_the_locale_says(tmp_path, settings):
    path = tmp_path / "é-0" / "00000000000000000000.log"
    path.parent.mkdir()
    path.write_bytes(batch())

    def run(*words):
        environment = {**os.environ, "PYTHONPATH": str(ROOT), **settings}
        words = [sys.executable, "-m", "kafkalog_cli", *words]
        done = subprocess.run(words, env=environment, capture_output=True, timeout=60, check=False)
        return done.stdout.decode(), done.stderr.decode(), done.returncode

    out, err, status = run("dump-log", "--help")
    assert ("…" in out, err, status) == (True, "", 0)
    out, err, status = run("dump-log", str(path))
    assert (f"Dumping {path}\n" in out, err, status) == (True, "", 0)


def test_a_reader_that_goes_away(tmp_path):
    path = write(tmp_path, batch() * 50_000)
    words = [sys.executable, "-m", "kafkalog_cli.main", "dump-log", str(path)]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.read(100)
        process.stdout.close()
        assert process.wait(60) == -signal.SIGPIPE
        assert process.stderr.read() == b""


def test_interrupt(tmp_path):
    path = write(tmp_path, batch() * 50_000)
    words = [sys.executable, "-m", "kafkalog_cli", "dump-log", "--print-data-log", str(path)]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.read(100)  # it is at work, and waits for a reader
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        err = process.stderr.read().decode()
        assert process.wait(60) == 130
    assert err.strip() == "interrupted"


def on_terminal(*words, cwd, **environment):
    """What a terminal gets to see, stdout and stderr together, and the exit status."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "kafkalog_cli", *words], cwd=cwd, stdin=theirs, stdout=theirs, stderr=theirs,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", **environment},
    )
    os.close(theirs)
    seen, deadline = b"", time.monotonic() + 60
    while time.monotonic() < deadline and select.select([ours], [], [], 60)[0]:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # Linux's way to say that the other side is closed
            break
        if not piece:
            break
        seen += piece
    os.close(ours)
    return seen, process.wait(60)


def test_a_terminal_is_not_obeying_names_and_payloads(tmp_path):
    body = RECORD.replace(b"hi", b"\x1bc")
    directory = tmp_path / "esc\x1b]0;title\x07\u202e-0"
    directory.mkdir()
    write(directory, batch(body) + b"torn")
    write(directory, b"", LOG.replace(".log", ".index"))
    with open(directory / LOG.replace(".log", ".timeindex"), "wb") as file:
        file.write(struct.pack(">qi", 5, 0))
    os.mkfifo(directory / "00000000000000000007.log")
    seen, status = on_terminal("dump-log", "--print-data-log", ".", cwd=tmp_path, NO_COLOR="1")
    assert status == 8
    assert b"\\x1b]0;title" in seen
    assert b"payload: \\x1bc" in seen
    assert b"\x07" not in seen
    assert "\u202e".encode() not in seen
    assert b"\x1b" not in seen, seen


def test_a_terminal_is_not_obeying_what_was_typed(tmp_path):
    for words in (["--value-decoder-class", "x\x1b[31m"], ["--no\x1b[31m"], ["--value-decoder-class", "m\x1b:f"]):
        seen, status = on_terminal("dump-log", *words, ".", cwd=tmp_path, NO_COLOR="1")
        assert status == 2
        assert b"\\x1b" in seen
        assert b"\x1b" not in seen


def test_colours_and_narrow_terminals(tmp_path):
    write(tmp_path, batch() + b"torn")
    for columns in ("1", "20", "500"):
        plain, status = on_terminal("dump-log", LOG, cwd=tmp_path, COLUMNS=columns, NO_COLOR="1", LC_ALL="C")
        assert status == 4
        assert b"\x1b" not in plain
        assert b"error[torn-tail]" in plain
        coloured, _ = on_terminal("dump-log", LOG, cwd=tmp_path, COLUMNS=columns, NO_COLOR="")
        assert b"\x1b[" in coloured
    for settings in ({"TERM": "dumb", "NO_COLOR": ""}, {"NO_COLOR": "0"}):
        plain, _ = on_terminal("dump-log", LOG, cwd=tmp_path, **settings)
        assert b"\x1b" not in plain
    for columns in ("1", "20"):
        _, status = on_terminal("dump-log", "--help", cwd=tmp_path, COLUMNS=columns)
        assert status == 0


@pytest.mark.parametrize("locale", ["C", "POSIX", "en_US.ISO-8859-1", "nonsense"])
def test_locales(tmp_path, locale):
    directory = tmp_path / "größe-0"
    directory.mkdir()
    write(directory, batch(RECORD.replace(b"hi", b"\xc3\xb6")) + b"torn")
    wanted = program("dump-log", "--print-data-log", ".", cwd=tmp_path, env={"LC_ALL": "C.UTF-8"})
    for settings in ({}, {"PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}):
        out, err, status = program("dump-log", "--print-data-log", ".", cwd=tmp_path, env={"LC_ALL": locale, **settings})
        assert status == 4, err
        assert out.split(b"\n")[1:] == wanted[0].split(b"\n")[1:]
        assert "[torn-tail]" in err
        out, err, status = program("dump-log", "--count", ".", cwd=tmp_path, env={"LC_ALL": locale, **settings})
        assert status == 4, err
        assert b": 1 record in 1 batch" in out


@pytest.mark.parametrize("option", ["--max-bytes", "--max-message-size", "--max-decompressed-bytes", "--max-batch-bytes"])
@pytest.mark.parametrize("size", ["0", "1", str(LONG_MAX), "9999999t", "-1", "1e3", "99999999999999999999999", "", "٣"])
def test_sizes_of_any_kind(tmp_path, option, size):
    path = write(tmp_path, batch(deflate(Codec.GZIP, RECORD), codec=Codec.GZIP))
    done = kafkalog("dump-log", "--deep-iteration", f"{option}={size}", str(path))
    assert done.status in {0, 2, 4}
    assert (done.status == 2) == ("Invalid value" in done.err)


@pytest.mark.parametrize("size", [1, 7, 13])
def test_an_index_that_is_no_whole_entries(tmp_path, size):
    path = write(tmp_path, batch())
    index = Path(path).with_suffix(".index")
    index.write_bytes(bytes(range(1, size + 1)))
    done = kafkalog("dump-log", str(index))
    assert done.status == 4
    assert "index-size-invalid" in done.err


def test_a_limit_does_not_hide_the_damage_in_front_of_it(tmp_path):
    whole = batch()
    damaged = bytearray(whole * 3)
    damaged[len(whole) + 8 : len(whole) + 12] = (5).to_bytes(4, "big")
    path = write(tmp_path, bytes(damaged))
    for limit in (len(damaged), len(damaged) - 1, len(whole) + 40):
        done = kafkalog("dump-log", f"--max-bytes={limit}", str(path))
        assert done.status == 4, limit
        assert "[batch-size-invalid]" in done.err
    assert "batch-size-invalid" not in kafkalog("dump-log", f"--max-bytes={len(whole) - 1}", str(path)).err  # cuts the first batch


def test_not_enough_memory(tmp_path):
    """A batch that is legal but does not fit: one line and status 8."""
    path = tmp_path / LOG
    head = batch()
    with path.open("wb") as file:
        file.write(head[:8] + LARGE.to_bytes(4, "big") + head[12:])
        file.truncate(LARGE + 12)
    _, err, status = program("dump-log", "--max-batch-bytes", "2g", "--deep-iteration", str(path), memory=LARGE)
    assert status == 8
    assert err.startswith("error[out-of-memory] ")
    assert err.count("\n") == 1
    _, err, status = program("dump-log", "--deep-iteration", str(path), memory=LARGE)
    assert status == 4
    assert "[batch-too-large]" in err


def test_ctrl_c_while_nobody_reads(own_corpus):
    """`kafkalog … | less`, and less does not read on: the thread that writes must not hold up the end."""
    log = own_corpus / "kafka-4.3.1/logs/clean"
    command = [sys.executable, "-m", "kafkalog_cli", "dump-log", "--print-data-log", *[str(log)] * 20]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert process.stdout.read(1) == b"D"  # it has begun; the pipe fills up and stays full
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=10) == 130
        assert process.stderr.read().decode().splitlines()[-1] == "interrupted"
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("form", ["text", "jsonl"])
def test_a_decoder_that_exits_is_an_error_that_says_so(own_corpus, form):
    log = own_corpus / "kafka-4.3.1/logs/clean/d1/small_segments-0/00000000000000000000.log"
    words = ["--print-data-log", "--value-decoder-class", "sys:exit", "--format", form, str(log)]
    done = kafkalog("dump-log", *words)
    assert done.status == 8
    assert done.err.startswith("error[decoder-ended] the decoder ended the program: SystemExit(")
    assert done.err.count("error[") == 1
    assert form == "text" or json.loads(done.out.splitlines()[-1])["type"] == "end"


@pytest.mark.parametrize("form", ["text", "jsonl"])
def test_memory_that_does_not_suffice_for_a_decoder_is_said_once(tmp_path, form):
    (tmp_path / "greedy.py").write_text("def decode(data):\n    raise MemoryError\n")
    path = write(tmp_path, batch() + batch(base_offset=1))
    words = "--print-data-log", "--value-decoder-class", "greedy:decode", "--format", form, str(path)
    _, err, status = program("dump-log", *words, cwd=tmp_path)
    assert (err.count("error[out-of-memory] "), err.count("\n"), status) == (1, 1, 8)


@pytest.mark.parametrize("source", ["raise SystemExit(3)", "1 / 0", "def decode(", "decode = 3", ""])
def test_a_decoder_that_can_not_be_loaded(tmp_path, source):
    (tmp_path / "broken.py").write_text(source + "\n")
    _, err, status = program("dump-log", "--value-decoder-class", "broken:decode", str(tmp_path), cwd=tmp_path)
    assert (status, "Traceback" in err, "decoder broken:decode" in err) == (2, False, True)


def test_a_decoder_where_the_directory_is_gone(tmp_path):
    script = f"""
import os, sys
sys.path.insert(0, {str(ROOT)!r})
os.mkdir("gone"); os.chdir("gone"); os.rmdir("../gone")
from kafkalog_cli.main import main
main(["dump-log", "--value-decoder-class", "no_such_module:decode", {str(tmp_path)!r}])
"""
    done = subprocess.run([sys.executable, "-P", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "cannot load decoder no_such_module:decode" in done.stderr


@pytest.mark.parametrize("name", ["00000000000000000000.log", "00000000000000000000.kafka"])
def test_a_search_that_was_cut_short_is_told(tmp_path, name):
    """A file full of headers that claim the rest of it: summing them all would take for ever."""
    size = 1 << 20
    if name.endswith(".log"):
        sound = build_batch([NewRecord(0, 5, None, b"v")])
        head = BATCH_HEADER.pack(BATCH_HEADER.read(sound)._replace(batch_length=size, crc=1)) + sound[BATCH_HEADER.size :]
    else:
        head = size.to_bytes(4, "big") + bytes([1, 0]) + b"\0\0\0\1"
    data = bytes(18) + head * (2 * size // len(head))
    (tmp_path / name).write_bytes(b"\xff" * 12 + data)
    done = kafkalog("dump-log", "--continue-on-corruption", "--format", "jsonl", str(tmp_path / name))
    findings = [json.loads(line) for line in done.out.splitlines() if b'"type":"finding"' in line]
    [ended] = [finding for finding in findings if finding["code"] == "search-cut-short"]
    assert 0 < ended["position"] < len(data)
    assert f"the {12 + len(data) - ended['position']} bytes from here on were not checked" in ended["what"]
    assert done.status == 4
