"""A real broker, one node, on log dirs: does it start, what does it say, which offsets do its topics have?"""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import threading
import time
from typing import TYPE_CHECKING, Self

from tests.oracle.jvm import ENVIRONMENT, class_path

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_STARTED = "Kafka Server started"
_PATIENCE = 240  # seconds
_OPTIONS = ["-Xmx768m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=info"]  # fmt: skip
_RECORD = re.compile(rb"Offset:(\d+)\x01([^\x01]*)\x01(.*)")  # as consumers print it
_DYNAMIC = "controller.quorum.bootstrap.servers=127.0.0.1:{controller}"
_STATIC = "controller.quorum.voters=1@127.0.0.1:{controller}"

_TIERED = (
    "remote.log.storage.system.enable=true", "remote.log.metadata.manager.listener.name=PLAINTEXT",
    "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT", "inter.broker.listener.name=PLAINTEXT",
    "rlmm.config.remote.log.metadata.topic.replication.factor=1",
    "rlmm.config.remote.log.metadata.topic.num.partitions=3", "rlmm.config.remote.log.metadata.topic.min.isr=1",
    "remote.log.manager.task.interval.ms=500", "remote.fetch.max.wait.ms=30000", "log.roll.ms=1000",
    "internal.metadata.log.segment.bytes=60000", "log.initial.task.delay.ms=500", "log.retention.check.interval.ms=1000",
)  # fmt: skip
LOCAL_TIERED_STORAGE = (
    "remote.log.storage.manager.class.name=org.apache.kafka.server.log.remote.storage.LocalTieredStorage", "rsm.config.dir={store}",
)


class Broker:
    """A broker and controller on `top`/d0 and `top`/d1. Use it in a `with` statement; `said` is all that it prints, `settings` its server.properties.

    static_quorum  the log dirs were made with voters in the configuration, not in the metadata log
    cleaner        its log cleaner works, and looks for work all the time
    store          folder of its remote storage; None: it has none
    storage        settings of its RemoteStorageManager
    """

    def __init__(
        self, top: Path, *, static_quorum: bool = False, cleaner: bool = False, store: Path | None = None,
        storage: Sequence[str] = LOCAL_TIERED_STORAGE,
    ) -> None:
        self._top = top
        self._out = top.parent / f"{top.name}.broker.out"
        self.port, controller = _free_port(), _free_port()
        lines = [
            "process.roles=broker,controller", "node.id=1", (_STATIC if static_quorum else _DYNAMIC).format(controller=controller),
            f"listeners=PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller}",
            f"advertised.listeners=PLAINTEXT://127.0.0.1:{self.port}", "controller.listener.names=CONTROLLER",
            f"log.dirs={top}/d0,{top}/d1", f"log.cleaner.enable={str(cleaner).lower()}", "log.cleaner.backoff.ms=500", "log.initial.task.delay.ms=600000",
            "offsets.topic.replication.factor=1", "transaction.state.log.replication.factor=1",
            "delegation.token.secret.key=corpus", "num.recovery.threads.per.data.dir=1",
        ]  # fmt: skip
        if store is not None:
            lines += [line.format(store=store) for line in (*_TIERED, *storage)]
        self.settings = top.parent / f"{top.name}.properties"
        self.settings.write_text("\n".join(lines) + "\n")
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        with self._out.open("wb") as out:
            self._process = subprocess.Popen(
                ["java", *_OPTIONS, "-cp", class_path(), "kafka.Kafka", str(self.settings)],
                stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, env=ENVIRONMENT, cwd=self._top.parent,
            )  # fmt: skip
        deadline = time.monotonic() + _PATIENCE
        while _STARTED not in self.said and self._process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.2)
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    @property
    def said(self) -> str:
        """Everything that it has printed so far."""
        return self._out.read_text(errors="replace")

    @property
    def pid(self) -> int:
        """Its process, once it was started."""
        assert self._process is not None
        return self._process.pid

    def wait_for(self, text: str) -> None:
        """Until it has said `text`, or will never say it."""
        assert self._process is not None
        deadline = time.monotonic() + _PATIENCE
        while text not in self.said and self._process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.2)

    def format(self, cluster_id: str) -> None:
        """Make its log dirs, as `kafka-storage format` does."""
        tool("kafka.tools.StorageTool", "format", "--standalone", "-t", cluster_id, "-c", str(self.settings))

    @property
    def has_started(self) -> bool:
        """Did it come up?"""
        return _STARTED in self.said

    def stop(self) -> None:
        """Stop it cleanly, if it runs."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(60)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def end_offsets(self, time_ms: int = -1) -> dict[str, int]:
        """Log end offset by `topic-partition`, as clients are told; or what else a special time stands for."""
        found = tool("org.apache.kafka.tools.GetOffsetShell", "--bootstrap-server", f"127.0.0.1:{self.port}", "--time", str(time_ms))
        offsets = re.findall(r"^(.+):(\d+):(-?\d+)$", found, re.MULTILINE)
        return {f"{topic}-{partition}": int(offset) for topic, partition, offset in offsets}

    def consume(self, topic: str, end: int) -> dict[bytes, bytes | None]:
        """The last value of every key of a topic's partition 0, as a consumer reads them up to offset `end`; all of them text."""
        tool = ["java", *_OPTIONS[:-1], "-Dorg.slf4j.simpleLogger.defaultLogLevel=off", "-cp", class_path(),
                "org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", f"127.0.0.1:{self.port}", "--topic", topic,
                "--partition", "0", "--offset", "earliest", "--formatter-property", "print.offset=true",
                "--formatter-property", "print.key=true",
                "--formatter-property", "key.separator=\x01", "--formatter-property", "null.literal=\x02"]  # fmt: skip
        found: dict[bytes, bytes | None] = {}
        with subprocess.Popen(tool, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=ENVIRONMENT) as process:
            patience = threading.Timer(_PATIENCE, process.kill)
            patience.start()
            assert process.stdout is not None
            try:
                for line in process.stdout:  # it would wait for more behind the last one
                    if record := _RECORD.match(line):  # else more of a value of several lines
                        offset, key, value = record.groups()
                        found[key] = None if value == b"\x02" else value
                        if int(offset) >= end - 1:
                            break
            finally:
                process.kill()
                patience.cancel()
        return found


    def produce(self, topic: str, lines: list[str]) -> None:
        """Send the lines as records, each in a batch of its own."""
        words = ("--bootstrap-server", f"127.0.0.1:{self.port}", "--topic", topic, "--command-property", "batch.size=0")
        tool("org.apache.kafka.tools.ConsoleProducer", *words, data="\n".join(lines) + "\n")

    def read_all(self, isolation: str) -> dict[str, list[tuple[int, int, str | None, str | None]]]:
        """See the function."""
        return read_all(f"127.0.0.1:{self.port}", isolation)


def tool(name: str, *words: str, data: str | None = None) -> str:
    """What one of Kafka's tools, or a class of ours, prints."""
    command = ["java", *_OPTIONS[:-1], "-Dorg.slf4j.simpleLogger.defaultLogLevel=off", "-cp", class_path(), name, *words]
    done = subprocess.run(command, input=data, capture_output=True, text=True, env=ENVIRONMENT, check=False, timeout=_PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def read_all(address: str, isolation: str) -> dict[str, list[tuple[int, int, str | None, str | None]]]:
    """(offset, timestamp, key and value as base64) of all records that a consumer is handed, by `topic-partition`."""
    found: dict[str, list[tuple[int, int, str | None, str | None]]] = {}
    for line in tool("kafkalog.oracle.ReadAll", address, isolation).splitlines():
        name, offset, timestamp, key, value = line.split("\t")
        row = (int(offset), int(timestamp), None if key == "-" else key, None if value == "-" else value)
        found.setdefault(name, []).append(row)
    return found


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def copy(origin: Path, to: Path) -> Path:
    """A copy of a pair of log dirs that a broker may change."""
    shutil.copytree(origin, to)
    return to
