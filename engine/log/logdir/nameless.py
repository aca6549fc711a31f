"""Files in a partition directory whose names hold no offset, where a broker that starts asks for one and fails.

Mirrors the file names that LogLoader.load and ProducerStateManager.listSnapshotFiles ask for their offset.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from engine.files import look
from engine.layout import FileKind, file_name, log_file_name, offset_of, parse_file_name
from engine.log.logdir.cluster_metadata import METADATA_DIR
from engine.record.batch import read_batches

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from engine.files import ReadOnlyFiles
    from engine.findings import Finding

KINDS = frozenset((
    FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TRANSACTION_INDEX, FileKind.PRODUCER_SNAPSHOT,
))  # fmt: skip
_SUFFIXES = (*(kind.value for kind in KINDS), ".cleaned", ".swap")


class Nameless(NamedTuple):
    """One such file. `said`: what the broker says when it meets it before all others."""

    name: str
    kind: FileKind
    said: str


class Content(NamedTuple):
    """The sound batches at the beginning of such a file: where they begin, the offset behind them, how many records."""

    first_offset: int
    end_offset: int
    records: int

    @property
    def advice(self) -> str:
        """What may be done with it."""
        return f"as {log_file_name(self.first_offset)} a broker would read it"


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


def content(files: ReadOnlyFiles, path: str) -> Content | None:
    """What batches the file at `path` holds; None: it begins with none that is sound. Raises UnreadableFile."""
    findings: list[Finding] = []
    found = None
    with files.open(path) as file:
        for batch in read_batches(file, findings.append):
            if findings:
                break
            first, records = (batch.base_offset, 0) if found is None else (found.first_offset, found.records)
            found = Content(first, batch.last_offset + 1, records + max(1, batch.record_count or 1))
    return found
