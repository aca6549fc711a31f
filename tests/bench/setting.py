"""What every measurement needs: where data and outputs are, how both programs are called."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path

from tests.bench.data import LARGEST_SEGMENT, SEGMENT, WORKLOADS, Workload, enlarge, generate
from tests.oracle.jvm import class_path

# heap and performance options of kafka-run-class.sh 4.3.1, which kafka-dump-log.sh calls
TOOL_OPTIONS = [
    "-Xmx256M", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent", "-XX:MaxInlineLevel=15", "-Djava.awt.headless=true",
]  # fmt: skip
_QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"
_QUICK_LARGE = 256 << 20


def outputs_directory(home: Path) -> Path:
    """Where both programs print to: in memory where there is room, or the disk's write-back decides who is faster."""
    memory = Path("/dev/shm")
    above = memory if memory.is_dir() and shutil.disk_usage(memory).free > 4 << 30 else home
    directory = Path(tempfile.mkdtemp(dir=above, prefix="kafkalog-bench-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory


class Bench:
    """One run. Data live in `home`, outputs in `out`; a file is made when a measurement first asks for it.

    records  of each workload      runs  of each program, in turn      keys  the most that are compacted
    """

    def __init__(self, home: Path, records: int, runs: int, *, quick: bool = False, keys: int | None = None) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.keys = keys or (1_000_000 if quick else 10_000_000)
        self.home, self.records, self.runs = home, records, runs
        self._large = _QUICK_LARGE if quick else LARGEST_SEGMENT
        classes = class_path()
        self.out = outputs_directory(home)
        self.null = self.out / "null"
        self.null.symlink_to(os.devnull)
        script = Path(sys.executable).with_name("kafkalog")
        self.kafkalog = [str(script)] if script.exists() else [sys.executable, "-m", "kafkalog_cli.main"]
        self.tool = ["java", *TOOL_OPTIONS, _QUIET, "-cp", classes, "org.apache.kafka.tools.DumpLogSegments"]
        self.engine = ["java", "-Xmx1g", _QUIET, "-cp", classes]
        self._workloads = {workload.name: workload for workload in WORKLOADS}

    def partition(self, workload: str | Workload) -> Path:
        """The directory of a workload."""
        one = self._workloads[workload] if isinstance(workload, str) else workload
        return generate(self.engine, self.home, one, self.records)

    def segment(self, workload: str, suffix: str = "log") -> str:
        """The first file of a workload, below `home`."""
        self.partition(workload)
        return f"{workload}/{SEGMENT}.{suffix}"

    def title(self, workload: str) -> str:
        """The workload in words."""
        return self._workloads[workload].title

    def large_log(self) -> Path:
        """A log as large as Kafka lets one be."""
        return enlarge(self.home / self.segment("none-0"), self.home / f"large-0/{SEGMENT}.log", self._large)
