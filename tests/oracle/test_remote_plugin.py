"""A real broker with Aiven's RemoteStorageManager on what `kafkalog remote upload` and `restore` made in its layout.

The plug-in is in no registry. KAFKALOG_AIVEN is the class path of a build of its source, with the storage backend for folders.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.oracle.broker import Broker
from tests.oracle.test_remote_restore import makes_room, restored, serves_and_goes_on, whole_logs
from tests.remote.corpus import TOP, private_keys
from tests.remote.test_restore import NOT_LIMITED
from tests.remote.test_upload import never_copied
from tests.support.run import kafkalog

PLUGIN = os.environ.get("KAFKALOG_AIVEN")
pytestmark = [
    pytest.mark.oracle, pytest.mark.skipif(PLUGIN is None, reason="KAFKALOG_AIVEN names no build of Aiven's RemoteStorageManager"),
]  # fmt: skip
PACKAGE = "io.aiven.kafka.tieredstorage"
COMPRESSED = ("compression.enabled=true",)
ENCRYPTED = ("encryption.enabled=true", "encryption.key.pair.id=k1", "encryption.key.pairs=k1")
WAYS = {"plain": (), "compressed": COMPRESSED, "encrypted": ENCRYPTED, "both": (*COMPRESSED, *ENCRYPTED)}


def storage(store, way, tmp_path):
    """Return the settings of a broker with the plug-in on a folder."""
    own = [f"storage.backend.class={PACKAGE}.storage.filesystem.FileSystemStorage", f"storage.root={store}", "key.prefix=cold/",
           "chunk.size=2000", f"fetch.chunk.cache.class={PACKAGE}.fetch.cache.MemoryChunkCache", "fetch.chunk.cache.size=1000000",
           *WAYS[way]]  # fmt: skip
    if "encryption.enabled=true" in own:
        keys = {"private": private_keys(tmp_path)["k1"], "public": str(tmp_path / "k1.public.pem")}
        public = json.loads((TOP / "aiven/keys/keys.json").read_text())["k1"]["spki_der_base64"]
        Path(keys["public"]).write_text(f"-----BEGIN PUBLIC KEY-----\n{public}\n-----END PUBLIC KEY-----\n")
        own += [f"encryption.key.pairs.k1.{kind}.key.file={path}" for kind, path in keys.items()]
    return [f"remote.log.storage.manager.class.path={PLUGIN}", f"remote.log.storage.manager.class.name={PACKAGE}.RemoteStorageManager",
            *(f"rsm.config.{line}" for line in own)]  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_the_plug_in_reads_what_upload_copied(way, kafka, tmp_path):
    top, _ = never_copied("clean", tmp_path)
    store = tmp_path / "store"
    store.mkdir()
    lines = storage(store, way, tmp_path)
    (tmp_path / "server.properties").write_text("\n".join(lines) + "\n")
    dirs = [str(top / "d0"), str(top / "d1")]
    topics = [word for name in NOT_LIMITED for word in ("--topic", name)]
    done = kafkalog("remote", "upload", "--no-quarantine", "--config-file", str(tmp_path / "server.properties"), *topics, *dirs)
    assert done.status == 0, done.err
    uploaded = {path for path in store.rglob("*") if path.is_file()}
    assert len(uploaded) > 200
    ends = whole_logs(dirs, "expired-size")
    with Broker(top, store=store, storage=lines) as broker:
        makes_room(broker, top)
        serves_and_goes_on(broker, ends)
    made = {path for path in store.rglob("*.rsm-manifest") if path not in uploaded}
    assert made


def test_a_new_cluster_with_the_plug_in_serves_what_the_bucket_has(kafka, tmp_path):
    """The second life of what a broker with the plug-in copied after an upload."""
    top, _ = never_copied("clean", tmp_path)
    store = tmp_path / "store"
    store.mkdir()
    lines = storage(store, "both", tmp_path)
    (tmp_path / "server.properties").write_text("\n".join(lines) + "\n")
    done = kafkalog("remote", "upload", "--no-quarantine", "--config-file", str(tmp_path / "server.properties"), "--topic", "plain", "--topic", "codecs", "--topic", "tx",
                    str(top / "d0"), str(top / "d1"))  # fmt: skip
    assert done.status == 0, done.err
    new = tmp_path / "new"
    new.mkdir()
    broker = Broker(new, store=store, storage=lines)
    broker.format("AAAAAAAAAAAAAAAAAAAAAQ")
    ends = restored(new, store, "--metadata-partitions", "3", "--private-key", f"k1={private_keys(tmp_path)['k1']}")
    with broker:
        serves_and_goes_on(broker, ends)
