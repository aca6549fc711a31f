"""Nothing gets past the seam that keeps a log as it is, before it is released."""

from __future__ import annotations

import inspect

import pytest

from engine.files import Files, ReadOnlyFiles
from engine.files.layered import UnchangedFiles, WouldChange

LOOKING = {name for name, _ in inspect.getmembers(ReadOnlyFiles, inspect.isfunction)} | {"held_open", "held_for_deletion"}
CHANGING = sorted(name for name, _ in inspect.getmembers(Files, inspect.isfunction) if name not in LOOKING)


def test_every_method_is_its_own():
    for name, _method in inspect.getmembers(Files, inspect.isfunction):
        assert name.startswith("_") or getattr(UnchangedFiles, name) is not getattr(Files, name)


@pytest.mark.parametrize("name", CHANGING)
def test_what_would_change_something_says_so(tmp_path, name):
    (tmp_path / "a").write_bytes(b"1")
    method = getattr(UnchangedFiles(Files()), name)
    count = sum(one.default is inspect.Parameter.empty for one in inspect.signature(method).parameters.values())
    with pytest.raises(WouldChange):
        method(*[str(tmp_path / "a")] * count)
    assert (tmp_path / "a").read_bytes() == b"1"
