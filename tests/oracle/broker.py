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
    from pathlib import Path

_STARTED = "Kafka Server started"
_PATIENCE = 240  # seconds
_OPTIONS = ["-Xmx768m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=info"]  # fmt: skip
_RECORD = re.compile(rb"Offset:(\d+)\x01([^\x01]*)\x01(.*)")  # as consumers print it
_DYNAMIC = "controller.quorum.bootstrap.servers=127.0.0.1:{controller}"
_STATIC = "controller.quorum.voters=1@127.0.0.1:{controller}"


class Broker:
    """A broker and controller on `top`/d0 and `top`/d1. Use it in a `with` statement; `said` is all that it prints.

    static_quorum  the log dirs were made with voters in the configuration, not in the metadata log
    cleaner        its log cleaner works, and looks for work all the time
    """

    def __init__(self, top: Path, *, static_quorum: bool = False, cleaner: bool = False) -> None:
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
        self._settings = top.parent / f"{top.name}.properties"
        self._settings.write_text("\n".join(lines) + "\n")
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        with self._out.open("wb") as out:
            self._process = subprocess.Popen(
                ["java", *_OPTIONS, "-cp", class_path(), "kafka.Kafka", str(self._settings)],
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

    def wait_for(self, text: str) -> None:
        """Until it has said `text`, or will never say it."""
        assert self._process is not None
        deadline = time.monotonic() + _PATIENCE
        while text not in self.said and self._process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.2)

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

    def end_offsets(self) -> dict[str, int]:
        """Log end offset by `topic-partition`, as clients are told."""
        tool = ["java", *_OPTIONS[:-1], "-Dorg.slf4j.simpleLogger.defaultLogLevel=off", "-cp", class_path(),
                "org.apache.kafka.tools.GetOffsetShell", "--bootstrap-server", f"127.0.0.1:{self.port}"]  # fmt: skip
        done = subprocess.run(tool, capture_output=True, text=True, env=ENVIRONMENT, check=True, timeout=_PATIENCE)
        found = re.findall(r"^(.+):(\d+):(\d+)$", done.stdout, re.MULTILINE)
        return {f"{topic}-{partition}": int(offset) for topic, partition, offset in found}

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


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def copy(origin: Path, to: Path) -> Path:
    """A copy of a pair of log dirs that a broker may change."""
    shutil.copytree(origin, to)
    return to
