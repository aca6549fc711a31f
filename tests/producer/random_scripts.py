"""Random scripts for a producer: topics whose hashes collide, leaders that are missing, every kind of error, transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random

_ERRORS = (
    "NOT_LEADER_OR_FOLLOWER", "NETWORK_EXCEPTION", "NOT_ENOUGH_REPLICAS", "INVALID_RECORD", "CORRUPT_MESSAGE",
    "OUT_OF_ORDER_SEQUENCE_NUMBER", "DUPLICATE_SEQUENCE_NUMBER", "UNKNOWN_PRODUCER_ID", "INVALID_PRODUCER_EPOCH",
    "TOPIC_AUTHORIZATION_FAILED", "MESSAGE_TOO_LARGE", "KAFKA_STORAGE_ERROR", "REQUEST_TIMED_OUT", "UNKNOWN_TOPIC_OR_PARTITION",
)  # fmt: skip
_NAMES = ("t", "a.topic", "orders", "Größe", "x-y_z", "b", "payments.eu", "__q")
_KEYS = (*(f"k{number}" for number in range(9)), "", "größe")
_ROUND_ROBIN = "org.apache.kafka.clients.producer.RoundRobinPartitioner"


def random_script(rng: random.Random) -> dict[str, Any]:
    """A script that the real producer ends: no call waits for ever."""
    nodes = sorted(rng.sample(range(1, 40), rng.randint(1, 5)))
    topics = {name: _topic(rng, nodes) for name in rng.sample(_NAMES, rng.randint(1, 4))}
    config, broker = _settings(rng)
    is_transactional = "transactional.id" in config
    if not is_transactional and rng.random() < 0.15:
        broker["not_ready"] = [rng.choice(nodes)]
    if not is_transactional and rng.random() < 0.2:
        broker["hold"] = True
    ends = not {"hold", "not_ready"} & set(broker) and not any(-1 in topic.get("leaders", ()) for topic in topics.values())
    between = [{"run": 100}, {"run": 1}, {"sleep": rng.choice([1, 5, 20, 60])}, {"clock": rng.choice([1, 30])}]
    between += [{"flush": True}] * ends + [{"respond": True}] * 3 * ("hold" in broker)
    steps: list[dict[str, Any]] = [{"init": True}] * is_transactional
    for _ in range(rng.randint(1, 5) if is_transactional and ends else 1):
        steps += [{"begin": True}] * is_transactional
        sends = rng.randint(0, 14) if is_transactional else rng.randint(10, 110)
        steps += [_send(rng, topics) if rng.random() < 0.75 else rng.choice(between) for _ in range(sends)]
        if is_transactional and ends:
            steps.append({rng.choice(["commit", "commit", "abort"]): True})
    steps += [{"sleep": 300}, *[{"respond": True}] * 4 * ("hold" in broker), *[{"flush": True}] * ends]
    return {
        "name": "random", "config": {name: str(value) for name, value in config.items()}, "random": rng.randrange(1, 10**9),
        "cluster": {"nodes": nodes, "topics": topics}, "broker": broker, "steps": steps,
    }  # fmt: skip


def _topic(rng: random.Random, nodes: list[int]) -> dict[str, Any]:
    count = rng.choice([1, 2, 3, 4, 7, 13, 30])
    if rng.random() < 0.6:
        return {"partitions": count}
    leaders = nodes + [-1] * rng.choice([0, 1])
    return {"partitions": count, "leaders": [rng.choice(leaders) for _ in range(count)]}


def _settings(rng: random.Random) -> tuple[dict[str, Any], dict[str, Any]]:
    """Settings of the producer, and rules of the broker."""
    idempotent = rng.random() < 0.6
    config: dict[str, Any] = {
        "batch.size": rng.choice([0, 1, 90, 100, 200, 500, 1000, 4000, 16384]), "linger.ms": rng.choice([0, 0, 5, 50]),
        "compression.type": rng.choice(["none", "none", "gzip", "snappy", "lz4", "zstd"]),
        "enable.idempotence": str(idempotent).lower(), "max.request.size": rng.choice([900, 3000, 1048576]),
        "max.in.flight.requests.per.connection": rng.choice([1, 2, 5]), "retry.backoff.ms": 10, "retry.backoff.max.ms": 10,
        "partitioner.adaptive.partitioning.enable": rng.choice(["true", "true", "false"]),
        "partitioner.ignore.keys": rng.choice(["false", "false", "true"]),
    }  # fmt: skip
    broker: dict[str, Any] = {}
    if idempotent and rng.random() < 0.35:
        config["transactional.id"] = "tx"
        broker["transaction_version"] = rng.choice([0, 2])
    elif rng.random() < 0.2:
        config["buffer.memory"] = max(config["batch.size"], 200) * rng.choice([2, 3, 5])
    if not idempotent:
        config |= {"acks": rng.choice(["0", "1", "all"]), "retries": rng.choice([0, 1, 2, 100])}
    if rng.random() < 0.15:
        config["partitioner.class"] = _ROUND_ROBIN
    if rng.random() < 0.2:
        config["partitioner.availability.timeout.ms"] = rng.choice([5, 50])
    if rng.random() < 0.2:
        config |= {"request.timeout.ms": 100, "delivery.timeout.ms": rng.choice([150, 400])}
    if rng.random() < 0.3:
        broker["max_message_bytes"] = 1200
    if rng.random() < 0.5:
        broker["errors"] = [{"request": rng.randrange(12), "error": rng.choice(_ERRORS)} for _ in range(rng.randint(1, 4))]
    if rng.random() < 0.2:
        broker["produce_version"] = rng.randint(9, 13)
    return config, broker


def _send(rng: random.Random, topics: dict[str, Any]) -> dict[str, Any]:
    topic, size = rng.choice(list(topics)), rng.choice([0, 1, 20, 100, 100, 300, 900])
    noise = {"noise": rng.randrange(10**6), "size": size, "letters": rng.choice([3, 26, 256])}
    send = {
        "topic": topic, "key": rng.choice([None, None, None, rng.choice(_KEYS)]),
        "partition": rng.choice([None, None, None, rng.randrange(topics[topic]["partitions"])]),
        "value": rng.choice([noise, noise, noise, {"repeat": "ab", "times": size // 2}, None]),
        "headers": rng.choice([None, None, [["h", "v" * rng.randrange(99)], ["n", None]]]),
        "timestamp": rng.choice([None, None, 1600000000000 + rng.randrange(10**9)]),
    }  # fmt: skip
    return {"send": {name: value for name, value in send.items() if value is not None}}
