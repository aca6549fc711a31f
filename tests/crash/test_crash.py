"""Stop and fail every operation at every call. `make crash` stops at every place, draws more power cuts and tries every error."""

from __future__ import annotations

import errno
import os

import pytest

from tests.crash.cases_07 import CASES_07
from tests.crash.cases_append import CASES_APPEND
from tests.crash.cases_compact import CASES_COMPACT
from tests.crash.cases_log import CASES_LOG
from tests.crash.cases_manager import CASES_MANAGER
from tests.crash.cases_salvage import CASES_SALVAGE
from tests.crash.cases_undelete import CASES_UNDELETE
from tests.crash.sweep import ERRORS, OF_COMMITS, cuts, passes, play, problems, sites_in, stops, sync_sites

FULL = os.environ.get("KAFKALOG_CRASH") == "full"
CASES = [*CASES_07, *CASES_LOG, *CASES_APPEND, *CASES_COMPACT, *CASES_MANAGER, *CASES_SALVAGE, *CASES_UNDELETE]
BY_NAME = {case.name: case for case in CASES}

# which operation notices that a sync is missing
NOTICES = {
    "kafkalog_cli/commands/append.py:make_partition:0": "append-make",
    "engine/files/interface.py:replace:0": "recover-middle",
    "engine/files/interface.py:replace:1": "log-dir-delete-records",
    "engine/index/entries.py:_replace:0": "recover-over",
    "engine/index/entries.py:sync_changes:0": "truncate-tail",
    "engine/index/entries.py:flush:0": "append-flush",
    "engine/log/append/log_end.py:adopt_segment:0": "adopt",
    "engine/log/append/log_end.py:move_batches:0": "adopt",
    "engine/kafka07/log.py:_delete_while:0": "retain-size-07",
    "engine/kafka07/log.py:open_log_07:0": "append-07",
    "engine/kafka07/log.py:roll:0": "append-07",
    "engine/kafka07/segment.py:flush:0": "append-07",
    "engine/kafka07/segment.py:recover:0": "recover-07",
    "engine/log/logdir/log_manager.py:purge_deleted_directories:0": "log-dir-purge",
    "engine/log/operations/mending.py:_remove:0": "log-dir-mend-metadata",
    "engine/log/logdir/log_manager.py:remove_marker:0": "log-dir-delete-records",
    "engine/log/operations/full_disk.py:_remove:0": "make-room",
    "engine/log/operations/salvage.py:_write_all:0": "log-dir-salvage-below",
    "engine/log/operations/salvage.py:_write_all:1": "log-dir-salvage-rotated",
    "engine/log/operations/salvage.py:_write_all:2": "log-dir-salvage-twice",
    "engine/log/operations/salvage.py:_write_aside:0": "log-dir-salvage",
    "engine/log/operations/rejoin.py:_put_back:0": "undelete-segments",
    "engine/log/operations/copy_out.py:_copy_bytes:0": "undelete-copy",
    "engine/log/operations/copy_out.py:_copy_bytes:1": "undelete-copy-damaged",
    "engine/log/operations/copy_out.py:_finish:0": "undelete-copy-damaged",
    "engine/log/operations/copy_out.py:_finish:1": "undelete-copy",
    "engine/log/operations/undelete.py:put_back:0": "undelete-topic",
    "engine/log/partition/local_log.py:flush:0": "append-flush",
    "engine/log/partition/local_log.py:roll:0": "append-new",
    "engine/log/partition/local_log.py:sync_new_names:0": "roll",
    "engine/log/producers/state_manager.py:take_snapshot:0": "recover-retain",
    "engine/log/quarantine/manifest.py:__init__:0": "quarantine",
    "engine/log/quarantine/manifest.py:append:0": "quarantine",
    "engine/log/quarantine/manifest.py:close:0": "quarantine",
    "engine/log/quarantine/manifest.py:forget:0": "quarantine-dropped",
    "engine/log/quarantine/restore.py:_move:0": "restore",
    "engine/log/quarantine/restore.py:_put:0": "restore-everything",
    "engine/log/quarantine/restore.py:_undo:0": "restore-everything",
    "engine/log/quarantine/restore.py:_undo:1": "restore-everything",
    "engine/log/quarantine/restore.py:_undo:2": "restore-everything",
    "engine/log/quarantine/restore.py:_undo:3": "restore-everything",
    "engine/log/quarantine/restore.py:_undo_rename:0": "restore-everything",
    "engine/log/quarantine/restore.py:_without_new:0": "restore-force",
    "engine/log/quarantine/steps.py:_note:0": "restore-far",
    "engine/log/quarantine/kept.py:prune:0": "restore-prune",
    "engine/log/quarantine/quarantining_files.py:_begin:0": "quarantine",
    "engine/log/quarantine/quarantining_files.py:_begin:1": "quarantine",
    "engine/log/quarantine/quarantining_files.py:_copy:0": "quarantine-far",
    "engine/log/quarantine/quarantining_files.py:_sync_moves:0": "quarantine-snapshot",
    "engine/log/quarantine/quarantining_files.py:_written:0": "quarantine-far",
    "engine/log/quarantine/quarantining_files.py:_move_aside:0": "quarantine-far",
    "engine/log/segment/log_segments.py:mark_segments:0": "recover-middle",
    "engine/log/segment/log_segments.py:run:0": "roll-empty",
    "engine/log/loading/leftovers.py:_sync:0": "swap",
    "engine/log/segment/log_segment.py:_finish_before_offset_index:0": "recover-below",
    "engine/log/segment/log_segment.py:sync_changes:0": "truncate-tail",
    "engine/log/segment/log_segment.py:flush:0": "split",
    "engine/log/segment/splitting.py:replace_segments:0": "split",
    "engine/log/segment/splitting.py:replace_segments:1": "compact-kept",
    "engine/log/verify/rebuild.py:run:0": "rebuild",
}
assert len(BY_NAME) == len(CASES)
SITES = {str(site): site for site in sync_sites() if not str(site).startswith(OF_COMMITS)}
pytestmark = pytest.mark.crash
by_case = pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])


@by_case
def test_nothing_acknowledged_is_lost(case):
    assert cuts(case, drawn=40 if FULL else 2, step=1 if FULL else 2) == []


@by_case
def test_a_stop_is_a_stop(case):
    changes = play(case).files.changes
    for number in range(0, changes, 1 if FULL else changes // 2 or 1):
        assert stops(case, number) is None


@by_case
@pytest.mark.parametrize("error", ERRORS if FULL else ERRORS[:1], ids=errno.errorcode.get)
def test_every_failure_is_told_and_the_log_still_opens(case, error):
    assert problems(case, error, step=1 if FULL else 23) == []


def test_every_sync_is_known():
    """A renamed or new function with a sync must be added to the table above, otherwise it is not tested."""
    assert sorted(NOTICES) == sorted(SITES)


def test_a_new_sync_is_found():
    """At the top of a file, in a class, in a nested function, and as an argument instead of a call."""
    source = """
files.sync_directory("/d")
class One:
    file.sync()
    def close(self):
        with open_it() as file:
            later(file.sync)
        if self.files.sync_directory(self.path) or [one.sync() for one in self.all]:
            def inner():
                self.file.sync()
    def sync(self):
        self.below.sync()
"""
    found = [f"{site.function}:{site.number}" for site in sites_in("a.py", source)]
    assert found == ["<module>:0", "<module>:1", "close:0", "close:1", "close:2", "inner:0"]


@pytest.mark.parametrize("site", sorted(NOTICES))
def test_a_missing_sync_is_noticed(site):
    case = BY_NAME[NOTICES[site]]
    assert passes(case, SITES[site]), "the operation does not come by here"
    # most are noticed without chance, at the end of the operation
    assert any(cuts(case, left_out=SITES[site], drawn=drawn, only_first=True) for drawn in (0, 20))
