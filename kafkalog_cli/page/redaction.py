"""Replace names in what a report shows: topics, directories, ids and foreign files. The same name has the same replacement.

The module stands alone: no other part of a page may see both names.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from engine.discovery.names import INTERNAL_TOPICS, METADATA_TOPIC, parse_file_name

if TYPE_CHECKING:
    from collections.abc import Iterable

_KEPT = frozenset((*INTERNAL_TOPICS, METADATA_TOPIC, "__remote_log_metadata"))  # topics that every cluster has
_AWAY = "…"
_ABSOLUTE = re.compile(r"(?<![\w.…/-])/[^\s\"'`;,()]+")
_INSIDE = re.compile(r"dir-\d+(?:/[^\s\"'`;,():]+)+")


class Redaction:
    """Replaces names in texts. Internal topics keep theirs.

    topics     in the order in which they are numbered
    log_dirs   all spellings of each log dir
    ids        of clusters, directories and topics
    foreign    names of files and directories that are not Kafka's
    """

    def __init__(
        self, topics: Iterable[str], log_dirs: Iterable[Iterable[str]], ids: Iterable[str], foreign: Iterable[str] = ()
    ) -> None:
        self._names = {name: f"topic-{number}" for number, name in enumerate((one for one in topics if one not in _KEPT), 1)}
        self._places = {path.rstrip("/"): f"dir-{number}" for number, paths in enumerate(log_dirs, 1) for path in paths}
        self._ids = {one: f"id-{number}" for number, one in enumerate(dict.fromkeys(ids), 1)}
        self._known = {**dict.fromkeys(foreign, _AWAY), **self._names, **self._ids}
        self._words = self._pattern(self._known)
        self._paths = self._pattern(self._places)

    @staticmethod
    def _pattern(names: Iterable[str]) -> re.Pattern[str] | None:
        longest_first = sorted((one for one in names if one.strip("./")), key=lambda one: -len(one))
        return re.compile(rf"(?<![\w.-])(?:{'|'.join(map(re.escape, longest_first))})(?!\w|\.\w)") if longest_first else None

    def __call__(self, text: str) -> str:
        """Return the text without names."""
        if self._paths is not None:
            text = self._paths.sub(lambda found: self._places[found[0]], text)
        text = _ABSOLUTE.sub(_AWAY, text)
        if self._words is not None:
            text = self._words.sub(lambda found: self._known[found[0]], text)
        return _INSIDE.sub(lambda found: self._inside(found[0]), text)

    def _inside(self, path: str) -> str:
        """Return a path in a log dir, without the names of files and directories that are not Kafka's."""
        top, *parts = path.split("/")
        return "/".join((top, *(part if self._is_known(part) else _AWAY for part in parts)))

    def _is_known(self, part: str) -> bool:
        topic = re.sub(r"-\d+(?:\.[0-9a-f]+-(?:delete|future|stray))?$", "", part)
        return parse_file_name(part) is not None or topic in self._names.values() or topic in _KEPT
