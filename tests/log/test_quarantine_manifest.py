"""A manifest that is not what was written is refused, or what it says is right all the same."""

from __future__ import annotations

import json
import os
import tempfile
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import UnwritableFile
from engine.files import Files, ReadOnlyFiles, WritableFile
from engine.log.quarantine.kept import State, describe
from engine.log.quarantine.manifest import (
    MANIFEST,
    Do,
    Entry,
    ManifestWriter,
    QuarantineDamaged,
    read_manifest,
    read_summary,
)
from engine.log.quarantine.quarantining_files import QuarantiningFiles
from engine.log.quarantine.restore import ChangedSince, restore
from engine.log.quarantine.stamps import Stamp
from tests.support.file_work import make_tree, tree

NOW = 1_700_000_000_000
KEPT = {"size": 1, "stored": "000001-a", "sha256": "00", "modified_ns": 1, "mode": 0o600}
WHOLE = {  # a line of every kind
    "create": {}, "grow": {"size": 1, "modified_ns": 1}, "cut": {"position": 1, **KEPT}, "rename": {"to": "/d/b", **KEPT},
    "remove": KEPT, "time": {"modified_ns": -1}, "make-directory": {}, "remove-directory": {}, "refused": {"position": 0},
    "list": {"files": {"a": [1, 2, 0o644]}},
}  # fmt: skip
ODD = (None, True, -1, 1.5, 2**63, 10**400, float("inf"), "", "1", "\ud800", [], [1], {}, {"a": 1}, {"a": {"b": [[]]}})


def work(files, top):
    """Every kind of change."""
    with files.open_writable(f"{top}/a") as file:
        file.truncate(20)
    with files.open_writable(f"{top}/d/b") as file:
        file.write_at(3000, b"longer")
    files.rename(f"{top}/a", f"{top}/b", replaces=True)
    files.remove(f"{top}/d/a")
    files.open_writable(f"{top}/new", create=True).close()
    files.set_modified(f"{top}/d/b", 5)
    files.remove(f"{top}/d/e/f")
    files.remove_directory(f"{top}/d/e")
    files.make_directory(f"{top}/made")
    with pytest.raises(UnwritableFile):
        files.remove_directory(f"{top}/d")


def worked(top):
    """(directory, quarantine) of a command that did `work`."""
    data, kept = f"{top}/data-0", f"{top}/kept"
    Path(data).mkdir()
    make_tree(Path(data))
    files = QuarantiningFiles(Files(), kept, command="test", now=NOW, log_dirs=(top,))
    work(files, data)
    files.finish()
    return data, kept


def at_depth(value, way):
    """(the object that holds it, its key) for a place in `value`, chosen by `way`."""
    holder, key = None, None
    for step in way:
        if not isinstance(value, dict | list) or not value:
            break
        keys = sorted(value) if isinstance(value, dict) else range(len(value))
        holder, key = value, keys[step % len(keys)]
        value = value[key]
    return holder, key


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 40), st.lists(st.integers(0, 40), min_size=1, max_size=4), st.sampled_from(ODD) | st.just("drop"),
       st.sampled_from([{}, {"salvage": True}, {"force": True}]))  # fmt: skip
def test_an_edited_manifest_is_refused_or_right(number, way, value, options):
    with tempfile.TemporaryDirectory() as top:
        data, kept = worked(top)
        before = dict(tree(ReadOnlyFiles(), data))
        lines = [json.loads(line) for line in Path(kept, MANIFEST).read_text().splitlines()]
        holder, key = at_depth(lines[number % len(lines)], way)
        if value == "drop":
            del holder[key]
        else:
            holder[key] = value
        Path(kept, MANIFEST).write_text("".join(json.dumps(line) + "\n" for line in lines))
        try:
            done = restore(Files(), kept, **options)
        except (QuarantineDamaged, ChangedSince):
            assert tree(ReadOnlyFiles(), data) == before
            return
        if "salvage" in options:
            return  # what can be undone is undone
        make_tree(Path(top, "wanted"))
        assert (done.differences, tree(ReadOnlyFiles(), data)) == ([], tree(ReadOnlyFiles(), f"{top}/wanted"))


def manifest_of(tmp_path, line):
    tmp_path.joinpath(MANIFEST).write_text("".join(json.dumps(one) + "\n" for one in (
        {"quarantine": 1, "command": "test", "created_ms": 1, "log_dirs": ["/d"]}, {"do": "create", "path": "/d/x"}, line)))  # fmt: skip
    return str(tmp_path)


@pytest.mark.parametrize("do", Do)
def test_every_kind_of_line_has_its_fields_and_no_others(tmp_path, do):
    whole = {"do": do.value, "path": "/d/a", **WHOLE[do.value]}
    assert len(read_manifest(Files(), manifest_of(tmp_path, whole)).entries) == 2
    for name, right in whole.items():
        with pytest.raises(QuarantineDamaged, match="line 3 is invalid"):
            read_manifest(Files(), manifest_of(tmp_path, {key: value for key, value in whole.items() if key != name}))
        for value in (None, True, 1.5, [], "1" if isinstance(right, int) else 1, 10**40):
            with pytest.raises(QuarantineDamaged, match="line 3 is invalid"):
                read_manifest(Files(), manifest_of(tmp_path, whole | {name: value}))
    for name, value in (("other", 1), ("position", 1), ("to", "/d/c")):
        if name not in whole:
            with pytest.raises(QuarantineDamaged, match="line 3 is invalid"):
                read_manifest(Files(), manifest_of(tmp_path, whole | {name: value}))


@pytest.mark.parametrize("change", [{"created_ms": "now"}, {"command": 5}, {"log_dirs": [5]}, {"log_dirs": "/d"}, {"quarantine": 2}])
def test_a_first_line_that_makes_no_sense_is_refused(tmp_path, change):
    line = {"quarantine": 1, "command": "test", "created_ms": 1, "log_dirs": ["/d"], **change}
    (tmp_path / MANIFEST).write_text(json.dumps(line) + "\n")
    with pytest.raises(QuarantineDamaged):
        read_manifest(Files(), str(tmp_path))


class _File(WritableFile):
    fails = False

    def sync(self):
        if self.fails and self.path.endswith(MANIFEST):
            raise UnwritableFile(f"{self.path}: the disk is failing")
        super().sync()


class FailingFiles(Files):
    _opened_writable = _File


def test_a_refusal_behind_a_failed_sync_is_that_of_its_own_line(tmp_path, monkeypatch):
    data = tmp_path / "data-0"
    data.mkdir()
    make_tree(data)
    before = tree(ReadOnlyFiles(), str(data))
    files = QuarantiningFiles(FailingFiles(), str(tmp_path / "kept"), command="test", now=NOW, log_dirs=(str(tmp_path),))
    files.remove(f"{data}/b")
    monkeypatch.setattr(_File, "fails", True)
    with pytest.raises(UnwritableFile, match="failing"):
        files.remove(f"{data}/a")
    monkeypatch.undo()
    files.open_writable(f"{data}/d/c", create=True).close()
    files.remove(f"{data}/d/a")
    with pytest.raises(UnwritableFile, match="not empty"):
        files.remove_directory(f"{data}/d/e")
    files.finish()
    assert restore(Files(), str(tmp_path / "kept")).differences == []
    assert tree(ReadOnlyFiles(), str(data)) == before


# ---- in short, for a list


@pytest.mark.parametrize("hole", ["behind the header", "in the header", "in what was restored"])
def test_a_list_takes_little_memory(tmp_path, hole):
    """Anybody may put a sparse file where somebody else looks for quarantines."""
    (tmp_path / "files").mkdir()
    header = json.dumps({"quarantine": 1, "command": "recover", "created_ms": 1, "log_dirs": ["/d"]}).encode() + b"\n"
    (tmp_path / "manifest.jsonl").write_bytes(b"{" if hole == "in the header" else header)
    (tmp_path / "restored").write_bytes(b"+\n" if hole == "in what was restored" else b" ")
    name, size = ("restored", 1 << 25) if hole == "in what was restored" else ("manifest.jsonl", 1 << 28)
    os.truncate(tmp_path / name, size)
    tracemalloc.start()
    try:
        kept = describe(Files(), str(tmp_path))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert kept.state is {"behind the header": State.UNFINISHED, "in the header": State.DAMAGED}.get(hole, State.HALF_RESTORED)
    assert peak < 5 * (1 << 25)


@pytest.mark.parametrize("length", [1, 100, (1 << 20) - 90, 1 << 20, 3 << 20])
def test_a_summary_is_that_of_the_whole_manifest(tmp_path, length):
    """Wherever lines end in what is read at a time."""
    (tmp_path / "files").mkdir()
    writer = ManifestWriter(Files(), str(tmp_path), "recover", 1, ("/d",))
    for path in ("/d/a", "/d/" + "b" * length, "/d/c"):
        writer.append(Entry(Do.MAKE_DIRECTORY, path))
    writer.close({"/d/" + "e" * length: Stamp(1, 2, 0o644)})
    found = read_summary(Files(), str(tmp_path))
    assert found == ("recover", 1, ("/d",), 3, True, True)
    path = tmp_path / "manifest.jsonl"
    data = path.read_bytes()
    for changed, expected in ((data.replace(b"/d/a", b"/d/x"), (3, True, False)), (data[:-1], (3, False, False)),
                              (data + b"{", (3, True, False)), (data.rpartition(b"{\"left")[0], (3, False, False))):  # fmt: skip
        path.write_bytes(changed)
        assert read_summary(Files(), str(tmp_path))[3:] == expected
        whole = read_manifest(Files(), str(tmp_path), salvage=True)
        assert (len(whole.entries), whole.left is not None) == expected[:2]
