"""Every case that 0.7.2 itself ran (old/0.7.2/cases, old/0.7.2/send), through the engine, over each seam."""

from __future__ import annotations

import base64
import hashlib
import json
import re

import pytest

from engine.files import Files
from engine.kafka07.entries import MessageAndOffset, Stopped, iterate_deep, iterate_set
from engine.kafka07.log import EARLIEST_TIME, LATEST_TIME, open_log_07
from engine.kafka07.segment import Config07, Refused07
from tests.support.broker_07 import Fetch07, mark_clean_07, multi_frames, offsets_frame, open_log_dir_07
from tests.support.corpus import corpus_directory
from tests.support.crash_files import CrashFiles
from tests.support.disk_model import Disk
from tests.support.shifted_files import DOWN, ShiftedFiles, shift

ROOT = corpus_directory() / "old" / "0.7.2"
CASES = ROOT / "cases"
NOW = 1 << 60  # the clock of the machine that 0.7 ran on: later than every file
ABSENT = "no cases of 0.7 in this corpus"


def every_case():
    if not CASES.is_dir():
        return []
    cases = [json.loads(path.read_text()) | {"name": path.parent.name} for path in sorted(CASES.glob("*/case.json"))]
    more = CASES / "more.jsonl"
    return cases + [json.loads(line) for line in (more.read_text().splitlines() if more.exists() else [])]


EVERY_CASE = every_case()


def of(*operations):
    cases = [case for case in EVERY_CASE if case["operation"] in operations]
    return pytest.mark.parametrize("case", cases, ids=[case["name"] for case in cases])


def tree(case, key):
    """{path: bytes} of a case's `before` or `expected`."""
    what = case[key]
    if what is None:
        return {}
    if what == "before" and key == "expected":
        return tree(case, "before")
    if isinstance(what, str):
        top = CASES / case["name"] / what
        return {path.relative_to(top).as_posix(): path.read_bytes() for path in sorted(top.rglob("*")) if path.is_file()}
    return {name: tree(case, "before")[name] if data == "before" else base64.b64decode(data) for name, data in what.items()}


class PartitionPath:
    """A directory of one seam that holds the files of a case."""

    def __init__(self, kind, tmp_path, contents, directories=()):
        self.kind, self.tmp = kind, tmp_path
        if kind == "crash":
            below = {f"d/{path}": data for path, data in contents.items()}
            self.files = CrashFiles(Disk(below, frozenset(["d", *(f"d/{name}" for name in directories)])))
            self.top = "/d"
            return
        Disk(contents, frozenset(directories)).save(tmp_path)
        self.files, self.top = Files(), str(tmp_path)
        if kind == "shifted":
            shift(tmp_path)
            self.files = ShiftedFiles()

    def contents(self):
        if self.kind == "crash":
            return self.files.disk().below("d")
        if self.kind == "shifted":
            shift(self.tmp, DOWN)
        return Disk.load(self.tmp).contents


@pytest.fixture(params=["real", "crash", "shifted"])
def place(request, tmp_path):
    return lambda contents, directories=(): PartitionPath(request.param, tmp_path, contents, directories)


def config_of(case, topic=""):
    given = case.get("config", {})
    config = Config07.of({name: str(value) for name, value in given.items()}, topic)
    times = {"retentionMs": "retention_ms", "rollIntervalMs": "roll_ms"}
    own = f"{topic}:" in given.get("topic.log.retention.hours", "")
    changed = {field: given[name] for name, field in times.items() if name in given and not (own and name == "retentionMs")}
    return Config07(**{field: getattr(config, field) for field in Config07.__slots__} | changed)


def state(log):
    return [{"file": s.name, "start": s.start, "bytes": s.size, "highWaterMark": s.high_water_mark} for s in log.segments]


def consumer(chunk, offset):
    """What a consumer of 0.7.2 makes of a chunk: [offset before, next offset, checksum], and what it throws."""
    rows = []
    for item in iterate_deep(chunk, offset):
        if isinstance(item, Stopped):
            rows.append({"error": item.error.exception, "message": item.error.message})
        else:
            assert isinstance(item, MessageAndOffset)
            rows.append([offset, item.next_offset, item.checksum])
            offset = item.next_offset
    return rows


def valid_bytes(chunk, offset):
    """What 0.7.2 says of ByteBufferMessageSet.validBytes: the whole entries at the top level, or what it throws."""
    end = offset
    for item in iterate_set(chunk, offset):
        if isinstance(item, Stopped):
            return {"error": item.error.exception, "message": item.error.message}
        end = item.next_offset
    return end - offset


def refusal(work):
    """(what came, None), or (None, what was refused)."""
    try:
        return work(), None
    except Refused07 as error:
        return None, error


class Player:
    """Does the steps of a case on one log."""

    def __init__(self, case, files, directory):
        self.case, self.files, self.directory, self.now, self.log = case, files, directory, case["now"], None

    def step(self, step):
        try:
            return getattr(self, step["do"])(step)
        except Refused07 as error:
            return {"error": error.exception, "message": error.text}

    def open(self, step):
        if not self.files.exists(self.directory):
            self.files.make_directory(self.directory)
        config = config_of(self.case)
        self.log = open_log_07(self.files, self.directory, config, now=self.now, need_recovery=step["needRecovery"])
        return {"segments": state(self.log)}

    def time(self, step):
        self.now = step["now"]

    def append(self, step):
        self.log.append(base64.b64decode(step["set"]), self.now)
        return {"segments": state(self.log)}

    def flush(self, _step):
        self.log.flush(self.now)
        return {"segments": state(self.log)}

    def roll(self, _step):
        self.log.roll(self.now)
        return {"segments": state(self.log)}

    def close(self, _step):
        self.log.close()
        return {"segments": state(self.log)}

    def fetch(self, step):
        data = self.log.read(step["offset"], step["maxSize"]).read()
        result = {
            "sizeInBytes": len(data),
            "consumer": consumer(data, step["offset"]),
            "validBytes": valid_bytes(data, step["offset"]),
        }
        if "sha256" in step["result"]:
            return result | {"sha256": hashlib.sha256(data).hexdigest()}
        return result | {"bytes": base64.b64encode(data).decode()}

    def offsets(self, step):
        # getOffsetsBefore of 0.7.2 asks the clock of the machine, not that of the case
        return {"offsets": self.log.offsets_before(step["time"], step["maxNumOffsets"], NOW)}


def relative(result, top):
    """A result of ours with paths as the case has them."""
    if result and isinstance(result.get("message"), str):
        return result | {"message": result["message"].replace(top + "/", "")}
    return result


def as_stored(result, name):
    if result and isinstance(result.get("message"), str):
        return result | {"message": result["message"].replace(name + "/", "")}
    return result


def depends_on_file_times(step, case):
    """Does an answer of 0.7 depend on when its machine wrote the files, which the case does not say?"""
    is_by_time = step["do"] == "offsets" and step["time"] not in (LATEST_TIME, EARLIEST_TIME)
    return is_by_time and not tree(case, "before").keys() <= case.get("mtimes", {}).keys()


def set_times(place, case):
    for name, time in case.get("mtimes", {}).items():
        place.files.set_modified(f"{place.top}/{name}", time * 1_000_000)


@of("append", "fetch", "offsets", "recover", "roll")
def test_steps_give_what_kafka_gave(case, place):
    here = place(tree(case, "before"))
    set_times(here, case)
    player = Player(case, here.files, f"{here.top}/{case['topicPartition']}")
    for number, step in enumerate(case["steps"]):
        ours = relative(player.step(step), here.top)
        if depends_on_file_times(step, case):
            continue
        assert ours == as_stored(step.get("result"), case["name"]), f"step {number}: {step['do']}"
    assert here.contents() == tree(case, "expected")
    assert {name: len(data) for name, data in tree(case, "expected").items()} == {
        name: what["bytes"] for name, what in case["expectedFiles"].items()
    }


@of("retain")
def test_retention_removes_what_kafka_removed(case, place):
    before = tree(case, "before")
    here = place(before)
    set_times(here, case)
    for name, expected in case["result"].items():
        topic = name.rpartition("-")[0]
        config = config_of(case, topic)
        log = open_log_07(here.files, f"{here.top}/{name}", config, now=case["now"], need_recovery=False)
        log.retain(case["now"])
        assert state(log) == expected
        if case["name"] == "retain-age-all-empty-active":
            assert log.active.modified_ms() == case["now"]
        log.close()
    after = here.contents()
    assert after == tree(case, "expected")
    assert sorted(before.keys() - after.keys()) == sorted(case["deleted"])
    assert sorted(after.keys() - before.keys()) == sorted(case["created"])


@of("recover-table")
def test_recovery_cuts_every_variant_where_kafka_did(case):
    ((path, whole),) = tree(case, "before").items()
    directory = path.rpartition("/")[0]
    for *variant, left in case["rows"]:
        data = whole[: variant[0]]
        if len(variant) == 2:
            data = bytearray(whole)
            data[variant[0]] ^= variant[1]
        files = CrashFiles(Disk({f"d/{path}": bytes(data)}))
        log, error = refusal(lambda files=files: open_log_07(files, f"/d/{directory}", config_of(case), now=0))
        if error:
            assert error.exception.endswith(f".{left}")
            assert files.disk().contents == {f"d/{path}": bytes(data)}
            log = open_log_07(files, f"/d/{directory}", config_of(case), now=0, truncate_invalid=True)
            assert log.recovered.cut > 0
            assert log.recovered.problem.exception == error.exception
        else:
            assert (log.size, log.recovered.kept, log.recovered.cut) == (left, left, len(data) - left)
            assert files.disk().contents == {f"d/{path}": bytes(data[:left])}
        log.close()


@of("broker")
def test_brokers_start_and_stop(case, place):
    before = tree(case, "before")
    empty = [name.rpartition("/")[0] for name in before]
    here = place(before, [name for name in case.get("directories", []) if name not in empty])
    for start in case["starts"]:
        manager, error = refusal(lambda: open_log_dir_07(here.files, here.top, {}, now=0))
        if error:
            assert relative({"error": error.exception, "message": error.text}, here.top) == as_stored(start, case["name"])
            mark_clean_07(here.files, here.top)  # what the server of 0.7.2 does, and our manager never
        else:
            assert [name for name in here.files.list(here.top) if not name.startswith(".")] == start["filesWhileRunning"]
            assert not here.files.exists(f"{here.top}/.kafka_cleanshutdown")
            manager.stop()
    assert here.contents() == tree(case, "expected")


# send/


def requests(*kinds):
    if not (ROOT / "send").is_dir():
        return pytest.mark.parametrize("request_", [], ids=[])
    index = json.loads((ROOT / "send" / "index.json").read_text())
    chosen = [request for request in index["requests"] if request["kind"] in kinds]
    return pytest.mark.parametrize("request_", chosen, ids=[request["name"] for request in chosen])


def served_times(index):
    """(time of the first segment of each log, how much later each further one), as the index says; None: it does not."""
    found = re.search(r"(\d+) \+ (\d+) \* i", index.get("mtimes", ""))
    return (int(found[1]), int(found[2])) if found else None


@pytest.fixture
def broker(place):
    if not (ROOT / "send").is_dir():
        pytest.skip(ABSENT)
    index = json.loads((ROOT / "send" / "index.json").read_text())
    names = sorted(path for name in index["served"] for path in (ROOT / "logs" / name).iterdir())
    here = place({path.relative_to(ROOT / "logs").as_posix(): path.read_bytes() for path in names})
    first, step = served_times(index) or (0, 0)
    for name in index["served"]:
        for number, path in enumerate(sorted((ROOT / "logs" / name).glob("*.kafka"))):
            here.files.set_modified(f"{here.top}/{name}/{path.name}", (first + step * number) * 1_000_000)
    settings = {name: str(value) for name, value in index["config"].items()}
    manager = open_log_dir_07(here.files, here.top, settings, now=NOW)
    yield manager, here
    manager.stop()


def fetch_of(query):
    return Fetch07(query["topic"], query["partition"], query["offset"], query["maxSize"])


@requests("fetch", "multifetch", "offsets")
def test_answers_are_those_on_the_wire(request_, broker):
    manager, _ = broker
    query = request_["query"]

    def answer():
        if request_["kind"] == "fetch":
            return b"".join(manager.fetch(fetch_of(query)).frames())
        if request_["kind"] == "multifetch":
            return b"".join(multi_frames(manager.fetch(fetch_of(one)) for one in query))
        return offsets_frame(
            manager.offsets_before(query["topic"], query["partition"], query["time"], query["maxNumOffsets"], NOW)
        )

    if "error" in request_:
        with pytest.raises(Refused07) as caught:
            answer()
        assert (caught.value.exception, caught.value.text) == (request_["error"], request_["message"])
        return
    index = json.loads((ROOT / "send" / "index.json").read_text())
    if request_["kind"] == "offsets" and query["time"] not in (LATEST_TIME, EARLIEST_TIME) and served_times(index) is None:
        pytest.skip("the answer depends on file times, which this corpus does not tell")
    wire = (ROOT / "send" / request_["response"]).read_bytes()
    assert answer() == wire[request_["position"] :][: request_["bytes"]]


def test_produce_requests_leave_what_they_left(broker):
    manager, here = broker
    index = json.loads((ROOT / "send" / "index.json").read_text())
    for request_ in index["requests"]:
        if "produce" not in request_["kind"]:
            continue
        queries = request_["query"] if isinstance(request_["query"], list) else [request_["query"]]
        for query in queries:
            sent = base64.b64decode(query["set"])
            _, error = refusal(
                lambda query=query, sent=sent: manager.get_or_create(query["topic"], query["partition"], 0).append(sent, 0)
            )
            thrown = (error.exception, error.text) if error else (None, None)
            assert thrown == (request_.get("error"), request_.get("message"))
    manager.stop()
    top = ROOT / "send" / "produced"
    expected = {path.relative_to(top).as_posix(): path.read_bytes() for path in top.rglob("*.kafka")}
    assert {name: data for name, data in here.contents().items() if name.startswith("made-")} == expected
    if here.kind == "shifted":
        shift(here.tmp)  # the fixture stops once more
