"""The sets of the tiered corpus: log dirs, stores and expected results."""

from __future__ import annotations

import base64
import gzip
import json
import os
import shutil
from typing import TYPE_CHECKING

import pytest

from tests.support.corpus import tiered_corpus, tiered_directory

if TYPE_CHECKING:
    from pathlib import Path

TOP = tiered_corpus()
SETS = [name for name in ("clean", "killed", "resumed", "pair", "aiven") if (TOP / name).is_dir()]


IS_OWN = tiered_directory() == TOP
OWN_ONLY = pytest.mark.skipif(not IS_OWN, reason="names topics and offsets of the project's own corpus")


def log_dirs(name: str) -> list[str]:
    """Return the log dirs of a set; for `pair` those of its three brokers."""
    top = TOP / name
    return sorted(map(str, [*top.glob("d?"), *top.glob("n?/d?")]))


def truth(name: str, file: str) -> list[dict]:
    """Return the rows of a file with expected results."""
    path = TOP / name / "truth" / file
    if not path.exists():
        packed = path.with_name(f"{path.name}.gz")
        return [json.loads(line) for line in gzip.decompress(packed.read_bytes()).splitlines()]
    return [json.loads(line) for line in path.read_text().splitlines()]


def damaged(variant: str, target: Path) -> Path:
    """Make a copy of `clean` with the changes of a damaged variant."""
    shutil.copytree(TOP / "clean", target)
    for path in [target, *target.rglob("*")]:
        path.chmod(path.stat().st_mode | 0o200)
    for line in (TOP / "damaged" / variant / "changes.txt").read_text().splitlines():
        what, name, *rest = line.split("\t")
        _change(target, target / name, what, rest)
    return target


def _change(top: Path, path: Path, what: str, rest: list[str]) -> None:
    if what == "delete":
        path.unlink()
    elif what == "truncate":
        os.truncate(path, int(rest[0]))
    elif what == "flip":
        data = bytearray(path.read_bytes())
        data[int(rest[0])] ^= 1 << int(rest[1])
        path.write_bytes(data)
    elif what == "write":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(rest[0]))
    elif what == "copy":
        (top / rest[0]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, top / rest[0])
    elif what == "rename":
        path.rename(top / rest[0])
    else:
        assert what == "drop-tree"
        shutil.rmtree(path)


def stores(name: str) -> str:
    """Return the store of a set."""
    return str(TOP / name / ("bucket" if name == "aiven" else "remote"))


def private_keys(folder: Path) -> dict[str, str]:
    """Write files with the private keys of the set `aiven` → their paths by key id."""
    found = {}
    for name, pair in json.loads((TOP / "aiven/keys/keys.json").read_text()).items():
        path = folder / f"{name}.pem"
        label = "PRIVATE KEY"
        path.write_text(f"-----BEGIN {label}-----\n{pair['pkcs8_der_base64']}\n-----END {label}-----\n")
        found[name] = str(path)
    return found


def brokers_log_dirs(name: str) -> list[str]:
    """Return the log dirs of the brokers that gave the expected results: for `pair` without the third broker."""
    return [path for path in log_dirs(name) if not path.endswith("n2/d0")]


def consumed(name, isolation):
    """Yield (topic-partition, rows) that a consumer read; None: it could not read all offsets."""
    for path in sorted((TOP / name / "truth/consumed" / isolation).iterdir()):
        data = path.read_bytes()
        rows = [json.loads(line) for line in (gzip.decompress(data) if path.suffix == ".gz" else data).splitlines()]
        yield path.name.partition(".jsonl")[0], None if any("error" in row for row in rows) else rows


def plain(row, *names):
    """Return a row with bytes as base64."""
    found = {}
    for field in names:
        data = row.get(field)
        found[field] = row.get(f"{field}_b64") if data is None else base64.b64encode(data.encode()).decode()
    return found


def as_consumed(row):
    headers = [[header["key"], plain(header, "value")["value"]] for header in row["headers"]]
    return {
        "partition": row["partition"], "offset": row["offset"], "timestamp": row["timestamp"],
        "timestampType": row["timestamp_type"], "leaderEpoch": row["leader_epoch"], **plain(row, "key", "value"), "headers": headers,
    }  # fmt: skip
