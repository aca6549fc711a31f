"""`kafkalog remote verify` reports exactly the changed objects of every damaged store, and nothing for other stores."""

from __future__ import annotations

import json
import shutil

import pytest

from engine.errors import UnreadableFile
from engine.remote import access
from engine.remote.storage import FolderStore
from tests.remote.corpus import OWN_ONLY, SETS, TOP, damaged, log_dirs, private_keys, stores
from tests.support.run import kafkalog

ELSEWHERE = ("metadata-", "cache-", "epochs-cut", "start-offsets-lost", "other-cluster")  # the problem is not in an object
VARIANTS = [path.name for path in sorted((TOP / "damaged").iterdir()) if path.is_dir() and not path.name.startswith(ELSEWHERE)]


def verify(store, dirs, *words):
    done = kafkalog("remote", "verify", "--format", "jsonl", "--store", store, *words, *dirs)
    rows = [json.loads(line) for line in done.out.splitlines()]
    return done.status, [row for row in rows if row["type"] in ("finding", "error")], rows[-2]


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("words", [(), ("--deep",)])
def test_stores_that_brokers_left_are_sound(name, words, tmp_path):
    keys = private_keys(tmp_path) if name == "aiven" else {}
    more = [word for item in keys.items() for word in ("--private-key", "=".join(item))]
    dirs = [path for path in log_dirs(name) if name != "pair" or path.endswith("n0/d0")]
    status, findings, done = verify(stores(name), dirs, *words, *more)
    assert (status, findings) == (0, [])
    assert done["segments"] > 20
    assert done["read"] == (done["segments"] if words else 0)


@pytest.mark.skipif("aiven" not in SETS, reason="another corpus")
@pytest.mark.parametrize("scheme", ["", "file://"])
def test_a_folder_of_the_bucket_may_be_named(scheme, tmp_path):
    """The custom metadata of some segments has keys relative to the bucket, not to the folder of the store."""
    more = [word for item in private_keys(tmp_path).items() for word in ("--private-key", "=".join(item))]
    status, findings, done = verify(f"{scheme}{stores('aiven')}/cold", log_dirs("aiven"), "--deep", *more)
    assert (status, findings) == (0, [])
    assert done["read"] == done["segments"] > 40


def changed_objects(variant, top):
    """Return the objects that the variant changed, added or removed."""
    found = set()
    for line in (TOP / "damaged" / variant / "changes.txt").read_text().splitlines():
        what, path, *rest = line.split("\t")
        if what == "drop-tree":
            found |= {str(one.relative_to(TOP / "clean")) for one in (TOP / "clean" / path).rglob("*") if one.is_file()}
        elif what == "copy":
            found.add(rest[0])
        elif what == "rename":
            found |= {path, rest[0]}
        else:
            found.add(path)
    return {path for path in found if (top / path).is_file() or (TOP / "clean" / path).is_file()}


@pytest.mark.skipif("clean" not in SETS, reason="the variants are of the set clean")
@pytest.mark.parametrize("variant", VARIANTS)
def test_verify_names_the_changed_objects_of_a_damaged_store(variant, tmp_path):
    top = damaged(variant, tmp_path / "top")
    status, findings, _ = verify(str(top / "remote"), [str(top / "d0"), str(top / "d1")], "--deep")
    assert status == 4
    assert {row["file"].removeprefix(f"{top}/") for row in findings} == changed_objects(variant, top)


@OWN_ONLY
def test_quiet_prints_problems_only_and_verbose_says_what_to_do(tmp_path):
    done = kafkalog("remote", "verify", "-q", "--store", stores("clean"), *log_dirs("clean"))
    assert (done.status, done.out, done.err) == (0, b"", "")
    top = damaged("flipped-in-record", tmp_path / "top")
    words = ("--store", str(top / "remote"), "--deep", str(top / "d0"), str(top / "d1"))
    quiet, verbose = kafkalog("remote", "verify", "-q", *words), kafkalog("remote", "verify", "-v", *words)
    assert (quiet.status, quiet.out, verbose.status) == (4, b"", 4)
    assert "[remote-object-" in quiet.err
    assert "  why  " not in quiet.err
    assert "  why  " in verbose.err


def copied(name, tmp_path):
    """Return a writable copy of a store."""
    store = tmp_path / "store"
    shutil.copytree(stores(name), store)
    for path in [store, *store.rglob("*")]:
        path.chmod(path.stat().st_mode | 0o200)
    return store


@OWN_ONLY
@pytest.mark.parametrize(("suffix", "at", "said"), [
    (".txnindex", 9, "no abort marker of producer"), (".txnindex", 17, "does not begin at offset"), (".txnindex", 25, ""),
    (".txnindex", 26, "last stable offset"), (".log", 12, "has leader epoch -"), (".leader_epoch_checkpoint", -1, "not as brokers write it"),
])  # fmt: skip
def test_parts_without_a_checksum_are_compared_with_the_log(suffix, at, said, tmp_path):
    store = copied("clean", tmp_path)
    with_data = [path for path in sorted(store.rglob(f"*{suffix}")) if path.stat().st_size]
    begins_here = (path for path in with_data if int.from_bytes(path.read_bytes()[10:18]) >= int(path.name[:20]))  # its transaction
    changed = next(begins_here) if suffix == ".txnindex" else with_data[0]
    data = bytearray(changed.read_bytes())
    data[at] ^= 0x80 if suffix == ".log" else 1
    changed.write_bytes(data)
    status, findings, _ = verify(str(store), log_dirs("clean"), "--deep")
    assert (status, {row["file"] for row in findings}) == (4, {str(changed)})
    assert said in findings[0]["what"]


@OWN_ONLY
@pytest.mark.parametrize(("suffix", "first", "last", "said"), [
    (".txnindex", 10, 18, "does not begin at offset 0"), (".txnindex", 26, 34, "last stable offset 0, by the log"), (".index", 0, 8, "entry 0"), (".index", 4, 8, "entry 0"),
])  # fmt: skip
def test_zeros_that_could_be_right_elsewhere_are_found(suffix, first, last, said, tmp_path):
    """A transaction may begin in an earlier segment: the snapshot of that one shows which are open."""
    store = copied("clean", tmp_path)
    changed = next(path for path in sorted(store.rglob(f"tx-0-*/*{suffix}")) if path.stat().st_size and int(path.name[:20]) > 50)
    data = bytearray(changed.read_bytes())
    assert any(data[first:last])
    data[first:last] = bytes(last - first)
    changed.write_bytes(data)
    status, findings, _ = verify(str(store), log_dirs("clean"), "--deep", "--topic", "tx")
    assert (status, {row["file"] for row in findings}) == (4, {str(changed)})
    assert said in findings[0]["what"]


@OWN_ONLY
def test_an_earlier_leader_epoch_is_compared_with_the_metadata_of_other_segments(tmp_path):
    store = copied("clean", tmp_path)
    changed = max(store.rglob("epochs-0-*/*.leader_epoch_checkpoint"))
    lines = changed.read_text().splitlines()
    assert len(lines) > 4
    epoch, start = lines[3].split()
    lines[3] = f"{epoch} {int(start) + 1}"
    changed.write_text("".join(f"{line}\n" for line in lines))
    status, findings, _ = verify(str(store), log_dirs("clean"), "--deep", "--topic", "epochs")
    assert (status, {row["file"] for row in findings}) == (4, {str(changed)})
    assert f"leader epoch {epoch} begins at offset {int(start) + 1}, by the metadata of another segment at {start}" in findings[0]["what"]


@OWN_ONLY
@pytest.mark.parametrize("place", [0.2, 0.4])
def test_the_first_offset_of_the_first_leader_epoch_is_compared_with_other_copies(place, tmp_path):
    store = copied("clean", tmp_path)
    all_copies = sorted(store.glob("*/plain-0-*/*.leader_epoch_checkpoint"))
    changed = all_copies[int(place * len(all_copies))]
    version, count, first, *others = changed.read_text().splitlines()
    epoch, start = map(int, first.split())
    changed.write_text("".join(f"{line}\n" for line in (version, count, f"{epoch} {start + 1}", *others)))
    status, findings, _ = verify(str(store), log_dirs("clean"), "--deep", "--topic", "plain")
    assert (status, {row["file"] for row in findings}) == (4, {str(changed)})
    assert "its first leader epoch 0 begins at offset 1, unlike" in findings[0]["what"]


@pytest.mark.skipif("clean" not in SETS, reason="another corpus")
def test_an_index_of_aborted_transactions_must_be_complete(tmp_path):
    store = copied("clean", tmp_path)
    changed = next(path for path in sorted(store.rglob("*.txnindex")) if path.stat().st_size > 34)
    changed.write_bytes(changed.read_bytes()[:-34])
    status, findings, _ = verify(str(store), log_dirs("clean"), "--deep")
    assert (status, {row["file"] for row in findings}) == (4, {str(changed)})
    assert "has no entry" in findings[0]["what"]


@pytest.mark.skipif("clean" not in SETS, reason="another corpus")
@pytest.mark.parametrize("place", [0.0, 0.4, 1.0])
def test_no_entry_of_a_time_index_may_be_missing(place, tmp_path):
    store, changed = copied("clean", tmp_path), set()
    for path in store.rglob("*.timeindex"):
        data, count = path.read_bytes(), path.stat().st_size // 12
        if count > 1:
            at = round((count - 1) * place) * 12
            path.write_bytes(data[:at] + data[at + 12 :])
            changed.add(str(path))
    status, findings, _ = verify(str(store), log_dirs("clean"), "--deep")
    assert len(changed) > 40
    assert (status, {row["file"] for row in findings}) == (4, changed)


@pytest.mark.skipif("aiven" not in SETS, reason="another corpus")
@pytest.mark.parametrize(("old", "new"), [(b'"endOffset":', b'"endOffset":1'), (b'"version":"1"', b'"version":"2"'), (b'"topicId":"', b'"topicId":"A')])
def test_a_changed_manifest_is_named(old, new, tmp_path):
    store = copied("aiven", tmp_path)
    more = [word for item in private_keys(tmp_path).items() for word in ("--private-key", "=".join(item))]
    changed = min(store.rglob("*.rsm-manifest"))
    changed.write_bytes(changed.read_bytes().replace(old, new))
    status, findings, _ = verify(str(store), log_dirs("aiven"), "--deep", *more)
    assert (status, [row["file"] for row in findings]) == (4, [str(changed)])


def test_a_sample_reads_the_given_number_of_segments():
    _, findings, done = verify(stores("clean"), log_dirs("clean"), "--sample", "7")
    assert (findings, done["read"]) == ([], 7)


@OWN_ONLY
def test_a_topic_alone_leaves_other_objects_unnamed():
    status, findings, done = verify(stores("clean"), log_dirs("clean"), "--topic", "plain")
    assert (status, findings) == (0, [])
    assert 0 < done["segments"] < 20


@OWN_ONLY
def test_the_text_first_says_how_much_is_read():
    done = kafkalog("remote", "verify", "--deep", "--topic", "plain", "--store", stores("clean"), *log_dirs("clean"))
    first, last = done.out.decode().splitlines()
    assert (done.status, first.startswith("reading "), "requests" in first, last.endswith("all segments were read")) == (0, True, True, True)


def test_a_missing_store_is_a_usage_error():
    done = kafkalog("remote", "verify", *log_dirs("clean"))
    assert (done.status, "name the store: --store URL|DIR" in done.err) == (2, True)


@pytest.mark.skipif("clean" not in SETS, reason="another corpus")
@pytest.mark.parametrize("broken", [range(60, 61), range(60, 1000)])
def test_objects_that_cannot_be_read_are_not_damaged(broken, monkeypatch):
    """One of them is an error, and the rest is read. If no request succeeds, the command ends."""
    class Unsteady(FolderStore):
        calls = 0

        def read_whole(self, key, limit):
            Unsteady.calls += 1
            if Unsteady.calls in broken:
                raise UnreadableFile(f"{self.path(key)}: 503 Slow Down", path=self.path(key))
            return super().read_whole(key, limit)

    monkeypatch.setattr(access, "FolderStore", Unsteady)
    status, errors, done = verify(stores("clean"), log_dirs("clean"), "--deep")
    assert status == 8
    assert {row["type"] for row in errors} == {"error"}
    assert all("503 Slow Down" in json.dumps(row) for row in errors)
    if len(broken) == 1:
        assert (len(errors), done["read"]) == (1, done["segments"] - 1)
    else:
        assert len(errors) == 3
        assert 0 < done["read"] < 20


@pytest.mark.skipif("aiven" not in SETS, reason="another corpus")
def test_without_the_private_key_encrypted_segments_are_not_damaged():
    done = kafkalog("remote", "verify", "--deep", "--store", stores("aiven"), *log_dirs("aiven"))
    assert (done.status, "--private-key k" in done.err, "damaged" in done.err) == (2, True, False)
