"""Bad bytes in any file: `ls`, `du`, `groups` and `txn` answer with a flag, a finding or an error, never with an exception, and stay bounded."""

from __future__ import annotations

import os
import random
import shutil
import tracemalloc
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.support.json_output import all_objects
from tests.support.run import kafkalog

if TYPE_CHECKING:
    from pathlib import Path

SEED, ROUNDS = 7, 3
WORDS = (("ls", "--long"), ("ls", "--topics"), ("du",), ("du", "--by", "codec"), ("du", "--by", "key-prefix"),
         ("du", "--reclaimable", "--config", "retention.ms=1"), ("du", "--recompress", "all"), ("groups",), ("groups", "--history"),
         ("groups", "--at", "2026-11-23T08:55:50Z"), ("txn", "list"), ("txn", "hanging"), ("txn", "show", "open-long"))  # fmt: skip
BOUND = 150 << 20


def kind_of(path: Path) -> str:
    return path.suffix if path.name[:20].isdigit() else path.name


def damaged(data: bytes, rng: random.Random) -> bytes:
    """A flip, a cut, zeros, garbage, a large size, or nothing left."""
    at = rng.randrange(len(data)) if data else 0
    return rng.choice((
        lambda: data[:at] + rng.randbytes(8) + data[at + 8 :], lambda: data[:at], lambda: data + bytes(300), lambda: b"",
        lambda: rng.randbytes(len(data) + 5), lambda: data[:at] + b"\x7f\xff\xff\xff" + data[at + 4 :], lambda: data * 3,
        lambda: b"\xff" * len(data),
    ))()  # fmt: skip


@pytest.mark.parametrize("source", ["ops/1-stopped/n1", "forks/2-forked-twice/n1"])
def test_bad_bytes_in_a_file_of_every_kind(own_cluster_corpus, tmp_path, source):
    rng, seen = random.Random(SEED), Counter()
    original = own_cluster_corpus / source
    by_kind: dict[str, list[Path]] = {}
    for path in sorted(path for log_dir in ("d0", "d1") for path in (original / log_dir).rglob("*") if path.is_file()):
        by_kind.setdefault(kind_of(path), []).append(path.relative_to(original))
    shutil.copytree(original, tmp_path / "n")
    for kind, paths in by_kind.items():
        for number in range(ROUNDS):
            path = tmp_path / "n" / rng.choice(paths)
            data = path.read_bytes()
            path.write_bytes(damaged(data, rng))
            for words in WORDS[number::ROUNDS]:
                done = kafkalog(*words, "--format", "jsonl", str(tmp_path / "n/d0"), str(tmp_path / "n/d1"))
                assert done.status in (0, 2, 4, 8), (path, words, done.err)
                assert "Traceback" not in done.err
                if words[0] == "ls" and done.status != 2:
                    assert {one["type"] for one in all_objects(done.out)} >= {"broker", "log-dir", "total"}
            path.write_bytes(data)
            seen[kind] += 1
    assert len(seen) > 10


OTHERS = (("check",), ("check", "--level", "full"), ("diff",), ("metadata", "tree"), ("metadata", "cat"), ("metadata", "verify"),
          ("grep", "-c", "a"), ("export", "-t", "*", "--as", "jsonl", "--to", "-"), ("undelete", "--list"), ("undelete", "-n"),
          ("report", "-o", "page.html"))  # fmt: skip


def test_bad_bytes_stop_no_other_command(own_cluster_corpus, tmp_path, monkeypatch):
    """As above; explain shows the damaged file itself. KAFKALOG_BAD_FILES: files of each kind."""
    monkeypatch.chdir(tmp_path)
    rng, original = random.Random(SEED), own_cluster_corpus / "ops/1-stopped/n1"
    by_kind: dict[str, list[Path]] = {}
    for path in sorted(path for path in original.rglob("*") if path.is_file()):
        by_kind.setdefault(kind_of(path), []).append(path.relative_to(original))
    shutil.copytree(original, tmp_path / "n")
    left: list[tuple[str, ...]] = []
    for kind, paths in by_kind.items():
        for _ in range(int(os.environ.get("KAFKALOG_BAD_FILES", "1"))):
            path = tmp_path / "n" / rng.choice(paths)
            data = path.read_bytes()
            path.write_bytes(damaged(data, rng))
            left = left if len(left) > 1 else rng.sample(OTHERS, len(OTHERS))
            for words in (left.pop(), left.pop()):
                places = ["n/d0"] if words[0] == "metadata" else ["n", str(own_cluster_corpus / "ops/1-stopped/n2")] if words[0] == "diff" else ["n"]
                done = kafkalog(*words, *places)
                assert done.status in (0, 1, 2, 4, 8), (kind, words, done.err)
                assert "Traceback" not in done.err
            assert kafkalog("explain", str(path)).status in (0, 2, 4, 8)
            path.write_bytes(data)


def test_memory_does_not_grow_with_what_a_file_claims(own_cluster_corpus, tmp_path):
    """Sparse files of two gigabytes, as logs, indexes and snapshots; read by every command."""
    shutil.copytree(own_cluster_corpus / "ops/1-stopped/n1/d0/orders-1", tmp_path / "d/orders-1")
    directory = tmp_path / "d/orders-1"
    for suffix in (".index", ".timeindex"):
        with (directory / f"{0:020d}{suffix}").open("ab") as file:
            file.truncate((2 << 30) - 8)
    with (directory / f"{37:020d}.snapshot").open("ab") as file:
        file.truncate(2 << 30)
    with (directory / "leader-epoch-checkpoint").open("ab") as file:
        file.truncate(2 << 30)
    tracemalloc.start()
    try:
        for words in (("ls",), ("du", "--by", "producer")):
            assert kafkalog(*words, str(tmp_path / "d")).status == 0
        assert tracemalloc.get_traced_memory()[1] < BOUND
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("length", "words"), [(300, ("du", "--by", "producer")), (300, ("du", "--by", "key-prefix:8"))])
def test_groups_are_bounded(own_cluster_corpus, monkeypatch, length, words):
    from engine.overview import contents

    monkeypatch.setattr(contents, "_MOST_NAMES", 3)
    rows = [one for one in all_objects(kafkalog(*words, "--format", "jsonl", str(own_cluster_corpus / "ops/1-stopped/n1")).out) if one["type"] == "usage"]
    assert len(rows) == 5  # three, the others, the total
    assert {one["name"] for one in rows} >= {"(others)", "total"}
    assert sum(one["log_bytes"] for one in rows[:-1]) == rows[-1]["log_bytes"]
