"""Salvages in which segments take each other's names: after a stop the next salvage finds every valid batch."""

from __future__ import annotations

from engine.discovery.names import ASIDE
from engine.log.operations.recover import RecoverOptions, recover
from tests.crash.cases_manager import broker_sees, log_dir, managed
from tests.crash.partitions import batches_of, closed, name, segments
from tests.crash.sweep import Case
from tests.support.crash_files import CrashFiles

FIRST, SECOND, THIRD, LAST = (batches for _, batches in segments())
BASES = [0, 12, 23, 33, 50]
# the content of the files that are named after these offsets
PLACES = {
    "exchanged": [SECOND, FIRST, THIRD, LAST],
    "exchanged-ends": [LAST, SECOND, THIRD, FIRST],
    "two-exchanges": [SECOND, FIRST, LAST, THIRD],
    "rotated": [SECOND, THIRD, FIRST, LAST],
    "rotated-back": [THIRD, FIRST, SECOND, LAST],
    "all-rotated": [LAST, FIRST, SECOND, THIRD],
    "batches-exchanged": [[*FIRST[:2], THIRD[2], *FIRST[3:]], SECOND, [*THIRD[:2], FIRST[2], *THIRD[3:]], LAST],
    "batches-rotated": [[*FIRST[:-1], SECOND[0]], [THIRD[1], *SECOND[1:]], [THIRD[0], FIRST[-1], *THIRD[2:]], LAST],
    "twice": [FIRST, SECOND, THIRD, LAST, FIRST],
    "exchanged-and-damaged": [[SECOND[0], SECOND[1][:-1] + b"\0", *SECOND[2:]], FIRST, THIRD, LAST],
}


def salvage(files, _acknowledge=None):
    managed(files, lambda manager: recover(manager, RecoverOptions(salvage=True)))


def misplaced_case(case_name, places):
    """Stop at any operation, then salvage again: every batch is found; there may be one more segment where a file was kept."""
    disk = log_dir(closed(segments()), clean=False)
    logs = {name(base): b"".join(batches) for base, batches in zip(BASES, places, strict=False)}
    disk = disk._replace(contents=disk.contents | logs, unsynced=frozenset())
    found = [batch for place in places for batch in place]
    wanted = {base: batch for base, batch in batches_of(segments()).items() if batch in found}

    def check(after, _acknowledged, done):
        if not done:
            again = CrashFiles(after)
            salvage(again)
            after = again.disk()
        assert broker_sees(after).batches == wanted
        assert not any(path.endswith(ASIDE) for path in after.contents)
        logs = {path for path in after.contents if path.endswith(".log")}
        assert not done or logs == {name(base) for base, _ in segments()}

    return Case(f"log-dir-salvage-{case_name}", disk, salvage, check)


CASES_SALVAGE = [misplaced_case(case_name, places) for case_name, places in PLACES.items()]
