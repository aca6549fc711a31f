"""A dump of several files: which of them stands beside which."""

from __future__ import annotations

import pytest

from engine.discovery.names import file_name, parse_file_name
from engine.dump.renderer import DumpOptions
from engine.dump.run import Dump
from tests.support.memory_files import MemoryFiles
from tests.support.small_logs import PARTITION, batch

STEM = f"{PARTITION}/00000000000000000000"
ENTRY = (8).to_bytes(4, "big") + (0).to_bytes(4, "big")  # the batch at byte 0 ends at offset 8
FITTING, OTHER = batch(0, 9), batch(0, 7)


class Silent:
    """A DumpRenderer."""

    def file(self, path, name):
        pass

    def sound_index(self, path):
        pass


def check(contents, path):
    """Codes of what is found when the index at `path` is held against its log."""
    findings = []
    dump = Dump(MemoryFiles(contents), DumpOptions(verify_only=True), Silent(), findings.append)
    dump.dump(path, parse_file_name(file_name(path)))
    return [finding.code for finding in findings]


@pytest.mark.parametrize(("renamed", "plain", "codes"), [
    (FITTING, OTHER, []), (OTHER, FITTING, ["index-offset-mismatch"]), (None, FITTING, []), (None, OTHER, ["index-offset-mismatch"]),
])  # fmt: skip
def test_the_log_that_was_renamed_in_the_same_way_goes_first(renamed, plain, codes):
    contents = {f"{STEM}.index.deleted": ENTRY, f"{STEM}.log": plain}
    if renamed is not None:
        contents[f"{STEM}.log.deleted"] = renamed
    assert check(contents, f"{STEM}.index.deleted") == codes


def test_an_index_that_was_not_renamed_keeps_to_its_log():
    contents = {f"{STEM}.index": ENTRY, f"{STEM}.log": FITTING, f"{STEM}.log.deleted": OTHER}
    assert check(contents, f"{STEM}.index") == []
