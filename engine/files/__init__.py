"""The file system interface: the engine reads and changes files through nothing else.

    interface  ReadOnlyFiles, Files: operations on paths; memory, the clock
    open_file  OpenFile, WritableFile: operations on open files; errors for what the operating system refused; directories
               held open
    locks      a log directory's lock, as Java takes it
    owner      file ownership; root takes the rights of the owner; paths that root follows
    own_directory  directories of that owner outside of a log dir
    processes  removed files that a process has open

Tests replace `Files` with versions that stop, tear or fail any single operation.
"""

from engine.files.interface import (
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
from engine.files.locks import Lock, is_locked, lock_holder
from engine.files.open_file import (
    LINK,
    Buffer,
    OpenFile,
    Stream,
    WritableFile,
    hand_over,
    is_full,
    mount_step,
    nameless_file,
    open_stream,
    taken,
    unreadable,
    unwritable,
)
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
    resolve_trusted,
    this_user,
    user_name,
)
from engine.files.processes import UnlinkedFile, unlinked_files

__all__ = [
    "LINK", "ROOT", "Buffer", "DiskSpace", "Fault", "FileInfo", "Files", "Lock", "NotAllowed", "OpenFile", "Owner",
    "ReadOnlyFiles", "Stream", "UnlinkedFile", "WritableFile", "acting_as", "acting_as_root", "acting_owner",
    "environment_variable", "hand_over", "is_full", "is_locked",
    "is_root", "lock_holder", "look",
    "may_write", "mount_step", "nameless_file", "now_ms", "open_stream", "owner_of", "ownership_fault", "remove_tree",
    "replace", "resolve_trusted", "taken", "this_user",
    "unlinked_files", "unreadable", "unwritable", "user_name", "zeros",
]  # fmt: skip
