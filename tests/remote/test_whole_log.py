"""dump-log and verify with --store give the same results as for the output of `remote download`, and write nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.remote.corpus import SETS, brokers_log_dirs, damaged, log_dirs, private_keys, stores
from tests.support.json_output import all_objects
from tests.support.run import kafkalog

pytestmark = pytest.mark.skipif("clean" not in SETS, reason="names topics of this set")
NAMES = [name for name in ("clean", "aiven") if name in SETS]


def options(name, tmp_path):
    keys = [word for item in private_keys(tmp_path).items() for word in ("--private-key", "=".join(item))] if name == "aiven" else []
    return ["--store", stores(name), *keys, *(word for top in log_dirs(name) for word in ("--log-dir", top))]


@pytest.mark.parametrize("name", NAMES)
def test_a_dump_is_that_of_the_downloaded_log(name, tmp_path):
    (tmp_path / "keys").mkdir()
    words = options(name, tmp_path / "keys")
    store = words[: words.index("--log-dir")]
    done = kafkalog("remote", "download", "--into", str(tmp_path / "whole"), *store, *log_dirs(name))
    assert done.status == 0, done.err
    of = {path.name: path for top in brokers_log_dirs(name) for path in sorted(Path(top).glob("[a-z]*-*"))}
    wholes = sorted((tmp_path / "whole").glob("*-*"))
    assert wholes
    for whole in wholes:
        local = of[whole.name]
        one, other = (kafkalog("dump-log", "--print-data-log", *more, str(path)) for more, path in ((words, local), ((), whole)))
        said, expected = one.out.replace(bytes(local), b"DIR"), other.out.replace(bytes(whole), b"DIR")
        files = [part for part in said.split(b"Dumping ") if b".log\n" in part[:200]]
        assert files == [part for part in expected.split(b"Dumping ") if b".log\n" in part[:200]]
        for suffix in (b".index\n", b".timeindex\n", b".txnindex\n"):
            parts = {part for part in said.split(b"Dumping ") if suffix in part[:200]}
            assert parts >= {part for part in expected.split(b"Dumping ") if suffix in part[:200]}


def test_a_selection_covers_remote_and_local_segments(tmp_path):
    top = brokers_log_dirs("clean")[0]
    done = kafkalog("dump-log", "--print-data-log", "--offset", "120:130", *options("clean", tmp_path), f"{top}/plain-0")
    assert [int(line.split()[2]) for line in done.out.decode().splitlines() if line.startswith("| offset: ")] == list(range(120, 130))


@pytest.mark.parametrize("name", NAMES)
def test_all_segments_of_a_sound_store_are_sound(name, tmp_path):
    words = options(name, tmp_path)
    done = kafkalog("verify", "--format", "jsonl", *words, *brokers_log_dirs(name))
    assert done.status == 0, done.err
    found = [one for one in all_objects(done.out) if one["type"] == "verification"]
    assert {one["verdict"] for one in found} == {"sound"}
    assert sum(one["remote_segments"] for one in found) > 10
    text = kafkalog("verify", *words, *brokers_log_dirs(name)).out.decode()
    assert f"segments, {max(one['remote_segments'] for one in found)} of them remote" in text


@pytest.mark.parametrize(("variant", "code"), [
    ("truncated-mid-batch", "remote-object-size"), ("flipped-in-record", None), ("flipped-in-length", None), ("missing-index", "remote-object-missing"),
    ("missing-log", None), ("swapped-logs", None),
])  # fmt: skip
def test_damage_is_reported_with_the_object(variant, code, tmp_path):
    try:
        top = damaged(variant, tmp_path / "top")
    except FileNotFoundError:
        pytest.skip("the corpus has no such variant")
    changed = [line.split("\t")[1] for line in (Path(stores("clean")).parent.parent / "damaged" / variant / "changes.txt").read_text().splitlines()]
    dirs = sorted(map(str, top.glob("d?")))
    words = ["--store", str(top / "remote"), *(word for one in dirs for word in ("--log-dir", one))]
    done = kafkalog("verify", *words, *dirs)
    assert done.status != 0
    assert any(name in done.err for name in changed if name.startswith("remote/")), done.err
    assert code is None or f"[{code}]" in done.err


def test_without_the_metadata_the_local_log_is_read_and_the_rest_is_an_error(tmp_path):
    top = next(top for top in brokers_log_dirs("clean") if (Path(top) / "plain-0").is_dir())
    other = next(path for path in Path(top).iterdir() if path.name == "plain-0")
    (tmp_path / "d").mkdir()
    (tmp_path / "d/plain-0").symlink_to(other)
    for name in ("log-start-offset-checkpoint", "meta.properties"):
        (tmp_path / "d" / name).write_bytes((Path(top) / name).read_bytes())
    done = kafkalog("dump-log", "--store", stores("clean"), str(tmp_path / "d/plain-0"))
    assert done.out == kafkalog("dump-log", str(tmp_path / "d/plain-0")).out
    assert done.status != 0
    assert "name the log dirs" in done.err


@pytest.mark.parametrize(("words", "said"), [
    (("verify", "--rebuild", "--store", "/", "/"), "leave out --store"), (("verify", "--log-dir", "/", "/"), "--log-dir needs --store"),
    (("dump-log", "--log-dir", "/", "/"), "--log-dir needs --store"), (("dump-log", "--key-prefix", "x", "/"), "--key-prefix needs --store"),
])  # fmt: skip
def test_options_that_exclude_each_other(words, said):
    done = kafkalog(*words)
    assert (done.status, said in done.err) == (2, True)


def test_an_invalid_store(tmp_path):
    for command in ("dump-log", "verify"):
        done = kafkalog(command, "--store", str(tmp_path / "none"), str(tmp_path))
        assert done.status not in (0, 1)
        assert f"{tmp_path}/none" in done.err
