"""A seam that keeps every change in memory: what a dry run works on, with the same engine as the real run.

    seam       OverlayFiles: the operations of `engine.files.Files`
    open_file  a file that somebody holds open
    tree       what stands at which path
    changes    what was asked for, in order
    spill      a temporary file for written bytes that are too many for memory
    content    the bytes of a file as extents of other files, of memory, of zeros

Bytes that were not changed are never copied, however much is cut, lengthened by zeros, moved or copied from file to file;
only written bytes take memory, and many of them go to a `Spill` if there is one.
"""

from engine.overlay.content import Spill
from engine.overlay.open_file import OverlayFile
from engine.overlay.seam import OverlayFiles
from engine.overlay.tree import Operation

__all__ = ["Operation", "OverlayFile", "OverlayFiles", "Spill"]
