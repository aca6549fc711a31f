"""The file system interface: the engine reads and changes files through nothing else.

    seam       ReadOnlyFiles, Files: operations on paths; memory, the clock
    open_file  OpenFile, WritableFile: operations on open files
    locks      a log directory's lock, as Java takes it
    owner      file ownership; root takes the rights of the owner
    own_directory  directories of that owner outside of a log dir
    pins       directories held open
    refusals   errors for what the operating system refused

Tests replace `Files` with versions that stop, tear or fail any single operation.
"""

from engine.files.locks import Lock, is_locked
from engine.files.open_file import Buffer, OpenFile, WritableFile, hand_over, nameless_file
from engine.files.owner import (
    ROOT,
    Fault,
    NotAllowed,
    Owner,
    acting_as,
    acting_as_root,
    acting_owner,
    is_root,
    owner_of,
    ownership_fault,
    this_user,
    user_name,
)
from engine.files.refusals import LINK, is_full, taken, unreadable, unwritable
from engine.files.seam import (
    DiskSpace,
    FileInfo,
    Files,
    ReadOnlyFiles,
    environment_variable,
    look,
    may_write,
    now_ms,
    remove_tree,
    replace,
    zeros,
)

__all__ = [
    "LINK", "ROOT", "Buffer", "DiskSpace", "Fault", "FileInfo", "Files", "Lock", "NotAllowed", "OpenFile", "Owner",
    "ReadOnlyFiles", "WritableFile", "acting_as", "acting_as_root", "acting_owner",
    "environment_variable", "hand_over", "is_full", "is_locked",
    "is_root", "look",
    "may_write", "nameless_file", "now_ms", "owner_of", "ownership_fault", "remove_tree", "replace", "taken", "this_user",
    "unreadable",
    "unwritable", "user_name", "zeros",
]  # fmt: skip
