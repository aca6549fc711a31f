"""The corpus: directories of real brokers and the output of real tools for them, packed in tests/data.

`KAFKALOG_CORPUS` names another directory of the same layout. `python -m tests.support.corpus` unpacks and prints where.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tarfile
import tempfile
from pathlib import Path
from typing import NamedTuple

ARCHIVE = Path(__file__).parents[1] / "data" / "corpus.tar.xz"
TIERED = ARCHIVE.with_name("tiered.tar.xz")
WIRE = ARCHIVE.with_name("wire.tar.xz")
GROUPS = ARCHIVE.with_name("groups.tar.xz")
CLUSTER = ARCHIVE.with_name("cluster.tar.xz")


def corpus_directory() -> Path:
    """The corpus that sweeps go over: KAFKALOG_CORPUS, else the project's own. Never write to it: copy first."""
    given = os.environ.get("KAFKALOG_CORPUS")
    return Path(given).resolve() if given else own_corpus_directory()


def own_corpus_directory() -> Path:
    """The project's own corpus: for tests that name a topic. Never write to it."""
    return unpacked(ARCHIVE, "corpus")


def tiered_directory() -> Path:
    """Log dirs of brokers with tiered storage, their stores and the truth about them. Never write to it: copy first."""
    return unpacked(TIERED, "tiered")


def groups_directory() -> Path:
    """Groups of real brokers, and what clients sent to a group coordinator and were answered. Never write to it."""
    return unpacked(GROUPS, "groups")


def tiered_corpus() -> Path:
    """The same for sweeps: KAFKALOG_TIERED_CORPUS, else the project's own."""
    given = os.environ.get("KAFKALOG_TIERED_CORPUS")
    return Path(given).resolve() if given else tiered_directory()


def wire_directory() -> Path:
    """What clients and a broker sent each other, and what became of it on the disk. Never write to it: copy first."""
    return unpacked(WIRE, "wire")


def wire_corpus() -> Path:
    """The same for sweeps: KAFKALOG_WIRE_CORPUS, else the project's own."""
    given = os.environ.get("KAFKALOG_WIRE_CORPUS")
    return Path(given).resolve() if given else wire_directory()


def cluster_directory() -> Path:
    """Log dirs of three-node clusters, and what Kafka's admin tools said of them. Never write to it: copy first."""
    return unpacked(CLUSTER, "cluster")


def cluster_corpus() -> Path:
    """The same for sweeps: KAFKALOG_CLUSTER_CORPUS, else the project's own."""
    given = os.environ.get("KAFKALOG_CLUSTER_CORPUS")
    return Path(given).resolve() if given else cluster_directory()


def tiered_answers(top: Path) -> list[dict]:
    """The offsets that a broker answered for each partition: {topic, partition, earliest, latest, …}."""
    rows = [json.loads(line) for line in (top / "truth/offsets.jsonl").read_text().splitlines()]
    return [{name: value["offset"] if isinstance(value, dict) else value for name, value in row.items()} for row in rows]


def unpacked(packed: Path, name: str) -> Path:
    """Return the directory in build/ with the content of the archive `packed`; unpack it if necessary."""
    digest = hashlib.sha256(packed.read_bytes()).hexdigest()[:12]
    target = packed.parents[2] / "build" / f"{name}-{digest}"
    if not target.exists():
        target.parent.mkdir(exist_ok=True)
        aside = Path(tempfile.mkdtemp(dir=target.parent, prefix=f"{name}-"))
        with tarfile.open(packed) as archive:
            archive.extractall(aside, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
        try:
            aside.rename(target)
        except OSError:  # another process was faster
            shutil.rmtree(aside)
    return target


class DumpRun(NamedTuple):
    """One run of the real kafka-dump-log 4.3.1."""

    name: str
    logs: Path  # its working directory
    arguments: list[str]
    out: Path  # its stdout
    err: Path  # its stderr; missing if that was empty
    died: bool  # it ended with an exception: our output may continue after the same text


def roots(corpus: Path | None = None) -> list[Path]:
    """Return every folder of the corpus (None: that of sweeps) that has logs/ and the output of a tool for them."""
    top = corpus or corpus_directory()
    found = {path.parent for pattern in ("logs", "*/logs", "*/*/logs") for path in top.glob(pattern)}
    return sorted(root for root in found if (root / "expected").exists())


def dump_runs(root: Path) -> list[DumpRun]:
    """Every run of the 4.3.1 tool that is kept for `root`."""
    runs: list[DumpRun] = []
    expected, logs = root / "expected", root / "logs"
    if (expected / "runs.json").exists():
        arguments = json.loads((expected / "runs.json").read_text())
        status = json.loads((expected / "status.json").read_text())
        for run, words in arguments.items():
            for out in sorted((expected / run).rglob("*.out")):
                path = str(out.relative_to(expected / run)).removesuffix(".out")
                died = status.get(run, {}).get(path, {}).get("exit", 0) != 0
                filled = [word.replace("{path}", path) for word in words]
                runs.append(DumpRun(f"{root.name}:{run}:{path}", logs, filled, out, out.with_suffix(".err"), died))
    elif (root / "runs.json").exists():
        for entry in json.loads((root / "runs.json").read_text()):
            if "of 4.3.1" not in entry["tool"]:
                continue
            path = entry["args"][entry["args"].index("--files") + 1]
            out = expected / entry["run"] / f"{path}.out"
            if out.exists():
                name = f"{root.name}:{entry['run']}:{path}"
                runs.append(DumpRun(name, logs, entry["args"], out, out.with_suffix(".err"), entry["status"] != 0))
    return runs


if __name__ == "__main__":
    print(own_corpus_directory())
