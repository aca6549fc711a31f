"""Files that a process has open although they have no name any more: their bytes are on the disk until it closes them.

The module stands alone: it is the only code that reads /proc.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import NamedTuple

from engine.errors import UnreadableFile

_MARK = " (deleted)"  # which the kernel adds to the name of a removed file


class UnlinkedFile(NamedTuple):
    """A removed file that a process has open.

    path    under which it can be opened as long as the process has it open
    target  its last path, as the process sees it: in a container another one than here
    """

    path: str
    target: str
    size: int
    inode: tuple[int, int]


def unlinked_files(process: int) -> list[UnlinkedFile]:
    """Return the plain files without a name that `process` has open, each once. Raises UnreadableFile."""
    directory = f"/proc/{process}/fd"
    try:
        numbers = sorted(os.listdir(directory), key=lambda name: (len(name), name))
    except OSError as error:
        if error.errno == errno.ENOENT:
            do = "pgrep -f kafka.Kafka    # process ids of brokers"
            raise UnreadableFile(f"there is no process {process} here", do=do, path=directory) from error
        what = f"{directory}: {error.strerror}: the open files of process {process} cannot be listed"
        do = "run the command as root, or as the user that the broker runs as"
        raise UnreadableFile(what, do=do, path=directory) from error
    found: dict[tuple[int, int], UnlinkedFile] = {}
    for number in numbers:
        path = f"{directory}/{number}"
        try:
            target, status = os.readlink(path), os.stat(path)
        except OSError:  # closed meanwhile
            continue
        inode = status.st_dev, status.st_ino
        if target.endswith(_MARK) and stat.S_ISREG(status.st_mode) and not status.st_nlink:
            found.setdefault(inode, UnlinkedFile(path, target.removesuffix(_MARK), status.st_size, inode))
    return list(found.values())
