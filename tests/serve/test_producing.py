"""Requests that a broker accepts and refuses: the same answers, and the same bytes in the logs."""

from __future__ import annotations

import json
import re
import shutil
from contextlib import ExitStack, nullcontext

from engine.config.topic import LogConfig
from engine.files import Files
from engine.protocol.error_codes import Error
from engine.protocol.frames import decode_request, decode_response, encode_response
from engine.protocol.messages import to_json
from engine.schema.wire import SchemaError
from engine.serve.producing import Producing, Unanswered, failed
from tests.support.corpus import wire_corpus
from tests.support.logs import open_log

REFUSED = wire_corpus() / "refused"
CONFIGS = {
    "refused.small": {"max.message.bytes": "500"}, "refused.compact": {"cleanup.policy": "compact"},
    "refused.isr": {"min.insync.replicas": "2"}, "refused.late": {"message.timestamp.before.max.ms": "3600000"},
    "refused.appendtime": {"message.timestamp.type": "LogAppendTime"}, "refused.zip": {"compression.type": "gzip"},
}  # fmt: skip
NOW = 1795426000000
TIMES = re.compile(r"-?\d{13,19}")


class Leader:
    """The logs of the topics in `top`, made empty."""

    def __init__(self, top, opened, now):
        self.logs, self.ids = {}, {}
        for found in sorted((REFUSED / "logs").iterdir()):
            topic = found.name.removesuffix("-0")
            directory = top / found.name
            directory.mkdir()
            shutil.copy(found / "partition.metadata", directory)
            config = LogConfig.of(CONFIGS.get(topic, {}))
            self.logs[topic] = opened.enter_context(open_log(Files(), str(directory), config, now=now, clean_shutdown=True))
            self.ids[(found / "partition.metadata").read_text().split("topic_id: ")[1].strip()] = topic

    def log(self, topic, index):
        return nullcontext(self.find(topic, index))

    def find(self, topic, index):
        if topic.get("topicId", "").strip("A"):
            name = self.ids.get(topic["topicId"])
            if name is None:
                return Error.UNKNOWN_TOPIC_ID
        else:
            name = topic["name"]
        return self.logs[name] if name in self.logs and index == 0 else Error.UNKNOWN_TOPIC_OR_PARTITION

    def check_transaction(self, *_producer):
        return Error.INVALID_PRODUCER_ID_MAPPING


def cases():
    data = (REFUSED / "frames.bin").read_bytes()
    lines = [json.loads(line) for line in (REFUSED / "frames.jsonl").read_text().splitlines()]
    frames = {one["n"]: one for one in lines if "n" in one}
    bytes_of = {number: memoryview(data)[one["at"] + 4 : one["at"] + one["size"]] for number, one in frames.items()}
    answers = {one["request"]: number for number, one in frames.items() if one["direction"] == "response"}
    for case in json.loads((REFUSED / "cases.json").read_text()):
        number = case["request"]
        if number in frames:
            answer = bytes_of[answers[number]] if number in answers else None
            yield case["case"], case["answered"], bytes_of[number], answer, frames[number]["ms"]


def append_time(answer):
    """The clock of the broker when it answered, if the answer has it."""
    times = [one["logAppendTimeMs"] for topic in answer["responses"] for one in topic["partitionResponses"]]
    return max([NOW, *times])


def now():
    """About the time of the recording: the last one that the broker's clock has in an answer."""
    answers = [(decode_request(frame), answer) for *_, frame, answer, _ in cases() if answer is not None and is_readable(frame)]
    return max(append_time(decode_response(request.header, answer).body) for request, answer in answers)


def is_readable(frame):
    try:
        decode_request(frame)
    except SchemaError:
        return False
    return True


def body(request, value):
    shown = to_json("ProduceResponse", request.header.api_version, value)
    text = json.dumps(shown, sort_keys=True)
    return sorted_parts(json.loads(TIMES.sub("0", text)))


def sorted_parts(value):
    if isinstance(value, dict):
        return {name: sorted_parts(each) for name, each in value.items() if name != "logAppendTimeMs"}
    if isinstance(value, list):
        return sorted((sorted_parts(each) for each in value), key=lambda one: json.dumps(one, sort_keys=True))
    return value


def test_requests_are_answered_as_the_broker_answered(tmp_path):
    with ExitStack() as opened:
        leader = Leader(tmp_path, opened, now=now())
        producing = Producing(leader)
        differ = []
        for case, answered, frame, answer, _ms in cases():
            try:
                request = decode_request(frame)
            except SchemaError:
                if answered == "response":
                    differ.append((case, "not decoded"))
                continue
            if answer is not None:
                leader.logs["refused.appendtime"].now = append_time(decode_response(request.header, answer).body)
            try:
                ours = producing.answer(request.header.api_version, request.body)
            except Unanswered:
                assert answered is None, case
                continue
            if answer is None:
                if request.body["acks"] == 0 and failed(ours) != (answered == "closed"):
                    differ.append((case, ours))
                continue
            sent = b"".join(encode_response(request.header, ours))
            expected, found = (body(request, decode_response(request.header, one).body) for one in (answer, sent[4:]))
            if expected != found:
                differ.append((case, expected, found))
    assert not differ, "\n".join(map(str, differ))
    for found in sorted((REFUSED / "logs").iterdir()):
        ours = tmp_path / found.name
        for log in found.glob("*.log"):
            assert (ours / log.name).read_bytes() == log.read_bytes(), log
