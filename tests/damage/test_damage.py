"""Check the laws for every damage. `make damage` takes all kinds of starts and whole log dirs, the suite the unclean start.

Each command runs once on copies of all partitions, as on the partitions of a broker; each damage is a test.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.damage.laws import Case, log_dir_violations, violations
from tests.damage.repairs import all_partitions, start
from tests.damage.truth import MODES, damage_corpus, not_allowed, truth

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.damage.repairs import Start

FULL = os.environ.get("KAFKALOG_DAMAGE") == "full"
STARTS = MODES if FULL else MODES[:1]
DAMAGES = [(damage, mode) for mode in STARTS for damage, one in truth()["damages"].items() if mode in one]
LOG_DIRS = [(damage, mode) for damage, one in truth()["dirs"].items() for mode in MODES if mode in one and (FULL or mode == "clean")]


@pytest.fixture(scope="session")
def started(tmp_path_factory) -> Callable[[str], Start]:
    """Return started(mode): every partition before and after each repair, for that kind of start."""
    known: dict[str, Start] = {}

    def find(mode: str) -> Start:
        if mode not in known:
            known[mode] = all_partitions(mode, tmp_path_factory.mktemp(mode))
        return known[mode]

    return find


def grouped(pairs):
    """One group of tests for each kind of start, which is made once."""
    return [pytest.param(*pair, id="-".join(pair), marks=pytest.mark.xdist_group(f"damage-{pair[1]}")) for pair in pairs]


@pytest.mark.parametrize(("damage", "mode"), grouped(DAMAGES))
def test_a_damaged_partition(damage, mode, started):
    found = violations(Case(damage, mode, truth()["damages"][damage], started(mode)))
    assert not_allowed(damage, mode, found) == []


@pytest.mark.parametrize("mode", [pytest.param(mode, marks=pytest.mark.xdist_group(f"damage-{mode}")) for mode in STARTS])
def test_what_is_beside_damaged_partitions(mode, started):
    """Internal topics are sound; files of the log dirs are unchanged after a dry run and after `restore`."""
    every = started(mode)
    damaged = {one["partition"].partition("/")[2] for one in truth()["damages"].values()}
    wrong = [f"z: {name}: {verdict.verdict} {verdict.loud}" for name, verdict in every.verified.items()
             if name.startswith("__") and not verdict.is_silent]  # fmt: skip
    for label, repair in every.repairs.items():
        changed = {"dry run changed": repair.dry_changes, "restore does not bring back": repair.not_restored}
        wrong += [f"e: {label}: {what} {where}: {differ}" for what, found in changed.items()
                  for where, differ in found.items() if where not in damaged]  # fmt: skip
        wrong += [f"e: restore after {label}: {said}" for said in repair.restore_failed]
        wrong += [f"e: {label}: the dry run says other things of {where}" for where in sorted(repair.other_words - damaged)]
    assert wrong == []


@pytest.mark.parametrize(("damage", "mode"), LOG_DIRS)
def test_a_damaged_log_dir(damage, mode, tmp_path):
    every = start(damage_corpus() / "dirs" / damage, mode, tmp_path, {"recover": []})
    found = log_dir_violations(damage, mode, truth()["dirs"][damage][mode], every)
    assert not_allowed(f"dirs/{damage}", mode, found) == []
