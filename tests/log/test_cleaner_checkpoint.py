"""cleaner-offset-checkpoint of a log dir with many logs: read once, whatever the number of logs that are compacted."""

from __future__ import annotations

from engine.checkpoint.checkpoints import known_offsets
from engine.files import Files
from engine.log.cleaner.checkpoint import NAME, CheckpointFile, CleanerCheckpoint

LINES = 50


class CountingFiles(Files):
    """Counts what is asked of the disk."""

    def __init__(self):
        super().__init__()
        self.asked = []

    def exists(self, path):
        self.asked.append(path)
        return super().exists(path)

    def read(self, path, limit):
        self.asked.append(path)
        return super().read(path, limit)


def log_dir_of(tmp_path, lines):
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=x\n")
    for number in range(LINES):
        (tmp_path / f"t-{number}").mkdir()
    text = "".join(f"{topic} {partition} {offset}\n" for topic, partition, offset in lines)
    (tmp_path / NAME).write_text(f"0\n{len(lines)}\n{text}")
    return str(tmp_path)


def test_each_log_costs_the_same(tmp_path):
    log_dir = log_dir_of(tmp_path, [("t", number, 5) for number in range(LINES)])
    files, opened = CountingFiles(), {}

    def file_of(asked, directory):
        return opened.get(directory) or opened.setdefault(directory, CheckpointFile(asked, directory))

    taken = []
    for number in range(LINES):
        files.asked.clear()
        checkpoint = CleanerCheckpoint(files, f"{log_dir}/t-{number}", file_of)
        assert checkpoint.read() == 5
        checkpoint.write(files, 10 + number)
        taken.append(len(files.asked))
    assert taken[0] > LINES  # the lines that may be stale, once
    assert max(taken[1:]) <= 2
    offsets, fault = known_offsets(Files(), f"{log_dir}/{NAME}")
    assert (fault, offsets) == (None, {("t", number): 10 + number for number in range(LINES)})


def test_stale_lines_go_and_sound_ones_stay(tmp_path):
    log_dir = log_dir_of(tmp_path, [("gone", 0, 7), ("t", 3, 8), ("t", -1, 8), ("t", 4, 9)])
    CheckpointFile(Files(), log_dir).set_lines(Files(), {("t", 3): 20, ("t", 5): 21})
    assert (tmp_path / NAME).read_text() == "0\n3\nt 4 9\nt 3 20\nt 5 21\n"
