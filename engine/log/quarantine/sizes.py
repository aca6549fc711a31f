"""No file gets more bytes by restoring than it had before the command: of which a manifest may claim anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.formats import LONG_MAX
from engine.layout import file_name, parent_of
from engine.log.quarantine.manifest import MAX_KEPT_SIZE, Do

if TYPE_CHECKING:
    from engine.log.quarantine.manifest import Manifest


def too_large(manifest: Manifest) -> dict[int, int]:
    """By number, the entries that would give a file more bytes than it had, and how many.

    What it had is known from the listing of its directory, until the command made the file longer.
    """
    had = {directory: {name: stamp.size for name, stamp in files.items()} for directory, files in manifest.before.items()}
    found: dict[int, int] = {}
    for number, entry in enumerate(manifest.entries):
        if entry is None:
            continue
        path = entry.to if entry.do is Do.RENAME and entry.to is not None else entry.path  # whose bytes it tells of
        size = (entry.size or 0) + (entry.position or 0)
        known = had.get(parent_of(path), {})
        # a listing may claim anything, too; what was removed is renamed back, and gets no byte that it does not have
        limit = LONG_MAX if entry.do is Do.REMOVE else MAX_KEPT_SIZE
        if size > min(known.get(file_name(path), limit), limit):
            found[number] = size
        if entry.do is Do.RENAME:
            _rename(had, entry.path, path)
        elif entry.do is not Do.TIME:
            known.pop(file_name(path), None)  # what is written to it from here on is the command's own
    return found


def _rename(had: dict[str, dict[str, int]], path: str, to: str) -> None:
    for directory in [one for one in had if f"{one}/".startswith(f"{path}/")] if path in had else ():
        had[to + directory[len(path) :]] = had.pop(directory)
    had.get(parent_of(to), {}).pop(file_name(to), None)
    size = had.get(parent_of(path), {}).pop(file_name(path), None)
    if size is not None and parent_of(to) in had:
        had[parent_of(to)][file_name(to)] = size
