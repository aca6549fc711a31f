"""`kafkalog remote upload` writes the same objects and records as a broker for these segments."""

from __future__ import annotations

import json
import shutil
from base64 import b64decode
from pathlib import Path

import pytest

from engine.remote.aiven_manifest import decode_chunk_sizes, encode_chunk_sizes, unpack_zstd
from tests.remote.corpus import SETS, TOP, private_keys, stores, truth
from tests.remote.test_download import download
from tests.support.json_output import objects_of, reports_of
from tests.support.run import kafkalog

pytestmark = pytest.mark.skipif("clean" not in SETS or "aiven" not in SETS, reason="these sets were stopped cleanly")
METADATA = "__remote_log_metadata"


def never_copied(name, tmp_path):
    """Make the log dirs of a set as if nothing had been copied or deleted → (log dirs, partitions with remote segments)."""
    whole = tmp_path / "whole"
    assert download(name, whole, tmp_path).status == 0
    top = tmp_path / "top"
    partitions = set()
    for origin in sorted((TOP / name).glob("d?")):
        log_dir = top / origin.name
        shutil.copytree(origin, log_dir)
        for path in [log_dir, *log_dir.rglob("*")]:
            path.chmod(path.stat().st_mode | 0o200)
        for directory in sorted(path for path in log_dir.iterdir() if path.is_dir()):
            if directory.name.startswith(METADATA):
                for path in directory.glob("0*"):
                    path.unlink()
                (directory / "leader-epoch-checkpoint").unlink(missing_ok=True)
                (directory / "00000000000000000000.log").touch()
            elif (whole / directory.name).is_dir():
                shutil.rmtree(directory)
                shutil.copytree(whole / directory.name, directory)
                partitions.add(directory.name)
        for name_of in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
            lines = (log_dir / name_of).read_text().splitlines()
            lines = [f"{METADATA} {line.split()[1]} 0" if line.startswith(METADATA) else line for line in lines]
            (log_dir / name_of).write_text("\n".join(lines) + "\n")
    return top, partitions


def upload(top, store, *words):
    dirs = sorted(str(path) for path in top.glob("d?"))
    return kafkalog("remote", "upload", "--store", str(store), "--format", "jsonl", *words, *dirs)


def local(store):
    """Return the objects of LocalTieredStorage by partition folder, base offset and part, without ids."""
    found = {}
    for path in (one for one in Path(store).rglob("*.*") if one.is_file()):
        found.setdefault((path.parent.name, path.name[:20], path.suffix), []).append(path.read_bytes())
    return found


def test_objects_are_those_that_the_broker_made(tmp_path):
    top, _partitions = never_copied("clean", tmp_path)
    store = tmp_path / "store"
    store.mkdir()
    done = upload(top, store, "--layout", "local", "--key-prefix", "kafka-tiered-storage/")
    assert done.status == 0, done.err
    made, brokers = local(store), local(stores("clean"))
    copied = {key: data for key, data in brokers.items() if key in made}
    differ = {(key[0].rpartition("-0-")[0], key[2]) for key, data in made.items() if data[0] != copied[key][0]}
    starts_moved = {"trimmed", "expired-size", "expired-time"}  # since the copy; the first line of epochs has the log start
    assert differ <= {(topic, ".leader_epoch_checkpoint") for topic in starts_moved}
    left = {key for key in brokers.keys() - made.keys() if not key[0].startswith(("nocopy", "kept"))}  # copying is disabled there
    assert left == set()
    assert len(made) > 400
    listed = kafkalog("remote", "list", "--format", "jsonl", *sorted(str(path) for path in top.glob("d?")))
    fields = ("start_offset", "end_offset", "size", "max_timestamp", "broker", "txn_index_empty", "leader_epochs", "state")
    segments = {}
    for one in objects_of(listed.out):
        if one["type"] == "remote-segment":
            segments.setdefault((one["topic_id"], one["topic"], one["partition"]), []).append([one[field] for field in fields])
    assert len(segments) > 12
    for row in truth("clean", "segments.jsonl"):
        topic_id, _, name = row["partition"].partition(":")
        key = (topic_id, *name.rpartition("-")[::2])
        found = segments.get((key[0], key[1], int(key[2])))
        if found is not None:
            assert found == [[one[field] for field in fields] for one in row["segments"]]
    checked = kafkalog("remote", "verify", "--deep", "--store", str(store), *sorted(str(path) for path in top.glob("d?")))
    assert checked.status == 0, checked.out


def test_uploads_for_aiven_can_be_read(tmp_path):
    top, _ = never_copied("aiven", tmp_path)
    store = tmp_path / "store"
    store.mkdir()
    done = upload(top, store, "--layout", "aiven", "--key-prefix", "cold/")
    assert done.status == 0, done.err
    dirs = sorted(str(path) for path in top.glob("d?"))
    checked = kafkalog("remote", "verify", "--deep", "--store", str(store), *dirs)
    assert (checked.status, "all segments were read" in checked.out.decode()) == (0, True), checked.out
    assert kafkalog("remote", "restore", "plain", "--into", str(clean_log_dir(tmp_path)), "--store", str(store)).status == 0


def manifests(store):
    """Return the manifests and logs of a store by partition and base offset."""
    return {(*path.parts[-3:-1], path.name[:20]): (json.loads(path.read_bytes()), path.with_suffix(".log").read_bytes())
            for path in Path(store).rglob("*.rsm-manifest")}  # fmt: skip


def settings(tmp_path, store, **values):
    """Write the settings of a broker with Aiven's RemoteStorageManager on a folder."""
    own = {"storage.backend.class": "io.aiven.kafka.tieredstorage.storage.filesystem.FileSystemStorage", "storage.root": str(store),
           "key.prefix": "cold/", **{name.replace("_", "."): value for name, value in values.items()}}  # fmt: skip
    lines = ["remote.log.storage.manager.class.name=io.aiven.kafka.tieredstorage.RemoteStorageManager"]
    path = tmp_path / "server.properties"
    path.write_text("\n".join([*lines, *(f"rsm.config.{name}={value}" for name, value in own.items())]) + "\n")
    return str(path)


@pytest.mark.parametrize("way", ["settings", "newest"])
def test_compressed_uploads_are_those_of_the_broker(way, tmp_path):
    """The bytes of chunks depend on the version of libzstd; that of the broker was 1.5.6."""
    from zstandard import ZSTD_VERSION

    top, _ = never_copied("aiven", tmp_path)
    store = tmp_path / "store"
    store.mkdir()
    theirs = {key: one for key, one in manifests(stores("aiven")).items() if one[0]["compression"] and "encryption" not in one[0]}
    if way == "settings":
        file = settings(tmp_path, store, chunk_size="2000", compression_enabled="true")
        done = kafkalog("remote", "upload", "--config-file", file, "--no-quarantine", *sorted(str(path) for path in top.glob("d?")))
    else:
        newest = next(path for path in sorted(Path(stores("aiven")).rglob("*.rsm-manifest")) if (*path.parts[-3:-1], path.name[:20]) in theirs)
        folder = store / "cold/other-AAAAAAAAAAAAAAAAAAAAAA/0"
        folder.mkdir(parents=True)
        for path in newest.parent.glob(f"{newest.stem}.*"):
            shutil.copy(path, folder / path.name)
        done = upload(top, store, "--layout", "aiven", "--key-prefix", "cold/")
    assert done.status == 0, done.err
    dirs = sorted(str(path) for path in top.glob("d?"))
    checked = kafkalog("remote", "verify", "--deep", "--store", str(store), "--topic", "plain", "--topic", "codecs", *dirs)
    assert (checked.status, "all segments were read" in checked.out.decode()) == (0, True), checked.out
    ours = manifests(store)
    same = theirs.keys() & ours.keys()
    assert len(same) > 5
    for key in same:
        (one, log), (other, its_log) = ours[key], theirs[key]
        assert (one["compression"], one["chunkIndex"]["type"]) == (True, "variable")
        fields = ("originalChunkSize", "originalFileSize")
        assert [one["chunkIndex"][field] for field in fields] == [other["chunkIndex"][field] for field in fields]
        assert one["segmentIndexes"] == other["segmentIndexes"]
        if ZSTD_VERSION[:3] == (1, 5, 6):
            assert (log, one["chunkIndex"]) == (its_log, other["chunkIndex"])
        assert abs(len(log) - len(its_log)) < 0.02 * len(log)


@pytest.mark.parametrize("sizes", [[7], [7, 9], [5, 5, 5, 1], [1000, 1255, 3], [1000, 1256, 3], [1, 70_000, 1 << 24, 1 << 25, 12]])
def test_sizes_of_chunks_are_encoded_for_their_decoder(sizes):
    assert decode_chunk_sizes(encode_chunk_sizes(sizes), len(sizes)) == sizes


def test_the_sizes_of_chunks_in_the_corpus_are_encoded_the_same_way():
    found = [one["chunkIndex"] for one, _ in manifests(stores("aiven")).values() if one["compression"]]
    for index in found:
        data = b64decode(index["transformedChunks"])
        count = -(-index["originalFileSize"] // index["originalChunkSize"])
        assert unpack_zstd(encode_chunk_sizes(decode_chunk_sizes(data, count)), 1 << 20) == unpack_zstd(data, 1 << 20)
    assert len(found) > 20


def test_with_the_heuristic_compressed_batches_are_not_compressed_again(tmp_path):
    top, _ = never_copied("aiven", tmp_path)
    store = tmp_path / "store"
    store.mkdir()
    file = settings(tmp_path, store, chunk_size="2000", compression_enabled="true", compression_heuristic_enabled="true")
    done = kafkalog("remote", "upload", "--config-file", file, "--no-quarantine", *sorted(str(path) for path in top.glob("d?")))
    assert done.status == 0, done.err
    is_compressed = {topic: set() for topic in ("plain", "codecs")}
    for (topic, _, _), (manifest, log) in manifests(store).items():
        if topic.startswith("plain"):
            is_compressed["plain"].add(manifest["compression"])
        elif topic.startswith("codecs"):
            is_compressed["codecs"].add(manifest["compression"])
            assert manifest["compression"] != bool(log[22] & 7) or manifest["compression"]
    assert is_compressed["plain"] == {True}
    assert False in is_compressed["codecs"]


def test_settings_with_encryption_need_the_key(tmp_path):
    top, _ = never_copied("aiven", tmp_path)
    store = tmp_path / "store"
    store.mkdir()
    file = settings(tmp_path, store, chunk_size="2000", encryption_enabled="true", encryption_key_pair_id="k1")
    done = kafkalog("remote", "upload", "--config-file", file, "--no-quarantine", *sorted(str(path) for path in top.glob("d?")))
    assert (done.status, "--private-key k1=FILE" in done.out.decode() + done.err) == (2, True)
    assert [path for path in store.rglob("*") if path.is_file()] == []


def clean_log_dir(tmp_path):
    log_dir = tmp_path / "formatted"
    log_dir.mkdir()
    for name in ("meta.properties", "bootstrap.checkpoint"):
        shutil.copy(TOP / "aiven/d0" / name, log_dir / name)
    return log_dir


def test_a_second_run_has_nothing_to_do_and_a_dry_run_does_nothing(tmp_path):
    top, _ = never_copied("clean", tmp_path)
    store = tmp_path / "store"
    store.mkdir()
    words = ("--layout", "local", "--key-prefix", "kafka-tiered-storage/", "--topic", "plain")
    before = {path: path.read_bytes() for path in top.rglob("*") if path.is_file()}
    planned = reports_of(upload(top, store, *words, "-n").out)
    assert {path: path.read_bytes() for path in top.rglob("*") if path.is_file() and path.name != ".lock"} == before
    assert list(store.rglob("*")) == []
    assert sum(len(one["events"]) for one in planned if "plain" in one["partition"]) > 5
    upload(top, store, *words)
    objects = set(store.rglob("*"))
    assert reports_of(upload(top, store, *words).out) == []
    assert set(store.rglob("*")) == objects


def test_a_damaged_segment_is_not_copied(tmp_path):
    top, _ = never_copied("clean", tmp_path)
    [log] = top.glob("d?/plain-0/00000000000000000000.log")
    data = bytearray(log.read_bytes())
    data[100] ^= 1
    log.write_bytes(data)
    store = tmp_path / "store"
    store.mkdir()
    done = upload(top, store, "--layout", "local", "--key-prefix", "kafka-tiered-storage/", "--topic", "plain")
    assert (done.status, "not-uploaded" in done.out.decode()) == (4, True)
    assert not list(store.rglob("plain-0-*"))
    assert list(store.rglob("plain-1-*"))


def test_a_killed_broker_must_be_recovered_first(tmp_path):
    top, _ = never_copied("clean", tmp_path)
    (top / "d0/.kafka_cleanshutdown").unlink()
    done = upload(top, stores("clean"))
    assert (done.status, "recover --mark-clean" in done.out.decode()) == (2, True)


@pytest.fixture
def encrypted(tmp_path):
    """Return log dirs without copied segments, and a store whose newest segment is encrypted under k2."""
    top, _ = never_copied("aiven", tmp_path)
    store = tmp_path / "bucket"
    store.mkdir()
    newest = next(path for path in sorted(Path(stores("aiven")).rglob("*.rsm-manifest")) if b'"k2:' in path.read_bytes())
    for path in newest.parent.glob(f"{newest.stem}.*"):
        target = store / path.relative_to(stores("aiven"))
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    return top, store


def test_an_encrypted_store_gets_no_plain_segment(encrypted):
    top, store = encrypted
    done = upload(top, store)
    assert (done.status, "--private-key k2=FILE" in done.out.decode()) == (2, True)
    assert len([path for path in store.rglob("*") if path.is_file()]) == 3


def test_an_encrypted_store_gets_encrypted_segments(encrypted, tmp_path):
    top, store = encrypted
    keys = [word for item in private_keys(tmp_path).items() for word in ("--private-key", "=".join(item))]
    done = upload(top, store, *keys)
    assert done.status == 0, done.err
    dirs = sorted(str(path) for path in top.glob("d?"))
    checked = kafkalog("remote", "verify", "--deep", "--format", "jsonl", "--store", str(store), *keys, *dirs)
    rows = objects_of(checked.out)
    [summary] = [row for row in rows if row["type"] == "remote-verification"]
    assert summary["read"] == summary["segments"] > 10
    unknown = {row["file"] for row in rows if row["type"] == "finding"}
    assert len(unknown) == 3  # the earlier ones
    for path in store.rglob("*.rsm-manifest"):
        assert b'"dataKey":"k2:' in path.read_bytes()
    plain = [data for path in top.glob("d?/plain-0/*.log") if (data := path.read_bytes()[200:240])]
    assert plain
    assert not any(data in path.read_bytes() for path in store.rglob("*.log") for data in plain)
    data_keys = [path.read_bytes().partition(b'"dataKey":"')[2][:60] for path in store.rglob("*.rsm-manifest")]
    assert len(set(data_keys)) == len(data_keys)
