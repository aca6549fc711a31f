"""A file system interface that keeps every change in memory: a dry run uses it with the same engine as the real run.

    overlay_files  OverlayFiles: the operations of `engine.files.Files`
    tree  names, files and their bytes, open files, the list of changes, and a temporary file for large amounts of data

Unchanged bytes are never copied, even if files are truncated, lengthened by zeros, moved or copied. Only written bytes need
memory, and large amounts move to a `Spill` if there is one.
"""

from engine.overlay.overlay_files import OverlayFiles
from engine.overlay.tree import Operation, OverlayFile, Spill

__all__ = ["Operation", "OverlayFile", "OverlayFiles", "Spill"]
