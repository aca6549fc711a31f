"""Every operation, stopped and failed at every place. `make crash` draws more power cuts and takes every error."""

from __future__ import annotations

import errno
import os

import pytest

from tests.crash.cases_07 import CASES_07
from tests.crash.cases_append import CASES_APPEND
from tests.crash.cases_compact import CASES_COMPACT
from tests.crash.cases_log import CASES_LOG
from tests.crash.cases_manager import CASES_MANAGER
from tests.crash.sweep import ERRORS, cuts, passes, play, stops, sync_sites, troubles

FULL = os.environ.get("KAFKALOG_CRASH") == "full"
CASES = [*CASES_07, *CASES_LOG, *CASES_APPEND, *CASES_COMPACT, *CASES_MANAGER]
BY_NAME = {case.name: case for case in CASES}

# which operation notices that a sync is missing; `make crash` looks through all of them for the others
NOTICES = {
    "engine/files.py:replace:0": "recover-middle",
    "engine/files.py:replace:1": "log-dir-delete-records",
    "engine/index/backing.py:sync_changes:0": "recover-no-indexes",
    "engine/log/segment/deferred.py:mark_segments:0": "recover-middle",
    "engine/log/kafka07/log.py:open_log_07:0": "append-07",
    "engine/log/kafka07/log.py:roll:0": "append-07",
    "engine/log/kafka07/log.py:_delete_while:0": "retain-size-07",
    "engine/log/kafka07/manager.py:get_or_create:0": "broker-07",
    "engine/log/kafka07/manager.py:mark_clean_07:0": "broker-07",
    "engine/log/kafka07/manager.py:start:0": "broker-07",
    "engine/log/kafka07/segment.py:flush:0": "append-07",
    "engine/log/kafka07/segment.py:recover:0": "recover-07",
    "engine/log/logdir/log_manager.py:purge_deleted_directories:0": "log-dir-purge",
    "engine/log/quarantine/manifest.py:append:0": "quarantine",
    "engine/log/quarantine/manifest.py:close:0": "quarantine",
    "engine/log/operations/operation.py:take_marker:0": "log-dir-delete-records",
    "engine/log/quarantine/seam.py:_begin:0": "quarantine",
    "engine/log/operations/recover.py:_forget_clean_shutdown:0": "log-dir-mark-clean-again",
    "engine/log/quarantine/seam.py:_copy:0": "quarantine-far",
    "engine/log/quarantine/seam.py:_store:0": "quarantine-far",
    "engine/log/quarantine/seam.py:_take_away:0": "quarantine-far",
    "engine/log/quarantine/restore.py:_move:0": "restore",
    "engine/log/quarantine/restore.py:_put:0": "restore-everything",
    "engine/log/quarantine/restore.py:_undo:0": "restore-everything",
    "engine/log/quarantine/restore.py:_undo:1": "restore-everything",
    "engine/log/quarantine/restore.py:_undo:2": "restore-everything",
    "engine/log/quarantine/restore.py:_undo:3": "restore-everything",
    "engine/log/quarantine/restore.py:_undo_rename:0": "restore-everything",
    "engine/log/quarantine/restore.py:_without_new:0": "restore-force",
    "engine/log/quarantine/restore.py:restore:0": "restore-far",
    "engine/log/operations/salvage.py:_write:0": "log-dir-salvage",
    "engine/log/segment/log_segment.py:sync_changes:0": "truncate-tail",
    "engine/log/verify/rebuild.py:run:0": "rebuild",
}
assert len(BY_NAME) == len(CASES)
SITES = {str(site): site for site in sync_sites()}
# what no operation here notices, and why: another sync follows before anything relies on it
COVERED = {
    "engine/log/append/adoption.py:move_batches:0": "tests/spark/test_sink_files.py leaves it out",
    "engine/log/append/adoption.py:adopt_segment:0": "closing the log syncs new names; tests/spark/test_sink_files.py stops there",
    "engine/log/partition/local_log.py:roll:0": "a flush syncs new names",
    "engine/log/quarantine/manifest.py:__init__:0": "the sync of the first entry is that of the same file",
    "engine/log/operations/mending.py:_set_aside:0": "checkpoints are written into the same directory behind it",
    "engine/log/quarantine/restore.py:_put:1": "the file was there before, or is renamed and synced then",
    "engine/log/operations/salvage.py:_write:1": "without a marker indexes are made anew",
    "engine/log/operations/salvage.py:_write:2": "recovery follows, and ends with a sync of the directory",
    "engine/log/segment/splitting.py:replace_segments:1": "a `.swap` is put in its place by the next start, and closing syncs the directory",
}

# which `make crash` proves, as one of all operations notices them
PROVED_IN_FULL = frozenset({
    "engine/index/entries.py:flush:0", "engine/log/partition/local_log.py:flush:0",
    "engine/log/partition/local_log.py:sync_new_names:0", "engine/log/producers/state_manager.py:take_snapshot:0",
    "engine/log/quarantine/restore.py:_note:0", "engine/log/quarantine/seam.py:_begin:1",
    "engine/log/segment/deferred.py:run:0", "engine/log/segment/leftovers.py:_sync:0",
    "engine/log/segment/segment_files.py:flush:0", "engine/log/segment/splitting.py:replace_segments:0",
})  # fmt: skip

pytestmark = pytest.mark.crash
by_case = pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])


@by_case
def test_nothing_acknowledged_is_lost(case):
    assert cuts(case, drawn=40 if FULL else 2) == []


@by_case
def test_a_stop_is_a_stop(case):
    changes = play(case).files.changes
    for number in range(0, changes, 1 if FULL else changes // 2 or 1):
        assert stops(case, number) is None


@by_case
@pytest.mark.parametrize("error", ERRORS if FULL else ERRORS[:1], ids=errno.errorcode.get)
def test_every_failure_is_told_and_the_log_still_opens(case, error):
    assert troubles(case, error, step=1 if FULL else 23) == []


def test_every_sync_is_known():
    """A name that moved would otherwise go untested, and so would a new one."""
    assert sorted(NOTICES.keys() | COVERED.keys() | PROVED_IN_FULL) == sorted(SITES)


@pytest.mark.parametrize("site", sorted(SITES) if FULL else sorted(NOTICES))
def test_a_missing_sync_is_noticed(site):
    if site in COVERED:
        pytest.skip(COVERED[site])
    first = [BY_NAME[NOTICES[site]]] if site in NOTICES else []
    coming_by = [case for case in [*first, *CASES] if passes(case, SITES[site])]
    assert coming_by, "no operation under test comes by here"
    chosen = coming_by if FULL else coming_by[:1]
    assert any(cuts(case, left_out=SITES[site], drawn=20, only_first=True) for case in chosen)
