"""kafkalog delete-records: what lies below the offset goes, and nothing else."""

from __future__ import annotations

import shutil

from tests.support.run import kafkalog


def test_what_is_old_stays_where_only_the_start_moves(own_corpus, tmp_path):
    shutil.copytree(own_corpus / "kafka-4.3.1/logs/clean/d1/small_segments-0", tmp_path / "d/small_segments-0")
    shown = kafkalog("delete-records", "--before", "42", "--clean-start", "--high-watermark", "89", "--now", "1900000000000",
                     "d/small_segments-0", cwd=tmp_path)  # fmt: skip
    assert shown.status == 0, shown.err
    assert b"d/small_segments-0: offsets 42 to 89 in 3 segments" in shown.out
    left = sorted(int(path.stem) for path in (tmp_path / "d/small_segments-0").glob("*.log"))
    assert left == [42, 63, 83]
