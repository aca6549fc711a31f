"""What does not append keeps no batches of producers: behind a snapshot that is old there may be a million of them."""

from __future__ import annotations

import pytest

from engine.log.logdir import log_manager
from tests.support.run import kafkalog

NOW = "1700000000000"


@pytest.mark.parametrize(("words", "is_for_snapshots"), [
    (("retain",), True), (("roll",), True), (("truncate", "--to", "1"), True), (("delete-records", "--before", "1"), True),
    (("recover", "--no-quarantine"), True), (("append", "--input-format", "text", "--input", "/dev/null"), False),
    (("compact", "--config", "cleanup.policy=compact"), False),
], ids=lambda words: words[0] if isinstance(words, tuple) else "")  # fmt: skip
def test_what_is_remembered_of_producers(tmp_path, monkeypatch, words, is_for_snapshots):
    source, partition = tmp_path / "in", str(tmp_path / "t-0")
    source.write_text("one\ntwo\n")
    made = kafkalog("append", "--create", "--now", NOW, "--input-format", "text", "--input", str(source), "--producer-id", "7", partition)
    assert made.status == 0, made.err
    asked, opened = set(), log_manager.open_log

    def open_log(*arguments, **settings):
        asked.add(settings["options"].for_snapshots)
        return opened(*arguments, **settings)

    monkeypatch.setattr(log_manager, "open_log", open_log)
    done = kafkalog(*words, "--clean-start", "--now", NOW, partition)
    assert (done.status, asked) == (0, {is_for_snapshots}), done.err
