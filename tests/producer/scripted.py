"""Runs the scripts of real producers: a clock that stands still, a sender that runs on demand, a broker that is a small model.

The steps, and what the broker answers, are those of the Java program that made the expected results (see provenance.md).
"""

from __future__ import annotations

import base64
from collections import deque
from typing import TYPE_CHECKING, Any

from engine.formats import to_float
from engine.java.hash_maps import hash_of_text
from engine.producer.cluster import Cluster, Node, Topic, TopicPartition
from engine.producer.config import ProducerConfig
from engine.producer.failures import ProducerError
from engine.producer.producer import Environment, KafkaProducer, ProducerRecord
from engine.protocol.error_codes import Error
from engine.protocol.messages import Api, api_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.producer.requests import Request
    from engine.producer.sequences import Result

_MULTIPLIER, _INCREMENT = 6364136223846793005, 1442695040888963407
_U64 = 2**64 - 1


class Clock:
    def __init__(self, start: int) -> None:
        self.time = start

    def now(self) -> int:
        return self.time

    def sleep(self, ms: int) -> None:
        self.time += ms


class Broker:
    """Takes requests as a network client does, and answers at the next poll."""

    def __init__(self, script: dict[str, Any], config: ProducerConfig, clock: Clock, topics: dict[str, Topic]) -> None:
        self.rules = script.get("broker", {})
        self.config, self.clock, self.topics = config, clock, topics
        self.nodes = script.get("cluster", {}).get("nodes", [1])
        self.held = self.rules.get("hold", False)
        self.events = self.correlation = self.produces = self.epoch = 0
        self.requests: list[dict[str, Any]] = []
        self.answers: deque[tuple[Request, dict[str, Any] | None]] = deque()
        self.waiting: list[tuple[Request, dict[str, Any] | None]] = []
        self.in_flight: dict[int, int] = {}
        self.ends: dict[TopicPartition, int] = {}

    def is_ready(self, node: int) -> bool:
        return node not in self.rules.get("not_ready", []) and self.in_flight.get(node, 0) < self.config.max_in_flight

    def least_loaded(self) -> int:
        return min(self.nodes)

    def release(self) -> None:
        self.answers.extend(self.waiting)
        self.waiting.clear()

    def take(self, request: Request) -> None:
        self.events += 1
        version = request.newest
        if request.api_key == Api.PRODUCE:
            version = min(version, self.rules.get("produce_version", version))
        frame = b"".join(request.pieces(version, self.correlation, self.config.client_id))
        self.correlation += 1
        seen: dict[str, Any] = {
            "time": self.clock.now(), "node": request.node, "api": api_name(request.api_key), "version": version, "frame": frame,
        }  # fmt: skip
        self.requests.append(seen)
        answer = self._answer(request, version, seen)
        if answer is None:
            self.answers.append((request, None))
            return
        self.in_flight[request.node] = self.in_flight.get(request.node, 0) + 1
        if self.held and request.api_key == Api.PRODUCE:
            self.waiting.append((request, answer))
        else:
            self.answers.append((request, answer))

    def _answer(self, request: Request, version: int, seen: dict[str, Any]) -> dict[str, Any] | None:
        body = request.body
        if request.api_key == Api.PRODUCE:
            return self._produce(request, seen)
        if request.api_key == Api.INIT_PRODUCER_ID:
            self.epoch += body["producerId"] >= 0
            return {"errorCode": 0, "producerId": 1000, "producerEpoch": self.epoch}
        if request.api_key == Api.FIND_COORDINATOR:
            return {"coordinators": [{"errorCode": 0, "nodeId": self.nodes[0]} for _ in body["coordinatorKeys"]]}
        if request.api_key == Api.ADD_PARTITIONS_TO_TXN:
            return {"resultsByTopicV3AndBelow": [
                {"name": topic["name"], "resultsByPartition": [{"partitionIndex": one, "partitionErrorCode": 0} for one in topic["partitions"]]}
                for topic in body["v3AndBelowTopics"]
            ]}  # fmt: skip
        assert request.api_key == Api.END_TXN
        if version < 5:
            return {"errorCode": 0, "producerId": -1, "producerEpoch": -1}
        self.epoch += 1
        return {"errorCode": 0, "producerId": 1000, "producerEpoch": self.epoch}

    def _produce(self, request: Request, seen: dict[str, Any]) -> dict[str, Any] | None:
        number, responses = self.produces, []
        self.produces += 1
        seen["partitions"] = []
        by_partition = {batch.partition: batch for batch in request.batches}
        for topic in request.body["topicData"]:
            parts = []
            for one in topic["partitionData"]:
                partition = TopicPartition(topic["name"], one["index"])
                error = Error.NONE
                if len(one["records"]) > self.rules.get("max_message_bytes", 2**31):
                    error = Error.MESSAGE_TOO_LARGE
                for rule in self.rules.get("errors", []):
                    if rule["request"] == number and rule.get("partition", partition.partition) == partition.partition:
                        error = Error[rule["error"]]
                offset = -1
                if error is Error.NONE:
                    offset = self.ends.get(partition, 0)
                    self.ends[partition] = offset + by_partition[partition].count
                parts.append({
                    "index": partition.partition, "errorCode": error, "baseOffset": offset, "logAppendTimeMs": -1,
                    "logStartOffset": -1, "recordErrors": [], "errorMessage": None,
                })  # fmt: skip
                seen["partitions"].append((*partition, bytes(one["records"]), error.name))
            responses.append({"name": topic["name"], "topicId": topic["topicId"], "partitionResponses": parts})
        return None if request.body["acks"] == 0 else {"responses": responses}


class Script:
    """One script; `run` returns its result, in the words of the expected one.

    returns_at_once  a flush with nothing to wait for returns before the sender runs
    """

    def __init__(self, script: dict[str, Any], *, returns_at_once: bool = False) -> None:
        self.script, self.returns_at_once = script, returns_at_once
        self.clock = Clock(script.get("start", 1_700_000_000_000))
        self.random = script.get("random", 1)
        self.sends: list[tuple[int, Any]] = []

    def next_random(self) -> int:
        self.random = (self.random * _MULTIPLIER + _INCREMENT) & _U64
        return self.random >> 33

    def run(self) -> dict[str, Any]:
        settings = dict(self.script["config"])
        settings.setdefault("client.id", "scripted")
        settings.setdefault("max.block.ms", "60000" if "transactional.id" in settings else "50")
        try:
            config = ProducerConfig.of(settings)
        except ProducerError as error:
            return {"failed": str(error)}
        self._connect(config)
        steps = [{"step": number, **self._step(number, step)} for number, step in enumerate(self.script["steps"])]
        return {
            "steps": steps, "requests": self.broker.requests, "records": [self._record(*send) for send in self.sends],
            "compression_ratio_estimates": {name: self.producer.accumulator.estimates.estimation(name) for name in self.cluster.topics},
            "now": self.clock.now(),
        }  # fmt: skip

    def _connect(self, config: ProducerConfig) -> None:
        described = self.script.get("cluster", {})
        nodes = described.get("nodes", [1])
        topics = {}
        for name, topic in described.get("topics", {}).items():
            leaders = topic.get("leaders") or [nodes[one % len(nodes)] for one in range(topic.get("partitions", 1))]
            number = hash_of_text(name)
            number -= (number >> 31) << 32
            topic_id = (0x1234).to_bytes(8, "big") + (number & _U64).to_bytes(8, "big")
            topics[name] = Topic(tuple(None if one < 0 else one for one in leaders), (0,) * len(leaders), topic_id)
        self.cluster = Cluster(tuple(Node(one, "127.0.0.1", 9000 + one) for one in nodes), topics)
        self.broker = Broker(self.script, config, self.clock, topics)
        version = self.broker.rules.get("transaction_version", 2)
        environment = Environment(self.clock, self.broker, self.next_random, lambda: 0.5, lambda: version)
        self.producer = KafkaProducer(config, environment)

    def _step(self, number: int, step: dict[str, Any]) -> dict[str, Any]:
        [(what, argument)] = step.items()
        try:
            return getattr(self, f"_{what}")(argument, number) or {}
        except ProducerError as error:
            return {"failed": str(error)}

    def _send(self, send: dict[str, Any], number: int) -> dict[str, Any]:
        headers = [
            (name.encode(), text[0].encode() if text and text[0] is not None else None)
            for name, *text in send.get("headers", [])
        ]  # fmt: skip
        key, value = content_of(send, "key"), content_of(send, "value")
        record = ProducerRecord(send.get("topic", "t"), value, key, send.get("partition"), send.get("timestamp"), headers)
        handle, appended = self.producer.send_one(record, self.cluster)
        sizes = {"key_size": -1 if key is None else len(key), "value_size": -1 if value is None else len(value)}
        self.sends.append((number, (handle, sizes)))
        if appended is None:
            return {}
        partition = appended.batch.partition
        last = self.producer.accumulator.last_batch(partition)
        assert last is not None
        return {
            "partition": partition.partition, "new_batch": appended.new_batch, "batch_is_full": appended.is_full,
            "appended_bytes": appended.size, "waiting_batches": self.producer.accumulator.waiting(partition), "records": last.count,
            "estimated_size": last.estimated_size,
        }  # fmt: skip

    def _run(self, most: Any, _number: int) -> None:
        self.sender(most if isinstance(most, int) and not isinstance(most, bool) else 100)

    def _sleep(self, ms: int, _number: int) -> None:
        self.clock.sleep(ms)
        self.sender(100)

    def _clock(self, ms: int, _number: int) -> None:
        self.clock.sleep(ms)

    def _respond(self, _argument: Any, _number: int) -> None:
        self.broker.release()
        self.sender(100)

    def _flush(self, _argument: Any, _number: int) -> None:
        accumulator = self.producer.accumulator
        awaited = list(accumulator.incomplete)
        if not awaited and self.returns_at_once:
            return
        accumulator.flushes += 1
        self._block(lambda: all(is_done(batch) for batch in awaited))
        accumulator.flushes -= 1

    def _init(self, _argument: Any, _number: int) -> None:
        self._await(lambda: self.producer.transactional().initialize())

    def _begin(self, _argument: Any, _number: int) -> None:
        self.producer.transactional().begin()

    def _commit(self, _argument: Any, _number: int) -> None:
        self._await(lambda: self.producer.transactional().end(commit=True))

    def _abort(self, _argument: Any, _number: int) -> None:
        self._await(lambda: self.producer.transactional().end(commit=False))

    def _close(self, _argument: Any, _number: int) -> None:
        self.producer.accumulator.closed = True
        self._block(lambda: not self.producer.accumulator.incomplete)

    def _estimate(self, argument: dict[str, Any], _number: int) -> None:
        self.producer.accumulator.estimates.set(argument.get("topic", "t"), argument["ratio"])

    def _await(self, call: Callable[[], Result]) -> None:
        try:
            result = call()
        except ProducerError:
            self.sender(20)  # the call has a thread of its own, which the sender does not wait for
            raise
        self._block(lambda: result.is_done)
        if result.error is not None:
            raise result.error

    def _block(self, is_over) -> None:
        """Run the sender until a call returns; while batches back off, the clock moves."""
        quiet = 0
        for _ in range(20000):
            before = self.broker.events
            self.sender(20)
            quiet = quiet + 1 if self.broker.events == before else 0
            if is_over():
                return
            if quiet > 20 and self.producer.accumulator.incomplete:
                self.clock.sleep(20)
                quiet = 10
        raise AssertionError("still blocked")

    def sender(self, most: int) -> None:
        """Turns of the sender until three of them in a row changed nothing."""
        idle = turns = 0
        while turns < most and idle < 3:
            before = self.broker.events
            for request in self.producer.sender.turn(self.cluster):
                self.broker.take(request)
            self._poll()
            turns, idle = turns + 1, idle + 1 if self.broker.events == before else 0

    def _poll(self) -> None:
        while self.broker.answers:
            request, body = self.broker.answers.popleft()
            self.broker.events += 1
            if body is not None:
                self.broker.in_flight[request.node] -= 1
            if request.api_key == Api.PRODUCE:
                self.producer.sender.complete_produce(request, body, self.cluster)
            else:
                self.producer.sender.complete_transactional(body)

    def _record(self, step: int, sent: Any) -> dict[str, Any]:
        handle, sizes = sent
        try:
            result = handle.result()
        except ProducerError as error:
            return {"step": step, "failed": str(error)}
        if result is None:
            return {"step": step, "state": "waiting"}
        return {"step": step, **result._asdict(), **sizes}


def is_done(batch) -> bool:
    return all(is_done(part) for part in batch.parts) if batch.parts else batch.final_state is not None


def content_of(send: dict[str, Any], name: str) -> bytes | None:
    """Return the bytes of a key or value of a script."""
    if send.get(f"{name}_b64") is not None:
        return base64.b64decode(send[f"{name}_b64"])
    described = send.get(name)
    if described is None or isinstance(described, str):
        return None if described is None else described.encode()
    if "repeat" in described:
        return (described["repeat"] * described["times"]).encode()
    number, letters, out = described["noise"], described.get("letters", 256), bytearray()
    for _ in range(described["size"]):
        number = (number * _MULTIPLIER + _INCREMENT) & _U64
        high = number >> 40 & 0xFFFFFF
        out.append(high & 0xFF if letters == 256 else ord("a") + high % letters)
    return bytes(out)


def as_float32(estimates: dict[str, float]) -> dict[str, float]:
    """Return estimates rounded as Java's float, which JSON does not tell from doubles."""
    return {name: to_float(number) for name, number in estimates.items()}
