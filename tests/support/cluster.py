"""What Kafka's admin tools said of the clusters in the corpus `cluster`: see its README.md."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_SETTING = re.compile(r"([a-z.]+)=(.*?)(?=,[a-z.]+=|$)")  # a value may have commas


def told_states(top: Path) -> list[tuple[Path, Path]]:
    """(directory with the nodes nK, directory with what the tools said of it) of each state that has both."""
    found = [
        (truth.parents[1] / truth.name, truth)
        for truth in sorted(top.glob("ops*/truth/*")) if (truth.parents[1] / truth.name).is_dir() and (truth / "admin.json").exists()
    ]  # fmt: skip
    assert found, "the corpus has no such state: nothing would be compared"
    return found


def log_dir_sizes(truth: Path) -> dict[tuple[str, str, bool], int]:
    """(log dir, partition, isFuture) → size, as kafka-log-dirs --describe printed it."""
    text = (truth / "log-dirs-describe.txt").read_text()
    return {
        (log_dir["logDir"], one["partition"], one["isFuture"]): one["size"]
        for broker in json.loads(text[text.index('{"') :])["brokers"]
        for log_dir in broker["logDirs"] for one in log_dir["partitions"]
    }  # fmt: skip


def described_partitions(truth: Path) -> dict[str, dict]:
    """Partition → what the Admin client said: topic_id, leader, earliest, latest, last_stable, max_timestamp."""
    return json.loads((truth / "admin.json").read_text())["partitions"]


def topic_settings(truth: Path) -> dict[str, dict[str, str]]:
    """Topic → its own settings, as kafka-topics --describe printed them."""
    found = {}
    for line in (truth / "topics-describe.txt").read_text().splitlines():
        if line.startswith("Topic:"):
            cells = dict(cell.split(":", 1) for cell in line.split("\t") if ":" in cell)
            found[cells["Topic"].strip()] = dict(_SETTING.findall(cells["Configs"].strip()))
    return found


def table_rows(text: str) -> list[dict[str, str]]:
    """The rows of the tables that a tool printed, each by the headings above it; cells have no spaces."""
    rows: list[dict[str, str]] = []
    headings: list[str] = []
    for line in text.partition("--- stderr")[0].splitlines()[1:]:
        if line.startswith("GROUP "):
            headings = re.split(r"\s+", re.sub(r"COORDINATOR \(ID\)", "COORDINATOR", line).strip())
        elif line.strip() and headings:
            rows.append(dict(zip(headings, re.sub(r"\s+\((\d+)\)", r"(\1)", line).split(), strict=False)))
    return rows
