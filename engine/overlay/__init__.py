"""A seam that keeps every change in memory: what a dry run works on, with the same engine as the real run.

    seam  OverlayFiles: the operations of `engine.files.Files`
    tree  names, files and their bytes, open files, the list of changes, and a temporary file for what is too much for memory

Bytes that were not changed are never copied, however much is cut, lengthened by zeros, moved or copied from file to file;
only written bytes take memory, and many of them go to a `Spill` where there is one.
"""

from engine.overlay.seam import OverlayFiles
from engine.overlay.tree import Operation, OverlayFile, Spill

__all__ = ["Operation", "OverlayFile", "OverlayFiles", "Spill"]
