"""The last commit of the sink is undone after it came to its end, as long as nobody wrote to its partitions since."""

from __future__ import annotations

import json
import shutil

import pytest

from engine.discovery.paths import MANIFEST
from engine.files import Files
from tests.support.json_output import objects_of
from tests.support.run import kafkalog
from tests.support.sink_runs import SinkRun, batch, read

FILES = Files()
BEFORE = {"t-0": [(0, b"a"), (1, b"a")], "u-0": [(0, b"b")]}


def tree(top):
    """By path, what each file below `top` holds; None: a directory."""
    return {str(path.relative_to(top)): path.read_bytes() if path.is_file() else None for path in sorted(top.rglob("*"))}


def write(root, name, *values, partition=0, how=None, **options):
    """Rows of (topic, value)."""
    rows = batch(value=[value for _, value in values], topic=[topic for topic, _ in values], partition=[partition] * len(values))
    return SinkRun(FILES, root, name=name, **options).write([rows], **(how or {}))


@pytest.fixture
def root(tmp_path):
    """A log dir with a commit, after which another one appends to `t`, and makes `n`."""
    path = str(tmp_path / "logs")
    write(path, "first", ("t", b"a"), ("u", b"b"), ("t", b"a"))
    write(path, "second", *[("t", b"c%d" % number) for number in range(5)], ("n", b"d"), kafka__batch__size="1", topic__segment__bytes="200")
    assert len(read(FILES, path)["t-0"]) == 7
    return path


def quarantines(tmp_path):
    return sorted(str(path) for path in tmp_path.glob("logs.quarantine-*"))


def same(files):
    """Without what restoring leaves, and what says nothing of records."""
    return {name: held for name, held in files.items() if name.rpartition("/")[2] not in (".lock", MANIFEST)}


def test_a_commit_is_undone_and_that_as_well(root, tmp_path):
    written = same(tree(tmp_path / "logs"))
    listed = kafkalog("restore", "--list", root).out.decode()
    assert f"{root}/{MANIFEST}: a write of Spark's sink of {root}, 2023-11-14T22:13:20.000Z, 0 bytes: can be undone" in listed
    done = kafkalog("restore", f"{root}/{MANIFEST}")
    assert done.status == 0, done.err
    assert f"truncated {root}/t-0 to offset 2, 5 offsets" in done.out.decode()
    assert f"removed {root}/n-0, 1 offset" in done.out.decode()
    assert read(FILES, root) == BEFORE
    assert FILES.exists(f"{root}/.kafka_cleanshutdown")
    assert "n 0" not in (tmp_path / "logs/recovery-point-offset-checkpoint").read_text()
    again = kafkalog("restore", f"{root}/{MANIFEST}")
    assert (again.status, b"nothing to undo" in again.out) == (0, True)
    [kept] = quarantines(tmp_path)
    assert MANIFEST not in kafkalog("restore", "--list", root).out.decode()
    assert kafkalog("restore", kept).status == 0
    assert same(tree(tmp_path / "logs")) == written
    assert kafkalog("restore", f"{root}/{MANIFEST}").status == 0
    assert read(FILES, root) == BEFORE


def test_the_log_is_byte_for_byte_as_before(tmp_path):
    root, logs = str(tmp_path / "logs"), tmp_path / "logs"
    write(root, "first", ("t", b"a"), ("u", b"b"), topic__segment__bytes="200")
    before = {name: held for name, held in tree(logs).items() if name.endswith(".log")}
    for number in range(3):  # into the active segment, and further ones
        rows = [("t", b"%d" % one * 40) for one in range(number * 4 + 1)]
        write(root, f"more-{number}", *rows, topic__segment__bytes="200", kafka__batch__size="1")
        assert kafkalog("restore", f"{root}/{MANIFEST}").status == 0
        assert {name: held for name, held in tree(logs).items() if name.endswith(".log")} == before
        assert kafkalog("verify", f"{root}/t-0", f"{root}/u-0").status == 0


def test_a_dry_run_changes_nothing(root, tmp_path):
    before = tree(tmp_path)
    done = kafkalog("restore", "--dry-run", "--format", "json", f"{root}/{MANIFEST}")
    assert done.status == 0, done.err
    lines = objects_of(done.out)
    assert [line.get("action") for line in lines] == ["removed", "truncated", None]
    assert (lines[-1]["dry_run"], lines[-1]["commit"]) == (True, "second")
    assert tree(tmp_path) == before


def append(root, name, text="x"):
    source = f"{root}/../input"
    with open(source, "w") as file:
        file.write(text)
    return kafkalog("append", "--input-format", "text", "--input", source, f"{root}/{name}")


@pytest.mark.parametrize(("change", "said"), [
    (lambda root: append(root, "t-0"), "and 1 offset appended after it"),
    (lambda root: append(root, "n-0"), "and 1 offset appended after it"),
    (lambda root: kafkalog("truncate", "--to", "3", f"{root}/t-0"), "it ends at offset 3 now: it was truncated since"),
    (lambda root: shutil.rmtree(f"{root}/t-0"), "it no longer exists"),
    (lambda root: kafkalog("delete-records", "--before", "4", f"{root}/t-0"), "records before offset 4 were deleted since"),
])
def test_what_others_did_is_not_lost(change, said, root, tmp_path):
    done = change(root)
    assert done is None or done.status == 0, done.err
    before = tree(tmp_path / "logs")
    refused = kafkalog("restore", f"{root}/{MANIFEST}")
    assert refused.status == 8
    assert "error[not-undoable]" in refused.err
    assert said in refused.err
    assert same(tree(tmp_path / "logs")) == same(before)


def test_records_in_the_place_of_those_that_were_truncated(root):
    assert kafkalog("truncate", "--to", "2", f"{root}/t-0").status == 0
    assert append(root, "t-0", "1\n2\n3\n4\n5").status == 0
    refused = kafkalog("restore", f"{root}/{MANIFEST}")
    assert (refused.status, "its last batch is another one" in refused.err) == (8, True)


def test_a_segment_whose_batches_contradict_its_name_is_not_removed(root, tmp_path):
    *_, one, other, _last = sorted((tmp_path / "logs/t-0").glob("*.log"))
    data = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(data)
    before = same(tree(tmp_path / "logs"))
    refused = kafkalog("restore", f"{root}/{MANIFEST}")
    assert (refused.status, "its sound batches hold offsets" in refused.err) == (4, True), refused.err
    assert same(tree(tmp_path / "logs")) == before


def test_other_partitions_may_grow(root):
    assert append(root, "u-0").status == 0
    assert kafkalog("restore", f"{root}/{MANIFEST}").status == 0
    assert {name: len(rows) for name, rows in read(FILES, root).items()} == {"t-0": 2, "u-0": 2}


def test_only_the_last_commit_is_undone(root):
    write(root, "third", ("u", b"x"))
    assert kafkalog("restore", f"{root}/{MANIFEST}").status == 0
    assert {name: len(rows) for name, rows in read(FILES, root).items()} == {"n-0": 1, "t-0": 7, "u-0": 1}
    done = kafkalog("restore", f"{root}/{MANIFEST}")
    assert (done.status, b"nothing to undo" in done.out) == (0, True)


def test_what_was_replaced_is_not_there_to_be_put_back(root):
    write(root, "third", ("u", b"x"), how={"overwrite": True})
    assert MANIFEST not in kafkalog("restore", "--list", root).out.decode()
    refused = kafkalog("restore", f"{root}/{MANIFEST}")
    assert (refused.status, "deleted the previous records of u-0" in refused.err) == (8, True)
    assert read(FILES, root)["u-0"] == [(0, b"x")]


def test_the_log_dir_alone_names_no_commit_that_came_to_its_end(root):
    """Who undoes a stopped commit twice must not undo the one before it."""
    before = read(FILES, root)
    done = kafkalog("restore", root)
    assert (done.status, "not a quarantine" in done.err) == (8, True)
    assert read(FILES, root) == before


@pytest.mark.parametrize("written", [{"../logs/t-0": [0, 7, 1]}, {"t": [0, 7, 1]}, {"t-0": [0]}])
def test_a_manifest_that_makes_no_sense(written, root):
    manifest = json.loads(FILES.read(f"{root}/{MANIFEST}", 10_000))
    with open(f"{root}/{MANIFEST}", "w") as file:
        json.dump({**manifest, "written": written}, file)
    refused = kafkalog("restore", f"{root}/{MANIFEST}")
    assert (refused.status, "is invalid" in refused.err) == (8, True)


def test_quarantines_are_pruned_and_commits_are_not(root):
    done = kafkalog("restore", "--prune", "--older-than", "0s", root)
    assert done.status == 0
    assert MANIFEST in kafkalog("restore", "--list", root).out.decode()


@pytest.mark.parametrize("stop", range(40))
def test_undoing_that_was_stopped_goes_on(stop, root, monkeypatch):
    """Wherever it stops, another call completes it, or the quarantine of the first one does."""
    from engine.errors import UnwritableFile
    from engine.files import Files as Disk
    from kafkalog_cli.interruption import InterruptibleFiles

    left, rename, remove = [stop], Disk.rename, Disk.remove

    def counted(work):
        def run(self, *arguments, **values):
            left[0] -= 1
            if left[0] < 0:
                raise UnwritableFile("stopped")
            return work(self, *arguments, **values)
        return run

    with monkeypatch.context() as patch:
        assert issubclass(InterruptibleFiles, Disk)
        patch.setattr(Disk, "rename", counted(rename))
        patch.setattr(Disk, "remove", counted(remove))
        first = kafkalog("restore", f"{root}/{MANIFEST}")
    again = kafkalog("restore", f"{root}/{MANIFEST}")
    assert again.status == 0, (first.err, again.err)
    assert read(FILES, root) == BEFORE
