"""A seam that lets nothing be changed until it is told to: a log that opens without any change has lost nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.files_above import FilesAbove

if TYPE_CHECKING:
    from engine.files import Files


class Touched(Exception):  # an answer, no error
    """Something was about to be changed."""


class UntouchedFiles(FilesAbove):
    """`below`, of which nothing is changed before `release`: what would do so raises Touched.

    Methods are those of Files.
    """

    def __init__(self, below: Files) -> None:
        super().__init__(below)
        self._is_released = False

    def release(self) -> None:
        """Let everything through from now on."""
        self._is_released = True

    @property
    def _changing(self) -> Files:
        """As FilesAbove has it. Raises Touched."""
        if not self._is_released:
            raise Touched
        return self._below
