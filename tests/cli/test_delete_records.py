"""kafkalog delete-records: what lies below the offset goes, and nothing else."""

from __future__ import annotations

import shutil

from tests.support.run import kafkalog


def test_what_is_old_stays_where_only_the_start_moves(own_corpus, tmp_path):
    shutil.copytree(own_corpus / "kafka-4.3.1/logs/clean/d1/small_segments-0", tmp_path / "d/small_segments-0")
    shown = kafkalog("delete-records", "--before", "42", "--clean-start", "--high-watermark", "89", "--now", "1900000000000",
                     "d/small_segments-0", cwd=tmp_path)  # fmt: skip
    assert shown.status == 0, shown.err
    assert b"d/small_segments-0: offsets 42 to 88 in 3 segments" in shown.out
    left = sorted(int(path.stem) for path in (tmp_path / "d/small_segments-0").glob("*.log"))
    assert left == [42, 63, 83]


def test_a_start_within_a_segment_that_nothing_keeps_is_told(own_corpus, tmp_path):
    """Beside a mere copy, as beside what Kafka's own engine opens, no checkpoint is made; one that is there is kept up."""
    shutil.copytree(own_corpus / "kafka-4.3.1/logs/clean/d1/small_segments-0", tmp_path / "d/small_segments-0")
    done = kafkalog("delete-records", "--before", "25", "d/small_segments-0", cwd=tmp_path)
    assert done.status == 0
    assert b"offset 25 is inside the first segment, and there is no log-start-offset-checkpoint beside the partition that records it" in done.out
    assert [path.name for path in (tmp_path / "d").iterdir() if path.is_file()] == [".lock"]
    (tmp_path / "d/log-start-offset-checkpoint").write_text("0\n0\n")
    done = kafkalog("delete-records", "--before", "25", "d/small_segments-0", cwd=tmp_path)
    assert b"is inside the first segment" not in done.out
    assert sorted(path.name for path in (tmp_path / "d").iterdir() if path.is_file()) == [".lock", "log-start-offset-checkpoint"]
    assert (tmp_path / "d/log-start-offset-checkpoint").read_text() == "0\n1\nsmall_segments 0 25\n"
    assert b"offsets 25 to 88" in kafkalog("roll", "--dry-run", "d/small_segments-0", cwd=tmp_path).out
    assert kafkalog("fetch", "--limit", "1", "-f", "%o\n", "d/small_segments-0", cwd=tmp_path).out == b"25\n"
