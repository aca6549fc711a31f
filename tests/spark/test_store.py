"""Log dirs and tiered topics in a bucket of a real S3 server, read by a session."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.remote.corpus import SETS, brokers_log_dirs, stores
from tests.s3.server import PROGRAM, Server
from tests.spark.conftest import missing
from tests.support.needs import lacking

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 900  # seconds, on a machine that does much else


def put(server, bucket, top):
    from obstore import put
    from obstore.store import S3Store

    settings = {name.removeprefix("AWS_").lower(): value for name, value in server.environment.items() if name != "AWS_ALLOW_HTTP"}
    store = S3Store(bucket, config=settings, client_options={"allow_http": True})
    for path in sorted(top.rglob("*")):
        if path.is_file():
            put(store, str(path.relative_to(top)), path.read_bytes())


@pytest.mark.xdist_group("spark elsewhere")  # processes of their own: beside the session of the others
@pytest.mark.skipif("clean" not in SETS, reason="names topics of this set")
def test_a_bucket_is_read_as_a_disk(own_corpus, tmp_path):
    if not PROGRAM.exists():
        lacking("no S3 server: `make object-server` builds one (Go)")
    if gone := missing() or [name for name in ("pyspark.sql.datasource", "obstore") if find_spec(name) is None]:
        lacking(f"this needs {', '.join(gone)}: not found")
    server = Server(tmp_path / "s3")
    for name in ("logs", "tiered"):
        server.make_bucket(name)
    for number, name in enumerate(("clean", "unclean"), 1):
        shutil.copytree(own_corpus / "kafka-4.3.1/logs" / name, tmp_path / f"logs/broker-{number}")
    words = ["s3://logs", str(tmp_path / "logs"), "s3://tiered", str(tmp_path / "table"), *brokers_log_dirs("clean")]
    with server:
        put(server, "logs", tmp_path / "logs")
        put(server, "tiered", Path(stores("clean")))
        environment = {**os.environ, **server.environment, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable}
        command = [sys.executable, "-m", "tests.spark.from_store", *words]
        done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    answer = json.loads(done.stdout.splitlines()[-1])
    errors, counts, remote = answer.pop("errors"), answer.pop("rows"), answer.pop("remote")
    assert {name for name, is_alike in answer.items() if not is_alike} == set()
    assert len(answer) == 8
    assert counts["read_uncommitted"] > counts["read_committed"] > 1000
    assert remote > 100
    for error, (path, what) in zip(errors, [
        ("s3://logs/nowhere", "No such file"), ("s3://no-such-bucket/x", "check the bucket's name"), ("hdfs://name/x", "hadoop distcp"),
        ("s3://no-such-bucket", "check the bucket's name"), ("s3a://logs/sink", "only reading takes URLs"),
        ("s3://logs", "check the credentials (AWS_ACCESS_KEY_ID"),
    ], strict=True):  # fmt: skip
        assert error.startswith(path), error
        assert what in error, error
