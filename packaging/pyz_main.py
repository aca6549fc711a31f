"""The start of kafkalog.pyz: chooses where it unpacks itself, once; the rest is shiv's.

In the first of these that is a directory of this user's own, and that can be written: $SHIV_ROOT, $XDG_CACHE_HOME/kafkalog,
~/.cache/kafkalog, /tmp/kafkalog-UID. A directory that another user owns or can write is never used: its code would run with
this user's rights.
"""

import os
import stat
import sys
import tempfile


def own_directory(path):
    """Is this a directory that only this user can change? It is made if it is not there."""
    try:
        os.makedirs(path, 0o700, exist_ok=True)
        status = os.lstat(path)
    except OSError:
        return False
    is_own = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o022
    return is_own and os.access(path, os.W_OK | os.X_OK)


def root():
    """The directory to unpack in."""
    caches = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    named = os.environ.get("SHIV_ROOT")
    choices = [named] if named else [f"{caches}/kafkalog", f"{tempfile.gettempdir()}/kafkalog-{os.geteuid()}"]
    for path in choices:
        if own_directory(path):
            return path
    sys.exit(f"kafkalog: cannot unpack in {' or '.join(choices)}: set SHIV_ROOT to a directory of your own, with 60 MB of room")


if __name__ == "__main__":
    os.environ["SHIV_ROOT"] = root()

    from _bootstrap import bootstrap  # it reads SHIV_ROOT

    bootstrap()
