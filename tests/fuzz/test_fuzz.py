"""A short slice of `make fuzz` and of its run with sanitizers, and that the target notices what it is there for."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from engine.log.errors import OffsetOutOfRange
from engine.protocol.frames import RequestHeader, encode_request
from engine.protocol.messages import api_key
from engine.schema.wire import SchemaError
from engine.serve.groups import GROUP_APIS
from tests.fuzz import laws, requests, sanitize, target
from tests.fuzz.cases import make_case
from tests.fuzz.compaction import compacts
from tests.fuzz.mutate import repaired
from tests.fuzz.seeds import LOGS, by_kind
from tests.support.floors import absent, saw_enough
from tests.support.needs import lacking

ROOT = Path(__file__).parents[2]
SEED = 20


def fuzz(count, tree=ROOT, environment=None):
    """Run the first cases in one process."""
    words = [sys.executable, "-m", "tests.fuzz", "--seed", str(SEED), "--count", str(count), "--jobs", "1"]
    done = subprocess.run(words, cwd=tree, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_mutant_breaks_a_law():
    fuzz(1000)


def test_no_mutant_upsets_the_sanitizers():
    libraries = sanitize.sanitizer_libraries()
    if libraries is None:
        lacking("no compiler with AddressSanitizer and UBSan")
    fuzz(1000, sanitize.build("bounds", sanitize.BUILDS["bounds"]), sanitize.environment(libraries))


def test_some_mutants_are_compacted_to_the_end():
    cases = (make_case(SEED, number) for number in range(800))
    assert sum(compacts(case.files[case.path]) for case in cases if case.kind in LOGS) > 10


def test_damaged_requests_are_answered_and_refused():
    """Each outcome is reached, by every API, in a server that producers may write to, too: else the target sees nothing."""
    outcomes, apis, written = Counter(), set(), 0
    for number in range(600):
        session = requests.make_session(SEED, number)
        outcomes += requests.check_session(session)
        written += session.case is not None
        apis |= {int.from_bytes(frame[:2], "big") for frame in session.frames}
    assert outcomes.keys() == {"answered", "refused", "no answer"}
    assert outcomes["answered"] > outcomes["refused"] > 100 < written
    served = {api_key(api) for api in (*GROUP_APIS, "Produce", "Fetch", "ListOffsets", "Metadata", "TxnOffsetCommit", "EndTxn")}
    assert served <= apis


@pytest.mark.parametrize("error", [KeyError("topics"), SchemaError("not refused"), OffsetOutOfRange("an error of the engine")])
def test_an_error_of_the_server_is_noticed(monkeypatch, error):
    def fail(*_arguments):
        raise error

    monkeypatch.setattr("engine.serve.apis.encode_response", fail)
    with pytest.raises(type(error)):
        for number in range(20):
            requests.check_session(requests.make_session(SEED, number))


def test_a_request_that_waits_for_ever_is_noticed(monkeypatch):
    monkeypatch.setattr("engine.serve.group_common.Timers.next_ms", lambda _self: None)
    join = {"groupId": "g", "sessionTimeoutMs": 10_000, "rebalanceTimeoutMs": 10_000, "protocolType": "consumer", "memberId": "",
            "protocols": [{"name": "range", "metadata": b""}]}  # fmt: skip
    frame = b"".join(encode_request(RequestHeader(api_key("JoinGroup"), 2, 1, "c"), join))[4:]
    with pytest.raises(AssertionError, match="without a limit"):
        requests.check_session(requests.Session(None, [frame, frame]))


def test_there_are_seeds_of_every_kind():
    saw_enough("logs to make mutants of", len(by_kind().get(LOGS[0], ())), 301)
    saw_enough("kinds of files", len(by_kind()), 17)


def test_cases_can_be_made_again():
    for number in range(50):
        assert make_case(5, number) == make_case(5, number)
    assert len({str(make_case(5, number)) for number in range(50)}) == 50


def test_most_mutants_get_past_the_checksum():
    """Else nothing behind it is tested."""
    intact = damaged = 0
    for number in range(1000):
        case = make_case(SEED, number)
        if case.kind in LOGS:
            entries, _ = laws.plain_walk(case.files[case.path])
            damaged += any(not entry.sound for entry in entries)
            intact += bool(entries) and all(entry.sound for entry in entries)
    assert intact > 2 * damaged > 0


def a_case():
    """A sound log of v2 batches, printed with its records."""
    for seed in by_kind().get(LOGS[0], ()):
        entries, end = laws.plain_walk(seed.data)
        if len(entries) > 2 and end == len(seed.data) and all(entry.sound and entry.magic == 2 for entry in entries):
            for number in range(10_000):
                case = make_case(SEED, number)
                if case.kind in LOGS and case.options.print_data and case.options.max_bytes == 2**31 - 1 and not (
                    case.selection or case.shrink or case.options.continue_on_corruption
                ):
                    return case._replace(files={seed.path: seed.data}, path=seed.path, dump=seed.path)
    return absent("sound log of several batches")


def test_a_sound_log_obeys_the_laws():
    laws.check(a_case())


@pytest.mark.parametrize("silenced", ["crc-mismatch", "torn-tail"])
def test_a_missing_finding_breaks_a_law(monkeypatch, silenced):
    case = a_case()
    data = case.files[case.path]
    data = data[:30] + bytes([data[30] ^ 1]) + data[31:-1]
    case = case._replace(files={case.path: data})
    laws.check(case)
    sound = target.run

    def blind(case):
        result = sound(case)
        return result._replace(findings=[finding for finding in result.findings if finding.code != silenced])

    monkeypatch.setattr(laws, "run", blind)
    with pytest.raises(AssertionError):
        laws.check(case)


def test_repaired_entries_have_a_checksum_that_fits():
    case = a_case()
    (first, *_), _ = laws.plain_walk(case.files[case.path])
    batch = case.files[case.path][: first.size]
    damaged = batch[:40] + b"\xff\xff\xff" + batch[43:] + b"more"
    assert not any(entry.sound for entry in laws.plain_walk(damaged)[0])
    assert [entry.sound for entry in laws.plain_walk(repaired(damaged))[0]] == [True]


@pytest.mark.parametrize("damage", ["library.less(-2**63)", "library.peek(id(sound) + bytes.__basicsize__ - 1, 81)"])
def test_the_sanitizers_are_awake(tmp_path, damage):
    """In the environment that the kernels run in, an overflow and a read outside a buffer end the process."""
    libraries = sanitize.sanitizer_libraries()
    if libraries is None:
        lacking("no compiler with AddressSanitizer and UBSan")
    (tmp_path / "x.c").write_text("long long less(long long a) { return a - 1; } int peek(char *p, long i) { return p[i]; }")
    flags = ["-fwrapv", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-wrapv", "-O0", "-shared", "-fPIC"]
    subprocess.run([*sanitize.compiler(), *flags, str(tmp_path / "x.c"), "-o", str(tmp_path / "x.so")], check=True)
    code = f"""
import ctypes
library = ctypes.CDLL({str(tmp_path / "x.so")!r})
library.less.argtypes, library.peek.argtypes = [ctypes.c_longlong], [ctypes.c_void_p, ctypes.c_long]
sound = bytes(range(80))
library.less(5), library.peek(id(sound) + bytes.__basicsize__ - 1, 79)
print("sound", flush=True)
{damage}
"""
    words, settings = [sys.executable, "-c", code], sanitize.environment(libraries)
    done = subprocess.run(words, env=settings, capture_output=True, text=True, check=False)
    assert done.stdout == "sound\n"
    assert done.returncode != 0
    assert "signed integer overflow" in done.stderr or "heap-buffer-overflow" in done.stderr
