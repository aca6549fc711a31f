"""A file system interface that keeps every change in memory: a dry run uses it with the same engine as the real run.

    seam       OverlayFiles: the operations of `engine.files.Files`
    open_file  an open file
    tree       which path leads to which file
    content    the bytes of a file as extents of other files, of memory, of zeros

Unchanged bytes are never copied, even if files are truncated, lengthened by zeros, moved or copied. Only written bytes need
memory, and large amounts move to a `Spill` if there is one.
"""

from engine.overlay.content import Spill
from engine.overlay.open_file import OverlayFile
from engine.overlay.seam import OverlayFiles
from engine.overlay.tree import Operation

__all__ = ["Operation", "OverlayFile", "OverlayFiles", "Spill"]
