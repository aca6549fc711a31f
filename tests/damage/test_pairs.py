"""Check the laws that need no broker for random pairs of damages. `make damage SEED=N` takes another seed."""

from __future__ import annotations

import os

import pytest

from tests.damage.evidence import compare, copy_log_dirs, partition_in, prepare, tree, without_expired
from tests.damage.laws import Case, new_events, unsettled, violations
from tests.damage.maker import make_pairs
from tests.damage.repairs import reports_of, settings_for, start
from tests.damage.truth import MODES, not_allowed
from tests.support.run import kafkalog

FULL = os.environ.get("KAFKALOG_DAMAGE") == "full"
SEED = int(os.environ.get("KAFKALOG_DAMAGE_SEED") or "1")
STARTS = MODES if FULL else MODES[:1]
# what a second run must not change; `--clean-start` is not among them: a broker that starts so changes snapshots twice
OPTIONS = [
    [], ["--full"], ["--salvage"], ["--salvage", "--full"], ["--mark-clean"], ["--salvage", "--mark-clean"],
    ["--start-beyond-end", "keep"], ["--start-beyond-end", "delete", "--full"], ["--log-start-offset", "30"],
]  # fmt: skip


def modified(top, names):
    """Return the modification times (ns) of files below `top`."""
    return {name: (top / name).stat().st_mtime_ns for name in names if not name.endswith("/")}


def by_mode(modes):
    return [pytest.param(mode, marks=pytest.mark.xdist_group(f"pairs-{mode}")) for mode in modes]


@pytest.mark.parametrize("mode", by_mode(STARTS))
def test_the_laws_hold_of_pairs_of_damages(mode, tmp_path):
    pairs = make_pairs(tmp_path / "made", SEED)
    every = start(tmp_path / "made/before", mode, tmp_path / "work")
    found = {f"{one['partition']} {one['id']}": not_allowed(one["id"], mode, violations(Case(one["id"], mode, one, every)))
             for one in pairs}  # fmt: skip
    assert {what: said for what, said in found.items() if said} == {}, f"seed {SEED}"


@pytest.mark.parametrize("options", OPTIONS if FULL else OPTIONS[1:6:2], ids=" ".join)
@pytest.mark.parametrize("mode", by_mode(("unclean", "clean") if FULL else ("unclean",)))
def test_a_second_run_changes_nothing(mode, options, tmp_path):
    """Its status is 0, or 4 for problems that the first run left and reported. Nor does it rewrite a file with the same bytes:

    a plain `restore` of the first run would take that for a change.
    """
    ids = {one["partition"].partition("/")[2]: one["id"] for one in make_pairs(tmp_path / "made", SEED)}
    top = copy_log_dirs(tmp_path / "made/before", tmp_path / "work")
    prepare(mode, top)
    words = ["recover", *settings_for(tmp_path), "--no-quarantine", *options, *map(str, sorted(top.glob("d?")))]
    first = kafkalog(*words)
    left = tree(top)
    times = modified(top, left)
    second = kafkalog(*words)
    after = tree(top)
    as_mode = "full" if {"--full", "--mark-clean"} & set(options) else "unclean"
    changed = {
        f"{where} {ids.get(where)}": said for where, differ in compare(left, without_expired(left, after)).items()
        if (said := unsettled(differ, partition_in(top, where), as_mode))
    }  # fmt: skip
    reports = reports_of(first)
    found = {f"{name} {ids.get(name)}": (report["exit_status"], new) for name, report in reports_of(second).items()
             if (new := new_events(reports[name], report)) or report["exit_status"] not in (0, 4)}  # fmt: skip
    assert (changed, found) == ({}, {}), f"seed {SEED}"
    same = [name for name, data in after.items() if name in left and left[name] == data]
    touched = [name for name, time in modified(top, same).items() if time != times[name]]
    assert touched == [], f"seed {SEED}: rewritten with the same bytes"
