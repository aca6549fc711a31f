"""Would a start cut the metadata log? Asked before anything else is touched: with it every topic goes.

A batch that a crash left unfinished at the very end was never acknowledged; its loss is none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from engine.formats import BatchField
from engine.layout import FileKind, parse_file_name
from engine.record.windows import LogWalk, Stop, only_zeros

if TYPE_CHECKING:
    from engine.files import OpenFile, ReadOnlyFiles

_UNWRITTEN = 16  # zeros at the end, more than any batch has there


class MetadataProof(NamedTuple):
    """Where a start would cut.

    is_lossy      records that were acknowledged would go
    segment, file, position, offset   base offset and name of the segment, byte position in it, offset: of the damage
    lost_batches  sound batches behind it
    """

    is_lossy: bool
    what: str = ""
    segment: int = 0
    file: str = ""
    position: int = 0
    offset: int = 0
    lost_batches: int = 0


def prove_metadata_log(files: ReadOnlyFiles, directory: str) -> MetadataProof:
    """Walk the whole metadata log in `directory`. Raises UnreadableFile."""
    logs = sorted(
        (parsed.base_offset, name)
        for name in files.list(directory)
        if (parsed := parse_file_name(name)) is not None and parsed.kind is FileKind.LOG and not parsed.suffix
        and parsed.base_offset is not None
    )
    damage: MetadataProof | None = None
    lost = 0
    for number, (base, name) in enumerate(logs):
        with files.open(f"{directory}/{name}") as file:
            if damage is not None:
                lost += _count_sound(file)
                continue
            damage, lost = _damage(file, base, name, is_last=number + 1 == len(logs))
    if damage is None:
        return MetadataProof(False)
    return damage._replace(lost_batches=lost, is_lossy=damage.is_lossy or lost > 0)


def _damage(file: OpenFile, base: int, name: str, *, is_last: bool) -> tuple[MetadataProof | None, int]:
    """(the first damage in `file`, sound batches behind it)."""
    walk = LogWalk(file)
    offset, lost = base, 0
    damage: MetadataProof | None = None
    is_unwritten = False  # what stands there may be the rest of a write that a crash left
    goes_on = True
    while goes_on:
        for window in walk:
            table = window.batches.table
            for row in range(window.rows):
                if damage is not None:
                    lost += table[BatchField.VALID, row] == 1
                elif table[BatchField.VALID, row] == 1:
                    offset = table[BatchField.LAST_OFFSET, row] + 1
                else:
                    position = window.base + table[BatchField.POSITION, row]
                    what = f"the checksum of the batch at byte {position} is wrong"
                    damage, is_unwritten = MetadataProof(True, what, base, name, position, offset), _ends_in_zeros(file)
        if damage is None and walk.stop is not Stop.END:
            what = f"no whole batch begins at byte {walk.position}, {walk.end - walk.position} bytes are left"
            damage = MetadataProof(True, what, base, name, walk.position, offset)
            is_unwritten = walk.stop is Stop.TORN or only_zeros(file, walk.position, file.size())
        goes_on = walk.stop is not Stop.END and walk.resynchronise() is not None
    if damage is not None:
        damage = damage._replace(is_lossy=not is_last or lost > 0 or not is_unwritten or walk.gave_up is not None)
    return damage, lost


def _ends_in_zeros(file: OpenFile) -> bool:
    """Is the end of the file space that was never written, as a power cut leaves it in the last batch?"""
    return not any(file.read(max(0, file.size() - _UNWRITTEN), _UNWRITTEN))


def _count_sound(file: OpenFile) -> int:
    """Batches of `file` whose checksums are right, also behind damage."""
    walk, count, goes_on = LogWalk(file), 0, True
    while goes_on:
        count += sum(window.batches.table[BatchField.VALID, row] == 1 for window in walk for row in range(window.rows))
        goes_on = walk.stop is not Stop.END and walk.resynchronise() is not None
    return count
