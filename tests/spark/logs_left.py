"""What jobs that change logs leave, for tests of them."""

from __future__ import annotations

NOW = 1_800_000_000_000


def state(top):
    """Every file and its bytes, quarantines and locks aside; the lines of checkpoints in any order."""
    return {
        str(path.relative_to(top)): sorted(path.read_bytes().split(b"\n")) if path.name.endswith("-checkpoint") else path.read_bytes()
        for path in sorted(top.rglob("*"))
        if path.is_file() and ".quarantine" not in str(path) and path.name != ".lock"
    }  # fmt: skip


def log_dirs(top):
    return [str(path) for path in sorted(top.glob("d?"))]


def done(rows):
    return {(row["action"], row["directory"].rpartition("/")[2]) for row in rows}
