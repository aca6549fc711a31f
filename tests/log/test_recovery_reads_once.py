"""How much of a log a recovery reads: nobody waits twice for a disk that takes an hour for one reading."""

from __future__ import annotations

from engine.config.server import ServerConfig, Settings
from engine.files import Files, OpenFile
from engine.log.logdir.log_dirs import find_log_dirs
from engine.log.logdir.log_manager import LogManager
from engine.log.logdir.startup import survey
from engine.log.operations.recover import RecoverOptions, recover
from engine.log.report import Action
from tests.support.small_logs import batch

_VALUE = b"v" * (16 << 10)  # a batch of one record is read by its header alone


def test_a_segment_with_gaps_is_read_once_and_its_headers_again(tmp_path):
    read = []

    class CountedFile(OpenFile):
        __slots__ = ()

        def read_into(self, buffer, position):
            count = super().read_into(buffer, position)
            if self.path.endswith(".log"):
                read.append(count)
            return count

    class CountingFiles(Files):
        _opened = CountedFile

    partition = tmp_path / "t-0"
    partition.mkdir()
    log = partition / "00000000000000000000.log"
    kept = [offset for offset in range(400) if offset not in (100, 250, 251)]
    log.write_bytes(b"".join(batch(offset, value=_VALUE) for offset in kept))
    files = CountingFiles()
    settings = Settings(ServerConfig(), (("cleanup.policy", "delete"),))
    manager = LogManager(lambda _: files, survey(files, find_log_dirs(files, [str(partition)])), settings, 1)
    [report] = recover(manager, RecoverOptions(jobs=1))
    assert report.failure is None
    events = report.events
    lost = [(event.first_offset, event.end_offset) for event in events if event.action is Action.MISSING]
    assert lost == [(100, 101), (250, 252)]
    size = log.stat().st_size
    assert size <= sum(read) < size + size // 4
