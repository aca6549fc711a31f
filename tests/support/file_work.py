"""Random work on a small tree of files through the file system interface, and the content afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from engine.errors import KafkalogError
from engine.files import replace

if TYPE_CHECKING:
    from pathlib import Path

    from engine.files import Files

BEFORE = {"a": b"0123456789" * 10, "b": b"", "d/a": b"x" * 5000, "d/b": bytes(3000), "d/e/f": b"deep"}
PATHS = ("a", "b", "c", "d/a", "d/b", "d/c", "d/e/f", "none/x")
DIRECTORIES = ("d", "d/e", "e", "d/g")

_paths = st.sampled_from(PATHS)
_any = st.sampled_from(PATHS + DIRECTORIES)
_places = st.integers(0, 6000) | st.integers(0, 120)
_data = st.binary(min_size=1, max_size=40)
_steps = (
    st.tuples(st.just("write"), _paths, _places, _data)
    | st.tuples(st.just("append"), _paths, _data)
    | st.tuples(st.just("truncate"), _paths, _places)
    | st.tuples(st.just("copy"), _paths, _paths, _places)
    | st.tuples(st.just("create"), _paths)
    | st.tuples(st.just("replace"), _paths, _data)
    | st.tuples(st.just("rename"), _any, _any, st.booleans())
    | st.tuples(st.just("remove"), _any)
    | st.tuples(st.just("make_directory"), _any)
    | st.tuples(st.just("remove_directory"), _any)
    | st.tuples(st.just("set_modified"), _paths, st.integers(0, 2**61))
    | st.tuples(st.just("keep"), _paths)
    | st.tuples(st.just("write kept"), _places, _data)
    | st.tuples(st.just("truncate kept"), _places)
)
works = st.lists(_steps, max_size=12)


def make_tree(top: Path) -> None:
    """Make the tree before the work."""
    for path, data in BEFORE.items():
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        (top / path).write_bytes(data)


def do_work(files: Files, top: str, steps: list[Any]) -> list[str | None]:
    """Do `steps` → the errors of failed steps, without paths."""
    kept: list[Any] = []
    refused: list[str | None] = []
    for step in steps:
        try:
            _do(files, top, step, kept)
            refused.append(None)
        except KafkalogError as error:
            refused.append(str(error).rpartition(": ")[2])
    for file in kept:
        file.close()
    return refused


def _do(files: Files, top: str, step: Any, kept: list[Any]) -> None:
    match step:
        case ("write", path, position, data):
            with files.open_writable(f"{top}/{path}") as file:
                file.write_at(position, data[:7], b"", data[7:])
        case ("append", path, data):
            with files.open_writable(f"{top}/{path}", create=True) as file:
                file.write_at(file.size(), data)
                file.sync()
        case ("truncate", path, size):
            with files.open_writable(f"{top}/{path}") as file:
                file.truncate(size)
        case ("copy", path, to, position):
            with files.open(f"{top}/{path}") as source, files.open_writable(f"{top}/{to}", create=True) as file:
                files.copy(source, min(3, source.size()), source.size(), file, position)
        case ("create", path):
            files.open_writable(f"{top}/{path}", create=True).close()
        case ("replace", path, data):
            replace(files, f"{top}/{path}", [data])
        case ("rename", path, to, replaces):
            files.rename(f"{top}/{path}", f"{top}/{to}", replaces=replaces)
        case ("set_modified", path, modified_ns):
            files.set_modified(f"{top}/{path}", modified_ns)
        case ("keep", path):
            kept.append(files.open_writable(f"{top}/{path}"))
        case ("write kept", position, data):
            if kept:
                kept[-1].write_at(position, data)
        case ("truncate kept", size):
            if kept:
                kept[-1].truncate(size)
        case (method, path):
            getattr(files, method)(f"{top}/{path}")


def tree(files: Any, top: str) -> dict[str, bytes | None]:
    """Return the content of every file below `top` as `files` reads it; None for directories."""
    found: dict[str, bytes | None] = {}
    for name in files.list(top):
        path = f"{top}/{name}"
        if files.info(path).is_directory:
            found[name] = None
            found.update({f"{name}/{below}": data for below, data in tree(files, path).items()})
        else:
            found[name] = files.read(path, 1 << 20)
            assert files.info(path).size == len(found[name])
            assert files.exists(path)
    return found
