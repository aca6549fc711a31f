"""Floods of findings: the first ones, and the number of the rest."""

from __future__ import annotations

from engine.files import ReadOnlyFiles
from engine.findings import Finding, Where
from engine.log import finding_limits
from engine.log.finding_limits import FindingLimiter
from engine.log.verify.partition import verify_partition
from engine.record.builder import NewRecord, build_batch


def numbered(path, count, code="crc-mismatch"):
    return [Finding(code, Where(path, number, number), "wrong") for number in range(count)]


def through(findings):
    passed = []
    limiter = FindingLimiter(passed.append)
    for finding in findings:
        limiter(finding)
    limiter.finish()
    return passed


def test_a_thousand_of_a_code_about_a_file(monkeypatch):
    monkeypatch.setattr(finding_limits, "MAX_FINDINGS", 5)
    findings = [*numbered("a", 5), *numbered("b", 9), *numbered("b", 2, "offset-order")]
    passed = through(findings)
    assert passed[:12] == [*findings[:10], *findings[14:]]
    assert passed[12:] == [Finding("crc-mismatch", Where("b"), "4 more", 4)]


def test_the_first_of_each_file_beyond_what_a_partition_may_have(monkeypatch):
    monkeypatch.setattr(finding_limits, "MAX_FINDINGS", 5)
    monkeypatch.setattr(finding_limits, "MAX_OF_A_CODE", 7)
    passed = through([*numbered("a", 9), *numbered("b", 9), *numbered("c", 9), *numbered("d", 1)])
    assert [finding.where.file for finding in passed if finding.where.position is not None] == [*"aaaaabbcd"]
    assert [(finding.where.file, finding.occurrences) for finding in passed[9:]] == [("a", 4), ("b", 7), ("c", 8)]


def test_what_is_said_of_a_file_as_a_whole_comes_through(monkeypatch):
    monkeypatch.setattr(finding_limits, "MAX_FINDINGS", 2)
    whole = Finding("offset-gap", Where("a"), "500 more gaps", 500)
    assert through([*numbered("a", 2, "offset-gap"), whole]) == [*numbered("a", 2, "offset-gap"), whole]


def test_every_batch_of_a_log_may_be_wrong(tmp_path, monkeypatch):
    """Leader epochs that go back, offsets that do: each batch is one, and memory must not grow with them."""
    monkeypatch.setattr(finding_limits, "MAX_FINDINGS", 3)
    batches = [build_batch([NewRecord(10, 1, None, b"x")], partition_leader_epoch=epoch) for epoch in (5, 1) * 20]
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0/00000000000000000000.log").write_bytes(b"".join(batches))
    found = []
    verify_partition(ReadOnlyFiles(), str(tmp_path / "t-0"), found.append)
    for code, number, count in (("offset-order", 4, 39), ("epoch-order", 4, 20)):
        of_code = [finding for finding in found if finding.code == code and finding.where.file.endswith(".log")]
        assert len(of_code) == number, code
        assert sum(finding.occurrences for finding in of_code) == count, code
