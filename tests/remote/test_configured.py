"""--config-file instead of --store: the store in the settings of a broker's RemoteStorageManager."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from engine.config.server import server_config
from engine.errors import UsageError
from engine.remote.configured import configured_store
from tests.remote.corpus import OWN_ONLY, SETS, brokers_log_dirs, log_dirs, private_keys, stores
from tests.support.json_output import objects_of
from tests.support.run import kafkalog

CLASS = "remote.log.storage.manager.class.name"
LOCAL = {CLASS: "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"}
AIVEN = {CLASS: "io.aiven.kafka.tieredstorage.RemoteStorageManager"}
BACKENDS = "io.aiven.kafka.tieredstorage.storage."
S3 = {**AIVEN, "rsm.config.storage.backend.class": f"{BACKENDS}s3.S3Storage", "rsm.config.storage.s3.bucket.name": "b"}


def store(values):
    return configured_store(server_config(values))


def test_the_settings_of_s3():
    found = store({
        **S3, "rsm.config.storage.s3.endpoint.url": "http://127.0.0.1:1", "rsm.config.storage.s3.region": "r",
        "rsm.config.storage.aws.access.key.id": "id", "rsm.config.storage.aws.secret.access.key": "secret",
        "rsm.config.storage.s3.path.style.access.enabled": "true", "rsm.config.key.prefix": "cold", "rsm.config.chunk.size": "9",
        "rsm.config.encryption.key.pairs": "k1, k2", "rsm.config.encryption.key.pairs.k1.private.key.file": "/1.pem",
        "rsm.config.encryption.key.pairs.k2.private.key.file": "/2.pem",
    })  # fmt: skip
    assert found[:4] == ("s3://b", "aiven", "cold", (("k1", "/1.pem"), ("k2", "/2.pem")))
    assert dict(found.client) == {
        "endpoint": "http://127.0.0.1:1", "region": "r", "access_key_id": "id", "secret_access_key": "secret"}  # fmt: skip


@pytest.mark.parametrize(("backend", "bucket", "url"), [
    ("gcs.GcsStorage", "gcs.bucket.name", "gs://b"), ("azure.AzureBlobStorage", "azure.container.name", "az://b"),
    ("filesystem.FileSystemStorage", "root", "b"),
])  # fmt: skip
def test_other_backends(backend, bucket, url):
    found = store({**AIVEN, "rsm.config.storage.backend.class": BACKENDS + backend, f"rsm.config.storage.{bucket}": "b"})
    assert found == (url, "aiven", "", (), (), None)


def test_the_prefix_of_the_settings_may_be_another_one():
    values = {**LOCAL, "remote.log.storage.manager.impl.prefix": "my.", "my.dir": "/a", "rsm.config.dir": "/b"}
    assert store(values) == ("/a", "local", "kafka-tiered-storage/", (), (), None)


@pytest.mark.parametrize(("values", "named"), [
    ({}, CLASS), ({CLASS: "com.example.Storage"}, "com.example.Storage"), (LOCAL, "rsm.config.dir"),
    (AIVEN, "rsm.config.storage.backend.class"),
    ({**AIVEN, "rsm.config.storage.backend.class": f"{BACKENDS}oci.OciStorage"}, "oci.OciStorage"),
    ({**AIVEN, "rsm.config.storage.backend.class": "s3.S3Storage"}, "s3.S3Storage"),
    ({name: value for name, value in S3.items() if "bucket" not in name}, "rsm.config.storage.s3.bucket.name"),
    ({**S3, "rsm.config.segment.format": "iceberg"}, "rsm.config.segment.format=iceberg"),
    ({**S3, "rsm.config.storage.aws.credentials.provider.class": "x"}, "rsm.config.storage.aws.credentials.provider.class"),
    ({**S3, "rsm.config.storage.s3.region": "${env:REGION}"}, "rsm.config.storage.s3.region=${env:REGION}"),
    ({**S3, "rsm.config.encryption.key.pairs": "k1"}, "rsm.config.encryption.key.pairs.k1.private.key.file"),
])  # fmt: skip
def test_unknown_settings_are_refused_by_name(values, named):
    with pytest.raises(UsageError) as error:
        store(values)
    assert named in str(error.value)
    assert "--store" in (error.value.do or "")


def test_a_secret_is_in_no_error():
    with pytest.raises(UsageError) as error:
        store({**S3, "rsm.config.storage.aws.secret.access.key": "hush", "rsm.config.storage.s3.other": "hush"})
    assert "hush" not in f"{error.value} {error.value.do}"


# ---- commands


def written(path, values):
    path.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
    return str(path)


def verified(*words):
    done = kafkalog("remote", "verify", "--deep", "--format", "jsonl", *words)
    return done.status, [row for row in objects_of(done.out) if row["type"] == "remote-verification"]


@pytest.mark.skipif("clean" not in SETS, reason="reads this set")
def test_a_command_reads_the_store_of_the_broker(tmp_path):
    config = written(tmp_path / "server.properties", {**LOCAL, "rsm.config.dir": stores("clean")})
    assert verified("--config-file", config, *log_dirs("clean")) == verified("--store", stores("clean"), *log_dirs("clean"))
    assert verified("--config-file", config, *log_dirs("clean"))[0] == 0


@pytest.mark.skipif("aiven" not in SETS, reason="reads this set")
def test_key_prefix_and_private_keys_come_with_it(tmp_path):
    values = {
        **AIVEN, "rsm.config.storage.backend.class": f"{BACKENDS}filesystem.FileSystemStorage",
        "rsm.config.storage.root": stores("aiven"), "rsm.config.key.prefix": "cold/",
    }  # fmt: skip
    keys = private_keys(tmp_path)
    without = written(tmp_path / "without", values)
    done = kafkalog("remote", "verify", "--deep", "--config-file", without, *log_dirs("aiven"))
    assert (done.status, "is encrypted under the key pair" in done.err) == (2, True)
    values["rsm.config.encryption.key.pairs"] = ",".join(keys)
    values |= {f"rsm.config.encryption.key.pairs.{name}.private.key.file": path for name, path in keys.items()}
    status, [row] = verified("--config-file", written(tmp_path / "with", values), *log_dirs("aiven"))
    assert (status, row["read"]) == (0, row["segments"])
    more = [word for item in keys.items() for word in ("--private-key", "=".join(item))]
    assert verified("--config-file", without, *more, *log_dirs("aiven")) == (status, [row])
    values["rsm.config.key.prefix"] = "warm/"
    wrong = written(tmp_path / "wrong", values)
    assert verified("--config-file", wrong, *log_dirs("aiven"))[0] == 4
    assert verified("--config-file", wrong, "--key-prefix", "cold/", *log_dirs("aiven")) == (status, [row])


def test_without_a_store_the_error_says_how_to_name_one(tmp_path):
    done = kafkalog("remote", "verify", *brokers_log_dirs(SETS[0]))
    assert (done.status, "--store URL|DIR" in done.err, "--config-file" in done.err) == (2, True, True)
    config = written(tmp_path / "server.properties", {CLASS: "com.example.Storage"})
    done = kafkalog("remote", "verify", "--config-file", config, *brokers_log_dirs(SETS[0]))
    assert (done.status, "com.example.Storage" in done.err) == (2, True)
    assert kafkalog("remote", "verify", "--config-file", str(tmp_path / "none"), *brokers_log_dirs(SETS[0])).status == 8


# ---- commands that read local logs


READERS = (("fetch", "-f", "%o %k\n"), ("fetch", "--raw"), ("dump-log", "--print-data-log"), ("verify", "--format", "jsonl"))


@pytest.fixture
def plain():
    """A partition of `clean` with remote segments, and the other log dir of its broker."""
    top, other = next((top, other) for top in log_dirs("clean") for other in log_dirs("clean")
                      if top != other and (Path(top) / "plain-0").is_dir())  # fmt: skip
    return f"{top}/plain-0", other


def said(done):
    return done.status, re.sub(rb'"duration_ms":[0-9]+', b"", done.out), done.err


@OWN_ONLY
@pytest.mark.parametrize("words", READERS)
def test_a_reader_takes_the_store_and_the_metadata_from_the_configuration(words, tmp_path, plain):
    directory, other = plain
    values = {**LOCAL, "rsm.config.dir": stores("clean"), "log.dirs": f"{other},{tmp_path}/on-another-machine"}
    config = written(tmp_path / "server.properties", values)
    through = kafkalog(*words, "--store", stores("clean"), "--log-dir", other, directory)
    local = kafkalog(*words, directory)
    assert said(kafkalog(*words, "--config-file", config, directory)) == said(through)
    assert through.status == 0
    assert through.out != local.out


@OWN_ONLY
@pytest.mark.parametrize("words", [words for words in READERS if "--raw" not in words])
def test_the_metadata_is_found_in_every_log_dir_that_is_named(words):
    choice = ("--topic", "plain", *log_dirs("clean"))
    done, local = kafkalog(*words, "--store", stores("clean"), *choice), kafkalog(*words, *choice)
    assert done.status == 0, done.err
    assert done.out != local.out


@OWN_ONLY
@pytest.mark.parametrize("words", READERS)
def test_store_overrides_the_store_of_the_configuration(words, tmp_path, plain):
    directory, other = plain
    config = written(tmp_path / "server.properties", {CLASS: "com.example.Storage", "log.dirs": f"{tmp_path}/none"})
    more = ("--store", stores("clean"), "--log-dir", other, directory)
    assert said(kafkalog(*words, "--config-file", config, *more)) == said(kafkalog(*words, *more))


@OWN_ONLY
@pytest.mark.parametrize("words", READERS)
def test_a_configuration_without_remote_storage_changes_nothing(words, tmp_path, plain):
    config = written(tmp_path / "server.properties", {"log.retention.ms": "1000", "log.dirs": plain[1]})
    assert said(kafkalog(*words, "--config-file", config, plain[0])) == said(kafkalog(*words, plain[0]))


@pytest.mark.parametrize("words", READERS)
def test_no_store_is_opened_for_a_local_partition(words, tmp_path):
    (tmp_path / "lines").write_text("k:v\n")
    directory = str(tmp_path / "local-0")
    assert kafkalog("append", "--create", "--input", str(tmp_path / "lines"), "--input-format", "text", directory).status == 0
    config = written(tmp_path / "server.properties", {CLASS: "com.example.Storage"})
    done = kafkalog(*words, "--config-file", config, directory)
    assert said(done) == said(kafkalog(*words, directory))
    assert (done.status, done.err) == (0, "")


@OWN_ONLY
@pytest.mark.parametrize("words", READERS)
def test_a_store_that_is_not_known_is_an_error_for_a_partition_with_remote_segments(words, tmp_path, plain):
    config = written(tmp_path / "server.properties", {CLASS: "com.example.Storage"})
    done = kafkalog(*words, "--config-file", config, plain[0])
    assert done.status == 2
    assert "com.example.Storage" in done.err or b"com.example.Storage" in done.out
    if words[0] != "fetch":  # what is local is read
        assert kafkalog(*words, plain[0]).out.splitlines()[0] in done.out


@OWN_ONLY
def test_log_dirs_of_another_cluster_are_refused(tmp_path, plain):
    shutil.copy(f"{plain[1]}/meta.properties", tmp_path)
    text = (tmp_path / "meta.properties").read_text()
    (tmp_path / "meta.properties").write_text(re.sub("cluster.id=.*", "cluster.id=AAAAAAAAAAAAAAAAAAAAAA", text))
    done = kafkalog("fetch", "--store", stores("clean"), "--log-dir", str(tmp_path), plain[0])
    assert (done.status, "belongs to cluster AAAAAAAAAAAAAAAAAAAAAA" in done.err) == (2, True)


def test_rebuild_takes_no_store_of_the_configuration(tmp_path):
    (tmp_path / "lines").write_text("k:v\n")
    directory = str(tmp_path / "local-0")
    assert kafkalog("append", "--create", "--input", str(tmp_path / "lines"), "--input-format", "text", directory).status == 0
    config = written(tmp_path / "server.properties", {CLASS: "com.example.Storage"})
    done = kafkalog("verify", "--rebuild", "--yes", "--config-file", config, directory)
    assert done.status == 0, done.err
    done = kafkalog("verify", "--rebuild", "--config-file", config, "--log-dir", "/", directory)
    assert (done.status, "--log-dir needs --store" in done.err) == (2, True)
