"""Tables are written to no place where logs lie: nothing of them goes."""

from __future__ import annotations

import shutil

import pytest

from kafkalog_spark.errors import LogDirError, OptionError
from kafkalog_spark.jobs.export import check_target


@pytest.fixture
def broker(own_corpus, tmp_path):
    """A broker's log dir, deep below tmp_path/top."""
    made = tmp_path / "top/of/some/brokers/here/of/ours/d0"
    shutil.copytree(next(own_corpus.glob("kafka-4.3.1/logs/clean/*/codec.none-0")), made / "codec.none-0")
    (made / "meta.properties").write_text("version=1\n")
    return made


def refused(to, mode, *sources):
    with pytest.raises(OptionError) as error:
        check_target(str(to), mode, map(str, sources))
    return str(error.value)


def test_logs_are_not_overwritten(broker, tmp_path):
    (tmp_path / "link").symlink_to(broker.parent)
    for to in (broker, broker.parent, broker / "codec.none-0", f"{broker}/", f"file://{broker}", tmp_path / "link"):
        assert "which overwriting would delete" in refused(to, "overwrite")
    check_target(str(tmp_path / "top"), "overwrite", ["/"])  # too deep to be looked for, and not named
    for source in (broker, tmp_path / "link", tmp_path / "top/*/some", broker / "codec.none-0"):
        assert "is in it, and overwriting would delete it" in refused(tmp_path / "top", "overwrite", source)
    assert "a file; name the directory" in refused(broker / "codec.none-0/00000000000000000000.log", "overwrite")


def test_nothing_is_put_into_a_log_dir(broker, tmp_path):
    for to in (broker, broker / "codec.none-0"):
        assert "it contains logs" in refused(to, "append")
    for mode in ("error", "append", "overwrite"):
        assert "a log dir of a broker" in refused(broker / "lake", mode)
        assert "a log dir of a broker" in refused(broker / "codec.none-0/lake", mode)


def test_other_places_are_free(broker, tmp_path):
    lake = tmp_path / "lake-0"
    (lake / "topic=a-0").mkdir(parents=True)
    (lake / "topic=a-0/part-0.parquet").touch()
    (tmp_path / "empty-0").mkdir()
    (tmp_path / "empty-0/_SUCCESS").touch()
    places = (lake, tmp_path / "empty-0", tmp_path / "new/lake", "s3a://bucket/lake", "hdfs://lake")
    for to in places:
        for mode in ("error", "append", "overwrite"):
            check_target(str(to), mode, [str(broker)])
    check_target(str(broker.parent), "append", [str(broker)])
    with pytest.raises(LogDirError, match="nowhere"):
        check_target(str(lake), "overwrite", [str(tmp_path / "nowhere")])


def test_export_keeps_what_it_reads(spark, broker):
    from kafkalog_spark.jobs.export import export

    before = sorted(path.name for path in broker.rglob("*"))
    for to in (broker, broker.parent.parent):
        with pytest.raises(OptionError, match="overwriting would delete"):
            export(spark, str(broker), to=str(to), mode="overwrite")
    assert sorted(path.name for path in broker.rglob("*")) == before
