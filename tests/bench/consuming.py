"""A broker on this machine that serves given segments, and what a Java consumer takes to read them (kafka-consumer-perf-test)."""

from __future__ import annotations

import shutil
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.bench.measure import WrongRunError
from tests.oracle.broker import Broker
from tests.oracle.jvm import ENVIRONMENT, class_path

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TOPIC, _LOG_DIR = "bulk", "d1"  # one of the corpus, in whose place the data go
_PATIENCE = 1200  # seconds
_RECORDS_AT, _FETCH_MS_AT = "data.consumed.in.nMsg", "fetch.time.ms"


@contextmanager
def broker_with(log_dirs: Path, source: Path, home: Path) -> Iterator[Broker]:
    """A broker that serves the segments of `source` as partition 0 of TOPIC.

    log_dirs  those of a real broker, with the topic that gives its place to the segments
    """
    top = home / "broker"
    shutil.rmtree(top, ignore_errors=True)
    shutil.copytree(log_dirs, top)
    partition = top / _LOG_DIR / f"{TOPIC}-0"
    for path in partition.iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    for path in source.iterdir():
        if path.suffix in (".log", ".index", ".timeindex"):
            shutil.copy(path, partition)
    for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        (top / _LOG_DIR / name).unlink(missing_ok=True)
    try:
        with Broker(top) as broker:
            if not broker.has_started:
                raise WrongRunError(f"the broker does not start: {broker.said[-500:]}")
            yield broker
    finally:
        shutil.rmtree(top)


def fetched(port: int, records: int) -> float:
    """Seconds that a Java consumer fetches for, the start of its JVM and of its group aside. See `broker_with`."""
    command = ["java", "-Xmx512m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off", "-cp", class_path(),
               "org.apache.kafka.tools.ConsumerPerformance", "--bootstrap-server", f"127.0.0.1:{port}", "--topic", TOPIC,
               "--num-records", str(records), "--timeout", "60000"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, check=False, timeout=_PATIENCE)
    lines = [line.split(", ") for line in done.stdout.splitlines() if ", " in line]
    if done.returncode or len(lines) < 2:
        raise WrongRunError(f"the consumer failed: {done.stdout[-500:]}{done.stderr[-500:]}")
    said = dict(zip(lines[0], lines[1], strict=True))
    if int(said[_RECORDS_AT]) < records:
        raise WrongRunError(f"the consumer read {said[_RECORDS_AT]} of {records} records")
    return int(said[_FETCH_MS_AT]) / 1000
