"""Files in a partition directory whose names hold no offset, where a broker that starts asks for one and fails.

Mirrors the file names that LogLoader.load and ProducerStateManager.listSnapshotFiles ask for their offset.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from engine.files import look
from engine.layout import FileKind, file_name, offset_of, parse_file_name
from engine.log.logdir.cluster_metadata import METADATA_DIR

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from engine.files import ReadOnlyFiles

KINDS = frozenset((
    FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TRANSACTION_INDEX, FileKind.PRODUCER_SNAPSHOT,
))  # fmt: skip
_SUFFIXES = (*(kind.value for kind in KINDS), ".cleaned", ".swap")


class Nameless(NamedTuple):
    """One such file. `said`: what the broker says when it meets it before all others."""

    name: str
    kind: FileKind
    said: str


def nameless(files: ReadOnlyFiles, directory: str, names: Iterable[str]) -> Iterator[Nameless]:
    """Those among the `names` in the partition at `directory`, in order."""
    for name in sorted(name for name in names if name.endswith(_SUFFIXES) and offset_of(name) is None):
        info = look(files, f"{directory}/{name}")
        if info is None or not info.is_file:
            continue
        parsed = parse_file_name(name)
        number = name.partition(".")[0]
        said = f'java.lang.NumberFormatException: For input string: "{number}"'
        if file_name(directory) != METADATA_DIR:  # which is loaded before all others, apart from them
            said = f"There was an error in one of the threads during logs loading: {said}"
        yield Nameless(name, FileKind.LOG if parsed is None else parsed.kind, said)
