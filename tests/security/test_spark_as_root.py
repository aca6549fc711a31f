"""Root starts what Spark writes: log dirs of another user are refused before anything is changed, in the driver and in tasks."""

from __future__ import annotations

import os
import re
from importlib.util import find_spec

import pytest

from engine.files import acting_owner
from engine.log.cleaner.compaction import CompactionOptions
from engine.log.session import OpenOptions
from tests.support.needs import lacking
from tests.support.users import USER, as_root, give, state

pytestmark = as_root

if find_spec("pyarrow") is None:
    lacking("pyarrow is not installed", of_module=True)

from kafkalog_spark.errors import LogDirError  # noqa: E402  # after that check
from kafkalog_spark.jobs import upkeep  # noqa: E402  # after that check
from kafkalog_spark.jobs.upkeep import compact, recover  # noqa: E402  # after that check

NOW = 1764000000000
REFUSED = rf"belongs to user {USER}, and root does not take over that user's rights in Spark's processes"
JOBS = {
    "recover": lambda *paths: recover(None, *paths, now=NOW),
    "compact": lambda *paths: compact(None, *paths, config={"cleanup.policy": "compact"}, options=CompactionOptions(force=True), now=NOW),
}


@pytest.fixture
def log_dir(damaged):
    """It is root's as yet."""
    return damaged


def given(log_dir, what):
    """Give away all of the log dir, or some of it → the path to name."""
    give(log_dir if what in ("log dir", "one named") else log_dir / "u-rolls-0")
    if what == "linked":
        aside = log_dir.parent / "aside"
        (log_dir / "u-rolls-0").rename(aside)
        (log_dir / "u-rolls-0").symlink_to(aside)
    return str(log_dir / "u-rolls-0" if what == "one named" else log_dir)


@pytest.mark.parametrize("what", ["log dir", "one named", "a partition", "linked"])
@pytest.mark.parametrize("job", JOBS)
def test_jobs_refuse_before_anything_is_changed(job, what, log_dir, top):
    path = given(log_dir, what)
    before, rights = state(top), (os.geteuid(), os.getegid(), os.getgroups())
    with pytest.raises(LogDirError, match=REFUSED):
        JOBS[job](path)
    assert state(top) == before
    assert (os.geteuid(), os.getegid(), os.getgroups()) == rights
    assert acting_owner() is None


def test_a_task_refuses_what_was_given_away_since_the_job_began(log_dir, top):
    """Its driver may be another process, on another machine."""
    give(log_dir / "u-rolls-0")
    before = state(top)
    work = upkeep.Assignment(OpenOptions(now=NOW), (), lambda _logs: pytest.fail("it worked there"))
    [row] = upkeep._rows([str(log_dir)], work)
    assert (row["action"], row["directory"]) == (upkeep.FAILED, str(log_dir))
    assert re.search(REFUSED, row["reason"])
    assert state(top) == before


@pytest.fixture
def sink(log_dir):
    """Makes a sink that appends to the log dir."""
    if find_spec("pyspark.sql.datasource") is None:
        lacking("data sources in Python need pyspark 4")
    from pyspark.sql.types import BinaryType, StructField, StructType

    from kafkalog_spark.sink.writers import KafkaLogWriter

    schema = StructType([StructField("value", BinaryType())])
    return lambda path=log_dir: KafkaLogWriter({"path": str(path), "topic": "u-rolls", "numPartitions": "1"}, schema, overwrite=True)


@pytest.mark.parametrize("what", ["log dir", "a partition", "linked"])
def test_the_sink_refuses(what, sink, log_dir, top):
    given(log_dir, what)
    before = state(top)
    with pytest.raises(LogDirError, match=REFUSED):
        sink()
    assert state(top) == before


def test_the_sink_makes_no_directory_in_that_of_another_user(sink, log_dir, top):
    give(log_dir)
    before = state(top)
    with pytest.raises(LogDirError, match=REFUSED):
        sink(log_dir / "new" / "deeper")
    assert state(top) == before


@pytest.mark.parametrize("what", ["log dir", "a partition"])
def test_the_sink_refuses_what_was_given_away_since_it_was_made(what, sink, log_dir, top):
    made = sink()
    given(log_dir, what)
    before = state(top)
    with pytest.raises(LogDirError, match=REFUSED):
        made.write(iter(()))
    with pytest.raises(LogDirError, match=REFUSED):
        made.commit([])
    with pytest.raises(LogDirError, match=REFUSED):
        made.abort([])
    assert state(top) == before
