"""Every operation, stopped and failed at every place. `make crash` draws more power cuts and takes every error."""

from __future__ import annotations

import errno
import os

import pytest

from tests.crash.cases_07 import CASES_07
from tests.crash.cases_append import CASES_APPEND
from tests.crash.cases_compact import CASES_COMPACT
from tests.crash.cases_log import CASES_LOG
from tests.crash.sweep import ERRORS, cuts, passes, play, stops, sync_sites, troubles

FULL = os.environ.get("KAFKALOG_CRASH") == "full"
CASES = [*CASES_LOG, *CASES_APPEND, *CASES_COMPACT, *CASES_07]
SITES = [site for site in sync_sites() if "kafka07" in site.path]

pytestmark = pytest.mark.crash
by_case = pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])


@by_case
def test_nothing_acknowledged_is_lost(case):
    assert cuts(case, drawn=60 if FULL else 3) == []


@by_case
def test_a_stop_is_a_stop(case):
    changes = play(case).files.changes
    for number in range(0, changes, 1 if FULL else changes // 3 or 1):
        assert stops(case, number) is None


@by_case
@pytest.mark.parametrize("error", ERRORS if FULL else ERRORS[:1], ids=errno.errorcode.get)
def test_every_failure_is_told_and_the_log_still_opens(case, error):
    assert troubles(case, error, step=1 if FULL else 17) == []


@pytest.mark.parametrize("site", SITES, ids=str)
def test_a_missing_sync_is_noticed(site):
    coming_by = [case for case in CASES if passes(case, site)]
    assert coming_by, "no operation under test comes by here"
    assert any(cuts(case, left_out=site, drawn=20, only_first=True) for case in coming_by)
