"""Log dirs with one thing changed, and what a real broker did with each: preflight/ of the corpus `cluster`."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

from engine.config.server import decode_properties

if TYPE_CHECKING:
    from pathlib import Path


def cases(preflight: Path) -> list[str]:
    """The names of the cases."""
    return sorted(path.name for path in (preflight / "cases").iterdir())


def materialize(preflight: Path, name: str, to: Path) -> Path:
    """Make the log dirs of a case, and return their directory. A file in the place of a directory was a symbolic link."""
    case = json.loads((preflight / "cases" / name / "case.json").read_text())
    shutil.copytree(preflight / "base/n1", to, symlinks=True)
    replaced = set()
    for path in case["removed_from_base"]:
        place = to / path
        if place.is_dir():
            shutil.rmtree(place)
            replaced.add(place)
        else:
            place.unlink(missing_ok=True)
    before = preflight / "cases" / name / "before"
    for path in sorted(before.rglob("*")):
        place = to / path.relative_to(before)
        if path.is_dir():
            place.mkdir(parents=True, exist_ok=True)
        elif place in replaced and path.stat().st_size:
            place.symlink_to(path.read_text())
        elif path.name != ".keep":
            shutil.copyfile(path, place)
    return to


def server_properties(home: Path, options: dict[str, Any]) -> dict[str, str]:
    """The broker's configuration in a case, with the absolute paths of its log dirs."""
    values = dict(decode_properties((home / "server.properties").read_bytes()).values)
    dirs = [f"{home}/d0", f"{home}/d1"]
    if options.get("dirs") == 1:
        dirs.pop()
    if options.get("swap"):
        dirs.reverse()
        values["metadata.log.dir"] = f"{home}/d0"
    return {**values, "log.dirs": ",".join(dirs), **{name: str(value) for name, value in options.get("props", {}).items()}}
